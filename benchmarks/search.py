"""Constrained decoding of generated citations: seconds, ratio to plain Viterbi, share proved, value lost.

    make bench-search                          1,000 citations; A* and ILP on the first 100
    make bench-search ARGS="--citations 5000"  more of them

Records of 13 fields, about 35 tokens each, drawn from a seeded process; scores are those of a model that has seen too
little (a mixture of the true one and noise), so that rules matter. Twelve rules as in Chang 2011, table 3.1: fields do
not appear twice, labels change at punctuation, a record begins with an author or editor, word lists, ... once all soft
and once with the two strongest hard. The time of rows is that of preparing them, which is done once for many decodings.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from _small import arguments

from trellis.constraints import compile_constraints, count, each_label, label, position, preceding, starts, transitions
from trellis.constraints import word as w
from trellis.constraints.constraint import Constraint
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConvergenceWarning
from trellis.search import Decoded, Plan, decode
from trellis.structures import Chain

FIELDS = (
    "AUTHOR", "BOOKTITLE", "DATE", "EDITOR", "INSTITUTION", "JOURNAL", "LOCATION", "NOTE", "PAGES", "PUBLISHER",
    "TECH", "TITLE", "VOLUME",
)  # fmt: skip
WORDS_OF_FIELD, SHARED_WORDS = 40, 60
MARKS = (",", ".", ";")


def citations(n: int, rng: np.random.Generator) -> tuple[list[list[str]], np.ndarray]:
    """Sentences, and the log-probabilities (n_tokens, 13) that a poor model gives their fields."""
    k = len(FIELDS)
    order = [FIELDS.index(name) for name in ("AUTHOR", "TITLE", "JOURNAL", "VOLUME", "PAGES", "DATE")]
    sentences, scores = [], []
    for _ in range(n):
        fields = [f for f in order if rng.random() < 0.85]
        if rng.random() < 0.5:
            fields += rng.choice([f for f in range(k) if f not in order], rng.integers(1, 4), replace=False).tolist()
        sentence = []
        for f in fields or [order[0]]:
            for _ in range(int(rng.integers(2, 10))):
                own = rng.random() < 0.55
                name = f"{FIELDS[f].lower()}{rng.integers(WORDS_OF_FIELD)}" if own else f"x{rng.integers(SHARED_WORDS)}"
                sentence.append(name)
                likely = np.full(k, 0.3) + rng.exponential(0.7, k)
                likely[f] += 2.0 if own else 0.3
                scores.append(np.log(likely / likely.sum()))
            sentence.append(str(rng.choice(MARKS)))
            scores.append(np.full(k, -np.log(k)))
        sentences.append(sentence)
    return sentences, np.array(scores)


def rules(hard: bool) -> list[Constraint]:
    def some(constraint: Constraint, price: float) -> Constraint:
        return constraint.penalty(price)

    mark = w.isin(*MARKS)
    once, first = each_label(lambda name: starts(name) <= 1), position.first.implies(label("AUTHOR", "EDITOR"))
    lists = [
        w.isin(*(f"{name.lower()}{i}" for i in range(5))).implies(label(name))
        for name in ("DATE", "PAGES", "JOURNAL", "VOLUME", "PUBLISHER", "LOCATION")
    ]
    return [
        once if hard else some(once, 3.0),
        some(transitions(where=~preceding(mark)) == 0, 2.5),
        first.constraint() if hard else some(first.constraint(), 4.0),
        *(some(rule.constraint(), 3.0) for rule in lists),
        some(count("TITLE") >= 1, 3.0),
        some(count("DATE") <= 8, 1.0),
        some(count("AUTHOR", "EDITOR") >= 1, 3.0),
    ]


def timed(work: Callable[[], Decoded], rounds: int) -> tuple[float, Decoded]:
    best, answer = np.inf, work()
    for _ in range(rounds):
        begun = time.perf_counter()
        answer = work()
        best = min(best, time.perf_counter() - begun)
    return best, answer


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--citations", type=int, default=1000)
    options.add_argument("--few", type=int, default=100, help="instances for the slower methods")
    chosen = arguments(options, citations=20, few=8)
    rng = np.random.default_rng(0)
    sentences, node = citations(chosen.citations, rng)
    edge = np.log(rng.dirichlet(np.full(len(FIELDS), 0.5), len(FIELDS)) * 0.4 + 0.6 * np.eye(len(FIELDS)) + 1e-3)
    print(f"{len(sentences)} citations, {len(node) / len(sentences):.1f} tokens each, {len(FIELDS)} labels, 12 rules")
    for hard in (False, True):
        print("\n" + ("the two strongest rules hard" if hard else "all rules soft"))
        print(f"  {'':34}{'seconds':>9}{'x Viterbi':>11}{'proved':>9}{'lost a citation':>17}")
        for n, methods in (
            (len(sentences), [("beam", 10), ("beam", 50), ("beam", 200)]),
            (chosen.few, [("beam", 50), ("astar", 50), ("ilp", 50), ("auto, proof", 50)]),
        ):
            run(sentences[:n], node, edge, hard, methods)


def run(
    sentences: list[list[str]], node: np.ndarray, edge: np.ndarray, hard: bool, methods: list[tuple[str, int]]
) -> None:
    batch = Batch.from_sentences(sentences)
    scores = Chain(batch.offsets, node[: batch.offsets[-1]], edge)
    begun = time.perf_counter()
    rows = compile_constraints(rules(hard), batch, Vocabulary(FIELDS), scores.parts)
    compiled = time.perf_counter() - begun
    Plan.of(rows)
    begun = time.perf_counter()
    plan = Plan.of(rows)
    plan.fast  # noqa: B018 (made when first asked for)
    planned = time.perf_counter() - begun
    begun = time.perf_counter()
    for _ in range(5):
        scores.argmax()
    viterbi = (time.perf_counter() - begun) / 5
    print(f"  {f'{len(sentences)} citations: compile rows':34}{compiled:9.3f}")
    print(f"  {'prepare rows':34}{planned:9.3f}{planned / viterbi:11.1f}")
    print(f"  {'Viterbi without rules':34}{viterbi:9.3f}{1.0:11.1f}")
    answers: list[tuple[str, float, Decoded]] = []
    for method, width in methods:
        name, proof = method.removesuffix(", proof"), method.endswith("proof")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            seconds, found = timed(
                lambda name=name, width=width, proof=proof: decode(scores, plan, name, beam=width, prove=proof),
                2 if name == "beam" else 1,
            )  # fmt: skip
        answers.append((f"{method}, width {width}", seconds, found))
    best = np.max([found.value for _, _, found in answers], axis=0)
    for name, seconds, found in answers:
        lost = float((best - found.value).mean())
        print(f"  {name:34}{seconds:9.3f}{seconds / viterbi:11.1f}{found.proved.mean():9.1%}{lost:17.4f}")


if __name__ == "__main__":
    main()
