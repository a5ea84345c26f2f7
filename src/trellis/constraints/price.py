"""What violations cost: σ‖ξ‖, (σ/2)‖ξ‖₂², or nothing within the slack and everything beyond it.

Norms grow with each violation, so the price of lower bounds on violations is a lower bound on the price.
"""

from __future__ import annotations

import numpy as np

from trellis.constraints.rows import COUPLING, Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import FloatArray, IntArray

TOLERANCE = 1e-9


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


def expected_price(rows: Rows, excess: FloatArray, weights: FloatArray) -> float:
    """What the expectations of a distribution violate costs; a local group counts as often as its instance weighs.

    Hard and slack groups cost nothing: what they exceed is the solver's tolerance.
    """
    if not len(rows):
        return 0.0
    weight = np.ones(len(rows.groups))
    local = rows.instance != COUPLING
    weight[rows.group[local]] = weights[rows.instance[local]]
    return float(weight @ price(rows, excess, enforce=False))
