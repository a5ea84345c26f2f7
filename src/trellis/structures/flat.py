"""What structures share that keep one score for every part in a flat array, the parts of an instance in one run.

score(y) = Σ_{parts of y} score(part)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from itertools import pairwise
from typing import Any, Self

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, owners, take_rows
from trellis.errors import InfeasibleError
from trellis.structures.blocks import BlockParts, PlainBlock
from trellis.structures.parts import dense_change
from trellis.structures.results import KBest
from trellis.structures.structure import (
    Structure,
    check_alike,
    check_gamma,
    check_k,
    check_scores,
    expect_scores,
    numbers_of,
)


class FlatParts(BlockParts):
    """Parts numbered instance by instance: ``part_offsets`` (n_instances + 1,) says where each begins."""

    part_offsets: IntArray

    @property
    def blocks(self) -> Sequence[PlainBlock]:
        return [PlainBlock(self.part_offsets, 1)]

    @abstractmethod
    def take(self, numbers: IntArray) -> Self:
        """The parts of these instances, in this order."""

    def shard(self, first: int, last: int) -> Self:
        return self.take(np.arange(first, last, dtype=np.int64))

    def change(self, part: IntArray, value: FloatArray) -> FloatArray | None:
        return dense_change(part, value, self.n_parts)


class FlatScores(Structure):
    """Scores (n_parts,), −inf where a part is forbidden; subclasses bring the outputs over them."""

    def __init__(self, parts: Any, value: Any, *, first: int = 0) -> None:
        self._parts = parts
        self.value = check_scores("part", value, (parts.n_parts,))
        self.first = first

    @property
    def parts(self) -> Any:
        return self._parts

    def _over(self, value: FloatArray) -> Self:
        """The same outputs with other scores, which are checked already."""
        made = copy(self)
        made.value = value
        return made

    def take(self, numbers: IntArray) -> Self:
        made = self._over(self.value[chosen(self._parts.part_offsets, numbers)])
        made._parts = self._parts.take(numbers)
        made.first, made.numbers = 0, numbers_of(numbers, self.first, self.numbers)
        return made

    def apply(self, change: FloatArray | None, gamma: float = 1.0) -> Self:
        return self._over((self.value if change is None else self.value + change) / check_gamma(gamma))

    def flat(self) -> Self:
        return self._over(np.where(self.value > -np.inf, 0.0, -np.inf))

    def clamp(self, known: Any) -> Self:
        """known : an output of each instance, None where it is not known"""
        loss = self._parts.hamming(known)
        forbidden = np.repeat(loss.constant > 0, self._parts.sizes())
        forbidden[loss.part] = False
        return self._over(np.where(forbidden, -np.inf, self.value))

    def mean(self, other: Self, share: float = 0.5) -> Self:
        check_alike((len(self), len(self.value)), (len(other), len(other.value)), ("instances", "parts"))
        return self._over(share * self.value + (1.0 - share) * other.value)

    def expected_score(self, q: Any, weights: FloatArray) -> float:
        return float(np.repeat(weights, self._parts.sizes()) @ expect_scores(q.marginal, self.value))

    def entropy(self) -> FloatArray:
        """−Σ_y p(y) log p(y) of each instance, in nats."""
        q = self.infer()
        return np.asarray(np.maximum(q.log_partition - self._expected_scores(q), 0.0))

    def _expected_scores(self, q: Any) -> FloatArray:
        """(n_instances,): E_q[score] of each."""
        return self._by_instance(expect_scores(q.marginal, self.value))

    def _by_instance(self, values: FloatArray) -> FloatArray:
        """(n_instances,): sums of values (n_parts,) over the parts of each instance."""
        return np.bincount(owners(self._parts.part_offsets), values, minlength=len(self)).astype(np.float64, copy=False)

    def _sums(self, used: IntArray) -> FloatArray:
        """(n_instances,): the scores of these parts, summed."""
        owner = self._parts.instance_of(used)
        return np.bincount(owner, self.value[used], minlength=len(self)).astype(np.float64, copy=False)


def kbest_by_forbidding(scores: FlatScores, k: int) -> KBest:
    """The k best outputs of structures in which an output has one part, of one place, for each of its entries."""
    check_k(k)
    offsets: Any = scores.parts.output_offsets
    labels, score = np.full((k, int(offsets[-1])), -1, np.int32), np.full((k, len(scores)), -np.inf)
    for i, (low, high) in enumerate(pairwise(offsets.tolist())):
        for place, (value, output) in enumerate(_listed(scores.instances(i, i + 1), k)):
            score[place, i], labels[place, low:high] = value, output
    return KBest(labels, score)


def _listed(one: FlatScores, k: int) -> list[tuple[float, LabelArray]]:
    """Of one instance: every output but the best differs from it first at some entry (Lawler 1972)."""
    best = one.argmax()
    waiting = [(float(best.score[0]), best.outputs, one, 0)]
    found: list[tuple[float, LabelArray]] = []
    place = one.parts.place_of(np.arange(one.parts.n_parts))
    while waiting and len(found) < k:
        waiting.sort(key=lambda entry: entry[0])
        value, outputs, scores, fixed = waiting.pop()
        found.append((value, outputs))
        used = one.parts.of(outputs)[: len(outputs)]
        for at in range(fixed, len(used)):
            others = scores.forbid(used[at : at + 1])
            with suppress(InfeasibleError):  # no other output is possible there
                best = others.argmax()
                waiting.append((float(best.score[0]), best.outputs, others, at))
            same = np.flatnonzero(place == place[used[at]])
            scores = scores.forbid(same[same != used[at]])
    return found


def chosen(offsets: IntArray, numbers: IntArray) -> IntArray:
    """The entries of the instances with these numbers, one after the other."""
    return take_rows(offsets, numbers)[1]
