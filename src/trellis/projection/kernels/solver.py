"""The dual solver inside an instance, in reverse-communication form.

The caller evaluates f and ∇f at ``trial`` and calls :func:`advance`; it answers EVALUATE with a new ``trial``, or how
it ended. So one solver serves every structure: each structure's kernel is a loop of its own inference and this call.

Where every group is *separable* (a box and a quadratic a row) the direction is that of projected BFGS: rows at a bound
with the gradient pushing outwards are held, the others solve B d = −∇f with B started from the caller's estimate of the
Hessian. Otherwise it is a spectral proximal step (Barzilai and Borwein's step length), which needs nothing of the
groups but their proximal operators. Both are safeguarded by a sufficient-decrease line search, so both converge on
this convex problem.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.projection.kernels.groups import (
    HARD,
    L1,
    LINF,
    PENALTY,
    SLACK,
    SQUARED,
    natural_residual,
    prox_all,
    value_all,
)

EVALUATE, CONVERGED, STALLED, EXHAUSTED, UNBOUNDED = 0, 1, 2, 3, 4

# Slots of the integer and of the floating state.
PHASE, N_EVALUATIONS, N_BACKTRACKS, SEPARABLE, N_RESETS = 0, 1, 2, 3, 4
VALUE, STEP, RESIDUAL, SMOOTH, SLOPE, SPECTRAL, CAP = 0, 1, 2, 3, 4, 5, 6
N_INTEGERS, N_FLOATS, N_VECTORS, MEMORY = 5, 7, 9, 8
# Rows of the matrix of vectors.
X, GRADIENT, DIRECTION, LOWER, UPPER, CURVATURE, WORK, WORK2, REACH = 0, 1, 2, 3, 4, 5, 6, 7, 8

SUFFICIENT = 1e-4
MOST_NATS = 1e4
"""Scores moved by more than this have left every feasible problem behind: the dual is unbounded."""
MOST_BACKTRACKS = 30
FIRST_CAP = 12.0


@njit(nogil=True, cache=True)
def begin(trial, equality, group_start, kind, norm, amount, integers, floats, vectors, recent):
    """Set up the state; the first evaluation is wanted at ``trial``, which is made feasible.

    vectors[REACH] (the largest coefficient of each row) is the caller's to fill.
    """
    n = trial.shape[0]
    integers[:] = 0
    floats[:] = 0.0
    recent[:] = -np.inf
    separable = 1
    for j in range(kind.shape[0]):
        low, high = group_start[j], group_start[j + 1]
        single = high - low == 1
        box = kind[j] == PENALTY and (norm[j] == L1 or single)
        smooth = kind[j] == HARD or kind[j] == SQUARED or box
        linear = kind[j] == SLACK and (norm[j] == LINF or single)
        for r in range(low, high):
            vectors[LOWER, r] = -np.inf if equality[r] else 0.0
            vectors[UPPER, r] = np.inf
            vectors[CURVATURE, r] = 0.0
            if box:
                vectors[UPPER, r] = amount[j]
                vectors[LOWER, r] = max(vectors[LOWER, r], -amount[j])
            if kind[j] == SQUARED:
                vectors[CURVATURE, r] = 1.0 / amount[j]
            if not smooth and not (linear and (not equality[r] or amount[j] == 0.0)):
                separable = 0
    integers[SEPARABLE] = separable
    prox_all(trial, equality, group_start, kind, norm, amount, 0.0)
    for r in range(n):
        trial[r] = min(max(trial[r], vectors[LOWER, r]), vectors[UPPER, r])


@njit(nogil=True, cache=True)
def advance(
    trial, value, gradient, equality, group_start, kind, norm, amount,
    hessian, integers, floats, vectors, recent, tolerance, most_evaluations,
):  # fmt: skip
    """Take f and ∇f at ``trial``; move on. ``hessian`` (n, n) holds the caller's estimate at the first call."""
    n = trial.shape[0]
    x, d = vectors[X], vectors[DIRECTION]
    total = value + value_all(trial, group_start, kind, norm, amount)
    integers[N_EVALUATIONS] += 1
    if integers[PHASE] == 0:
        accept(trial, value, total, gradient, n, floats, vectors)
        floats[SPECTRAL] = 1.0
        floats[CAP] = FIRST_CAP
        recent[0] = total
        integers[PHASE] = 1
    else:
        slope = floats[SLOPE] * floats[STEP]
        reference = floats[VALUE]
        if integers[SEPARABLE] == 0:
            for past in recent:
                reference = max(reference, past)
        decreased = total <= reference + SUFFICIENT * slope
        if not decreased and total <= floats[VALUE] + 1e-12 * (1.0 + abs(floats[VALUE])):
            # Within rounding of f: judge by the slope at the trial point instead (Hager and Zhang).
            there = 0.0
            for r in range(n):
                there += gradient[r] * (trial[r] - x[r])
            decreased = abs(there) <= 0.9 * abs(slope)
        if not decreased:
            if integers[N_BACKTRACKS] >= MOST_BACKTRACKS or integers[N_EVALUATIONS] >= most_evaluations:
                stopped = restart(n, hessian, integers, vectors)
                if not stopped and integers[N_EVALUATIONS] < most_evaluations:
                    return propose(trial, equality, group_start, kind, norm, amount, hessian, integers, floats, vectors)
                return give_up(trial, x, n, EXHAUSTED if integers[N_EVALUATIONS] >= most_evaluations else STALLED)
            integers[N_BACKTRACKS] += 1
            # The minimiser of the parabola through the two values and the slope, kept between a tenth and a half.
            curve = total - floats[VALUE] - slope
            shrinkage = -0.5 * slope / curve if curve > 0.0 else 0.5
            floats[STEP] *= min(max(shrinkage, 0.1), 0.5) if shrinkage == shrinkage else 0.1
            for r in range(n):
                trial[r] = x[r] + floats[STEP] * d[r]
            return EVALUATE
        learn_curvature(trial, gradient, n, hessian, integers, floats, vectors)
        accept(trial, value, total, gradient, n, floats, vectors)
        recent[integers[N_EVALUATIONS] % recent.shape[0]] = total
    floats[RESIDUAL] = natural_residual(x, vectors[GRADIENT], equality, group_start, kind, norm, amount, vectors[WORK])
    if floats[RESIDUAL] <= tolerance:
        return CONVERGED
    if integers[N_EVALUATIONS] >= most_evaluations:
        return EXHAUSTED
    for r in range(n):
        if abs(x[r]) * vectors[REACH, r] > MOST_NATS:
            return UNBOUNDED
    return propose(trial, equality, group_start, kind, norm, amount, hessian, integers, floats, vectors)


