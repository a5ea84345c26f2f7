"""The outputs of a structure and rows over its parts as one 0/1 program.

    min  cost·x     lower ≤ A x ≤ upper,  0 ≤ x ≤ limit

    outputs         matrix · x = bound,  cost −score             of the structure's :class:`Polytope`
    rows            (coefficients · use) · x − ξ ≤ bound         (≥ as well for an equality)

Violations ξ (:mod:`trellis.constraints.violations`) are any numbers from 0; where the ``whole`` variables are 0
or 1, so are all that make up the output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.rows import Rows
from trellis.constraints.violations import LinearViolations, first_curved
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

    def without(self, used: IntArray) -> Program:
        """The same, with the output that uses these parts no longer allowed: one of them is not used, or another is."""
        from scipy.sparse import csr_array, vstack

        sign = np.full(self.polytope.use.shape[0], -1.0)
        sign[used] = 1.0
        row = np.zeros(len(self.cost))
        row[: len(self.polytope.score)] = sign @ self.polytope.use
        return replace(
            self,
            matrix=vstack((self.matrix, csr_array(row[None])), format="csr"),
            lower=np.append(self.lower, -np.inf),
            upper=np.append(self.upper, len(used) - 1.0),
        )

    def loosened(self, equality: BoolArray, elastic: BoolArray) -> Program:
        """Instead of the best output, one that exceeds elastic rows least: by one more variable, the last.

        equality, elastic : (n_rows,) of the rows that the program is made of
        """
        from scipy.sparse import csr_array, hstack

        column = np.zeros(len(self.lower))
        of_rows = column[len(self.polytope.bound) :]
        of_rows[: len(elastic)] = -1.0 * elastic
        of_rows[len(elastic) :][: np.count_nonzero(equality)] = -1.0 * elastic[equality]
        return replace(
            self,
            matrix=hstack((self.matrix, csr_array(column[:, None])), format="csr"),
            cost=np.append(np.zeros(len(self.cost)), 1.0),
            limit=np.append(self.limit, np.inf),
        )


def as_program(polytope: Polytope, rows: Rows) -> Program:
    """The 0/1 program of rows over the parts of a polytope; forbidden parts are to be closed in the polytope."""
    from scipy.sparse import block_array, csr_array

    refuse_curved(rows)
    violations = LinearViolations.of(rows)
    n, n_violations = len(polytope.score), len(violations.cost)
    of_parts = csr_array((rows.coefficient, rows.part, rows.start), shape=(len(rows), polytope.use.shape[0]))
    of_variables, excess = csr_array(of_parts @ polytope.use), -violations.of_row
    equal = np.flatnonzero(rows.equality)
    possible = polytope.score > -np.inf
    free = np.full(len(rows) + len(equal) + len(violations.allowed), -np.inf)
    return Program(
        polytope=polytope,
        matrix=block_array(
            [
                [polytope.matrix, csr_array((len(polytope.bound), n_violations))],
                [of_variables, excess],
                [-of_variables[equal], excess[equal]],
                [csr_array((len(violations.allowed), n)), violations.totals],
            ],
            format="csr",
        ),
        lower=np.concatenate((polytope.bound, free)),
        upper=np.concatenate((polytope.bound, rows.bound, -rows.bound[equal], violations.allowed)),
        cost=np.concatenate((np.where(possible, -polytope.score, 0.0), violations.cost)),
        limit=np.concatenate((np.where(possible, 1.0, 0.0), violations.limit)),
    )


def refuse_curved(rows: Rows) -> None:
    """Refuse prices that a linear program cannot take."""
    name = first_curved(rows)
    if name is not None:
        raise ConstraintError(
            f"the price of constraint {name!r} is not linear (a square, or an L2 norm of several rows), which a 0/1 "
            "program cannot take: give it a strength in the norm 'l1' or 'linf', or use method 'beam' or 'astar' "
            "where the structure has it"
        )
