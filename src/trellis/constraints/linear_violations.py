"""Violations of rows as variables of a linear program: of averages of outputs (γ = 0), or of one output (0/1 programs).

    φ_r − ξ ≤ b_r   (and −φ_r − ξ ≤ −b_r for an equality),     ξ ≥ 0

A row that may be violated has a ξ of its own in L1 and shares that of its norm group in L∞; a penalty is the cost of ξ,
a slack bounds it, in L1 the sum over the group. Squares and L2 norms have no linear program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import FloatArray, IntArray


@dataclass(frozen=True)
class LinearViolations:
    """n variables ξ for the violations of n_rows rows.

    of_row : scipy CSR (n_rows, n), 1 where a row's violation is the variable
    first : (n,) the first row of each variable
    cost, limit : (n,) price of a unit, and largest value
    totals · ξ ≤ allowed : scipy CSR (n_totals, n), for L1 slacks
    """

    of_row: Any
    first: IntArray
    cost: FloatArray
    limit: FloatArray
    totals: Any
    allowed: FloatArray

    @classmethod
    def of(cls, rows: Rows) -> LinearViolations:
        from scipy.sparse import csr_array

        kind, norm = rows.groups.kind[rows.group], rows.groups.norm[rows.group]
        soft = np.flatnonzero(kind != Kind.HARD)
        key = np.where(norm == Norm.LINF, rows.group, len(rows.groups) + np.arange(len(rows)))
        _, first, number = np.unique(key[soft], return_index=True, return_inverse=True)
        n = len(first)
        amount, is_slack = rows.groups.amount[rows.group][soft][first], kind[soft][first] == Kind.SLACK
        summed = np.flatnonzero((kind[soft] == Kind.SLACK) & (norm[soft] == Norm.L1))
        groups, place = np.unique(rows.group[soft[summed]], return_inverse=True)
        return cls(
            of_row=csr_array((np.ones(len(soft)), (soft, number)), shape=(len(rows), n)),
            first=soft[first],
            cost=np.where(is_slack, 0.0, amount),
            limit=np.where(is_slack, amount, np.inf),
            totals=csr_array((np.ones(len(summed)), (place, number[summed])), shape=(len(groups), n)),
            allowed=rows.groups.amount[groups],
        )


def first_curved(rows: Rows) -> str | None:
    """The name of a constraint whose price is not linear, a square or an L2 norm; None where all are."""
    kind, norm = rows.groups.kind[rows.group], rows.groups.norm[rows.group]
    found = np.flatnonzero((kind == Kind.SQUARED) | ((kind != Kind.HARD) & (norm == Norm.L2)))
    return rows.names[int(rows.constraint[found[0]])] if len(found) else None
