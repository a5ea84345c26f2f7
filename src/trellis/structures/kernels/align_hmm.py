"""Sum-product on one sentence pair of the alignment HMM.

States are the places 0..I−1 of the generating words; a word of the other side that comes from no word ("null")
leaves the place where it is (Och & Ney 2003), so what is carried from word to word is an *anchor*: a place, or
"none yet" (index I). With g(a) = (1 − p₀) / Σ_{k=0..I} c(k − a), the place I standing for the end of the sentence:

    forward   r_t(i) = e_t(i) [ Σ_a α_t(a) g(a) c(i − a)  +  α_t(I) f(i) ]        a real link
              z_t(a) = n_t α_t(a)                                                 a null link, n_t = p₀ t(f_t | null)
              α_{t+1} = (r_t + z_t) / scale_t,            α_0 = "none yet"
    end       Z = Σ_a α_J(a) stop(a),                     stop(a) = c(I − a) g(a) / (1 − p₀)
    backward  β_t(a) = [ g(a) Σ_i c(i − a) w_t(i) + n_t β_{t+1}(a) ],   w_t(i) = e_t(i) β_{t+1}(i)

Jumps depend on the distance alone, so every product runs over a slice of one short array and no transition matrix
is ever formed; expected jumps are correlations of α·g and w, multiplied by c once at the end. Anchors whose share
of the mass is below ``negligible`` are not expanded (0: all are); later words can only revive what this
drops through another anchor.

Scaled probabilities do not suffice where a path becomes hopeless and is then the only one left, as happens at small γ.
Such pairs are told by scales below ``SMALLEST_SCALE`` or by β above ``LARGEST_BETA`` and done again in log
space (:mod:`align_log`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

SMALLEST_SCALE = 1e-100
LARGEST_BETA = 1e200


@njit(nogil=True, cache=True)
def spread(n_active, active, x, profile, middle, n, out):
    """out[i] += Σ_k x[a_k] profile[middle + i − a_k] over the active anchors, four at a time."""
    k = 0
    while k + 4 <= n_active:
        a0, a1, a2, a3 = active[k], active[k + 1], active[k + 2], active[k + 3]
        x0, x1, x2, x3 = x[a0], x[a1], x[a2], x[a3]
        p0 = profile[middle - a0 : middle - a0 + n]
        p1 = profile[middle - a1 : middle - a1 + n]
        p2 = profile[middle - a2 : middle - a2 + n]
        p3 = profile[middle - a3 : middle - a3 + n]
        for i in range(n):
            out[i] += x0 * p0[i] + x1 * p1[i] + x2 * p2[i] + x3 * p3[i]
        k += 4
    while k < n_active:
        a0 = active[k]
        x0 = x[a0]
        p0 = profile[middle - a0 : middle - a0 + n]
        for i in range(n):
            out[i] += x0 * p0[i]
        k += 1


@njit(nogil=True, cache=True)
def forward_backward(n_obs, n_places, emission, moves, work):
    """Posteriors of one direction of one pair; returns log Z, −∞ where scaled probabilities do not suffice.

    emission : (≥ J, ≥ I) e_t(i), work.emission or work.tilted. Written in ``work``, beside scratch space:
    link : (J, I) P(y_t = i);  null_link : (J,) P(y_t = null);  alpha and w, for the expected jumps
    occupancy : (I + 1,) expected number of real links, or the end, that leave from each anchor
    first_link : (I,) P(the first real link goes to place i)
    """
    null, leave, first, stop = work.null_emission, work.leave, work.first, work.stop
    alpha, scale, following, w, x, active = work.alpha, work.scale, work.following, work.w, work.x, work.active
    link, null_link, occupancy, first_link = work.link, work.null_link, work.occupancy, work.first_link
    jump, jump_reversed, negligible = moves.jump, moves.jump_reversed, moves.negligible
    middle = jump.shape[0] // 2
    log_sum = 0.0
    product = 1.0
    start = alpha[0]
    for i in range(n_places):
        start[i] = 0.0
    start[n_places] = 1.0
    for t in range(n_obs):
        a = alpha[t]
        following_a = alpha[t + 1]
        real = link[t]
        e = emission[t]
        none = a[n_places]
        for i in range(n_places):
            real[i] = none * first[i]
        n_active = 0
        for i in range(n_places):
            if a[i] > negligible:
                x[i] = a[i] * leave[i]
                active[n_active] = i
                n_active += 1
        spread(n_active, active, x, jump, middle, n_places, real)
        z = null[t]
        total = z * none
        for i in range(n_places):
            real[i] *= e[i]
            value = real[i] + z * a[i]
            following_a[i] = value
            total += value
        if not total > SMALLEST_SCALE:
            return -np.inf
        inverse = 1.0 / total
        for i in range(n_places):
            real[i] *= inverse
            following_a[i] *= inverse
        following_a[n_places] = z * none * inverse
        scale[t] = inverse
        product *= total
        if product < 1e-200 or product > 1e200:
            log_sum += np.log(product)
            product = 1.0
    last = alpha[n_obs]
    z_end = 0.0
    for i in range(n_places + 1):
        z_end += last[i] * stop[i]
    if not z_end > SMALLEST_SCALE:
        return -np.inf
    inverse = 1.0 / z_end
    for i in range(n_places + 1):
        following[i] = stop[i] * inverse
        work.final[i] = following[i]
        occupancy[i] = last[i] * following[i]
    for i in range(n_places):
        first_link[i] = 0.0
    for t in range(n_obs - 1, -1, -1):
        a, real, e, w_t = alpha[t], link[t], emission[t], w[t]
        inverse = scale[t]
        z = null[t] * inverse
        none = a[n_places]
        from_none = 0.0
        n_active = 0
        null_mass = z * none * following[n_places]
        for i in range(n_places):
            real[i] *= following[i]
            null_mass += z * a[i] * following[i]
            w_t[i] = e[i] * following[i] * inverse
            arrived = first[i] * w_t[i]
            from_none += arrived
            first_link[i] += none * arrived
            x[i] = 0.0
            if real[i] > negligible:
                active[n_active] = i
                n_active += 1
        null_link[t] = null_mass
        spread(n_active, active, w_t, jump_reversed, middle, n_places, x)
        largest = 0.0
        for i in range(n_places):
            left = x[i] * leave[i]
            occupancy[i] += a[i] * left
            following[i] = left + z * following[i]
            largest += following[i]
        # A sum, since a maximum would pass over a NaN.
        if not largest < LARGEST_BETA:
            return -np.inf
        occupancy[n_places] += none * from_none
        following[n_places] = from_none + z * following[n_places]
    return log_sum + np.log(product) + np.log(z_end)


@njit(nogil=True, cache=True)
def add_jumps(n_obs, n_places, negligible, weight, work, jumps_reversed):
    """jumps_reversed[L + a − i] += weight Σ_t α_t(a) g(a) w_t(i); times c(i − a) these are the expected jumps."""
    alpha, leave, w, link, x = work.alpha, work.leave, work.w, work.link, work.x
    middle = jumps_reversed.shape[0] // 2
    for t in range(1, n_obs):
        a = alpha[t]
        for i in range(n_places):
            x[i] = a[i] * leave[i]
        for i in range(n_places):
            if link[t, i] > negligible:
                share = weight * w[t, i]
                out = jumps_reversed[middle - i : middle - i + n_places]
                for k in range(n_places):
                    out[k] += share * x[k]
