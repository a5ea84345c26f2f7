"""Decoding by integer programming: the linear relaxation first, 0/1 search only where its answer is fractional.

The program is that of :func:`trellis.search.ilp.as_program`, one instance at a time, and serves every structure
that has a polytope. Where every vertex of that is an output (paths through the slots of a chain) the relaxation is
fractional only where rows make it so. Parts that no output as good as a known one uses (their max-marginal is smaller)
are closed.

The bound is that of the solver (:mod:`trellis.structures.integer`), which may hold up to 1e-6 only, and prices multiply
that. So a proof of this method is one up to 1e-5, relative to 1 + |value|.

The outputs of a structure and rows over its parts are one 0/1 program.

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
from trellis.search.prices import prices
from trellis.search.progress import SearchProgress
from trellis.structures import integer
from trellis.structures.integer import Solution
from trellis.structures.polytope import Polytope
from trellis.structures.structure import Structure


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


PROOF = 1e-5
"""Relative gap at which the solver's bound counts as reached."""


def improve(progress: SearchProgress, todo: IntArray, time_limit: float, solver: str | None = None) -> None:
    """Search the instances ``todo``, for ``time_limit`` seconds each at most."""
    better: dict[int, Any] = {}
    for i in todo.tolist():
        scores, rows = progress.scores.instances(i, i + 1), progress.plan.remaining.rows.shard(i, i + 1)
        program = program_of(scores, rows, least=float(progress.value[i]))
        found = solve(program, time_limit, solver)
        if found.variables is not None:
            output = program.outputs(found.variables)
            value = _value(scores, rows, output)
            if value > progress.value[i]:
                better[i], progress.value[i] = output, value
        progress.bound[i] = min(progress.bound[i], max(found.bound, progress.value[i]))
        progress.proof[i] = PROOF
        progress.method[i] = "ilp"
    progress.replace(better)


def kbest(progress: SearchProgress, k: int, time_limit: float) -> tuple[list[Any], FloatArray, FloatArray]:
    """k outputs of every instance: after the best the best of all others, and so on.

    Their values are (k, n_instances), −∞ where there is none, and bounds of all others are (n_instances,).
    """
    n, parts = len(progress.value), progress.scores.parts
    value, bound = np.full((k, n), -np.inf), progress.bound.copy()
    best = parts.split_outputs(progress.outputs)
    found: list[list[Any]] = [list(best) for _ in range(k)]
    for i in range(n):
        scores, rows = progress.scores.instances(i, i + 1), progress.plan.remaining.rows.shard(i, i + 1)
        program, listed = program_of(scores, rows), [(float(progress.value[i]), best[i])]
        while len(listed) < k:
            program = program.without(scores.parts.of(listed[-1][1]))
            one = solve(program, time_limit)
            bound[i] = one.bound
            if one.variables is None:
                break
            output = program.outputs(one.variables)
            listed.append((_value(scores, rows, output), output))
        # solvers find them in this order up to their tolerance
        listed.sort(key=lambda pair: -pair[0])
        for place, (worth, output) in enumerate(listed):
            value[place, i], found[place][i] = worth, output
        for place in range(len(listed), k):
            found[place][i] = listed[0][1]
    return [parts.join_outputs(pieces) for pieces in found], value, bound


def program_of(scores: Structure, rows: Rows, *, least: float = -np.inf) -> Program:
    """The program of one instance: a batch of one, and rows over its parts.

    least : the value of a known output, which must be found again or beaten; −∞ if none is known
    """
    closed = np.zeros(scores.parts.n_parts, dtype=np.bool_)
    for some in rows.forbidden.sets:
        closed[some.listed()] = True
    best = scores.max_marginals() if least > -np.inf else None
    if best is not None:
        closed |= best < least - PROOF * (1.0 + abs(least))
    return as_program(scores.polytope(np.flatnonzero(closed)), rows)


def solve(program: Program, time_limit: float, solver: str | None = None) -> Solution:
    """The best output of a program, by the solver of this name (:mod:`trellis.structures.integer`)."""
    return integer.solve(program, program.whole, time_limit, solver)


def _value(scores: Structure, rows: Rows, output: Any) -> float:
    return float(scores.score(output)[0] - prices(rows, output)[0])
