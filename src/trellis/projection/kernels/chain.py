"""The fused projection of chains (and of categoricals, which are chains of one slot) onto rows of instances."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray, IntArray
from trellis.projection import lock_step
from trellis.projection.kernels import chain_rows, solver
from trellis.projection.local import GroupTable, LocalRows, LocalSolution, LocalState
from trellis.structures.chain import Chain
from trellis.structures.chain_parts import first_transitions
from trellis.structures.kernels.lanes import with_slack
from trellis.structures.kernels.notice import tell_if_compiling
from trellis.structures.results import LabelPosterior
from trellis.structures.structure import check_weights


def takes(rows: Rows) -> bool:
    """Rows of any strength."""
    return True


def project_rows(
    scores: Any,
    mine: LocalRows,
    gamma: float,
    state: LocalState,
    *,
    weights: FloatArray | None,
    tolerance: float,
    most_evaluations: int,
    at: IntArray | None = None,
) -> LocalSolution:
    """As :func:`trellis.projection.lock_step.project_rows`, in one compiled call."""
    tell_if_compiling(chain_rows.project_chains)
    chain: Chain = scores.as_chain()
    scaled = mine.scaled
    rows, table, n = scaled.rows, GroupTable.of(scaled.rows, gamma), len(chain)
    k, t, p = chain.n_labels, chain.tables, chain.tables.potentials
    if mine.layout is None:
        mine.layout = first_transitions(rows.start, rows.part, chain.n_slots * k)
    keep_edges = chain.names_transition(at) or bool(np.any(mine.layout < rows.start[1:]))
    wide = t.lost()
    curvature_start = scaled.curvature_start
    curvature = state.curvature
    if curvature is None or len(curvature) != curvature_start[-1]:
        curvature = np.zeros(curvature_start[-1])
    problem = chain_rows.Problem(
        row_start=rows.start,
        row_edges=mine.layout,
        row_reach=rows.largest,
        row_scale=scaled.scale,
        part=rows.part,
        coefficient=rows.coefficient,
        bound=rows.bound,
        equality=rows.equality,
        instance_rows=scaled.instance_rows,
        group_start=table.start,
        kind=table.kind,
        norm=table.norm,
        amount=table.amount,
        instance_groups=scaled.instance_groups(table),
        curvature_start=curvature_start,
    )

    lattice = chain_rows.Lattice(
        chain.offsets, chain.node_index, chain.edge_index, p.node, p.node_shift, p.edge, p.edge_t, p.edge_shift,
        p.start, p.stop, p.ends_shift, *wide,
    )  # fmt: skip
    out = chain_rows.Answer(
        theta=state.theta * scaled.scale,
        curvature=np.array(curvature),
        posterior=with_slack((chain.n_slots, k)),
        counts_t=with_slack(p.edge.shape, zeros=True),
        counts=np.zeros(p.edge.shape),
        edge=np.zeros((chain.n_slots if keep_edges else 0, k, k)),
        log_partition=np.zeros(n),
        residual=np.zeros(n),
        evaluations=np.zeros(n, np.int64),
        ending=np.zeros(n, np.int64),
    )
    chain_rows.project_chains(
        lattice, problem, check_weights(weights, n), chain.farthest(), tolerance, most_evaluations, out
    )  # fmt: skip
    counts = chain.own_counts(out.counts + out.counts_t.transpose(0, 2, 1) * p.edge)
    left = np.flatnonzero(out.ending == solver.NEEDS_LOGS)
    if len(left):
        # Scaled probabilities do not serve these: the generic way goes over to log space where it has to.
        taken = chain.take(left)
        some = LocalRows(mine.rows.take(left, taken.parts))
        at_rows = np.isin(rows.instance, left)
        found = lock_step.project_rows(
            taken, some, gamma, LocalState(state.theta[at_rows]), weights=None if weights is None else weights[left],
            tolerance=tolerance, most_evaluations=most_evaluations,
            at=np.array([chain.n_slots * k]) if keep_edges else None,
        )  # fmt: skip
        slots = np.isin(np.repeat(np.arange(n), np.diff(chain.offsets)), left)
        out.posterior[slots] = found.posterior.node
        if keep_edges:
            out.edge[slots] = found.posterior.edge
        counts += found.posterior.edge_counts
        out.theta[at_rows] = found.theta * scaled.scale[at_rows]
        out.log_partition[left], out.residual[left] = found.posterior.log_partition, found.residual
        out.evaluations[left], out.ending[left] = found.evaluations, found.ending
    return LocalSolution(
        posterior=LabelPosterior(out.posterior, out.log_partition, counts, out.edge if keep_edges else None),
        theta=out.theta / scaled.scale,
        curvature=out.curvature,
        residual=out.residual,
        evaluations=out.evaluations,
        ending=out.ending,
        value=scaled.values(out.log_partition, out.theta, table),
    )
