"""Sum-product on chains with scaled probabilities.

With potentials E_t (edges), N_t (nodes; start and stop folded in), per instance:

    α_t(b) = N_t(b) Σ_a α_{t−1}(a) E_t(a, b) / c_t,      c_t such that Σ_b α_t(b) = 1
    w_t(b) = N_t(b) β_t(b) / c_t,                        β_{t−1}(a) = Σ_b E_t(a, b) w_t(b)
    P(y_t = b) = α_t(b) β_t(b),                          P(y_{t−1} = a, y_t = b) = α_{t−1}(a) E_t(a, b) w_t(b)

Expected edge counts of a shared matrix need E only once, at the end: E ∘ Σ_t α_{t−1} w_tᵀ.

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
def push(x, matrix, out):
    """out = x · matrix, four rows at a time so that ``out`` is loaded and stored a quarter as often."""
    n = x.shape[0]
    for b in range(n):
        out[b] = 0.0
    a = 0
    while a + 4 <= n:
        x0, x1, x2, x3 = x[a], x[a + 1], x[a + 2], x[a + 3]
        for b in range(n):
            out[b] += x0 * matrix[a, b] + x1 * matrix[a + 1, b] + x2 * matrix[a + 2, b] + x3 * matrix[a + 3, b]
        a += 4
    while a < n:
        x0 = x[a]
        for b in range(n):
            out[b] += x0 * matrix[a, b]
        a += 1


@njit(nogil=True, cache=True)
def add_outer_products(alpha, w, weight, edge_index, lo, counts_t):
    """counts_t[m, b, a] += weight · Σ_{t: matrix m} alpha[t−1, a] w[t, b], four boundaries of one matrix at a time."""
    n, n_labels = alpha.shape
    t = 1
    while t < n:
        m = edge_index[lo + t]
        counts = counts_t[m]
        following = edge_index[lo + t + 1 : lo + t + 4]
        if t + 4 <= n and following[0] == m and following[1] == m and following[2] == m:
            for b in range(n_labels):
                w0, w1, w2, w3 = weight * w[t, b], weight * w[t + 1, b], weight * w[t + 2, b], weight * w[t + 3, b]
                for a in range(n_labels):
                    counts[b, a] += (
                        alpha[t - 1, a] * w0 + alpha[t, a] * w1 + alpha[t + 1, a] * w2 + alpha[t + 2, a] * w3
                    )
            t += 4
        else:
            for b in range(n_labels):
                w0 = weight * w[t, b]
                for a in range(n_labels):
                    counts[b, a] += alpha[t - 1, a] * w0
            t += 1


@njit(nogil=True, cache=True)
def forward(lo, n, node, node_index, edge, edge_index, start, stop, alpha, scale):
    """Fill alpha (n, K) and scale[t] = 1 / c_t; return (Σ log c_t, whether scaled probabilities sufficed)."""
    n_labels = node.shape[1]
    log_sum = 0.0
    product = 1.0
    for t in range(n):
        current = alpha[t]
        if t == 0:
            for b in range(n_labels):
                current[b] = start[b]
        else:
            push(alpha[t - 1], edge[edge_index[lo + t]], current)
        if t == n - 1:
            for b in range(n_labels):
                current[b] *= stop[b]
        row = node[node_index[lo + t]]
        total = 0.0
        for b in range(n_labels):
            current[b] *= row[b]
        for b in range(n_labels):
            total += current[b]
        if not total > SMALLEST_SCALE:
            return -np.inf, False
        inverse = 1.0 / total
        for b in range(n_labels):
            current[b] *= inverse
        scale[t] = inverse
        # One logarithm for many tokens: the running product is folded in before it leaves the range of doubles.
        product *= total
        if product < 1e-200 or product > 1e200:
            log_sum += np.log(product)
            product = 1.0
    return log_sum + np.log(product), True


@njit(nogil=True, cache=True)
def backward(lo, n, node, node_index, edge_t, edge_index, stop, alpha, scale, w, beta, posterior):
    """Fill w (n, K) and the node marginals posterior (n, K); return whether scaled probabilities sufficed."""
    n_labels = node.shape[1]
    for b in range(n_labels):
        beta[b] = 1.0
    for t in range(n - 1, 0, -1):
        row = node[node_index[lo + t]]
        alpha_t, w_t, out = alpha[t], w[t], posterior[t]
        inverse = scale[t]
        for b in range(n_labels):
            out[b] = alpha_t[b] * beta[b]
            w_t[b] = row[b] * beta[b] * inverse
        if t == n - 1:
            for b in range(n_labels):
                w_t[b] *= stop[b]
        push(w_t, edge_t[edge_index[lo + t]], beta)
        n_large = 0
        for b in range(n_labels):
            n_large += beta[b] > LARGEST_BETA
        if n_large > 0:
            return False
    for b in range(n_labels):
        posterior[0, b] = alpha[0, b] * beta[b]
    return True


@njit(nogil=True, cache=True)
def infer_scaled(
    offsets, node, node_index, edge, edge_t, edge_index, start, stop, weights,
    posterior, counts_t, before, after, log_partition, status,
):  # fmt: skip
    """Marginals of a whole batch; instances that need log space get status FLAGGED and contribute nothing.

    before, after : (n_slots, K) factors of the marginals of transitions, or no rows if they are not asked for
    log_partition is that of the potentials.
    """
    n_labels = node.shape[1]
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    alpha = np.empty((longest, n_labels))
    w = np.empty((longest, n_labels))
    beta = np.empty(n_labels)
    scale = np.empty(longest)
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        status[i] = DONE
        log_partition[i] = 0.0
        if n == 0:
            continue
        log_partition[i], enough = forward(lo, n, node, node_index, edge, edge_index, start, stop, alpha, scale)
        if enough:
            enough = backward(
                lo, n, node, node_index, edge_t, edge_index, stop, alpha, scale, w, beta, posterior[lo : lo + n]
            )
        if not enough:
            status[i] = FLAGGED
            continue
        add_outer_products(alpha[:n], w[:n], weights[i], edge_index, lo, counts_t)
        if before.shape[0] > 0:
            for t in range(1, n):
                for b in range(n_labels):
                    before[lo + t, b], after[lo + t, b] = alpha[t - 1, b], w[t, b]


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


@njit(nogil=True, cache=True)
def entropies_scaled(
    offsets, node, node_index, edge, edge_t, edge_index, start, stop,
    node_score, edge_score_t, start_score, stop_score, entropy, status,
):  # fmt: skip
    """log Z − E[score(y)] of each instance; all scores are logarithms of the potentials (0 where these are 0), and
    ``edge_score_t`` holds E(a, b) · log E(a, b), transposed."""
    n_labels = node.shape[1]
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    alpha = np.empty((longest, n_labels))
    w = np.empty((longest, n_labels))
    posterior = np.empty((longest, n_labels))
    beta = np.empty(n_labels)
    scale = np.empty(longest)
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        status[i] = DONE
        entropy[i] = 0.0
        if n == 0:
            continue
        total, enough = forward(lo, n, node, node_index, edge, edge_index, start, stop, alpha, scale)
        if enough:
            enough = backward(lo, n, node, node_index, edge_t, edge_index, stop, alpha, scale, w, beta, posterior[:n])
        if not enough:
            status[i] = FLAGGED
            continue
        for t in range(n):
            row = node_score[node_index[lo + t]]
            for b in range(n_labels):
                total -= times_score(posterior[t, b], row[b])
            if t > 0:
                push(w[t], edge_score_t[edge_index[lo + t]], beta)
                for a in range(n_labels):
                    total -= alpha[t - 1, a] * beta[a]
        for b in range(n_labels):
            total -= times_score(posterior[0, b], start_score[b]) + times_score(posterior[n - 1, b], stop_score[b])
        entropy[i] = max(total, 0.0)


@njit(nogil=True, cache=True)
def times_score(probability, score):
    """probability · score, with 0 · −∞ = 0."""
    return probability * score if probability > 0.0 else 0.0
