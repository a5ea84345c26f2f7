"""Monotone: alignments of two strings by segments, in order, with none crossing (Chang 2011, sec. 5.4.1 and 6.4.1).

    score(y) = Σ_{steps of y} value(step),      p(y) ∝ exp score(y)

A step puts up to ``longest`` characters of one string beside up to ``longest`` of the other, or beside none; with
``longest = 1`` characters are aligned one to one. Sums and maxima take O(n · m · longest²). The parts and the form of
outputs stand in :mod:`monotone_parts`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, offsets_of
from trellis.structures.flat import FlatScores
from trellis.structures.kernels import monotone as kernel
from trellis.structures.polytope import Polytope
from trellis.structures.results import Argmax, PartPosterior
from trellis.structures.structure import refuse_impossible


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
