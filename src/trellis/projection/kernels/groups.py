"""The part of the dual that does not look at the model: one convex function g of each norm group.

    minimise  f(θ) + Σ_groups g(θ_group),      f(θ) = b·θ + log Z(θ),   ∇f = b − E_q[φ]          (θ = λ / γ)

    hard      g = 0                       slack ε    g = ε ‖θ‖_*
    penalty   g = [‖θ‖_* ≤ σ]             squared    g = ‖θ‖₂² / (2σ)
    kl        g = −σ log(1 − θ/σ) − θ     of a row whose target is 1

each with θ ≥ 0 on inequality rows. The proximal operator of an absolutely symmetric function restricted to θ ≥ 0 is
that of the function at max(v, 0), so one routine serves both kinds of rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

HARD, SLACK, PENALTY, SQUARED, KL = 0, 1, 2, 3, 5
L1, L2, LINF = 1, 2, 3


@njit(nogil=True, cache=True, fastmath={"reassoc", "nnan", "nsz"})
def soft_level(v, radius):
    """The τ ≥ 0 with Σ max(|v| − τ, 0) = radius, or 0 if Σ |v| ≤ radius (Michelot's algorithm).

    Sums may be taken in any order, which lets several terms be added at a time.
    """
    n, total = v.shape[0], 0.0
    for i in range(n):
        total += abs(v[i])
    if total <= radius:
        return 0.0
    level = (total - radius) / n
    for _ in range(n):  # each pass leaves out at least one
        above, count = 0.0, 0.0
        for i in range(n):
            size = abs(v[i])
            above += size if size > level else 0.0
            count += 1.0 if size > level else 0.0
        if count == 0.0 or (above - radius) / count <= level:
            break
        level = (above - radius) / count
    return level


@njit(nogil=True, cache=True)
def shrink(v, level):
    """v ← sign(v) max(|v| − level, 0)."""
    if level > 0.0:
        for i in range(v.shape[0]):
            v[i] = max(v[i] - level, 0.0) + min(v[i] + level, 0.0)


@njit(nogil=True, cache=True)
def prox_divergence(v, step, amount):
    """The root below σ of  step θ / (σ − θ) + θ = v,  that is of  θ² − (σ + v + step) θ + v σ = 0."""
    total, apart = amount + v + step, v - amount + step
    root = np.sqrt(apart * apart + 4.0 * amount * step)
    theta = 2.0 * v * amount / (total + root) if total > 0.0 else 0.5 * (total - root)
    return min(theta, amount * (1.0 - 1e-12))


@njit(nogil=True, cache=True)
def prox_group(v, equality, step, kind, norm, amount):
    """v ← argmin_θ  step · g(θ) + ½ ‖θ − v‖²."""
    for i in range(v.shape[0]):
        v[i] = v[i] if equality[i] else max(v[i], 0.0)
    if kind == HARD:
        return
    if kind == SQUARED:
        v /= 1.0 + step / amount
        return
    if kind == SLACK:
        radius = step * amount
        if norm == L1:
            level = soft_level(v, radius)
            for i in range(v.shape[0]):
                v[i] = min(max(v[i], -level), level)
        elif norm == LINF:
            shrink(v, radius)
        else:
            length = np.sqrt(np.sum(v * v))
            v *= max(0.0, 1.0 - radius / length) if length > 0.0 else 0.0
        return
    if kind == KL:
        for i in range(v.shape[0]):
            v[i] = prox_divergence(v[i], step, amount)
    elif norm == L1:
        for i in range(v.shape[0]):
            v[i] = min(max(v[i], -amount), amount)
    elif norm == LINF:
        shrink(v, soft_level(v, amount))
    else:
        length = np.sqrt(np.sum(v * v))
        if length > amount:
            v *= amount / length


@njit(nogil=True, cache=True)
def value_group(v, kind, norm, amount):
    """g(v) of a point where it is finite."""
    if kind == SQUARED:
        return np.sum(v * v) / (2.0 * amount)
    if kind == KL:
        total = 0.0
        for x in v:
            total += -amount * np.log(1.0 - x / amount) - x if x < amount else np.inf
        return total
    if kind != SLACK:
        return 0.0
    if norm == L2:
        return amount * np.sqrt(np.sum(v * v))
    total, largest = 0.0, 0.0
    for x in v:
        total += abs(x)
        largest = max(largest, abs(x))
    return amount * (largest if norm == L1 else total)


@njit(nogil=True, cache=True)
def prox_all(v, equality, group_start, kind, norm, amount, step):
    """The proximal step of every group; the rows of group j are group_start[j] .. group_start[j + 1] − 1."""
    for j in range(kind.shape[0]):
        low, high = group_start[j], group_start[j + 1]
        prox_group(v[low:high], equality[low:high], step, kind[j], norm[j], amount[j])


@njit(nogil=True, cache=True)
def value_all(v, group_start, kind, norm, amount):
    """Σ g over all groups."""
    total = 0.0
    for j in range(kind.shape[0]):
        total += value_group(v[group_start[j] : group_start[j + 1]], kind[j], norm[j], amount[j])
    return total


@njit(nogil=True, cache=True)
def natural_residual(x, gradient, scale, equality, group_start, kind, norm, amount, work):
    """max scale · |x − prox(x − ∇f(x))|: zero exactly at a solution; with rows of scale 1 in units of expectations."""
    n = x.shape[0]
    for i in range(n):
        work[i] = x[i] - gradient[i]
    prox_all(work[:n], equality, group_start, kind, norm, amount, 1.0)
    largest = 0.0
    for i in range(n):
        largest = max(largest, scale[i] * abs(x[i] - work[i]))
    return largest
