"""Monotone: alignments of two strings by segments, in order, with none crossing (Chang 2011, sec. 5.4.1 and 6.4.1).

    score(y) = Σ_{steps of y} value(step),      p(y) ∝ exp score(y)

A step puts up to ``longest`` characters of one string beside up to ``longest`` of the other, or beside none; with
``longest = 1`` characters are aligned one to one. Sums and maxima take O(n · m · longest²).

An alignment is a path from (0, 0) to (n, m) through the points between characters. A step from (i − a, j − b) to (i, j)
puts the source characters i − a + 1 .. i beside the target characters j − b + 1 .. j; a and b are at most ``longest``,
and one of them may be 0: the segment has no partner.

    part = first part of the pair + (i · (m + 1) + j) · n_steps + number of (a, b),      (0, 1), (0, 2), .., (1, 0), ..

Steps that would begin outside have numbers too and are never used. Where segments without a partner stand side by side,
those of the source come first, so that an alignment is told in one way. An output is a list with the points
(n_steps, 2) of each pair's path, (0, 0) left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.errors import DataError
from trellis.structures.flat import FlatScores, LinkedParts
from trellis.structures.kernels import monotone as kernel
from trellis.structures.polytope import Polytope
from trellis.structures.results import Argmax, PartPosterior
from trellis.structures.structure import refuse_impossible


@dataclass(frozen=True)
class MonotoneParts(LinkedParts):
    """Steps of the monotone alignments of a batch of pairs.

    source, target : (n_instances,) how many characters each side has;  longest : of a segment

    >>> parts = MonotoneParts(np.array([2]), np.array([1]), 2)
    >>> parts.n_parts, parts.of([np.array([[1, 1], [2, 1]])]).tolist()
    (48, [27, 42])
    """

    source: IntArray
    target: IntArray
    longest: int = 3
    kind = "monotone"
    outputs_are = "alignments of two strings"

    @property
    def n_steps(self) -> int:
        """How many steps end at a point."""
        return (self.longest + 1) ** 2 - 1

    @cached_property
    def part_offsets(self) -> IntArray:  # type: ignore[override]
        return offsets_of((self.source + 1) * (self.target + 1) * self.n_steps)

    def take(self, numbers: IntArray) -> MonotoneParts:
        return MonotoneParts(self.source[numbers], self.target[numbers], self.longest)

    def place_of(self, parts: IntArray) -> IntArray:
        """The point where a step ends: a path meets it once."""
        return parts // self.n_steps

    def segments(self, parts: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """Of each part its pair, and the first place and the length of its two segments."""
        instance, local = self.split(parts)
        point, step = np.divmod(local, self.n_steps)
        i, j = np.divmod(point, self.target[instance] + 1)
        a, b = np.divmod(step + 1, self.longest + 1)
        return instance, i - a, a, j - b, b

    def linked_words(self) -> tuple[IntArray, IntArray, IntArray]:
        """Each character of a segment is linked to each one of the segment beside it."""
        instance, i, a, j, b = self.segments(np.arange(self.n_parts))
        step = np.flatnonzero(self.is_link(np.arange(self.n_parts)))
        part, first = np.repeat(step, (a * b)[step]), offsets_of((a * b)[step])
        within = np.arange(first[-1]) - np.repeat(first[:-1], (a * b)[step])
        row, column = np.divmod(within, b[part])
        source, target = offsets_of(self.source)[instance] + i, offsets_of(self.target)[instance] + j
        return part, source[part] + row, target[part] + column

    def is_link(self, parts: IntArray) -> BoolArray:
        _, i, a, j, b = self.segments(parts)
        return np.asarray((i >= 0) & (j >= 0) & (a > 0) & (b > 0))

    def link_places(self, parts: IntArray) -> tuple[IntArray, ...]:
        """The last character of the segment on either side; steps without one go by the point where they end."""
        instance, i, a, j, b = self.segments(parts)
        points, sizes = self.n_parts, (self.source, self.target)
        ends = ((i + a, a), (j + b, b))
        return tuple(
            np.where(length > 0, points + offsets_of(size + 1)[instance] + end, parts // self.n_steps)
            for (end, length), size in zip(ends, sizes, strict=True)
        )

    def of(self, outputs: Any) -> IntArray:
        return self._used(outputs)[0]

    def paths_of(self, parts: IntArray) -> list[IntArray]:
        """The output that uses these parts."""
        instance, i, a, j, b = self.segments(np.sort(parts))
        points = np.stack((i + a, j + b), axis=1)
        return np.split(points, np.searchsorted(instance, np.arange(1, self.n_instances)))[: self.n_instances]

    def is_path(self, outputs: Any) -> BoolArray:
        """(n_instances,): whether paths end where they should, and unpaired segments stand in the order they should."""
        _, instance, steps, last = self._used(outputs)
        ends = np.all(last == np.stack((self.source, self.target), axis=1), axis=1)
        turned = (steps[1:, 1] == 0) & (steps[:-1, 0] == 0) & (instance[1:] == instance[:-1])
        ends[instance[1:][turned]] = False
        return np.asarray(ends)

    def _used(self, outputs: Any) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Parts, and of each its pair and its step (a, b); and the last point (n_instances, 2) of every path."""
        if len(outputs) != self.n_instances:
            raise DataError(f"{len(outputs)} paths are not one for each of {self.n_instances} pairs")
        empty = np.zeros((0, 2), np.int64)
        points = np.concatenate([empty, *(np.asarray(path, np.int64).reshape(-1, 2) for path in outputs)])
        counts = np.array([len(path) for path in outputs], np.int64)
        instance = np.repeat(np.arange(self.n_instances), counts)
        before, first = np.roll(points, 1, axis=0), offsets_of(counts)[:-1]
        before[first[counts > 0]] = 0
        steps = points - before
        a, b = steps[:, 0], steps[:, 1]
        outside = (points[:, 0] > self.source[instance]) | (points[:, 1] > self.target[instance])
        wrong = np.flatnonzero(outside | (a < 0) | (b < 0) | (a > self.longest) | (b > self.longest) | (a + b == 0))
        if len(wrong):
            at = int(wrong[0])
            raise DataError(
                f"the path of pair {instance[at]} goes from {before[at].tolist()} to {points[at].tolist()}: a step "
                f"takes up to {self.longest} characters of either side, and some"
            )
        last = np.zeros((self.n_instances, 2), np.int64)
        last[instance] = points  # of several, the last is kept
        where = points[:, 0] * (self.target[instance] + 1) + points[:, 1]
        step = a * (self.longest + 1) + b - 1
        return self.part_offsets[instance] + where * self.n_steps + step, instance, steps, last

    def zeros(self) -> Monotone:

        return Monotone(self, np.zeros(self.n_parts))


