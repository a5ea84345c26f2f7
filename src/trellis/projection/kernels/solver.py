"""The dual solver inside an instance, in reverse-communication form.

The caller evaluates f and ∇f at ``trial`` and calls :func:`advance`; it answers EVALUATE with a new ``trial``, or how
it ended. So one solver serves every structure: each structure's kernel is a loop of its own inference and this call.

A direction minimises a model of the dual, ∇f·d + ½ dᵀB d + g(x + d), with B from BFGS updates that start from the
caller's estimate of the Hessian. Where every group is *separable* (a box, a slope and a quadratic a row) that is a
linear system on the rows that are free to move; otherwise accelerated proximal steps on the model solve it, which
cost no inference. With many rows B keeps the last few updates only (:mod:`limited`), so that time and memory grow with
their number and not with its square. A caller may ask for spectral proximal steps instead (Barzilai and Borwein's step
length). All are safeguarded by a sufficient-decrease line search, so all converge on this convex problem.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.projection.kernels import limited
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

EVALUATE, CONVERGED, STALLED, EXHAUSTED, UNBOUNDED, NEEDS_LOGS = 0, 1, 2, 3, 4, 5

# Slots of the integer and of the floating state.
PHASE, N_EVALUATIONS, N_BACKTRACKS, METHOD, N_RESETS, LIMITED, N_PAIRS = 0, 1, 2, 3, 4, 5, 6
# Methods.
SPECTRAL_STEP, NEWTON, PROXIMAL_NEWTON = 0, 1, 2
VALUE, STEP, RESIDUAL, SMOOTH, SLOPE, SPECTRAL, CAP, LIMIT = 0, 1, 2, 3, 4, 5, 6, 7
N_INTEGERS, N_FLOATS, N_VECTORS, MEMORY = 7, 8, 11, 8
# Rows of the matrix of vectors.
X, GRADIENT, DIRECTION, LOWER, UPPER, CURVATURE, WORK, WORK2, REACH, SCALE, LINEAR = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

SUFFICIENT = 1e-4
MOST_BACKTRACKS = 30
FIRST_CAP = 12.0
LEAST_CURVATURE = 1e-6
"""Where a row's variance is below this its step is a matter of the cap on moves."""
PATIENCE, LIMITED_PATIENCE = 20, 3
"""Every so many evaluations the caller estimates the Hessian anew: on a curved path old updates mislead. A
limited-memory model keeps its pairs then, so it is renewed more often (docs/notes/projection.md)."""
MOST_ROWS_WITH_HESSIAN = 200
"""Beyond this many rows the Hessian is a limited-memory model."""
FULL_HESSIAN_ROWS = 32
"""Up to this many rows in an instance the first Hessian is a full matrix, beyond it a diagonal."""


@njit(nogil=True, cache=True)
def hessian_rows(n):
    """(hessian_rows(n), n) is the shape of the Hessian of n rows, a matrix or a limited-memory model."""
    return n if n <= MOST_ROWS_WITH_HESSIAN else limited.MODEL_ROWS


@njit(nogil=True, cache=True)
def wants_estimate(integers):
    """Whether the caller is to estimate the Hessian anew before it hands in its next evaluation."""
    patience = LIMITED_PATIENCE if integers[LIMITED] == 1 else PATIENCE
    return integers[N_EVALUATIONS] % patience == patience - 1


@njit(nogil=True, cache=True)
def set_diagonal(hessian, diagonal, integers, vectors):
    """Let an estimate of the diagonal alone be the Hessian; a limited-memory model keeps its pairs."""
    n = diagonal.shape[0]
    if integers[LIMITED] == 0:
        hessian[:] = 0.0
        for r in range(n):
            hessian[r, r] = max(diagonal[r], 1e-12)
    else:
        for r in range(n):
            hessian[0, r] = max(diagonal[r], LEAST_CURVATURE)
        integers[N_PAIRS] = limited.rebuild(hessian, integers[N_PAIRS], vectors[WORK])


