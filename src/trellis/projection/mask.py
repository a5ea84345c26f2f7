"""Forbidden parts as scores of −inf, with as few edge matrices as there are different patterns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.structures.chain import Chain
from trellis.structures.chain_tables import ChainTables


@dataclass(frozen=True)
class Mask:
    """Which parts of a batch no output may use.

    node : (n_slots, K) bool, or None if no node part is forbidden
    pattern : (n_slots,) which of ``patterns`` (n_patterns, K, K) bool holds before each slot, or None
    """

    node: BoolArray | None
    pattern: IntArray | None
    patterns: BoolArray

    @classmethod
    def of(cls, rows: Rows) -> Mask:
        """The forbidden parts of compiled rows."""
        n_slots, k = rows.parts.n_slots, rows.parts.n_labels
        nodes = rows.forbidden[rows.forbidden < rows.parts.n_node_parts]
        edges = rows.forbidden[rows.forbidden >= rows.parts.n_node_parts] - rows.parts.n_node_parts
        node = None
        if len(nodes):
            node = np.zeros((n_slots, k), dtype=np.bool_)
            node.reshape(-1)[nodes] = True
        if not len(edges):
            return cls(node, None, np.zeros((1, k, k), dtype=np.bool_))
        slots, place = np.unique(edges // (k * k), return_inverse=True)
        cells = np.zeros((len(slots) + 1, k * k), dtype=np.bool_)  # the last row: nothing forbidden
        cells[place, edges % (k * k)] = True
        packed, which = np.unique(np.packbits(cells, axis=1), axis=0, return_inverse=True)
        which = which.reshape(-1)
        pattern = np.full(n_slots, which[-1], dtype=np.int64)
        pattern[slots] = which[:-1]
        patterns = np.unpackbits(packed, axis=1, count=k * k).astype(np.bool_).reshape(-1, k, k)
        return cls(node, pattern, patterns)

    def apply(self, scores: Chain) -> Chain:
        """The same scores with −inf at forbidden parts."""
        if self.node is None and self.pattern is None:
            return scores
        t = scores.tables
        node, node_index = t.node, scores.node_index
        if self.node is not None:
            node, node_index = np.where(self.node, -np.inf, scores.node), np.arange(scores.n_slots, dtype=np.int32)
        edge, edge_index = t.edge, scores.edge_index
        if self.pattern is not None:
            edge = np.where(self.patterns[None], -np.inf, t.edge[:, None]).reshape(-1, *t.edge.shape[1:])
            edge_index = (scores.edge_index * len(self.patterns) + self.pattern).astype(np.int32)
        tables = ChainTables(node, edge, t.start, t.stop)
        return Chain.over(tables, scores.offsets, node_index=node_index, edge_index=edge_index, first=scores.first)


def fold_edge_counts(counts: FloatArray, index: NDArray[np.int32], original: Chain) -> FloatArray:
    """Expected counts of the matrices of ``original`` from those of a chain whose boundaries use other matrices.

    counts : (n_matrices, K, K) and index (n_slots,) of that chain
    """
    shape = original.tables.edge.shape
    if counts.shape == shape and np.array_equal(index, original.edge_index):
        return counts
    # Every matrix of the other chain stands for one matrix of the original: find which, from any boundary that uses it.
    owner = np.zeros(len(counts), dtype=np.int64)
    owner[index] = original.edge_index
    folded = np.zeros(shape)
    np.add.at(folded, owner, counts)
    return folded


def sum_at(places: IntArray, values: FloatArray, size: int) -> FloatArray:
    """(size,): the sum of the values at each place."""
    return np.bincount(places, values, minlength=size).astype(np.float64, copy=False)
