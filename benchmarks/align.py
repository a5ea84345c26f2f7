"""Word alignment on Hansards and Europarl: error rates, time and memory, beside eflomal, fast_align and a paper.

    make bench-align                                everything: about a quarter of an hour on two cores
    make bench-align ARGS="--sizes 10000 --no-es"   a quick look

Training text is the first N pairs, after the test (and dev) sentences. Thresholds and γ are chosen on ``dev``
(γ by the mean over thresholds near the default); the Europarl set has no dev, so it takes the threshold and γ of the
largest Hansards run. Nothing is chosen on test; the defaults come from ``align-defaults.py``.
Peers run as programs of their own, as do our timed runs: from files to symmetrised links.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
from _align import (
    METHODS,
    Text,
    aer,
    data_folder,
    find_eflomal,
    make_text,
    mean_aer,
    read_direction,
    symmetrized,
    timed,
)
from _small import arguments, scratch_folder

from trellis.apps.align.aligner import THRESHOLD, THRESHOLDS, Aligner
from trellis.apps.align.constraint_sets import CONSTRAINTS
from trellis.data.bitext import read_two_files
from trellis.engine import engine_for
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.training import Training
from trellis.loop import StepResult
from trellis.metrics.alignment import best_threshold, parse_links, precision_recall_curve, read_links
from trellis.models.alignment import AlignmentModel

GAMMAS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
PAPER = {  # Samdani et al. 2012, Table 2: the better of the two directions
    ("hansards", 10_000): {"EM": 19.63, "PR": 10.63, "CoDL": 14.68, "UEM": 9.10},
    ("hansards", 100_000): {"EM": 15.03, "PR": 8.09, "CoDL": 8.93, "UEM": 6.87},
    ("europarl-en-es", 50_000): {"EM": 24.46, "PR": 19.84, "CoDL": 22.99, "UEM": 18.93},
}
PLAIN = {
    "prefix": None,
    "same_spelling": 0.0,
    "diagonal_scale": float("inf"),
}  # whole words, nothing known of them: as in the papers
SENTENCE = (  # ours, with a word that makes a good garbage collector
    "the scrupulous committee will examine this difficult question again tomorrow",
    "demain le comite scrupuleux examinera de nouveau cette question difficile",
    "0-1 1-3 2-2 3?4 4-4 5-7 6-9 7-8 8-5 8-6 9-0",
)
DECODINGS = ["posterior", "intersection", "grow-diag-final-and"]


def judge(aligner: Aligner, text: Text, threshold: float | None) -> tuple[list[float], float, float]:
    """AER on test of the decodings; the threshold, chosen on dev where there is one; what dev says of the model."""
    pairs, n_test = text.gold_pairs(), len(text.test)
    if text.dev:
        threshold = aligner.tune_threshold(pairs[n_test:], text.dev)
    dev = mean_aer(aligner, pairs[n_test:], text.dev) if text.dev else float("nan")
    threshold = threshold or THRESHOLD
    found = []
    for decoding, at in (("posterior", THRESHOLD), *((name, threshold) for name in DECODINGS)):
        aligner.symmetrize, aligner.threshold_ = decoding, at
        found.append(aer(aligner.align(pairs[:n_test]), text.test))
    aligner.symmetrize = "posterior"
    return found, threshold, dev


def judge_directions(forward: Path, backward: Path, text: Text) -> list[float]:
    pairs = text.gold_pairs()[: len(text.test)]
    sides = read_direction(forward, pairs, True), read_direction(backward, pairs, False)
    out = []
    for method in METHODS:
        links = [symmetrized(method, pair, *own) for pair, *own in zip(pairs, *sides, strict=True)]
        out.append(aer(links, text.test))
    return out


def show(name: str, values: list[float], note: str = "") -> None:
    print(f"  {name:<34}" + "".join(f"{v:>9.2f}" for v in values) + f"   {note}", flush=True)


def on_dev(error: float) -> str:
    return "" if np.isnan(error) else f", dev {error:.2f}"


def accuracy(text: Text, carried: dict[str, float], gammas: list[float]) -> None:
    """The table of one text: our settings with three decodings, beside the paper's."""
    print(f"\n{text.name}, {text.size:,} pairs: AER on {len(text.test)} test sentences (%)")
    print(f"  {'':<34}{'at 0.4':>9}{'tuned':>9}{'intersec':>9}{'gdfa':>9}")
    pairs = list(read_two_files(text.source, text.target))
    paper = PAPER.get((text.name, text.size), {})
    rows = [
        ("EM", "EM", {"constraint": "none"}),
        ("PR, bijective", None, {"constraint": "bijective"}),
        ("PR, agreement", None, {"constraint": "agreement"}),
        ("PR, both", "PR", {"constraint": "both"}),
        ("close to LP-EM, both (γ = 0.05)", "CoDL", {"gamma": 0.05}),
    ]
    for name, column, options in rows:
        aligner = Aligner(**options).fit(pairs)
        found, threshold, dev = judge(aligner, text, carried.get(name))
        carried[name] = threshold
        if options == {"constraint": "both"}:
            regularized = found, threshold, dev  # which is unified EM at γ = 1
        beside = f"; paper {column} {paper[column]:.2f}" if column in paper else ""
        show(name, found, f"threshold {threshold:g}{on_dev(dev)}{beside}")
    best = None
    for gamma in gammas if text.dev else [carried.get("γ", 1.0)]:
        if gamma == 1.0:
            found, threshold, dev = regularized
        else:
            found, threshold, dev = judge(Aligner(gamma=gamma).fit(pairs), text, carried.get("UEM"))
        show(f"  UEM γ = {gamma}", found, f"threshold {threshold:g}{on_dev(dev)}")
        if best is None or dev < best[0]:
            best = dev, gamma, found, threshold
    assert best is not None
    carried["γ"], carried["UEM"] = best[1], best[3]
    beside = f"; paper {paper['UEM']:.2f}" if paper else ""
    show(f"UEM, γ = {best[1]} chosen on dev", best[2], f"threshold {best[3]:g}{beside}")


