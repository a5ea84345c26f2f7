"""Chains as a 0/1 program: paths through the slots.

    a slot uses one label                     Σ_k x(t, k) = 1
    edges carry the labels at both ends       Σ_a x(t, a, b) = x(t, b),   Σ_b x(t, a, b) = x(t − 1, a)

Every vertex of this polytope is an output, so its linear relaxation is fractional only where further rows make it so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.structures.chain_parts import ChainParts
from trellis.structures.polytope import Polytope


def chain_polytope(parts: ChainParts, node: FloatArray, edge: FloatArray, closed: IntArray, n_parts: int) -> Polytope:
    """Without variables for closed parts, for holes and for parts whose score is −inf.

    node : (n_slots, K) scores, those of the ends included;  edge : (n_slots, K, K)
    n_parts : parts with numbers from here on are left out (a categorical has none but labels)
    """
    from scipy.sparse import csr_array

    k, n_node = parts.n_labels, parts.n_node_parts
    score = np.concatenate((node.reshape(-1), edge.reshape(-1)))[:n_parts]
    is_open = score > -np.inf
    if n_parts > n_node:
        is_open[n_node:].reshape(parts.n_slots, -1)[~parts.has_boundary()] = False
    is_open[closed] = False
    used = np.flatnonzero(is_open)
    variable = np.full(n_parts, -1, dtype=np.int64)
    variable[used] = np.arange(len(used))
    matrix, bound = _equations(parts, used, variable, n_parts)
    whole = used < n_node

    def outputs(x: FloatArray) -> LabelArray:
        """The label of each slot with the largest variable."""
        share = np.full(n_node, -1.0)
        share[used[whole]] = x[whole]
        return np.asarray(share.reshape(-1, k).argmax(axis=1), dtype=np.int32)

    use = csr_array((np.ones(len(used)), (used, np.arange(len(used)))), shape=(n_parts, len(used)))
    # where the labels are whole, so are the edges between them
    return Polytope(matrix, bound, use, score[used], whole, outputs)


def _equations(parts: ChainParts, used: IntArray, variable: IntArray, n_parts: int) -> tuple[Any, FloatArray]:
    from scipy.sparse import csr_array

    k, n_node = parts.n_labels, parts.n_node_parts
    nodes = used[used < n_node]
    rows, columns, values = [nodes // k], [variable[nodes]], [np.ones(len(nodes))]
    n = parts.n_slots
    bound = [np.ones(n)]
    slots = np.flatnonzero(parts.has_boundary()) if n_parts > n_node else np.zeros(0, np.int64)
    place = np.zeros(parts.n_slots, dtype=np.int64)
    place[slots] = np.arange(len(slots))
    edges = used[used >= n_node] - n_node
    slot, before, label = edges // (k * k), edges // k % k, edges % k
    every = np.repeat(slots, k), np.tile(np.arange(k), len(slots))
    for end, at in ((label, every[0]), (before, every[0] - 1)):
        there = variable[at * k + every[1]]
        rows += [n + place[slot] * k + end, n + np.flatnonzero(there >= 0)]
        columns += [variable[edges + n_node], there[there >= 0]]
        values += [np.ones(len(edges)), -np.ones(np.count_nonzero(there >= 0))]
        n += len(slots) * k
        bound.append(np.zeros(len(slots) * k))
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return csr_array(entries, shape=(n, len(used))), np.concatenate(bound)