@njit(nogil=True, cache=True)
def begin(trial, equality, group_start, kind, norm, amount, integers, floats, vectors, recent):
    """Set up the state; the first evaluation is wanted at ``trial``, which is made feasible.

    The caller fills vectors[REACH], the largest coefficient of each row; vectors[SCALE], by which residuals are
    multiplied to be in the units of expectations; and then floats[LIMIT], a move of scores in nats that no feasible
    problem needs: beyond it the dual of a hard or slack row is unbounded. It may set integers[METHOD] to SPECTRAL_STEP
    where a matrix would be too large, and floats[SPECTRAL] to the length of a first step.
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
            vectors[LINEAR, r] = amount[j] if kind[j] == SLACK else 0.0
            if box:
                vectors[UPPER, r] = amount[j]
                vectors[LOWER, r] = max(vectors[LOWER, r], -amount[j])
            if kind[j] == SQUARED:
                vectors[CURVATURE, r] = 1.0 / amount[j]
            if not smooth and not (linear and (not equality[r] or amount[j] == 0.0)):
                separable = 0
    integers[METHOD] = NEWTON if separable == 1 else PROXIMAL_NEWTON
    integers[LIMITED] = 1 if n > MOST_ROWS_WITH_HESSIAN else 0
    prox_all(trial, equality, group_start, kind, norm, amount, 0.0)
    for r in range(n):
        trial[r] = min(max(trial[r], vectors[LOWER, r]), vectors[UPPER, r])


@njit(nogil=True, cache=True)
def advance(
    trial, value, gradient, equality, group_start, kind, norm, amount,
    hessian, integers, floats, vectors, recent, tolerance, most_evaluations,
):  # fmt: skip
    """Take f and ∇f at ``trial``; move on.

    hessian : (hessian_rows(n), n), the caller's estimate at the first call, and again at ``trial`` whenever it cares to
    """
    n = trial.shape[0]
    x, d = vectors[X], vectors[DIRECTION]
    total = value + value_all(trial, group_start, kind, norm, amount)
    integers[N_EVALUATIONS] += 1
    if integers[PHASE] == 0:
        accept(trial, value, total, gradient, n, floats, vectors)
        if floats[SPECTRAL] == 0.0:
            floats[SPECTRAL] = 1.0
        floats[CAP] = FIRST_CAP
        recent[0] = total
        integers[PHASE] = 1
    else:
        slope = floats[SLOPE] * floats[STEP]
        reference = floats[VALUE]
        if integers[METHOD] == SPECTRAL_STEP:
            for past in recent:
                reference = max(reference, past)
        rounding = 1e-13 * (1.0 + abs(reference))
        decreased = total <= reference + SUFFICIENT * slope + (0.0 if integers[METHOD] == NEWTON else rounding)
        if not decreased and integers[METHOD] == NEWTON and total <= floats[VALUE] + 10.0 * rounding:
            # Within rounding of f: judge by the slope at the trial point instead (Hager and Zhang).
            there = 0.0
            for r in range(n):
                full = gradient[r] + vectors[LINEAR, r] + vectors[CURVATURE, r] * trial[r]
                there += full * (trial[r] - x[r])
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
            moved = False
            for r in range(n):
                trial[r] = x[r] + floats[STEP] * d[r]
                moved = moved or trial[r] != x[r]
            if not moved:
                if restart(n, hessian, integers, vectors):
                    return give_up(trial, x, n, STALLED)
                return propose(trial, equality, group_start, kind, norm, amount, hessian, integers, floats, vectors)
            return EVALUATE
        learn_curvature(trial, gradient, n, hessian, integers, floats, vectors)
        accept(trial, value, total, gradient, n, floats, vectors)
        recent[integers[N_EVALUATIONS] % recent.shape[0]] = total
    floats[RESIDUAL] = natural_residual(
        x, vectors[GRADIENT], vectors[SCALE], equality, group_start, kind, norm, amount, vectors[WORK]
    )
    if floats[RESIDUAL] <= tolerance:
        return CONVERGED
    if integers[N_EVALUATIONS] >= most_evaluations:
        return EXHAUSTED
    for j in range(kind.shape[0]):
        if kind[j] == HARD or kind[j] == SLACK:
            for r in range(group_start[j], group_start[j + 1]):
                if abs(x[r]) * vectors[REACH, r] > floats[LIMIT]:
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
    if integers[METHOD] == SPECTRAL_STEP:
        return True
    integers[N_PAIRS] = 0
    if integers[LIMITED] == 1:
        if integers[N_RESETS] > 1:
            hessian[0] = 1.0
        return integers[N_RESETS] > 2
    for r in range(n):
        diagonal = max(hessian[r, r], 1e-8)
        for s in range(n):
            hessian[r, s] = 0.0
        hessian[r, r] = diagonal if integers[N_RESETS] == 1 else 1.0
    return integers[N_RESETS] > 2


@njit(nogil=True, cache=True)
def learn_curvature(trial, gradient, n, hessian, integers, floats, vectors):
    """BFGS update of the Hessian of f, or Barzilai and Borwein's step length."""
    if integers[METHOD] == SPECTRAL_STEP:
        ss, sy, steepest = spectral_products(trial, gradient, vectors[X], vectors[GRADIENT])
        longest = 4.0 * floats[CAP] / max(steepest, 1e-300)
        floats[SPECTRAL] = min(max(ss / sy, 1e-6), longest) if sy > 1e-300 else longest
        return
    s, y = vectors[WORK], vectors[WORK2]
    sy, ss = 0.0, 0.0
    for r in range(n):
        s[r] = trial[r] - vectors[X, r]
        y[r] = gradient[r] - vectors[GRADIENT, r]
        sy += s[r] * y[r]
        ss += s[r] * s[r]
    bs = np.zeros(n)
    if integers[LIMITED] == 1:
        integers[N_PAIRS] = limited.add_pair(hessian, integers[N_PAIRS], s, y, bs)
        return
    sbs = 0.0
    for r in range(n):
        for q in range(n):
            bs[r] += hessian[r, q] * s[q]
        sbs += bs[r] * s[r]
    if not sbs > 0.0:
        return
    # Where f is all but linear along the step, its curvature cannot be measured: it is taken to be a quarter of what
    # was thought, so that the next step goes farther.
    measured = sy > 1e-14 * ss and sy > 1e-6 * sbs
    if not measured and ss < 0.01:
        return
    for r in range(n):
        for q in range(n):
            if measured:
                hessian[r, q] += y[r] * y[q] / sy - bs[r] * bs[q] / sbs
            else:
                hessian[r, q] -= 0.75 * bs[r] * bs[q] / sbs


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})
def spectral_products(trial, gradient, x, before):
    """s·s, s·y and ‖∇f‖∞ of the step s = trial − x and y = ∇f(trial) − ∇f(x)."""
    ss, sy, steepest = 0.0, 0.0, 0.0
    for r in range(len(x)):
        s = trial[r] - x[r]
        ss += s * s
        sy += s * (gradient[r] - before[r])
        steepest = max(steepest, abs(gradient[r]))
    return ss, sy, steepest


