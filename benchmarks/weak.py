"""Weak labels: what each part of the aggregator is worth, and how it does on parts of the panel's corpora.

    make bench-weak                                    every row is the default with one change
    make bench-weak ARGS=--subsets                     other functions and fewer texts than the panel has
    make bench-weak ARGS="--corpora conll --small"

Span F1 on the development sets of the panel (``benchmarks/panel.py``): gold labels of ``valid``, and of ``train`` if
there is one. The last row has, for each corpus, the row that is best in the mean of the other corpora.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from _panel import weak
from _panel.common import Options

from trellis import Aggregator
from trellis.apps.aggregate.majority import span_vote
from trellis.data.document import Document
from trellis.data.voted_files import read_voted
from trellis.data.wrench import read_wrench_gold
from trellis.metrics.fields import score_fields
from trellis.models import vote_hmm
from trellis.models.vote_hmm import VoteHMM

ROWS: dict[str, dict[str, float]] = {
    "default": {},
    "without short forms": {"short_forms": False},
    "entity bias 0": {"entity_bias": 0.0},
    "entity bias 1": {"entity_bias": 1.0},
    "entity bias 3": {"entity_bias": 3.0},
    "accuracy 0.8": {"accuracy": 0.8},
    "accuracy 0.95": {"accuracy": 0.95},
    "strength 1": {"prior_strength": 1.0},
    "strength 3": {"prior_strength": 3.0},
    "strength 30": {"prior_strength": 30.0},
    "one round": {"max_iter": 1},
    "plain HMM": {"prior_strength": 0.0, "entity_bias": 0.0, "short_forms": False},
}
DRAWS, TOKENS, FEW = 3, 20_000, 200


@dataclass(frozen=True)
class Gold:
    """Texts with votes, and their gold labels."""

    texts: list[Document]
    labels: list[list[str]]

    def f1(self, found: Sequence[Sequence[str]]) -> float:
        return 100.0 * score_fields(self.labels, found).total.f1

    def majority(self) -> float:
        return self.f1(weak.majority(self.texts))

    def span_vote(self) -> float:
        return self.f1(span_vote(self.texts))

    def ours(self, **settings: float) -> float:
        return self.f1(Aggregator(**settings).fit(self.texts).labels_)

    def take(self, functions: Sequence[str], texts: Sequence[int]) -> Gold:
        """Some of the texts, with the votes of some of the functions."""
        kept = [self.texts[i] for i in texts]
        votes = [{name: text.votes[name] for name in functions} for text in kept]
        return Gold([replace(t, votes=v) for t, v in zip(kept, votes, strict=True)], [self.labels[i] for i in texts])


def gold_of(corpus: weak.Corpus, all_functions: bool = False) -> Gold:
    texts = [text for path in corpus.files for text in read_voted(path, all_functions=all_functions)]
    labels = [[label or "O" for label in one.labels or ()] for path in corpus.files for one in read_wrench_gold(path)]
    return Gold(texts, labels)


def rows(corpora: Sequence[weak.Corpus]) -> None:
    data = [gold_of(corpus) for corpus in corpora]
    print("| span F1 | " + " | ".join(corpus.name for corpus in corpora) + " | mean |")
    print("| --- " * (len(corpora) + 2) + "|")
    show("majority vote", [one.majority() for one in data])
    show("span vote", [one.span_vote() for one in data])
    table = {name: show(name, [one.ours(**settings) for one in data]) for name, settings in ROWS.items()}
    for name, change in (("near-duplicates count in full", every_function_in_full), ("no transition prior", no_prior)):
        with change():
            table[name] = show(name, [one.ours() for one in data])
    if len(corpora) > 1:
        best = [max(table, key=lambda name: sum(table[name]) - table[name][i]) for i in range(len(corpora))]
        show("best row of the other corpora", [table[name][i] for i, name in enumerate(best)])
        print("rows:", ", ".join(f"{corpus.name} {name!r}" for corpus, name in zip(corpora, best, strict=True)))


@contextmanager
def every_function_in_full() -> Iterator[None]:
    before, vote_hmm.NEAR_DUPLICATE = vote_hmm.NEAR_DUPLICATE, 2.0
    try:
        yield
    finally:
        vote_hmm.NEAR_DUPLICATE = before


@contextmanager
def no_prior() -> Iterator[None]:
    """Maximum-likelihood transitions."""
    begin = VoteHMM.begin

    def without(self: VoteHMM, batch: object) -> None:
        begin(self, batch)  # type: ignore[arg-type]
        self.pseudo_transitions_[:] = 0.0

    VoteHMM.begin = without  # type: ignore[method-assign]
    try:
        yield
    finally:
        VoteHMM.begin = begin  # type: ignore[method-assign]


def show(name: str, values: list[float]) -> list[float]:
    print(f"| {name} | " + " | ".join(f"{v:.1f}" for v in values) + f" | {np.mean(values):.2f} |", flush=True)
    return values


def subsets(corpora: Sequence[weak.Corpus]) -> None:
    print("| corpus | functions | texts | majority vote | span vote | aggregate | above the better vote |")
    print("| --- " * 7 + "|")
    found = []
    for corpus in corpora:
        for functions, gold in situations(corpus):
            votes, ours = (gold.majority(), gold.span_vote()), gold.ours()
            found.append(ours - max(votes))
            cells = [corpus.name, functions, str(len(gold.texts)), *(f"{v:.1f}" for v in (*votes, ours))]
            print("| " + " | ".join(cells) + f" | {found[-1]:+.1f} |", flush=True)
    below = sum(difference < -0.3 for difference in found)
    print(f"mean {np.mean(found):+.2f}, worst {min(found):+.1f}, below -0.3 in {below} of {len(found)}")


def situations(corpus: weak.Corpus) -> Iterator[tuple[str, Gold]]:
    """Functions in words, and texts with their votes."""
    recommended, every = gold_of(corpus), gold_of(corpus, all_functions=True)
    used = list(recommended.texts[0].votes)
    known = [name for name in every.texts[0].votes if any(any(text.votes[name]) for text in every.texts)]
    numbers = range(len(every.texts))
    if set(known) - set(used):
        yield "all", every
        yield "not recommended", every.take([name for name in known if name not in used], numbers)
    for size in (3, 5, 8):
        for draw in range(DRAWS):
            rng = random.Random(f"{corpus.name} {size} {draw}")
            own, order = rng.sample(known, min(size, len(known))), rng.sample(numbers, len(numbers))
            ends = np.cumsum([len(every.texts[i]) for i in order])
            part = every.take(own, order[: max(int(np.searchsorted(ends, TOKENS)), 1)])
            if any(any(votes) for text in part.texts for votes in text.votes.values()):
                yield f"{len(own)} at random", part
    for draw in range(DRAWS):
        order = random.Random(f"{corpus.name} {draw}").sample(numbers, min(FEW, len(numbers)))
        yield "recommended", recommended.take(used, order)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subsets", action="store_true", help="parts of the corpora")
    parser.add_argument("--small", action="store_true", help="use small generated data")
    parser.add_argument("--corpora", nargs="+", default=[], help="corpora to run")
    given = parser.parse_args()
    corpora = list(weak.corpora(Options(small=given.small, corpora=tuple(given.corpora))))
    (subsets if given.subsets else rows)(corpora)


if __name__ == "__main__":
    main()
