"""When no q can satisfy the rows: a smallest set of constraints that conflict, and the slack that would resolve it.

Feasibility of rows is decided by the linear program of :mod:`columns`: the least possible largest violation of its hard
and slack rows over all averages of outputs, after the parts that it forbids are masked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.constraints.conflict import find_conflict, strict_rows
from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray
from trellis.errors import InfeasibleError
from trellis.projection.columns import FEASIBLE, IMPOSSIBLE, Segment, average_outputs
from trellis.structures.structure import Structure


def least_violation(scores: Sequence[Structure], rows: Rows, elastic: BoolArray | None = None) -> float | None:
    """The least possible largest violation of strict rows, or of ``elastic`` ones while the others hold.

    None if no output is left, or the others cannot hold.
    """
    segments, first = [], 0
    for one in scores:
        closed = rows.forbidden.shard(rows.parts, first, first + len(one))
        segments.append(Segment.of(one.apply(closed.mask(one.parts)), rows, first))
        first += len(one)
    try:
        for segment in segments:
            segment.scores.argmax()
    except InfeasibleError:
        return None
    if not len(rows):
        return 0.0
    if elastic is None:
        elastic = np.ones(len(rows), dtype=np.bool_)
    least = max(0.0, -average_outputs(segments, rows, elastic=elastic).value)
    return None if least >= IMPOSSIBLE else least


def refuse_conflict(scores: Sequence[Structure], rows: Rows) -> None:
    """Raise if no q satisfies the rows of these instances: of one instance, or of a corpus (shard by shard)."""

    rows = rows.written_out()

    def feasible(some: Rows) -> bool:
        least = least_violation(scores, some)
        return least is not None and least <= FEASIBLE

    if feasible(strict_rows(rows)):
        return
    conflict = find_conflict(rows, feasible, lambda some, elastic: least_violation(scores, some, elastic))
    if not conflict.names:
        return  # the model itself leaves no output
    if len(scores) == 1 and len(scores[0]) == 1:
        number = scores[0].first
        raise conflict.error(f"instance {number}", (number,))
    raise conflict.error("over the corpus")


def explain(error: InfeasibleError, scores: Structure, rows: Rows) -> None:
    """Raise a better error if constraints, and not the model alone, leave an instance of the shard without output."""
    for number in error.instances:
        i = number - scores.first
        if 0 <= i < len(scores):
            refuse_conflict([scores.instances(i, i + 1)], rows.shard(i, i + 1).local())


def explain_all(scores: Sequence[Structure], rows: Rows) -> None:
    """Look for a conflict inside each instance of the shards, then over all of them."""
    first = 0
    for one in scores:
        for i in range(len(one)):
            refuse_conflict([one.instances(i, i + 1)], rows.shard(first + i, first + i + 1).local())
        first += len(one)
    refuse_conflict(scores, rows)
