"""Sum-product on one sentence pair of the alignment HMM.

States are the places 0..I−1 of the generating words; a word of the other side that comes from no word ("null")
leaves the place where it is (Och & Ney 2003), so what is carried from word to word is an *anchor*: a place, or
"none yet" (index I). With g(a) = (1 − p₀) / Σ_{k=0..I} c(k − a), the place I standing for the end of the sentence:

    forward   r_t(i) = e_t(i) [ Σ_a α_t(a) g(a) c(i − a)  +  α_t(I) f(i) ]        a real link
              z_t(a) = n_t α_t(a)                                                 a null link, n_t = p₀ t(f_t | null)
              α_{t+1} = (r_t + z_t) / scale_t,            α_0 = "none yet"
    end       Z = Σ_a α_J(a) stop(a),                     stop(a) = c(I − a) g(a) / (1 − p₀)
    backward  β_t(a) = [ g(a) Σ_i c(i − a) w_t(i) + n_t β_{t+1}(a) ],   w_t(i) = e_t(i) β_{t+1}(i)

Here c(d) stands for c(d) r(d), with the factors r of short jumps from the word at the anchor. Expected jumps are
correlations of α·g and w, multiplied by c once at the end. Anchors whose share of the mass is below ``negligible`` are
not expanded (0: all are); later words can only revive what this drops through another anchor.

Scaled probabilities do not suffice where a path becomes hopeless and is then the only one left, as happens at small γ.
Such pairs are told by scales below ``SMALLEST_SCALE`` or by β above ``LARGEST_BETA`` and done again in log
space (:mod:`align_log`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.align_work import (
    ALPHA,
    ANY,
    ARRIVING,
    EXPECTED_NEAR,
    FACTOR,
    FINAL,
    FIRST,
    FIRST_LINK,
    FOLLOWING,
    JUMP,
    LEAVE,
    LEAVING,
    LINK,
    MOVE,
    MOVE_REVERSED,
    NONE,
    NULL,
    NULL_LINK,
    OCCUPANCY,
    SCALE,
    STOP,
    whole_vectors,
)
from trellis.structures.kernels.lanes import LANES, add, add_scaled, load, multiply, splat, store, total

SMALLEST_SCALE = 1e-100
LARGEST_BETA = 1e200


@njit(nogil=True, cache=True)
def forward_backward(n_obs, n_places, potentials, negligible, work):
    """Posteriors of one direction of one pair; returns log Z, −∞ where scaled probabilities do not suffice.

    potentials : EMISSION or TILTED, e_t(i). Written in ``work``, beside scratch space:
    LINK : (J, I) P(y_t = i);  NULL_LINK : (J,) P(y_t = null);  ALPHA, NONE and ARRIVING, for the expected jumps
    OCCUPANCY : (W + 1,) expected number of real links, or the end, that leave from each anchor
    FIRST_LINK : (I,) P(the first real link goes to place i)
    """
    matrices, places, moves, words, active = work.matrices, work.places, work.moves, work.words, work.active
    width, wide, row = matrices.shape[2], whole_vectors(n_places), places.shape[1]
    move, move_reversed = MOVE * moves.shape[1] * width, MOVE_REVERSED * moves.shape[1] * width
    size = matrices.shape[1] * width
    emission, link, alpha, arriving = potentials * size, LINK * size, ALPHA * size, ARRIVING * size
    leave, first, following, occupancy = LEAVE * row, FIRST * row, FOLLOWING * row, OCCUPANCY * row
    first_link, leaving, nothing, log_sum, product = FIRST_LINK * row, LEAVING * row, splat(0.0), 0.0, 1.0
    for i in range(wide):
        matrices[ALPHA, 0, i] = 0.0
    words[NONE, 0] = 1.0
    for t in range(n_obs):
        n_active = 0
        for i in range(n_places):
            share = matrices[ALPHA, t, i]
            places[ANY, n_active] = share * places[LEAVE, i]
            active[n_active] = move + i * width
            n_active += share > negligible
        z, none, at, sums = words[NULL, t], words[NONE, t], t * width, splat(0.0)
        for i in range(0, wide, 2 * LANES):
            # Two sums side by side: one alone would wait for itself. The second may belong to nobody.
            one = add_scaled(nothing, none, load(places, first + i))
            two = add_scaled(nothing, none, load(places, first + i + LANES))
            for k in range(n_active):
                share, profile = places[ANY, k], active[k] + i
                one = add_scaled(one, share, load(moves, profile))
                two = add_scaled(two, share, load(moves, profile + LANES))
            store(matrices, link + at + i, one)
            store(matrices, link + at + i + LANES, two)
        for i in range(0, wide, LANES):
            real = multiply(load(matrices, link + at + i), load(matrices, emission + at + i))
            value = add_scaled(real, z, load(matrices, alpha + at + i))
            store(matrices, link + at + i, real)
            store(matrices, alpha + at + width + i, value)
            sums = add(sums, value)
        mass = z * none + total(sums)
        if not mass > SMALLEST_SCALE:
            return -np.inf
        inverse = 1.0 / mass
        for i in range(at, at + wide, LANES):
            store(matrices, link + i, add_scaled(nothing, inverse, load(matrices, link + i)))
            k = alpha + width + i
            store(matrices, k, add_scaled(nothing, inverse, load(matrices, k)))
        words[NONE, t + 1] = z * none * inverse
        words[SCALE, t] = inverse
        product *= mass
        if product < 1e-200 or product > 1e200:
            log_sum += np.log(product)
            product = 1.0
    z_end = words[NONE, n_obs] * places[STOP, width]
    for i in range(n_places):
        z_end += matrices[ALPHA, n_obs, i] * places[STOP, i]
    if not z_end > SMALLEST_SCALE:
        return -np.inf
    inverse = 1.0 / z_end
    for i in range(wide):
        places[FINAL, i] = places[STOP, i] * inverse
        places[FOLLOWING, i] = places[FINAL, i]
        places[OCCUPANCY, i] = matrices[ALPHA, n_obs, i] * places[FINAL, i]
        places[FIRST_LINK, i] = 0.0
    from_none = places[STOP, width] * inverse
    places[FINAL, width] = from_none
    of_none = words[NONE, n_obs] * from_none
    for t in range(n_obs - 1, -1, -1):
        inverse, none, at = words[SCALE, t], words[NONE, t], t * width
        z = words[NULL, t] * inverse
        stayed, begun = splat(0.0), splat(0.0)
        for i in range(0, wide, LANES):
            later = load(places, following + i)
            store(matrices, link + at + i, multiply(load(matrices, link + at + i), later))
            stayed = add(stayed, multiply(load(matrices, alpha + at + i), later))
            w = add_scaled(nothing, inverse, multiply(load(matrices, emission + at + i), later))
            store(matrices, arriving + at + i, w)
            w = multiply(load(places, first + i), w)
            store(places, first_link + i, add_scaled(load(places, first_link + i), none, w))
            begun = add(begun, w)
        words[NULL_LINK, t] = z * (none * from_none + total(stayed))
        n_active = 0
        for i in range(n_places):
            places[ANY, n_active] = matrices[ARRIVING, t, i]
            active[n_active] = move_reversed + i * width
            n_active += matrices[LINK, t, i] > negligible
        sums = splat(0.0)
        for i in range(0, wide, 2 * LANES):
            one, two = nothing, nothing
            for k in range(n_active):
                share, profile = places[ANY, k], active[k] + i
                one = add_scaled(one, share, load(moves, profile))
                two = add_scaled(two, share, load(moves, profile + LANES))
            store(places, leaving + i, one)
            store(places, leaving + i + LANES, two)
        for i in range(0, wide, LANES):
            left = multiply(load(places, leaving + i), load(places, leave + i))
            gone = multiply(load(matrices, alpha + at + i), left)
            store(places, occupancy + i, add(load(places, occupancy + i), gone))
            later = add_scaled(left, z, load(places, following + i))
            store(places, following + i, later)
            sums = add(sums, later)
        # A sum, since a maximum would pass over a NaN.
        if not total(sums) < LARGEST_BETA:
            return -np.inf
        of_none += none * total(begun)
        from_none = total(begun) + z * from_none
    places[OCCUPANCY, width] = of_none
    return log_sum + np.log(product) + np.log(z_end)


@njit(nogil=True, cache=True)
def add_jumps(n_obs, n_places, weight, work, jumps_reversed):
    """jumps_reversed[L + a − i] += weight Σ_t α_t(a) g(a) r(i − a) w_t(i); times c(i − a) these are the expected jumps.

    jumps_reversed : (2 L + 1,) with slack (see :mod:`lanes`). Short jumps by anchor go into EXPECTED_NEAR.
    """
    matrices, places, near, middle = work.matrices, work.places, work.near, jumps_reversed.shape[0] // 2
    width, reach = matrices.shape[2], near.shape[1] // 2
    alpha, summed = ALPHA * matrices.shape[1] * width, ANY * places.shape[1]
    for i in range(n_places):
        for a in range(0, n_places, LANES):
            sums, other = splat(0.0), splat(0.0)
            for t in range(1, n_obs - 1, 2):
                k = alpha + t * width + a
                sums = add_scaled(sums, matrices[ARRIVING, t, i], load(matrices, k))
                other = add_scaled(other, matrices[ARRIVING, t + 1, i], load(matrices, k + width))
            if n_obs % 2 == 0:
                k = alpha + (n_obs - 1) * width + a
                sums = add_scaled(sums, matrices[ARRIVING, n_obs - 1, i], load(matrices, k))
            k = middle - i + a
            sums = multiply(add(sums, other), load(places, LEAVE * places.shape[1] + a))
            store(places, summed + a, sums)
            store(jumps_reversed, k, add_scaled(load(jumps_reversed, k), weight, sums))
        for a in range(max(0, i - reach), min(n_places, i + reach + 1)):
            k, factor = reach + i - a, near[FACTOR, reach + i - a, a]
            jumps_reversed[middle - i + a] += weight * places[ANY, a] * (factor - 1.0)
            near[EXPECTED_NEAR, k, a] = places[ANY, a] * factor * work.jumps[JUMP, width + i - a]
