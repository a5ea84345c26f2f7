"""How marginals of chains move with their scores: forward-backward once more, with tangents.

Scores move in a direction: node scores by n_t(b), edge scores by e_t(a, b), and Ė_t = E_t ∘ e_t. With the recursions of
:mod:`chain_infer` and their scales held fixed,

    ṙ_t = N_t ∘ (ṙ_{t−1} E_t + r_{t−1} Ė_t) / c_{t−1} + n_t ∘ r_t
    u̇_t = N_t ∘ Ḃ_t / c_{t−1} + n_t ∘ u_t,          Ḃ_{t−1} = E_t u̇_t + Ė_t u_t
    d = Σ_b ṙ_n(b) / c_n = E[direction],            Ṗ(y_t = b) = ṙ_t B_t + r_t Ḃ_t − d r_t B_t
    Ṗ(y_{t−1} = a, y_t = b) = [ (ṙ_{t−1} − d r_{t−1})(a) u_t(b) + r_{t−1}(a) u̇_t(b) ] E_t(a, b)
                              + r_{t−1}(a) Ė_t(a, b) u_t(b)

which is the covariance of every part with the direction (Ganchev et al. 2010, eq. 34) at twice the cost of marginals.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.chain_infer import add_outer_products, aligned, backward, forward, push, widened
from trellis.structures.kernels.chain_sum import DONE, FLAGGED
from trellis.structures.kernels.lanes import LANES, add, keep, load, multiply, splat, store, total


@njit(nogil=True, cache=True)
def carry(x, x_at, matrix, matrix_at, stride, k, out, out_at):
    """``push``, compiled once for all the places below and not into each of them."""
    push(x, x_at, matrix, matrix_at, stride, k, out, out_at)


@njit(nogil=True, cache=True)
def derive_scaled(
    offsets, node, node_index, edge, edge_t, moved, moved_t, edge_index, start, stop, weights, direction,
    derivative, counts_t, plain_t, slope, status,
):  # fmt: skip
    """Derivatives of a whole batch; instances that need log space get status FLAGGED and contribute nothing.

    moved, moved_t : Ė and its transpose, as many as ``edge``, or none where edges do not move
    derivative (n_slots, K);  slope (n_instances,): d
    counts_t : Σ weight [ (ṙ − d r) u + r u̇ ], transposed;  plain_t : Σ weight r u, where edges move
    node, edge, edge_t, start, stop, direction, derivative : with slack
    """
    k = node.shape[1]
    n_vectors = -(-k // LANES)
    wide, rest = n_vectors * LANES, k - (n_vectors - 1) * LANES
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    r, u, B = aligned(longest * wide), aligned(longest * wide), aligned(longest * wide)
    dr, du, dB = aligned(longest * wide), aligned(longest * wide), aligned(longest * wide)
    extra = aligned(wide)
    inverse = np.empty(longest)
    flat_node, edges_move = node.reshape(-1), len(moved) > 0
    edges, edges_t = widened(edge, wide), widened(edge_t, wide)
    tilts, tilts_t = widened(moved, wide), widened(moved_t, wide)
    counts, plain = aligned(len(edge) * k * wide), aligned(len(moved) * k * wide)
    counts[:] = 0.0
    plain[:] = 0.0
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        status[i] = DONE
        slope[i] = 0.0
        if n == 0:
            continue
        _, enough = forward(lo, n, flat_node, node_index, edges, wide, edge_index, start, stop, k, r, inverse)
        if enough:
            enough = backward(lo, n, flat_node, node_index, edges_t, wide, edge_index, stop, k, inverse, u, B)
        if not enough:
            status[i] = FLAGGED
            continue
        d = 0.0
        for t in range(n):
            at, row, matrix = t * wide, node_index[lo + t] * k, edge_index[lo + t] * k * wide
            if t > 0:
                carry(dr, at - wide, edges, matrix, wide, k, dr, at)
                if edges_move:
                    carry(r, at - wide, tilts, matrix, wide, k, extra, 0)
            factor, sums = splat(inverse[t - 1] if t > 0 else 1.0), splat(0.0)
            for j in range(n_vectors):
                a = j * LANES
                v = splat(0.0)
                if t > 0:
                    v = load(dr, at + a)
                    if edges_move:
                        v = add(v, load(extra, a))
                    v = multiply(multiply(v, load(flat_node, row + a)), factor)
                    if t == n - 1:
                        v = multiply(v, load(stop, a))
                v = add(v, multiply(load(direction, (lo + t) * k + a), load(r, at + a)))
                if j == n_vectors - 1:
                    v = keep(v, rest)
                store(dr, at + a, v)
                sums = add(sums, v)
            if t == n - 1:
                d = total(sums) * inverse[t]
        slope[i] = d
        for j in range(n_vectors):
            store(dB, (n - 1) * wide + j * LANES, splat(0.0))
        for t in range(n - 1, 0, -1):
            at, row, matrix = t * wide, node_index[lo + t] * k, edge_index[lo + t] * k * wide
            factor = splat(inverse[t - 1])
            for j in range(n_vectors):
                a = j * LANES
                v = multiply(multiply(load(dB, at + a), load(flat_node, row + a)), factor)
                if t == n - 1:
                    v = multiply(v, load(stop, a))
                store(du, at + a, add(v, multiply(load(direction, (lo + t) * k + a), load(u, at + a))))
            carry(du, at, edges_t, matrix, wide, k, dB, at - wide)
            if edges_move:
                carry(u, at, tilts_t, matrix, wide, k, extra, 0)
                for j in range(n_vectors):
                    a = j * LANES
                    store(dB, at - wide + a, add(load(dB, at - wide + a), load(extra, a)))
        minus_d = splat(-d)
        for t in range(n):
            for j in range(n_vectors):
                at = t * wide + j * LANES
                left = load(r, at)
                centred = add(load(dr, at), multiply(minus_d, left))
                # In rising order: the last vector of a row runs into the next row, which is written after it.
                change = add(multiply(centred, load(B, at)), multiply(left, load(dB, at)))
                store(derivative, (lo + t) * k + j * LANES, change)
                store(dr, at, centred)
        add_outer_products(n, dr, u, weights[i], edge_index, lo, k, counts, wide)
        add_outer_products(n, r, du, weights[i], edge_index, lo, k, counts, wide)
        if edges_move:
            add_outer_products(n, r, u, weights[i], edge_index, lo, k, plain, wide)
    for m in range(len(edge)):
        for b in range(k):
            for a in range(k):
                counts_t[m, b, a] += counts[(m * k + b) * wide + a]
                if edges_move:
                    plain_t[m, b, a] += plain[(m * k + b) * wide + a]
