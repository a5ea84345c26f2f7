"""Fields of Cora citations from rules, few labels and 1,000 unlabelled ones: token accuracy beside the papers'.

    make bench-citations                                    models, methods: 5 draws of 5, 10, 20 labelled, all 300
    make bench-citations ARGS="--draws 2 --sizes 5 20"      less of it
    make bench-citations ARGS="--models"                    the models beside each other and beside python-crfsuite
    make bench-citations ARGS="--only PR CoDL"              methods of the HMM whose names have one of these words
    make bench-citations ARGS="--calibration"               how sure it is of fields, and how often it is right, on dev
    make bench-citations ARGS="--curve"                     with 5, 10, 20, ... labelled: Cora (dev) and both samples
    make bench-citations ARGS="--curve --only ads --draws 2 --most 40"   less of it
    make bench-citations ARGS="--rounds"                    a training round of the semi-Markov CRF beside the CRF's
    make bench-citations ARGS="--utility"                   and Table 3.7: each rule alone (--only-utility: that alone)

Rules: examples/citations/rules.toml. Settings: those of `trellis train`, chosen on the development set
(docs/extraction.md); γ of UEM is chosen on it here, for each draw. Reference figures: Chang 2011, Tables 3.3, 3.5
(AP-I, Bellare et al. 2009), 3.6 and 3.7, on another split of the same citations.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _kept import Kept
from _small import arguments

from trellis.apps.extract.confidence import field_probabilities
from trellis.apps.extract.explain import trained_utility
from trellis.apps.extract.extractor import Extractor
from trellis.apps.extract.features import TokenFeatures, boundary_features
from trellis.data.corpus import corpus_of
from trellis.data.text_files import read_labelled, read_texts
from trellis.data.tokens import Text, fields_of
from trellis.data.vocabulary import Vocabulary
from trellis.engine import shards_of
from trellis.metrics.calibration import calibration
from trellis.metrics.fields import score_fields
from trellis.models import CRF, SemiCRF

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "examples" / "citations" / "rules.toml"
GAMMAS = (0.1, 0.3, 0.5, 0.7)
PLAIN: dict[str, Any] = {"model_kind": "hmm", "back_off": 0.0, "usual_fields": False}
"""The thesis' model: no falling back on forms, no marks before transitions, and no rules but those of the file."""
# row: (name, settings, whether rules act in prediction)
ROWS = (
    ("supervised HMM", {"method": "supervised", **PLAIN}, False),
    ("supervised HMM + rules", {"method": "supervised", **PLAIN}, True),
    ("hard EM", {"method": "hard-em", **PLAIN}, False),
    ("EM", {"method": "em", **PLAIN}, False),
    ("CoDL, learned penalties", {"method": "codl", **PLAIN}, True),
    ("CoDL, hard", {"method": "codl", "hard": True, **PLAIN}, True),
    ("PR", {"method": "pr", **PLAIN}, True),
    ("UEM, γ chosen on dev", {"method": "uem", **PLAIN}, True),
)
SUPERVISED = (
    ("supervised CRF", {"model_kind": "crf"}, False),
    ("supervised CRF + rules", {"model_kind": "crf"}, True),
    ("supervised semi-CRF", {"model_kind": "semi-crf"}, False),
    ("supervised semi-CRF + rules", {"model_kind": "semi-crf"}, True),
)
PAPER = {
    "supervised HMM": {5: 58.48, 10: 63.37, 20: 70.78, 300: 86.69},
    "supervised HMM + rules": {5: 71.64, 10: 75.44, 20: 81.15, 300: 93.92},
    "hard EM": {5: 64.55, 10: 69.86, 20: 75.35, 300: 87.89},
    "CoDL, learned penalties": {5: 77.65, 10: 81.51, 20: 85.11, 300: 94.32},
    "CoDL, hard": {5: 78.18, 10: 81.11, 20: 85.16, 300: 92.80},
    "PR": {5: 74.6, 20: 85.1, 300: 94.3},
    "supervised semi-CRF": {300: 94.6},
}
TABLE_37 = {
    "(none)": (58.48, 64.55), "Start": (58.52, 64.52), "AppearsOnce": (58.69, 65.92), "Punctuation": (63.68, 71.23),
    "BookJournal": (58.96, 64.68), "Date": (61.50, 66.76), "Editors": (58.70, 64.77), "Journal": (58.66, 64.73),
    "Note": (58.55, 64.61), "Pages": (58.77, 64.68), "TechReport": (58.73, 64.43), "Title": (59.66, 65.54),
    "Location": (58.81, 64.97), "(all)": (71.64, 77.65),
}  # fmt: skip


