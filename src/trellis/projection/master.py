"""The linear program of γ = 0: averages of outputs, or of marginals, under rows whose violations are bounded or cost.

max gain·x − prices(ξ)     s.t.  matrix · x = bound,  phi · x − b ≤ ξ,  x ≥ 0
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind, Norm
from trellis.constraints.violations import LinearViolations, first_curved
from trellis.data.ragged import BoolArray, FloatArray
from trellis.errors import ConstraintError

HEAVY = 1e5
"""Price of a unit of violation of rows that must hold, beside 1 for those that may give way."""
IMPOSSIBLE = 1e-2 * HEAVY
LARGE = 5_000
"""Variables from which on an interior point takes a fifth of the simplex method's time."""
MOST_CUTS, CUT_TOLERANCE = 100, 1e-6
"""Times that L2 slacks are cut, and the share of a slack by which it may be exceeded then."""
ITERATION_LIMIT = 1
"""Status of a linear program of SciPy that had too few iterations."""


@dataclass(frozen=True)
class Elastic:
    """How far rows must give way, in place of what scores and prices say of averages.

    rows : (n_rows,) of the hard and slack rows, those whose violation is minimised; the others must hold, or the
        violation comes out larger than ``IMPOSSIBLE``
    largest : whether the largest violation of all is minimised, or the sum of the largest inside each instance (and of
        the coupling rows'). Both are zero where rows can hold, but the largest moves one instance per round
    """

    rows: BoolArray
    largest: bool = False

    @classmethod
    def every(cls, rows: Rows) -> Elastic:
        """All rows."""
        return cls(np.ones(len(rows), dtype=np.bool_))

    def shared(self, rows: Rows) -> tuple[Any, FloatArray]:
        """scipy CSR (n_rows, n), 1 where a row's violation is the variable; and the prices (n,) of these."""
        strict = np.flatnonzero(np.isin(rows.groups.kind[rows.group], (Kind.HARD, Kind.SLACK)))
        kind = np.zeros(len(strict)) if self.largest else rows.instance[strict]
        _, first, number = np.unique(
            np.stack((kind, ~self.rows[strict])), axis=1, return_index=True, return_inverse=True
        )  # fmt: skip
        price = np.where(self.rows[strict][first], 1.0, HEAVY)
        of_row = (np.ones(len(strict)), (strict, number.reshape(-1)))
        return sparse.csr_array(of_row, shape=(len(rows), len(price))), price


class UndecidedError(Exception):
    """The work that was allowed is done, and the program is not solved."""


@dataclass
class WorkBudget:
    """What linear programs may still take: iterations times nonzero coefficients, so that results do not depend on the
    machine."""

    left: float = np.inf


