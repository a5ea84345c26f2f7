"""The solver's next step for each of many instances, from the marginals of the parts that their rows name."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from trellis.projection.kernels import solver


class Solving(NamedTuple):
    """Rows of all instances, and the state of each one's solver.

    rows, groups : (n_instances + 1,) rows and norm groups of each instance
    row_start : (n_rows + 1,) entries of each row;  coefficient : (n_entries,);  bound, equality : (n_rows,)
    group_start : (n_groups + 1,) rows of each group;  kind, norm, amount : (n_groups,)
    part_rank, place_rank, n_ranks : see :class:`trellis.projection.local.Entries`
    trial : (n_rows,) where an evaluation is wanted;  hessian : those of all instances, from ``hessian_start`` on
    integers, floats, vectors, recent : state, see :mod:`solver`; vectors of one instance after those of another
    ending : (n_instances,) what the solver said last
    """

    rows: Any
    row_start: Any
    coefficient: Any
    bound: Any
    groups: Any
    group_start: Any
    kind: Any
    norm: Any
    amount: Any
    equality: Any
    part_rank: Any
    place_rank: Any
    n_ranks: Any
    trial: Any
    hessian_start: Any
    hessian: Any
    integers: Any
    floats: Any
    vectors: Any
    recent: Any
    ending: Any


@njit(nogil=True, cache=True)
def vectors_of(s, i):
    """(N_VECTORS, rows of the instance): in one piece, so that one form of the solver serves all who call it."""
    low, high = solver.N_VECTORS * s.rows[i], solver.N_VECTORS * s.rows[i + 1]
    return s.vectors[low:high].reshape((solver.N_VECTORS, s.rows[i + 1] - s.rows[i]))


@njit(nogil=True, cache=True)
def begin_all(s, limit):
    """Set up every instance that has rows; ``limit`` is a move of scores that no feasible problem needs."""
    for i in range(s.ending.shape[0]):
        low, high = s.rows[i], s.rows[i + 1]
        if low == high:
            continue
        g, h = s.groups[i], s.groups[i + 1]
        solver.begin(
            s.trial[low:high], s.equality[low:high], s.group_start[g : h + 1] - low, s.kind[g:h], s.norm[g:h],
            s.amount[g:h], s.integers[i], s.floats[i], vectors_of(s, i), s.recent[i],
        )  # fmt: skip
        s.floats[i, solver.LIMIT] = limit


@njit(nogil=True, cache=True)
def advance_all(s, active, log_partition, marginal, tolerance, most_evaluations):
    """One step of each of the instances ``active``, whose log-partitions at their trial points are given.

    marginal : (n_entries,) of the entries' parts
    """
    for a in range(active.shape[0]):
        i = active[a]
        low, high = s.rows[i], s.rows[i + 1]
        g, h = s.groups[i], s.groups[i + 1]
        value = log_partition[a]
        gradient = np.empty(high - low)
        for r in range(low, high):
            expected = 0.0
            for e in range(s.row_start[r], s.row_start[r + 1]):
                expected += s.coefficient[e] * marginal[e]
            value += s.bound[r] * s.trial[r]
            gradient[r - low] = s.bound[r] - expected
        shape = (solver.hessian_rows(high - low), high - low)
        hessian = s.hessian[s.hessian_start[i] : s.hessian_start[i + 1]].reshape(shape)
        first_time = s.integers[i, solver.PHASE] == 0 and not hessian[0, 0] > 0.0
        again = solver.wants_estimate(s.integers[i])
        # With one place the estimate is exact; with more it is good for a fresh start when updates have led nowhere.
        if first_time or again or s.n_ranks[i, 1] == 1:
            if high - low <= solver.FULL_HESSIAN_ROWS:
                estimate(s, i, marginal, hessian)
            else:
                solver.set_diagonal(hessian, variances(s, i, marginal), s.integers[i], vectors_of(s, i))
        s.ending[i] = solver.advance(
            s.trial[low:high], value, gradient, s.equality[low:high], s.group_start[g : h + 1] - low, s.kind[g:h],
            s.norm[g:h], s.amount[g:h], hessian, s.integers[i], s.floats[i], vectors_of(s, i), s.recent[i],
            tolerance, most_evaluations,
        )  # fmt: skip


@njit(nogil=True, cache=True)
def estimate(s, i, marginal, hessian):
    """Cov_q[φ] as if places were independent: Σ_places [ Σ_parts c_r c_s μ − (Σ_parts c_r μ)(Σ_parts c_s μ) ]."""
    low = s.rows[i]
    n = s.rows[i + 1] - low
    weighted = np.zeros(s.n_ranks[i, 0])
    means = np.zeros((n, s.n_ranks[i, 1]))
    for r in range(n):
        for e in range(s.row_start[low + r], s.row_start[low + r + 1]):
            mu = s.coefficient[e] * marginal[e]
            weighted[s.part_rank[e]] = mu
            means[r, s.place_rank[e]] += mu
        for q in range(n):
            total = 0.0
            if q >= r:
                for e in range(s.row_start[low + q], s.row_start[low + q + 1]):
                    total += s.coefficient[e] * weighted[s.part_rank[e]]
            hessian[r, q] = total
        for e in range(s.row_start[low + r], s.row_start[low + r + 1]):
            weighted[s.part_rank[e]] = 0.0
    for r in range(n):
        for q in range(r, n):
            total = hessian[r, q]
            for t in range(means.shape[1]):
                total -= means[r, t] * means[q, t]
            hessian[r, q] = total
            hessian[q, r] = total
        hessian[r, r] = max(hessian[r, r], 1e-12)


@njit(nogil=True, cache=True)
def variances(s, i, marginal):
    """The diagonal of :func:`estimate` alone."""
    low = s.rows[i]
    n = s.rows[i + 1] - low
    found, means = np.zeros(n), np.zeros(s.n_ranks[i, 1])
    for r in range(n):
        begin, end = s.row_start[low + r], s.row_start[low + r + 1]
        for e in range(begin, end):
            mu = s.coefficient[e] * marginal[e]
            found[r] += s.coefficient[e] * mu
            means[s.place_rank[e]] += mu
        for e in range(begin, end):
            found[r] -= means[s.place_rank[e]] ** 2
            means[s.place_rank[e]] = 0.0
    return found
