"""Projection of chains onto rows that name parts of one instance: each instance's own small dual problem.

    q_i = argmin KL(q ‖ p_i)  s.t. the rows of instance i;      q_i(y) ∝ p_i(y) exp(−θ·φ(y)),   θ = λ / γ

(p here is already raised to the power 1/γ). An evaluation tilts the potentials of the parts that rows name, runs
forward-backward, and gathers E_q[φ]; expected edge counts are formed once, at the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from trellis.projection.kernels import solver
from trellis.projection.kernels.chain_edges import (
    add_edge_covariance,
    add_edge_variances,
    add_expected,
    fill_pairs,
    lower_to_zero,
    tilt_matrices,
)
from trellis.projection.kernels.exponential import exponentiate
from trellis.projection.kernels.sparse_rows import add_scaled_rows, estimate_hessian, estimate_variances, row_dots
from trellis.structures.kernels.chain_infer import FEW_MATRICES, add_outer_products, aligned, backward, forward, widened
from trellis.structures.kernels.lanes import LANES, load, multiply, store

MOST_UNSHIFTED = 100.0
"""Scores that move by fewer nats than this leave potentials in the range of doubles without any shift."""


class Lattice(NamedTuple):
    """Chains: tables of potentials, and the row and matrix of each slot.

    offsets : (n_instances + 1,);  node_index, edge_index : (n_slots,);  potentials have slack (see ``lanes.py``)
    wide_node, wide_edge : (n_rows,), (n_matrices,) whether the table row has potentials lost to underflow; instances
        with such rows, or that get them on the way, end with NEEDS_LOGS and nothing else written
    """

    offsets: Any
    node_index: Any
    edge_index: Any
    node: Any
    node_shift: Any
    edge: Any
    edge_t: Any
    edge_shift: Any
    start: Any
    stop: Any
    ends_shift: Any
    wide_node: Any
    wide_edge: Any


class Problem(NamedTuple):
    """Rows of all instances, scaled (see :class:`trellis.projection.local.ScaledRows`), and their norm groups.

    row_start : (n_rows + 1,) entries of each row;  row_edges : (n_rows,) first entry that names a transition
    row_reach : (n_rows,) largest |coefficient|;  row_scale : (n_rows,) what a row was divided by
    instance_rows, instance_groups : (n_instances + 1,) rows and groups of each instance
    curvature_start : (n_instances + 1,) where an instance's Hessian is kept in ``curvature``; it is estimated afresh
        where that is zero, or where nothing is kept
    """

    row_start: Any
    row_edges: Any
    row_reach: Any
    row_scale: Any
    part: Any
    coefficient: Any
    bound: Any
    equality: Any
    instance_rows: Any
    group_start: Any
    kind: Any
    norm: Any
    amount: Any
    instance_groups: Any
    curvature_start: Any


class Answer(NamedTuple):
    """What is written.

    theta : (n_rows,) the start, and then the solution;  curvature : the start, and then the last Hessians
    posterior : (n_slots, K) with slack
    before, after : (n_slots, K) factors of the marginals of transitions, or no rows;  matrix : (n_matrices, K, K) those
        in between of instances whose rows name transitions, or none
    counts_t : of instances that use shared matrices, without the factor E;  counts : of the others
    log_partition : of the tilted scores;  residual, evaluations, ending : (n_instances,)
    """

    theta: Any
    curvature: Any
    posterior: Any
    counts_t: Any
    counts: Any
    before: Any
    after: Any
    matrix: Any
    log_partition: Any
    residual: Any
    evaluations: Any
    ending: Any


@njit(nogil=True, cache=True)
def project_chains(lattice, problem, edges, weights, limit, tolerance, most_evaluations, out):
    """Solve every instance.

    edges : what rows say of transitions, an :class:`~trellis.projection.kernels.chain_edges.Edges`
    limit : nats by which no feasible problem moves a score
    """
    offsets, node_index, edge_index = lattice.offsets, lattice.node_index, lattice.edge_index
    node_potential, node_shift, edge_potential = lattice.node, lattice.node_shift, lattice.edge
    edge_potential_t, edge_shift, start, stop = lattice.edge_t, lattice.edge_shift, lattice.start, lattice.stop
    ends_shift, wide_node, wide_edge = lattice.ends_shift, lattice.wide_node, lattice.wide_edge
    row_start, row_edges, row_reach, row_scale = (
        problem.row_start, problem.row_edges, problem.row_reach, problem.row_scale
    )  # fmt: skip
    part, coefficient, bound, equality = problem.part, problem.coefficient, problem.bound, problem.equality
    instance_rows, group_start, instance_groups = problem.instance_rows, problem.group_start, problem.instance_groups
    kind, norm, amount, curvature_start = problem.kind, problem.norm, problem.amount, problem.curvature_start
    theta, curvature, posterior, counts_t, counts = out.theta, out.curvature, out.posterior, out.counts_t, out.counts
    log_partition, residual, evaluations, ending = out.log_partition, out.residual, out.evaluations, out.ending
    n_labels = node_potential.shape[1]
    longest, most_rows, most_matrices = 0, 1, 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
        most_rows = max(most_rows, instance_rows[i + 1] - instance_rows[i])
        most_matrices = max(most_matrices, edges.first[i + 1] - edges.first[i])
    n_pairs = n_labels * n_labels
    wide = -(-n_labels // LANES) * LANES
    # Rows of whole vectors, and arrays with slack behind them, as the vector kernels of chain_infer want them.
    ahead, after, back = aligned(longest * wide), aligned(longest * wide), aligned(longest * wide)
    inverse = np.empty(longest)
    flat_node = aligned(longest * n_labels)
    flat_edge, flat_edge_t = aligned(most_matrices * n_pairs), aligned(most_matrices * n_pairs)
    node = flat_node[: longest * n_labels].reshape(longest, n_labels)
    edge = flat_edge[: most_matrices * n_pairs].reshape(most_matrices, n_labels, n_labels)
    edge_t = flat_edge_t[: most_matrices * n_pairs].reshape(most_matrices, n_labels, n_labels)
    few = len(edge_potential) <= FEW_MATRICES
    if few:
        stride = wide
        shared, shared_t = widened(edge_potential, wide), widened(edge_potential_t, wide)
        shared_counts = aligned(len(edge_potential) * n_labels * wide)
        shared_counts[:] = 0.0
    else:
        stride = n_labels
        shared, shared_t = edge_potential.reshape(-1), edge_potential_t.reshape(-1)
        shared_counts = counts_t.reshape(-1)
    outer = aligned(most_matrices * n_pairs)
    tilt, scratch = np.zeros((longest, n_labels)), np.empty((longest, n_labels))
    edge_tilt = np.zeros((most_matrices, n_labels, n_labels))
    pairs = np.zeros((most_matrices, n_labels, n_labels))
    own_index = np.arange(longest).astype(np.int32)
    integers = np.zeros(solver.N_INTEGERS, np.int64)
    floats = np.zeros(solver.N_FLOATS)
    recent = np.zeros(solver.MEMORY)
    room = np.zeros(solver.N_VECTORS * most_rows)
    gradient, evaluated, expected = np.zeros(most_rows), np.zeros(most_rows), np.zeros(most_rows)

    for i in range(offsets.shape[0] - 1):
        lo, n = offsets[i], offsets[i + 1] - offsets[i]
        first, last = instance_rows[i], instance_rows[i + 1]
        n_rows = last - first
        log_partition[i] = 0.0
        residual[i] = 0.0
        evaluations[i] = 0
        ending[i] = solver.CONVERGED
        if n == 0:
            continue
        node_base = lo * n_labels
        n_matrices = edges.first[i + 1] - edges.first[i]
        edges_tilted = n_matrices > 0
        trial = theta[first:last]
        eq = equality[first:last]
        low_group, high_group = instance_groups[i], instance_groups[i + 1]
        starts = group_start[low_group : high_group + 1] - first
        kinds, norms, amounts = kind[low_group:high_group], norm[low_group:high_group], amount[low_group:high_group]
        vectors = room[: solver.N_VECTORS * n_rows].reshape((solver.N_VECTORS, n_rows))
        for r in range(n_rows):
            vectors[solver.REACH, r] = row_reach[first + r]
            vectors[solver.SCALE, r] = row_scale[first + r]
        if n_rows > 0:
            solver.begin(trial, eq, starts, kinds, norms, amounts, integers, floats, vectors, recent)
            floats[solver.LIMIT] = limit
        # A score so far below the others that its potential is zero can still be raised by a row: only in log space.
        only_logs = False
        if n_rows > 0:
            for t in range(n):
                only_logs = only_logs or wide_node[node_index[lo + t]] or (t > 0 and wide_edge[edge_index[lo + t]])
        if only_logs:
            ending[i] = solver.NEEDS_LOGS
            continue
        remembered = curvature_start[i + 1] > curvature_start[i]
        if remembered:
            hessian = curvature[curvature_start[i] : curvature_start[i + 1]].reshape((n_rows, n_rows))
        else:
            hessian = np.zeros((solver.hessian_rows(n_rows), n_rows))
        marginals = posterior[lo : lo + n].reshape(-1)
        finished = False
        while True:
            tilt[:n] = 0.0
            add_scaled_rows(first, n_rows, row_start, row_edges, part, coefficient, trial, node_base, tilt)
            moved = 0.0
            for r in range(n_rows):
                moved += abs(trial[r]) * vectors[solver.REACH, r]
            lower = moved > MOST_UNSHIFTED
            shift = ends_shift
            shift += tilt_nodes(lo, n, node_potential, node_index, node_shift, lower, tilt, scratch, node)
            if edges_tilted:
                shift += tilt_matrices(
                    edges, i, lo, n, edge_potential, edge_shift, trial, lower, edge_tilt, pairs, edge, edge_t
                )
            else:
                for t in range(1, n):
                    shift += edge_shift[edge_index[lo + t]]
            index = edges.index[lo : lo + n] if edges_tilted else edge_index[lo : lo + n]
            # One call of each for both cases: what is called twice here is compiled twice.
            table = flat_edge if edges_tilted else shared
            table_t = flat_edge_t if edges_tilted else shared_t
            step = n_labels if edges_tilted else stride
            log_z, enough = forward(
                0, n, flat_node, own_index, table, step, index, start, stop, n_labels, ahead, inverse
            )
            if enough:
                enough = backward(
                    0, n, flat_node, own_index, table_t, step, index, stop, n_labels, inverse, after, back
                )
            if not enough:
                ending[i] = solver.NEEDS_LOGS
                break
            # In rising order: the last vector of a row runs into the next row, which is written after it.
            for t in range(n):
                for at in range(0, wide, LANES):
                    p = multiply(load(ahead, t * wide + at), load(back, t * wide + at))
                    store(posterior, (lo + t) * n_labels + at, p)
            if edges_tilted:
                outer[: n_matrices * n_pairs] = 0.0
                add_outer_products(n, ahead, after, 1.0, index, 0, n_labels, outer, n_labels)
                fill_pairs(n_matrices, outer, edge, pairs)
            log_z += shift
            log_partition[i] = log_z
            if n_rows == 0 or finished:
                break
            value = log_z
            expected[:n_rows] = 0.0
            row_dots(first, n_rows, row_start, row_edges, part, coefficient, node_base, marginals, expected)
            if edges_tilted:
                add_expected(edges, i, pairs, expected)
            for r in range(n_rows):
                value += bound[first + r] * trial[r]
                gradient[r] = bound[first + r] - expected[r]
                evaluated[r] = trial[r]
            first_time = integers[solver.PHASE] == 0 and not (remembered and hessian[0, 0] > 0.0)
            # Of one slot the estimate is exact; of more it is good for a fresh start when updates have led nowhere.
            again = solver.wants_estimate(integers)
            if (first_time or n == 1 or again) and n_rows <= solver.FULL_HESSIAN_ROWS:
                estimate_hessian(
                    first, n_rows, n, n_labels, row_start, row_edges, part, coefficient, node_base, marginals, hessian
                )
                if edges_tilted:
                    add_edge_covariance(edges, i, lo, n, pairs, ahead, wide, edge, after, hessian)
                for r in range(n_rows):
                    hessian[r, r] = max(hessian[r, r], 1e-12)
            elif first_time or n == 1 or again:
                estimate_variances(
                    first, n_rows, n, n_labels, row_start, row_edges, part, coefficient, node_base, marginals, expected
                )
                if edges_tilted:
                    add_edge_variances(edges, i, lo, n, pairs, ahead, wide, edge, after, expected)
                solver.set_diagonal(hessian, expected[:n_rows], integers, vectors)
            action = solver.advance(
                trial, value, gradient[:n_rows], eq, starts, kinds, norms, amounts,
                hessian, integers, floats, vectors, recent, tolerance, most_evaluations,
            )  # fmt: skip
            evaluations[i] = integers[solver.N_EVALUATIONS]
            residual[i] = floats[solver.RESIDUAL]
            ending[i] = action
            if action == solver.EVALUATE:
                continue
            finished = True
            elsewhere = False
            for r in range(n_rows):
                trial[r] = vectors[solver.X, r]
                elsewhere = elsewhere or trial[r] != evaluated[r]
            if not elsewhere:
                break
            # The last evaluation was at a point that was refused: once more at the one that is returned.
        if ending[i] == solver.NEEDS_LOGS:
            continue
        if edges_tilted:
            for m in range(n_matrices):
                counts[edges.own[edges.first[i] + m]] += weights[i] * pairs[m]
        else:
            add_outer_products(n, ahead, after, weights[i], edge_index, lo, n_labels, shared_counts, stride)
        if out.before.shape[0] > 0:
            for t in range(1, n):
                for b in range(n_labels):
                    out.before[lo + t, b], out.after[lo + t, b] = ahead[(t - 1) * wide + b], after[t * wide + b]
            for m in range(n_matrices):
                out.matrix[edges.first[i] + m] = edge[m]
    if few:
        for m in range(len(edge_potential)):
            for b in range(n_labels):
                for a in range(n_labels):
                    counts_t[m, b, a] += shared_counts[(m * n_labels + b) * wide + a]


@njit(nogil=True, cache=True)
def tilt_nodes(lo, n, node_potential, node_index, node_shift, lower, tilt, scratch, node):
    """node[t] = potentials of slot t times exp(tilt[t]); returns the sum of the shifts.

    lower : whether tilts are shifted so that the largest possible entry of each slot stays in range
    """
    n_labels = node.shape[1]
    shift = 0.0
    if lower:
        for t in range(n):
            shift += lower_to_zero(node_potential[node_index[lo + t]], tilt[t])
    exponentiate(tilt[:n].reshape(-1), scratch[:n].reshape(-1), node[:n].reshape(-1))
    for t in range(n):
        row, out = node_potential[node_index[lo + t]], node[t]
        shift += node_shift[node_index[lo + t]]
        for k in range(n_labels):
            out[k] *= row[k]
    return shift
