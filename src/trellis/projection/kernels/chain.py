"""The fused projection of chains (and of categoricals, which are chains of one slot) onto rows of instances."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray, IntArray, owners
from trellis.projection import lock_step
from trellis.projection.kernels import chain_edges, chain_rows, solver
from trellis.projection.local import GroupTable, LocalRows, LocalSolution, LocalState, SolverOptions
from trellis.structures.chain import Chain
from trellis.structures.chain_parts import first_transitions, patterns_of
from trellis.structures.kernels.lanes import with_slack
from trellis.structures.results import LabelPosterior
from trellis.structures.structure import check_weights


@dataclass(frozen=True)
class Layout:
    """Rows as the kernel reads them: entries that name transitions as patterns of boundaries.

    row_edges : (n_rows,) first entry that names a transition
    start, row, cell, coefficient : patterns, see ``chain_edges.Edges``;  pattern : (n_slots,) that of each, 0: nothing
    has_edges : (n_instances,) whether rows of the instance name transitions
    """

    row_edges: IntArray
    start: IntArray
    row: IntArray
    cell: IntArray
    coefficient: FloatArray
    pattern: IntArray
    has_edges: BoolArray

    @classmethod
    def of(cls, mine: LocalRows) -> Layout:
        n_slots, k = mine.rows.parts.label_shape
        rows, n_node = mine.scaled.rows, n_slots * k
        row_edges = first_transitions(rows.start, rows.part, n_node)
        entry = np.flatnonzero(rows.part >= n_node)
        nothing = np.zeros(0, np.int64)
        pattern, has_edges = np.zeros(n_slots, np.int64), np.zeros(rows.parts.n_instances, np.bool_)
        if not len(entry):
            return cls(row_edges, np.zeros(2, np.int64), nothing, nothing, np.zeros(0), pattern, has_edges)
        row, cell = rows.entry_row[entry], rows.part[entry] - n_node
        has_edges[rows.instance[row]] = True
        row -= mine.scaled.instance_rows[rows.instance[row]]
        slot, within = cell // (k * k), row * (k * k) + cell % (k * k)
        pattern, start, within, coefficient = patterns_of(slot, within, rows.coefficient[entry], n_slots)
        return cls(row_edges, start, within // (k * k), within % (k * k), coefficient, pattern, has_edges)

    def edges(self, chain: Chain) -> chain_edges.Edges:
        """Beside the matrices of a chain: those that its boundaries have when rows tilt them."""
        instance = owners(chain.offsets)
        slot = np.flatnonzero(self.has_edges[instance] & chain.parts.has_boundary())
        n_patterns, n_own = np.int64(len(self.start) - 1), np.int64(chain.tables.n_matrices)
        code = (instance[slot] * n_patterns + self.pattern[slot]) * n_own + chain.edge_index[slot]
        matrix, number = np.unique(code, return_inverse=True)
        first = np.searchsorted(matrix, np.arange(len(chain.offsets)) * n_patterns * n_own)
        index = np.zeros(chain.n_slots, np.int32)
        index[slot] = number - first[instance[slot]]
        return chain_edges.Edges(
            self.start,
            self.row,
            self.cell,
            self.coefficient,
            first,
            matrix // n_own % n_patterns,
            matrix % n_own,
            index,
        )


def takes(rows: Rows) -> bool:
    """Rows of any strength."""
    return True


def prepare(mine: LocalRows) -> None:
    """Make what every evaluation needs, if it is not there yet."""
    if mine.layout is None:
        mine.layout = Layout.of(mine)


def project_rows(scores: Any, mine: LocalRows, state: LocalState, asked: SolverOptions) -> LocalSolution:
    """As :func:`trellis.projection.lock_step.project_rows`, in one compiled call."""
    chain: Chain = scores.as_chain()
    scaled = mine.scaled
    rows, table, n = scaled.rows, GroupTable.of(scaled.rows, asked.gamma), len(chain)
    k, t, p = chain.n_labels, chain.tables, chain.tables.potentials
    prepare(mine)
    edges = mine.layout.edges(chain)
    keep_edges = chain.names_transition(asked.at) or len(edges.own) > 0
    wide = t.lost()
    curvature_start = scaled.curvature_start
    curvature = state.curvature
    if curvature is None or len(curvature) != curvature_start[-1]:
        curvature = np.zeros(curvature_start[-1])
    problem = chain_rows.Problem(
        row_start=rows.start,
        row_edges=mine.layout.row_edges,
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
        before=np.zeros((chain.n_slots if keep_edges else 0, k)),
        after=np.zeros((chain.n_slots if keep_edges else 0, k)),
        matrix=np.zeros((len(edges.own), k, k)),
        log_partition=np.zeros(n),
        residual=np.zeros(n),
        evaluations=np.zeros(n, np.int64),
        ending=np.zeros(n, np.int64),
    )
    chain_rows.project_chains(
        lattice, problem, edges, check_weights(asked.weights, n), chain.max_shift(), asked.tolerance,
        asked.most_evaluations, out,
    )  # fmt: skip
    counts = chain.own_counts(out.counts + out.counts_t.transpose(0, 2, 1) * p.edge)
    found_edges = None
    if keep_edges:
        first = np.repeat(edges.first[:-1], np.diff(chain.offsets))
        tilted = np.repeat(np.diff(edges.first) > 0, np.diff(chain.offsets))
        index = np.where(tilted, len(p.edge) + first + edges.index, chain.edge_index)
        matrix = np.concatenate((p.edge, out.matrix))
        found_edges = chain.transitions(out.before, out.after, matrix, index, np.zeros(n, np.bool_))
    left = np.flatnonzero(out.ending == solver.NEEDS_LOGS)
    if len(left):
        # Scaled probabilities do not serve these: the generic way goes over to log space where it has to.
        weights, at = None if asked.weights is None else asked.weights[left], np.array([chain.n_slots * k])
        theirs = replace(asked, weights=weights, at=at if keep_edges else None)
        found, at_rows = lock_step.project_some(chain, mine, left, state.theta, theirs)
        slots = np.isin(owners(chain.offsets), left)
        out.posterior[slots] = found.posterior.node
        if found_edges is not None:
            found_edges = found_edges.with_others(slots, found.posterior.transitions)
        counts += found.posterior.edge_counts
        out.theta[at_rows] = found.theta * scaled.scale[at_rows]
        out.log_partition[left], out.residual[left] = found.posterior.log_partition, found.residual
        out.evaluations[left], out.ending[left] = found.evaluations, found.ending
    return LocalSolution(
        posterior=LabelPosterior(out.posterior, out.log_partition, counts, found_edges),
        theta=out.theta / scaled.scale,
        curvature=out.curvature,
        residual=out.residual,
        evaluations=out.evaluations,
        ending=out.ending,
        value=scaled.values(out.log_partition, out.theta, table),
    )
