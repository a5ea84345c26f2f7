"""Decoding by integer programming: the linear relaxation first, 0/1 search only where its answer is fractional.

The program is that of :func:`trellis.constraints.as_program`, one instance at a time. Without rows every vertex of its
polytope is an output (a path through the slots), so the relaxation is fractional only where rows make it so. Parts
that no output as good as a known one uses (their max-marginal is smaller) are left out.

HiGHS solves both, through highspy where that is installed and through scipy.optimize otherwise. The bound is that of
the solver: through scipy.optimize feasibility and integrality hold up to 1e-6 only, which prices multiply. So a proof
of this method is one up to 1e-5, relative to 1 + |value|.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from trellis.constraints.program import Program, as_program
from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray
from trellis.errors import ConstraintError, DataError
from trellis.search.kernels import reach
from trellis.search.plan import arrays_of
from trellis.search.progress import Progress
from trellis.search.single import rows_of, scores_of
from trellis.structures.chain import Chain

PROOF = 1e-5
"""Relative gap at which the solver's bound counts as reached."""
WHOLE = 1e-6
"""How far from a whole number a solver's variable may be."""


@dataclass(frozen=True)
class Solution:
    """Answer to a 0/1 program.

    labels : (n_slots,), or None where none was found
    bound : no output has a larger value; −∞ if the program is infeasible
    """

    labels: LabelArray | None
    bound: float


@dataclass(frozen=True)
class _Answer:
    """What a solver says: the variables or None, a bound on the objective (−∞: infeasible, ∞: nothing known)."""

    variables: FloatArray | None
    bound: float


def improve(progress: Progress, todo: IntArray, time_limit: float, solver: str | None = None) -> None:
    """Search the instances ``todo``, for ``time_limit`` seconds each at most."""
    rows = progress.plan.remaining.rows
    refuse_curved(rows)
    for i in todo.tolist():
        scores = scores_of(progress.scores, i)
        found = solve(
            scores, rows_of(rows, i), time_limit=time_limit, least=float(progress.value[i]), solver=solver
        )  # fmt: skip
        if found.labels is not None:
            value = progress.value_of(i, found.labels)
            if value > progress.value[i]:
                progress.replace(i, found.labels, value)
        progress.bound[i] = min(progress.bound[i], max(found.bound, progress.value[i]))
        progress.proof[i] = PROOF
        progress.method[i] = "ilp"


def solve(
    scores: Chain, rows: Rows, *, time_limit: float, least: float = -np.inf, solver: str | None = None
) -> Solution:
    """Best output of a batch of one instance.

    least : the value of a known output, which must be found again or beaten; −∞ if none is known
    solver : "highspy" or "scipy"; None: highspy if it is installed
    """
    if solver is None:
        solver = "highspy" if find_spec("highspy") else "scipy"
    if solver not in _SOLVERS:
        raise DataError(f"a solver is one of {', '.join(map(repr, _SOLVERS))}, got {solver!r}")
    if scores.n_slots == 0:
        return Solution(np.zeros(0, dtype=np.int32), np.inf)
    node, edge = _part_scores(scores)
    program = as_program(_without_useless(scores, rows, least))
    if len(program.part) == 0:  # solvers do not take a program without variables
        return Solution(None, -np.inf)
    cost = program.objective(node, edge)
    is_node = program.part < rows.parts.n_node_parts
    run = _SOLVERS[solver]
    relaxed = run(program, cost, None, time_limit)
    if relaxed.bound == -np.inf:
        return Solution(None, -np.inf)
    if relaxed.variables is not None:
        x = relaxed.variables[: len(program.part)][is_node]
        if np.all(np.abs(x - np.round(x)) <= WHOLE):
            return Solution(program.labels(relaxed.variables), relaxed.bound)
    # where the labels are whole, so are the edges between them
    whole = np.zeros(len(cost), dtype=np.bool_)
    whole[np.flatnonzero(is_node)] = True
    exact = run(program, cost, whole, time_limit)
    labels = None if exact.variables is None else program.labels(exact.variables)
    return Solution(labels, min(exact.bound, relaxed.bound))


