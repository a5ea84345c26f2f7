"""Exact samples from a chain: forward sums, then labels drawn from the last to the first.

y_T ~ α_T,      P(y_{t−1} = a | y_t = b) ∝ α_{t−1}(a) E_t(a, b)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.chain_log import forward_log


@njit(nogil=True, cache=True)
def sample_outputs(offsets, node, node_index, edge, edge_index, start, stop, uniforms, labels, log_partition):
    """Draw labels (n_samples, n_slots) with uniforms of the same shape; log space, so any range of scores.

    The forward scores of an instance are computed once for all its samples. An instance without output has
    log_partition −∞ and is left alone.
    """
    n_labels = node.shape[1]
    weight = np.empty(n_labels)
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        log_partition[i] = 0.0
        if n == 0:
            continue
        alpha = np.empty((n, n_labels))
        log_partition[i] = forward_log(lo, n, node, node_index, edge, edge_index, start, stop, alpha)
        if log_partition[i] == -np.inf:
            continue
        for s in range(labels.shape[0]):
            for t in range(n - 1, -1, -1):
                if t == n - 1:
                    for a in range(n_labels):
                        weight[a] = alpha[t, a]
                else:
                    matrix, after = edge[edge_index[lo + t + 1]], labels[s, lo + t + 1]
                    for a in range(n_labels):
                        weight[a] = alpha[t, a] + matrix[a, after]
                labels[s, lo + t] = draw(weight, uniforms[s, lo + t])


@njit(nogil=True, cache=True)
def draw(log_weight, uniform):
    """An index with probability in proportion to exp(log_weight), never one of weight zero."""
    top = log_weight.max()
    total = 0.0
    for a in range(log_weight.shape[0]):
        total += np.exp(log_weight[a] - top)
    left = uniform * total
    chosen = 0
    for a in range(log_weight.shape[0]):
        p = np.exp(log_weight[a] - top)
        if p > 0.0:
            chosen = a
            left -= p
            if left < 0.0:
                return a
    return chosen