@njit(nogil=True, cache=True)
def accept(trial, value, total, gradient, n, floats, vectors):
    """Make the trial point the current one."""
    for r in range(n):
        vectors[X, r] = trial[r]
        vectors[GRADIENT, r] = gradient[r]
    floats[SMOOTH] = value
    floats[VALUE] = total


@njit(nogil=True, cache=True)
def give_up(trial, x, n, reason):
    """End at the current point: the caller evaluates there once more if its last evaluation was elsewhere."""
    for r in range(n):
        trial[r] = x[r]
    return reason


@njit(nogil=True, cache=True)
def restart(n, hessian, integers, vectors):
    """Forget the curvature that led nowhere, twice at most; returns whether there is nothing left to try."""
    integers[N_RESETS] += 1
    integers[N_BACKTRACKS] = 0
    for r in range(n):
        diagonal = max(hessian[r, r], 1e-8)
        for s in range(n):
            hessian[r, s] = 0.0
        hessian[r, r] = diagonal if integers[N_RESETS] == 1 else 1.0
    return integers[N_RESETS] > 2 or integers[SEPARABLE] == 0


@njit(nogil=True, cache=True)
def learn_curvature(trial, gradient, n, hessian, integers, floats, vectors):
    """BFGS update of the Hessian of f, or Barzilai and Borwein's step length."""
    s, y = vectors[WORK], vectors[WORK2]
    sy, ss = 0.0, 0.0
    for r in range(n):
        s[r] = trial[r] - vectors[X, r]
        y[r] = gradient[r] - vectors[GRADIENT, r]
        sy += s[r] * y[r]
        ss += s[r] * s[r]
    if integers[SEPARABLE] == 0:
        floats[SPECTRAL] = min(max(ss / sy, 1e-6), 1e6) if sy > 1e-300 else 1e6
        return
    if not sy > 1e-14 * ss:
        return
    bs = np.zeros(n)
    sbs = 0.0
    for r in range(n):
        for q in range(n):
            bs[r] += hessian[r, q] * s[q]
        sbs += bs[r] * s[r]
    if not sbs > 0.0:
        return
    for r in range(n):
        for q in range(n):
            hessian[r, q] += y[r] * y[q] / sy - bs[r] * bs[q] / sbs


