"""Rows prepared for decoding: what folds into the scores, and the rest in the order in which a search meets it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray
from trellis.search.folding import Additions, fold
from trellis.search.kernels import layout
from trellis.search.kernels.arguments import Scores, Terms
from trellis.search.prices import FIRST_JOINT, Priced, Pricing
from trellis.structures.chain import Chain


@dataclass(frozen=True)
class Plan:
    """What :func:`trellis.search.decode` makes of rows first. Make it once to decode many scores with the same rows.

    rows : as compiled
    priced : all of them with their prices
    additions : of those that factor
    remaining : those that do not
    """

    rows: Rows
    priced: Priced
    additions: Additions
    remaining: Priced

    @classmethod
    def of(cls, rows: Rows) -> Plan:
        priced = Priced.of(rows)
        return cls(rows, priced, *fold(priced))

    @cached_property
    def is_searched(self) -> BoolArray:
        """(n_instances,): whether rows remain that do not factor."""
        return np.bincount(self.remaining.rows.instance, minlength=self.rows.parts.n_instances) > 0

    @cached_property
    def terms(self) -> Terms:
        """The remaining rows as the kernels take them."""
        return terms_of(self.remaining)

    @cached_property
    def all_terms(self) -> Terms:
        """All rows as the kernels take them, for the price of a whole output."""
        return self.terms if len(self.remaining.rows) == len(self.priced.rows) else terms_of(self.priced)


def prices(terms: Terms, offsets: IntArray, labels: LabelArray, todo: IntArray) -> FloatArray:
    """(n_instances,): what the labels of the instances ``todo`` violate costs, 0 elsewhere."""
    price = np.zeros(len(offsets) - 1)
    layout.price_outputs(terms, offsets, todo, labels, price)
    return price


def arrays_of(scores: Chain) -> Scores:
    """A chain as the kernels take it."""
    t = scores.tables
    return Scores(scores.offsets, t.node, scores.node_index, t.edge, scores.edge_index, t.start, t.stop)


def terms_of(priced: Priced) -> Terms:
    """Rows as the kernels take them."""
    rows, how, amount = priced.rows, priced.pricing, priced.amount
    parts = rows.parts
    row_start = np.searchsorted(rows.instance, np.arange(parts.n_instances + 1)).astype(np.int64)
    entry_start = np.zeros(parts.n_slots + 1, dtype=np.int64)
    layout.count_entries(rows.part, parts.n_node_parts, parts.n_labels, entry_start)
    n = len(rows.part)
    row, before, label = (np.empty(n, dtype=np.int32) for _ in range(3))
    value = np.empty(n)
    layout.place_entries(
        rows.start, rows.part, rows.coefficient, row_start[rows.instance], parts.n_node_parts, parts.n_labels,
        entry_start[:-1].copy(), row, before, label, value,
    )  # fmt: skip
    linear, hard = how == Pricing.LINEAR, how == Pricing.HARD
    margin = np.where(hard, amount + priced.tolerance, 0.0)
    price_high = np.where(linear, amount, np.where(hard, np.inf, 0.0))
    # Falling short costs nothing where only exceeding is forbidden or priced: such a sum is moved up to the bound
    # itself, so that the tolerance is left for rounding on the way to the end. A curved equality is never moved.
    low_end = rows.bound + np.where(rows.equality, -margin, np.where(hard, amount, 0.0))
    low_end[rows.equality & ~linear & ~hard] = -np.inf
    return Terms(
        row_start=row_start,
        bound=rows.bound,
        equality=rows.equality,
        pricing=how,
        amount=amount,
        tolerance=priced.tolerance,
        low_end=low_end,
        high_end=np.where(linear | hard, rows.bound + margin, np.inf),
        price_low=np.where(rows.equality, price_high, 0.0),
        price_high=price_high,
        **_curved(priced),
        entry_start=entry_start,
        entry_row=row,
        entry_before=before,
        entry_label=label,
        entry_value=value,
    )


def _curved(priced: Priced) -> dict[str, IntArray]:
    """term_start and term_first of the terms that are neither linear nor hard."""
    rows, how = priced.rows, priced.pricing
    joint = how >= FIRST_JOINT
    begins = (how == Pricing.SQUARED) | joint
    begins[1:] &= ~(joint[1:] & (rows.group[1:] == rows.group[:-1]))
    first = np.flatnonzero(begins)
    size = np.bincount(rows.group, minlength=len(rows.groups))[rows.group[first]]
    length = np.where(joint[first], size, 1)
    instance = rows.instance[first]
    row_start = np.searchsorted(rows.instance, instance)
    return {
        "term_start": np.searchsorted(instance, np.arange(rows.parts.n_instances + 1)).astype(np.int64),
        "term_first": np.stack((first - row_start, first - row_start + length), axis=1).astype(np.int64),
    }
