"""The cost of violating rows, and violations as variables of a linear program.

The price is σ‖ξ‖, (σ/2)‖ξ‖₂², σ D(b ‖ E) of expectations, or nothing within the slack and everything beyond it. Norms
grow with each violation, so the price of lower bounds on violations is a lower bound on the price. In a program, of
averages of outputs (γ = 0) or of one output (0/1 programs), they are

    φ_r − ξ ≤ b_r   (and −φ_r − ξ ≤ −b_r for an equality),     ξ ≥ 0

A row that may be violated has a ξ of its own in L1 and shares that of its norm group in L∞; a penalty is the cost of ξ,
a slack bounds it, in L1 the sum over the group. Squares, L2 norms and divergences have no linear program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.constraints.rows import COUPLING, Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import FloatArray, IntArray

TOLERANCE = 1e-9
TINY = 1e-300


def price(rows: Rows, excess: FloatArray, *, enforce: bool = True) -> FloatArray:
    """(n_groups,): the price of each norm group; +inf where a hard or slack one is violated beyond what it allows.

    excess : (n_rows,) ξ, for instance of ``rows.excess(rows.evaluate(outputs))``
    enforce : where false, hard and slack groups cost nothing whatever they exceed
    """
    return group_prices(rows.groups, rows.group, excess, enforce=enforce)


def group_prices(groups: Groups, group: IntArray, excess: FloatArray, *, enforce: bool = True) -> FloatArray:
    """:func:`price` for excesses of the given groups, without rows."""
    n = len(groups)
    l2 = np.sqrt(np.bincount(group, weights=excess**2, minlength=n))
    largest = np.zeros(n)
    np.maximum.at(largest, group, excess)
    norms = {Norm.L1: np.bincount(group, weights=excess, minlength=n), Norm.L2: l2, Norm.LINF: largest}
    norm = np.select([groups.norm == which for which in norms], list(norms.values()), 0.0)
    kind, amount = groups.kind, groups.amount
    beyond = np.where(norm > amount + TOLERANCE * (1.0 + amount), np.inf, 0.0) if enforce else np.zeros(n)
    return np.select(
        [kind == Kind.PENALTY, kind == Kind.SQUARED, kind == Kind.LEARNED],
        [amount * norm, 0.5 * amount * l2**2, 0.0],
        beyond,
    )


def expected_price(rows: Rows, expected: FloatArray, weights: FloatArray) -> float:
    """What expectations (n_rows,) that violate rows cost; a local group counts as often as its instance weighs.

    Hard and slack groups cost nothing: what they exceed is the solver's tolerance.
    """
    if not len(rows):
        return 0.0
    weight = np.ones(len(rows.groups))
    local = rows.instance != COUPLING
    weight[rows.group[local]] = weights[rows.instance[local]]
    cost = price(rows, rows.excess(expected), enforce=False)
    diverging = np.flatnonzero(rows.groups.kind[rows.group] == Kind.KL)
    if len(diverging):
        cost[rows.group[diverging]] = divergence(rows, expected)[diverging]
    return float(weight @ cost)


def divergence(rows: Rows, expected: FloatArray) -> FloatArray:
    """(n_rows,): σ D(b ‖ E), of expectations of rows whose bounds are counts."""
    target, own = np.maximum(rows.bound, 0.0), np.maximum(expected, TINY)
    found: FloatArray = np.where(target > 0, target * np.log(np.maximum(target, TINY) / own), 0.0) - target + own
    return rows.groups.amount[rows.group] * found


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
    """The name of a constraint whose price is not linear, a square, an L2 norm or a divergence; None where all are."""
    kind, norm = rows.groups.kind[rows.group], rows.groups.norm[rows.group]
    found = np.flatnonzero((kind == Kind.SQUARED) | (kind == Kind.KL) | ((kind != Kind.HARD) & (norm == Norm.L2)))
    return rows.names[int(rows.constraint[found[0]])] if len(found) else None
