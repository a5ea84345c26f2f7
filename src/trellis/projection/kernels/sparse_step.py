"""One projected gradient step on l1/linf dual variables, key by key.

For every key w and label k, with the marginals q_t = q(y_t = k) of its slots at the current θ:

    θ ← argmin ‖θ' − (θ + α q)‖²   s.t. θ' ≥ 0,  Σ_t θ'_t ≤ σ/γ          α = speed / (max_t q_t/w_t + FLOOR)

The Hessian of a slot's log-partition w log Z(θ/w) is (diag(q) − q qᵀ)/w ≤ diag(q)/w, so a group whose marginals are all
small may take steps as long as they are small; one α a group leaves the projection Euclidean within the group. Where a
label is all but certain the bound is far from q(1 − q)/w, and steps are many.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FLOOR = 0.001
"""No group's step is longer than 1 / FLOOR times the marginals."""


@njit(nogil=True, cache=True)
def step_keys(theta, marginal, inverse, key_start, first, last, radius, speed, level, largest, sums):
    """Keys first..last−1, in place; ``marginal`` is used up.

    theta, marginal : (n_rows, K), rows of one key together;  inverse : (n_rows,) 1/w of their instances
    level : (n_keys, K) thresholds found, to start from
    largest : (n_keys, K) maxima of the marginals, written
    sums : (4,) gap of duality at θ before the step (added to), a bound of the natural residual
        ‖θ − P(θ + q)‖∞ there (maximum), Σ θ·q (added to), and by how much the step d lowers the dual if it bends no
        more than is taken for granted, Σ q·d − ‖d‖²/2α (added to)
    """
    k = theta.shape[1]
    highest, steepest, alpha, total, above, count, moved, gained = (
        np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    )  # fmt: skip
    tau, settled = np.empty(k), np.empty(k, np.bool_)
    for w in range(first, last):
        low, high = key_start[w], key_start[w + 1]
        if low == high:
            continue
        highest[:] = 0.0
        steepest[:] = 0.0
        total[:] = 0.0
        for j in range(low, high):
            for b in range(k):
                highest[b] = max(highest[b], marginal[j, b])
                steepest[b] = max(steepest[b], marginal[j, b] * inverse[j])
                total[b] += theta[j, b] * marginal[j, b]
        for b in range(k):
            largest[w, b] = highest[b]
            sums[0] += radius * highest[b] - total[b]
            sums[2] += total[b]
            alpha[b] = speed / (steepest[b] + FLOOR)
            total[b] = 0.0
            moved[b] = 0.0
            gained[b] = 0.0
        for j in range(low, high):
            for b in range(k):
                v = theta[j, b] + alpha[b] * marginal[j, b]
                marginal[j, b] = v
                total[b] += marginal[j, b]
        unsettled = 0
        for b in range(k):
            settled[b] = total[b] <= radius
            tau[b] = 0.0 if settled[b] else max(level[w, b], (total[b] - radius) / (high - low))
            unsettled += not settled[b]
        # Newton's method on Σ (v − τ)₊ = radius: convex, so from anywhere one step leads to the left of the root, and
        # from there on τ rises to it.
        n_steps = 0
        while unsettled > 0:
            above[:] = 0.0
            count[:] = 0.0
            for j in range(low, high):
                for b in range(k):
                    v = np.float64(marginal[j, b])
                    inside = v > tau[b]
                    above[b] += v if inside else 0.0
                    count[b] += 1.0 if inside else 0.0
            for b in range(k):
                if settled[b]:
                    continue
                if count[b] == 0.0:
                    higher = (total[b] - radius) / (high - low)
                    settled[b] = n_steps > 0
                else:
                    higher = (above[b] - radius) / count[b]
                    settled[b] = n_steps > 0 and not higher > tau[b]
                if not settled[b]:
                    tau[b] = higher
                else:
                    unsettled -= 1
            n_steps += 1
        for j in range(low, high):
            for b in range(k):
                new = max(marginal[j, b] - tau[b], 0.0)
                change = new - theta[j, b]
                moved[b] += change * change
                gained[b] += (marginal[j, b] - theta[j, b]) * change
                theta[j, b] = new
        for b in range(k):
            level[w, b] = tau[b]
            sums[3] += (gained[b] - 0.5 * moved[b]) / alpha[b]
            sums[1] = max(sums[1], np.sqrt(moved[b]) / min(1.0, alpha[b]))
