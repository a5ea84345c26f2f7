"""The same knowledge by every framework: CoDL, PR, UEM and GE (Ganchev et al. 2010, sec. 4).

    make bench-frameworks
    make bench-frameworks ARGS="--draws 5 --domains books dvd"
    taskset -c 0 make bench-frameworks ARGS=--gradients

Reviews of products, none of them labelled: 1,600 to learn from, 400 for test. What is known are twenty words, ten that
praise and ten that blame, and that a review which has one is so in 80 of 100 cases; and that half of all reviews
praise. The same targets and prices go to every method. Beside them: the majority of these words in a review, and the
same classifier with 40 and with 1,600 labels.

A chain: 300 sentences of the Penn Treebank sample without tags, and how the 60 commonest words of other sentences are
tagged there; 200 sentences for test. Beside the methods: the commonest tag of these words and a noun for all others,
and the same CRF with 20 and with 300 tagged sentences. Then what a gradient of GE costs beside the model's own.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _small import arguments
from induction import REDUCTION
from multiview import DOMAINS, Reviews, data_folder

from trellis import CRF, GE, ConvergenceWarning, MaxEnt, count, feature, shares, transitions, word
from trellis.data.batch import Column
from trellis.data.columns import read_columns
from trellis.data.ragged import FloatArray
from trellis.engine import SerialEngine
from trellis.engine.blas import blas_at_one_thread
from trellis.learn.ge import ExpectationStep
from trellis.learn.training import Training

FIRST_DRAW = 10
"""Draws below were used to choose settings."""
METHODS: dict[str, dict[str, Any]] = {
    "GE, L2": {"method": "ge", "distance": "l2"},
    "GE, squared": {"method": "ge", "distance": "squared"},
    "GE, KL": {"method": "ge", "distance": "kl"},
    "PR": {"method": "pr"},
    "UEM, γ = 0.5": {"method": "uem"},
    "CoDL": {"method": "codl"},
    "measurements, sampled": {"method": "measurements", "random_state": 0},
}


WORDS = {
    "positive": ("great", "excellent", "love", "easy", "perfect", "best", "wonderful", "happy", "highly", "favorite"),
    "negative": (
        "waste", "poor", "disappointed", "return", "bad", "terrible", "broke", "worst", "money", "unfortunately",
    ),
}  # fmt: skip
"""Written by hand."""


def run(reviews: Reviews, domain: str, draw: int, options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Accuracy and seconds of each method."""
    rng = np.random.default_rng([draw, DOMAINS.index(domain)])
    order = rng.permutation(np.flatnonzero(reviews.domains == domain))
    n = len(order) // 5
    held, rows = (order[-n:], order[:-n]) if options.split == "test" else (order[-2 * n : -n], order[: -2 * n])
    seen = reviews.counts[rows]
    often = np.flatnonzero(np.bincount(seen.indices, minlength=seen.shape[1]) >= 5)
    place = {old: new for new, old in enumerate(often.tolist())}
    X, y = reviews.counts[:, often].astype(bool).astype(float).tocsr(), reviews.labels
    marks = {kind: [place[n] for w in own if (n := reviews.names.get(w, -1)) in place] for kind, own in WORDS.items()}
    constraints = [shares({"positive": 0.5, "negative": 0.5})]
    for kind, other in (("positive", "negative"), ("negative", "positive")):
        said = {kind: options.target, other: 1.0 - options.target}
        constraints += [shares(said, where=feature(number)) for number in marks[kind]]
    constraints = [one.penalty(options.price, "l2") for one in constraints]
    votes = sum(X[held][:, [n]].toarray()[:, 0] for n in marks["positive"])
    votes = votes - sum(X[held][:, [n]].toarray()[:, 0] for n in marks["negative"])
    right = np.where(votes == 0, 0.5, (votes > 0) == (y[held] == "positive"))
    found = {"majority of the words": (100 * float(right.mean()), 0.0)}
    for n in (min(40, len(rows) // 2), len(rows)):
        begin = time.perf_counter()
        alone = MaxEnt(l2=1.0, max_iter=60, tol=1e-6).fit(X[rows[:n]], y[rows[:n]])
        found[f"{n} labels"] = 100 * alone.score(X[held], y[held]), time.perf_counter() - begin
    for name in options.methods or METHODS:
        begin = time.perf_counter()
        model = MaxEnt(["negative", "positive"], l2=1.0, max_iter=40, tol=1e-6)
        learner = GE(model, constraints, max_iter=options.rounds, tol=0.0, **METHODS[name]).fit(X[rows])
        found[name] = 100 * learner.score(X[held], y[held], constrained=False), time.perf_counter() - begin
    return found


def run_chain(folder: Path, draw: int, options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Accuracy on all tokens and seconds of each method, on tags of 17 kinds."""
    n, n_words = (20, 10) if options.small else (300, 60)
    coarse = {tag: name for name, tags in REDUCTION.items() for tag in tags.split()}
    sentences = list(read_columns(folder / "pos" / "ptb-sample.tsv"))
    order = np.random.default_rng([draw, 7]).permutation(len(sentences)).tolist()
    text = [[list(sentences[i].tokens) for i in order], [[coarse[str(t)] for t in sentences[i].labels] for i in order]]
    cuts = [(0, n), (n, 2 * n), (2 * n, 3 * n), (3 * n, len(order))]
    (X, y), (dev_X, dev_y), (test_X, test_y), (more, tags) = ([side[a:b] for side in text] for a, b in cuts)
    held, gold = (test_X, test_y) if options.split == "test" else (dev_X, dev_y)
    held, gold = held[:200], gold[:200]
    seen: dict[str, Counter[str]] = {}
    for w, tag in ((w, t) for own, given in zip(more, tags, strict=True) for w, t in zip(own, given, strict=True)):
        seen.setdefault(w, Counter())[tag] += 1
    common = sorted(seen, key=lambda w: -seen[w].total())[:n_words]
    constraints = [
        shares({t: c / seen[w].total() for t, c in seen[w].items()}, where=word == w).penalty(options.price, "l2")
        for w in common
    ]
    usual = {w: seen[w].most_common(1)[0][0] for w in common}
    right = [
        usual.get(w, "N") == t for own, given in zip(held, gold, strict=True) for w, t in zip(own, given, strict=True)
    ]
    found = {"usual tags": (100 * float(np.mean(right)), 0.0)}
    names = sorted({tag for own in tags for tag in own})
    for size in (min(20, n // 2), n):
        begin = time.perf_counter()
        alone = CRF(names, features=tag_features, max_iter=60, tol=1e-6).fit(X[:size], y[:size])
        found[f"{size} tagged sentences"] = 100 * alone.score(held, gold), time.perf_counter() - begin
    for name in options.methods or METHODS:
        begin = time.perf_counter()
        model = CRF(names, features=tag_features, max_iter=40, tol=1e-6)
        learner = GE(model, constraints, max_iter=options.rounds, tol=0.0, **METHODS[name]).fit(X)
        found[name] = 100 * learner.score(held, gold, constrained=False), time.perf_counter() - begin
    return found


def tag_features(sentence: Any, t: int) -> list[str]:
    w = sentence[t]
    return ["bias", f"w={w}", f"s2={w[-2:]}", f"s3={w[-3:]}", f"capital={w[:1].isupper()}", f"digit={w[:1].isdigit()}"]


def show(title: str, found: list[dict[str, tuple[float, float]]]) -> None:
    print(f"\n{title}: accuracy and seconds, {len(found)} draws")
    for name in found[0]:
        values = np.array([one[name] for one in found])
        print(f"  {name:<24}{values[:, 0].mean():>6.1f}{values[:, 1].mean():>8.1f} s", flush=True)


def cost_of_gradients(folder: Path, reviews: Reviews) -> None:
    """GE's gradient over the model's own: a CRF of 21 chunk labels on 1,000 sentences, and a classifier of reviews."""
    sentences = list(read_columns(folder / "chunk" / "conll2000" / "train.txt", separator=" ", label=None))[:1000]
    text = [[[f"w={w}", f"l={w[-3:]}", f"s={w[:1].isupper()}"] for w in s.tokens] for s in sentences]
    names = [
        f"{p}-{k}" for k in ("NP", "VP", "PP", "ADJP", "ADVP", "SBAR", "PRT", "CONJP", "INTJ", "LST") for p in "BI"
    ]
    crf = CRF([*names, "O"], all_pairs=True)
    batch = crf.encode(text, [None] * len(text), fit=True)
    batch = replace(batch, columns={"word": Column.of([w for s in sentences for w in s.tokens])})
    said = [shares({"B-NP": 0.6, "I-NP": 0.3}, where=word == w) for w in ("the", "of", "to", "in")]
    inside, every = transitions(from_="B-NP", to="I-NP"), transitions()
    print("\nseconds of a gradient, medians of 15 turns: the model's own, GE's, and their ratio in one turn")
    for name, targets, distances in (
        ("CRF, labels of words", said, ("l2", "squared", "kl")),
        ("... of every sentence", [count("B-VP") >= 1], ("l2", "squared")),
        ("... one kind of transition", [*said, inside.per("corpus") >= 0.2 * count().per("corpus")], ("l2", "squared")),
        ("... all changes of label", [*said, every.per("corpus") <= 0.2 * count().per("corpus")], ("l2", "squared")),
        ("... both in every sentence", [*said, every <= 0.2 * count(), inside >= 1], ("l2", "squared")),
    ):
        show_cost(name, crf, batch, targets, distances)
    rows = reviews.counts[np.flatnonzero(reviews.domains == DOMAINS[0])].astype(float).tocsr()
    maxent = MaxEnt(["negative", "positive"])
    batch = maxent.encode(rows, [None] * rows.shape[0], fit=True)
    often = np.argsort(-np.bincount(rows.indices, minlength=rows.shape[1]))[100:120].tolist()
    targets = [shares({"positive": 0.8, "negative": 0.2}, where=feature(number)) for number in often]
    show_cost("MaxEnt, labels of words", maxent, batch, targets, ("l2", "squared", "kl"))


def show_cost(name: str, model: Any, batch: Any, targets: list[Any], distances: tuple[str, ...]) -> None:
    model.weights_ = 0.1 * np.random.default_rng(0).normal(size=len(model.weights_))
    for distance in distances:
        priced = [one.penalty(1.0, "l2") for one in targets]
        step = ExpectationStep(Training(model, batch, SerialEngine()), priced, distance)
        own = model.loss(model.collect(batch, model.scores(batch).infer()), step.placed)
        turns = times([partial(own, model.weights_), partial(step.objective, model.weights_)])
        mine, theirs, ratio = np.median(np.column_stack([turns, turns[:, 1] / turns[:, 0]]), axis=0)
        print(f"  {name:<30} {distance:<8}{mine:>8.4f}{theirs:>8.4f}{ratio:>7.2f}", flush=True)


def times(works: list[Any]) -> FloatArray:
    """(15, n_works) seconds of each, turn by turn: a machine that is fast for a while is so for all of them."""
    found = np.zeros((16, len(works)))
    with blas_at_one_thread():  # else a second thread of BLAS that waits for work is counted too
        for turn in found:
            for number, work in enumerate(works):
                begin = time.process_time()
                work()
                turn[number] = time.process_time() - begin
    return found[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=["kitchen", "books"])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--price", type=float, default=1.0, help="of a review off its target")
    parser.add_argument("--target", type=float, default=0.8, help="share of reviews with a word that are as it says")
    parser.add_argument("--methods", nargs="+", choices=METHODS)
    parser.add_argument("--gradients", action="store_true", help="measure what gradients cost, and nothing else")
    options = arguments(parser, draws=1, domains=["kitchen"], rounds=2)
    folder = data_folder()
    warnings.simplefilter("ignore", ConvergenceWarning)  # so many rounds are wanted
    reviews = Reviews(folder / "docs" / "sentiment-domains.tar.xz")
    first = FIRST_DRAW if options.split == "test" else 0
    draws = range(first, first + options.draws)
    for domain in [] if options.gradients else options.domains:
        show(f"reviews of {domain}, 400 for test", [run(reviews, domain, draw, options) for draw in draws])
    if not options.gradients:
        show("tags of 200 sentences", [run_chain(folder, draw, options) for draw in draws])
    if options.methods is None:
        cost_of_gradients(folder, reviews)


if __name__ == "__main__":
    sys.exit(main())
