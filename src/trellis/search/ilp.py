"""Decoding by integer programming: the linear relaxation first, 0/1 search only where its answer is fractional.

The program is that of :func:`trellis.search.program.as_program`, one instance at a time, and serves every structure
that has a polytope. Where every vertex of that is an output (paths through the slots of a chain) the relaxation is
fractional only where rows make it so. Parts that no output as good as a known one uses (their max-marginal is smaller)
are closed.

HiGHS solves both, through highspy where that is installed and through scipy.optimize otherwise. The bound is that of
the solver: through scipy.optimize feasibility and integrality hold up to 1e-6 only, which prices multiply. So a proof
of this method is one up to 1e-5, relative to 1 + |value|.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import DataError
from trellis.search.prices import prices
from trellis.search.program import Program, as_program
from trellis.search.progress import Progress
from trellis.structures.structure import Structure

PROOF = 1e-5
"""Relative gap at which the solver's bound counts as reached."""
WHOLE = 1e-6
"""How far from a whole number a solver's variable may be."""


@dataclass(frozen=True)
class Solution:
    """What a solver says of a 0/1 program.

    variables : None where none were found
    bound : no output has a larger value; −∞ if the program is infeasible, ∞ if nothing is known
    """

    variables: FloatArray | None
    bound: float


def improve(progress: Progress, todo: IntArray, time_limit: float, solver: str | None = None) -> None:
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


def kbest(progress: Progress, k: int, time_limit: float) -> tuple[list[Any], FloatArray, FloatArray]:
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
    """The best output of a program.

    solver : "highspy" or "scipy"; None: highspy if it is installed
    """
    if solver is None:
        solver = "highspy" if find_spec("highspy") else "scipy"
    if solver not in _SOLVERS:
        raise DataError(f"a solver is one of {', '.join(map(repr, _SOLVERS))}, got {solver!r}")
    if len(program.cost) == 0:  # solvers do not take a program without variables
        allowed = np.all(program.lower <= 0.0) and np.all(program.upper >= 0.0)
        return Solution(np.zeros(0), 0.0) if allowed else Solution(None, -np.inf)
    run = _SOLVERS[solver]
    relaxed = run(program, None, time_limit)
    if relaxed.bound == -np.inf:
        return relaxed
    if relaxed.variables is not None:
        x = relaxed.variables[program.whole]
        if np.all(np.abs(x - np.round(x)) <= WHOLE):
            return relaxed
    exact = run(program, program.whole, time_limit)
    return Solution(exact.variables, min(exact.bound, relaxed.bound))


def _value(scores: Structure, rows: Rows, output: Any) -> float:
    return float(scores.score(output)[0] - prices(rows, output)[0])


def _solve_highspy(program: Program, whole: BoolArray | None, time_limit: float) -> Solution:
    import highspy

    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = program.matrix.shape[1], program.matrix.shape[0]
    model.col_cost_, model.col_lower_, model.col_upper_ = program.cost, np.zeros(len(program.cost)), program.limit
    model.row_lower_, model.row_upper_ = program.lower, program.upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = program.matrix.indptr
    model.a_matrix_.index_ = program.matrix.indices
    model.a_matrix_.value_ = program.matrix.data
    if whole is not None:
        any_number, whole_number = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
        model.integrality_ = [whole_number if one else any_number for one in whole.tolist()]
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, setting in (
        ("output_flag", False), ("parallel", "off"), ("time_limit", float(time_limit)),
        ("mip_rel_gap", 0.0), ("mip_abs_gap", 1e-9), ("mip_feasibility_tolerance", 1e-9),
        ("primal_feasibility_tolerance", 1e-9),
    ):  # fmt: skip
        highs.setOptionValue(option, setting)
    highs.passModel(model)
    highs.run()
    status, info = highs.getModelStatus(), highs.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solution(None, -np.inf)
    if status == highspy.HighsModelStatus.kOptimal:
        bound = info.objective_function_value if whole is None else info.mip_dual_bound
        return Solution(np.array(highs.getSolution().col_value), -float(bound))
    if whole is None:
        return Solution(None, np.inf)
    found = np.array(highs.getSolution().col_value) if np.isfinite(info.mip_gap) else None
    return Solution(found, -float(info.mip_dual_bound))


def _solve_scipy(program: Program, whole: BoolArray | None, time_limit: float) -> Solution:
    from scipy.optimize import Bounds, LinearConstraint, milp

    found = milp(
        program.cost,
        integrality=None if whole is None else whole.astype(np.int64),
        bounds=Bounds(0.0, program.limit),
        constraints=LinearConstraint(program.matrix, program.lower, program.upper),
        options={"time_limit": float(time_limit), "mip_rel_gap": 0.0},
    )
    if found.status == 2:
        return Solution(None, -np.inf)
    if found.status == 0:
        return Solution(np.asarray(found.x), -float(found.fun if whole is None else found.mip_dual_bound))
    if whole is None:
        return Solution(None, np.inf)
    bound = np.inf if found.mip_dual_bound is None else -float(found.mip_dual_bound)
    return Solution(None if found.x is None else np.asarray(found.x), bound)


_SOLVERS = {"highspy": _solve_highspy, "scipy": _solve_scipy}