class Citations:
    def __init__(self, folder: Path) -> None:
        self.train, self.dev, self.test = (
            [_upper(t) for t in read_labelled(folder / f"{part}.tsv")] for part in ("train", "dev", "test")
        )
        self.unlabelled = read_texts(folder / "unlabelled.tsv")

    def draw(self, n: int, number: int) -> list[Text]:
        if n >= len(self.train):
            return self.train
        rng = np.random.default_rng([n, number])
        return [self.train[i] for i in rng.choice(len(self.train), n, replace=False)]

    def draws(self, n: int, most: int) -> list[list[Text]]:
        return [self.draw(n, number) for number in range(1 if n >= len(self.train) else most)]


def _upper(text: Text) -> Text:
    labels = tuple(label if label is None else label.upper() for label in text.sentence.labels or ())
    return replace(text, sentence=replace(text.sentence, labels=labels))


def accuracy(data: Citations, few: list[Text], settings: dict[str, Any], constrained: bool) -> float:
    if settings["method"] != "uem":
        made = Extractor.from_file(RULES, **settings).fit(few, unlabelled=data.unlabelled)
        return 100 * made.score(data.test, constrained=constrained)
    tried = [Extractor.from_file(RULES, gamma=g, **settings).fit(few, unlabelled=data.unlabelled) for g in GAMMAS]
    return 100 * max(tried, key=lambda made: made.score(data.dev)).score(data.test)


def models(data: Citations, sizes: list[int], draws: int, kept: Kept) -> None:
    """The model kinds beside each other, and beside what labels alone give."""
    print(f"\nToken accuracy (field F1) on {len(data.test)} citations, ± standard error over {draws} draws", flush=True)
    for n in sizes:
        found: dict[str, list[tuple[float, float]]] = {}
        for number, few in enumerate(data.draws(n, draws)):
            for name, pair in kept.get(f"models, {n} labelled, draw {number}", partial(by_each, data, few))[
                "scores"
            ].items():
                found.setdefault(name, []).append(tuple(pair))
        print(f"{n} labelled")
        for name, pairs in found.items():
            mean, spread = np.mean(pairs, axis=0), ""
            if len(pairs) > 1:
                spread = " ±{:.1f} (±{:.1f})".format(*np.std(pairs, axis=0, ddof=1) / len(pairs) ** 0.5)
            paper = PAPER.get(name, {}).get(n)
            told = f"   paper {paper}" if paper else ""
            print(f"  {name:30}{mean[0]:.2f} ({mean[1]:.2f}){spread}{told}", flush=True)


def by_each(data: Citations, few: list[Text]) -> dict[str, Any]:
    """Token accuracy and field F1 of every model."""
    gold = [t.sentence.labels for t in data.test]
    each = {name: score_fields(gold, labels) for name, labels in outputs(data, few)}
    return {"scores": {name: (100 * one.accuracy, 100 * one.total.f1) for name, one in each.items()}}