@njit(nogil=True, cache=True)
def propose(trial, equality, group_start, kind, norm, amount, hessian, integers, floats, vectors):
    """Choose a direction from the current point and put its full step into ``trial``."""
    n = trial.shape[0]
    x, gradient, d = vectors[X], vectors[GRADIENT], vectors[DIRECTION]
    integers[N_BACKTRACKS] = 0
    floats[STEP] = 1.0
    if integers[METHOD] == NEWTON:
        newton_slope(n, vectors)
        if integers[LIMITED] == 1:
            limited_point(trial, n, hessian, integers, floats[CAP], vectors)
        else:
            newton_point(trial, n, hessian, vectors)
        if integers[LIMITED] == 0 and not is_descent(trial, n, vectors):
            # Dependent rows make the system singular and its solution wild: the same model is minimised a row at a
            # time instead, which goes down from the first row on.
            sweep_rows(trial, n, hessian, vectors)
        # The derivative itself: near a solution a difference of g would be all rounding.
        slope = 0.0
        for r in range(n):
            slope += vectors[WORK, r] * (trial[r] - x[r])
    elif integers[METHOD] == PROXIMAL_NEWTON:
        bend = proximal_newton_point(
            trial, n, hessian, integers, vectors, equality, group_start, kind, norm, amount, floats[CAP]
        )
        slope = full_slope(trial, n, vectors, group_start, kind, norm, amount)
        slope = min(slope, -0.5 * bend)
    else:
        for r in range(n):
            trial[r] = x[r] - floats[SPECTRAL] * gradient[r]
        prox_all(trial, equality, group_start, kind, norm, amount, floats[SPECTRAL])
        length, _, _ = spectral_products(trial, gradient, x, gradient)
        # In exact arithmetic the slope is at most −‖d‖²/step; near a solution the difference of g is all rounding.
        slope = full_slope(trial, n, vectors, group_start, kind, norm, amount)
        slope = min(slope, -length / floats[SPECTRAL])
    # Where the posterior is nearly certain the curvature is nearly zero, and a full Newton step would leap out of all
    # bounds: scores move by a bounded number of nats a step, which doubles while it is what holds the step back.
    fraction, farthest = 1.0, 0.0
    for r in range(n):
        d[r] = trial[r] - x[r]
        farthest = max(farthest, abs(d[r]) * vectors[REACH, r])
    if integers[LIMITED] == 1 and integers[METHOD] == NEWTON:  # each row is held to the cap already
        held = farthest >= 0.999 * floats[CAP]
    else:
        held = farthest > floats[CAP]
        fraction = floats[CAP] / farthest if held else 1.0
    floats[CAP] = 2.0 * floats[CAP] if held else FIRST_CAP
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
def proximal_newton_point(trial, n, hessian, integers, vectors, equality, group_start, kind, norm, amount, cap):
    """Minimise ∇f·d + ½ dᵀB d + g(x + d) by accelerated proximal steps (FISTA with restarts); returns dᵀB d."""
    x, gradient = vectors[X], vectors[GRADIENT]
    # No step of the model's own descent needs to be longer than what the cap lets through, and points far outside a
    # ball are projected onto it with errors of their own size.
    steep = max(1e-10, steepest(n, hessian, integers))
    for r in range(n):
        steep = max(steep, abs(gradient[r]) / (4.0 * cap))
    before, ahead, slope, move = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for r in range(n):
        trial[r], before[r], ahead[r] = x[r], x[r], x[r]
    momentum, first_change = 1.0, 0.0
    for step in range(500):
        for r in range(n):
            move[r] = ahead[r] - x[r]
        multiply(hessian, integers, move, slope)
        for r in range(n):
            trial[r] = ahead[r] - (gradient[r] + slope[r]) / steep
        prox_all(trial, equality, group_start, kind, norm, amount, 1.0 / steep)
        turn, change = 0.0, 0.0
        for r in range(n):
            turn += (ahead[r] - trial[r]) * (trial[r] - before[r])
            change = max(change, abs(trial[r] - ahead[r]))
        first_change = max(first_change, change)
        if change <= 1e-3 * first_change and step > 0:
            break
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
        push_on = (momentum - 1.0) / faster if turn <= 0.0 else 0.0
        momentum = faster if turn <= 0.0 else 1.0
        for r in range(n):
            ahead[r] = trial[r] + push_on * (trial[r] - before[r])
            before[r] = trial[r]
    for r in range(n):
        move[r] = trial[r] - x[r]
    multiply(hessian, integers, move, slope)
    bend = 0.0
    for r in range(n):
        bend += move[r] * slope[r]
    return bend


