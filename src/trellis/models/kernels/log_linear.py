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
def add_scores(indptr, local, values, dense, first_pair, pair_label, weights, node):
    """node[t, k] += Σ_f value(t, f) · weight(f, k).

    local : feature numbers of :func:`localise`, r ≥ 0 for row r of ``dense`` and −1 − f for the pairs of f
    """
    n_labels = node.shape[1]
    for t in range(len(indptr) - 1):
        row = node[t]
        for p in range(indptr[t], indptr[t + 1]):
            f, x = local[p], values[p]
            if f >= 0:
                weight = dense[f]
                for k in range(n_labels):
                    row[k] += x * weight[k]
            else:
                for j in range(first_pair[-1 - f], first_pair[-f]):
                    row[pair_label[j]] += x * weights[j]


@njit(nogil=True, cache=True)
def add_expectations(offsets, instance_weights, indptr, local, values, first_pair, pair_label, node, dense, counts):
    """counts[(f, k)] += Σ_t weight of t's instance · value(t, f) · node[t, k], in ``dense`` or in ``counts``."""
    n_labels = node.shape[1]
    scaled = np.empty(n_labels)
    for i in range(len(offsets) - 1):
        weight = instance_weights[i]
        if weight == 0.0:
            continue
        for t in range(offsets[i], offsets[i + 1]):
            for k in range(n_labels):
                scaled[k] = weight * node[t, k]
            for p in range(indptr[t], indptr[t + 1]):
                f, x = local[p], values[p]
                if f >= 0:
                    count = dense[f]
                    for k in range(n_labels):
                        count[k] += x * scaled[k]
                else:
                    for j in range(first_pair[-1 - f], first_pair[-f]):
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
def localise(indices, first_pair, pair_label, n_labels):
    """Renumber the features that occur, by first appearance, apart by how many labels they go with.

    A feature with at least a quarter of the labels gets a full row of a small table, which a loop over all labels
    walks faster than its pairs; the number of its row is ≥ 0. Others are numbered −1, −2, .. and keep their pairs.

    Returns local (len(indices),); of the table its n_rows, the pairs that it holds and their places in it, flat;
    of the others first_local (n_others + 1,) and pair (n_pairs,), the pair of each of their pairs.
    """
    n_features = len(first_pair) - 1
    number = np.zeros(n_features, dtype=np.int32)
    seen = np.zeros(n_features, dtype=np.bool_)
    local = np.empty(len(indices), dtype=np.int32)
    order = np.empty(min(len(indices), n_features), dtype=np.int32)
    n, n_rows, n_others, n_row_pairs, n_other_pairs = 0, 0, 0, 0, 0
    for p in range(len(indices)):
        f = indices[p]
        if not seen[f]:
            seen[f] = True
            order[n] = f
            n += 1
            n_pairs = first_pair[f + 1] - first_pair[f]
            if 4 * n_pairs >= n_labels:
                number[f] = n_rows
                n_rows += 1
                n_row_pairs += n_pairs
            else:
                number[f] = -1 - n_others
                n_others += 1
                n_other_pairs += n_pairs
        local[p] = number[f]
    row_pair, place = np.empty(n_row_pairs, dtype=np.int64), np.empty(n_row_pairs, dtype=np.int64)
    first_local, pair = np.zeros(n_others + 1, dtype=np.int64), np.empty(n_other_pairs, dtype=np.int64)
    at_row, at_other = 0, 0
    for i in range(n):
        f = order[i]
        for j in range(first_pair[f], first_pair[f + 1]):
            if number[f] >= 0:
                row_pair[at_row] = j
                place[at_row] = number[f] * n_labels + pair_label[j]
                at_row += 1
            else:
                pair[at_other] = j
                at_other += 1
        if number[f] < 0:
            first_local[-number[f]] = at_other
    return local, n_rows, row_pair, place, first_local, pair


@njit(nogil=True, cache=True)
def find_pairs(features, labels, first_pair, pair_label):
    """The pair of each feature with each label (n,), −1 where there is none; the labels of a feature's pairs rise."""
    place = np.empty(len(features), dtype=np.int64)
    for e in range(len(features)):
        lo, end = first_pair[features[e]], first_pair[features[e] + 1]
        hi = end
        while lo < hi:
            middle = (lo + hi) // 2
            if pair_label[middle] < labels[e]:
                lo = middle + 1
            else:
                hi = middle
        place[e] = lo if lo < end and pair_label[lo] == labels[e] else -1
    return place
