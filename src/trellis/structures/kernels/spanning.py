"""Spanning trees that need not be projective: sums without a subtraction, and the best one.

Sums. Words leave a sentence one at a time (Grassmann, Taksar & Heyman 1985). Without word x, whoever hung on x hangs on
x's head: w(h, c) += w(h, x) w(x, c) / T_x with T_x the sum over all heads of x, the root among them, and Z is the
product of the T_x. The matrix-tree theorem's determinant is found this way by additions, products and quotients of
positive numbers alone, so that it may be done on logarithms and is exact for scores of any range. With

    Z_c      the same product when c is a second root
    u_c(h)   the probability that h hangs, by whatever way, on the root and not on c:
             u(x) = (r_x + Σ_h w(h, x) u(h)) / T_x

an arc has the probability  w(h, c) Z_c u_c(h) / Z. That takes O(n⁴) steps, and is for the sentences that LAPACK's
determinants do not serve.

Best. Chu & Liu (1965), Edmonds (1967): every word takes its best head; a cycle becomes one word, whose arcs from
outside are worth what they gain over the arc of the cycle that they break.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def log_add(a, b):
    """log(exp a + exp b)."""
    if a < b:
        a, b = b, a
    return a if b == -math.inf else a + math.log1p(math.exp(b - a))


@njit(nogil=True, cache=True)
def leave(n, banned, w, root, other, out):
    """Let all words but ``banned`` leave, the last first; returns log Z.

    w : (n, n) log-weights w[h, c], root, other : (n,) of two roots; each is left as it was when its word's turn came
    out : (n,) log T_x
    """
    total = 0.0
    for x in range(n - 1, -1, -1):
        if x == banned:
            continue
        t = log_add(root[x], other[x])
        for h in range(x):
            if h != banned:
                t = log_add(t, w[h, x])
        out[x] = t
        total += t
        if t == -math.inf:
            return -math.inf
        for c in range(x):
            if c == banned or w[x, c] == -math.inf:
                continue
            passed = w[x, c] - t
            root[c] = log_add(root[c], root[x] + passed)
            other[c] = log_add(other[c], other[x] + passed)
            for h in range(x):
                if h != c and h != banned:
                    w[h, c] = log_add(w[h, c], w[h, x] + passed)
    return total


@njit(nogil=True, cache=True)
def infer_spanning(chosen, offsets, arc_offsets, score, single_root, marginal, log_partition):
    """Marginals and log-partitions of chosen sentences in log space; −∞ for one without a tree.

    A single root is what is left of many when their arcs become worthless: their scores are lowered by so much that
    trees with two roots vanish beside those with one.
    """
    for s in chosen:
        n, first = offsets[s + 1] - offsets[s], arc_offsets[s]
        if n == 0:
            log_partition[s] = 0.0
            continue
        w, root = np.full((n, n), -math.inf), np.full(n, -math.inf)
        low, high, shift = math.inf, -math.inf, 0.0
        for c in range(n):
            top = -math.inf
            for h in range(n):
                top = max(top, score[first + c * n + h])
            if top == -math.inf:
                continue
            shift += top
            for h in range(n):
                x = score[first + c * n + h] - top
                if x > -math.inf:
                    low, high = min(low, x), max(high, x)
                if h == c:
                    root[c] = x
                else:
                    w[h, c] = x
        lowered = 0.0
        if single_root and low < math.inf:
            lowered = 100.0 + n * (high - low) + n * math.log(n + 1.0)
            for c in range(n):
                root[c] -= lowered
        none, out = np.full(n, -math.inf), np.empty(n)
        z = leave(n, -1, w.copy(), root.copy(), none.copy(), out)
        if single_root and z + lowered < n * min(low, 0.0) - 50.0:
            z = -math.inf
        log_partition[s] = z + lowered + shift if z > -math.inf else -math.inf
        if z == -math.inf:
            continue
        for c in range(n):
            # c is a second root: whoever hung on it now hangs on "other"
            left, to_root, to_c = w.copy(), root.copy(), w[c].copy()
            z_c = leave(n, c, left, to_root, to_c, out)
            at = first + c * n
            marginal[at + c] = math.exp(min(root[c] + z_c - z, 0.0)) if root[c] > -math.inf else 0.0
            u = np.full(n, -math.inf)
            for x in range(n):
                if x == c:
                    continue
                total = to_root[x]
                for h in range(x):
                    if h != c:
                        total = log_add(total, left[h, x] + u[h])
                u[x] = total - out[x]
                if w[x, c] > -math.inf and u[x] > -math.inf:
                    marginal[at + x] = math.exp(min(w[x, c] + z_c + u[x] - z, 0.0))


@njit(nogil=True, cache=True)
def best_heads(n, score, ties, heads):
    """Chu-Liu/Edmonds over nodes 0 (the root) .. n; heads : (n,) 0 or a word's number. Returns the total, −∞ if none.

    score : (n + 1, n + 1) score[h, c];  ties : the same shape; of heads with equal scores the one with the largest
    """
    size = 2 * n + 2
    s, t = np.full((size, size), -math.inf), np.zeros((size, size))
    # the words that an arc between cycles joins
    head, child = np.zeros((size, size), np.int64), np.zeros((size, size), np.int64)
    s[: n + 1, : n + 1] = score
    t[: n + 1, : n + 1] = ties
    for a in range(n + 1):
        for b in range(n + 1):
            head[a, b], child[a, b] = a, b
    active = np.zeros(size, np.bool_)
    active[: n + 1] = True
    parent, inside = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    n_nodes, mark, path = n + 1, np.zeros(size, np.int64), np.zeros(size, np.int64)
    while True:
        for c in range(1, n_nodes):
            if not active[c]:
                continue
            at = -1
            for h in range(n_nodes):
                if not active[h] or h == c or s[h, c] == -math.inf:
                    continue
                if at < 0 or s[h, c] > s[at, c] or (s[h, c] == s[at, c] and t[h, c] > t[at, c]):
                    at = h
            if at < 0:
                return -math.inf
            parent[c] = at
        # a cycle, if there is one
        mark[:] = 0
        mark[0] = -1
        found = -1
        for c in range(1, n_nodes):
            if not active[c] or mark[c] != 0:
                continue
            at = c
            while mark[at] == 0:
                mark[at] = c
                at = parent[at]
            if at != 0 and mark[at] == c:
                found = at
                break
        if found < 0:
            break
        length, at = 0, found
        while True:
            path[length] = at
            length += 1
            at = parent[at]
            if at == found:
                break
        new = n_nodes
        n_nodes += 1
        for k in range(length):
            inside[path[k]] = new
            active[path[k]] = False
        active[new] = True
        for u in range(new):
            if not active[u]:
                continue
            for k in range(length):
                c = path[k]
                gain = s[u, c] - s[parent[c], c]
                if gain > s[u, new] or (gain == s[u, new] and gain > -math.inf and t[u, c] > t[u, new]):
                    s[u, new], t[u, new] = gain, t[u, c]
                    head[u, new], child[u, new] = head[u, c], child[u, c]
                if u > 0 and (s[c, u] > s[new, u] or (s[c, u] == s[new, u] and t[c, u] > t[new, u])):
                    s[new, u], t[new, u] = s[c, u], t[c, u]
                    head[new, u], child[new, u] = head[c, u], child[c, u]
    taken = np.zeros((size, 2), np.int64)
    for c in range(1, n_nodes):
        taken[c, 0], taken[c, 1] = head[parent[c], c], child[parent[c], c]
    # From the last cycle to the first, the arc that comes in takes the place of one of its own.
    for new in range(n_nodes - 1, n, -1):
        at = taken[new, 1]
        while inside[at] != new:
            at = inside[at]
        taken[at] = taken[new]
    total = 0.0
    for c in range(1, n + 1):
        heads[c - 1] = taken[c, 0]
        total += score[taken[c, 0], c]
    return total


@njit(nogil=True, cache=True)
def best_spanning(offsets, arc_offsets, arc, single_root, noise, heads, best):
    """Best heads of every sentence; noise : (n_arcs,), which of equals is taken, or empty: the first."""
    for s in range(len(offsets) - 1):
        n, first = offsets[s + 1] - offsets[s], arc_offsets[s]
        if n == 0:
            best[s] = 0.0
            continue
        score, ties = np.full((n + 1, n + 1), -math.inf), np.zeros((n + 1, n + 1))
        for c in range(n):
            for h in range(n):
                a = 0 if h == c else h + 1
                score[a, c + 1] = arc[first + c * n + h]
                if len(noise):
                    ties[a, c + 1] = noise[first + c * n + h]
        own = heads[offsets[s] : offsets[s + 1]]
        best[s] = best_heads(n, score, ties, own)
        if not single_root or best[s] == -math.inf or np.count_nonzero(own == 0) == 1:
            continue
        roots, trial = score[0].copy(), np.zeros(n, heads.dtype)
        top, top_tie = -math.inf, 0.0
        for r in range(1, n + 1):
            if roots[r] == -math.inf:
                continue
            score[0] = -math.inf
            score[0, r] = roots[r]
            total = best_heads(n, score, ties, trial)
            if total > top or (total == top and total > -math.inf and ties[0, r] > top_tie):
                top, top_tie = total, ties[0, r]
                own[:] = trial
        best[s] = top
