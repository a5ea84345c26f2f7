"""Weights of the alignments in a bundle: the quadratic program of one proximal step (see ``align_bundle``).

Alignments are columns k with score c_k and a_k, what they use of each constraint. Over weights u that sum to one over
the columns of either direction, with g = Σ_k u_k a_k − b, maximise the concave

    Ψ(u) = Σ_k u_k c_k + min_{x ∈ X} { ‖x − x̂‖² / 2t − x·g },    x(u) = the point of X nearest to x̂ + t g
    ∂Ψ/∂u_k = c_k − x(u)·a_k

X is a box, so Ψ is piecewise quadratic with continuous slopes. As in Kiwiel 1986 an active set holds the columns that
may have weight: the best column of either direction enters, Newton's step is taken on the set (columns often depend on
each other linearly, so with a small ridge), by an exact line search and up to where a weight becomes zero, whose column
leaves. The coordinates of agreement have no bounds: of them only the inner products of columns are needed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.align_project import clipped

RIDGE = 1e-10
ROUNDING = 1e-13


@njit(nogil=True, cache=True)
def price(n, t, bundle, rows):
    """Fill excess, point and reduced for the weights of n columns; return (max reduced of 0, of 1, Σ_k u_k reduced_k).

    How much the two maxima exceed the sum bounds how far Ψ is from its largest value.
    """
    u, reduced = bundle.weight, bundle.reduced
    n_rows = rows.high.shape[0]
    for r in range(n_rows):
        rows.excess[r] = -rows.right[r]
    for k in range(n):
        reduced[k] = bundle.base[k]
    for other in range(n):
        if u[other] > 0.0:
            for k in range(n):
                reduced[k] -= t * u[other] * bundle.overlap[other, k]
            for r in range(n_rows):
                rows.excess[r] += u[other] * bundle.uses[other, r]
    for r in range(n_rows):
        rows.point[r] = clipped(rows.centre[r] + t * rows.excess[r], 0.0, rows.high[r])
    best0, best1, mean = -np.inf, -np.inf, 0.0
    for k in range(n):
        for r in range(n_rows):
            reduced[k] -= rows.point[r] * bundle.uses[k, r]
        if bundle.side[k] == 0:
            best0 = max(best0, reduced[k])
        else:
            best1 = max(best1, reduced[k])
        mean += u[k] * reduced[k]
    return best0, best1, mean


@njit(nogil=True, cache=True)
def factor_and_solve(m, matrix, x):
    """Solve matrix · result = x by Cholesky, the result in x; pivots that rounding made negative count as one."""
    for i in range(m):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i == j:
                matrix[i, i] = np.sqrt(total) if total > 0.0 else 1.0
            else:
                matrix[i, j] = total / matrix[j, j]
    for i in range(m):
        for k in range(i):
            x[i] -= matrix[i, k] * x[k]
        x[i] /= matrix[i, i]
    for i in range(m - 1, -1, -1):
        for k in range(i + 1, m):
            x[i] -= matrix[k, i] * x[k]
        x[i] /= matrix[i, i]


@njit(nogil=True, cache=True)
def newton_direction(n, t, bundle, rows):
    """Fill ``change`` with Newton's step on the active columns. Of each direction the heaviest column gives way."""
    side, u, active = bundle.side, bundle.weight, bundle.active
    n_rows = rows.high.shape[0]
    heaviest = np.full(2, -1)
    for k in range(n):
        bundle.change[k] = 0.0
        if active[k] and (heaviest[side[k]] < 0 or u[k] > u[heaviest[side[k]]]):
            heaviest[side[k]] = k
    members = np.empty(n, np.int64)
    m = 0
    for k in range(n):
        if active[k] and k != heaviest[side[k]]:
            members[m] = k
            m += 1
    if m == 0:
        return
    free = np.empty(n_rows, np.int64)
    n_free = 0
    for r in range(n_rows):
        if rows.high[r] > 0.0 and 0.0 <= rows.centre[r] + t * rows.excess[r] <= rows.high[r]:
            free[n_free] = r
            n_free += 1
    away = np.empty((m, n_free))
    matrix, x = np.empty((m, m)), np.empty(m)
    largest = 0.0
    for p in range(m):
        k = members[p]
        top = heaviest[side[k]]
        for f in range(n_free):
            away[p, f] = bundle.uses[k, free[f]] - bundle.uses[top, free[f]]
        for q in range(p + 1):
            other = members[q]
            peak = heaviest[side[other]]
            total = bundle.overlap[k, other] - bundle.overlap[k, peak] - bundle.overlap[top, other]
            total += bundle.overlap[top, peak]
            if side[k] == side[other]:
                for f in range(n_free):
                    total += away[p, f] * away[q, f]
            matrix[p, q] = t * total
        largest = max(largest, matrix[p, p])
        x[p] = bundle.reduced[k] - bundle.reduced[top]
    for p in range(m):
        matrix[p, p] += RIDGE * (largest + t)
    factor_and_solve(m, matrix, x)
    for p in range(m):
        k = members[p]
        bundle.change[k] = x[p]
        bundle.change[heaviest[side[k]]] -= x[p]


