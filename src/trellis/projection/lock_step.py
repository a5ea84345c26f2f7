"""The generic way to project onto local rows: all instances that still move take their next step together.

One ``infer`` of these instances at their trial points, then the reverse-communication solver for each. Nothing of the
structure is known but part numbers, so trees, graphs, potentials of a network or a pair of models are all served alike.
"""

from __future__ import annotations

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of, owners, take_rows
from trellis.projection.kernels import lock_step as kernel
from trellis.projection.kernels import solver
from trellis.projection.kernels.limited import MODEL_ROWS
from trellis.projection.local import GroupTable, LocalRows, LocalSolution, LocalState, SolverOptions
from trellis.structures.structure import Structure


def project_rows(scores: Structure, mine: LocalRows, state: LocalState, asked: SolverOptions) -> LocalSolution:
    """Solve each instance's own rows; ``scores`` are already divided by γ."""
    scaled, entries = mine.scaled, mine.entries
    rows, n = scaled.rows, len(scores)
    table = GroupTable.of(rows, asked.gamma)
    n_rows = np.diff(scaled.instance_rows)
    hessian_sizes = n_rows * np.where(n_rows <= solver.MOST_ROWS_WITH_HESSIAN, n_rows, MODEL_ROWS)
    solving = kernel.Solving(
        rows=scaled.instance_rows,
        row_start=rows.start,
        coefficient=rows.coefficient,
        bound=rows.bound,
        groups=scaled.instance_groups(table),
        group_start=table.start,
        kind=table.kind,
        norm=table.norm,
        amount=table.amount,
        equality=table.equality,
        part_rank=entries.part_rank,
        place_rank=entries.place_rank,
        n_ranks=entries.n_ranks,
        trial=state.theta * scaled.scale,
        hessian_start=offsets_of(hessian_sizes),
        hessian=np.zeros(int(hessian_sizes.sum())),
        integers=np.zeros((n, solver.N_INTEGERS), np.int64),
        floats=np.zeros((n, solver.N_FLOATS)),
        vectors=np.zeros(solver.N_VECTORS * len(rows)),
        recent=np.zeros((n, solver.MEMORY)),
        ending=np.full(n, solver.CONVERGED, np.int64),
    )
    kept = np.repeat(n_rows <= solver.FULL_HESSIAN_ROWS, hessian_sizes)
    if state.curvature is not None and len(state.curvature) == np.count_nonzero(kept):
        solving.hessian[kept] = state.curvature
    first = np.repeat((solver.N_VECTORS - 1) * scaled.instance_rows[:-1], n_rows) + np.arange(len(rows))
    width = np.repeat(n_rows, n_rows)
    solving.vectors[first + solver.REACH * width] = rows.largest
    solving.vectors[first + solver.SCALE * width] = scaled.scale
    kernel.begin_all(solving, scores.max_shift())
    active = np.flatnonzero(n_rows)
    while len(active):
        moving = scores.take(active) if len(active) < n else scores
        first_entry, entry = take_rows(entries.start, active)
        place = owners(first_entry)
        part = moving.parts.join(place, entries.local[entry])
        q = moving.add(part, rows.pull(solving.trial)[entry]).infer(at=part)
        marginal = np.zeros(len(rows.part))
        marginal[entry] = q.at(part)
        kernel.advance_all(solving, active, q.log_partition, marginal, asked.tolerance, asked.most_evaluations)
        active = active[solving.ending[active] == solver.EVALUATE]
    theta = np.where(np.repeat(n_rows > 0, n_rows), solving.vectors[first + solver.X * width], 0.0)
    wanted = rows.part if asked.at is None else np.concatenate((rows.part, asked.at))
    q = scores.add(rows.part, rows.pull(theta)).infer(weights=asked.weights, at=wanted)
    return LocalSolution(
        posterior=q,
        theta=theta / scaled.scale,
        curvature=solving.hessian[kept],
        residual=solving.floats[:, solver.RESIDUAL],
        evaluations=solving.integers[:, solver.N_EVALUATIONS],
        ending=solving.ending,
        value=scaled.values(q.log_partition, theta, table),
    )


def project_some(
    scores: Structure, mine: LocalRows, left: IntArray, theta: FloatArray, asked: SolverOptions
) -> tuple[LocalSolution, BoolArray]:
    """The same for instances that a fast path leaves (rising numbers), from θ of all rows; and which rows are theirs.

    weights, at : of these instances alone
    """
    some, theirs = scores.take(left), np.isin(mine.rows.instance, left)
    return project_rows(some, LocalRows(mine.rows.take(left, some.parts)), LocalState(theta[theirs]), asked), theirs