def outputs(data: Citations, few: list[Text]) -> Iterator[tuple[str, Any]]:
    for kind in ("crf", "semi-crf", "hmm"):
        made = Extractor.from_file(RULES, model_kind=kind).fit(few, unlabelled=data.unlabelled)
        yield f"{kind}, PR", made.predict(data.test)
    for name, settings, constrained in SUPERVISED:
        alone = Extractor.from_file(RULES, method="supervised", usual_fields=False, **settings).fit(few)
        yield name, alone.predict(data.test, constrained=constrained)
    if find_spec("pycrfsuite") is not None:
        yield "python-crfsuite", by_crfsuite(few, data.test)


def by_crfsuite(few: list[Text], test: list[Text]) -> list[list[str]]:
    """python-crfsuite by its own settings, with our ready features: no rules, and labelled texts alone."""
    import pycrfsuite

    describe = TokenFeatures()

    def items(text: Text) -> list[list[str]]:
        tokens = [{"word": word} for word in text.sentence.words]
        return [describe(tokens, at) for at in range(len(tokens))]

    trainer = pycrfsuite.Trainer(verbose=False)
    for text in few:
        trainer.append(items(text), text.sentence.labels)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(f"{folder}/model")
        tagger = pycrfsuite.Tagger()
        tagger.open(f"{folder}/model")
        return [tagger.tag(items(t)) for t in test]


def compare(data: Citations, sizes: list[int], draws: int, only: list[str]) -> None:
    print(f"\nToken accuracy on {len(data.test)} citations (paper; ± standard deviation over {draws} draws)")
    print(f"{'':28}" + "".join(f"{f'{n} labelled':>24}" for n in sizes) + f"{'seconds':>10}")
    for name, settings, constrained in ROWS:
        if only and not any(word in name for word in only):
            continue
        begin, cells = time.perf_counter(), []
        for n in sizes:
            found = [accuracy(data, few, settings, constrained) for few in data.draws(n, draws)]
            spread = f" ±{np.std(found):.1f}" if len(found) > 1 else ""
            paper = PAPER.get(name, {}).get(n)
            cells.append(f"{np.mean(found):.1f}{spread}" + (f" ({paper:.1f})" if paper else " (-)"))
        print(f"{name:28}" + "".join(f"{c:>24}" for c in cells) + f"{time.perf_counter() - begin:>10.0f}", flush=True)
    print("Paper's column of PR: alternating projections with a CRF (AP-I of Table 3.5).")


def utility(data: Citations, draws: int) -> None:
    print("\nEach rule alone, with 5 labelled citations and all rules hard, as in Table 3.7 (paper)")
    supervised: dict[str, list[float]] = {}
    semi: dict[str, list[float]] = {}
    for few in data.draws(5, draws):
        made = Extractor.from_file(RULES, method="codl", hard=True, max_iter=5, **PLAIN).fit(
            few, unlabelled=data.unlabelled
        )
        for method, into in (("supervised", supervised), ("codl", semi)):
            for row in trained_utility(made, few, data.unlabelled, data.test, method=method, without=False):
                into.setdefault(row.name, []).append(100 * row.alone)
    print(f"{'':14}{'supervised':>20}{'semi-supervised':>20}")
    for name, (one, two) in TABLE_37.items():
        print(f"{name:14}{np.mean(supervised[name]):>12.1f} ({one:.1f}){np.mean(semi[name]):>12.1f} ({two:.1f})")


def sureness(data: Citations, sizes: list[int]) -> None:
    """Probabilities of fields beside how many of them are right, on the development set."""
    print("\nProbability of fields on the development set (in brackets the share that is right), one draw, the default")
    for n in sizes:
        made = Extractor.from_file(RULES).fit(data.draw(n, 0), unlabelled=data.unlabelled)
        labels = made.predict(data.dev)
        sure = [p for own in field_probabilities(made, data.dev, labels) for p in own]
        pairs = zip(data.dev, labels, strict=True)
        right = [f in fields_of(t, t.sentence.labels) for t, found in pairs for f in fields_of(t, found)]
        found = calibration(sure, right)
        bins = "  ".join(f"{one.n} at {one.probability:.2f} ({one.right:.2f})" for one in found.bins)
        print(f"{n:>4} labelled: expected calibration error {found.error:.3f};  {bins}", flush=True)