@njit(nogil=True, cache=True)
def multiply(hessian, integers, v, out):
    """out = B v."""
    if integers[LIMITED] == 1:
        limited.multiply(hessian, integers[N_PAIRS], v, out)
        return
    for r in range(v.shape[0]):
        total = 0.0
        for q in range(v.shape[0]):
            total += hessian[r, q] * v[q]
        out[r] = total


@njit(nogil=True, cache=True)
def steepest(n, hessian, integers):
    """An upper bound of the largest eigenvalue of B."""
    most = 0.0
    if integers[LIMITED] == 1:
        for r in range(n):
            most = max(most, hessian[0, r])
        for p in range(integers[N_PAIRS]):
            added = hessian[limited.ADDED + p]
            for r in range(n):
                most += added[r] * added[r]
        return most
    for r in range(n):
        total = 0.0
        for q in range(n):
            total += abs(hessian[r, q])
        most = max(most, total)
    return most


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
def is_descent(trial, n, vectors):
    """Whether the move to ``trial`` goes down, and not almost along a level line."""
    slope, length, steepness = 0.0, 0.0, 0.0
    for r in range(n):
        move = trial[r] - vectors[X, r]
        slope += vectors[WORK, r] * move
        length += move * move
        steepness += vectors[WORK, r] ** 2
    return slope < -1e-7 * np.sqrt(length * steepness)


