"""What violations cost: σ‖ξ‖, (σ/2)‖ξ‖₂², or nothing within the slack and everything beyond it.

Norms grow with each violation, so the price of lower bounds on violations is a lower bound on the price.
"""

from __future__ import annotations

import numpy as np

from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import FloatArray

TOLERANCE = 1e-9


def price(rows: Rows, excess: FloatArray) -> FloatArray:
    """(n_groups,): the price of each norm group; +inf where a hard or slack one is violated beyond what it allows.

    excess : (n_rows,) ξ, for instance of ``rows.excess(rows.evaluate(labels))``
    """
    n = len(rows.groups)
    norm = np.zeros(n)
    l1 = np.bincount(rows.group, weights=excess, minlength=n)
    l2 = np.sqrt(np.bincount(rows.group, weights=excess**2, minlength=n))
    largest = np.zeros(n)
    np.maximum.at(largest, rows.group, excess)
    for which, values in ((Norm.L1, l1), (Norm.L2, l2), (Norm.LINF, largest)):
        chosen = rows.groups.norm == which
        norm[chosen] = values[chosen]
    kind, amount = rows.groups.kind, rows.groups.amount
    cost = amount * norm
    squared = kind == Kind.SQUARED
    cost[squared] = 0.5 * amount[squared] * l2[squared] ** 2
    strict = (kind == Kind.HARD) | (kind == Kind.SLACK)
    cost[strict] = np.where(norm[strict] > amount[strict] + TOLERANCE * (1.0 + amount[strict]), np.inf, 0.0)
    return cost
