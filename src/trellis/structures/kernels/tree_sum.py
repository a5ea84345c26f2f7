"""Sum-product on projective dependency trees with scaled probabilities, several sentences side by side.

Items of Eisner's (1996) parse over positions 0..m−1; a head h stands at one end of its item, the other end is e:

    arc[h, e]      a span whose ends are joined by the arc h → e
    half[h, e]     h with all its dependents between h and e, the words up to e under it

With i < j and w the weights of arcs, f what an arc to the nearest dependent of a side is worth besides:

    arc[i, j]  = w[i, j] (f[i, j] half[j, i+1] + Σ_{i<k<j} half[i, k] half[j, k+1])
    arc[j, i]  = w[j, i] (f[j, i] half[i, j−1] + Σ_{i≤k<j−1} half[i, k] half[j, k+1])
    half[i, j] = Σ_{i<k≤j} arc[i, k] half[k, j],      half[j, i] = Σ_{i≤k<j} arc[j, k] half[k, i]

Marginals are the derivatives of log Z, found by the same sums backwards. The root is position 0, at the left of all
words, where there may be many roots; with a single root it stands outside, Z = Σ_c root[c] half[c, 0] half[c, m−1].

The innermost loop runs over LANES sentences of about the same length, one in each lane of the vector unit; a lane's
sums do not depend on its neighbours, so that results have the same bits in whatever company.

*When scaled probabilities are enough.* Weights of the arcs to a child are divided by their sum and multiplied by ρ,
with ρⁿ ≤ 1e140, so no item is above 1e140. What underflow takes away from items is below 1e-307 times what they are
multiplied with, so below 1e-167, and a sentence with Z > 1e-140 has lost less than a share of 1e-27 of its mass. Others
are flagged, and done again in log space (:mod:`tree_log`).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

LANES = 8
SMALLEST, LARGEST = 1e-140, 140.0
"""The least Z that is trusted, and the largest power of ten that ρⁿ may be."""
FARTHEST = 300.0
"""What nearest dependents are worth, in nats, before weights that are divided by it may vanish."""


@njit(nogil=True, cache=True)
def infer_trees(order, offsets, arc_offsets, score, nearest, single_root, marginal, near, log_partition):
    """Marginals of arcs, and of arcs to nearest dependents, and log-partitions (NaN: flagged).

    order : sentences, by length;  score : (n_arcs,) child by child, the diagonal is the root
    nearest, near : (n_arcs,), or empty where nothing is known of nearest dependents
    """
    longest = 0
    for s in order:
        longest = max(longest, offsets[s + 1] - offsets[s])
    size = longest + (0 if single_root else 1)
    work = np.zeros(8 * size * size * LANES)
    root, shift, total = np.zeros((size, LANES)), np.zeros(LANES), np.zeros(LANES)
    lengths, factor = np.zeros(LANES, np.int64), np.zeros(LANES)
    for first in range(0, len(order), LANES):
        last = min(first + LANES, len(order))
        n_most = 0
        for s in order[first:last]:
            n_most = max(n_most, offsets[s + 1] - offsets[s])
        if n_most == 0:
            for s in order[first:last]:
                log_partition[s] = 0.0
            continue
        m = n_most + (0 if single_root else 1)
        cells = work[: 8 * m * m * LANES].reshape(8, m, m, LANES)
        w, f, arc, half = cells[0], cells[1], cells[2], cells[3]
        arc_out, half_out, inner, ends = cells[4], cells[5], cells[6], cells[7]
        w[:] = 0.0
        f[:] = 1.0
        half_out[:] = 0.0
        root[:] = 0.0
        lengths[:] = 0
        shift[:] = 0.0
        for lane in range(last - first):
            s = order[first + lane]
            lengths[lane] = offsets[s + 1] - offsets[s]
            if lengths[lane] > 0:
                shift[lane] = load(score, nearest, arc_offsets[s], lengths[lane], single_root, lane, w, f, root)
        inside(m, w, f, arc, half)
        for lane in range(LANES):
            n = lengths[lane]
            total[lane] = 1.0
            factor[lane] = 0.0
            if n == 0:
                continue
            z = half[0, n, lane] if not single_root else 0.0
            if single_root:
                for c in range(n):
                    z += root[c, lane] * half[c, 0, lane] * half[c, n - 1, lane]
            total[lane] = z
            if not (z > SMALLEST and z < math.inf):
                continue
            factor[lane] = 1.0 / z
            if not single_root:
                half_out[0, n, lane] = factor[lane]
                continue
            for c in range(n):
                r = root[c, lane] * factor[lane]
                half_out[c, 0, lane] += r * half[c, n - 1, lane]
                half_out[c, n - 1, lane] += r * half[c, 0, lane]
        outside(m, w, f, arc, half, arc_out, half_out, inner, ends)
        for lane in range(last - first):
            s, n = order[first + lane], lengths[lane]
            if n == 0:
                log_partition[s] = 0.0
                continue
            if factor[lane] == 0.0 or math.isnan(shift[lane]):
                log_partition[s] = np.nan
                continue
            log_partition[s] = math.log(total[lane]) + shift[lane]
            store(n, single_root, lane, w, f, arc, half, arc_out, root, factor[lane], arc_offsets[s], marginal, near)


@njit(nogil=True, cache=True)
def load(score, nearest, first, n, single_root, lane, w, f, root):
    """Weights of a sentence into its lane; returns the logarithm of what they were divided by."""
    rho = min(math.sqrt(max(n / 6.75, 1.0)), 10.0 ** (LARGEST / n))
    by_side, s = len(nearest) > 0, 0 if single_root else 1
    shift = 0.0
    for c in range(n):
        at = first + c * n
        top = -math.inf
        for h in range(n):
            x = score[at + h]
            if by_side and h != c:
                x += max(nearest[at + h], 0.0)
            top = max(top, x)
        if top == -math.inf:
            continue
        total = 0.0
        for h in range(n):
            x = math.exp(score[at + h] - top)
            if h == c:
                total += x
                if single_root:
                    root[c, lane] = x
                else:
                    w[0, c + 1, lane] = x
                continue
            w[h + s, c + s, lane] = x
            if by_side:
                if nearest[at + h] > FARTHEST:
                    return math.nan
                f[h + s, c + s, lane] = math.exp(nearest[at + h])
                total += x * max(f[h + s, c + s, lane], 1.0)
            else:
                total += x
        scale = rho / total
        for h in range(n + s):
            w[h, c + s, lane] *= scale
        root[c, lane] *= scale
        shift += top - math.log(scale)
    return shift


@njit(nogil=True, cache=True, error_model="numpy")
def inside(m, w, f, arc, half):
    """Items from the narrow to the wide."""
    mid, right, left = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    for i in range(m):
        for x in range(LANES):
            half[i, i, x] = 1.0
    for d in range(1, m):
        for i in range(m - d):
            j = i + d
            if d == 1:
                for x in range(LANES):
                    arc[i, j, x] = w[i, j, x] * f[i, j, x]
                    arc[j, i, x] = w[j, i, x] * f[j, i, x]
            else:
                for x in range(LANES):
                    mid[x] = 0.0
                for k in range(i + 1, j - 1):
                    for x in range(LANES):
                        mid[x] += half[i, k, x] * half[j, k + 1, x]
                for x in range(LANES):
                    low, high = half[j, i + 1, x], half[i, j - 1, x]
                    arc[i, j, x] = w[i, j, x] * (mid[x] + high + f[i, j, x] * low)
                    arc[j, i, x] = w[j, i, x] * (mid[x] + low + f[j, i, x] * high)
            for x in range(LANES):
                right[x] = arc[i, j, x]
                left[x] = arc[j, i, x]
            for k in range(i + 1, j):
                for x in range(LANES):
                    right[x] += arc[i, k, x] * half[k, j, x]
                    left[x] += arc[j, k, x] * half[k, i, x]
            for x in range(LANES):
                half[i, j, x] = right[x]
                half[j, i, x] = left[x]


@njit(nogil=True, cache=True, error_model="numpy")
def outside(m, w, f, arc, half, arc_out, half_out, inner, ends):
    """Derivatives of log Z by items, from the wide to the narrow; ``half_out`` begins with those of the widest."""
    right, left = np.zeros(LANES), np.zeros(LANES)
    for d in range(m - 1, 0, -1):
        for i in range(m - d):
            j = i + d
            for x in range(LANES):
                right[x] = half_out[i, j, x]
                left[x] = half_out[j, i, x]
            if j + 1 < m:
                for x in range(LANES):
                    right[x] += ends[j + 1, i, x]
                for k in range(j + 2, m):
                    for x in range(LANES):
                        right[x] += inner[i, k, x] * half[k, j + 1, x]
                for k in range(j + 1, m):
                    for x in range(LANES):
                        left[x] += half_out[k, i, x] * arc[k, j, x]
            if i > 0:
                for x in range(LANES):
                    left[x] += ends[i - 1, j, x]
                for k in range(i - 1):
                    for x in range(LANES):
                        left[x] += inner[k, j, x] * half[k, i - 1, x]
                for k in range(i):
                    for x in range(LANES):
                        right[x] += half_out[k, j, x] * arc[k, i, x]
            for x in range(LANES):
                half_out[i, j, x] = right[x]
                half_out[j, i, x] = left[x]
            for k in range(j + 1, m):
                for x in range(LANES):
                    right[x] += half_out[i, k, x] * half[j, k, x]
            for k in range(i):
                for x in range(LANES):
                    left[x] += half_out[j, k, x] * half[i, k, x]
            for x in range(LANES):
                arc_out[i, j, x] = right[x]
                arc_out[j, i, x] = left[x]
                p, q = w[i, j, x] * right[x], w[j, i, x] * left[x]
                inner[i, j, x] = p + q
                ends[i, j, x] = f[i, j, x] * p + q
                ends[j, i, x] = p + f[j, i, x] * q


@njit(nogil=True, cache=True)
def store(n, single_root, lane, w, f, arc, half, arc_out, root, factor, first, marginal, near):
    """Marginals of a lane to where its sentence stands."""
    s = 0 if single_root else 1
    for c in range(n):
        for h in range(n):
            at, a, b = first + c * n + h, h + s, c + s
            if h == c:
                if single_root:
                    marginal[at] = root[c, lane] * half[c, 0, lane] * half[c, n - 1, lane] * factor
                else:
                    marginal[at] = arc[0, b, lane] * arc_out[0, b, lane]
                continue
            marginal[at] = arc[a, b, lane] * arc_out[a, b, lane]
            if len(near):
                beside = 1.0
                if b > a + 1:
                    beside = half[b, a + 1, lane]
                elif b < a - 1:
                    beside = half[b, a - 1, lane]
                near[at] = w[a, b, lane] * f[a, b, lane] * beside * arc_out[a, b, lane]