def peers(text: Text, work: Path, threads: int, *, install: bool) -> None:
    """Time and memory from files to symmetrised links; peers' error rates."""
    print(f"\n{text.name}, {text.size:,} pairs, {threads} threads: from files to symmetrised links")
    print(f"  {'':<34}{'seconds':>9}{'of CPU':>9}{'MB':>9}{'intersec':>9}{'gdfa':>9}")
    out = work / "links"
    command = [sys.executable, "-m", "trellis", "align", "-s", text.source, "-t", text.target, "-o", out, "-q"]
    own = timed([*map(str, command), "--threads", str(threads)])
    show("trellis align", list(own), f"posterior AER {aer_of_file(out, text):.2f}, threshold 0.4")
    eflomal = find_eflomal(install=install)
    if eflomal:
        forward, backward = work / "fwd", work / "rev"
        options = ["-s", text.source, "-t", text.target, "-f", forward, "-r", backward, "--overwrite"]
        peer = timed([eflomal, *map(str, options)])
        show("eflomal", [*peer, *judge_directions(forward, backward, text)])
        print(f"  trellis / eflomal: {own[0] / peer[0]:.2f} of the time, {own[1] / peer[1]:.2f} of the CPU time")
    if shutil.which("fast_align"):
        joined, forward, backward = work / "joined", work / "fa.fwd", work / "fa.rev"
        with open(joined, "w", encoding="utf-8") as lines:
            lines.writelines(f"{' '.join(s)} ||| {' '.join(t)}\n" for s, t in read_two_files(text.source, text.target))
        runs = [timed(["sh", "-c", f"fast_align -i {joined} -d -o -v {flag} > {path}"]) for flag, path in
                (("", forward), ("-r", backward))]  # fmt: skip
        total = [sum(r[0] for r in runs), sum(r[1] for r in runs), max(r[2] for r in runs)]
        show("fast_align, both directions", [*total, *judge_directions(forward, backward, text)])
    else:
        print("  fast_align is not on PATH")


def aer_of_file(path: Path, text: Text) -> float:
    rows = [row.possible for row in islice(read_links(path), len(text.test))]
    return aer(rows, text.test)


def cost_of_agreement(text: Text, threads: int) -> None:
    """Time of the projected E-step over that of the plain one, by round of the HMM."""
    model = AlignmentModel("model1", with_prior=False)
    batch = model.encode(read_two_files(text.source, text.target), fit=True)

    def round_of(kind: str, update: bool = False) -> tuple[float, StepResult]:
        constraints = CONSTRAINTS[kind]
        training = Training(model, batch, engine_for(threads))
        step = ProjectedStep(training, constraints, SolverSettings(0.05, 3), likelihood=False)
        began = time.monotonic()
        found = step.run(1.0)
        seconds = time.monotonic() - began
        if update:
            model.update(found.statistics, engine=training.engine)
        return seconds, found

    for _ in range(4):
        round_of("agreement", update=True)
    model.kind = "hmm"
    print(f"\n{text.name}, {text.size:,} pairs: seconds of an E-step of both directions")
    for number in range(3):
        plain, _ = round_of("none")
        for kind in ("agreement", "both"):
            projected, found = round_of(kind, update=kind == "both")
            print(
                f"  HMM round {number + 1}: plain {plain:.2f}, {kind} {projected:.2f}, ratio {projected / plain:.2f}, "
                f"{found.evaluations / len(batch):.1f} evaluations per pair, worst residual {found.kkt_residual:.3f}"
            )


def latency(text: Text, size: int = 20, most: int = 500) -> None:
    """Milliseconds that a pair of ``size`` words on each side takes in a resident aligner, one pair at a time."""
    pairs = list(read_two_files(text.source, text.target))
    aligner = Aligner(n_jobs=1).fit(pairs)
    long = [(left[:size], right[:size]) for left, right in pairs if min(len(left), len(right)) >= size][:most]
    long = long or pairs[:most]
    wall, processor = [], []
    aligner.align(long[:2])
    for pair in long:
        began = time.perf_counter(), time.process_time()
        aligner.align([pair])
        wall.append(1e3 * (time.perf_counter() - began[0]))
        processor.append(1e3 * (time.process_time() - began[1]))
    for name, found in (("wall", wall), ("CPU", processor)):
        median, last = np.percentile(found, (50, 99))
        print(
            f"{text.name}, {text.size:,} pairs: {name} ms per pair of {size} words: median {median:.1f}, p99 {last:.1f}"
        )


