"""The dual over rows that couple instances, solved over the shards of a corpus.

    minimise  F(θ) = b·θ + Σ_shards value(θ) + Σ_groups g(θ_group)      θ = λ/γ; value is minimal in the local duals

Up to some two hundred rows are solved by the quasi-Newton solver that instances use; more rows, and l1/linf blocks, by
the spectral proximal gradient method (Birgin, Martínez and Raydan's SPG with proximal operators in place of
projections). Each evaluation is one pass over the corpus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.projection.kernels import solver
from trellis.projection.local import GroupTable

Evaluate = Callable[[FloatArray], tuple[float, FloatArray]]
Curvature = Callable[[], FloatArray]
Prox = Callable[[FloatArray, float], FloatArray]


@dataclass(frozen=True)
class CoupledSolution:
    """The dual point found, f + g there, the natural residual ‖θ − prox(θ − ∇f)‖∞ and the row where it is largest."""

    theta: FloatArray
    value: float
    residual: float
    evaluations: int
    converged: bool
    worst: int = 0


def solve_bfgs(
    evaluate: Evaluate,
    start: FloatArray,
    table: GroupTable,
    scale: FloatArray,
    limit: float,
    curvature: Curvature,
    tolerance: float,
    most_evaluations: int,
) -> CoupledSolution:
    """Reverse communication with the compiled solver; ``curvature`` estimates the Hessian where it last evaluated."""
    n = len(start)
    trial = np.array(start, dtype=np.float64)
    integers, floats = np.zeros(solver.N_INTEGERS, np.int64), np.zeros(solver.N_FLOATS)
    vectors, recent = np.zeros((solver.N_VECTORS, n)), np.zeros(solver.MEMORY)
    vectors[solver.REACH], vectors[solver.SCALE] = 1.0, scale
    hessian = np.zeros((n, n))
    args = (table.equality, table.start, table.kind, table.norm, table.amount)
    solver.begin(trial, *args, integers, floats, vectors, recent)
    floats[solver.LIMIT] = limit
    while True:
        value, gradient = evaluate(trial)
        if integers[solver.N_EVALUATIONS] % solver.PATIENCE == 0:
            hessian[:] = curvature()
            hessian[np.diag_indices(n)] = np.maximum(np.diag(hessian), 1e-12)
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
        worst=int(np.argmax(np.abs(vectors[solver.X] - vectors[solver.WORK]))),
    )


def solve_spectral(
    evaluate: Evaluate,
    start: FloatArray,
    prox: Prox,
    penalty: Callable[[FloatArray], float],
    scale: FloatArray | float,
    tolerance: float,
    most_evaluations: int,
    first_step: float,
    memory: int = 8,
) -> CoupledSolution:
    """Spectral proximal gradient with a nonmonotone line search; ``penalty`` is Σ g where it is finite.

    Scores move by a bounded number of nats a step, which doubles while it is what holds the step back.
    """
    x = prox(np.array(start, dtype=np.float64), 0.0)
    f, gradient = evaluate(x)
    total = f + penalty(x)
    recent, step, n_evaluations, cap = [total], first_step, 1, solver.FIRST_CAP
    best = (total, x, gradient)
    while True:
        off = scale * np.abs(x - prox(x - gradient, 1.0))
        residual = float(np.max(off, initial=0.0))
        if residual <= tolerance or n_evaluations >= most_evaluations:
            break
        direction = prox(x - step * gradient, step) - x
        # In exact arithmetic the slope is at most −‖d‖²/step; near a solution the difference of g is all rounding.
        slope = float(gradient @ direction) + penalty(x + direction) - penalty(x)
        slope = min(slope, -float(direction @ direction) / step)
        farthest = float(np.max(np.abs(direction), initial=0.0))
        if not slope < 0.0:
            break
        if farthest > cap:
            direction, slope, cap = direction * (cap / farthest), slope * cap / farthest, 2.0 * cap
        else:
            cap = solver.FIRST_CAP
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
            if fraction < 1e-14:
                break
        s, y = trial - x, gradient_trial - gradient
        curvature, length = float(s @ y), float(s @ s)
        longest = 4.0 * cap / max(float(np.max(np.abs(gradient_trial), initial=0.0)), 1e-300)
        step = min(max(length / curvature, 1e-8), longest) if curvature > 0 else longest
        x, gradient, total = trial, gradient_trial, total_trial
        recent = [*recent, total][-memory:]
        if total < best[0]:
            best = (total, x, gradient)
    if total > best[0] and residual > tolerance:
        total, x, gradient = best
        off = scale * np.abs(x - prox(x - gradient, 1.0))
        residual = float(np.max(off, initial=0.0))
    worst = int(np.argmax(off)) if len(off) else 0
    return CoupledSolution(x, total, residual, n_evaluations, residual <= tolerance, worst)
