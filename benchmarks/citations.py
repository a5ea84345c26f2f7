"""Tables 3.3 to 3.7 of Chang 2011 on Cora: citations from rules, few labels and 1,000 unlabelled ones.

    make bench-citations                                    models and methods: 5 draws of 5, 10, 20 labelled, all 300
    make bench-citations ARGS="--draws 2 --sizes 5 20"      less of it
    make bench-citations ARGS="--only PR CoDL"              methods whose names have one of these words
    make bench-citations ARGS="--only words:"               Table 3.4: models of words alone
    make bench-citations ARGS="--calibration"               how sure it is of fields, and how often it is right, on dev
    make bench-citations ARGS="--rounds"                    a training round of the semi-Markov CRF beside the CRF's
    make bench-citations ARGS="--utility"                   and Table 3.7: each rule alone (--only-utility: that alone)
    make bench-citations ARGS="--curves docs/figures"       Figures 3.3 to 3.5: by labelled citations, and by rounds

The default extractor on this and other corpora, beside python-crfsuite: `make bench-panel ARGS="--task extract"`. Here
are the thesis' models, with the rules of benchmarks/panel/citations.toml. γ of UEM is chosen on the development set,
for each draw. Reference figures: Chang 2011, Tables 3.3, 3.4, 3.5 (AP-I, Bellare et al. 2009), 3.6 and 3.7, on another
split of the same citations.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from _small import arguments

from trellis.apps.extract.confidence import field_probabilities
from trellis.apps.extract.explain import trained_utility
from trellis.apps.extract.extractor import Extractor
from trellis.apps.extract.features import TokenFeatures, boundary_features
from trellis.constraints import read_rules
from trellis.constraints.label_pairs import LabelPairs
from trellis.data.corpus import corpus_of
from trellis.data.document import Document, fields_of
from trellis.data.text_files import read_labelled, read_texts
from trellis.data.vocabulary import Vocabulary
from trellis.engine import shards_of
from trellis.learn import CCM
from trellis.metrics.ranking import calibration
from trellis.models import CRF, SemiCRF

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "benchmarks" / "panel" / "citations.toml"
GAMMAS = (0.1, 0.3, 0.5, 0.7)
PLAIN: dict[str, Any] = {"model_kind": "hmm", "back_off": 0.0, "usual_fields": False}
"""The thesis' model: no falling back on forms, no marks before transitions, and no rules but those of the file."""
CRF_ALONE: dict[str, Any] = {"method": "supervised", "usual_fields": False}
# row: (name, settings, whether rules act in prediction)
ROWS = (
    ("supervised HMM", {"method": "supervised", **PLAIN}, False),
    ("supervised HMM + rules", {"method": "supervised", **PLAIN}, True),
    ("hard EM", {"method": "hard-em", **PLAIN}, False),
    ("EM", {"method": "em", **PLAIN}, False),
    ("CoDL, learned penalties", {"method": "codl", **PLAIN}, True),
    ("CoDL, rules in training alone", {"method": "codl", **PLAIN}, False),
    ("CoDL, hard", {"method": "codl", "hard": True, **PLAIN}, True),
    ("PR", {"method": "pr", **PLAIN}, True),
    ("UEM, γ chosen on dev", {"method": "uem", **PLAIN}, True),
    ("supervised CRF", {**CRF_ALONE, "model_kind": "crf"}, False),
    ("supervised CRF + rules", {**CRF_ALONE, "model_kind": "crf"}, True),
    ("CRF by PR, as in Table 3.5", {"method": "projected CRF"}, True),
    ("words: CRF", {"method": "words", "kind": "CRF"}, False),
    ("words: CRF of second order", {"method": "words", "kind": "second order"}, False),
    ("words: semi-CRF", {"method": "words", "kind": "semi-CRF", "longest": 1}, False),
    ("words: semi-CRF⁺", {"method": "words", "kind": "semi-CRF", "longest": 8}, False),
    ("supervised semi-CRF", {**CRF_ALONE, "model_kind": "semi-crf"}, False),
    ("supervised semi-CRF + rules", {**CRF_ALONE, "model_kind": "semi-crf"}, True),
)
PAPER = {
    "supervised HMM": {5: 58.48, 10: 63.37, 20: 70.78, 300: 86.69},
    "supervised HMM + rules": {5: 71.64, 10: 75.44, 20: 81.15, 300: 93.92},
    "hard EM": {5: 64.55, 10: 69.86, 20: 75.35, 300: 87.89},
    "CoDL, learned penalties": {5: 77.65, 10: 81.51, 20: 85.11, 300: 94.32},
    "CoDL, hard": {5: 78.18, 10: 81.11, 20: 85.16, 300: 92.80},
    "PR": {5: 74.6, 20: 85.1, 300: 94.3},
    "supervised semi-CRF": {300: 94.6},
    "words: CRF": {5: 51.43, 10: 54.61, 20: 63.92, 300: 89.09},
    "words: semi-CRF": {5: 50.69, 10: 50.38, 20: 62.96, 300: 92.46},
    "words: semi-CRF⁺": {5: 60.14, 10: 62.51, 20: 72.22, 300: 94.60},
}
TABLE_37 = {
    "(none)": (58.48, 64.55), "Start": (58.52, 64.52), "AppearsOnce": (58.69, 65.92), "Punctuation": (63.68, 71.23),
    "BookJournal": (58.96, 64.68), "Date": (61.50, 66.76), "Editors": (58.70, 64.77), "Journal": (58.66, 64.73),
    "Note": (58.55, 64.61), "Pages": (58.77, 64.68), "TechReport": (58.73, 64.43), "Title": (59.66, 65.54),
    "Location": (58.81, 64.97), "(all)": (71.64, 77.65),
}  # fmt: skip


