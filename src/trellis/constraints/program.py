"""Rows as a 0/1 program over the parts of a batch, for integer search and for tests.

    min  cost·x     lower ≤ A x ≤ upper,  0 ≤ x ≤ limit

    a slot uses one label                     Σ_k x(t, k) = 1
    edges carry the labels at both ends       Σ_a x(t, a, b) = x(t, b),   Σ_b x(t, a, b) = x(t − 1, a)
    rows                                      Σ coefficient · x − ξ ≤ bound   (≥ as well for an equality)

Forbidden parts have no variable. Violations ξ of soft rows have one each (L1) or one a norm group (L∞); penalties are
their costs, slacks bound them. Variables of parts are 0 or 1; those of violations are any number from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray
from trellis.errors import ConstraintError
from trellis.structures.chain_parts import ChainParts
from trellis.structures.parts import Parts


@dataclass(frozen=True)
class Program:
    """A 0/1 program whose first variables are parts, and the others violations.

    matrix : scipy CSR (n_conditions, n_variables)
    lower, upper : (n_conditions,)
    part : (n_parts used,)        the part of each of the first variables
    cost, limit : (n_variables,)  price of violations; largest value of each variable
    """

    parts: Parts
    matrix: Any
    lower: FloatArray
    upper: FloatArray
    part: IntArray
    cost: FloatArray
    limit: FloatArray

    @property
    def integral(self) -> BoolArray:
        """(n_variables,): which variables must be whole."""
        return np.arange(len(self.cost)) < len(self.part)

    def objective(self, node: FloatArray, edge: FloatArray | None = None) -> FloatArray:
        """(n_variables,): what to minimise, from scores node (n_slots, K) and edge (n_slots, K, K)."""
        n_node = self.parts.n_node_parts
        is_node = self.part < n_node
        score = np.zeros(len(self.part))
        score[is_node] = node.reshape(-1)[self.part[is_node]]
        if edge is not None:
            score[~is_node] = edge.reshape(-1)[self.part[~is_node] - n_node]
        objective = self.cost.copy()
        objective[: len(self.part)] -= score
        return objective

    def labels(self, x: FloatArray) -> LabelArray:
        """The label of each slot with the largest variable: the output itself where x is 0/1."""
        share = np.full(self.parts.n_node_parts, -1.0)
        is_node = self.part < self.parts.n_node_parts
        share[self.part[is_node]] = x[: len(self.part)][is_node]
        return np.asarray(share.reshape(-1, self.parts.n_labels).argmax(axis=1), dtype=np.int32)


def as_program(rows: Rows) -> Program:
    """The 0/1 program of rows and forbidden parts."""
    parts = rows.parts
    used = _parts_in_use(rows)
    variable = np.full(parts.n_parts, -1, dtype=np.int64)
    variable[used] = np.arange(len(used))
    conditions = _Conditions()
    _add_structure(conditions, parts, used, variable)
    cost, limit = _add_rows(conditions, rows, variable, len(used))
    matrix, lower, upper = conditions.matrix(len(cost))
    return Program(parts, matrix, lower, upper, used, cost, limit)


class _Conditions:
    """A sparse matrix that grows by blocks of conditions."""

    def __init__(self) -> None:
        self.n = 0
        self.row: list[IntArray] = []
        self.column: list[IntArray] = []
        self.value: list[FloatArray] = []
        self.lower: list[FloatArray] = []
        self.upper: list[FloatArray] = []

    def add(self, row: Any, column: Any, value: Any, lower: FloatArray, upper: FloatArray) -> None:
        keep = column >= 0  # forbidden parts have no variable
        self.row.append(row[keep] + self.n)
        self.column.append(column[keep])
        self.value.append(np.broadcast_to(value, row.shape)[keep])
        self.lower.append(lower)
        self.upper.append(upper)
        self.n += len(lower)

    def matrix(self, n_variables: int) -> tuple[Any, FloatArray, FloatArray]:
        from scipy.sparse import csr_array

        entries = (np.concatenate(self.value), (np.concatenate(self.row), np.concatenate(self.column)))
        made = csr_array(entries, shape=(self.n, n_variables))
        return made, np.concatenate(self.lower), np.concatenate(self.upper)


def _parts_in_use(rows: Rows) -> IntArray:
    """Parts that an output may use: not forbidden, and no holes."""
    parts = rows.parts
    open_ = np.ones(parts.n_parts, dtype=np.bool_)
    if isinstance(parts, ChainParts):
        holes = np.flatnonzero(~parts.has_boundary())
        open_[parts.n_node_parts :].reshape(parts.n_slots, -1)[holes] = False
    open_[rows.forbidden] = False
    return np.flatnonzero(open_)


def _add_structure(conditions: _Conditions, parts: Parts, used: IntArray, variable: IntArray) -> None:
    k, n_node = parts.n_labels, parts.n_node_parts
    nodes = used[used < n_node]
    one = np.ones(parts.n_slots)
    conditions.add(nodes // k, variable[nodes], 1.0, one, one)
    if not isinstance(parts, ChainParts):
        return
    slots = np.flatnonzero(parts.has_boundary())
    place = np.zeros(parts.n_slots, dtype=np.int64)
    place[slots] = np.arange(len(slots))
    edges = used[used >= n_node] - n_node
    slot, before, label = edges // (k * k), edges // k % k, edges % k
    zero = np.zeros(len(slots) * k)
    every = np.repeat(slots, k), np.tile(np.arange(k), len(slots))
    for end, at in ((label, every[0]), (before, every[0] - 1)):
        row = np.concatenate((place[slot] * k + end, np.arange(len(zero))))
        column = np.concatenate((variable[edges + n_node], variable[at * k + every[1]]))
        value = np.concatenate((np.ones(len(edges)), -np.ones(len(zero))))
        conditions.add(row, column, value, zero, zero)


def _add_rows(conditions: _Conditions, rows: Rows, variable: IntArray, n_parts: int) -> tuple[FloatArray, FloatArray]:
    """Add the rows; cost and limit of all variables."""
    kind, norm = rows.groups.kind[rows.group], rows.groups.norm[rows.group]
    linear = (kind == Kind.HARD) | ((kind != Kind.SQUARED) & (norm != Norm.L2))
    if not linear.all():
        name = rows.names[int(rows.constraint[np.flatnonzero(~linear)[0]])]
        raise ConstraintError(
            f"constraint {name!r} measures violations in L2, which has no 0/1 program; "
            "give it a penalty or slack in 'l1' or 'linf'"
        )
    soft = np.flatnonzero(kind != Kind.HARD)
    # one variable for every row in L1, one for all rows of a group in L∞
    key = np.where(norm == Norm.LINF, rows.group, len(rows.groups) + np.arange(len(rows)))
    _, first, number = np.unique(key[soft], return_index=True, return_inverse=True)
    amount, of_kind = rows.groups.amount[rows.group][soft][first], kind[soft][first]
    cost = np.concatenate((np.zeros(n_parts), np.where(of_kind == Kind.SLACK, 0.0, amount)))
    limit = np.concatenate((np.ones(n_parts), np.where(of_kind == Kind.SLACK, amount, np.inf)))
    excess = np.full(len(rows), -1, dtype=np.int64)
    excess[soft] = n_parts + number
    free = np.full(len(rows), np.inf)
    entry_row, every = rows.entry_row, np.arange(len(rows))
    for sign, chosen in ((1.0, np.ones(len(rows), dtype=np.bool_)), (-1.0, rows.equality)):
        mine = chosen[entry_row]
        row = np.concatenate((entry_row[mine], every[chosen]))
        column = np.concatenate((variable[rows.part[mine]], excess[chosen]))
        value = np.concatenate((sign * rows.coefficient[mine], -np.ones(np.count_nonzero(chosen))))
        conditions.add(row, column, value, -free, np.where(chosen, sign * rows.bound, np.inf))
    _bound_total_slack(conditions, rows, excess, kind, norm)
    return cost, limit


def _bound_total_slack(
    conditions: _Conditions, rows: Rows, excess: IntArray, kind: NDArray[np.int8], norm: NDArray[np.int8]
) -> None:
    """Σ of the violations of an L1 slack group is at most ε; in L∞ the one variable's own limit says it."""
    total = np.flatnonzero((kind == Kind.SLACK) & (norm == Norm.L1))
    groups, row = np.unique(rows.group[total], return_inverse=True)
    conditions.add(row.astype(np.int64), excess[total], 1.0, np.full(len(groups), -np.inf), rows.groups.amount[groups])
