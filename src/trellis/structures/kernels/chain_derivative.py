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

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from trellis.structures.kernels.chain_infer import add_outer_products, aligned, backward, forward, push, widened
from trellis.structures.kernels.chain_sum import DONE, FLAGGED
from trellis.structures.kernels.lanes import LANES, add, keep, load, multiply, splat, store, total


@njit(nogil=True, cache=True)
def carry(x, x_at, matrix, matrix_at, stride, k, out, out_at):
    """``push``, compiled once for all the places below and not into each of them."""
    push(x, x_at, matrix, matrix_at, stride, k, out, out_at)


class Lattice(NamedTuple):
    """Potentials of a batch of chains, with slack; see :mod:`chain_infer`."""

    offsets: Any
    node: Any
    node_index: Any
    edge: Any
    edge_t: Any
    edge_index: Any
    start: Any
    stop: Any


class Tilts(NamedTuple):
    """What functionals say of transitions.

    start : (n_patterns + 1,) entries of each pattern, of which the first has none
    code, cell, coefficient : (n_entries,) which functional, a · K + b, and c. Codes below ``most`` are of functionals
        of the instance, which begin at first[i], the others of those of many instances, after all of these
    pattern, own : (n_pairs,) patterns together with matrices of the chain;  index : (n_slots,) the pair of each
    """

    start: Any
    code: Any
    cell: Any
    coefficient: Any
    first: Any
    most: Any
    pattern: Any
    own: Any
    index: Any


@njit(nogil=True, cache=True)
def row_of(tilts, e, i):
    """The functional of an entry at a boundary of instance i."""
    if tilts.code[e] < tilts.most:
        return tilts.first[i] + tilts.code[e]
    return tilts.first[-1] + tilts.code[e] - tilts.most


@njit(nogil=True, cache=True)
def longest_of(offsets):
    """Slots of the longest instance."""
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return longest


@njit(nogil=True, cache=True)
def pairs_of(tilts, i, lo, n, seen, used):
    """Fill ``used`` with the pairs that have entries at boundaries of instance i, and return how many there are."""
    n_used = 0
    for t in range(1, n):
        pair = tilts.index[lo + t]
        if seen[pair] != i and tilts.pattern[pair] > 0:
            seen[pair] = i
            used[n_used] = pair
            n_used += 1
    return n_used


