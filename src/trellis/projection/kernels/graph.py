"""The fused projection of graphs onto rows of instances whose variables no factor ties, products of categoricals.

Instances that factors tie are left to the generic solver.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import BoolArray
from trellis.projection import lock_step
from trellis.projection.kernels import graph_rows, solver
from trellis.projection.local import GroupTable, LocalRows, LocalSolution, LocalState, SolverOptions
from trellis.projection.shard import PATIENT
from trellis.structures.graph import Graph
from trellis.structures.graph_parts import GraphParts

MOST_SWEEPS = 400
"""Nearly all instances need fewer than 20; where even Newton steps crawl, a quasi-Newton solver takes over for who has
patience: at extreme prices of a corpus' rows there are dozens of them, and it takes minutes."""


def _parts(rows: Rows) -> GraphParts:
    """This module is found by their kind."""
    return cast("GraphParts", rows.parts)


def takes(rows: Rows) -> bool:
    """Rows whose duals are free of each other, hard or at a price per unit, where some instance has no factors."""
    groups = rows.groups
    alone = np.bincount(rows.group, minlength=len(groups)) <= 1
    plain = (groups.kind == Kind.HARD) | ((groups.kind == Kind.PENALTY) & (alone | (groups.norm == Norm.L1)))
    return not rows.implicit and bool(np.all(plain)) and not np.all(_tied(_parts(rows)))


def _tied(parts: GraphParts) -> BoolArray:
    """(n_instances,): which instances have factors."""
    tied = np.zeros(parts.n_instances, np.bool_)
    for family in parts.factors:
        tied |= np.diff(family.offsets) > 0
    return tied


def project_rows(scores: Graph, mine: LocalRows, state: LocalState, asked: SolverOptions) -> LocalSolution:
    """As :func:`trellis.projection.lock_step.project_rows`, in one compiled call.

    A sweep costs no inference of the batch, and is not counted against ``most_evaluations``.
    """
    scaled = mine.scaled
    rows, n = scaled.rows, len(scores)
    table = GroupTable.of(rows, asked.gamma)
    if mine.layout is None:
        parts = _parts(rows)
        block = np.searchsorted(parts.starts, rows.part, side="right") - 1
        mine.layout = parts.place_of(rows.part), np.array([one.size for one in parts.blocks])[block]
    tied = _tied(scores.parts)
    upper = np.repeat(np.where(table.kind == Kind.HARD, np.inf, table.amount), np.diff(table.start))
    lower = np.where(rows.equality, -upper, 0.0)
    theta = np.clip(state.theta * scaled.scale, lower, upper)
    score = scores.value + np.bincount(rows.part, rows.pull(theta), minlength=len(scores.value))
    residual, sweeps, ending = np.zeros(n), np.zeros(n, np.int64), np.zeros(n, np.int64)
    graph_rows.project_graphs(
        scaled.instance_rows, tied, rows.start, rows.part, rows.coefficient, rows.bound, lower, upper, scaled.scale,
        *mine.layout, score, theta, asked.tolerance, MOST_SWEEPS, scores.max_shift(), residual, sweeps, ending,
    )  # fmt: skip
    left = np.flatnonzero(tied | (ending != solver.CONVERGED if asked.most_evaluations >= PATIENT else False))
    if len(left):
        alone = replace(asked, weights=None, at=None)
        found, theirs = lock_step.project_some(scores, mine, left, theta / scaled.scale, alone)
        theta[theirs] = found.theta * scaled.scale[theirs]
        residual[left], ending[left] = found.residual, found.ending
        sweeps[left] += found.evaluations
    wanted = rows.part if asked.at is None else np.concatenate((rows.part, asked.at))
    q = scores.add(rows.part, rows.pull(theta)).infer(weights=asked.weights, at=wanted)
    return LocalSolution(
        posterior=q,
        theta=theta / scaled.scale,
        curvature=np.zeros(scaled.curvature_start[-1]),
        residual=residual,
        evaluations=sweeps,
        ending=ending,
        value=scaled.values(q.log_partition, theta, table),
    )
