"""LCLR: names across alphabets, paraphrases, entailment (Chang 2011, sec. 5.4).

    make bench-lclr
    make bench-lclr ARGS="--draws 3 --sets names"
    make bench-lclr ARGS="--sets names --on dev"          # settings are chosen there,
    make bench-lclr ARGS="--sets msrp rte --on folds"     # and those of sentences in five folds of what is learned from
    make bench-lclr ARGS="--sets msrp rte --trees"        # edges from a parser, trained here on UD English
    make bench-lclr ARGS="--sets msrp rte --thesis"       # features once, and alignments from the answers alone
    make bench-lclr ARGS="--tables --size 600"            # Tables 5.5 and 5.6, on splits of the training pairs of msrp

names   match/translit-he: 250 pairs of train that match and 6,250 random ones of them that do not (a tenth of all);
        each of 300 names of test ranks their 300 Hebrew forms. Mean of the draws.
msrp    match/msrp: train, test as they come. On dev: four fifths of train, and the fifth that is left.
rte     match/rte: trained on RTE-1, RTE-2 and the dev part of RTE-3, tested on the test part of RTE-3. On dev: the dev
        part of RTE-3, without it in training.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _small import arguments
from scipy.stats import binomtest

from trellis import ConvergenceWarning, Matcher, Parser, Tagger
from trellis.data.conllu import read_conllu
from trellis.models.matching.word_pairs import bigram_likeness
from trellis.models.matching.wordnet import find_wordnet

SETS = ("names", "msrp", "rte")
METHODS = ("two-stage", "joint")
THREE = ("two-stage", "joint", "approximate")
OF_SENTENCES: dict[str, dict[str, Any]] = {
    "two-stage": {"method": "two-stage"},
    "two-stage, edges by hand": {"method": "two-stage", "first_guess": "edges"},
    "joint": {"method": "joint"},
}
"""All from the same first guess but the second, whose guess also goes by weights of edges, rarity and place."""
THESIS = {
    "names": "80.0 / 85.7, 92.3 / 95.4 (English-Hebrew of Goldwasser & Roth 2008, romanisation table)",
    "msrp": "76.2, 76.4 (WordNet, POS, named entities, Stanford dependencies)",
    "rte": "65.0, 66.8 (RTE-5; WordNet, POS, coreference, semantic roles)",
}
FOLDS = 5
Pairs = list[tuple[str, str]]
Answered = tuple[Pairs, list[int]]


def names_of(path: Path) -> Pairs:
    """Name and its Hebrew letters, a pair once."""
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return list(dict.fromkeys((row[0], row[1].replace(" ", "")) for row in rows))


def draw_names(folder: Path, on: str, seed: int, n_train: int, n_test: int) -> tuple[Pairs, Pairs]:
    """Training pairs, and pairs to be found again of which no name and no form stands twice."""
    rng = np.random.default_rng(seed)
    given, asked = names_of(folder / "train.tsv"), names_of(folder / f"{on}.tsv")
    train = [given[i] for i in rng.permutation(len(given))[:n_train]]
    test: dict[str, str] = {}
    for i in rng.permutation(len(asked)).tolist():
        name, form = asked[i]
        if len(test) < n_test and name not in test and form not in test.values():
            test[name] = form
    return train, list(test.items())


def bench_names(folder: Path, on: str, draws: int, sizes: Sequence[int], settings: dict[str, Any]) -> None:
    """Accuracy and MRR of every draw, and their means."""
    table = []
    for seed in range(draws):
        train, test = draw_names(folder, on, seed, *sizes)
        row, seconds = [], []
        for method in METHODS:
            begin = time.perf_counter()
            scores = Matcher("names", method=method, **settings).fit(train).score_ranking(test)
            row += [100.0 * scores.accuracy, 100.0 * scores.mrr]
            seconds.append(time.perf_counter() - begin)
        table.append(row)
        print(
            f"  draw {seed}: two-stage {row[0]:.1f} / {row[1]:.1f}, joint {row[2]:.1f} / {row[3]:.1f}   "
            f"({seconds[0]:.0f} s, {seconds[1]:.0f} s)",
            flush=True,
        )
    a, b, c, d = np.mean(table, axis=0)
    print(f"names ({on}, {draws} draws), accuracy / MRR: two-stage {a:.1f} / {b:.1f}, joint {c:.1f} / {d:.1f}")


def msrp_of(path: Path) -> tuple[Pairs, list[int]]:
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8-sig").split("\n")[1:] if line.strip()]
    return [(row[3].strip(), row[4].strip()) for row in rows], [1 if row[0] == "1" else -1 for row in rows]


def rte_of(folder: Path, *parts: str) -> tuple[Pairs, list[int]]:
    pairs, answers = [], []
    for part in parts:
        for pair in ElementTree.parse(folder / f"{part}.xml").getroot().iter("pair"):
            value = pair.get("value") or pair.get("entailment")
            pairs.append((str(pair.findtext("t")).strip(), str(pair.findtext("h")).strip()))
            answers.append(1 if value in ("TRUE", "YES", "ENTAILMENT") else -1)
    return pairs, answers


def some_of(given: Answered, numbers: Any) -> Answered:
    return [given[0][i] for i in numbers], [given[1][i] for i in numbers]


def read_sentences(name: str, folder: Path, on: str) -> list[tuple[Answered, Answered]]:
    """What is trained on, and what is measured: once, or for each of the folds."""
    if name == "rte":
        parts = ["rte1_dev", "rte1_test", "rte2_dev", "rte2_test", "rte3_dev"]
        if on == "dev":
            return [(rte_of(folder, *parts[:-1]), rte_of(folder, parts[-1]))]
        train, test = rte_of(folder, *parts), partial(rte_of, folder, "rte3_test")
    else:
        train, test = msrp_of(folder / "train.tsv"), partial(msrp_of, folder / "test.tsv")
    if on == "test":
        return [(train, test())]
    order = np.random.default_rng(0).permutation(len(train[1]))
    folds = np.array_split(order, FOLDS)
    splits = [(some_of(train, np.setdiff1d(order, fold)), some_of(train, fold)) for fold in folds]
    return splits[:1] if on == "dev" else splits


def bench_sentences(name: str, folder: Path, on: str, settings: dict[str, Any]) -> None:
    """Accuracy of all methods, and how sure it is that joint learning is better than the others."""
    right: dict[str, list[Any]] = {method: [] for method in OF_SENTENCES}
    yes, seconds, n = [], dict.fromkeys(OF_SENTENCES, 0.0), []
    for train, asked in read_sentences(name, folder, on):
        for method, own in OF_SENTENCES.items():
            begin = time.perf_counter()
            matcher = Matcher("sentences", **own, **settings).fit(*train)
            right[method].append(matcher.predict(asked[0]) == np.array(asked[1]))
            seconds[method] += time.perf_counter() - begin
        yes.append(np.array(asked[1]) > 0)
        n.append(len(train[1]))
        print("  " + ", ".join(f"{m}: {100.0 * own[-1].mean():.1f}" for m, own in right.items()), flush=True)
    found = {method: np.concatenate(own) for method, own in right.items()}
    commoner = np.concatenate(yes).mean()
    print(
        f"{name} ({on}, {np.mean(n):.0f} pairs to learn from, {len(found['joint'])} asked), accuracy; the commoner "
        f"answer alone {100.0 * max(commoner, 1 - commoner):.1f}"
    )
    for method, own in found.items():
        print(f"  {method}: {100.0 * own.mean():.1f} ({seconds[method]:.0f} s)", end="")
        gain = found["joint"].astype(float) - own
        more, less, error = int(np.sum(gain > 0)), int(np.sum(gain < 0)), gain.std() / np.sqrt(len(gain))
        if more + less:
            print(
                f"; joint right alone {more}, wrong alone {less}: a gain of {100.0 * gain.mean():+.2f} (standard error "
                f"{100.0 * error:.2f}, McNemar p = {binomtest(more, more + less).pvalue:.3f})",
                end="",
            )
        print(flush=True)


def bench_tables(folder: Path, size: int, draws: int, settings: dict[str, Any]) -> None:
    """Accuracy by what alignments may delete, by algorithm and by similarity of words, as the thesis has features.

    size : pairs to learn from; as many again are asked, at most 1,000
    """
    train = msrp_of(folder / "train.tsv")
    similarities: dict[str, Any] = {"relations": None, "bigrams": likeness_by_bigrams}
    rows = [(name, deletions) for name in similarities for deletions in ("none", "words", "all")]
    found: dict[tuple[str, str], list[list[float]]] = {row: [] for row in rows}
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(train[1]))
        learned, asked = some_of(train, order[:size]), some_of(train, order[size : size + min(size, 1000)])
        for name, deletions in rows:
            own = {"deletions": deletions, "similarity": similarities[name], "keep_guess": False, **settings}
            found[name, deletions].append([
                100.0 * Matcher("sentences", method=method, **own).fit(*learned).score(*asked) for method in THREE
            ])  # fmt: skip
            figures = ", ".join(f"{m} {x:.1f}" for m, x in zip(THREE, found[name, deletions][-1], strict=True))
            print(f"  draw {seed}, {name}, deletions {deletions}: {figures}", flush=True)
    print(f"msrp, {size} pairs to learn from, mean of {draws} splits")
    print(f"  {'words are like by':<20}{'deletions':<12}" + "".join(f"{method:>14}" for method in THREE))
    for (name, deletions), figures in found.items():
        print(f"  {name:<20}{deletions:<12}" + "".join(f"{x:>14.1f}" for x in np.mean(figures, axis=0)))


def likeness_by_bigrams(one: str, other: str) -> float:
    """Dice coefficient of the character bigrams, from 0.5 on."""
    value = bigram_likeness(one, other)
    return value if value >= 0.5 else 0.0


def parser_and_tagger(folder: Path) -> dict[str, Any]:
    """Trained on UD English."""
    trees = [s for s in read_conllu(folder / "en-ewt-train.conllu", columns=("head", "deprel")) if len(s)]
    return {"parser": Parser().fit(trees), "tagger": Tagger().fit(trees)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--draws", type=int, default=10, help="of names")
    parser.add_argument("--on", choices=("dev", "folds", "test"), default="test")
    parser.add_argument("--trees", action="store_true", help="edges from a parser that is trained first")
    parser.add_argument(
        "--thesis", action="store_true", help="sentences: features once, and alignments from the answers alone"
    )
    parser.add_argument("--tables", action="store_true", help="what may be deleted, algorithms, similarities of words")
    parser.add_argument("--size", type=int, default=1000, help="pairs to learn from, of --tables")
    parser.add_argument("--cost", type=float, help="C, in place of the default")
    parser.add_argument("--segment", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--names", type=int, nargs=2, default=(250, 300), help="names to learn from, and to find")
    given = arguments(parser, draws=1, names=(20, 12))
    data = Path(os.environ.get("TRELLIS_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not (data / "match").is_dir():
        sys.exit(f"{data / 'match'} is not there: set TRELLIS_DATA to the folder of the corpora")
    warnings.simplefilter("ignore", ConvergenceWarning)
    settings: dict[str, Any] = {"n_jobs": -1 if given.threads is None else given.threads, "C": given.cost}
    print(f"WordNet: {find_wordnet() or 'not installed'}; edges: {'trees' if given.trees else 'each word to the next'}")
    if given.tables:
        return bench_tables(data / "match" / "msrp", given.size, given.draws, settings)
    print("thesis, two-stage and joint")
    for name in given.sets:
        print(f"  {name}: {THESIS[name]}", flush=True)
    of_sentences = parser_and_tagger(data / "trees") if given.trees else {}
    if given.thesis:
        of_sentences = {**of_sentences, "keep_guess": False}
    for name in given.sets:
        folder = data / "match" / ("translit-he" if name == "names" else name)
        if name == "names" and given.on == "folds":
            print("names have a dev part: --on dev")
        elif name == "names":
            bench_names(folder, given.on, given.draws, given.names, {**settings, "max_segment": given.segment})
        else:
            bench_sentences(name, folder, given.on, {**settings, **of_sentences})
    if given.small:
        bench_tables(data / "match" / "msrp", 20, 1, settings)


if __name__ == "__main__":
    main()
