"""Max-product on one sentence pair, and the projection at γ = 0: Lagrangian relaxation with averaged primal.

At γ = 0 a posterior is a best alignment. With the constraints' dual variables fixed, each direction is decoded by
itself; a subgradient step η_k (counts − bound) moves the dual variables (Samdani et al. 2012, Alg. 3 at γ = 0), and the
average of the alignments met on the way tends to a solution of the linear program (LP-EM).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.align_project import AGREEMENT, BIJECTIVE, HINT_LIMIT, HINTS, clipped
from trellis.structures.kernels.align_work import HMM

FIRST_STEP = 2.0


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
def log_tilted(n_source, n_target, constraints, duals, hinted, first, second):
    """work.tilted = log emission plus the dual variables, in both directions."""
    lam, rows = duals
    for i in range(n_source):
        for j in range(n_target):
            a = np.log(first.emission[j, i]) - lam[i, j] - rows[0, i]
            b = np.log(second.emission[i, j]) + lam[i, j] - rows[1, j]
            if constraints & HINTS and hinted[i, j]:
                a += rows[2, j]
                b += rows[3, i]
            first.tilted[j, i] = a
            second.tilted[i, j] = b


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


@njit(nogil=True, cache=True)
def relax(
    n_source, n_target, constraints, reliability, max_evaluations, duals, hinted, directions, first, second, out,
):  # fmt: skip
    """Average of the best alignments under moving dual variables, left in link and null_link of both directions.

    Returns (least dual value met, score₁, score₂ of the last alignments, violation of the average, evaluations).
    """
    lam, rows = duals
    for t in range(n_target):
        first.null_link[t] = 0.0
        first.link[t, :n_source] = 0.0
    for t in range(n_source):
        second.null_link[t] = 0.0
        second.link[t, :n_target] = 0.0
    path1, path2 = np.empty(n_target, np.int32), np.empty(n_source, np.int32)
    paths1, paths2 = np.empty((max_evaluations, n_target), np.int32), np.empty((max_evaluations, n_source), np.int32)
    least, s1, s2 = np.inf, 0.0, 0.0
    n = 0
    rounds = max_evaluations if constraints else 1
    while n < rounds:
        log_tilted(n_source, n_target, constraints, duals, hinted, first, second)
        s1 = best_alignment(n_target, n_source, first.tilted, directions[0], first, path1)
        s2 = best_alignment(n_source, n_target, second.tilted, directions[1], second, path2)
        constant = rows[0, :n_source].sum() + rows[1, :n_target].sum()
        constant -= reliability * (rows[2, :n_target].sum() + rows[3, :n_source].sum())
        least = min(least, s1 + s2 + constant)
        paths1[n] = path1
        paths2[n] = path2
        n += 1
        size = FIRST_STEP / n
        moved = 0.0
        c1, c2 = np.zeros(n_source), np.zeros(n_target)
        h1, h2 = np.zeros(n_target), np.zeros(n_source)
        for j in range(n_target):
            i = path1[j]
            if i >= 0:
                c1[i] += 1.0
                h1[j] += hinted[i, j]
                if constraints & AGREEMENT and path2[i] != j:
                    lam[i, j] += size
                    moved = 1.0
        for i in range(n_source):
            j = path2[i]
            if j >= 0:
                c2[j] += 1.0
                h2[i] += hinted[i, j]
                if constraints & AGREEMENT and path1[j] != i:
                    lam[i, j] -= size
                    moved = 1.0
        if constraints & BIJECTIVE:
            for i in range(n_source):
                rows[0, i] = max(rows[0, i] + size * (c1[i] - 1.0), 0.0)
                moved = max(moved, c1[i] - 1.0)
            for j in range(n_target):
                rows[1, j] = max(rows[1, j] + size * (c2[j] - 1.0), 0.0)
                moved = max(moved, c2[j] - 1.0)
        if constraints & HINTS:
            for j in range(n_target):
                if hinted[:n_source, j].sum():
                    rows[2, j] = clipped(rows[2, j] + size * (reliability - h1[j]), 0.0, HINT_LIMIT)
                    moved = max(moved, reliability - h1[j])
            for i in range(n_source):
                if hinted[i, :n_target].sum():
                    rows[3, i] = clipped(rows[3, i] + size * (reliability - h2[i]), 0.0, HINT_LIMIT)
                    moved = max(moved, reliability - h2[i])
        if moved <= 0.0:
            # The alignments obey every constraint, so they are optimal: the average is put on them alone.
            paths1[0] = path1
            paths2[0] = path2
            add_path(n_target, n_source, paths1[0], 1.0, directions[0], first, 0, out)
            add_path(n_source, n_target, paths2[0], 1.0, directions[1], second, 1, out)
            return least, s1, s2, 0.0, n
    for k in range(n):
        add_path(n_target, n_source, paths1[k], 1.0 / n, directions[0], first, 0, out)
        add_path(n_source, n_target, paths2[k], 1.0 / n, directions[1], second, 1, out)
    worst = 0.0
    if constraints & AGREEMENT:
        for i in range(n_source):
            for j in range(n_target):
                worst = max(worst, abs(first.link[j, i] - second.link[i, j]))
    if constraints & BIJECTIVE:
        for i in range(n_source):
            worst = max(worst, first.link[:n_target, i].sum() - 1.0)
        for j in range(n_target):
            worst = max(worst, second.link[:n_source, j].sum() - 1.0)
    return least, s1, s2, worst, n