@njit(nogil=True, cache=True)
def best_length(n, t, longest, bundle, rows):
    """The maximiser of Ψ(u + length · change) within [0, longest]."""
    change = bundle.change
    n_rows = rows.high.shape[0]
    slope, curve = 0.0, 0.0
    for k in range(n):
        slope += change[k] * bundle.reduced[k]
        if change[k] != 0.0:
            for other in range(n):
                curve += t * change[k] * change[other] * bundle.overlap[k, other]
    curve = max(curve, 0.0)
    for r in range(n_rows):
        rows.change[r] = 0.0
    for k in range(n):
        if change[k] != 0.0:
            for r in range(n_rows):
                rows.change[r] += change[k] * bundle.uses[k, r]
    if slope <= 0.0:
        return 0.0
    if n_rows == 0:
        return longest if slope >= curve * longest else slope / curve
    # The slope falls piecewise linearly: Newton's steps on it, with bisection where one leaves what is known.
    left, right, length = 0.0, longest, longest
    for _ in range(100):
        here, bend = slope - length * curve, curve
        for r in range(n_rows):
            w = rows.change[r]
            if w != 0.0:
                far = rows.centre[r] + t * (rows.excess[r] + length * w)
                here -= (clipped(far, 0.0, rows.high[r]) - rows.point[r]) * w
                if 0.0 < far < rows.high[r]:
                    bend += t * w * w
        if here >= 0.0:
            left = length
        else:
            right = length
        if abs(here) <= ROUNDING * slope or left >= longest or right - left <= ROUNDING * right:
            break
        length = length + here / bend if bend > 0.0 else 0.5 * (left + right)
        if not left < length < right:
            length = 0.5 * (left + right)
    return length


@njit(nogil=True, cache=True)
def weigh(n, t, tolerance, bundle, rows):
    """Move the weights of n columns to where Ψ is largest, within ``tolerance``; return D̂(x) there."""
    u, active, change = bundle.weight, bundle.active, bundle.change
    for k in range(n):
        active[k] = u[k] > 0.0
    best0, best1, mean = price(n, t, bundle, rows)
    for _ in range(50 + 5 * n):
        if best0 + best1 - mean <= tolerance:
            break
        for k in range(n):
            if bundle.reduced[k] == (best0 if bundle.side[k] == 0 else best1):
                active[k] = True
        while True:
            newton_direction(n, t, bundle, rows)
            blocked = False
            for k in range(n):
                if active[k] and u[k] <= 0.0 and change[k] < 0.0:
                    active[k], blocked = False, True
            if not blocked:
                break
        longest = np.inf
        for k in range(n):
            if change[k] < 0.0:
                longest = min(longest, -u[k] / change[k])
        if longest == np.inf:
            break
        length = best_length(n, t, longest, bundle, rows)
        total0, total1 = 0.0, 0.0
        for k in range(n):
            if active[k]:
                u[k] += length * change[k]
                if u[k] <= 1e-15 or (length == longest and change[k] < 0.0 and u[k] <= 1e-12):
                    u[k] = 0.0
                    active[k] = False
                if bundle.side[k] == 0:
                    total0 += u[k]
                else:
                    total1 += u[k]
        for k in range(n):
            u[k] /= total0 if bundle.side[k] == 0 else total1
        best0, best1, mean = price(n, t, bundle, rows)
    estimate = best0 + best1
    for r in range(rows.high.shape[0]):
        estimate += rows.right[r] * rows.point[r]
    return estimate