def has_curved(rows: Rows) -> bool:
    """Whether some price is not linear."""
    return len(_curved(rows)) > 0


def refuse_curved(rows: Rows) -> None:
    """Refuse prices that a linear program cannot take."""
    curved = _curved(rows)
    if len(curved):
        name = rows.names[int(rows.constraint[curved[0]])]
        raise ConstraintError(
            f"the price of constraint {name!r} is not linear (a square, or an L2 norm of several rows), which a 0/1 "
            "program cannot take: use method 'beam', 'astar' or 'relaxation', or a strength in the norm 'l1' or 'linf'"
        )


def _curved(rows: Rows) -> IntArray:
    kind, norm = rows.groups.kind[rows.group], rows.groups.norm[rows.group]
    return np.flatnonzero((kind == Kind.SQUARED) | ((kind != Kind.HARD) & (norm == Norm.L2)))


def _part_scores(scores: Chain) -> tuple[FloatArray, FloatArray]:
    """Scores of nodes (n, K) with start and stop, and of edges (n, K, K)."""
    t = scores.tables
    node = scores.node.copy()
    node[0] += t.start
    node[-1] += t.stop
    return node, t.edge[scores.edge_index]


def _without_useless(scores: Chain, rows: Rows, least: float) -> Rows:
    """The rows, with more parts forbidden: those that no output of value ``least`` or more uses."""
    n, k = scores.n_slots, scores.n_labels
    best = np.empty(n * k * (k + 1))
    reach.max_marginals(arrays_of(scores), n, best[: n * k].reshape(n, k), best[n * k :].reshape(n, k, k))
    best = best[: rows.parts.n_parts]
    useless = best == -np.inf
    if least > -np.inf:
        useless |= best < least - PROOF * (1.0 + abs(least))
    useless[rows.forbidden] = True
    parts = np.flatnonzero(useless)
    return replace(rows, forbidden=parts, forbidden_by=np.zeros(len(parts), dtype=np.int64))


def _solve_highspy(program: Program, cost: FloatArray, whole: BoolArray | None, time_limit: float) -> _Answer:
    import highspy

    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = program.matrix.shape[1], program.matrix.shape[0]
    model.col_cost_, model.col_lower_, model.col_upper_ = cost, np.zeros(len(cost)), program.limit
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
        return _Answer(None, -np.inf)
    if status == highspy.HighsModelStatus.kOptimal:
        bound = info.objective_function_value if whole is None else info.mip_dual_bound
        return _Answer(np.array(highs.getSolution().col_value), -float(bound))
    if whole is None:
        return _Answer(None, np.inf)
    found = np.array(highs.getSolution().col_value) if np.isfinite(info.mip_gap) else None
    return _Answer(found, -float(info.mip_dual_bound))


def _solve_scipy(program: Program, cost: FloatArray, whole: BoolArray | None, time_limit: float) -> _Answer:
    from scipy.optimize import Bounds, LinearConstraint, milp

    found = milp(
        cost,
        integrality=None if whole is None else whole.astype(np.int64),
        bounds=Bounds(0.0, program.limit),
        constraints=LinearConstraint(program.matrix, program.lower, program.upper),
        options={"time_limit": float(time_limit), "mip_rel_gap": 0.0},
    )
    if found.status == 2:
        return _Answer(None, -np.inf)
    if found.status == 0:
        return _Answer(np.asarray(found.x), -float(found.fun if whole is None else found.mip_dual_bound))
    if whole is None:
        return _Answer(None, np.inf)
    bound = np.inf if found.mip_dual_bound is None else -float(found.mip_dual_bound)
    return _Answer(None if found.x is None else np.asarray(found.x), bound)


_SOLVERS = {"highspy": _solve_highspy, "scipy": _solve_scipy}
