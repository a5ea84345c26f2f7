"""Max-product on chains: the best output, a random one of the best, the k best, the best with a part, a given one.

    d_t(b) = max_a (d_{t−1}(a) + e_t(a, b)) + n_t(b)

All kernels add the parts of an output in this order, so equal outputs have equal bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def score_outputs(offsets, node, node_index, edge, edge_index, start, stop, labels, scores):
    """scores[i] = the score of instance i's labels."""
    for i in range(offsets.shape[0] - 1):
        lo, hi = offsets[i], offsets[i + 1]
        value = 0.0
        for t in range(lo, hi):
            b = labels[t]
            value = start[b] if t == lo else value + edge[edge_index[t], labels[t - 1], b]
            value += node[node_index[t], b]
        scores[i] = value + stop[labels[hi - 1]] if hi > lo else 0.0


@njit(nogil=True, cache=True)
def viterbi(offsets, node, node_index, edge, edge_index, start, stop, labels, scores):
    """Best labels of each instance, the colexicographically smallest among equals; score −∞ if there is none."""
    n_labels = node.shape[1]
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    came_from = np.empty((longest, n_labels), np.int32)
    current, nxt = np.empty(n_labels), np.empty(n_labels)
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        scores[i] = 0.0
        if n == 0:
            continue
        row = node[node_index[lo]]
        for b in range(n_labels):
            current[b] = start[b] + row[b]
        for t in range(1, n):
            matrix, row, pointers = edge[edge_index[lo + t]], node[node_index[lo + t]], came_from[t]
            for b in range(n_labels):
                nxt[b] = current[0] + matrix[0, b]
                pointers[b] = 0
            for a in range(1, n_labels):
                value = current[a]
                for b in range(n_labels):
                    reached = value + matrix[a, b]
                    if reached > nxt[b]:
                        nxt[b] = reached
                        pointers[b] = a
            for b in range(n_labels):
                nxt[b] += row[b]
            current, nxt = nxt, current
        best, where = -np.inf, 0
        for b in range(n_labels):
            value = current[b] + stop[b]
            if value > best:
                best, where = value, b
        scores[i] = best
        for t in range(n - 1, -1, -1):
            labels[lo + t] = where
            if t > 0:
                where = came_from[t, where]


@njit(nogil=True, cache=True)
def viterbi_random(offsets, node, node_index, edge, edge_index, start, stop, uniforms, labels, scores):
    """Best labels of each instance, drawn uniformly from all that are best; uniforms: (n_slots,) in [0, 1).

    Beside the best score of each prefix goes the logarithm of how many prefixes reach it; going back, a
    predecessor is drawn in proportion to that number.
    """
    n_labels = node.shape[1]
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        scores[i] = 0.0
        if n == 0:
            continue
        best = np.empty((n, n_labels))
        log_ways = np.zeros((n, n_labels))
        ending = np.empty(n_labels)
        for b in range(n_labels):
            best[0, b] = start[b] + node[node_index[lo], b]
        for t in range(1, n):
            matrix, row = edge[edge_index[lo + t]], node[node_index[lo + t]]
            for b in range(n_labels):
                top = -np.inf
                for a in range(n_labels):
                    top = max(top, best[t - 1, a] + matrix[a, b])
                best[t, b] = top + row[b]
                log_ways[t, b] = count_ways(best[t - 1], log_ways[t - 1], matrix[:, b], top)
        for b in range(n_labels):
            ending[b] = best[n - 1, b] + stop[b]
        target = ending.max()
        scores[i] = target
        if target == -np.inf:
            continue
        where = draw_way(best[n - 1], log_ways[n - 1], stop, target, uniforms[lo + n - 1])
        labels[lo + n - 1] = where
        for t in range(n - 1, 0, -1):
            matrix = edge[edge_index[lo + t]]
            top = -np.inf
            for a in range(n_labels):
                top = max(top, best[t - 1, a] + matrix[a, where])
            where = draw_way(best[t - 1], log_ways[t - 1], matrix[:, where], top, uniforms[lo + t - 1])
            labels[lo + t - 1] = where


@njit(nogil=True, cache=True)
def count_ways(best, log_ways, added, top):
    """log Σ exp(log_ways[a]) over the a with best[a] + added[a] = top."""
    most = -np.inf
    for a in range(best.shape[0]):
        if best[a] + added[a] == top:
            most = max(most, log_ways[a])
    total = 0.0
    for a in range(best.shape[0]):
        if best[a] + added[a] == top:
            total += np.exp(log_ways[a] - most)
    return most + np.log(total)


