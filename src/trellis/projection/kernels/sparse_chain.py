"""Marginals of chains tilted by l1/linf dual variables, without the tilted scores ever standing in memory.

    q(y) ∝ exp(score(y)) Π_{regularised slots t} exp(−θ_{t, y_t} / weight)

Potentials of one instance at a time are multiplied by exp(−θ), the recursions of ``chain_infer.py`` run over them, and
the marginals of regularised slots go where the dual step reads them. Each slot's θ is taken relative to its smallest
entry, which goes into the log-partition: a strong penalty on all labels of a slot must not underflow.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.projection.kernels.exponential import exponentiate
from trellis.structures.kernels.chain_infer import add_outer_products, aligned, backward, forward, widened
from trellis.structures.kernels.chain_sum import DONE, FLAGGED
from trellis.structures.kernels.lanes import LANES, load, multiply, store


@njit(nogil=True, cache=True)
def tilt(lo, n, node, node_index, row_of, theta, inverse_weight, exponent, scratch, factor, tilted):
    """tilted (n, K) = node potentials · exp(−(θ − its least entry) / weight); return the sum of −least entries."""
    k = node.shape[1]
    shift = 0.0
    at = 0
    for t in range(n):
        row = row_of[lo + t]
        if row >= 0:
            least = np.inf
            for b in range(k):
                least = min(least, theta[row, b])
            for b in range(k):
                exponent[at + b] = (least - theta[row, b]) * inverse_weight
            shift -= least * inverse_weight
            at += k
    exponentiate(exponent[:at], scratch[:at], factor[:at])
    at = 0
    for t in range(n):
        potential = node[node_index[lo + t]]
        if row_of[lo + t] >= 0:
            for b in range(k):
                tilted[t * k + b] = potential[b] * factor[at + b]
            at += k
        else:
            for b in range(k):
                tilted[t * k + b] = potential[b]
    return shift


@njit(nogil=True, cache=True)
def infer_tilted(
    offsets, node, node_index, edge, edge_t, edge_index, start, stop, weights, row_of, theta,
    marginal, posterior, counts_t, log_partition, status,
):  # fmt: skip
    """Log-partitions of the tilted potentials, and marginals.

    row_of : (n_slots,) row of theta and marginal (n_rows, K) that belongs to the slot, −1: not regularised
    posterior : (n_slots, K) with slack, or no rows: then neither it nor counts_t (m, K, K) is filled
    Instances that need log space get status FLAGGED; nothing of theirs is written.
    """
    k = node.shape[1]
    n_vectors = -(-k // LANES)
    wide = n_vectors * LANES
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    r, u, B = aligned(longest * wide), aligned(longest * wide), aligned(longest * wide)
    inverse = np.empty(longest)
    exponent, scratch, factor = np.empty(longest * k), np.empty(longest * k), np.empty(longest * k)
    tilted = aligned(longest * k)
    tilted[:] = 0.0
    table = tilted[: longest * k].reshape(longest, k)
    place = np.empty(offsets[-1], np.int32)
    edges, edges_t, counts = widened(edge, wide), widened(edge_t, wide), aligned(len(edge) * k * wide)
    counts[:] = 0.0
    whole = posterior.shape[0] > 0
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        status[i] = DONE
        log_partition[i] = 0.0
        if n == 0:
            continue
        # An instance of weight 0 is not in the sum whose duals these are: its posterior is the model's own.
        inverse_weight = 1.0 / weights[i] if weights[i] > 0.0 else 0.0
        shift = tilt(lo, n, node, node_index, row_of, theta, inverse_weight, exponent, scratch, factor, tilted)
        for t in range(n):
            place[lo + t] = t
        total, enough = forward(lo, n, table, place, edges, wide, edge_index, start, stop, k, r, inverse)
        if enough:
            enough = backward(lo, n, table, place, edges_t, wide, edge_index, stop, k, inverse, u, B)
        if not enough:
            status[i] = FLAGGED
            continue
        log_partition[i] = total + shift
        for t in range(n):
            at, row = t * wide, row_of[lo + t]
            if row >= 0:
                for b in range(k):
                    marginal[row, b] = r[at + b] * B[at + b]
        if whole:
            # In rising order: the last vector of a row runs into the next row, which is written after it.
            for t in range(n):
                for j in range(n_vectors):
                    at = t * wide + j * LANES
                    store(posterior, (lo + t) * k + j * LANES, multiply(load(r, at), load(B, at)))
            add_outer_products(n, r, u, weights[i], edge_index, lo, k, counts, wide)
    if whole:
        for m in range(len(edge)):
            for b in range(k):
                for a in range(k):
                    counts_t[m, b, a] += counts[(m * k + b) * wide + a]
