"""Marginals of chains, eight labels at a time.

The recursions of :mod:`chain_sum`, with the scale of a slot applied one slot later, where nothing waits for it:

    r_t = N_t ∘ (r_{t−1} E_t) / c_{t−1},      c_t = Σ_b r_t(b),      α_t = r_t / c_t
    B_t = β_t / c_t,      u_t = N_t ∘ B_t / c_{t−1},      B_{t−1} = E_t u_t
    P(y_t = b) = r_t(b) B_t(b),      P(y_{t−1} = a, y_t = b) = r_{t−1}(a) E_t(a, b) u_t(b)

Work arrays have rows of whole vectors ("wide"). Those that the caller gives have rows as long as there are labels, and
slack (see :mod:`lanes`). The entries of a vector past the last label are garbage until ``keep`` clears them, and
they are cleared wherever they could be added to something.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.chain_sum import DONE, FLAGGED, LARGEST_BETA, SMALLEST_SCALE
from trellis.structures.kernels.lanes import (
    LANES,
    SLACK,
    add,
    add_scaled,
    keep,
    larger,
    largest,
    load,
    multiply,
    splat,
    store,
    total,
)

FEW_MATRICES = 8
"""So many edge matrices are copied into rows of whole vectors: one that crosses a cache line takes twice as long."""


@njit(nogil=True, cache=True)
def aligned(n):
    """An array of n entries, with slack, whose first entry begins a cache line."""
    space = np.empty(n + SLACK + LANES)
    skip = (-(space.ctypes.data // 8)) % LANES
    return space[skip : skip + n + SLACK]


@njit(nogil=True, cache=True)
def widened(matrices, wide):
    """Matrices (m, k, k), flat, with rows ``wide`` apart and zeros between them."""
    m, k, _ = matrices.shape
    copy = aligned(m * k * wide)
    for at in range(copy.shape[0]):
        copy[at] = 0.0
    for i in range(m):
        for a in range(k):
            for b in range(k):
                copy[(i * k + a) * wide + b] = matrices[i, a, b]
    return copy


@njit(nogil=True, cache=True, forceinline=True)
def push(x, x_at, matrix, matrix_at, stride, k, out, out_at):
    """out = x · matrix, for k labels and rows of the matrix ``stride`` apart.

    Four vectors of out at a time, then the one, two or three that are left.
    """
    n = -(-k // LANES)
    j = 0
    while j + 4 <= n:
        c0, c1, c2, c3 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        m = matrix_at + j * LANES
        for a in range(k):
            number = x[x_at + a]
            c0 = add_scaled(c0, number, load(matrix, m))
            c1 = add_scaled(c1, number, load(matrix, m + LANES))
            c2 = add_scaled(c2, number, load(matrix, m + 2 * LANES))
            c3 = add_scaled(c3, number, load(matrix, m + 3 * LANES))
            m += stride
        o = out_at + j * LANES
        store(out, o, c0)
        store(out, o + LANES, c1)
        store(out, o + 2 * LANES, c2)
        store(out, o + 3 * LANES, c3)
        j += 4
    # Two sums side by side for each vector: one alone would wait for itself.
    if j + 3 == n:
        c0, c1, c2, d0, d1, d2 = splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        m = matrix_at + j * LANES
        for a in range(0, k - 1, 2):
            number, other = x[x_at + a], x[x_at + a + 1]
            c0 = add_scaled(c0, number, load(matrix, m))
            c1 = add_scaled(c1, number, load(matrix, m + LANES))
            c2 = add_scaled(c2, number, load(matrix, m + 2 * LANES))
            d0 = add_scaled(d0, other, load(matrix, m + stride))
            d1 = add_scaled(d1, other, load(matrix, m + stride + LANES))
            d2 = add_scaled(d2, other, load(matrix, m + stride + 2 * LANES))
            m += 2 * stride
        if k % 2 == 1:
            number = x[x_at + k - 1]
            c0 = add_scaled(c0, number, load(matrix, m))
            c1 = add_scaled(c1, number, load(matrix, m + LANES))
            c2 = add_scaled(c2, number, load(matrix, m + 2 * LANES))
        store(out, out_at + j * LANES, add(c0, d0))
        store(out, out_at + (j + 1) * LANES, add(c1, d1))
        store(out, out_at + (j + 2) * LANES, add(c2, d2))
        j += 3
    if j + 2 == n:
        c0, c1, d0, d1 = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        m = matrix_at + j * LANES
        for a in range(0, k - 1, 2):
            number, other = x[x_at + a], x[x_at + a + 1]
            c0 = add_scaled(c0, number, load(matrix, m))
            c1 = add_scaled(c1, number, load(matrix, m + LANES))
            d0 = add_scaled(d0, other, load(matrix, m + stride))
            d1 = add_scaled(d1, other, load(matrix, m + stride + LANES))
            m += 2 * stride
        if k % 2 == 1:
            number = x[x_at + k - 1]
            c0 = add_scaled(c0, number, load(matrix, m))
            c1 = add_scaled(c1, number, load(matrix, m + LANES))
        store(out, out_at + j * LANES, add(c0, d0))
        store(out, out_at + (j + 1) * LANES, add(c1, d1))
        j += 2
    if j + 1 == n:
        c0, d0 = splat(0.0), splat(0.0)
        m = matrix_at + j * LANES
        for a in range(0, k - 1, 2):
            c0 = add_scaled(c0, x[x_at + a], load(matrix, m))
            d0 = add_scaled(d0, x[x_at + a + 1], load(matrix, m + stride))
            m += 2 * stride
        if k % 2 == 1:
            c0 = add_scaled(c0, x[x_at + k - 1], load(matrix, m))
        store(out, out_at + j * LANES, add(c0, d0))


@njit(nogil=True, cache=True)
def forward(lo, n, node, node_index, edge, stride, edge_index, start, stop, k, r, inverse):
    """Fill r (n, wide) and inverse[t] = 1 / c_t; return (Σ log c_t, whether scaled probabilities sufficed)."""
    n_vectors = -(-k // LANES)
    wide, rest = n_vectors * LANES, k - (n_vectors - 1) * LANES
    log_sum, product, scale = 0.0, 1.0, 1.0
    for t in range(n):
        at = t * wide
        row = node_index[lo + t] * k
        if t > 0:
            push(r, at - wide, edge, edge_index[lo + t] * k * stride, stride, k, r, at)
        sums, factor = splat(0.0), splat(scale)
        for j in range(n_vectors):
            i = j * LANES
            v = load(start, i) if t == 0 else load(r, at + i)
            v = multiply(multiply(v, load(node, row + i)), factor)
            if t == n - 1:
                v = multiply(v, load(stop, i))
            if j == n_vectors - 1:
                v = keep(v, rest)
            store(r, at + i, v)
            sums = add(sums, v)
        c = total(sums)
        if not c > SMALLEST_SCALE:
            return -np.inf, False
        scale = 1.0 / c
        inverse[t] = scale
        # One logarithm for many tokens: the running product is folded in before it leaves the range of doubles.
        product *= c
        if product < 1e-200 or product > 1e200:
            log_sum += np.log(product)
            product = 1.0
    return log_sum + np.log(product), True


@njit(nogil=True, cache=True)
def backward(lo, n, node, node_index, edge_t, stride, edge_index, stop, k, inverse, u, B):
    """Fill u and B (n, wide); return whether scaled probabilities sufficed.

    The bound that :mod:`chain_sum` puts on β is put on B = β / c here: c is at most about the number of labels.
    """
    n_vectors = -(-k // LANES)
    wide, rest = n_vectors * LANES, k - (n_vectors - 1) * LANES
    highest = splat(0.0)
    for j in range(n_vectors):
        store(B, (n - 1) * wide + j * LANES, splat(inverse[n - 1]))
    for t in range(n - 1, 0, -1):
        at = t * wide
        row = node_index[lo + t] * k
        factor = splat(inverse[t - 1])
        for j in range(n_vectors):
            i = j * LANES
            v = load(B, at + i)
            highest = larger(keep(v, rest) if j == n_vectors - 1 else v, highest)
            v = multiply(multiply(v, load(node, row + i)), factor)
            if t == n - 1:
                v = multiply(v, load(stop, i))
            store(u, at + i, v)
        push(u, at, edge_t, edge_index[lo + t] * k * stride, stride, k, B, at - wide)
    for j in range(n_vectors):
        v = load(B, j * LANES)
        highest = larger(keep(v, rest) if j == n_vectors - 1 else v, highest)
    return largest(highest) <= LARGEST_BETA


@njit(nogil=True, cache=True)
def add_outer_products(n, r, u, weight, edge_index, lo, k, counts_t, stride):
    """counts_t[m, b, a] += weight · Σ_{t: matrix m} r[t−1, a] u[t, b], four boundaries of one matrix at a time."""
    n_vectors = -(-k // LANES)
    wide = n_vectors * LANES
    factor = splat(weight)
    t = 1
    while t < n:
        m = edge_index[lo + t]
        four = (
            t + 4 <= n and edge_index[lo + t + 1] == m and edge_index[lo + t + 2] == m and edge_index[lo + t + 3] == m
        )
        counts, before, here = m * k * stride, (t - 1) * wide, t * wide
        for j in range(n_vectors):
            i = j * LANES
            # The entries of r past the last label are 0: what is added to the next row of counts is nothing.
            r0 = multiply(load(r, before + i), factor)
            if four:
                r1 = multiply(load(r, before + wide + i), factor)
                r2 = multiply(load(r, before + 2 * wide + i), factor)
                r3 = multiply(load(r, before + 3 * wide + i), factor)
                for b in range(k):
                    c = load(counts_t, counts + b * stride + i)
                    c = add_scaled(c, u[here + b], r0)
                    c = add_scaled(c, u[here + wide + b], r1)
                    c = add_scaled(c, u[here + 2 * wide + b], r2)
                    c = add_scaled(c, u[here + 3 * wide + b], r3)
                    store(counts_t, counts + b * stride + i, c)
            else:
                for b in range(k):
                    c = load(counts_t, counts + b * stride + i)
                    store(counts_t, counts + b * stride + i, add_scaled(c, u[here + b], r0))
        t += 4 if four else 1


@njit(nogil=True, cache=True)
def infer_scaled(
    offsets, node, node_index, edge, edge_t, edge_index, start, stop, weights,
    posterior, counts_t, before, after, log_partition, status,
):  # fmt: skip
    """Marginals of a whole batch; instances that need log space get status FLAGGED and contribute nothing.

    node, edge, edge_t, start, stop, posterior, counts_t : with slack
    before, after : (n_slots, K) factors of the marginals of transitions, or no rows if they are not asked for
    log_partition is that of the potentials.
    """
    k = node.shape[1]
    n_vectors = -(-k // LANES)
    wide = n_vectors * LANES
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    r, u, B = aligned(longest * wide), aligned(longest * wide), aligned(longest * wide)
    inverse = np.empty(longest)
    flat_node = node.reshape(-1)
    few = len(edge) <= FEW_MATRICES
    if few:
        stride = wide
        edges, edges_t, counts = widened(edge, wide), widened(edge_t, wide), aligned(len(edge) * k * wide)
        for at in range(counts.shape[0]):
            counts[at] = 0.0
    else:
        stride = k
        edges, edges_t, counts = edge.reshape(-1), edge_t.reshape(-1), counts_t.reshape(-1)
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        status[i] = DONE
        log_partition[i] = 0.0
        if n == 0:
            continue
        log_partition[i], enough = forward(
            lo, n, flat_node, node_index, edges, stride, edge_index, start, stop, k, r, inverse
        )
        if enough:
            enough = backward(lo, n, flat_node, node_index, edges_t, stride, edge_index, stop, k, inverse, u, B)
        if not enough:
            status[i] = FLAGGED
            continue
        # In rising order: the last vector of a row runs into the next row, which is written after it.
        for t in range(n):
            for j in range(n_vectors):
                at = t * wide + j * LANES
                store(posterior, (lo + t) * k + j * LANES, multiply(load(r, at), load(B, at)))
        add_outer_products(n, r, u, weights[i], edge_index, lo, k, counts, stride)
        if before.shape[0] > 0:
            for t in range(1, n):
                for b in range(k):
                    before[lo + t, b], after[lo + t, b] = r[(t - 1) * wide + b], u[t * wide + b]
    if few:
        for m in range(len(edge)):
            for b in range(k):
                for a in range(k):
                    counts_t[m, b, a] += counts[(m * k + b) * wide + a]
