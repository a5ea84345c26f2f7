"""Derivatives of a chain's marginals in log space, for the instances that scaled probabilities do not serve.

The derivative of the logarithm of a sum over paths is a mean over these paths of what the direction says of them:

    m_t(b) = n_t(b) + Σ_a P(y_{t−1} = a | y_t = b, before) (m_{t−1}(a) + e_t(a, b))      likewise k_t from the end
    Ṗ(y_t = b) = P(y_t = b) (m_t(b) + k_t(b) − d),      d = Σ_b P(y_n = b) m_n(b)
"""

from __future__ import annotations

import numpy as np

from trellis.data.ragged import FloatArray


def derive_log(
    node: FloatArray, edge: FloatArray, direction: FloatArray, edge_direction: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Derivatives of the marginals of one instance's labels (n, K) and transitions (n, K, K), and d.

    node, direction : (n, K), start and stop included;  edge, edge_direction : (n, K, K), the first not looked at
    """
    n, k = node.shape
    alpha, beta, left, right = node.copy(), np.zeros((n, k)), direction.copy(), np.zeros((n, k))
    for t in range(1, n):
        top, share = _logs(alpha[t - 1][:, None] + edge[t], axis=0)
        alpha[t] += top
        left[t] += (share * (left[t - 1][:, None] + edge_direction[t])).sum(axis=0)
    for t in range(n - 1, 0, -1):
        top, share = _logs(edge[t] + (node[t] + beta[t])[None, :], axis=1)
        beta[t - 1] = top
        right[t - 1] = (share * ((direction[t] + right[t])[None, :] + edge_direction[t])).sum(axis=1)
    log_partition, share = _logs(alpha[-1], axis=0)
    slope = float(share @ left[-1])
    derivative = np.exp(alpha + beta - log_partition) * (left + right - slope)
    of_edges = np.zeros((n, k, k))
    for t in range(1, n):
        p = np.exp(alpha[t - 1][:, None] + edge[t] + (node[t] + beta[t])[None, :] - log_partition)
        along = left[t - 1][:, None] + edge_direction[t] + (direction[t] + right[t])[None, :]
        of_edges[t] = p * (along - slope)
    return derivative, of_edges, slope


def _logs(scores: FloatArray, axis: int) -> tuple[FloatArray, FloatArray]:
    """log Σ exp along an axis, and the shares of what is summed; no shares where nothing is possible."""
    top = scores.max(axis=axis, keepdims=True)
    powers = np.exp(scores - np.where(top > -np.inf, top, 0.0))
    total = powers.sum(axis=axis, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = np.squeeze(np.log(total) + top, axis=axis)
    return logs, powers / np.where(total > 0, total, 1.0)