class MasterProgram:
    """Rows, the cuts that hold their L2 slacks, and the work that is left.

    weight : (n_rows,) of the instance of each row, 1 for those over the corpus
    """

    def __init__(self, rows: Rows, weight: FloatArray, work: WorkBudget) -> None:
        self.rows, self.row_weight, self.work = rows, weight, work
        self.violations = LinearViolations.of(rows)

    def solve(
        self, phi: Any, gain: FloatArray, matrix: Any, bound: FloatArray, elastic: Elastic | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """max gain·x − prices(ξ) over x ≥ 0 with matrix · x = bound, under the rows phi · x − ξ ≤ b.

        phi : scipy sparse (n_rows, n) rows of the variables, as often as they count;  gain : (n,)
        An L2 slack is held by cuts: u·ξ ≤ ε for the direction u of a ξ that is too long, until none is.
        Returns x, multipliers of rows (in price() units), prices of the equations, and the cost.
        """
        for _ in range(MOST_CUTS):
            x, multipliers, prices, cost, beyond = self._solve_once(phi, gain, matrix, bound, elastic)
            if not self._cut_slacks(phi @ x - self.rows.bound, beyond):
                break
        return x, multipliers, prices, cost

    def _cut_slacks(self, excess: FloatArray, beyond: FloatArray) -> bool:
        """Add a cut for each L2 slack that the excess of rows, less what is elastic, goes beyond; whether any does."""
        rows = self.rows
        over = np.where(rows.equality, np.abs(excess), np.maximum(excess, 0.0))
        over = np.maximum(over - beyond, 0.0)
        kind, norm, amount = rows.groups.kind, rows.groups.norm, rows.groups.amount
        length = np.sqrt(np.bincount(rows.group, over**2, minlength=len(amount)))
        slack = (kind == Kind.SLACK) & (norm == Norm.L2)
        exceeded = np.flatnonzero(slack & (length > amount * (1.0 + CUT_TOLERANCE) + CUT_TOLERANCE * 1e-3))
        if not len(exceeded):
            return False
        mine = np.flatnonzero(np.isin(rows.group, exceeded))
        toward = sparse.csr_array(
            (over[mine] / length[rows.group[mine]], (np.searchsorted(exceeded, rows.group[mine]), mine)),
            shape=(len(exceeded), len(rows)),
        )
        self.violations = replace(
            self.violations,
            totals=sparse.vstack([self.violations.totals, toward @ self.violations.of_row], format="csr"),
            allowed=np.concatenate([self.violations.allowed, amount[exceeded]]),
        )
        return True

    def _solve_once(
        self, phi: Any, gain: FloatArray, matrix: Any, bound: FloatArray, elastic: Elastic | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, float, FloatArray]:
        """The same with the cuts there are, and (n_rows,) by how much elastic rows give way."""
        rows, n_rows, n = self.rows, len(self.rows), len(gain)
        slack = self.violations
        over, sides = -slack.of_row, rows.equality
        costs = np.concatenate([np.zeros(n), slack.cost * self.row_weight[slack.first]])
        limits = np.concatenate([np.full(n, np.inf), slack.limit])
        totals = slack.totals
        if elastic is not None:
            # violations that several rows share, of the elastic ones and of the other strict ones, are all that costs
            shared, price = elastic.shared(rows)
            over = sparse.hstack([over, -shared], format="csr")
            totals = sparse.hstack([totals, sparse.csr_array((totals.shape[0], len(price)))])
            costs, limits = np.append(np.zeros(len(costs)), price), np.append(limits, np.full(len(price), np.inf))
        else:
            costs[:n] = -gain
        upper = sparse.vstack(
            [
                sparse.hstack([phi, over]),
                sparse.hstack([-phi[sides], over[sides]]),
                sparse.hstack([sparse.csr_array((totals.shape[0], n)), totals]),
            ],
            format="csr",
        )
        bounds = np.concatenate([rows.bound, -rows.bound[sides], slack.allowed])
        equations = sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], len(costs) - n))], format="csr")
        between = np.stack((np.zeros(len(limits)), limits), axis=1)
        from scipy.optimize import linprog

        method, entries = "highs" if n < LARGE else "highs-ipm", upper.nnz + equations.nnz
        if self.work.left < entries:
            raise UndecidedError
        options = {"maxiter": int(min(self.work.left // entries, 1e9))} if np.isfinite(self.work.left) else {}
        solved = linprog(costs, upper, bounds, equations, bound, between, method=method, options=options)
        self.work.left -= entries * max(1, solved.nit)
        if solved.status == ITERATION_LIMIT and options:
            raise UndecidedError
        if solved.x is None:
            raise ConstraintError(f"the linear program of γ = 0 could not be solved: {solved.message}")
        marginal = -solved.ineqlin.marginals
        multipliers = marginal[:n_rows].copy()
        multipliers[sides] -= marginal[n_rows : n_rows + int(sides.sum())]
        divide = np.where(self.row_weight > 0, self.row_weight, 1.0)
        multipliers = multipliers if elastic is not None else np.where(self.row_weight > 0, multipliers / divide, 0.0)
        beyond = np.zeros(n_rows) if elastic is None else shared @ solved.x[n + len(slack.cost) :]
        return solved.x[:n], multipliers, -solved.eqlin.marginals, float(solved.fun), beyond


def check_linear(rows: Rows) -> None:
    """Refuse strengths that no linear program can hold."""
    name = first_curved(rows)
    if name is not None:
        raise ConstraintError(
            f"γ = 0 is a linear program, but constraint {name!r} has an L2 or KL strength: use the norm l1 or linf, "
            "or γ > 0"
        )
