"""Posteriors and expected jumps of a run of sentence pairs in one direction.

Model 1 and scores of words alone:  P(y_t = i) = e_t(i) / Z_t,  P(y_t = null) = n_t / Z_t,  Z_t = n_t + Σ_i e_t(i).
The HMM: :mod:`align_hmm`, and :mod:`align_log` where scaled probabilities do not suffice. A kernel that is given
``logs=None`` is compiled without log space, and answers log Z = NaN for pairs that need it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from trellis.structures.kernels.align_gather import gather, gather_logs, norm_of_jumps
from trellis.structures.kernels.align_hmm import add_jumps, forward_backward
from trellis.structures.kernels.align_log import forward_backward_log
from trellis.structures.kernels.align_work import (
    ALPHA,
    EMISSION,
    EXPECTED,
    EXPECTED_NEAR,
    FINAL,
    FIRST_LINK,
    HMM,
    IN_LOGS,
    LINK,
    NONE,
    NULL,
    NULL_LINK,
    OCCUPANCY,
    TILTED,
    Moves,
    shape_of,
    whole_vectors,
    work_for,
)
from trellis.structures.kernels.lanes import LANES, add, add_scaled, load, splat, store, total, with_slack


class Found(NamedTuple):
    """What inference leaves; the last eight are of the HMM, and count a pair as often as its weight says."""

    link: np.ndarray  # (n_links,)
    null: np.ndarray  # (n_observed,)
    log_partition: np.ndarray  # (n_pairs,) NaN where log space is needed
    jumps: np.ndarray  # (2 L + 1,) with slack: correlations, reversed; times c(d), raised, the expected jumps
    ends: np.ndarray  # (2 L + 1,) expected jumps to the end of the sentence, and those that need no factor
    jump_weight: np.ndarray  # (2 L + 2,) differences of Σ occupancy / Σ c r over the jumps possible there
    near: np.ndarray  # (K, 2 R + 1) expected short jumps by the factors of the word at the anchor
    near_weight: np.ndarray  # (K, 2 R + 1) Σ occupancy / Σ c r
    firsts: np.ndarray  # (L + 1,) expected first places
    first_weight: np.ndarray  # (L + 2,)
    log_norm: np.ndarray  # (1,) expected Σ log of the normalisers of jumps and first places, and of 1 − p₀ and p₀


def new_found(n_links: int, n_observed: int, n_pairs: int, moves: Moves, dtype: type) -> Found:
    """Zeros for a run of pairs."""
    span = len(moves.jump) // 2
    return Found(
        np.zeros(n_links, dtype),
        np.zeros(n_observed, dtype),
        np.zeros(n_pairs),
        with_slack((2 * span + 1,), zeros=True),
        np.zeros(2 * span + 1),
        np.zeros(2 * span + 2),
        np.zeros(moves.factors.shape),
        np.zeros(moves.factors.shape),
        np.zeros(span + 1),
        np.zeros(span + 2),
        np.zeros(1),
    )


@njit(nogil=True, cache=True)
def infer_pairs(chosen, direction, weights, logs, out):
    """Posteriors of the chosen pairs (n,) into ``out``; logs : None, or True to go over to log space at need."""
    words, moves = direction.words, direction.moves
    work = work_for(direction, chosen)
    for s in chosen:
        shape = shape_of(s, direction.pairs, direction.forward)
        n_obs, n_places = shape.n_obs, shape.n_places
        if n_obs == 0 or n_places == 0:
            hand_out_empty(s, shape, words, out)
            continue
        lost = gather(shape, words, moves, work)
        if logs is None:
            log_z = posteriors(shape, EMISSION, words.rows, moves, None, work)
        else:
            # Everything anew: logarithms of what has underflowed come too late.
            gather_logs(shape, words, moves, work)
            lost = 0.0
            log_z = forward_backward_log(shape, work.matrices[TILTED], work.words[NULL], words.rows, moves, work)
        out.log_partition[s] = log_z + lost
        if log_z > -np.inf:
            hand_out(shape, work, out)
            if moves.kind == HMM:
                collect_places(n_obs, n_places, moves, weights[s], work, out)


@njit(nogil=True, cache=True, forceinline=True)
def posteriors(shape, potentials, rows, moves, logs, work):
    """Posteriors of one pair; log Z, or NaN if log space is needed; potentials : EMISSION or TILTED."""
    n_obs, n_places = shape.n_obs, shape.n_places
    if moves.kind != HMM:
        return posteriors_alone(n_obs, n_places, potentials, work)
    work.words[IN_LOGS, 0] = 0.0
    log_z = forward_backward(n_obs, n_places, potentials, moves.negligible, work)
    if log_z > -np.inf:
        return log_z
    if logs is None:
        return np.nan
    else:  # the compiler leaves out this branch, and all that it calls, where logs is None
        e, null = np.log(work.matrices[potentials]), np.log(work.words[NULL])
        return forward_backward_log(shape, e, null, rows, moves, work)


@njit(nogil=True, cache=True)
def posteriors_alone(n_obs, n_places, potentials, work):
    """Fill LINK (J, I) and NULL_LINK (J,); returns Σ_t log Z_t, −∞ if a word has no possible origin."""
    matrices, words, log_sum, product, nothing = work.matrices, work.words, 0.0, 1.0, splat(0.0)
    width, wide, size = matrices.shape[2], whole_vectors(n_places), matrices.shape[1] * matrices.shape[2]
    for t in range(n_obs):
        e, link, sums = potentials * size + t * width, LINK * size + t * width, splat(0.0)
        for i in range(0, wide, LANES):
            sums = add(sums, load(matrices, e + i))
        mass = words[NULL, t] + total(sums)
        if not mass > 0.0:
            return -np.inf
        inverse = 1.0 / mass
        for i in range(0, wide, LANES):
            store(matrices, link + i, add_scaled(nothing, inverse, load(matrices, e + i)))
        words[NULL_LINK, t] = words[NULL, t] * inverse
        product *= mass
        if product < 1e-200 or product > 1e200:
            log_sum += np.log(product)
            product = 1.0
    return log_sum + np.log(product)


@njit(nogil=True, cache=True)
def hand_out(shape, work, out):
    """Put the posteriors of a pair into those of the run."""
    link, null = out.link, out.null
    for t in range(shape.n_obs):
        at = shape.link + t * shape.step
        for i in range(shape.n_places):
            link[at + i * shape.place_step] = work.matrices[LINK, t, i]
        null[shape.observed + t] = work.words[NULL_LINK, t]


@njit(nogil=True, cache=True)
def hand_out_empty(s, shape, words, out):
    """A pair with an empty side has one alignment, without links; where scores come from tables it has score 0."""
    total = 0.0
    for t in range(shape.observed, shape.observed + shape.n_obs):
        out.null[t] = 1.0
        if words.null.shape[0]:
            total += words.null[t]
    out.log_partition[s] = total


@njit(nogil=True, cache=True)
def collect_places(n_obs, n_places, moves, weight, work, out):
    """Add the pair's expected jumps, ends and first places, and the weights of the M-step's denominators."""
    middle, places, width, near = moves.jump.shape[0] // 2, work.places, work.places.shape[1] - 1, work.near
    reach = near.shape[1] // 2
    if work.words[IN_LOGS, 0] > 0.0:
        for d in range(-n_places, n_places + 1):
            out.ends[middle + d] += weight * work.jumps[EXPECTED, width + d]
    else:
        add_jumps(n_obs, n_places, weight, work, out.jumps)
    n_null = 0.0
    for t in range(n_obs):
        n_null += work.words[NULL_LINK, t]
    log_norm = n_null * np.log(moves.p_null) + (n_obs - n_null) * np.log(1.0 - moves.p_null)
    for a in range(n_places):
        end, row = weight * (work.matrices[ALPHA, n_obs, a] * places[FINAL, a]), work.rows[a]
        out.ends[middle + n_places - a] += end
        total = norm_of_jumps(a, n_places, row, moves)
        share = weight * (places[OCCUPANCY, a] / total)
        out.jump_weight[middle - a] += share
        out.jump_weight[middle + n_places - a + 1] -= share
        for d in range(max(-reach, -a), min(reach, n_places - a) + 1):
            expected = weight * near[EXPECTED_NEAR, reach + d, a] if d < n_places - a else end
            out.near[row, reach + d] += expected
            out.near_weight[row, reach + d] += share
        log_norm -= places[OCCUPANCY, a] * np.log(total)
    for i in range(n_places):
        out.firsts[i] += weight * places[FIRST_LINK, i]
    out.firsts[n_places] += weight * (work.words[NONE, n_obs] * places[FINAL, width])
    total = moves.first_sums[n_places + 1]
    share = weight * (places[OCCUPANCY, width] / total)
    out.first_weight[0] += share
    out.first_weight[n_places + 1] -= share
    out.log_norm[0] += weight * (log_norm - places[OCCUPANCY, width] * np.log(total))
