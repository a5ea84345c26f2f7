"""Sum-product on chains in log space: slower, and right whatever the range of the scores.

    a_t(b) = n_t(b) + log Σ_a exp(a_{t−1}(a) + e_t(a, b)),      b_{t−1}(a) = log Σ_b exp(e_t(a, b) + n_t(b) + b_t(b))

Labels on no possible output are −∞ in both, and both are recentred at every slot (the largest entry is 0), so that
rounding neither grows with the log-partition nor sees the scores of labels that cannot be.
Used for the instances that :mod:`chain_infer` flags, and for samples: labels are drawn from the last to the first,

    y_T ~ α_T,      P(y_{t−1} = a | y_t = b) ∝ α_{t−1}(a) E_t(a, b)
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.chain_sum import DONE, FLAGGED, IMPOSSIBLE


@njit(nogil=True, cache=True)
def mark_open(lo, n, node, node_index, edge, edge_index, stop, is_open):
    """is_open (n, K): whether the label is allowed and some output leads from it to the end."""
    n_labels = node.shape[1]
    for t in range(n - 1, -1, -1):
        row = node[node_index[lo + t]]
        for a in range(n_labels):
            leads_on = t == n - 1 and stop[a] > -np.inf
            if t < n - 1:
                matrix = edge[edge_index[lo + t + 1]]
                for b in range(n_labels):
                    leads_on = leads_on or (is_open[t + 1, b] and matrix[a, b] > -np.inf)
            is_open[t, a] = leads_on and row[a] > -np.inf


@njit(nogil=True, cache=True)
def forward_log(lo, n, node, node_index, edge, edge_index, start, stop, alpha):
    """Fill alpha (n, K) with log forward scores, the largest of each slot 0; return the log-partition."""
    n_labels = node.shape[1]
    is_open = np.empty((n, n_labels), np.bool_)
    mark_open(lo, n, node, node_index, edge, edge_index, stop, is_open)
    shift = 0.0
    for t in range(n):
        row = node[node_index[lo + t]]
        for b in range(n_labels):
            if not is_open[t, b]:
                alpha[t, b] = -np.inf
                continue
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
        top = alpha[t].max()
        if top == -np.inf:
            return top
        shift += top
        for b in range(n_labels):
            alpha[t, b] -= top
    return shift + log_sum_exp(alpha[n - 1])


@njit(nogil=True, cache=True)
def log_sum_exp(x):
    """log Σ exp(x) of a vector with a finite largest entry."""
    top = x.max()
    total = 0.0
    for b in range(x.shape[0]):
        total += np.exp(x[b] - top)
    return top + np.log(total)


@njit(nogil=True, cache=True)
def backward_log(lo, n, node, node_index, edge, edge_index, stop, alpha, beta, shift):
    """Fill beta (n, K) with log backward scores less shift (n,), the largest of each slot."""
    n_labels = node.shape[1]
    shift[n - 1] = 0.0
    for b in range(n_labels):
        beta[n - 1, b] = 0.0 if alpha[n - 1, b] > -np.inf else -np.inf
    for t in range(n - 1, 0, -1):
        row = node[node_index[lo + t]]
        matrix = edge[edge_index[lo + t]]
        for a in range(n_labels):
            if alpha[t - 1, a] == -np.inf:
                beta[t - 1, a] = -np.inf
                continue
            top = -np.inf
            for b in range(n_labels):
                top = max(top, matrix[a, b] + row[b] + beta[t, b] + (stop[b] if t == n - 1 else 0.0))
            beta[t - 1, a] = top
            if top > -np.inf:
                total = 0.0
                for b in range(n_labels):
                    total += np.exp(matrix[a, b] + row[b] + beta[t, b] + (stop[b] if t == n - 1 else 0.0) - top)
                beta[t - 1, a] = top + np.log(total)
        shift[t - 1] = beta[t - 1].max()
        for a in range(n_labels):
            beta[t - 1, a] -= shift[t - 1]


@njit(nogil=True, cache=True)
def infer_log(
    offsets, node, node_index, edge, edge_index, start, stop, weights,
    posterior, counts, before, after, log_partition, entropy, status,
):  # fmt: skip
    """Marginals, counts (m, K, K) and entropies of the FLAGGED instances; an instance without output: IMPOSSIBLE.

    before, after : (n_slots, K) logs of the factors of transitions, or no rows if they are not asked for
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
        shift = np.empty(n)
        log_partition[i] = forward_log(lo, n, node, node_index, edge, edge_index, start, stop, alpha)
        if log_partition[i] == -np.inf:
            status[i] = IMPOSSIBLE
            continue
        backward_log(lo, n, node, node_index, edge, edge_index, stop, alpha, beta, shift)
        total = 0.0
        log_before = 0.0
        for t in range(n):
            row = node[node_index[lo + t]]
            if t > 0:
                m = edge_index[lo + t]
                if before.shape[0] > 0:
                    for b in range(n_labels):
                        before[lo + t, b] = alpha[t - 1, b] - log_before
                        after[lo + t, b] = row[b] + beta[t, b] + (stop[b] if t == n - 1 else 0.0) - shift[t - 1]
                for a in range(n_labels):
                    if alpha[t - 1, a] == -np.inf:
                        continue
                    for b in range(n_labels):
                        step = edge[m, a, b] + row[b] + beta[t, b] + (stop[b] if t == n - 1 else 0.0) - shift[t - 1]
                        p = np.exp(alpha[t - 1, a] + step - log_before)
                        counts[m, a, b] += weights[i] * p
                        total -= times_score(p, step - beta[t - 1, a])
            log_before = log_sum_exp(alpha[t] + beta[t])
            for b in range(n_labels):
                log_p = alpha[t, b] + beta[t, b] - log_before
                posterior[lo + t, b] = np.exp(log_p)
                if t == 0:
                    total -= times_score(posterior[lo, b], log_p)
        entropy[i] = total
        status[i] = DONE


@njit(nogil=True, cache=True)
def times_score(probability, score):
    """probability · score, with 0 · −∞ = 0."""
    return probability * score if probability > 0.0 else 0.0


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