class Citations:
    def __init__(self, folder: Path) -> None:
        self.train, self.dev, self.test = (read_labelled(folder / f"{part}.tsv") for part in ("train", "dev", "test"))
        self.unlabelled = read_texts(folder / "unlabelled.tsv")

    def draw(self, n: int, number: int) -> list[Document]:
        if n >= len(self.train):
            return self.train
        rng = np.random.default_rng([n, number])
        return [self.train[i] for i in rng.choice(len(self.train), n, replace=False)]

    def draws(self, n: int, most: int) -> list[list[Document]]:
        return [self.draw(n, number) for number in range(1 if n >= len(self.train) else most)]


def accuracy(data: Citations, few: list[Document], settings: dict[str, Any], constrained: bool) -> float:
    if settings["method"] == "projected CRF":
        return projected_crf(data, few)
    if settings["method"] == "words":
        return by_words(data, few, settings)
    if settings["method"] != "uem":
        made = Extractor.from_file(RULES, **settings).fit(few, unlabelled=data.unlabelled)
        return 100 * made.score(data.test, constrained=constrained)
    tried = [Extractor.from_file(RULES, gamma=g, **settings).fit(few, unlabelled=data.unlabelled) for g in GAMMAS]
    return 100 * max(tried, key=lambda made: made.score(data.dev)).score(data.test)


def projected_crf(data: Citations, few: list[Document]) -> float:
    """A CRF whose own posteriors are projected onto the rules (alternating projections, as PR)."""
    rules = read_rules(RULES)
    names = Vocabulary(rules.labels or (), kind="label")

    def corpus(texts: list[Document], **changes: Any) -> Any:
        return corpus_of((replace(t, columns={}, **changes) for t in texts), label_names=names)

    some = corpus([*few, *(replace(t, labels=None) for t in data.unlabelled)])
    ccm = CCM(CRF(list(names), features=TokenFeatures(), tol=1e-4), list(rules), method="pr").fit(some)
    return 100 * ccm.score(corpus(data.test))


def ends_in_a_mark(sentence: Any, at: int) -> list[str]:
    return [] if any(c.isalnum() for c in str(sentence[at])) else ["mark"]


def by_words(data: Citations, few: list[Document], settings: dict[str, Any]) -> float:
    """Models whose tokens have their word as the one feature, as in Table 3.4: a CRF; one over the pairs of labels that
    occur in what it learns from; segments that know whether they end in a mark, and without or with their length."""
    X, y = [list(text.tokens) for text in few], [list(text.labels or ()) for text in few]
    asked, answers = [list(text.tokens) for text in data.test], [list(text.labels or ()) for text in data.test]
    names = sorted({name for tags in y for name in tags})
    pairs = LabelPairs(names, seen=y)
    if settings["kind"] == "CRF":
        found = CRF(names, tol=1e-4).fit(X, y).predict(asked)
    elif settings["kind"] == "semi-CRF":
        made = SemiCRF(names, boundaries=ends_in_a_mark, longest=settings["longest"], tol=1e-4)
        found = made.fit(X, y).predict(asked)
    else:
        made = CRF(pairs.names, tol=1e-4).fit(X, pairs.encode(y))
        found = pairs.decode(made.infer(asked, pairs.rules).labels)
    right = [a == b for own, gold in zip(found, answers, strict=True) for a, b in zip(own, gold, strict=True)]
    return 100 * float(np.mean(right))


