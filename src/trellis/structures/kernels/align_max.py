"""Max-product on one sentence pair: its best alignment, and what an alignment adds to links and jumps."""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.align_work import HMM


@njit(nogil=True, cache=True)
def best_alignment(n_obs, n_places, log_emission, direction, work, path):
    """Fill path (J,) with the place of each word, −1 for null; return its log-score. Ties go to the smallest place.

    log_emission : (≥ J, ≥ I);  work.null_emission, leave, first, stop are probabilities, as for the sum
    """
    if direction.kind != HMM:
        place = np.log((1.0 - direction.p_null) / max(n_places, 1))
        total = 0.0
        for t in range(n_obs):
            best, arg = np.log(work.null_emission[t]), -1
            for i in range(n_places):
                if log_emission[t, i] + place > best:
                    best, arg = log_emission[t, i] + place, i
            path[t] = arg
            total += best
        return total
    jump = direction.jump
    middle = jump.shape[0] // 2
    log_jump = np.log(jump[middle - n_places : middle + n_places + 1])
    log_leave, log_first = np.log(work.leave[:n_places]), np.log(work.first[:n_places])
    back = np.empty((n_obs, n_places + 1), np.int32)
    delta = np.full(n_places + 1, -np.inf)
    left = np.empty(n_places)
    best_value = np.empty(n_places)
    best_from = np.empty(n_places, np.int32)
    delta[n_places] = 0.0
    for t in range(n_obs):
        null = np.log(work.null_emission[t])
        for i in range(n_places):
            left[i] = delta[i] + log_leave[i]
            best_value[i] = delta[n_places] + log_first[i]
            best_from[i] = n_places
        for a in range(n_places):
            if left[a] == -np.inf:
                continue
            profile = log_jump[n_places - a : 2 * n_places - a]
            for i in range(n_places):
                value = left[a] + profile[i]
                better = value > best_value[i]
                best_value[i] = value if better else best_value[i]
                best_from[i] = a if better else best_from[i]
        for i in range(n_places):
            value = best_value[i] + log_emission[t, i]
            stay = delta[i] + null
            back[t, i] = -1 if stay > value else best_from[i]
            delta[i] = stay if stay > value else value
        delta[n_places] += null
        back[t, n_places] = -1
    best, anchor = -np.inf, n_places
    for a in range(n_places + 1):
        value = delta[a] + np.log(work.stop[a])
        if value > best:
            best, anchor = value, a
    for t in range(n_obs - 1, -1, -1):
        if back[t, anchor] < 0:
            path[t] = -1
        else:
            path[t] = anchor
            anchor = back[t, anchor]
    return best


@njit(nogil=True, cache=True)
def add_path(n_obs, n_places, path, weight, direction, work, index, out):
    """Add weight times the links of a path to ``work``, and its jumps to the statistics of the shard."""
    middle = direction.jump.shape[0] // 2
    anchor = n_places
    sums = direction.jump_sums
    for t in range(n_obs + 1):
        if t < n_obs:
            i = path[t]
            if i < 0:
                work.null_link[t] += weight
                continue
            work.link[t, i] += weight
        else:
            i = n_places
        if direction.kind != HMM:
            continue
        if anchor == n_places:
            out.firsts[index, i] += weight
            share = weight / direction.first_sums[n_places + 1]
            out.first_weight[index, 0] += share
            out.first_weight[index, n_places + 1] -= share
        else:
            out.ends[index, middle + i - anchor] += weight
            share = weight / (sums[middle + n_places - anchor + 1] - sums[middle - anchor])
            out.jump_weight[index, middle - anchor] += share
            out.jump_weight[index, middle + n_places - anchor + 1] -= share
        anchor = i
