"""The dual over rows that couple instances, solved over the shards of a corpus.

    minimise  F(θ) = b·θ + Σ_shards value(θ) + Σ_groups g(θ_group)      θ = λ/γ; value is minimal in the local duals

Few rows that are a box and a quadratic each are solved by projected BFGS, the solver that instances use; many rows,
l1/linf blocks and norms that do not separate by the spectral proximal gradient method (Birgin, Martínez and Raydan's
SPG with proximal operators in place of projections). Each evaluation is one pass over the corpus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.projection.kernels import groups, solver
from trellis.projection.local import GroupTable

Evaluate = Callable[[FloatArray], tuple[float, FloatArray]]
Prox = Callable[[FloatArray, float], FloatArray]

BFGS_ROWS = 200
"""Up to this many coupling rows a full Hessian is kept."""


@dataclass(frozen=True)
class CoupledSolution:
    """The dual point found, f + g there, and the natural residual ‖θ − prox(θ − ∇f)‖∞."""

    theta: FloatArray
    value: float
    residual: float
    evaluations: int
    converged: bool


def solve_bfgs(
    evaluate: Evaluate,
    start: FloatArray,
    table: GroupTable,
    reach: FloatArray,
    diagonal: FloatArray,
    tolerance: float,
    most_evaluations: int,
) -> CoupledSolution:
    """Reverse communication with the compiled solver; ``diagonal`` is the first Hessian."""
    n = len(start)
    trial = np.array(start, dtype=np.float64)
    integers, floats = np.zeros(solver.N_INTEGERS, np.int64), np.zeros(solver.N_FLOATS)
    vectors, recent = np.zeros((solver.N_VECTORS, n)), np.zeros(solver.MEMORY)
    vectors[solver.REACH] = reach
    hessian = np.diag(np.maximum(diagonal, 1e-12))
    args = (table.equality, table.start, table.kind, table.norm, table.amount)
    solver.begin(trial, *args, integers, floats, vectors, recent)
    while True:
        value, gradient = evaluate(trial)
        action = solver.advance(
            trial, value, gradient, *args, hessian, integers, floats, vectors, recent, tolerance, most_evaluations
        )
        if action != solver.EVALUATE:
            break
    return CoupledSolution(
        theta=vectors[solver.X].copy(),
        value=float(floats[solver.VALUE]),
        residual=float(floats[solver.RESIDUAL]),
        evaluations=int(integers[solver.N_EVALUATIONS]),
        converged=action == solver.CONVERGED,
    )


def solve_spectral(
    evaluate: Evaluate,
    start: FloatArray,
    prox: Prox,
    penalty: Callable[[FloatArray], float],
    tolerance: float,
    most_evaluations: int,
    first_step: float,
    memory: int = 8,
) -> CoupledSolution:
    """Spectral proximal gradient with a nonmonotone line search; ``penalty`` is Σ g where it is finite."""
    x = prox(np.array(start, dtype=np.float64), 0.0)
    f, gradient = evaluate(x)
    total = f + penalty(x)
    recent, step, n_evaluations = [total], first_step, 1
    best = (total, x, gradient)
    while True:
        residual = float(np.max(np.abs(x - prox(x - gradient, 1.0)), initial=0.0))
        if residual <= tolerance or n_evaluations >= most_evaluations:
            break
        direction = prox(x - step * gradient, step) - x
        slope = float(gradient @ direction) + penalty(x + direction) - penalty(x)
        if not slope < 0.0:
            break
        fraction = 1.0
        while True:
            trial = x + fraction * direction
            f_trial, gradient_trial = evaluate(trial)
            total_trial = f_trial + penalty(trial)
            n_evaluations += 1
            rounding = 1e-12 * (1.0 + abs(total))
            if total_trial <= max(recent) + 1e-4 * fraction * slope + rounding or n_evaluations >= most_evaluations:
                break
            curve = total_trial - total - fraction * slope
            fraction *= min(max(-0.5 * fraction * slope / curve if curve > 0 else 0.5, 0.1), 0.5)
        s, y = trial - x, gradient_trial - gradient
        curvature, length = float(s @ y), float(s @ s)
        step = min(max(length / curvature, 1e-8), 1e8) if curvature > 0 else 1e3 * step
        x, gradient, total = trial, gradient_trial, total_trial
        recent = [*recent, total][-memory:]
        if total < best[0]:
            best = (total, x, gradient)
    if total > best[0] and residual > tolerance:
        total, x, gradient = best
        residual = float(np.max(np.abs(x - prox(x - gradient, 1.0)), initial=0.0))
    return CoupledSolution(x, total, residual, n_evaluations, residual <= tolerance)


def is_separable(table: GroupTable) -> bool:
    """Whether every group is a box, a slope and a quadratic a row."""
    single = np.diff(table.start) == 1
    box = (table.kind == groups.PENALTY) & ((table.norm == groups.L1) | single)
    smooth = (table.kind == groups.HARD) | (table.kind == groups.SQUARED) | box
    one_sided = ~np.logical_or.reduceat(table.equality, table.start[:-1]) if len(table.kind) else smooth
    slope = (table.kind == groups.SLACK) & ((table.norm == groups.LINF) | single) & one_sided
    return bool(np.all(smooth | slope))