def grids(training: list, path: Path) -> None:
    """Posteriors of a pair of the training text before and after projection (Ganchev et al. 2010, Figure 5)."""
    from trellis.report.alignment import plot_posterior_grids

    source, target, gold = SENTENCE
    aligner = Aligner("none", **PLAIN).fit([*training, (source, target)])
    rows = {}
    for name, decode in (("regular", "none"), ("bijective", "bijective"), ("symmetric", "agreement")):
        aligner.set_params(decode_constraint=decode, projection_tol=1e-3, max_evaluations=300)
        rows[name] = aligner.posteriors([(source, target)])[0]
    plot_posterior_grids(source.split(), target.split(), rows, path, parse_links(gold))
    print(f"  posteriors of one sentence drawn in {path}")


def curves(text: Text, folder: Path) -> None:
    """Precision and recall by training and decoding constraint (Ganchev et al. 2010, Figure 6)."""
    from trellis.report.alignment import plot_precision_recall

    training = list(read_two_files(text.source, text.target))
    pairs = text.gold_pairs()[: len(text.test)]
    grids(training, folder / "align-grids.png")
    drawn = {}
    for name, constraint in (("regular", "none"), ("bijective", "bijective"), ("symmetric", "agreement")):
        aligner = Aligner(constraint, **PLAIN).fit(training)
        for projection, decode in (("no", "none"), ("bijective", "bijective"), ("symmetric", "agreement")):
            aligner.decode_constraint = decode
            rows = []
            for forward, _ in aligner.posteriors(pairs):
                rows.append({(int(i), int(j)): float(forward[i, j]) for i, j in np.argwhere(forward >= 0.01)})
            points = precision_recall_curve(rows, text.test, [0.01, 0.03, *THRESHOLDS, 0.95, 0.98])
            drawn[f"{name}, {projection} projection"] = points
            best = best_threshold(points)
            least = min(100 * p.scores.aer for p in points)
            print(f"  trained {name:<10} decoded {projection:<10} least AER {least:6.2f} at {best:g}")
    path = folder / "align-precision-recall.png"
    plot_precision_recall(drawn, path)
    print(f"  drawn in {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--gammas", type=float, nargs="*", default=GAMMAS)
    parser.add_argument("--no-peers", action="store_true", help="only error rates")
    parser.add_argument("--no-es", action="store_true")
    parser.add_argument("--latency", action="store_true", help="only the time of a pair in a resident aligner")
    parser.add_argument("--no-accuracy", action="store_true", help="only time and memory")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--es-size", type=int, default=50_000, help="pairs of English and Spanish")
    given = arguments(parser, sizes=[60], gammas=[0.5, 1.0], es_size=60)
    folder = data_folder()
    results = scratch_folder() if given.small else Path("benchmarks") / "results"
    results.mkdir(parents=True, exist_ok=True)
    carried: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as work_name:
        work = Path(work_name)
        if not given.small:
            # Kernels are compiled once and kept; this is not part of any time below.
            warm = make_text("hansards", 100, folder, work)
            timed([sys.executable, "-m", "trellis", "align", "-s", str(warm.source), "-t", str(warm.target), "-o",
                   str(work / "w"), "-q"])  # fmt: skip
        texts = [make_text("hansards", size, folder, work) for size in given.sizes]
        if not given.no_es:
            texts.append(make_text("europarl-en-es", given.es_size, folder, work))
        hansards = [text for text in texts if text.name == "hansards"]
        for text in hansards if given.latency or given.small else []:
            latency(text)
        if given.latency:
            return
        for text in [] if given.no_peers else hansards if given.small else texts:
            peers(text, work, given.threads, install=not given.small)
        if hansards and not given.no_peers:
            cost_of_agreement(hansards[-1], 1)
            print("\nGrowth of our time and memory")
            for size in sorted({hansards[-1].size // 4, hansards[-1].size}):
                text = make_text("hansards", size, folder, work)
                files = ["-s", text.source, "-t", text.target, "-o", work / "grown", "--threads", given.threads]
                command = [sys.executable, "-m", "trellis", "align", *files, "-q"]
                seconds, processor, megabytes = timed([str(part) for part in command])
                print(f"  {size:>9,} pairs: {seconds:.1f} s, {processor:.1f} s of CPU, {megabytes:.0f} MB")
        if not given.no_accuracy:
            for text in texts:
                accuracy(text, carried, given.gammas)
            if hansards:
                print(f"\nBy training and decoding constraint, {hansards[0].size:,} pairs, forward, whole words")
                curves(hansards[0], results)


if __name__ == "__main__":
    main()
