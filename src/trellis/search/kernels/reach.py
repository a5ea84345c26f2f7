"""Max-marginals: the best score of an output that uses a part."""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.search.kernels.prefix import completions


@njit(nogil=True, cache=True)
def max_marginals(scores, n, node, edge):
    """node (n, K) and edge (n, K, K), edge of the first slot −∞, of a batch of one instance with n ≥ 1 slots."""
    K = node.shape[1]
    best = np.empty((n, K))
    completions(scores, 0, n, best)
    so_far, reached = scores.start + scores.node[scores.node_index[0]], np.empty(K)
    edge[0] = -np.inf
    node[0] = so_far + best[0]
    for t in range(1, n):
        matrix, row = scores.edge[scores.edge_index[t]], scores.node[scores.node_index[t]]
        reached[:] = -np.inf
        for a in range(K):
            for b in range(K):
                value = so_far[a] + matrix[a, b] + row[b]
                reached[b] = max(reached[b], value)
                edge[t, a, b] = value + best[t, b]
        so_far[:] = reached
        node[t] = so_far + best[t]