def curve(data: Citations, draws: int, most: int, only: list[str], picture: str | None, kept: Kept) -> None:
    """The default with more and more labels, each draw's texts among those of the next size, so that steps compare."""
    found: dict[str, Any] = {}
    for name, rules, pool, many, judged in (("Cora", RULES, data.train, data.unlabelled, data.dev), *samples()):
        if only and not any(word in name for word in only):
            continue
        sizes = [n for n in (5, 10, 20, 40, 80, 160, len(pool)) if n <= min(most, len(pool))]
        scores = np.zeros((draws, len(sizes), 2))
        for number in range(draws):
            order = np.random.default_rng([7, number]).permutation(len(pool))
            for at, n in enumerate(sizes):
                few = [pool[i] for i in sorted(order[:n])]
                which = "all" if n == len(pool) else f"draw {number}"  # all texts are the same in every draw
                scores[number, at] = kept.get(
                    f"curve, {name}, {n} labelled, {which}", partial(by_default, rules, few, many, judged)
                )["scores"]
            print(f"  {name}, draw {number}: " + "  ".join(f"{a:.1f}/{f:.1f}" for a, f in scores[number]), flush=True)
        found[name] = sizes, scores
        print(
            f"\n{name}, means of {draws} draws ± standard error\n{'labelled':>12}" + "".join(f"{n:>12}" for n in sizes)
        )
        for kind, what in enumerate(("tokens", "field F1")):
            mean, error = (
                scores[..., kind].mean(axis=0),
                scores[..., kind].std(axis=0, ddof=min(1, draws - 1)) / draws**0.5,
            )
            print(f"{what:>12}" + "".join(f"{f'{m:.1f} ±{e:.1f}':>12}" for m, e in zip(mean, error, strict=True)))
            if draws < 2:
                continue  # one draw has no standard error
            falls = [n for n, low, high in zip(sizes[1:], mean[1:] + error[1:], mean[:-1], strict=True) if low < high]
            print(
                f"{'':>12}  " + (f"falls by more than a standard error at {falls}" if falls else "never falls"),
                flush=True,
            )
    if picture is not None:
        draw_curves(found, picture)


def by_default(rules: Path, few: list[Text], many: list[Text], judged: list[Text]) -> dict[str, Any]:
    made = Extractor.from_file(rules).fit(few, unlabelled=many)
    one = score_fields([t.sentence.labels for t in judged], made.predict(judged))
    return {"scores": (100 * one.accuracy, 100 * one.total.f1)}


def samples() -> Iterator[tuple[str, Path, list[Text], list[Text], list[Text]]]:
    """The two that ship: labelled texts from their generators, unlabelled and gold as they are."""
    import runpy

    for domain, maker in (("citations", "citations"), ("ads", "advertisements")):
        folder = ROOT / "examples" / domain
        made = runpy.run_path(str(folder / "generate.py"))[maker](320, [99])
        yield (
            f"examples/{domain}",
            folder / "rules.toml",
            made,
            read_texts(folder / "text.txt"),
            read_labelled(folder / "gold.tsv"),
        )


