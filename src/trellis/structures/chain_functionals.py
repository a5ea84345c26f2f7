"""Functionals of chains: what they say of transitions as patterns of boundaries.

Boundaries at which functionals have the same entries share a matrix e(a, b) = Σ_r s_r c_r(a, b) whatever s is; of
functionals of single instances a matrix for each instance, made where it is used
(:mod:`trellis.structures.kernels.chain_derivative`). So neither marginals nor directions of single transitions are ever
listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray
from trellis.structures.chain_derivative import derive_log
from trellis.structures.chain_parts import ChainParts, pair_up, patterns_of
from trellis.structures.functionals import Functionals
from trellis.structures.kernels import chain_derivative as kernel
from trellis.structures.kernels.chain_sum import FLAGGED
from trellis.structures.kernels.lanes import with_slack
from trellis.structures.results import LabelPosterior

if TYPE_CHECKING:
    from trellis.structures.chain import Chain


class ChainFunctionals(Functionals):
    """As :class:`Functionals`, whose ``part``, ``coefficient`` and ``row`` are here those of labels alone."""

    def __init__(
        self, parts: ChainParts, start: IntArray, part: IntArray, coefficient: FloatArray, instance: IntArray
    ) -> None:
        super().__init__(parts, start, part, coefficient, instance)
        k, n_node = parts.n_labels, parts.n_node_parts
        n_local = int(np.count_nonzero(instance >= 0))
        self.first_row = np.searchsorted(instance[:n_local], np.arange(parts.n_instances + 1)).astype(np.int64)
        self.most = int(np.diff(self.first_row).max(initial=0))
        entry = np.flatnonzero(part >= n_node)
        row, cell = self.row[entry], part[entry] - n_node
        # functionals of an instance by their place in it, so that those of another look alike
        inside = instance[row] >= 0
        code = row - n_local + self.most
        code[inside] = row[inside] - self.first_row[instance[row[inside]]]
        self.pattern, self.start, within, self.edge_coefficient = patterns_of(
            cell // (k * k), code * (k * k) + cell % (k * k), coefficient[entry], parts.n_slots
        )
        self.code, self.cell = within // (k * k), within % (k * k)
        if len(entry):
            here = np.flatnonzero(part < n_node)
            self.part, self.coefficient, self.row = part[here], coefficient[here], self.row[here]

    def expect(self, scores: Chain, weights: FloatArray) -> FloatArray:
        if not len(self.cell):
            return super().expect(scores, weights)
        posterior = with_slack((scores.n_slots, scores.n_labels))
        found, status = np.zeros(len(self)), np.empty(len(scores), np.int8)
        kernel.expect_scaled(_lattice(scores), self._tilts(scores), weights, posterior, found, status)
        for i in np.flatnonzero(status == FLAGGED).tolist():
            here = slice(int(scores.offsets[i]), int(scores.offsets[i + 1]))
            q = scores.instances(i, i + 1).infer(at=np.array([(here.stop - here.start) * scores.n_labels]))
            posterior[here] = q.node
            assert q.edge is not None
            for pattern, of_edge in zip(self.pattern[here].tolist(), q.edge, strict=True):
                row, cell, coefficient = self._entries(i, pattern)
                weight = np.where(self.instance[row] < 0, weights[i], 1.0)
                np.add.at(found, row, weight * coefficient * of_edge.reshape(-1)[cell])
        return found + self._sum(posterior.reshape(-1)[self.part], weights)

    def derive(self, scores: Chain, slope: FloatArray, weights: FloatArray) -> LabelPosterior:
        """By forward-backward with tangents."""
        k, n, t = scores.n_labels, len(scores), scores.tables
        direction = with_slack((scores.n_slots, k))
        added = np.bincount(self.part, slope[self.row] * self.coefficient, minlength=direction.size)
        direction.reshape(-1)[:] = added
        node, d, status = with_slack((scores.n_slots, k)), np.zeros(n), np.empty(n, np.int8)
        counts_t = np.zeros(t.potentials.edge.shape)
        kernel.derive_scaled(
            _lattice(scores), self._tilts(scores), weights, direction, slope, node, counts_t, d, status
        )
        counts = counts_t.transpose(0, 2, 1) * t.potentials.edge
        for i in np.flatnonzero(status == FLAGGED).tolist():
            here = slice(int(scores.offsets[i]), int(scores.offsets[i + 1]))
            own, index = scores.node[here].copy(), scores.edge_index[here]
            own[0] += t.start
            own[-1] += t.stop
            along = np.zeros((len(own), k, k))
            for at, pattern in enumerate(self.pattern[here].tolist()):
                row, cell, coefficient = self._entries(i, pattern)
                np.add.at(along[at].reshape(-1), cell, slope[row] * coefficient)
            node[here], of_edges, d[i] = derive_log(own, t.edge[index], direction[here], along)
            np.add.at(counts, index, weights[i] * of_edges)
        return LabelPosterior(node, d, scores.own_counts(counts))

    def _entries(self, i: int, pattern: int) -> tuple[IntArray, IntArray, FloatArray]:
        """Functionals, cells a · K + b and coefficients of a boundary of instance i."""
        some = slice(self.start[pattern], self.start[pattern + 1])
        code = self.code[some]
        row = np.where(code < self.most, self.first_row[i] + code, self.first_row[-1] + code - self.most)
        return row, self.cell[some], self.edge_coefficient[some]

    def _tilts(self, scores: Chain) -> kernel.Tilts:
        n_patterns, n_own = len(self.start) - 1, scores.tables.n_matrices
        pattern, own, index = np.arange(n_patterns), np.zeros(n_patterns, np.int64), self.pattern
        if n_own > 1:
            pattern, own, index = pair_up(self.pattern, scores.edge_index, n_own)
        return kernel.Tilts(
            self.start, self.code, self.cell, self.edge_coefficient, self.first_row, self.most, pattern, own,
            index.astype(np.int32, copy=False),
        )  # fmt: skip


def _lattice(chain: Chain) -> Any:
    p = chain.tables.potentials
    return kernel.Lattice(chain.offsets, p.node, chain.node_index, p.edge, p.edge_t, chain.edge_index, p.start, p.stop)
