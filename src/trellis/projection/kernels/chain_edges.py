"""Rows over transitions against the matrices of one instance's chain.

Boundaries at which rows have the same entries, and the model the same scores, share a matrix whatever θ is:

    matrix_m(a, b) = potential(a, b) · exp(−Σ_r θ_r c_r(a, b)),      E_q[φ_r] = Σ_m Σ_{a,b} c_r(a, b) · pairs_m(a, b)

with pairs_m = Σ_{t: matrix m} P(y_{t−1} = a, y_t = b). So an instance costs K² numbers a matrix, and not a boundary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from trellis.projection.kernels.exponential import exponentiate


class Edges(NamedTuple):
    """What rows say of transitions, and the matrices of all instances.

    start : (n_patterns + 1,) entries of each pattern, of which the first has none
    row, cell, coefficient : (n_entries,) number of the row inside its instance, a · K + b, and c; by row in a pattern
    first : (n_instances + 1,) matrices of each instance, none where its rows name no transition
    pattern, own : (n_matrices,) what is added to which of the model's matrices;  index : (n_slots,) matrix of the
        boundary before each slot, counted inside the instance
    """

    start: Any
    row: Any
    cell: Any
    coefficient: Any
    first: Any
    pattern: Any
    own: Any
    index: Any


@njit(nogil=True, cache=True)
def tilt_matrices(edges, i, lo, n, potential, shifts, theta, lower, tilt, scratch, edge, edge_t):
    """Fill edge (n_matrices, K, K) and its transpose; returns the sum of shifts over the boundaries.

    lower : whether tilts are shifted so that the largest possible entry of each matrix stays in range
    """
    k = potential.shape[1]
    low = edges.first[i]
    n_matrices = edges.first[i + 1] - low
    tops = np.empty(n_matrices)
    for m in range(n_matrices):
        own, pattern = edges.own[low + m], edges.pattern[low + m]
        matrix, flat = potential[own], tilt[m].reshape(-1)
        flat[:] = 0.0
        for e in range(edges.start[pattern], edges.start[pattern + 1]):
            flat[edges.cell[e]] -= theta[edges.row[e]] * edges.coefficient[e]
        tops[m] = shifts[own] + (lower_to_zero(matrix.reshape(-1), flat) if lower else 0.0)
        exponentiate(flat, scratch[m].reshape(-1), edge[m].reshape(-1))
        for a in range(k):
            for b in range(k):
                edge[m, a, b] *= matrix[a, b]
                edge_t[m, b, a] = edge[m, a, b]
    shift = 0.0
    for t in range(1, n):
        shift += tops[edges.index[lo + t]]
    return shift


@njit(nogil=True, cache=True)
def lower_to_zero(potential, tilt):
    """Subtract from a tilt its largest entry among those that are possible, and return it."""
    top = -np.inf
    for k in range(tilt.shape[0]):
        if potential[k] > 0.0 and tilt[k] > top:
            top = tilt[k]
    if top == -np.inf:
        return 0.0
    for k in range(tilt.shape[0]):
        tilt[k] = min(tilt[k] - top, 0.0)
    return top


@njit(nogil=True, cache=True)
def fill_pairs(n_matrices, outer_t, edge, pairs):
    """pairs_m from the sums of outer products outer_t[m, b, a]."""
    k = edge.shape[1]
    for m in range(n_matrices):
        for a in range(k):
            for b in range(k):
                pairs[m, a, b] = outer_t[(m * k + b) * k + a] * edge[m, a, b]


@njit(nogil=True, cache=True)
def add_expected(edges, i, pairs, expected):
    """expected[r] += Σ_m Σ c_r · pairs_m."""
    low = edges.first[i]
    for m in range(edges.first[i + 1] - low):
        flat, pattern = pairs[m].reshape(-1), edges.pattern[low + m]
        for e in range(edges.start[pattern], edges.start[pattern + 1]):
            expected[edges.row[e]] += edges.coefficient[e] * flat[edges.cell[e]]


@njit(nogil=True, cache=True)
def add_edge_covariance(edges, i, lo, n, pairs, ahead, wide, edge, after, hessian):
    """Add Σ_t [ Σ_parts c_r c_s μ − (Σ_parts c_r μ)(Σ_parts c_s μ) ] over boundaries, as if they were independent."""
    k, n_rows, low = edge.shape[1], hessian.shape[0], edges.first[i]
    weighted, means = np.zeros(k * k), np.zeros(n_rows)
    for m in range(edges.first[i + 1] - low):
        flat, pattern = pairs[m].reshape(-1), edges.pattern[low + m]
        begin, end = edges.start[pattern], edges.start[pattern + 1]
        while begin < end:
            r, stop = edges.row[begin], begin
            while stop < end and edges.row[stop] == r:
                weighted[edges.cell[stop]] = edges.coefficient[stop] * flat[edges.cell[stop]]
                stop += 1
            for e in range(begin, end):
                hessian[r, edges.row[e]] += edges.coefficient[e] * weighted[edges.cell[e]]
            for e in range(begin, stop):
                weighted[edges.cell[e]] = 0.0
            begin = stop
    for t in range(1, n):
        m = edges.index[lo + t]
        pattern = edges.pattern[low + m]
        begin, end = edges.start[pattern], edges.start[pattern + 1]
        if begin == end:
            continue
        means[:] = 0.0
        for e in range(begin, end):
            a, b = edges.cell[e] // k, edges.cell[e] % k
            mu = ahead[(t - 1) * wide + a] * edge[m, a, b] * after[t * wide + b]
            means[edges.row[e]] += edges.coefficient[e] * mu
        for r in range(n_rows):
            if means[r] != 0.0:
                for s in range(r, n_rows):
                    hessian[r, s] -= means[r] * means[s]
    for r in range(n_rows):
        for s in range(r):
            hessian[r, s] = hessian[s, r]


@njit(nogil=True, cache=True)
def add_edge_variances(edges, i, lo, n, pairs, ahead, wide, edge, after, out):
    """The diagonal of :func:`add_edge_covariance` alone."""
    k, low = edge.shape[1], edges.first[i]
    for m in range(edges.first[i + 1] - low):
        flat, pattern = pairs[m].reshape(-1), edges.pattern[low + m]
        for e in range(edges.start[pattern], edges.start[pattern + 1]):
            out[edges.row[e]] += edges.coefficient[e] ** 2 * flat[edges.cell[e]]
    for t in range(1, n):
        m = edges.index[lo + t]
        pattern = edges.pattern[low + m]
        e, end = edges.start[pattern], edges.start[pattern + 1]
        while e < end:
            r, mean = edges.row[e], 0.0
            while e < end and edges.row[e] == r:
                a, b = edges.cell[e] // k, edges.cell[e] % k
                mean += edges.coefficient[e] * ahead[(t - 1) * wide + a] * edge[m, a, b] * after[t * wide + b]
                e += 1
            out[r] -= mean * mean
