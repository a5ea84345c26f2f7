"""The best point of a 0/1 program: the linear relaxation first, 0/1 search only where its answer is fractional.

    min  cost·x     lower ≤ A x ≤ upper,  0 ≤ x ≤ limit,  x whole where it must be

HiGHS solves both, through highspy where that is installed and through scipy.optimize otherwise. Bounds are those of the
solver: through scipy.optimize feasibility and integrality hold up to 1e-6 only.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray
from trellis.errors import DataError

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


@dataclass(frozen=True)
class ZeroOneProgram:
    """matrix : scipy CSR (n_conditions, n_variables);  lower, upper : of conditions;  cost, limit : of variables."""

    matrix: Any
    lower: FloatArray
    upper: FloatArray
    cost: FloatArray
    limit: FloatArray


def relax(program: Any, time_limit: float, solver: str | None = None) -> Solution:
    """The best point of the linear relaxation."""
    return _run(program, None, time_limit, solver)


def solve(program: Any, whole: BoolArray, time_limit: float, solver: str | None = None) -> Solution:
    """The best point of a program, whose variables are 0 or 1 where ``whole`` (n_variables,) says so.

    solver : "highspy" or "scipy"; None: highspy if it is installed
    """
    relaxed = relax(program, time_limit, solver)
    if relaxed.bound == -np.inf or is_whole(relaxed, whole):
        return relaxed
    exact = _run(program, whole, time_limit, solver)
    return Solution(exact.variables, min(exact.bound, relaxed.bound))


def is_whole(found: Solution, whole: BoolArray) -> bool:
    """Whether a solution was found, and is 0 or 1 where it must be."""
    if found.variables is None:
        return False
    x = found.variables[whole]
    return bool(np.all(np.abs(x - np.round(x)) <= WHOLE))


def _run(program: Any, whole: BoolArray | None, time_limit: float, solver: str | None) -> Solution:
    if solver is None:
        solver = "highspy" if find_spec("highspy") else "scipy"
    if solver not in _SOLVERS:
        raise DataError(f"a solver is one of {', '.join(map(repr, _SOLVERS))}, got {solver!r}")
    if len(program.cost) == 0:  # solvers do not take a program without variables
        allowed = np.all(program.lower <= 0.0) and np.all(program.upper >= 0.0)
        return Solution(np.zeros(0), 0.0) if allowed else Solution(None, -np.inf)
    return _SOLVERS[solver](program, whole, time_limit)


def _solve_highspy(program: Any, whole: BoolArray | None, time_limit: float) -> Solution:
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


def _solve_scipy(program: Any, whole: BoolArray | None, time_limit: float) -> Solution:
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
