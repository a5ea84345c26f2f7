"""Least and largest value of a row over all outputs, and the parts that outputs of least value never use.

An output is a path through the slots, so both are shortest paths (min-plus forward and backward recursions) over the
stretch of slots that a row names. Rows of several instances are handled an instance at a time. Entries of a row are
sorted by part: node parts in the order of slots, then edge parts in the order of slots.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FAR = np.int64(2**62)


@njit(nogil=True, cache=True)
def row_extremes(start, first_edge, part, coefficient, offsets, instance_of_slot, n_node, K, low, high):
    """low[r], high[r] = min, max over outputs of Σ coefficient · part.

    start, first_edge : (n_rows + 1,), (n_rows,) node entries start[r]..first_edge[r] − 1, edge entries up to the end
    part, coefficient : (n_entries,)
    offsets, instance_of_slot : (n_instances + 1,), (n_slots,)
    low, high : (n_rows,) written
    """
    least, most = np.empty(K), np.empty(K)
    next_least, next_most = np.empty(K), np.empty(K)
    edge = np.zeros((K, K))
    for r in range(len(low)):
        p, e = start[r], first_edge[r]
        last_p, last_e = first_edge[r], start[r + 1]
        low[r], high[r] = 0.0, 0.0
        while p < last_p or e < last_e:
            node_slot = part[p] // K if p < last_p else FAR
            edge_slot = (part[e] - n_node) // (K * K) if e < last_e else FAR
            slot = min(node_slot, edge_slot - 1)
            end = offsets[instance_of_slot[slot] + 1]
            for k in range(K):
                least[k], most[k] = 0.0, 0.0
            while p < last_p and part[p] // K == slot:
                least[part[p] % K] += coefficient[p]
                most[part[p] % K] += coefficient[p]
                p += 1
            while True:
                node_slot = part[p] // K if p < last_p else FAR
                edge_slot = (part[e] - n_node) // (K * K) if e < last_e else FAR
                ahead = min(node_slot, edge_slot)
                if ahead >= end:
                    break
                if ahead > slot + 1 or edge_slot != ahead:
                    # no entry on the way: any label follows any other
                    smallest, largest = np.inf, -np.inf
                    for k in range(K):
                        smallest, largest = min(smallest, least[k]), max(largest, most[k])
                    for k in range(K):
                        least[k], most[k] = smallest, largest
                slot = ahead
                if edge_slot == slot:
                    edge[:] = 0.0
                    while e < last_e and (part[e] - n_node) // (K * K) == slot:
                        within = (part[e] - n_node) % (K * K)
                        edge[within // K, within % K] = coefficient[e]
                        e += 1
                    for b in range(K):
                        smallest, largest = np.inf, -np.inf
                        for a in range(K):
                            smallest = min(smallest, least[a] + edge[a, b])
                            largest = max(largest, most[a] + edge[a, b])
                        next_least[b], next_most[b] = smallest, largest
                    for k in range(K):
                        least[k], most[k] = next_least[k], next_most[k]
                while p < last_p and part[p] // K == slot:
                    least[part[p] % K] += coefficient[p]
                    most[part[p] % K] += coefficient[p]
                    p += 1
            smallest, largest = np.inf, -np.inf
            for k in range(K):
                smallest, largest = min(smallest, least[k]), max(largest, most[k])
            low[r] += smallest
            high[r] += largest


@njit(nogil=True, cache=True)
def parts_never_least(margin, start, first_edge, part, coefficient, offsets, instance_of_slot, n_node, K, nodes, edges):
    """Parts that no output of least value uses, row by row.

    An edge is left out where one of its two nodes is listed. Writes node parts and edge parts as far as ``nodes`` and
    ``edges`` are long enough and returns how many of each there are: call once with empty arrays to learn that.

    margin : (n_rows,) by how much two sums may differ and yet count as equal
    """
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    node, edge = np.zeros((longest, K)), np.zeros((longest, K, K))
    forward, backward = np.zeros((longest, K)), np.zeros((longest, K))
    used = np.zeros((longest, K), dtype=np.bool_)
    n_nodes, n_edges = 0, 0
    for r in range(len(margin)):
        p, e = start[r], first_edge[r]
        last_p, last_e = first_edge[r], start[r + 1]
        while p < last_p or e < last_e:
            node_slot = part[p] // K if p < last_p else FAR
            edge_slot = (part[e] - n_node) // (K * K) if e < last_e else FAR
            first = min(node_slot, edge_slot - 1)
            end = offsets[instance_of_slot[first] + 1]
            length = 1
            q, f = p, e
            while q < last_p and part[q] // K < end:
                length = max(length, part[q] // K - first + 1)
                q += 1
            while f < last_e and (part[f] - n_node) // (K * K) < end:
                length = max(length, (part[f] - n_node) // (K * K) - first + 1)
                f += 1
            for t in range(length):
                for b in range(K):
                    node[t, b] = 0.0
                    for a in range(K):
                        edge[t, a, b] = 0.0
            for i in range(p, q):
                node[part[i] // K - first, part[i] % K] = coefficient[i]
            for i in range(e, f):
                within = (part[i] - n_node) % (K * K)
                edge[(part[i] - n_node) // (K * K) - first, within // K, within % K] = coefficient[i]
            p, e = q, f
            for b in range(K):
                forward[0, b], backward[length - 1, b] = node[0, b], 0.0
            for t in range(1, length):
                for b in range(K):
                    smallest = np.inf
                    for a in range(K):
                        smallest = min(smallest, forward[t - 1, a] + edge[t, a, b])
                    forward[t, b] = smallest + node[t, b]
            for t in range(length - 2, -1, -1):
                for a in range(K):
                    smallest = np.inf
                    for b in range(K):
                        smallest = min(smallest, edge[t + 1, a, b] + node[t + 1, b] + backward[t + 1, b])
                    backward[t, a] = smallest
            smallest = np.inf
            for b in range(K):
                smallest = min(smallest, forward[length - 1, b])
            limit = smallest + margin[r]
            for t in range(length):
                for k in range(K):
                    used[t, k] = forward[t, k] + backward[t, k] <= limit
                    if not used[t, k]:
                        if n_nodes < len(nodes):
                            nodes[n_nodes] = (first + t) * K + k
                        n_nodes += 1
            for t in range(1, length):
                for a in range(K):
                    for b in range(K):
                        if used[t - 1, a] and used[t, b]:
                            through = forward[t - 1, a] + edge[t, a, b] + node[t, b] + backward[t, b]
                            if through > limit:
                                if n_edges < len(edges):
                                    edges[n_edges] = n_node + ((first + t) * K + a) * K + b
                                n_edges += 1
    return n_nodes, n_edges
