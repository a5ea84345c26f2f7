"""The k best projective trees: every item of :mod:`tree_log` holds a list of its k best, merged choice by choice."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from trellis.structures.kernels.tree_log import positions


@njit(nogil=True, cache=True)
def insert(value, k, a, b, values, made):
    """Put a way to make an item into its list, which falls and may be full."""
    last = len(values) - 1
    if value == -math.inf or value <= values[last]:
        return
    at = last
    while at > 0 and values[at - 1] < value:
        values[at] = values[at - 1]
        made[at] = made[at - 1]
        at -= 1
    values[at] = value
    made[at, 0], made[at, 1], made[at, 2] = k, a, b


@njit(nogil=True, cache=True)
def combine(added, k, one, other, values, made):
    """All pairs of two lists that may be among the best of an item."""
    size = len(values)
    for a in range(size):
        if one[a] == -math.inf:
            break
        for b in range(size):
            if (a + 1) * (b + 1) > size or other[b] == -math.inf:
                break
            insert(added + one[a] + other[b], k, a, b, values, made)


@njit(nogil=True, cache=True)
def best_trees(offsets, arc_offsets, score, nearest, single_root, heads, best):
    """heads : (k, n_words), −1 where there is no such tree;  best : (k, n_sentences), −∞ there."""
    size = len(heads)
    for s in range(len(offsets) - 1):
        n = offsets[s + 1] - offsets[s]
        if n == 0:
            best[0, s] = 0.0
            continue
        w, f, root = np.empty((n + 1, n + 1)), np.empty((n + 1, n + 1)), np.empty(n)
        m = positions(score, nearest, arc_offsets[s], n, single_root, w, f, root)
        arc, half = np.full((m, m, size), -math.inf), np.full((m, m, size), -math.inf)
        arc_made, half_made = np.zeros((m, m, size, 3), np.int64), np.zeros((m, m, size, 3), np.int64)
        for i in range(m):
            half[i, i, 0] = 0.0
        for d in range(1, m):
            for i in range(m - d):
                j = i + d
                for h, e in ((i, j), (j, i)):
                    for k in range(i, j):
                        is_nearest = k == i if h == i else k == j - 1
                        added = w[h, e] + (f[h, e] if is_nearest else 0.0)
                        combine(added, k, half[i, k], half[j, k + 1], arc[h, e], arc_made[h, e])
                for h, e in ((i, j), (j, i)):
                    for k in range(i, j + 1):
                        if k != h:
                            combine(0.0, k, arc[h, k], half[k, e], half[h, e], half_made[h, e])
        top, top_made = np.full(size, -math.inf), np.zeros((size, 3), np.int64)
        if single_root:
            for c in range(n):
                combine(root[c], c, half[c, 0], half[c, n - 1], top, top_made)
        else:
            top[:] = half[0, n]
            top_made[:, 1] = np.arange(size)
        stack = np.zeros((4 * n + 4, 4), np.int64)
        for rank in range(size):
            best[rank, s] = top[rank]
            if top[rank] == -math.inf:
                continue
            depth = 1
            c, a, b = top_made[rank, 0], top_made[rank, 1], top_made[rank, 2]
            if single_root:
                heads[rank, offsets[s] + c] = 0
                stack[0] = np.array([0, c, 0, a])
                stack[1] = np.array([0, c, n - 1, b])
                depth = 2
            else:
                stack[0] = np.array([0, 0, n, a])
            while depth > 0:
                depth -= 1
                is_arc, h, e, which = stack[depth]
                if h == e:
                    continue
                i, j = min(h, e), max(h, e)
                if is_arc:
                    heads[rank, offsets[s] + e - (m - n)] = h - (m - n) + 1
                    k, a, b = arc_made[h, e, which]
                    stack[depth] = np.array([0, i, k, a])
                    stack[depth + 1] = np.array([0, j, k + 1, b])
                else:
                    k, a, b = half_made[h, e, which]
                    stack[depth] = np.array([1, h, k, a])
                    stack[depth + 1] = np.array([0, k, e, b])
                depth += 2
