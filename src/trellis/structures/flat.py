"""Parts numbered in blocks, and what structures share that keep one score for every part in a flat array.

    part = first part of the block + slot · size + code,        0 ≤ code < size
    score(y) = Σ_{parts of y} score(part)

A block is numbered slot by slot, the slots of an instance in a run. Labels and transitions of sequences are two blocks
over the same slots, links and null links two over others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, owners, take_rows
from trellis.errors import InfeasibleError
from trellis.structures.part_set import PartSet
from trellis.structures.parts import PartLoss, Parts, check_parts, dense_change, missed
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


class Block(Protocol):
    """offsets : (n_instances + 1,) of slots;  size : parts of a slot."""

    @property
    def offsets(self) -> IntArray: ...
    @property
    def size(self) -> int: ...


class PlainBlock(NamedTuple):
    """A block that is no more than that."""

    offsets: IntArray
    size: int


class BlockParts(Parts):
    """What follows from the blocks."""

    @property
    @abstractmethod
    def blocks(self) -> Sequence[Block]: ...

    @cached_property
    def starts(self) -> IntArray:
        """(n_blocks + 1,): the first part of each block, and the number of all parts."""
        return np.cumsum([0, *(int(b.offsets[-1]) * b.size for b in self.blocks)]).astype(np.int64)

    @property
    def n_instances(self) -> int:
        return len(self.blocks[0].offsets) - 1

    @property
    def n_parts(self) -> int:
        return int(self.starts[-1])

    def sizes(self) -> IntArray:
        return np.asarray(sum(np.diff(block.offsets) * block.size for block in self.blocks), dtype=np.int64)

    def by_block(self, parts: IntArray) -> list[tuple[BoolArray, IntArray, IntArray]]:
        """Of each block which parts are its own, their slots, and their codes."""
        found = []
        for number, block in enumerate(self.blocks):
            low, high = self.starts[number], self.starts[number + 1]
            mine: BoolArray = (parts >= low) & (parts < high)
            own = parts[mine] - low
            found.append((mine, own // block.size, own % block.size))
        return found

    def place_of(self, parts: IntArray) -> IntArray:
        """The slot, by its first part."""
        place = np.empty(parts.shape, dtype=np.int64)
        for block, start, (mine, slot, _) in zip(self.blocks, self.starts, self.by_block(parts), strict=False):
            place[mine] = start + slot * block.size
        return place

    @cached_property
    def _runs(self) -> tuple[IntArray, IntArray]:
        """(n_blocks · n_instances,) each, of every instance in every block: its first part, and that part's number
        among those of the instance alone."""
        first = [start + b.offsets[:-1] * b.size for b, start in zip(self.blocks, self.starts, strict=False)]
        sizes = np.array([np.diff(b.offsets) * b.size for b in self.blocks])
        return np.concatenate(first), (np.cumsum(sizes, axis=0) - sizes).reshape(-1)

    def instance_of(self, parts: IntArray) -> IntArray:
        return self._run_of(check_parts(parts, self.n_parts))[1]

    def _run_of(self, parts: IntArray) -> tuple[IntArray, IntArray]:
        """The run of each part among all of them, and its instance."""
        at = np.searchsorted(self._runs[0], parts, side="right") - 1  # of runs that begin together, the last has parts
        return at, at % max(self.n_instances, 1) if len(self.blocks) > 1 else at

    def split(self, parts: IntArray) -> tuple[IntArray, IntArray]:
        (first, before), (at, instance) = self._runs, self._run_of(parts)
        return instance, parts - first[at] + before[at]

    def join(self, instance: IntArray, local: IntArray) -> IntArray:
        first, before = self._runs
        at = np.array(instance, dtype=np.int64)
        for begin in before.reshape(len(self.blocks), -1)[1:]:
            at += (local >= begin[instance]) * self.n_instances
        return first[at] + local - before[at]

    def within(self, parts: IntArray, first: int, last: int) -> tuple[BoolArray, IntArray]:
        kept, moved, begin = np.zeros(parts.shape, np.bool_), np.empty(parts.shape, np.int64), 0
        for block, start in zip(self.blocks, self.starts.tolist(), strict=False):
            low, high = (start + int(block.offsets[i]) * block.size for i in (first, last))
            mine = (parts >= low) & (parts < high)
            kept |= mine
            moved[mine] = parts[mine] - low + begin
            begin += high - low
        return kept, moved[kept]


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


class LinkedParts(FlatParts):
    """Parts some of which are links, each of which an output may do without.

    Of the links of a *place*, such as those of one word, an alignment uses one at most, so that

        Σ_places min(0, least coefficient of the place)  ≤  φ(y)  ≤  Σ_places max(0, largest coefficient of the place)

    Of several ways to divide links into places, the narrowest counts. Where rows are many and each is about a few
    links, the exact values of :mod:`extremes` would take as many searches as there are rows.
    """

    exact_extremes = False

    @abstractmethod
    def is_link(self, parts: IntArray) -> BoolArray:
        """(n,): whether parts are links that an output can use."""

    @abstractmethod
    def link_places(self, parts: IntArray) -> tuple[IntArray, ...]:
        """Ways to divide parts into places, each as the place (n,) of every part: an output uses one of a place at
        most, and parts that are no links have places of their own."""

    def hamming(self, outputs: Any) -> PartLoss:
        """The parts of given alignments that are missed; None: one that is not given costs nothing."""
        known = np.array([i for i, output in enumerate(outputs) if output is not None], np.int64)
        some = self.take(known)
        instance, local = some.split(some.of([outputs[i] for i in known.tolist()]))
        return missed(self, self.join(known[instance], local))

    def extremes(self, start: IntArray, part: IntArray, coefficient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds of the least and the largest value of every row."""
        n, row = len(start) - 1, owners(start)
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        for place in self.link_places(part):
            cell, at = np.unique(np.stack((row, place)), axis=1, return_inverse=True)
            for sign, end in ((1.0, high), (-1.0, low)):
                most = np.zeros(cell.shape[1])
                np.maximum.at(most, at.ravel(), sign * coefficient)
                total = sign * np.bincount(cell[0], most, minlength=n)
                end[:] = np.minimum(end, total) if sign > 0 else np.maximum(end, total)
        return low, high

    def never_least(
        self, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
    ) -> tuple[PartSet, BoolArray]:
        """Rows that count links with a positive sign are least where none is used; of others nothing is said."""
        row = owners(start)
        counts = (coefficient == 0) | ((coefficient > 0) & self.is_link(part))
        settled = np.bincount(row, ~counts, minlength=len(start) - 1) == 0
        return PartSet.of(np.unique(part[settled[row] & (coefficient > margin[row])])), settled