@njit(nogil=True, cache=True)
def propose(trial, equality, group_start, kind, norm, amount, hessian, integers, floats, vectors):
    """Choose a direction from the current point and put its full step into ``trial``."""
    n = trial.shape[0]
    x, gradient, d = vectors[X], vectors[GRADIENT], vectors[DIRECTION]
    integers[N_BACKTRACKS] = 0
    floats[STEP] = 1.0
    if integers[SEPARABLE] == 1:
        newton_point(trial, n, hessian, vectors, amount, kind, norm, group_start)
        slope = full_slope(trial, n, vectors, group_start, kind, norm, amount)
        if not slope < 0.0:
            # The projected Newton point is no descent: a scaled gradient step always is.
            for r in range(n):
                trial[r] = x[r] - gradient[r] / max(hessian[r, r] + vectors[CURVATURE, r], 1e-8)
            prox_all(trial, equality, group_start, kind, norm, amount, 0.0)
            for r in range(n):
                trial[r] = min(max(trial[r], vectors[LOWER, r]), vectors[UPPER, r])
            slope = full_slope(trial, n, vectors, group_start, kind, norm, amount)
    else:
        for r in range(n):
            trial[r] = x[r] - floats[SPECTRAL] * gradient[r]
        prox_all(trial, equality, group_start, kind, norm, amount, floats[SPECTRAL])
        slope = full_slope(trial, n, vectors, group_start, kind, norm, amount)
    # Where the posterior is nearly certain the curvature is nearly zero, and a full Newton step would leap out of all
    # bounds: scores move by a bounded number of nats a step, which doubles while it is what holds the step back.
    fraction = 1.0
    for r in range(n):
        d[r] = trial[r] - x[r]
        if abs(d[r]) * vectors[REACH, r] > floats[CAP]:
            fraction = min(fraction, floats[CAP] / (abs(d[r]) * vectors[REACH, r]))
    floats[CAP] = 2.0 * floats[CAP] if fraction < 1.0 else FIRST_CAP
    if fraction < 1.0:
        for r in range(n):
            d[r] *= fraction
            trial[r] = x[r] + d[r]
        slope *= fraction
    floats[SLOPE] = slope
    if not slope < 0.0:
        return give_up(trial, x, n, STALLED)
    return EVALUATE


@njit(nogil=True, cache=True)
def full_slope(trial, n, vectors, group_start, kind, norm, amount):
    """∇f·(trial − x) + g(trial) − g(x): an upper bound of the directional derivative, negative for descent."""
    slope = value_all(trial, group_start, kind, norm, amount) - value_all(
        vectors[X][:n], group_start, kind, norm, amount
    )
    for r in range(n):
        slope += vectors[GRADIENT, r] * (trial[r] - vectors[X, r])
    return slope


@njit(nogil=True, cache=True)
def newton_point(trial, n, hessian, vectors, amount, kind, norm, group_start):
    """x + d clipped to the box, where (B + curvature) d = −∇F on the rows that are free to move."""
    x, gradient, lower, upper = vectors[X], vectors[GRADIENT], vectors[LOWER], vectors[UPPER]
    slope = vectors[WORK]
    for j in range(kind.shape[0]):
        for r in range(group_start[j], group_start[j + 1]):
            slope[r] = gradient[r] + vectors[CURVATURE, r] * x[r]
            if kind[j] == SLACK:
                slope[r] += amount[j]
    free = np.empty(n, np.int64)
    n_free = 0
    for r in range(n):
        held = (x[r] <= lower[r] and slope[r] > 0.0) or (x[r] >= upper[r] and slope[r] < 0.0)
        trial[r] = x[r]
        if not held:
            free[n_free] = r
            n_free += 1
    if n_free == 0:
        return
    # Clipping can turn the direction; rows that would leave the box are held at it and the rest solved again.
    for _ in range(n_free):
        matrix = np.empty((n_free, n_free))
        right = np.empty(n_free)
        for i in range(n_free):
            r = free[i]
            right[i] = -slope[r]
            for j in range(n):
                moved = trial[j] - x[j]
                if moved != 0.0:
                    right[i] -= hessian[r, j] * moved
            for k in range(n_free):
                matrix[i, k] = hessian[r, free[k]]
            matrix[i, i] += vectors[CURVATURE, r]
        solve_positive(matrix, right)
        kept = 0
        for i in range(n_free):
            r = free[i]
            target = x[r] + right[i]
            if target < lower[r]:
                trial[r] = lower[r]
            elif target > upper[r]:
                trial[r] = upper[r]
            else:
                free[kept] = r
                right[kept] = right[i]
                kept += 1
        if kept == n_free:
            for i in range(n_free):
                trial[free[i]] = x[free[i]] + right[i]
            return
        n_free = kept
        if n_free == 0:
            return


@njit(nogil=True, cache=True)
def solve_positive(matrix, right):
    """right ← matrix⁻¹ right by Cholesky; a pivot that is not positive is raised, which only shortens the step."""
    n = right.shape[0]
    largest = 0.0
    for i in range(n):
        largest = max(largest, matrix[i, i])
    floor = max(1e-10 * largest, 1e-12)
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i == j:
                matrix[i, i] = np.sqrt(max(total, floor))
            else:
                matrix[i, j] = total / matrix[j, j]
    for i in range(n):
        total = right[i]
        for k in range(i):
            total -= matrix[i, k] * right[k]
        right[i] = total / matrix[i, i]
    for i in range(n - 1, -1, -1):
        total = right[i]
        for k in range(i + 1, n):
            total -= matrix[k, i] * right[k]
        right[i] = total / matrix[i, i]