def curves(data: Citations, sizes: list[int], draws: int, folder: Path) -> None:
    """Accuracy by the number of labelled citations, and round by round with the fewest of them."""
    from trellis.report.figure import new_figure, plain_axes, save_figure

    figure, axes = new_figure(9.0, 3.4, 1, 2)
    names = ("supervised HMM", "supervised HMM + rules", "hard EM", "CoDL, learned penalties",
             "CoDL, rules in training alone")  # fmt: skip
    found = compare(data, sizes, draws, list(names))
    for name in names:
        axes[0].plot(sizes, found[name], marker="o", markersize=3, label=name)
    axes[0].set_xscale("log")
    axes[0].set_xticks(sizes, [str(n) for n in sizes])
    axes[0].minorticks_off()
    plain_axes(axes[0], "", "labelled citations", "token accuracy")
    axes[0].legend(fontsize=6, frameon=False)
    bare = f"labels = {read_rules(RULES).labels!r}".replace("(", "[").replace(")", "]")
    print(f"\nAccuracy on test after each round, {sizes[0]} labelled (Figure 3.5)")
    for name, rules, method in (("EM", bare, "em"), ("hard EM", bare, "hard-em"), ("CoDL", RULES, "codl")):
        rounds = []
        for few in data.draws(sizes[0], draws):
            made = Extractor(rules, method=method, max_iter=10, **PLAIN)
            made.fit(few, unlabelled=data.unlabelled, dev=data.test)
            rounds.append([100 * (entry.dev or 0.0) for entry in made.ccm_.history_])
        most = max(map(len, rounds))
        mean = np.mean([own + own[-1:] * (most - len(own)) for own in rounds], axis=0)
        print(f"  {name:10}" + "".join(f"{value:7.1f}" for value in mean), flush=True)
        axes[1].plot(range(1, most + 1), mean, marker="o", markersize=3, label=name)
    plain_axes(axes[1], "", "round", "token accuracy")
    axes[1].legend(fontsize=6, frameon=False)
    folder.mkdir(parents=True, exist_ok=True)
    save_figure(figure, folder / "citations-curves.png")


def compare(data: Citations, sizes: list[int], draws: int, only: list[str]) -> dict[str, list[float]]:
    print(f"\nToken accuracy on {len(data.test)} citations (paper; ± standard deviation over {draws} draws)")
    print(f"{'':28}" + "".join(f"{f'{n} labelled':>24}" for n in sizes) + f"{'seconds':>10}")
    means: dict[str, list[float]] = {}
    for name, settings, constrained in ROWS:
        if only and not any(word in name for word in only):
            continue
        begin, cells = time.perf_counter(), []
        means[name] = []
        for n in sizes:
            found = [accuracy(data, few, settings, constrained) for few in data.draws(n, draws)]
            means[name].append(float(np.mean(found)))
            spread = f" ±{np.std(found):.1f}" if len(found) > 1 else ""
            paper = PAPER.get(name, {}).get(n)
            cells.append(f"{np.mean(found):.1f}{spread}" + (f" ({paper:.1f})" if paper else " (-)"))
        print(f"{name:28}" + "".join(f"{c:>24}" for c in cells) + f"{time.perf_counter() - begin:>10.0f}", flush=True)
    print("Paper's column of PR: alternating projections with a CRF (AP-I of Table 3.5).")
    return means


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
        right = [f in fields_of(t, t.labels) for t, found in pairs for f in fields_of(t, found)]
        found = calibration(sure, right)
        bins = "  ".join(f"{one.n} at {one.probability:.2f} ({one.right:.2f})" for one in found.bins)
        print(f"{n:>4} labelled: expected calibration error {found.error:.3f};  {bins}", flush=True)


def rounds(data: Citations) -> None:
    """CPU time of a round of training, log-partitions and expected counts of all labelled citations, in one run."""
    labels = sorted({label for t in data.train for label in t.labels})
    corpus = corpus_of((replace(t, columns={}) for t in data.train), label_names=Vocabulary(labels, kind="label"))
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
    parser.add_argument("--rounds", action="store_true")
    parser.add_argument("--utility", action="store_true")
    parser.add_argument("--only-utility", action="store_true")
    parser.add_argument("--curves", type=Path, help="folder for the figure, and nothing else")
    given = arguments(parser, draws=1, sizes=[4], only=[])
    folder = Path(os.environ.get("TRELLIS_DATA", ROOT.parent / "shared" / "data")) / "fields" / "citations"
    if not folder.is_dir():
        print(f"no citations in {folder}: set TRELLIS_DATA to the folder of the real data. Nothing is measured.")
        return
    data = Citations(folder)
    if given.curves is not None:
        curves(data, given.sizes, given.draws, given.curves)
        return
    some = given.only or given.calibration or given.only_utility
    if given.rounds or not some:
        rounds(data)
    if given.rounds:
        return
    if not some:
        speed(data)
    if given.calibration:
        sureness(data, given.sizes)
        return
    if not given.only_utility:
        compare(data, given.sizes, given.draws, given.only)
    if given.utility or given.only_utility:
        utility(data, given.draws)


if __name__ == "__main__":
    main()
