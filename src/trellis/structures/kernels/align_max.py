"""Max-product on sentence pairs: best alignments, scores of given ones, and the jumps of an average of them."""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels import align_work
from trellis.structures.kernels.align_gather import gather_logs, log_places, norm_of_jumps
from trellis.structures.kernels.align_work import (
    HMM,
    TILTED,
    shape_of,
    work_for,
)

NULL = -1


@njit(nogil=True, cache=True)
def best_pairs(direction, best, score):
    """The place of each observed word in the best alignment of its pair, and the score of each pair.

    Ties go to the smallest place, and to null before it where words do not look at each other.
    """
    work = work_for(direction, np.arange(score.shape[0]))
    for s in range(score.shape[0]):
        shape = shape_of(s, direction.pairs, direction.forward)
        n_obs, n_places, o = shape.n_obs, shape.n_places, shape.observed
        if n_obs == 0 or n_places == 0:
            best[o : o + n_obs] = NULL
            score[s] = direction.words.null[o : o + n_obs].sum()
            continue
        gather_logs(shape, direction.words, direction.moves, work)
        if direction.moves.kind == HMM:
            score[s] = best_alignment(shape, direction.words.rows, direction.moves, work, best[o : o + n_obs])
        else:
            score[s] = best_alone(n_obs, n_places, work, best[o : o + n_obs])


@njit(nogil=True, cache=True)
def best_alone(n_obs, n_places, work, path):
    """The best place of each word by itself; returns the sum of their scores."""
    total = 0.0
    for t in range(n_obs):
        best, path[t] = work.words[align_work.NULL, t], NULL
        for i in range(n_places):
            if work.matrices[TILTED, t, i] > best:
                best, path[t] = work.matrices[TILTED, t, i], i
        total += best
    return total


@njit(nogil=True, cache=True)
def best_alignment(shape, rows, moves, work, path):
    """The best alignment of an HMM from the log-scores in TILTED and NULL; returns its score."""
    n_obs, n_places = shape.n_obs, shape.n_places
    log_move, log_first, log_stop = log_places(shape, rows, moves)
    back = np.empty((n_obs, n_places + 1), np.int32)
    delta = np.full(n_places + 1, -np.inf)
    best_value = np.empty(n_places)
    best_from = np.empty(n_places, np.int32)
    delta[n_places] = 0.0
    for t in range(n_obs):
        null = work.words[align_work.NULL, t]
        for i in range(n_places):
            best_value[i] = delta[n_places] + log_first[i]
            best_from[i] = n_places
        for a in range(n_places):
            if delta[a] == -np.inf:
                continue
            for i in range(n_places):
                value = delta[a] + log_move[a, i]
                better = value > best_value[i]
                best_value[i] = value if better else best_value[i]
                best_from[i] = a if better else best_from[i]
        for i in range(n_places):
            value = best_value[i] + work.matrices[TILTED, t, i]
            stay = delta[i] + null
            back[t, i] = NULL if stay > value else best_from[i]
            delta[i] = stay if stay > value else value
        delta[n_places] += null
        back[t, n_places] = NULL
    best, anchor = -np.inf, n_places
    for a in range(n_places + 1):
        value = delta[a] + log_stop[a]
        if value > best:
            best, anchor = value, a
    for t in range(n_obs - 1, -1, -1):
        if back[t, anchor] < 0:
            path[t] = NULL
        else:
            path[t] = anchor
            anchor = back[t, anchor]
    return best


@njit(nogil=True, cache=True)
def score_pairs(direction, path, score):
    """score (n_pairs,) of given alignments; path : the place of each observed word, −1 for null."""
    work = work_for(direction, np.arange(score.shape[0]))
    for s in range(score.shape[0]):
        shape = shape_of(s, direction.pairs, direction.forward)
        n_obs, n_places, o = shape.n_obs, shape.n_places, shape.observed
        if n_obs == 0 or n_places == 0:
            score[s] = direction.words.null[o : o + n_obs].sum()
            continue
        gather_logs(shape, direction.words, direction.moves, work)
        log_move, log_first, log_stop = np.zeros((1, 1)), np.zeros(1), np.zeros(n_places + 1)
        if direction.moves.kind == HMM:
            log_move, log_first, log_stop = log_places(shape, direction.words.rows, direction.moves)
        anchor, total = n_places, 0.0
        for t in range(n_obs):
            i = path[o + t]
            if i == NULL:
                total += work.words[align_work.NULL, t]
                continue
            total += work.matrices[TILTED, t, i]
            if direction.moves.kind == HMM:
                total += log_first[i] if anchor == n_places else log_move[anchor, i]
            anchor = i
        score[s] = total + log_stop[anchor]


@njit(nogil=True, cache=True)
def add_paths(direction, instance, start, path, share, weights, out):
    """Add share[k] times the links of path start[k] .. start[k + 1] − 1, which is one of pair instance[k], to ``out``.

    Its jumps count as often as the weight of the pair says.
    """
    moves, rows = direction.moves, direction.words.rows
    middle, reach = moves.jump.shape[0] // 2, moves.factors.shape[1] // 2
    for k in range(instance.shape[0]):
        s = instance[k]
        shape = shape_of(s, direction.pairs, direction.forward)
        n_obs, n_places, weight = shape.n_obs, shape.n_places, share[k] * weights[s]
        is_hmm = moves.kind == HMM and n_obs > 0 and n_places > 0
        anchor, log_norm = n_places, 0.0
        for t in range(n_obs + 1):
            i = path[start[k] + t] if t < n_obs else n_places
            if i == NULL:
                out.null[shape.observed + t] += share[k]
                log_norm += np.log(moves.p_null)
                continue
            if t < n_obs:
                out.link[shape.link + t * shape.step + i * shape.place_step] += share[k]
                log_norm += np.log(1.0 - moves.p_null)
            if not is_hmm:
                continue
            if anchor == n_places:
                total = moves.first_sums[n_places + 1]
                out.firsts[i] += weight
                out.first_weight[0] += weight / total
                out.first_weight[n_places + 1] -= weight / total
            else:
                row = rows[shape.place + anchor] if rows.shape[0] else 0
                total = norm_of_jumps(anchor, n_places, row, moves)
                if abs(i - anchor) <= reach:
                    out.near[row, reach + i - anchor] += weight
                for d in range(max(-reach, -anchor), min(reach, n_places - anchor) + 1):
                    out.near_weight[row, reach + d] += weight / total
                out.ends[middle + i - anchor] += weight
                out.jump_weight[middle - anchor] += weight / total
                out.jump_weight[middle + n_places - anchor + 1] -= weight / total
            log_norm -= np.log(total)
            anchor = i
        if is_hmm:
            out.log_norm[0] += weight * log_norm
