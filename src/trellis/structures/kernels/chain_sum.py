"""Scaled probabilities of chains: when they are enough, and the scales of tables.

With potentials E_t (edges), N_t (nodes; start and stop folded in), per instance:

    α_t(b) = N_t(b) Σ_a α_{t−1}(a) E_t(a, b) / c_t,      c_t such that Σ_b α_t(b) = 1
    w_t(b) = N_t(b) β_t(b) / c_t,                        β_{t−1}(a) = Σ_b E_t(a, b) w_t(b)
    P(y_t = b) = α_t(b) β_t(b),                          P(y_{t−1} = a, y_t = b) = α_{t−1}(a) E_t(a, b) w_t(b)

Expected edge counts of a shared matrix need E only once, at the end: E ∘ Σ_t α_{t−1} w_tᵀ (:mod:`chain_infer`).

*When scaled probabilities are enough.* What underflow removes from α_t(b) is below 1e-307 / c_t of the total, and
it matters in proportion to β_t(b). So an instance with every c_t > 1e-50 and every β_t(b) < 1e200 has lost less
than a share of 1e-56 of its mass. Others (a path that becomes hopeless and is then the only one left) are
flagged, and done again in log space (:mod:`chain_log`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

SMALLEST_SCALE = 1e-50
LARGEST_BETA = 1e200

DONE = 0
FLAGGED = 1
IMPOSSIBLE = 2


@njit(nogil=True, cache=True)
def largest_entries(rows, largest):
    """Fill largest (n,) with the largest entry of each row; return the smallest of those that are not 0.

    Returns −1, with the output unfinished, when an entry is negative, infinite or NaN; +∞ when all entries are 0.
    """
    n, k = rows.shape
    smallest = np.inf
    for i in range(n):
        row = rows[i]
        top = 0.0
        n_right = 0
        for j in range(k):
            top = max(top, row[j])
            n_right += row[j] >= 0.0
        if n_right != k or top == np.inf:
            return -1.0
        largest[i] = top
        if top > 0.0:
            smallest = min(smallest, top)
    return smallest


@njit(nogil=True, cache=True)
def add_shifts(offsets, node_shift, node_index, edge_shift, edge_index, ends_shift, log_partition):
    """Turn log-partitions of shifted potentials into those of the scores."""
    for i in range(offsets.shape[0] - 1):
        lo, hi = offsets[i], offsets[i + 1]
        if hi > lo:
            total = ends_shift + node_shift[node_index[lo]]
            for t in range(lo + 1, hi):
                total += node_shift[node_index[t]] + edge_shift[edge_index[t]]
            log_partition[i] += total
