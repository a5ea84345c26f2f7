"""Sum-product on one sentence pair of the alignment HMM in log space: slow, and sure for every finite score.

The recursions of :mod:`align_hmm`, with logarithms of all its quantities; compiled only where it is needed. Expected
jumps are summed edge by edge into EXPECTED, since their factors may leave the range of doubles one by one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.align_gather import log_places
from trellis.structures.kernels.align_work import (
    ALPHA,
    EXPECTED,
    EXPECTED_NEAR,
    FINAL,
    FIRST_LINK,
    IN_LOGS,
    LINK,
    NONE,
    NULL_LINK,
    OCCUPANCY,
)


@njit(nogil=True, cache=True)
def log_add(x, y):
    """log(exp x + exp y)."""
    if x < y:
        x, y = y, x
    if x == -np.inf:
        return x
    return x + np.log1p(np.exp(y - x))


@njit(nogil=True, cache=True)
def forward_backward_log(shape, e, null, rows, moves, work):
    """As ``align_hmm.forward_backward``, written to the same arrays; −∞ only if there is no possible alignment.

    e : (≥ J, ≥ I), null : (≥ J,) log-scores
    """
    n_obs, n_places = shape.n_obs, shape.n_places
    n_anchors = n_places + 1
    move, first, stop = log_places(shape, rows, moves)
    alpha = np.full((n_obs + 1, n_anchors), -np.inf)
    real = np.empty((n_obs, n_places))
    alpha[0, n_places] = 0.0
    for t in range(n_obs):
        for i in range(n_places):
            total = alpha[t, n_places] + first[i]
            for a in range(n_places):
                total = log_add(total, alpha[t, a] + move[a, i])
            real[t, i] = total + e[t, i]
            alpha[t + 1, i] = log_add(real[t, i], alpha[t, i] + null[t])
        alpha[t + 1, n_places] = alpha[t, n_places] + null[t]
    log_z = -np.inf
    for a in range(n_anchors):
        log_z = log_add(log_z, alpha[n_obs, a] + stop[a])
    words, places, width = work.words, work.places, work.places.shape[1] - 1
    words[IN_LOGS, 0] = 1.0
    if log_z == -np.inf:
        return log_z
    beta = stop - log_z
    before = np.empty(n_anchors)
    # collect_places multiplies alpha by final: their product is what counts
    places[FINAL] = 1.0
    occupancy = np.exp(alpha[n_obs] + beta)
    work.matrices[ALPHA, n_obs, :n_places] = occupancy[:n_places]
    words[NONE, n_obs] = occupancy[n_places]
    places[FIRST_LINK, :n_places] = 0.0
    work.jumps[EXPECTED] = 0.0
    work.near[EXPECTED_NEAR] = 0.0
    reach = work.near.shape[1] // 2
    for t in range(n_obs - 1, -1, -1):
        null_mass = 0.0
        for a in range(n_anchors):
            null_mass += np.exp(alpha[t, a] + null[t] + beta[a])
            before[a] = null[t] + beta[a]
        words[NULL_LINK, t] = null_mass
        for i in range(n_places):
            w = e[t, i] + beta[i]
            work.matrices[LINK, t, i] = np.exp(real[t, i] + beta[i])
            if w == -np.inf:
                continue
            for a in range(n_places):
                step = move[a, i] + w
                before[a] = log_add(before[a], step)
                share = np.exp(alpha[t, a] + step)
                work.jumps[EXPECTED, width + i - a] += share
                if abs(i - a) <= reach:
                    work.near[EXPECTED_NEAR, reach + i - a, a] += share
                occupancy[a] += share
            before[n_places] = log_add(before[n_places], first[i] + w)
            share = np.exp(alpha[t, n_places] + first[i] + w)
            places[FIRST_LINK, i] += share
            occupancy[n_places] += share
        beta[:] = before
    places[OCCUPANCY, :n_places] = occupancy[:n_places]
    places[OCCUPANCY, width] = occupancy[n_places]
    return log_z
