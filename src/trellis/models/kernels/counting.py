"""Expected counts of chains, and M-steps that are one pass over a table."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def rows_used(codes, n_rows):
    """The distinct codes in order of first appearance, and the place of each slot's code among them (n_slots,)."""
    place_of = np.full(n_rows, -1, dtype=np.int32)
    rows = np.empty(min(len(codes), n_rows), dtype=np.int32)
    places = np.empty(len(codes), dtype=np.int32)
    n = 0
    for t in range(len(codes)):
        code = codes[t]
        if place_of[code] < 0:
            place_of[code] = n
            rows[n] = code
            n += 1
        places[t] = place_of[code]
    return rows[:n].copy(), places


@njit(nogil=True, cache=True)
def add_slots(offsets, weights, places, node, counts):
    """counts[places[t]] += weight of t's instance · node[t]; return Σ_i weight_i node[first slot of i], (K,)."""
    k = node.shape[1]
    first = np.zeros(k)
    for i in range(len(offsets) - 1):
        lo, hi = offsets[i], offsets[i + 1]
        weight = weights[i]
        if hi > lo:
            for j in range(k):
                first[j] += weight * node[lo, j]
        for t in range(lo, hi):
            row, marginal = counts[places[t]], node[t]
            for j in range(k):
                row[j] += weight * marginal[j]
    return first


@njit(nogil=True, cache=True)
def add_rows(rows, values, counts):
    """counts[rows[i]] += values[i]."""
    k = counts.shape[1]
    for i in range(len(rows)):
        row, value = counts[rows[i]], values[i]
        for j in range(k):
            row[j] += value[j]


@njit(nogil=True, cache=True)
def count_labels(offsets, weights, codes, labels, start, edge, emission):
    """Counts of known labels: of first slots, of neighbours both known, and with the codes of their slots."""
    for i in range(len(offsets) - 1):
        lo, hi = offsets[i], offsets[i + 1]
        weight = weights[i]
        for t in range(lo, hi):
            label = labels[t]
            if label < 0:
                continue
            emission[codes[t], label] += weight
            if t == lo:
                start[label] += weight
            elif labels[t - 1] >= 0:
                edge[labels[t - 1], label] += weight


@njit(nogil=True, cache=True)
def normalise_columns(counts, out):
    """out = counts / column sums; return the column sums. A column without counts is left as zeros."""
    n, k = counts.shape
    total = np.zeros(k)
    for i in range(n):
        for j in range(k):
            total[j] += counts[i, j]
    inverse = np.zeros(k)
    for j in range(k):
        if total[j] > 0.0:
            inverse[j] = 1.0 / total[j]
    for i in range(n):
        for j in range(k):
            out[i, j] = counts[i, j] * inverse[j]
    return total
