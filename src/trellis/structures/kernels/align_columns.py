"""The bundle of one sentence pair: alignments of either direction, and what each uses of the constraints.

An alignment k of direction 1 uses a_k = (its links; its fertilities; minus its hinted links), one of direction 2 the
same with its links negated, so that Σ_k u_k a_k over weights of both directions is (q₁ − q₂; fertilities; −hinted
links).
Agreement has I · J coordinates, but the method needs only inner products over them, which are counts of common links.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from trellis.structures.kernels.align_project import AGREEMENT, BIJECTIVE, HINT_LIMIT, HINTS


class Bundle(NamedTuple):
    """Columns, at most C of them; R constraints with bounds on their dual variables."""

    side: np.ndarray  # (C,) 0 or 1: direction
    path: np.ndarray  # (C, max(I, J)) the alignment
    score: np.ndarray  # (C,) c_k, log-score under the model
    overlap: np.ndarray  # (C, C) a_k·a_l over agreement
    uses: np.ndarray  # (C, R) a_k over the constraints with bounds
    weight: np.ndarray  # (C,) u_k
    base: np.ndarray  # (C,) c_k − λ̂·a_k
    reduced: np.ndarray  # (C,) c_k − x·a_k
    change: np.ndarray  # (C,) direction in which the weights move
    active: np.ndarray  # (C,) whether the weight may be positive


class Bounded(NamedTuple):
    """Constraints with bounds on their dual variables, arrays (R,): μ₁ (I), μ₂ (J), η₁ (J), η₂ (I); or R = 0.

    Those of a kind that is not asked for have high = 0.
    """

    high: np.ndarray  # 0 ≤ x ≤ high
    right: np.ndarray  # b
    centre: np.ndarray  # x̂
    point: np.ndarray  # x
    excess: np.ndarray  # Σ_k u_k a_k − b
    change: np.ndarray  # Σ_k change_k a_k


@njit(nogil=True, cache=True)
def new_bundle(capacity, longest, n_bounded):
    """Space for columns of paths up to the given length; not filled, since few pairs need much of it."""
    return Bundle(
        np.empty(capacity, np.int64),
        np.empty((capacity, longest), np.int32),
        np.empty(capacity),
        np.empty((capacity, capacity)),
        np.empty((capacity, n_bounded)),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity, np.bool_),
    )


@njit(nogil=True, cache=True)
def new_bounded(n_source, n_target, constraints, reliability, hinted):
    """Bounds and right sides; all dual variables zero."""
    half = n_source + n_target
    n_bounded = 2 * half if constraints & (BIJECTIVE | HINTS) else 0
    high, right = np.zeros(n_bounded), np.zeros(n_bounded)
    if constraints & BIJECTIVE:
        for r in range(half):
            high[r] = np.inf
            right[r] = 1.0
    if constraints & HINTS:
        for i in range(n_source):
            for j in range(n_target):
                if hinted[i, j]:
                    for r in (half + j, half + n_target + i):
                        high[r] = HINT_LIMIT
                        right[r] = -reliability
    return Bounded(high, right, np.zeros(n_bounded), np.zeros(n_bounded), np.zeros(n_bounded), np.zeros(n_bounded))


@njit(nogil=True, cache=True)
def is_known(n, side, path, bundle):
    """Whether the alignment is among the n columns."""
    for k in range(n):
        if bundle.side[k] == side:
            t = 0
            while t < path.shape[0] and bundle.path[k, t] == path[t]:
                t += 1
            if t == path.shape[0]:
                return True
    return False


@njit(nogil=True, cache=True)
def add_column(n, side, path, n_source, n_target, constraints, hinted, bundle):
    """Make an alignment column n, with weight 0; its scores are left to the caller."""
    bundle.side[n] = side
    bundle.weight[n] = 0.0
    bundle.uses[n, :] = 0.0
    half = n_source + n_target
    fertility, hints = (0, half) if side == 0 else (n_source, half + n_target)
    for t in range(path.shape[0]):
        i = path[t]
        bundle.path[n, t] = i
        if i < 0:
            continue
        if constraints & BIJECTIVE:
            bundle.uses[n, fertility + i] += 1.0
        if constraints & HINTS and (hinted[i, t] if side == 0 else hinted[t, i]):
            bundle.uses[n, hints + t] -= 1.0
    for k in range(n + 1):
        common = 0
        for t in range(path.shape[0]):
            i = path[t]
            if i < 0 or not constraints & AGREEMENT:
                continue
            if bundle.side[k] == side:
                common += bundle.path[k, t] == i
            else:
                common -= bundle.path[k, i] == t
        bundle.overlap[n, k] = common
        bundle.overlap[k, n] = common


@njit(nogil=True, cache=True)
def drop_columns(n, most, bundle):
    """Drop the columns without weight, and while there are more than ``most`` the lightest; return how many are left.

    The method converges as long as the columns that have weight in the last proximal step stay (Kiwiel 1985); the
    lightest go only where so many have weight that memory would not be bounded.
    """
    size = np.zeros(2, np.int64)
    for k in range(n):
        if bundle.weight[k] > 0.0:
            size[bundle.side[k]] += 1
    while size[0] + size[1] > most:
        lightest = -1
        for k in range(n):
            u = bundle.weight[k]
            if u > 0.0 and size[bundle.side[k]] > 1 and (lightest < 0 or u < bundle.weight[lightest]):
                lightest = k
        if lightest < 0:
            break
        side, rest = bundle.side[lightest], 1.0 - bundle.weight[lightest]
        bundle.weight[lightest] = 0.0
        size[side] -= 1
        for k in range(n):
            if bundle.side[k] == side:
                bundle.weight[k] /= rest
    left = 0
    for k in range(n):
        if bundle.weight[k] > 0.0:
            if k > left:
                for t in range(bundle.path.shape[1]):
                    bundle.path[left, t] = bundle.path[k, t]
                for r in range(bundle.uses.shape[1]):
                    bundle.uses[left, r] = bundle.uses[k, r]
                bundle.side[left] = bundle.side[k]
                bundle.score[left] = bundle.score[k]
                bundle.weight[left] = bundle.weight[k]
                bundle.base[left] = bundle.base[k]
                for other in range(n):
                    bundle.overlap[left, other] = bundle.overlap[k, other]
                for other in range(n):
                    bundle.overlap[other, left] = bundle.overlap[other, k]
            left += 1
    return left


@njit(nogil=True, cache=True)
def agreement_price(k, n_source, n_target, lam, bundle):
    """λ·a_k, what the multipliers of agreement (I, J) take from the score of column k."""
    total = 0.0
    if bundle.side[k] == 0:
        for j in range(n_target):
            if bundle.path[k, j] >= 0:
                total += lam[bundle.path[k, j], j]
    else:
        for i in range(n_source):
            if bundle.path[k, i] >= 0:
                total -= lam[i, bundle.path[k, i]]
    return total


@njit(nogil=True, cache=True)
def disagreement(n, n_source, n_target, bundle, difference):
    """difference (I, J) = q₁ − q₂ of the weighted columns."""
    for i in range(n_source):
        for j in range(n_target):
            difference[i, j] = 0.0
    for k in range(n):
        u = bundle.weight[k]
        if u <= 0.0:
            continue
        if bundle.side[k] == 0:
            for j in range(n_target):
                if bundle.path[k, j] >= 0:
                    difference[bundle.path[k, j], j] += u
        else:
            for i in range(n_source):
                if bundle.path[k, i] >= 0:
                    difference[i, bundle.path[k, i]] -= u
