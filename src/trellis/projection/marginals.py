"""The linear program of γ = 0 over marginals: all outputs at once, and the columns that its answer is made of.

    max  score·x − prices(ξ)   s.t. x in the structure's polytope,  A (use · x) − b ≤ ξ

A polytope holds every average of outputs, so the optimum is a bound for any structure that has one. Where every vertex
is an output, as with paths, its marginals are those of an average, which is taken apart: again and again an output of
parts that are left, with the weight of the smallest of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from trellis.data.ragged import FloatArray
from trellis.errors import ConstraintError, DataError, InfeasibleError

if TYPE_CHECKING:
    from trellis.projection.columns import Columns, Segment
    from trellis.projection.master import Elastic

LARGEST = 300_000
"""Variables beyond which the program is not tried."""
NOTHING = 1e-7
"""A marginal up to this is rounding."""
MOST_PEELED = 2000
"""Outputs of an instance that an answer is taken apart into: each takes one part at least away."""


def add_from_marginals(columns: Columns, elastic: Elastic | None) -> float:
    """Add the outputs of the program's answer to the columns; returns its optimum, ∞ where there is none."""
    segments = columns.segments
    if sum(segment.scores.parts.n_parts for segment in segments) > LARGEST:
        return np.inf
    none = np.zeros(0, dtype=np.int64)
    phi, gain, matrices, bounds, uses = [], [], [], [], []
    for segment in segments:
        entries, of_entry, local = segment.entry, *segment.scores.parts.split(segment.part)
        row = columns.entry_row[entries]
        value = columns.counted(columns.rows.coefficient[entries], row, segment.first + of_entry)
        for i in range(len(segment.scores)):
            try:
                polytope = segment.scores.instances(i, i + 1).polytope(none)
            except DataError:  # outputs of this kind have none
                return np.inf
            mine, possible = of_entry == i, polytope.score > -np.inf
            use = polytope.use[:, possible]
            shape = (len(columns.rows), use.shape[0])
            phi.append(sparse.csr_array((value[mine], (row[mine], local[mine])), shape=shape) @ use)
            gain.append(columns.weights[segment.first + i] * polytope.score[possible])
            matrices.append(polytope.matrix[:, possible])
            bounds.append(polytope.bound)
            uses.append(use)
    try:
        x, _, _, cost = columns.program.solve(
            sparse.hstack(phi, format="csr"), np.concatenate(gain), sparse.block_diag(matrices, format="csr"),
            np.concatenate(bounds), elastic,
        )  # fmt: skip
    except ConstraintError:
        return np.inf
    cut = np.cumsum([0, *(len(one) for one in gain)])
    used = [use @ x[cut[i] : cut[i + 1]] for i, use in enumerate(uses)]
    for number, segment in enumerate(segments):
        mine = used[segment.first : segment.first + len(segment.scores)]
        _peel(columns, number, segment, np.concatenate([np.zeros(0), *mine]))
    return -cost


def _peel(columns: Columns, number: int, segment: Segment, marginal: FloatArray) -> None:
    """Add outputs whose average has these marginals, one instance's parts after the other's."""
    parts, n = segment.scores.parts, len(segment.scores)
    size = parts.sizes()
    instance = np.repeat(np.arange(n), size)
    every = parts.join(instance, np.arange(len(marginal)) - np.repeat(np.cumsum(size) - size, size))
    left = np.zeros(parts.n_parts)
    left[every] = marginal
    owner = np.zeros(parts.n_parts, dtype=np.int64)
    owner[every] = instance
    share = np.ones(n)
    for _ in range(MOST_PEELED):
        wanted = share > NOTHING
        if not np.any(wanted):
            return
        # instances that are through are asked for any output
        value = np.where(wanted[owner], np.log(np.where(left > NOTHING, left, 1.0)), 0.0)
        value[wanted[owner] & (left <= NOTHING)] = -np.inf
        try:
            found = segment.scores.flat().add(np.arange(parts.n_parts), value).argmax()
        except InfeasibleError:  # rounding, or a polytope with vertices that are no outputs
            return
        used = parts.of(found.outputs)
        smallest = np.full(n, np.inf)
        np.minimum.at(smallest, owner[used], left[used])
        smallest[~np.isfinite(smallest)] = 1.0  # an output that uses no part is the only one
        columns.add_of(number, found, wanted)
        left[used] -= smallest[owner[used]]
        share = np.where(wanted, share - smallest, share)
