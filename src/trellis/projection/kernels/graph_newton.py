"""A Newton step for all rows of an instance over independent variables that are not at their bounds.

    θ_A ← clip(θ_A − (H + μ diag H)⁻¹ (b − E[c])_A)        H_rs = Σ_v Cov_v(c_r, c_s)

A: rows inside their bounds, or at one that the slope points away from (Bertsekas 1982); μ is raised until the dual
falls (Marquardt 1963). For instances where one dual variable at a time crawls, since many rows share a variable.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.projection.kernels.solver import solve_positive

FARTHEST = 12.0
"""A move of one dual variable in one go: larger ones, in flat corners, would have to be undone by others."""
MOST_FREE = 100
"""Rows with which the matrix is still cheaper than sweeps."""
RIDGES = (1e-8, 1e-6, 1e-4, 1e-2)
"""μ: rows may say the same thing twice."""


@njit(nogil=True, cache=True)
def log_sum(score, start, stop):
    """log Σ exp of the scores of a variable's labels."""
    top = -np.inf
    for p in range(start, stop):
        top = max(top, score[p])
    total = 0.0
    for p in range(start, stop):
        total += np.exp(score[p] - top) if score[p] > -np.inf else 0.0
    return top + np.log(total)


@njit(nogil=True, cache=True)
def newton_step(
    a, b, row_start, part, coefficient, bound, lower, upper, first, size, score, theta, normaliser
):  # fmt: skip
    """Move the rows a to b − 1 together where that lowers the dual; ``normaliser`` : (n_parts,) is overwritten.

    Returns whether it did; ``score`` and ``theta`` are then the new ones.
    """
    low, high = row_start[a], row_start[b]
    chance, mean = np.empty(high - low), np.zeros(b - a)
    for e in range(low, high):
        normaliser[first[e]] = np.nan
    here = 0.0
    for r in range(a, b):
        here += bound[r] * theta[r]
        for e in range(row_start[r], row_start[r + 1]):
            v = first[e]
            if np.isnan(normaliser[v]):
                normaliser[v] = log_sum(score, v, v + size[e])
                here += normaliser[v]
            chance[e - low] = np.exp(score[part[e]] - normaliser[v])
            mean[r - a] += coefficient[e] * chance[e - low]
    free, n = np.empty(b - a, np.int64), 0
    for r in range(a, b):
        slope = bound[r] - mean[r - a]
        if (theta[r] > lower[r] or slope < 0.0) and (theta[r] < upper[r] or slope > 0.0):
            free[n] = r
            n += 1
    if n == 0 or n > MOST_FREE:
        return False
    matrix, move = np.zeros((n, n)), np.empty(n)
    for i in range(n):
        r = free[i]
        move[i] = mean[r - a] - bound[r]
        for j in range(i + 1):
            s, total = free[j], 0.0
            for e in range(row_start[r], row_start[r + 1]):
                for f in range(row_start[s], row_start[s + 1]):
                    if first[e] == first[f]:
                        together = chance[e - low] if part[e] == part[f] else 0.0
                        total += coefficient[e] * coefficient[f] * (together - chance[e - low] * chance[f - low])
            matrix[i, j] = total
            matrix[j, i] = total
    before, softened, step = theta[a:b].copy(), np.empty((n, n)), np.empty(n)
    for ridge in RIDGES:
        softened[:] = matrix
        step[:] = move
        for i in range(n):
            softened[i, i] *= 1.0 + ridge
        solve_positive(softened, step)
        for i in range(n):
            r = free[i]
            moved = before[r - a] + min(max(step[i], -FARTHEST), FARTHEST)
            moved = min(max(moved, lower[r]), upper[r])
            shift(r, moved, row_start, part, coefficient, score, theta)
        if dual_value(a, b, row_start, bound, first, size, score, theta, normaliser) <= here:
            return True
    for i in range(n):
        shift(free[i], before[free[i] - a], row_start, part, coefficient, score, theta)
    return False


@njit(nogil=True, cache=True)
def shift(r, value, row_start, part, coefficient, score, theta):
    """Set a dual variable, the scores with it."""
    step = value - theta[r]
    theta[r] = value
    for e in range(row_start[r], row_start[r + 1]):
        score[part[e]] -= step * coefficient[e]


@njit(nogil=True, cache=True)
def dual_value(a, b, row_start, bound, first, size, score, theta, normaliser):
    """Σ_v log Z_v + b · θ over the variables that the rows a to b − 1 name."""
    for e in range(row_start[a], row_start[b]):
        normaliser[first[e]] = np.nan
    total = 0.0
    for r in range(a, b):
        total += bound[r] * theta[r]
        for e in range(row_start[r], row_start[r + 1]):
            if np.isnan(normaliser[first[e]]):
                normaliser[first[e]] = log_sum(score, first[e], first[e] + size[e])
                total += normaliser[first[e]]
    return total
