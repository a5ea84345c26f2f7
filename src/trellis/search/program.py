"""The outputs of a structure and rows over its parts as one 0/1 program.

    min  cost·x     lower ≤ A x ≤ upper,  0 ≤ x ≤ limit

    outputs         matrix · x = bound,  cost −score             of the structure's :class:`Polytope`
    rows            (coefficients · use) · x − ξ ≤ bound         (≥ as well for an equality)

Violations ξ of soft rows have a variable each (L1) or one per norm group (L∞); penalties are their costs, slacks bound
them. They are any numbers from 0; where the ``whole`` variables are 0 or 1, so are all that make up the output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import ConstraintError
from trellis.structures.polytope import Polytope


@dataclass(frozen=True)
class Program:
    """A 0/1 program whose first variables are those of a polytope, and the others violations.

    matrix : scipy CSR (n_conditions, n_variables)
    lower, upper : (n_conditions,)
    cost, limit : (n_variables,)  what is minimised; largest value of each variable
    """

    polytope: Polytope
    matrix: Any
    lower: FloatArray
    upper: FloatArray
    cost: FloatArray
    limit: FloatArray

    @property
    def whole(self) -> BoolArray:
        """(n_variables,): which variables must be 0 or 1."""
        whole = np.zeros(len(self.cost), dtype=np.bool_)
        whole[: len(self.polytope.whole)] = self.polytope.whole
        return whole

    def outputs(self, x: FloatArray) -> Any:
        """The output that variables 0 or 1, or near to it, stand for."""
        return self.polytope.outputs(x[: len(self.polytope.score)])

    def without(self, x: FloatArray) -> Program:
        """The same, with the output of x no longer allowed: one of the whole variables must be another."""
        from scipy.sparse import csr_array, vstack

        used = np.where(self.whole, np.where(x > 0.5, 1.0, -1.0), 0.0)
        return replace(
            self,
            matrix=vstack((self.matrix, csr_array(used[None])), format="csr"),
            lower=np.append(self.lower, -np.inf),
            upper=np.append(self.upper, np.count_nonzero(used > 0) - 1.0),
        )


def as_program(polytope: Polytope, rows: Rows) -> Program:
    """The 0/1 program of rows over the parts of a polytope; forbidden parts are to be closed in the polytope."""
    from scipy.sparse import block_array, csr_array

    refuse_curved(rows)
    kind, norm = rows.groups.kind[rows.group], rows.groups.norm[rows.group]
    soft = np.flatnonzero(kind != Kind.HARD)
    # one variable for every row in L1, one for all rows of a group in L∞
    key = np.where(norm == Norm.LINF, rows.group, len(rows.groups) + np.arange(len(rows)))
    _, first, number = np.unique(key[soft], return_index=True, return_inverse=True)
    amount, is_slack = rows.groups.amount[rows.group][soft][first], kind[soft][first] == Kind.SLACK
    n, n_violations = len(polytope.score), len(first)
    of_parts = csr_array((rows.coefficient, rows.part, rows.start), shape=(len(rows), polytope.use.shape[0]))
    of_variables = csr_array(of_parts @ polytope.use)
    excess = csr_array((-np.ones(len(soft)), (soft, number)), shape=(len(rows), n_violations))
    equal = np.flatnonzero(rows.equality)
    # in L1 the violations of a slack group add up to no more than it allows; in L∞ the variable's own limit says so
    limited = np.flatnonzero((kind[soft] == Kind.SLACK) & (norm[soft] == Norm.L1))
    groups, place = np.unique(rows.group[soft[limited]], return_inverse=True)
    totals = csr_array((np.ones(len(limited)), (place, number[limited])), shape=(len(groups), n_violations))
    possible = polytope.score > -np.inf
    free = np.full(len(rows) + len(equal) + len(groups), -np.inf)
    return Program(
        polytope=polytope,
        matrix=block_array(
            [
                [polytope.matrix, csr_array((len(polytope.bound), n_violations))],
                [of_variables, excess],
                [-of_variables[equal], excess[equal]],
                [csr_array((len(groups), n)), totals],
            ],
            format="csr",
        ),
        lower=np.concatenate((polytope.bound, free)),
        upper=np.concatenate((polytope.bound, rows.bound, -rows.bound[equal], rows.groups.amount[groups])),
        cost=np.concatenate((np.where(possible, -polytope.score, 0.0), np.where(is_slack, 0.0, amount))),
        limit=np.concatenate((np.where(possible, 1.0, 0.0), np.where(is_slack, amount, np.inf))),
    )


def curved(rows: Rows) -> IntArray:
    """Rows whose price is not linear: a square, or an L2 norm."""
    kind, norm = rows.groups.kind[rows.group], rows.groups.norm[rows.group]
    return np.flatnonzero((kind == Kind.SQUARED) | ((kind != Kind.HARD) & (norm == Norm.L2)))


def refuse_curved(rows: Rows) -> None:
    """Refuse prices that a linear program cannot take."""
    found = curved(rows)
    if len(found):
        name = rows.names[int(rows.constraint[found[0]])]
        raise ConstraintError(
            f"the price of constraint {name!r} is not linear (a square, or an L2 norm of several rows), which a 0/1 "
            "program cannot take: give it a strength in the norm 'l1' or 'linf', or use method 'beam', 'astar' or "
            "'relaxation' where the structure has it"
        )
