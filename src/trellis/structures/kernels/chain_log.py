"""Sum-product on chains in log space: slower, and right whatever the range of the scores.

    a_t(b) = n_t(b) + log Σ_a exp(a_{t−1}(a) + e_t(a, b)),      b_{t−1}(a) = log Σ_b exp(e_t(a, b) + n_t(b) + b_t(b))

Used for the instances that :mod:`chain_sum` flags.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.chain_sum import DONE, FLAGGED, IMPOSSIBLE, times_score


@njit(nogil=True, cache=True)
def forward_log(lo, n, node, node_index, edge, edge_index, start, stop, alpha):
    """Fill alpha (n, K) with log forward scores; return the log-partition."""
    n_labels = node.shape[1]
    for t in range(n):
        row = node[node_index[lo + t]]
        for b in range(n_labels):
            if t == 0:
                value = start[b]
            else:
                matrix = edge[edge_index[lo + t]]
                top = -np.inf
                for a in range(n_labels):
                    top = max(top, alpha[t - 1, a] + matrix[a, b])
                value = top
                if top > -np.inf:
                    total = 0.0
                    for a in range(n_labels):
                        total += np.exp(alpha[t - 1, a] + matrix[a, b] - top)
                    value = top + np.log(total)
            alpha[t, b] = value + row[b] + (stop[b] if t == n - 1 else 0.0)
    top = -np.inf
    for b in range(n_labels):
        top = max(top, alpha[n - 1, b])
    if top == -np.inf:
        return top
    total = 0.0
    for b in range(n_labels):
        total += np.exp(alpha[n - 1, b] - top)
    return top + np.log(total)


@njit(nogil=True, cache=True)
def backward_log(lo, n, node, node_index, edge, edge_index, stop, beta):
    """Fill beta (n, K) with log backward scores."""
    n_labels = node.shape[1]
    for b in range(n_labels):
        beta[n - 1, b] = 0.0
    for t in range(n - 1, 0, -1):
        row = node[node_index[lo + t]]
        matrix = edge[edge_index[lo + t]]
        for a in range(n_labels):
            top = -np.inf
            for b in range(n_labels):
                top = max(top, matrix[a, b] + row[b] + beta[t, b] + (stop[b] if t == n - 1 else 0.0))
            beta[t - 1, a] = top
            if top > -np.inf:
                total = 0.0
                for b in range(n_labels):
                    total += np.exp(matrix[a, b] + row[b] + beta[t, b] + (stop[b] if t == n - 1 else 0.0) - top)
                beta[t - 1, a] = top + np.log(total)


@njit(nogil=True, cache=True)
def infer_log(
    offsets, node, node_index, edge, edge_index, start, stop, weights,
    posterior, counts, edge_marginals, log_partition, entropy, status,
):  # fmt: skip
    """Marginals, counts (m, K, K) and entropies of the FLAGGED instances; an instance without output: IMPOSSIBLE.

    log_partition here is of the scores themselves. The entropy is H(y_1) + Σ_t H(y_t | y_{t−1}), with
    log P(y_t = b | y_{t−1} = a) = e_t(a, b) + n_t(b) + b_t(b) − b_{t−1}(a): unlike log Z − E[score] it does not
    cancel when scores are large.
    """
    n_labels = node.shape[1]
    for i in range(offsets.shape[0] - 1):
        if status[i] != FLAGGED:
            continue
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        alpha = np.empty((n, n_labels))
        beta = np.empty((n, n_labels))
        log_z = forward_log(lo, n, node, node_index, edge, edge_index, start, stop, alpha)
        log_partition[i] = log_z
        if log_z == -np.inf:
            status[i] = IMPOSSIBLE
            continue
        backward_log(lo, n, node, node_index, edge, edge_index, stop, beta)
        total = 0.0
        for t in range(n):
            row = node[node_index[lo + t]]
            for b in range(n_labels):
                posterior[lo + t, b] = np.exp(alpha[t, b] + beta[t, b] - log_z)
                if t == 0:
                    total -= times_score(posterior[lo, b], alpha[0, b] + beta[0, b] - log_z)
            if t > 0:
                m = edge_index[lo + t]
                for a in range(n_labels):
                    for b in range(n_labels):
                        step = edge[m, a, b] + row[b] + beta[t, b] + (stop[b] if t == n - 1 else 0.0)
                        p = np.exp(alpha[t - 1, a] + step - log_z)
                        counts[m, a, b] += weights[i] * p
                        total -= times_score(p, step - beta[t - 1, a])
                        if edge_marginals.shape[0] > 0:
                            edge_marginals[lo + t, a, b] = p
        entropy[i] = total
        status[i] = DONE
