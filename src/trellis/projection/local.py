"""Projection onto local rows: prepare the arrays, call the compiled solver, put the answer together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.errors import ConstraintError
from trellis.projection.kernels import chain_rows, solver
from trellis.projection.kernels.sparse_rows import FULL_HESSIAN_ROWS
from trellis.structures.chain import Chain
from trellis.structures.chain_tables import ChainTables
from trellis.structures.kernels.lanes import with_slack
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
class ScaledRows:
    """Rows divided by the largest coefficient of their norm group, so that solvers see coefficients of about 1.

    With φ' = φ/s and b' = b/s, θ' = s·θ: a slack ε is ε/s, a price σ is σ·s, a squared one σ·s².
    scale : (n_rows,) s of each row
    """

    rows: Rows
    scale: FloatArray

    @classmethod
    def of(cls, rows: Rows, reach: FloatArray | None = None) -> ScaledRows:
        """``reach`` (n_rows,): the largest coefficients, where ``rows`` are a part of longer ones."""
        largest = np.zeros(len(rows.groups))
        np.maximum.at(largest, rows.group, rows.reach if reach is None else reach)
        s = np.where(largest > 0, largest, 1.0)
        kind, amount = rows.groups.kind, rows.groups.amount
        power = np.select([kind == Kind.SLACK, kind == Kind.PENALTY, kind == Kind.SQUARED], [-1.0, 1.0, 2.0], 0.0)
        scale = s[rows.group]
        scaled = replace(
            rows,
            coefficient=rows.coefficient / np.repeat(scale, np.diff(rows.start)),
            bound=rows.bound / scale,
            groups=Groups(kind, rows.groups.norm, amount * s**power),
        )
        return cls(scaled, scale)


@dataclass(frozen=True)
class LocalSolution:
    """What the compiled solver found for each instance.

    theta : (n_rows,) of the rows as given, not as scaled
    curvature : the solver's Hessians, to start from when the model has changed a little
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

    def reliable_start(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """θ and curvature to start from next time: nothing of instances whose solver ended somewhere else."""
        lost = self.ending != solver.CONVERGED
        if not np.any(lost):
            return self.theta, self.curvature
        n_rows = np.bincount(rows.instance, minlength=len(lost))
        kept = np.where(n_rows <= FULL_HESSIAN_ROWS, n_rows**2, 0)
        return np.where(lost[rows.instance], 0.0, self.theta), np.where(np.repeat(lost, kept), 0.0, self.curvature)


def project_local(
    scores: Chain,
    scaled: ScaledRows,
    gamma: float,
    theta: FloatArray,
    curvature: FloatArray | None = None,
    *,
    weights: FloatArray | None,
    tolerance: float,
    most_evaluations: int,
    edge_marginals: bool = False,
) -> LocalSolution:
    """Solve each instance's own rows; ``scores`` are already divided by γ, the rows are local and canonical."""
    tell_if_compiling(chain_rows.project_chains)
    rows = scaled.rows
    table = GroupTable.of(rows, gamma)
    n, k = len(scores), scores.n_labels
    t, p = scores.tables, scores.tables.potentials
    instance_rows = np.searchsorted(rows.instance, np.arange(n + 1)).astype(np.int64)
    instance_groups = np.searchsorted(rows.instance[table.start[:-1]], np.arange(n + 1)).astype(np.int64)
    n_rows = np.diff(instance_rows)
    curvature_start = offsets_of(np.where(n_rows <= FULL_HESSIAN_ROWS, n_rows**2, 0))
    if curvature is None or len(curvature) != curvature_start[-1]:
        curvature = np.zeros(curvature_start[-1])
    wide = t.lost()
    posterior = with_slack((scores.n_slots, k))
    edge = np.zeros((scores.n_slots if edge_marginals else 0, k, k))
    log_partition, residual = np.empty(n), np.empty(n)
    evaluations, ending = np.empty(n, np.int64), np.empty(n, np.int64)

    def run(logs: tuple[FloatArray, ...]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        at, bend = theta * scaled.scale, np.array(curvature)
        counts_t, counts = with_slack(p.edge.shape, zeros=True), np.zeros(p.edge.shape)
        chain_rows.project_chains(
            scores.offsets, logs[0], p.node, p.node_shift, scores.node_index, logs[1], p.edge, p.edge_t,
            p.edge_shift, scores.edge_index, logs[2], p.start, logs[3], p.stop, p.ends_shift,
            np.ones(n) if weights is None else weights,
            rows.start, rows.first_edges, rows.reach, scaled.scale, rows.part, rows.coefficient, rows.bound,
            rows.equality, instance_rows, table.start, table.kind, table.norm, table.amount, instance_groups,
            *wide, most_nats(wide), tolerance, most_evaluations,
            at, curvature_start, bend, posterior, counts_t, counts, edge, log_partition,
            residual, evaluations, ending,
        )  # fmt: skip
        return at, bend, counts_t, counts

    # Logs of the tables are only for instances that scaled probabilities do not serve: most models need none.
    needs_logs = any(flags.any() for flags in wide)
    found, bend, counts_t, counts = run(_logs(t) if needs_logs else _no_logs(k))
    if np.any(ending == solver.NEEDS_LOGS):
        found, bend, counts_t, counts = run(_logs(t))
    refuse_impossible(log_partition, scores.first)
    counts += counts_t.transpose(0, 2, 1) * p.edge
    value = log_partition + np.bincount(rows.instance, rows.bound * found, minlength=n)
    if len(table.kind):
        per_group = group_values(found, table)
        value += np.bincount(rows.instance[table.start[:-1]], per_group, minlength=n)
    return LocalSolution(
        Posterior(posterior, log_partition, counts, edge if edge_marginals else None),
        found / scaled.scale, bend, residual, evaluations, ending, value,
    )  # fmt: skip


def most_nats(lost: tuple[BoolArray, BoolArray]) -> float:
    """A move of scores that no feasible problem needs, given which potentials underflow took (``ChainTables.lost``).

    Potentials that are all there lie within 670 nats of each other, in nodes and in edges; twenty times that and some
    more is beyond every corner. What underflow took may be much farther away.
    """
    return 4e6 if any(flags.any() for flags in lost) else 4e4


def _logs(tables: ChainTables) -> tuple[FloatArray, ...]:
    return tables.node, tables.edge, tables.start, tables.stop


def _no_logs(k: int) -> tuple[FloatArray, ...]:
    return np.zeros((0, k)), np.zeros((0, k, k)), np.zeros(0), np.zeros(0)


def group_values(theta: FloatArray, table: GroupTable) -> FloatArray:
    """g(θ) of each group."""
    size = np.abs(theta)
    one = np.add.reduceat(size, table.start[:-1])
    two = np.sqrt(np.add.reduceat(size**2, table.start[:-1]))
    largest = np.maximum.reduceat(size, table.start[:-1])
    dual = np.select([table.norm == Norm.L1, table.norm == Norm.L2], [largest, two], one)
    square = two**2 / (2 * np.where(table.amount > 0, table.amount, 1.0))
    return np.select([table.kind == Kind.SLACK, table.kind == Kind.SQUARED], [table.amount * dual, square], 0.0)
