"""Forward-backward and Viterbi of one sequence in log space, for lengths that cannot be enumerated.

Rabiner 1989, eq. 19-20, 24-25 and 33 with every product written as a sum of logs. The forward and
backward vectors are recentred at every slot, so that their rounding does not grow with the length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


def _log_sum_exp(values: np.ndarray, axis: int) -> np.ndarray:
    top = np.max(values, axis=axis, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.squeeze(safe, axis) + np.log(np.sum(np.exp(values - safe), axis=axis))


@dataclass(frozen=True)
class LogSpace:
    """log_partition, node : (T, K), edge : (T, K, K) with zeros at slot 0, entropy."""

    log_partition: float
    node: np.ndarray
    edge: np.ndarray
    entropy: float


def forward_backward(node: np.ndarray, edge: np.ndarray, start: np.ndarray, stop: np.ndarray) -> LogSpace:
    """node : (T, K), edge : (K, K) or (T, K, K) with the matrix before slot t; start, stop : (K,)."""
    length, n_labels = node.shape
    edges = np.broadcast_to(edge, (length, n_labels, n_labels))
    node = node.copy()
    node[0] += start
    node[-1] += stop
    alpha, beta = np.empty_like(node), np.zeros_like(node)
    shifts = []
    for t in range(length):
        message = node[0] if t == 0 else _log_sum_exp(alpha[t - 1][:, None] + edges[t], 0) + node[t]
        shifts.append(float(np.max(message)))
        alpha[t] = message - shifts[-1]
    log_partition = math.fsum([*shifts, float(_log_sum_exp(alpha[-1], 0))])
    for t in range(length - 2, -1, -1):
        message = _log_sum_exp(edges[t + 1] + (node[t + 1] + beta[t + 1])[None, :], 1)
        beta[t] = message - np.max(message)
    node_log = alpha + beta
    node_log = node_log - _log_sum_exp(node_log, 1)[:, None]
    edge_log = alpha[:-1, :, None] + edges[1:] + (node[1:] + beta[1:])[:, None, :]
    edge_log = edge_log - _log_sum_exp(edge_log.reshape(length - 1, -1), 1)[:, None, None]
    edge_marginals = np.zeros((length, n_labels, n_labels))
    edge_marginals[1:] = np.exp(edge_log)
    node_marginals = np.exp(node_log)
    entropy = _plogp(node_log[0])
    for t in range(1, length):
        entropy += _plogp(edge_log[t - 1]) - _plogp(node_log[t - 1])
    return LogSpace(log_partition, node_marginals, edge_marginals, entropy)


def _plogp(log_p: np.ndarray) -> float:
    """-sum p log p with 0 log 0 = 0."""
    possible = log_p > -math.inf
    return -float(np.sum(np.exp(log_p[possible]) * log_p[possible]))


def viterbi_score(node: np.ndarray, edge: np.ndarray, start: np.ndarray, stop: np.ndarray) -> float:
    """The best score of an output; arguments as for :func:`forward_backward`."""
    length, n_labels = node.shape
    edges = np.broadcast_to(edge, (length, n_labels, n_labels))
    best = start + node[0]
    for t in range(1, length):
        best = np.max(best[:, None] + edges[t], axis=0) + node[t]
    return float(np.max(best + stop))
