"""Weak labels: what each part of the aggregator is worth, and how it does on parts of the panel's corpora.

    make bench-weak                                    every row is the default with one change
    make bench-weak ARGS=--subsets                     other functions and fewer texts than the panel has
    make bench-weak ARGS="--corpora conll --small"

Span F1 on the development sets of the panel (``benchmarks/panel.py``): gold labels of ``valid``, and of ``train`` if
there is one. Rows below the default are differences to it, with their standard errors by bootstrap over texts. The last
row has, for each corpus, the row that is best in the mean of the other corpora.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from _panel import weak
from _panel.common import Options
from _rows import constant

from trellis import Aggregator
from trellis.apps.aggregate import short_forms
from trellis.apps.aggregate.majority import span_vote
from trellis.data.bio import runs
from trellis.data.document import Document
from trellis.data.ragged import FloatArray
from trellis.data.voted_files import read_voted
from trellis.data.wrench import read_wrench_gold
from trellis.models import vote_hmm
from trellis.models.vote_hmm import VoteHMM

begin = VoteHMM.begin


def without_transition_prior(model: VoteHMM, batch: Any) -> None:
    begin(model, batch)
    model.pseudo_transitions_[:] = 0.0


def with_less_smoothing(model: VoteHMM, batch: Any) -> None:
    model.prior = 1.01
    begin(model, batch)


DEFAULT = "default"
SETTINGS: dict[str, dict[str, float]] = {
    "without short forms": {"short_forms": False},
    "entity bias 0": {"entity_bias": 0.0},
    "entity bias 1": {"entity_bias": 1.0},
    "entity bias 3": {"entity_bias": 3.0},
    "accuracy 0.8": {"accuracy": 0.8},
    "accuracy 0.95": {"accuracy": 0.95},
    "prior strength 1": {"prior_strength": 1.0},
    "prior strength 3": {"prior_strength": 3.0},
    "prior strength 30": {"prior_strength": 30.0},
    "one round of EM": {"max_iter": 1},
    "plain HMM": {"prior_strength": 0.0, "entity_bias": 0.0, "short_forms": False},
}
CHANGES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "near-duplicates count in full": partial(constant, vote_hmm, "NEAR_DUPLICATE", 2.0),
    "near-duplicates from a Jaccard index of 0.5": partial(constant, vote_hmm, "NEAR_DUPLICATE", 0.5),
    "near-duplicates from a Jaccard index of 0.8": partial(constant, vote_hmm, "NEAR_DUPLICATE", 0.8),
    "no transition prior": partial(constant, VoteHMM, "begin", without_transition_prior),
    "no wrong vote names a wrong type": partial(constant, vote_hmm, "WRONG_TYPE", 0.0),
    "half of the wrong votes name a wrong type": partial(constant, vote_hmm, "WRONG_TYPE", 0.5),
    "least share of abstentions 0.01": partial(constant, vote_hmm, "LEAST_SILENT", 0.01),
    "least share of abstentions 0.2": partial(constant, vote_hmm, "LEAST_SILENT", 0.2),
    "Dirichlet α 1.01 in place of 1.1": partial(constant, VoteHMM, "begin", with_less_smoothing),
    "short forms of up to 5 letters": partial(constant, short_forms, "LONGEST", 5),
}
DRAWS, TOKENS, FEW, SAMPLES = 3, 20_000, 200, 200


@dataclass(frozen=True)
class Gold:
    """Texts with votes, and their gold labels."""

    texts: list[Document]
    labels: list[list[str]]

    @cached_property
    def spans(self) -> list[set[tuple[str, int, int]]]:
        return [set(runs(own)) for own in self.labels]

    def counts(self, found: Sequence[Sequence[str]]) -> FloatArray:
        """(n_texts, 2): right spans, and half the sum of gold and found ones."""
        both = [(gold, set(runs(own))) for gold, own in zip(self.spans, found, strict=True)]
        return np.array([(len(gold & own), (len(gold) + len(own)) / 2) for gold, own in both])

    def majority(self) -> FloatArray:
        return self.counts(weak.majority(self.texts))

    def span_vote(self) -> FloatArray:
        return self.counts(span_vote(self.texts))

    def ours(self, **settings: Any) -> FloatArray:
        return self.counts(Aggregator(**settings).fit(self.texts).labels_)

    def take(self, functions: Sequence[str], texts: Sequence[int]) -> Gold:
        """Some of the texts, with the votes of some of the functions."""
        kept = [self.texts[i] for i in texts]
        votes = [{name: text.votes[name] for name in functions} for text in kept]
        return Gold([replace(t, votes=v) for t, v in zip(kept, votes, strict=True)], [self.labels[i] for i in texts])


def gold_of(corpus: weak.Corpus, all_functions: bool = False) -> Gold:
    texts = [text for path in corpus.files for text in read_voted(path, all_functions=all_functions)]
    labels = [[label or "O" for label in one.labels or ()] for path in corpus.files for one in read_wrench_gold(path)]
    return Gold(texts, labels)


def f1(counts: FloatArray) -> float:
    right, all_spans = counts.sum(axis=0)
    return float(100.0 * right / max(all_spans, 1.0))


def rows(corpora: Sequence[weak.Corpus]) -> None:
    data = [gold_of(corpus) for corpus in corpora]
    print("| span F1 | " + " | ".join(corpus.name for corpus in corpora) + " | mean |")
    print("| --- " * (len(corpora) + 2) + "|")
    show("majority vote", [f1(one.majority()) for one in data])
    show("span vote", [f1(one.span_vote()) for one in data])
    default = [one.ours() for one in data]
    table = {DEFAULT: show(DEFAULT, [f1(own) for own in default])}
    for name in (*SETTINGS, *CHANGES):
        with CHANGES.get(name, nullcontext)():
            counts = [one.ours(**SETTINGS.get(name, {})) for one in data]
        table[name] = [f1(own) for own in counts]
        errors = [error(own, other) for own, other in zip(counts, default, strict=True)]
        differences = np.subtract(table[name], table[DEFAULT]).tolist()
        pairs = zip([*differences, np.mean(differences)], [*errors, np.hypot.reduce(errors) / len(errors)], strict=True)
        print(f"| {name} | " + " | ".join(f"{value:+.2f} ±{e:.2f}" for value, e in pairs) + " |", flush=True)
    if len(corpora) > 1:
        best = [max(table, key=lambda name: sum(table[name]) - table[name][i]) for i in range(len(corpora))]
        show("best row of the other corpora", [table[name][i] for i, name in enumerate(best)])
        print("rows:", ", ".join(f"{corpus.name} {name!r}" for corpus, name in zip(corpora, best, strict=True)))


def error(own: FloatArray, other: FloatArray) -> float:
    """Standard error of the difference of F1, by bootstrap over texts."""
    rng, n = np.random.default_rng(0), len(own)
    drawn = rng.multinomial(n, np.full(n, 1.0 / n), size=SAMPLES)
    right = [100.0 * (drawn @ counts[:, 0]) / np.maximum(drawn @ counts[:, 1], 1.0) for counts in (own, other)]
    return float(np.std(right[0] - right[1], ddof=1))


def show(name: str, values: list[float]) -> list[float]:
    print(f"| {name} | " + " | ".join(f"{v:.1f}" for v in values) + f" | {np.mean(values):.2f} |", flush=True)
    return values


def subsets(corpora: Sequence[weak.Corpus]) -> None:
    print("| corpus | functions | texts | majority vote | span vote | aggregate | above the better vote |")
    print("| --- " * 7 + "|")
    found = []
    for corpus in corpora:
        for functions, gold in situations(corpus):
            votes, ours = (f1(gold.majority()), f1(gold.span_vote())), f1(gold.ours())
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
