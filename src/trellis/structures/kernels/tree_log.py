"""Projective trees in log space: items summed or maximised, their outside, and trees drawn or picked from them.

The items are those of :mod:`tree_sum`. A chart of maxima and one of sums differ in one step only, so the same recursion
makes both, and one walk down a chart picks a best tree, draws one, or draws one of the best.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

BEST, DRAWN, DRAWN_BEST = 0, 1, 2
"""How a tree is read off a chart: the first of the best choices; a choice by its share; a best choice by its trees."""


@njit(nogil=True, cache=True)
def positions(score, nearest, first, n, single_root, w, f, root):
    """Scores of one sentence by position: w[h, c] and f[h, c] (m, m), root (n,); returns m."""
    s = 0 if single_root else 1
    m = n + s
    for a in range(m):
        for b in range(m):
            w[a, b] = -math.inf
            f[a, b] = 0.0
    for c in range(n):
        for h in range(n):
            at = first + c * n + h
            if h == c:
                root[c] = score[at]
                if s:
                    w[0, c + 1] = score[at]
            else:
                w[h + s, c + s] = score[at]
                if len(nearest):
                    f[h + s, c + s] = nearest[at]
    return m


@njit(nogil=True, cache=True)
def total_of(values, n, summed):
    """log Σ exp of the first n values, or their maximum."""
    top = -math.inf
    for k in range(n):
        top = max(top, values[k])
    if not summed or top == -math.inf:
        return top
    total = 0.0
    for k in range(n):
        total += math.exp(values[k] - top)
    return top + math.log(total)


@njit(nogil=True, cache=True)
def shares(values, n):
    """The first n values become shares of their sum: exactly that, however large they are; returns n."""
    top, total = -math.inf, 0.0
    for k in range(n):
        top = max(top, values[k])
    for k in range(n):
        values[k] = math.exp(values[k] - top)
        total += values[k]
    for k in range(n):
        values[k] /= total
    return n


@njit(nogil=True, cache=True)
def under_arc(h, e, w, f, half, values):
    """The choices for arc[h, e], one for each place where its two halves meet; returns how many."""
    i, j = min(h, e), max(h, e)
    for k in range(i, j):
        is_nearest = k == i if h == i else k == j - 1
        values[k - i] = w[h, e] + half[i, k] + half[j, k + 1] + (f[h, e] if is_nearest else 0.0)
    return j - i


@njit(nogil=True, cache=True)
def under_half(h, e, arc, half, values):
    """The choices for half[h, e], one for each farthest dependent of h; returns how many."""
    step = 1 if e > h else -1
    for d in range(1, abs(e - h) + 1):
        k = h + step * d
        values[d - 1] = arc[h, k] + half[k, e]
    return abs(e - h)


@njit(nogil=True, cache=True)
def under_root(n, root, half, values):
    """The choices for the single root."""
    for c in range(n):
        values[c] = root[c] + half[c, 0] + half[c, n - 1]
    return n


@njit(nogil=True, cache=True)
def fill(m, w, f, arc, half, values, summed):
    """All items, from the narrow to the wide."""
    for i in range(m):
        half[i, i] = 0.0
    for d in range(1, m):
        for i in range(m - d):
            j = i + d
            arc[i, j] = total_of(values, under_arc(i, j, w, f, half, values), summed)
            arc[j, i] = total_of(values, under_arc(j, i, w, f, half, values), summed)
            half[i, j] = total_of(values, under_half(i, j, arc, half, values), summed)
            half[j, i] = total_of(values, under_half(j, i, arc, half, values), summed)


@njit(nogil=True, cache=True)
def infer_logs(chosen, offsets, arc_offsets, score, nearest, single_root, marginal, near, log_partition):
    """As ``tree_sum.infer_trees`` for chosen sentences, whatever their scores; −∞ for one without a tree."""
    for s in chosen:
        n, first = offsets[s + 1] - offsets[s], arc_offsets[s]
        if n == 0:
            log_partition[s] = 0.0
            continue
        w, f, arc, half = (
            np.empty((n + 1, n + 1)),
            np.empty((n + 1, n + 1)),
            np.empty((n + 1, n + 1)),
            np.empty((n + 1, n + 1)),
        )
        root, values = np.empty(n), np.empty(n + 1)
        m = positions(score, nearest, first, n, single_root, w, f, root)
        fill(m, w, f, arc, half, values, True)
        z = total_of(values, under_root(n, root, half, values), True) if single_root else half[0, n]
        log_partition[s] = z
        if z == -math.inf:
            continue
        arc_out, half_out = np.zeros((m, m)), np.zeros((m, m))
        if single_root:
            for c in range(shares(values, under_root(n, root, half, values))):
                marginal[first + c * n + c] = values[c]
                half_out[c, 0] += values[c]
                half_out[c, n - 1] += values[c]
        else:
            half_out[0, n] = 1.0
        # Probabilities of items, handed down to the items they are made of.
        for d in range(m - 1, 0, -1):
            for i in range(m - d):
                j = i + d
                for h, e in ((i, j), (j, i)):
                    if half_out[h, e] > 0.0:
                        for k in range(shares(values, under_half(h, e, arc, half, values))):
                            p = half_out[h, e] * values[k]
                            c = h + k + 1 if e > h else h - k - 1
                            arc_out[h, c] += p
                            half_out[c, e] += p
                for h, e in ((i, j), (j, i)):
                    if arc_out[h, e] > 0.0:
                        for k in range(shares(values, under_arc(h, e, w, f, half, values))):
                            p = arc_out[h, e] * values[k]
                            half_out[i, i + k] += p
                            half_out[j, i + k + 1] += p
        shift = 0 if single_root else 1
        for c in range(n):
            for h in range(n):
                at, a, b = first + c * n + h, h + shift, c + shift
                if h != c:
                    marginal[at] = arc_out[a, b]
                    if len(near) and arc_out[a, b] > 0.0:
                        count = shares(values, under_arc(a, b, w, f, half, values))
                        near[at] = arc_out[a, b] * (values[0] if a < b else values[count - 1])
                elif not single_root:
                    marginal[at] = arc_out[0, b]


@njit(nogil=True, cache=True)
def read_trees(offsets, arc_offsets, score, nearest, single_root, how, n_draws, uniform, heads, best):
    """Trees of every sentence, (n_draws, n_words) heads, and the total (maximum or log-sum) of its chart.

    how : BEST, DRAWN or DRAWN_BEST;  uniform : (n_draws, 2 n_words + n_sentences) in [0, 1), not read for BEST
    """
    longest = 0
    for s in range(len(offsets) - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    size = longest + 1
    cells, ways = np.zeros((4, size * size)), np.zeros((2, size * size if how == DRAWN_BEST else 0))
    root, values, weight, stack = np.zeros(size), np.zeros(size), np.zeros(size), np.zeros((4 * size, 3), np.int64)
    for s in range(len(offsets) - 1):
        n = offsets[s + 1] - offsets[s]
        if n == 0:
            best[s] = 0.0
            continue
        m = n if single_root else n + 1
        w, f = cells[0][: m * m].reshape(m, m), cells[1][: m * m].reshape(m, m)
        arc, half = cells[2][: m * m].reshape(m, m), cells[3][: m * m].reshape(m, m)
        positions(score, nearest, arc_offsets[s], n, single_root, w, f, root)
        fill(m, w, f, arc, half, values, how == DRAWN)
        best[s] = total_of(values, under_root(n, root, half, values), how == DRAWN) if single_root else half[0, n]
        if best[s] == -math.inf:
            continue
        k = m if how == DRAWN_BEST else 0
        arc_ways, half_ways = ways[0][: k * k].reshape(k, k), ways[1][: k * k].reshape(k, k)
        if how == DRAWN_BEST:
            count_best(m, w, f, arc, half, values, arc_ways, half_ways)
        for draw in range(n_draws):
            own = uniform[draw, 2 * offsets[s] + s :] if how != BEST else uniform[0]
            walk(n, single_root, w, f, root, arc, half, arc_ways, half_ways, how, own, values, weight, stack,
                 heads[draw, offsets[s] : offsets[s + 1]])  # fmt: skip


@njit(nogil=True, cache=True)
def count_best(m, w, f, arc, half, values, arc_ways, half_ways):
    """How many best trees there are of each item."""
    for i in range(m):
        half_ways[i, i] = 1.0
    for d in range(1, m):
        for i in range(m - d):
            j = i + d
            for h, e in ((i, j), (j, i)):
                arc_ways[h, e] = 0.0
                for k in range(under_arc(h, e, w, f, half, values)):
                    if values[k] == arc[h, e]:
                        arc_ways[h, e] += half_ways[i, i + k] * half_ways[j, i + k + 1]
            for h, e in ((i, j), (j, i)):
                half_ways[h, e] = 0.0
                for k in range(under_half(h, e, arc, half, values)):
                    c = h + k + 1 if e > h else h - k - 1
                    if values[k] == half[h, e]:
                        half_ways[h, e] += arc_ways[h, c] * half_ways[c, e]


@njit(nogil=True, cache=True)
def choose(values, weight, n, how, u):
    """One of n choices: the first of the best, or one drawn by its share (of best trees)."""
    top, at = -math.inf, 0
    for k in range(n):
        if values[k] > top:
            top, at = values[k], k
    if how == BEST:
        return at
    total = 0.0
    for k in range(n):
        if how == DRAWN:
            weight[k] = math.exp(values[k] - top)
        elif values[k] != top:
            weight[k] = 0.0
        total += weight[k]
    left = u * total
    for k in range(n):
        if weight[k] > 0.0:
            at = k
            left -= weight[k]
            if left < 0.0:
                break
    return at


@njit(nogil=True, cache=True)
def walk(n, single_root, w, f, root, arc, half, arc_ways, half_ways, how, uniform, values, weight, stack, heads):
    """Heads of one tree: from the whole sentence down, an item at a time."""
    shift, used, depth = 0 if single_root else 1, 0, 0
    counts = how == DRAWN_BEST
    if single_root:
        size = under_root(n, root, half, values)
        if counts:
            for c in range(n):
                weight[c] = half_ways[c, 0] * half_ways[c, n - 1]
        c = choose(values, weight, size, how, uniform[0] if how != BEST else 0.0)
        heads[c] = 0
        used = 1
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, c, 0
        stack[1, 0], stack[1, 1], stack[1, 2] = 0, c, n - 1
        depth = 2
    else:
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, n
        depth = 1
    while depth > 0:
        depth -= 1
        is_arc, h, e = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if h == e:
            continue
        i, j = min(h, e), max(h, e)
        if is_arc:
            heads[e - shift] = h - shift + 1
            size = under_arc(h, e, w, f, half, values)
        else:
            size = under_half(h, e, arc, half, values)
        if counts:
            for k in range(size):
                c = h + k + 1 if e > h else h - k - 1
                weight[k] = (
                    half_ways[i, i + k] * half_ways[j, i + k + 1] if is_arc else arc_ways[h, c] * half_ways[c, e]
                )
        k = choose(values, weight, size, how, uniform[used] if how != BEST else 0.0)
        used += 1
        if is_arc:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = 0, i, i + k
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = 0, j, i + k + 1
        else:
            c = h + k + 1 if e > h else h - k - 1
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = 1, h, c
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = 0, c, e
        depth += 2
