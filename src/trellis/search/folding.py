"""Rows that factor over nodes and edges, folded into the scores, so that plain Viterbi is exact for them.

A price factors if it is, for every output, a sum over parts. Two cases are found:

    linear   ρ (φ − b)⁺ or ρ |φ − b|  where φ(y) ≥ b for every y (or an equality with φ(y) ≤ b for every y): then it is
             ±ρ (φ − b), and −ρ · coefficient is added to the score of each part. A rule about single tokens is such.
    placed   any price whose rows name parts of one slot, or of two slots that meet: then it is a function of their two
             labels, and is added to these.

Forbidden parts are the same with −∞. Edge scores stay a small stack: one matrix for each different addition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.structures.kernels.chain_extremes import row_extremes
from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.search.kernels import placed
from trellis.search.prices import FIRST_JOINT, Priced, Pricing
from trellis.structures.chain import Chain
from trellis.structures.chain_tables import ChainTables

MOST_CELLS = 50_000_000
"""Placed rows are folded only while their tables stay below this size."""


@dataclass(frozen=True)
class Additions:
    """What is added to scores.

    node : (n_slots, K), or None
    pattern : (n_slots,) which of ``patterns`` (n_patterns, K, K) is added before each slot, or None
    """

    node: FloatArray | None
    pattern: IntArray | None
    patterns: FloatArray

    @property
    def empty(self) -> bool:
        return self.node is None and self.pattern is None

    def apply(self, scores: Chain) -> Chain:
        """The scores plus these."""
        if self.empty:
            return scores
        t = scores.tables
        node, node_index = t.node, scores.node_index
        if self.node is not None:
            node, node_index = scores.node + self.node, np.arange(scores.n_slots, dtype=np.int32)
        edge, edge_index = t.edge, scores.edge_index
        if self.pattern is not None:
            pair, index = np.unique(edge_index * np.int64(len(self.patterns)) + self.pattern, return_inverse=True)
            edge = t.edge[pair // len(self.patterns)] + self.patterns[pair % len(self.patterns)]
            edge_index = index.astype(np.int32)
        tables = ChainTables(node, edge, t.start, t.stop)
        return Chain.over(tables, scores.offsets, node_index=node_index, edge_index=edge_index, first=scores.first)


def fold(priced: Priced) -> tuple[Additions, Priced]:
    """What the rows that factor add to scores, and the rows that remain."""
    rows = priced.rows
    linear = _sign_where_linear(priced)
    group = _placed(priced) & (linear == 0)
    factor = (-linear * priced.amount)[rows.entry_row]
    chosen = factor != 0
    part, value = rows.part[chosen], (factor * rows.coefficient)[chosen]
    placed_part, placed_value = _cells(priced.select(group))
    part = np.concatenate((part, placed_part, rows.forbidden))
    value = np.concatenate((value, placed_value, np.full(len(rows.forbidden), -np.inf)))
    return _additions(rows, part, value), priced.select((linear == 0) & ~group)


def _sign_where_linear(priced: Priced) -> FloatArray:
    """(n_rows,): +1 where the price is ρ (φ − b) for every output, −1 where it is ρ (b − φ), else 0."""
    rows = priced.rows
    sign = np.zeros(len(rows))
    asked = np.flatnonzero(priced.pricing == Pricing.LINEAR)
    if len(asked) == 0:
        return sign
    some = rows.select(priced.pricing == Pricing.LINEAR)
    low, high = np.zeros(len(some)), np.zeros(len(some))
    parts = rows.parts
    row_extremes(
        some.start, some.first_edges, some.part, some.coefficient, parts.offsets, _instance_of_slot(rows),
        parts.n_node_parts, parts.n_labels, low, high,
    )  # fmt: skip
    # No tolerance: a sum that falls short of the bound by rounding only stays among the rows that are searched.
    sign[asked] = np.where(low >= some.bound, 1.0, np.where(some.equality & (high <= some.bound), -1.0, 0.0))
    return sign


def _instance_of_slot(rows: Rows) -> IntArray:
    lengths = np.diff(rows.parts.offsets)
    return np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)


def _placed(priced: Priced) -> BoolArray:
    """(n_rows,): whether the row, with all rows priced together with it, names parts of two meeting slots at most."""
    rows, k = priced.rows, priced.rows.parts.n_labels
    if len(rows) == 0:
        return np.zeros(0, dtype=np.bool_)
    is_edge = rows.part >= rows.parts.n_node_parts
    right = np.where(is_edge, (rows.part - rows.parts.n_node_parts) // (k * k), rows.part // k)
    term = _terms(priced)
    first = np.full(term[-1] + 1, rows.parts.n_slots, dtype=np.int64)
    last = np.full(term[-1] + 1, -1, dtype=np.int64)
    np.minimum.at(first, term[rows.entry_row], right - is_edge)
    np.maximum.at(last, term[rows.entry_row], right)
    small = (last >= 0) & (last - first <= 1)
    # one K×K table a term, unless that is too much in all
    if np.count_nonzero(small) * k * k > MOST_CELLS:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.asarray(small[term])


def _terms(priced: Priced) -> IntArray:
    """(n_rows,): numbers, increasing by one, of what is priced by itself: a row, or a group priced together."""
    rows, joint = priced.rows, priced.pricing >= FIRST_JOINT
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = ~joint[1:] | (rows.group[1:] != rows.group[:-1])
    return np.cumsum(new) - 1


def _cells(priced: Priced) -> tuple[IntArray, FloatArray]:
    """Parts and what placed terms add to them."""
    rows = priced.rows
    if len(rows) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    term = _terms(priced)
    first = np.searchsorted(term, np.arange(term[-1] + 2))
    k = rows.parts.n_labels
    part, value = np.empty(len(first) * k * k, dtype=np.int64), np.empty(len(first) * k * k)
    n = placed.cells(
        first, rows.start, rows.part, rows.coefficient, rows.bound, rows.equality, priced.pricing, priced.amount,
        priced.tolerance, rows.parts.n_node_parts, k, part, value,
    )  # fmt: skip
    return part[:n], value[:n]


def _additions(rows: Rows, part: IntArray, value: FloatArray) -> Additions:
    """Values by part, put together: nodes as a table, edges as patterns."""
    parts, k = rows.parts, rows.parts.n_labels
    is_node = part < parts.n_node_parts
    node = None
    if np.any(is_node):
        node = np.zeros((parts.n_slots, k))
        np.add.at(node.reshape(-1), part[is_node], value[is_node])
    cell, value = part[~is_node] - parts.n_node_parts, value[~is_node]
    if len(cell) == 0:
        return Additions(node, None, np.zeros((1, k, k)))
    order = np.argsort(cell, kind="stable")
    cell, value = cell[order], value[order]
    first = np.flatnonzero(np.concatenate(([True], np.diff(cell) > 0)))
    return Additions(node, *_patterns(cell[first], np.add.reduceat(value, first), parts.n_slots, k))


def _patterns(cell: IntArray, value: FloatArray, n_slots: int, k: int) -> tuple[IntArray, FloatArray]:
    """Different K×K additions, and which of them each slot has; pattern 0 adds nothing.

    cell : (n_cells,) (slot · K + a) · K + b, increasing, each once
    """
    slot, within = cell // (k * k), cell % (k * k)
    first = np.flatnonzero(np.concatenate(([True], np.diff(slot) > 0)))
    length = np.diff(np.concatenate((first, [len(cell)])))
    digest = np.add.reduceat(_scatter(within, value), first)
    _, example, which = np.unique(digest, return_index=True, return_inverse=True)
    # two different additions with one digest would be a wonder, but then every slot has a pattern of its own
    twin = example[which]
    alike = np.array_equal(length[twin], length)
    if alike:
        source = np.arange(len(cell)) + np.repeat(first[twin] - first, length)
        alike = np.array_equal(within[source], within) and np.array_equal(value[source], value)
    if not alike:
        which, example = np.arange(len(first)), np.arange(len(first))
    patterns = np.zeros((len(example) + 1, k, k))
    flat = patterns.reshape(len(patterns), -1)
    for number, one in enumerate(example, start=1):
        chosen = slice(first[one], first[one] + length[one])
        flat[number, within[chosen]] = value[chosen]
    pattern = np.zeros(n_slots, dtype=np.int64)
    pattern[slot[first]] = which + 1
    return pattern, patterns


def _scatter(within: IntArray, value: FloatArray) -> NDArray[np.uint64]:
    """A well mixed number of each (place, value), so that sums of them tell sets of pairs apart."""
    mixed = (within.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ value.view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)