@njit(nogil=True, cache=True)
def expect_scaled(lattice, tilts, weights, posterior, expected, status):
    """Marginals of labels (n_slots, K), with slack, and what transitions add to the expectations of functionals.

    Instances that need log space get status FLAGGED and contribute nothing.
    """
    offsets, k = lattice.offsets, lattice.node.shape[1]
    n_vectors = -(-k // LANES)
    wide, longest, n_pairs = n_vectors * LANES, longest_of(offsets), len(tilts.own)
    r, u, B = aligned(longest * wide), aligned(longest * wide), aligned(longest * wide)
    inverse, used, seen = np.empty(longest), np.empty(longest, np.int64), np.full(n_pairs, -1)
    flat_node = lattice.node.reshape(-1)
    edges, edges_t, pairs = widened(lattice.edge, wide), widened(lattice.edge_t, wide), aligned(n_pairs * k * wide)
    pairs[:] = 0.0
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        status[i] = DONE
        if n == 0:
            continue
        _, enough = forward(
            lo, n, flat_node, lattice.node_index, edges, wide, lattice.edge_index, lattice.start, lattice.stop, k, r,
            inverse,
        )  # fmt: skip
        if enough:
            enough = backward(
                lo, n, flat_node, lattice.node_index, edges_t, wide, lattice.edge_index, lattice.stop, k, inverse, u, B
            )
        if not enough:
            status[i] = FLAGGED
            continue
        # In rising order: the last vector of a row runs into the next row, which is written after it.
        for t in range(n):
            for j in range(n_vectors):
                at = t * wide + j * LANES
                store(posterior, (lo + t) * k + j * LANES, multiply(load(r, at), load(B, at)))
        n_used = pairs_of(tilts, i, lo, n, seen, used)
        if n_used == 0:
            continue
        add_outer_products(n, r, u, 1.0, tilts.index, lo, k, pairs, wide)
        for number in range(n_used):
            pair = used[number]
            low, matrix, pattern = pair * k * wide, tilts.own[pair] * k * wide, tilts.pattern[pair]
            for e in range(tilts.start[pattern], tilts.start[pattern + 1]):
                a, b = tilts.cell[e] // k, tilts.cell[e] % k
                value = tilts.coefficient[e] * edges[matrix + a * wide + b] * pairs[low + b * wide + a]
                if tilts.code[e] >= tilts.most:
                    value *= weights[i]
                expected[row_of(tilts, e, i)] += value
            pairs[low : low + k * wide] = 0.0


@njit(nogil=True, cache=True)
def derive_scaled(lattice, tilts, weights, direction, slopes, derivative, counts_t, slope, status):
    """Derivatives of a whole batch; instances that need log space get status FLAGGED and contribute nothing.

    slopes : (n_functionals,) s;  direction (n_slots, K): what they say of labels;  direction, derivative : with slack
    derivative (n_slots, K);  slope (n_instances,): d
    counts_t : Σ weight [ (ṙ − d r) u + r u̇ + e ∘ r u ], transposed, of each matrix of the chain
    """
    offsets, k = lattice.offsets, lattice.node.shape[1]
    n_vectors = -(-k // LANES)
    wide, rest = n_vectors * LANES, k - (n_vectors - 1) * LANES
    longest, n_pairs = longest_of(offsets), len(tilts.own)
    r, u, B = aligned(longest * wide), aligned(longest * wide), aligned(longest * wide)
    dr, du, dB = aligned(longest * wide), aligned(longest * wide), aligned(longest * wide)
    extra = aligned(wide)
    inverse, used, seen = np.empty(longest), np.empty(longest, np.int64), np.full(n_pairs, -1)
    node_index, edge_index, stop = lattice.node_index, lattice.edge_index, lattice.stop
    flat_node, edges, edges_t = lattice.node.reshape(-1), widened(lattice.edge, wide), widened(lattice.edge_t, wide)
    moving = n_pairs if len(tilts.cell) > 0 else 0
    moved, moved_t = aligned(moving * k * wide), aligned(moving * k * wide)
    pairs, counts = aligned(moving * k * wide), aligned(len(lattice.edge) * k * wide)
    moved[:] = 0.0
    moved_t[:] = 0.0
    pairs[:] = 0.0
    counts[:] = 0.0
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        status[i] = DONE
        slope[i] = 0.0
        if n == 0:
            continue
        _, enough = forward(lo, n, flat_node, node_index, edges, wide, edge_index, lattice.start, stop, k, r, inverse)
        if enough:
            enough = backward(lo, n, flat_node, node_index, edges_t, wide, edge_index, stop, k, inverse, u, B)
        if not enough:
            status[i] = FLAGGED
            continue
        n_used = pairs_of(tilts, i, lo, n, seen, used) if moving > 0 else 0
        for number in range(n_used):
            pair = used[number]
            low, matrix, pattern = pair * k * wide, tilts.own[pair] * k * wide, tilts.pattern[pair]
            for e in range(tilts.start[pattern], tilts.start[pattern + 1]):
                a, b = tilts.cell[e] // k, tilts.cell[e] % k
                value = slopes[row_of(tilts, e, i)] * tilts.coefficient[e] * edges[matrix + a * wide + b]
                moved[low + a * wide + b] += value
                moved_t[low + b * wide + a] += value
        d = 0.0
        for t in range(n):
            at, row, matrix = t * wide, node_index[lo + t] * k, edge_index[lo + t] * k * wide
            moves = False
            if t > 0:
                carry(dr, at - wide, edges, matrix, wide, k, dr, at)
                moves = n_used > 0 and tilts.pattern[tilts.index[lo + t]] > 0
                if moves:
                    carry(r, at - wide, moved, tilts.index[lo + t] * k * wide, wide, k, extra, 0)
            factor, sums = splat(inverse[t - 1] if t > 0 else 1.0), splat(0.0)
            for j in range(n_vectors):
                a = j * LANES
                v = splat(0.0)
                if t > 0:
                    v = load(dr, at + a)
                    if moves:
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
            if n_used > 0 and tilts.pattern[tilts.index[lo + t]] > 0:
                carry(u, at, moved_t, tilts.index[lo + t] * k * wide, wide, k, extra, 0)
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
        if n_used > 0:
            add_outer_products(n, r, u, weights[i], tilts.index, lo, k, pairs, wide)
        for number in range(n_used):
            pair = used[number]
            low, matrix, pattern = pair * k * wide, tilts.own[pair] * k * wide, tilts.pattern[pair]
            for e in range(tilts.start[pattern], tilts.start[pattern + 1]):
                a, b = tilts.cell[e] // k, tilts.cell[e] % k
                value = slopes[row_of(tilts, e, i)] * tilts.coefficient[e]
                counts[matrix + b * wide + a] += value * pairs[low + b * wide + a]
                moved[low + a * wide + b] = 0.0
                moved_t[low + b * wide + a] = 0.0
            pairs[low : low + k * wide] = 0.0
    for m in range(len(lattice.edge)):
        for b in range(k):
            for a in range(k):
                counts_t[m, b, a] += counts[(m * k + b) * wide + a]