def draw_curves(found: dict[str, Any], path: str) -> None:
    from trellis.report.figure import ACCENTS, new_figure, plain_axes, save_figure

    figure, panels = new_figure(9, 3, 1, 2)
    for kind, (axes, what) in enumerate(zip(panels, ("tokens", "field F1"), strict=True)):
        for colour, (name, (sizes, scores)) in zip(ACCENTS, found.items(), strict=False):
            mean, error = scores[..., kind].mean(axis=0), scores[..., kind].std(axis=0) / max(len(scores) - 1, 1) ** 0.5
            axes.plot(sizes, mean, color=colour, label=name)
            axes.fill_between(sizes, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
        axes.set_xscale("log")
        axes.set_xticks(sizes, [str(n) for n in sizes])
        axes.minorticks_off()
        plain_axes(axes, f"{what}, %", "labelled texts")
    panels[0].legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def rounds(data: Citations) -> None:
    """CPU time of a round of training, log-partitions and expected counts of all labelled citations, in one run."""
    labels = sorted({label for t in data.train for label in t.sentence.labels})
    corpus = corpus_of(
        (replace(t.sentence, columns={}) for t in data.train), label_names=Vocabulary(labels, kind="label")
    )
    prepared = []
    for model in (
        CRF(labels, features=TokenFeatures()),
        SemiCRF(labels, features=TokenFeatures(), boundaries=boundary_features),
    ):
        batch = model.encode(corpus, fit=True)
        model.randomize(np.random.default_rng(0))
        prepared.append((model, [shard.of(batch) for shard in shards_of(batch)]))
    taken: list[list[float]] = [[], []]
    for _ in range(21):
        for (model, shards), times in zip(prepared, taken, strict=True):
            begin = time.process_time()
            for shard in shards:
                model.collect(shard, model.scores(shard).infer(weights=shard.weights))
            times.append(time.process_time() - begin)
    # the least: what else the machine does is in all the others
    one, other = (1000 * min(times) for times in taken)
    print(
        f"A training round on {len(data.train)} citations, CPU time: CRF {one:.1f} ms, semi-CRF {other:.1f} ms, "
        f"{other / one:.2f} times"
    )


def speed(data: Citations) -> None:
    few = data.draw(5, 0)
    made = Extractor.from_file(RULES, model_kind="hmm", method="codl", max_iter=2, n_jobs=1).fit(
        few, unlabelled=data.unlabelled
    )
    rounds = [entry.seconds for entry in made.ccm_.history_]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = Extractor.from_file(RULES, model_kind="hmm", method="codl", max_iter=10, n_jobs=1).fit(
        few, unlabelled=data.unlabelled
    )
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rounds = [entry.seconds for entry in made.ccm_.history_]
    print(
        f"One CoDL round on {len(data.unlabelled)} citations, beam 50, one core: {np.median(rounds):.2f} s; "
        f"peak memory {after / 1024:.0f} MB, {(after - before) / 1024:.0f} MB of it new after 10 more rounds"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5, 10, 20, 300])
    parser.add_argument("--calibration", action="store_true")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--models", action="store_true")
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--most", type=int, default=300, help="labelled texts of the curve, at most")
    parser.add_argument("--picture", help="where --curve draws it")
    parser.add_argument(
        "--kept", type=Path, help="file of --models and --curve, so that a run that was cut off goes on"
    )
    parser.add_argument("--rounds", action="store_true")
    parser.add_argument("--utility", action="store_true")
    parser.add_argument("--only-utility", action="store_true")
    given = arguments(parser, draws=1, sizes=[4], only=[])
    folder = Path(os.environ.get("TRELLIS_DATA", ROOT.parent / "shared" / "data")) / "fields" / "citations"
    if not folder.is_dir():
        print(f"no citations in {folder}: set TRELLIS_DATA to the folder of the real data. Nothing is measured.")
        return
    data = Citations(folder)
    if given.curve:
        curve(data, given.draws, given.most, given.only, given.picture, Kept(given.kept))
        return
    some = given.only or given.calibration or given.models or given.only_utility
    if given.rounds or not some:
        rounds(data)
    if given.rounds:
        return
    if not some:
        speed(data)
    if given.calibration:
        sureness(data, given.sizes)
        return
    if given.models or not (given.only or given.only_utility):
        models(data, given.sizes, given.draws, Kept(given.kept))
    if given.models:
        return
    if not given.only_utility:
        compare(data, given.sizes, given.draws, given.only)
    if given.utility or given.only_utility:
        utility(data, given.draws)


if __name__ == "__main__":
    main()