@njit(nogil=True, cache=True)
def draw_way(best, log_ways, added, top, uniform):
    """An a with best[a] + added[a] = top, with probability in proportion to exp(log_ways[a])."""
    left = uniform
    log_total = count_ways(best, log_ways, added, top)
    chosen = 0
    for a in range(best.shape[0]):
        if best[a] + added[a] == top:
            chosen = a
            left -= np.exp(log_ways[a] - log_total)
            if left < 0.0:
                return a
    return chosen


@njit(nogil=True, cache=True)
def kbest(offsets, node, node_index, edge, edge_index, start, stop, labels, scores):
    """The k best outputs of each instance: labels (k, n_slots), scores (k, n_instances); −1 and −∞ past the last."""
    n_labels = node.shape[1]
    k = labels.shape[0]
    pointer = np.empty(n_labels, np.int64)
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        for r in range(k):
            scores[r, i] = -np.inf
            for t in range(lo, lo + n):
                labels[r, t] = -1
        if n == 0:
            scores[0, i] = 0.0
            continue
        value = np.full((n, n_labels, k), -np.inf)
        source = np.zeros((n, n_labels, k), np.int64)
        for b in range(n_labels):
            value[0, b, 0] = start[b] + node[node_index[lo], b]
        for t in range(1, n):
            matrix, row = edge[edge_index[lo + t]], node[node_index[lo + t]]
            for b in range(n_labels):
                merge_best(value[t - 1], matrix[:, b], row[b], pointer, value[t, b], source[t, b])
        last_value = np.full(k, -np.inf)
        last_source = np.zeros(k, np.int64)
        merge_best(value[n - 1], stop, 0.0, pointer, last_value, last_source)
        for r in range(k):
            if last_value[r] == -np.inf:
                break
            scores[r, i] = last_value[r]
            a, rank = last_source[r] // k, last_source[r] % k
            labels[r, lo + n - 1] = a
            for t in range(n - 1, 0, -1):
                came = source[t, a, rank]
                a, rank = came // k, came % k
                labels[r, lo + t - 1] = a


@njit(nogil=True, cache=True)
def merge_best(previous, added, then_added, pointer, value, source):
    """The k best of previous[a, rank] + added[a] + then_added; each previous[a] falls with rank."""
    n_labels, k = previous.shape
    pointer[:] = 0
    for r in range(k):
        top, where = -np.inf, -1
        for a in range(n_labels):
            if pointer[a] < k:
                candidate = previous[a, pointer[a]] + added[a]
                if candidate > top:
                    top, where = candidate, a
        if where < 0 or top + then_added == -np.inf:
            break
        value[r] = top + then_added
        source[r] = where * k + pointer[where]
        pointer[where] += 1


@njit(nogil=True, cache=True)
def best_completions(node, node_index, edge, edge_index, stop, lo, n, best):
    """best[t, b] = largest score of slots t + 1.. of an instance after label b in slot t, stop included.

    lo, n : its first slot and its length, at least 1;  best : (≥ n, K)
    """
    n_labels = node.shape[1]
    for b in range(n_labels):
        best[n - 1, b] = stop[b]
    for t in range(n - 2, -1, -1):
        matrix, row = edge[edge_index[lo + t + 1]], node[node_index[lo + t + 1]]
        for a in range(n_labels):
            top = -np.inf
            for b in range(n_labels):
                top = max(top, matrix[a, b] + (row[b] + best[t + 1, b]))
            best[t, a] = top


@njit(nogil=True, cache=True)
def max_marginals(offsets, node, node_index, edge, edge_index, start, stop, of_node, of_edge):
    """of_node (n_slots, K) and of_edge (n_slots, K, K) = best score of an output with this label, or these two labels;
    of_edge is −∞ at first slots."""
    n_labels, longest = node.shape[1], 1
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    best = np.empty((longest, n_labels))
    so_far, after = np.empty(n_labels), np.empty(n_labels)
    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        if n == 0:
            continue
        best_completions(node, node_index, edge, edge_index, stop, lo, n, best)
        so_far[:] = start + node[node_index[lo]]
        of_edge[lo] = -np.inf
        of_node[lo] = so_far + best[0]
        for t in range(1, n):
            matrix, row = edge[edge_index[lo + t]], node[node_index[lo + t]]
            after[:] = -np.inf
            for a in range(n_labels):
                for b in range(n_labels):
                    value = so_far[a] + matrix[a, b] + row[b]
                    after[b] = max(after[b], value)
                    of_edge[lo + t, a, b] = value + best[t, b]
            so_far[:] = after
            of_node[lo + t] = so_far + best[t]