@njit(nogil=True, cache=True)
def sweep_rows(trial, n, hessian, vectors):
    """Minimise the quadratic model over the box by coordinate descent from the current point."""
    x, slope, lower, upper = vectors[X], vectors[WORK], vectors[LOWER], vectors[UPPER]
    along = vectors[WORK2]  # B · move
    for r in range(n):
        trial[r] = x[r]
        along[r] = 0.0
    for _ in range(20):
        largest = 0.0
        for r in range(n):
            curvature = max(hessian[r, r] + vectors[CURVATURE, r], 1e-10)
            now = slope[r] + along[r] + vectors[CURVATURE, r] * (trial[r] - x[r])
            target = min(max(trial[r] - now / curvature, lower[r]), upper[r])
            change = target - trial[r]
            if change != 0.0:
                trial[r] = target
                largest = max(largest, abs(change))
                for q in range(n):
                    along[q] += hessian[q, r] * change
        if largest == 0.0:
            return


@njit(nogil=True, cache=True)
def newton_slope(n, vectors):
    """∇F of separable groups at the current point, into vectors[WORK]."""
    for r in range(n):
        vectors[WORK, r] = vectors[GRADIENT, r] + vectors[LINEAR, r] + vectors[CURVATURE, r] * vectors[X, r]


@njit(nogil=True, cache=True)
def limited_point(trial, n, hessian, integers, cap, vectors):
    """The minimiser of the limited-memory model over the box, no row moving its scores by more than the cap."""
    x, slope, low, high = vectors[X], vectors[WORK], np.empty(n), np.empty(n)
    for r in range(n):
        most = cap / max(vectors[REACH, r], 1e-300)
        low[r] = max(vectors[LOWER, r], x[r] - most)
        high[r] = min(vectors[UPPER, r], x[r] + most)
    limited.minimise(hessian, integers[N_PAIRS], x, slope, vectors[CURVATURE], low, high, trial, vectors[WORK2])
    if not is_descent(trial, n, vectors):
        # Rounding, or rows put to their bounds, turned the direction. With D alone every row goes down.
        integers[N_PAIRS] = 0
        limited.minimise(hessian, 0, x, slope, vectors[CURVATURE], low, high, trial, vectors[WORK2])


@njit(nogil=True, cache=True)
def newton_point(trial, n, hessian, vectors):
    """x + d clipped to the box, where (B + curvature) d = −∇F on the rows that are free to move."""
    x, lower, upper = vectors[X], vectors[LOWER], vectors[UPPER]
    slope = vectors[WORK]
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
