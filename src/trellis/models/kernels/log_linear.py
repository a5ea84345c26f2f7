"""Sparse features times weights, and the transposed sum for gradients.

A weight belongs to a pair (feature, label). Pairs are laid out feature by feature: those of feature f are the numbers
first_pair[f] .. first_pair[f + 1] − 1, with labels pair_label; a pair that cannot occur has no weight at all.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def mark_pairs(indptr, indices, labels, marked):
    """marked[f, k] where feature f occurs with label k; an unknown label (−1) may be any."""
    for t in range(len(labels)):
        label = labels[t]
        for p in range(indptr[t], indptr[t + 1]):
            if label >= 0:
                marked[indices[p], label] = True
            else:
                marked[indices[p], :] = True


@njit(nogil=True, cache=True)
def add_scores(indptr, indices, values, first_pair, pair_label, weights, node):
    """node[t, k] += Σ_f value(t, f) · weight(f, k)."""
    for t in range(len(indptr) - 1):
        row = node[t]
        for p in range(indptr[t], indptr[t + 1]):
            f, x = indices[p], values[p]
            for j in range(first_pair[f], first_pair[f + 1]):
                row[pair_label[j]] += x * weights[j]


@njit(nogil=True, cache=True)
def add_expectations(offsets, instance_weights, indptr, indices, values, first_pair, pair_label, node, counts):
    """counts[(f, k)] += Σ_t weight of t's instance · value(t, f) · node[t, k]."""
    scaled = np.empty(node.shape[1])
    for i in range(len(offsets) - 1):
        weight = instance_weights[i]
        if weight == 0.0:
            continue
        for t in range(offsets[i], offsets[i + 1]):
            for k in range(len(scaled)):
                scaled[k] = weight * node[t, k]
            for p in range(indptr[t], indptr[t + 1]):
                f, x = indices[p], values[p]
                for j in range(first_pair[f], first_pair[f + 1]):
                    counts[j] += x * scaled[pair_label[j]]


@njit(nogil=True, cache=True)
def add_ends(offsets, instance_weights, node, start, stop):
    """start += Σ_i weight_i node[first slot of i], stop likewise with last slots."""
    for i in range(len(offsets) - 1):
        lo, hi = offsets[i], offsets[i + 1]
        if hi > lo:
            for k in range(len(start)):
                start[k] += instance_weights[i] * node[lo, k]
                stop[k] += instance_weights[i] * node[hi - 1, k]


@njit(nogil=True, cache=True)
def localise(indices, first_pair, n_features):
    """The features that occur, renumbered 0, 1, .. by first appearance: (local indices, pairs of the local ones).

    Returns local (len(indices),), first_local (n_local + 1,), pair (n_local_pairs,): the pair of each local pair.
    """
    place = np.full(n_features, -1, dtype=np.int32)
    local = np.empty(len(indices), dtype=np.int32)
    n, n_pairs = 0, 0
    found = np.empty(min(len(indices), n_features), dtype=np.int32)
    for p in range(len(indices)):
        f = indices[p]
        if place[f] < 0:
            place[f] = n
            found[n] = f
            n += 1
            n_pairs += first_pair[f + 1] - first_pair[f]
        local[p] = place[f]
    first_local = np.empty(n + 1, dtype=np.int64)
    pair = np.empty(n_pairs, dtype=np.int64)
    at = 0
    for i in range(n):
        first_local[i] = at
        for j in range(first_pair[found[i]], first_pair[found[i] + 1]):
            pair[at] = j
            at += 1
    first_local[n] = at
    return local, first_local, pair


@njit(nogil=True, cache=True)
def add_at(places, values, total):
    """total[places[i]] += values[i]."""
    for i in range(len(places)):
        total[places[i]] += values[i]
