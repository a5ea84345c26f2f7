"""Projection onto local rows: prepare the arrays, call the compiled solver, put the answer together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.errors import ConstraintError
from trellis.projection.kernels import chain_rows
from trellis.projection.kernels.sparse_rows import FULL_HESSIAN_ROWS
from trellis.structures.chain import Chain
from trellis.structures.kernels.notice import tell_if_compiling
from trellis.structures.results import Posterior
from trellis.structures.structure import refuse_impossible


@dataclass(frozen=True)
class GroupTable:
    """Norm groups in the order of rows, amounts in the units of θ = λ / γ.

    start : (n_groups + 1,) rows of each group
    """

    start: IntArray
    kind: NDArray[np.int8]
    norm: NDArray[np.int8]
    amount: FloatArray
    equality: BoolArray

    @classmethod
    def of(cls, rows: Rows, gamma: float) -> GroupTable:
        """The groups of rows that stand together by group."""
        changes = np.flatnonzero(np.diff(rows.group)) + 1
        start = np.concatenate(([0], changes, [len(rows)])).astype(np.int64) if len(rows) else np.zeros(1, np.int64)
        numbers = rows.group[start[:-1]]
        kind, norm, amount = rows.groups.kind[numbers], rows.groups.norm[numbers], rows.groups.amount[numbers]
        if np.any(kind == Kind.LEARNED):
            row = int(start[np.flatnonzero(kind == Kind.LEARNED)[0]])
            raise ConstraintError(
                f"constraint {rows.names[rows.constraint[row]]!r} has a penalty still to be learned: "
                "train it on labelled data first, or give it a strength"
            )
        priced = (kind == Kind.PENALTY) | (kind == Kind.SQUARED)
        return cls(start, kind, norm, np.where(priced, amount / gamma, amount), rows.equality)


@dataclass(frozen=True)
class LocalSolution:
    """What the compiled solver found for each instance.

    theta : (n_rows,);  curvature : the solver's Hessians, to start from when the model has changed a little
    residual, evaluations, ending, value : (n_instances,)
    value = min_θ f + g, so that −γ · value is the E-step's optimum
    """

    posterior: Posterior
    theta: FloatArray
    curvature: FloatArray
    residual: FloatArray
    evaluations: IntArray
    ending: IntArray
    value: FloatArray


def project_local(
    scores: Chain,
    rows: Rows,
    gamma: float,
    theta: FloatArray,
    curvature: FloatArray | None = None,
    *,
    weights: FloatArray | None,
    tolerance: float,
    most_evaluations: int,
    edge_marginals: bool = False,
) -> LocalSolution:
    """Solve each instance's own rows; ``scores`` are already divided by γ, ``rows`` are local and canonical."""
    tell_if_compiling(chain_rows.project_chains)
    table = GroupTable.of(rows, gamma)
    n, k = len(scores), scores.n_labels
    t, p = scores.tables, scores.tables.potentials
    instance_rows = np.searchsorted(rows.instance, np.arange(n + 1)).astype(np.int64)
    instance_groups = np.searchsorted(rows.instance[table.start[:-1]], np.arange(n + 1)).astype(np.int64)
    theta = np.array(theta, dtype=np.float64)
    n_rows = np.diff(instance_rows)
    curvature_start = offsets_of(np.where(n_rows <= FULL_HESSIAN_ROWS, n_rows**2, 0))
    curvature = np.zeros(curvature_start[-1]) if curvature is None else np.array(curvature)
    posterior = np.empty((scores.n_slots, k))
    counts_t, counts = np.zeros(t.edge.shape), np.zeros(t.edge.shape)
    edge = np.zeros((scores.n_slots if edge_marginals else 0, k, k))
    log_partition, residual = np.empty(n), np.empty(n)
    evaluations, ending = np.empty(n, np.int64), np.empty(n, np.int64)
    chain_rows.project_chains(
        scores.offsets, t.node, p.node, p.node_shift, scores.node_index, t.edge, p.edge, p.edge_t,
        p.edge_shift, scores.edge_index, t.start, p.start, t.stop, p.stop, p.ends_shift,
        np.ones(n) if weights is None else weights,
        rows.start, rows.first_edges, rows.reach, rows.part, rows.coefficient, rows.bound, rows.equality, instance_rows,
        table.start, table.kind, table.norm, table.amount, instance_groups,
        tolerance, most_evaluations,
        theta, curvature_start, curvature, posterior, counts_t, counts, edge, log_partition,
        residual, evaluations, ending,
    )  # fmt: skip
    refuse_impossible(log_partition, scores.first)
    counts += counts_t.transpose(0, 2, 1) * p.edge
    value = log_partition + np.bincount(rows.instance, rows.bound * theta, minlength=n)
    if len(table.kind):
        per_group = group_values(theta, table)
        value += np.bincount(rows.instance[table.start[:-1]], per_group, minlength=n)
    return LocalSolution(
        Posterior(posterior, log_partition, counts, edge if edge_marginals else None),
        theta, curvature, residual, evaluations, ending, value,
    )  # fmt: skip


def group_values(theta: FloatArray, table: GroupTable) -> FloatArray:
    """g(θ) of each group."""
    size = np.abs(theta)
    one = np.add.reduceat(size, table.start[:-1])
    two = np.sqrt(np.add.reduceat(size**2, table.start[:-1]))
    largest = np.maximum.reduceat(size, table.start[:-1])
    dual = np.select([table.norm == 1, table.norm == 2], [largest, two], one)
    square = two**2 / (2 * np.where(table.amount > 0, table.amount, 1.0))
    return np.select([table.kind == Kind.SLACK, table.kind == Kind.SQUARED], [table.amount * dual, square], 0.0)
