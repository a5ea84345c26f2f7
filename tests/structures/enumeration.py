"""Enumerations by parts: what every structure promises, answered from a list of all outputs of every instance.

An enumeration knows an output only as the set of parts that it uses, and so serves structures of every kind. Which
parts an output uses comes from a twin that has formulas of its own, never from the structure in question.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from align.twin import Twin as AlignmentTwin

from .twins import Twin, log_sum_exp


@dataclass(frozen=True)
class Enumeration:
    """All outputs of every instance.

    use : for each instance (n_outputs, n_parts) bools, the parts that each output uses
    score : for each instance (n_outputs,)
    assemble : the number of an output for each instance -> an output of the batch, in the structure's own form
    """

    n_parts: int
    use: list[np.ndarray]
    score: list[np.ndarray]
    assemble: Callable[[Sequence[int]], Any]
    first: int = 0

    def __len__(self) -> int:
        return len(self.use)

    @cached_property
    def infeasible(self) -> list[int]:
        """Numbers (counted from ``first``) of the instances without any possible output."""
        return [self.first + i for i, score in enumerate(self.score) if not np.any(score > -math.inf)]

    @cached_property
    def log_partition(self) -> np.ndarray:
        return np.array([log_sum_exp(score) if len(score) else -math.inf for score in self.score])

    @cached_property
    def best_score(self) -> np.ndarray:
        return np.array([score.max(initial=-math.inf) for score in self.score])

    @cached_property
    def marginals(self) -> np.ndarray:
        """(n_parts,): P(part is used)."""
        total = np.zeros(self.n_parts)
        for use, score, top in zip(self.use, self.score, self.log_partition, strict=True):
            total += np.exp(score - top) @ use
        return total

    def expected_score(self, q: Enumeration, weights: np.ndarray) -> float:
        """Σ_i weight_i Σ_y q(y) score(y) for the distribution of another enumeration of the same outputs."""
        total = 0.0
        for weight, mine, theirs, top in zip(weights, self.score, q.score, q.log_partition, strict=True):
            possible = theirs > -math.inf
            total += float(weight) * float(np.exp(theirs[possible] - top) @ mine[possible])
        return total

    def change(self, part: np.ndarray, value: np.ndarray, gamma: float = 1.0) -> Enumeration:
        """Scores (score(y) + Σ of the values at parts of y) / γ."""
        added = [_total(use, part, value) for use in self.use]
        return replace(self, score=[(a + b) / gamma for a, b in zip(self.score, added, strict=True)])

    def flat(self) -> Enumeration:
        return replace(self, score=[np.where(score > -math.inf, 0.0, -math.inf) for score in self.score])

    def mean(self, other: Enumeration) -> Enumeration:
        return replace(self, score=[(a + b) / 2.0 for a, b in zip(self.score, other.score, strict=True)])

    def row_values(self, part: np.ndarray, coefficient: np.ndarray) -> list[np.ndarray]:
        """For each instance (n_outputs,): Σ of the coefficients at parts of y."""
        return [_total(use, part, coefficient) for use in self.use]

    def every_choice(self) -> list[tuple[int, ...]]:
        """Every output of the batch: the number of an output for each instance."""
        return list(itertools.product(*(range(len(score)) for score in self.score)))

    def used(self, choice: Sequence[int]) -> np.ndarray:
        """(n_parts,): how often an output of the batch uses each part, which is once or not at all."""
        total = np.zeros(self.n_parts, dtype=np.int64)
        for number, use in zip(choice, self.use, strict=True):
            total += use[number]
        return total

    def score_of(self, choice: Sequence[int]) -> np.ndarray:
        return np.array([score[number] for number, score in zip(choice, self.score, strict=True)])

    @cached_property
    def usable(self) -> np.ndarray:
        """(n_parts,): whether any output, possible or not, uses the part."""
        return np.logical_or.reduce([np.zeros(self.n_parts, dtype=np.bool_), *(use.any(axis=0) for use in self.use)])


def _total(use: np.ndarray, part: np.ndarray, value: np.ndarray) -> np.ndarray:
    total = np.zeros(len(use))
    for p, v in zip(part.tolist(), value.tolist(), strict=True):
        total = total + np.where(use[:, p], v, 0.0)
    return total


def of_labels(twin: Twin, *, edges: bool) -> Enumeration:
    """The label sequences of a twin; ``edges``: whether pairs of labels are parts too."""
    n, k = twin.n_slots, twin.n_labels
    n_parts = n * k * (1 + k) if edges else n * k
    use = []
    for i, listing in enumerate(twin.listings):
        rows = np.zeros((len(listing.labels), n_parts), dtype=np.bool_)
        for row, labels in zip(rows, listing.labels.tolist(), strict=True):
            for t, label in zip(twin.slots(i), labels, strict=True):
                row[t * k + label] = True
            for t, pair in zip(twin.slots(i)[1:], itertools.pairwise(labels), strict=True):
                if edges:
                    row[n * k + (t * k + pair[0]) * k + pair[1]] = True
        use.append(rows)

    def assemble(choice: Sequence[int]) -> np.ndarray:
        labels = [x.labels[number] for x, number in zip(twin.listings, choice, strict=True)]
        return np.concatenate([np.zeros(0, np.int64), *labels]).astype(np.int32)

    return Enumeration(n_parts, use, [listing.score for listing in twin.listings], assemble, twin.first)


def of_subsets(offsets: Any, value: Any, *, least: Any = 0, most: Any = None, first: int = 0) -> Enumeration:
    """The subsets of the elements of each instance whose sizes lie within bounds."""
    offsets, value = np.asarray(offsets, dtype=np.int64), np.asarray(value, dtype=float)
    n = len(offsets) - 1
    least, most = np.broadcast_to(least, n), np.broadcast_to(np.diff(offsets) if most is None else most, n)
    use, score = [], []
    for i in range(n):
        low, high = int(offsets[i]), int(offsets[i + 1])
        sets = [
            chosen for size in range(least[i], most[i] + 1) for chosen in itertools.combinations(range(low, high), size)
        ]
        rows = np.zeros((len(sets), len(value)), dtype=np.bool_)
        for row, chosen in zip(rows, sets, strict=True):
            row[list(chosen)] = True
        use.append(rows)
        score.append(np.array([sum(value[list(chosen)].tolist()) for chosen in sets], dtype=float))

    def assemble(choice: Sequence[int]) -> np.ndarray:
        chosen = np.zeros(len(value), dtype=np.bool_)
        for number, rows in zip(choice, use, strict=True):
            chosen |= rows[number]
        return chosen

    return Enumeration(len(value), use, score, assemble, first)


def of_alignments(twin: AlignmentTwin, first: int = 0) -> Enumeration:
    """The word alignments of a twin."""
    outputs = [twin.outputs(n) for n in range(len(twin))]
    n_parts = len(twin.link) + len(twin.null)
    use = []
    for n, listed in enumerate(outputs):
        rows = np.zeros((len(listed), n_parts), dtype=np.bool_)
        for row, y in zip(rows, listed, strict=True):
            row[twin.parts_of(n, y)] = True
        use.append(rows)

    def assemble(choice: Sequence[int]) -> np.ndarray:
        places = [np.array(listed[number]) for listed, number in zip(outputs, choice, strict=True)]
        return np.concatenate([np.zeros(0), *places]).astype(np.int32)

    return Enumeration(n_parts, use, [twin.scores(n) for n in range(len(twin))], assemble, first)


def of_members(members: Sequence[Enumeration]) -> Enumeration:
    """Outputs of several enumerations side by side: one of each, in every combination."""
    n_parts, starts = sum(m.n_parts for m in members), np.cumsum([0, *(m.n_parts for m in members)])
    use, score, choices = [], [], []
    for i in range(len(members[0])):
        combined = list(itertools.product(*(range(len(m.score[i])) for m in members)))
        rows = np.zeros((len(combined), n_parts), dtype=np.bool_)
        totals = np.zeros(len(combined))
        for number, choice in enumerate(combined):
            for member, start, own in zip(members, starts, choice, strict=False):
                rows[number, start : start + member.n_parts] = member.use[i][own]
                totals[number] += member.score[i][own]
        use.append(rows)
        score.append(totals)
        choices.append(combined)

    def assemble(choice: Sequence[int]) -> tuple[Any, ...]:
        picked = [each[number] for each, number in zip(choices, choice, strict=True)]
        return tuple(m.assemble([own[which] for own in picked]) for which, m in enumerate(members))

    return Enumeration(n_parts, use, score, assemble, members[0].first)