class Monotone(FlatScores):
    """Scores of the steps of :class:`MonotoneParts`, (n_parts,).

    >>> from trellis.structures import MonotoneParts
    >>> parts = MonotoneParts(np.array([2]), np.array([1]), 2)
    >>> value = np.zeros(parts.n_parts)
    >>> value[parts.of([np.array([[2, 1]])])] = 1.0  # both characters beside the one
    >>> Monotone(parts, value).argmax().outputs[0].tolist(), Monotone(parts, value).infer().log_partition.round(3)
    ([[2, 1]], array([1.905]))
    """

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """Best paths; of several always the same, or with ``rng`` any of them."""
        p = self._parts
        room = offsets_of(p.source + p.target)
        uniform = np.zeros(0) if rng is None else rng.random(int(room[-1]))
        points, count, best = np.zeros((int(room[-1]), 2), np.int64), np.zeros(len(self), np.int64), np.zeros(len(self))
        kernel.best_paths(p.part_offsets, p.source, p.target, p.longest, self.value, uniform, points, count, best)
        refuse_impossible(best, self.first, self.numbers)
        ends = zip(room[:-1].tolist(), (room[:-1] + count).tolist(), strict=True)
        return Argmax([points[low:high][::-1] for low, high in ends], best)

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> PartPosterior:
        p, marginal, log_partition = self._parts, np.zeros(self._parts.n_parts), np.zeros(len(self))
        kernel.sum_paths(p.part_offsets, p.source, p.target, p.longest, self.value, marginal, log_partition)
        refuse_impossible(log_partition, self.first, self.numbers)
        return PartPosterior(marginal, log_partition)

    def score(self, outputs: Any) -> FloatArray:
        return np.where(self._parts.is_path(outputs), self._sums(self._parts.of(outputs)), -np.inf)

    def polytope(self, closed: IntArray) -> Polytope:
        """A unit of flow from the first point to the last. Points have two layers: a step (0, b) leads to the second,
        and no step (a, 0) out of it."""
        from scipy.sparse import csr_array

        p = self._parts
        instance, i, a, j, b = p.segments(np.arange(p.n_parts))
        is_open = (self.value > -np.inf) & (i >= 0) & (j >= 0)
        is_open[closed] = False
        step = np.concatenate((np.flatnonzero(is_open), np.flatnonzero(is_open & (b > 0))))
        layer = np.arange(len(step)) >= np.count_nonzero(is_open)
        end, last = step // p.n_steps, p.part_offsets[1:] // p.n_steps - 1
        begin = end - a[step] * (p.target[instance[step]] + 1) - b[step]
        ends_second = (a[step] == 0) & (end != last[instance[step]])
        bound = np.zeros(2 * (p.n_parts // p.n_steps))
        np.add.at(bound, 2 * (p.part_offsets[:-1] // p.n_steps), -1.0)
        np.add.at(bound, 2 * last, 1.0)
        variable, one = np.arange(len(step)), np.ones(len(step))
        rows = np.concatenate((2 * begin + layer, 2 * end + ends_second))
        flow = (np.concatenate((-one, one)), (rows, np.tile(variable, 2)))
        return Polytope(
            matrix=csr_array(flow, shape=(len(bound), len(step))),
            bound=bound,
            use=csr_array((one, (step, variable)), shape=(p.n_parts, len(step))),
            score=self.value[step],
            whole=np.ones(len(step), np.bool_),
            outputs=lambda x: p.paths_of(step[x > 0.5]),
        )
