"""A limited-memory model of a Hessian, for problems with too many rows for a matrix.

    B = D + Σ_p (y_p y_pᵀ / s_p·y_p − B_p s_p (B_p s_p)ᵀ / s_p·B_p s_p)           (BFGS; Nocedal and Wright 2006, 6.19)

D is diagonal and B_p is the model before pair p = (step s, change of gradient y). Only the last pairs are kept, so a
product or a solution costs a multiple of the number of rows. The model is one array of ``MODEL_ROWS`` vectors: D, the
steps, the changes, and the vectors that are added and subtracted.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MOST_PAIRS = 8
STEPS, CHANGES, ADDED, TAKEN = 1, 1 + MOST_PAIRS, 1 + 2 * MOST_PAIRS, 1 + 3 * MOST_PAIRS
MODEL_ROWS = 1 + 4 * MOST_PAIRS
MOST_HOLDS = 12
"""Times that rows are moved to their bounds and the others solved for again."""


@njit(nogil=True, cache=True)
def multiply(model, n_pairs, v, out):
    """out = B v."""
    n = v.shape[0]
    for r in range(n):
        out[r] = model[0, r] * v[r]
    for p in range(n_pairs):
        added, taken = model[ADDED + p], model[TAKEN + p]
        more, less = 0.0, 0.0
        for r in range(n):
            more += added[r] * v[r]
            less += taken[r] * v[r]
        for r in range(n):
            out[r] += more * added[r] - less * taken[r]


@njit(nogil=True, cache=True)
def add_pair(model, n_pairs, s, y, work):
    """Take up a step and the change of gradient along it; returns the number of pairs kept.

    Where the gradient changes too little to measure the curvature along a long step, it is taken to be a quarter of
    what was thought, so that the next step goes farther.
    """
    multiply(model, n_pairs, s, work)
    sy, ss, sbs = 0.0, 0.0, 0.0
    for r in range(s.shape[0]):
        sy += s[r] * y[r]
        ss += s[r] * s[r]
        sbs += s[r] * work[r]
    if not sbs > 0.0:
        return n_pairs
    measured = sy > 1e-14 * ss and sy > 1e-6 * sbs
    if not measured and ss < 0.01:
        return n_pairs
    if n_pairs == MOST_PAIRS:
        for p in range(1, MOST_PAIRS):
            model[STEPS + p - 1] = model[STEPS + p]
            model[CHANGES + p - 1] = model[CHANGES + p]
        n_pairs = rebuild(model, MOST_PAIRS - 1, work)
        multiply(model, n_pairs, s, work)
    for r in range(s.shape[0]):
        model[STEPS + n_pairs, r] = s[r]
        model[CHANGES + n_pairs, r] = y[r] if measured else 0.25 * work[r]
    return take_up(model, n_pairs, work)


@njit(nogil=True, cache=True)
def rebuild(model, n_pairs, work):
    """Work out the vectors of all pairs again, after D or the oldest pair has changed; returns how many serve."""
    kept = 0
    for p in range(n_pairs):
        if p != kept:
            model[STEPS + kept] = model[STEPS + p]
            model[CHANGES + kept] = model[CHANGES + p]
        multiply(model, kept, model[STEPS + kept], work)
        kept = take_up(model, kept, work)
    return kept


@njit(nogil=True, cache=True)
def take_up(model, p, bs):
    """The vectors of pair p, the last, from B s of the model before it; returns the number of pairs."""
    s, y = model[STEPS + p], model[CHANGES + p]
    sy, sbs = 0.0, 0.0
    for r in range(s.shape[0]):
        sy += s[r] * y[r]
        sbs += s[r] * bs[r]
    if not (sy > 0.0 and sbs > 0.0):
        return p
    more, less = 1.0 / np.sqrt(sy), 1.0 / np.sqrt(sbs)
    for r in range(s.shape[0]):
        model[ADDED + p, r] = more * y[r]
        model[TAKEN + p, r] = less * bs[r]
    return p + 1


@njit(nogil=True, cache=True)
def minimise(model, n_pairs, x, slope, curvature, low, high, trial, work):
    """Put into ``trial`` about the minimiser of slope·d + ½ dᵀ(B + curvature) d over low ≤ x + d ≤ high.

    Rows at a bound that the slope points beyond stay; the others are solved for. Those that would leave their bounds
    are put there, and the rest is solved for again.
    """
    n = x.shape[0]
    free, n_free = np.empty(n, np.int64), 0
    for r in range(n):
        trial[r] = x[r]
        if not ((x[r] <= low[r] and slope[r] > 0.0) or (x[r] >= high[r] and slope[r] < 0.0)):
            free[n_free] = r
            n_free += 1
    right, move = np.empty(n), np.zeros(n)
    for turn in range(MOST_HOLDS):
        if n_free == 0:
            return
        if turn == 0:
            work[:n] = 0.0
        else:
            multiply(model, n_pairs, move, work)
        for i in range(n_free):
            right[i] = -slope[free[i]] - work[free[i]]
        solve_free(model, n_pairs, curvature, free[:n_free], right)
        kept = 0
        for i in range(n_free):
            r = free[i]
            target = x[r] + right[i]
            trial[r] = min(max(target, low[r]), high[r])
            if target == trial[r]:
                free[kept] = r
                kept += 1
            else:
                move[r] = trial[r] - x[r]
        if kept == n_free:
            return
        n_free = kept


@njit(nogil=True, cache=True)
def solve_free(model, n_pairs, curvature, free, right):
    """right ← (B + curvature)⁻¹ right over the rows ``free``, by the Sherman-Morrison-Woodbury formula."""
    m = 2 * n_pairs
    small, short = np.zeros((m, m)), np.zeros(m)
    vectors = np.empty((m, free.shape[0]))
    for i in range(free.shape[0]):
        r = free[i]
        inverse = 1.0 / (model[0, r] + curvature[r])
        for p in range(n_pairs):
            vectors[p, i] = model[ADDED + p, r] * inverse
            vectors[n_pairs + p, i] = model[TAKEN + p, r] * inverse
        right[i] *= inverse
    for a in range(m):
        source = model[ADDED + a] if a < n_pairs else model[TAKEN + a - n_pairs]
        total = 0.0
        for i in range(free.shape[0]):
            total += source[free[i]] * right[i]
        short[a] = total
        for b in range(a + 1):
            total = 0.0
            for i in range(free.shape[0]):
                total += source[free[i]] * vectors[b, i]
            small[a, b] = total
            small[b, a] = total
        small[a, a] += 1.0 if a < n_pairs else -1.0
    solve_small(small, short)
    for a in range(m):
        for i in range(free.shape[0]):
            right[i] -= short[a] * vectors[a, i]


@njit(nogil=True, cache=True)
def solve_small(matrix, right):
    """right ← matrix⁻¹ right by elimination with the largest pivot of each column."""
    n = right.shape[0]
    for c in range(n):
        top = c
        for r in range(c + 1, n):
            if abs(matrix[r, c]) > abs(matrix[top, c]):
                top = r
        if matrix[top, c] == 0.0:
            right[:] = np.nan  # no descent: the caller goes on without these pairs
            return
        if top != c:
            for k in range(n):
                matrix[c, k], matrix[top, k] = matrix[top, k], matrix[c, k]
            right[c], right[top] = right[top], right[c]
        for r in range(c + 1, n):
            factor = matrix[r, c] / matrix[c, c]
            if factor != 0.0:
                for k in range(c, n):
                    matrix[r, k] -= factor * matrix[c, k]
                right[r] -= factor * right[c]
    for c in range(n - 1, -1, -1):
        total = right[c]
        for k in range(c + 1, n):
            total -= matrix[c, k] * right[k]
        right[c] = total / matrix[c, c]
