"""Rows over independent variables, one dual variable at a time.

    θ_r ← argmin_{lower ≤ θ ≤ upper}  Σ_v log Σ_k exp(score(v, k) − θ · c_r(v, k)) + b_r θ        v: variables of row r

A row names few variables with few labels, so that its own Newton steps are cheap and its curvature exact; a sweep over
the rows of an instance is coordinate descent on a smooth convex function over a box, and converges. Most rows of a
sentence are slack and stay so: a row is looked at again only when one of its variables has moved since. Where sweeps
crawl, Newton steps over all rows of the instance stand between them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.projection.kernels.graph_newton import FARTHEST, newton_step
from trellis.projection.kernels.solver import CONVERGED, EXHAUSTED, UNBOUNDED

MOST_STEPS = 20
SWEEPS_ALONE, OFTEN = 4, 10
"""Sweeps before the first Newton step and between the first ten; then three times as many."""


@njit(nogil=True, cache=True)
def moments(score, part, coefficient, first, size, low, high, theta):
    """Mean and variance of a row when its variables' scores are tilted by −θ · coefficient."""
    mean, variance, e = 0.0, 0.0, low
    while e < high:
        start, stop, mine = first[e], first[e] + size[e], e
        top = -np.inf
        entry = mine
        for p in range(start, stop):
            value = score[p]
            if entry < high and part[entry] == p:
                value -= theta * coefficient[entry]
                entry += 1
            top = max(top, value)
        total, once, twice = 0.0, 0.0, 0.0
        entry = mine
        for p in range(start, stop):
            value, c = score[p], 0.0
            if entry < high and part[entry] == p:
                c = coefficient[entry]
                value -= theta * c
                entry += 1
            mass = np.exp(value - top) if value > -np.inf else 0.0
            total += mass
            once += mass * c
            twice += mass * c * c
        e = entry
        if total > 0.0:
            once /= total
            mean += once
            variance += twice / total - once * once
    return mean, variance


@njit(nogil=True, cache=True)
def is_settled(seen, changed, first, low, high):
    """Whether no variable of a row has moved since the row was last solved, at time ``seen``; −1: never."""
    settled = seen >= 0
    for e in range(low, high):
        settled = settled and changed[first[e]] <= seen
    return settled


@njit(nogil=True, cache=True)
def project_graphs(
    instance_rows, tied, row_start, part, coefficient, bound, lower, upper, scale, first, size, score, theta, tolerance,
    most_sweeps, limit, residual, sweeps, ending,
):  # fmt: skip
    """Solve the rows of every instance that is not ``tied``; ``score`` has the tilt of θ before and after."""
    clock, seen, changed = 0, np.full(theta.shape[0], -1, np.int64), np.zeros(score.shape[0], np.int64)
    normaliser = np.empty(score.shape[0])
    for i in range(instance_rows.shape[0] - 1):
        ending[i] = CONVERGED
        residual[i] = 0.0
        a, b = instance_rows[i], instance_rows[i + 1]
        if a == b or tied[i]:
            continue
        ending[i] = EXHAUSTED
        for sweep in range(most_sweeps):
            worst = 0.0
            pause = SWEEPS_ALONE if sweep <= OFTEN * SWEEPS_ALONE else 3 * SWEEPS_ALONE
            if sweep > 0 and sweep % pause == 0 and newton_step(
                a, b, row_start, part, coefficient, bound, lower, upper, first, size, score, theta, normaliser
            ):  # fmt: skip
                seen[a:b] = -1
            for r in range(a, b):
                low, high = row_start[r], row_start[r + 1]
                if is_settled(seen[r], changed, first, low, high):
                    continue
                # so far the step of this row is none: its present dual variable is in the scores
                step = 0.0
                least, most = lower[r] - theta[r], upper[r] - theta[r]
                # the slope rises: where it is negative, the minimum lies to the right
                left, right, left_seen, right_seen = max(least, -FARTHEST), min(most, FARTHEST), False, False
                solved = False
                for turn in range(MOST_STEPS):
                    mean, variance = moments(score, part, coefficient, first, size, low, high, step)
                    gradient = bound[r] - mean
                    off = abs(min(max(step - gradient, least), most) - step) * scale[r]
                    if turn == 0:
                        worst = max(worst, off)
                    if off <= 0.1 * tolerance:
                        solved = True
                        break
                    if gradient < 0.0:
                        left, left_seen = step, True
                    else:
                        right, right_seen = step, True
                    moved = step - gradient / max(variance, 1e-12)
                    if moved <= left:  # too far: to the end, or halfway to where the slope is known
                        moved = 0.5 * (left + step) if left_seen else left
                    elif moved >= right:
                        moved = 0.5 * (right + step) if right_seen else right
                    if moved == step:
                        break
                    step = moved
                if step != 0.0:
                    theta[r] += step
                    clock += 1
                    for e in range(low, high):
                        score[part[e]] -= step * coefficient[e]
                        changed[first[e]] = clock
                    if abs(theta[r]) > limit:
                        ending[i] = UNBOUNDED
                seen[r] = clock if solved else -1
            sweeps[i] = sweep + 1
            residual[i] = worst
            if ending[i] == UNBOUNDED:
                break
            if worst <= tolerance:
                ending[i] = CONVERGED
                break
