"""When no q can satisfy the rows: a smallest set of constraints that conflict, and the slack that would resolve it.

Feasibility of rows is decided by the linear program of :mod:`columns`: the least possible largest violation of its hard
and slack rows over all averages of outputs, after the parts that it forbids are masked.

The work is bounded (:data:`MOST_WORK`). A conflict that takes more to prove is not reported here: whoever asked warns
that the rows did not converge.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from trellis.constraints.conflict import find_conflict, strict_rows
from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray
from trellis.errors import InfeasibleError
from trellis.projection.columns import FEASIBLE, OutputColumn, Segment, average_outputs
from trellis.projection.master import IMPOSSIBLE, Elastic, UndecidedError, WorkBudget
from trellis.structures.structure import Structure

MOST_WORK = 1e8
"""Iterations times nonzero coefficients of the linear programs of one question: about a second."""


def can_hold(
    scores: Sequence[Structure], rows: Rows, seen: list[OutputColumn] | None = None, work: WorkBudget | None = None
) -> bool:
    """Whether some q satisfies all strict rows, and uses nothing that is forbidden; True where the work is not enough
    to tell.

    seen : outputs that were found when others of the rows were asked about, to begin with; more are put there
    """
    segments = _segments(scores, rows)
    if segments is None or not len(rows):
        return segments is not None
    seen = [] if seen is None else seen
    closed = [rows.forbidden.shard(rows.parts, s.first, s.first + len(s.scores)) for s in segments]
    is_open = [not np.any(closed[column.segment].contains(column.used)) for column in seen]
    known = [column for column, open_ in zip(seen, is_open, strict=True) if open_]
    rest = [column for column, open_ in zip(seen, is_open, strict=True) if not open_]
    try:
        found = average_outputs(
            segments, rows, elastic=Elastic.every(rows), known=known, work=work or WorkBudget(MOST_WORK)
        )
    except UndecidedError:
        return True
    seen[:] = [*found.columns, *rest]
    return -found.bound <= FEASIBLE


def least_violation(scores: Sequence[Structure], rows: Rows, elastic: BoolArray) -> float | None:
    """The least possible largest violation of ``elastic`` strict rows while the others hold.

    None if no output is left, or the others cannot hold.
    """
    segments = _segments(scores, rows)
    if segments is None:
        return None
    if not len(rows):
        return 0.0
    work, together = WorkBudget(MOST_WORK), Elastic(elastic, largest=True)
    apart = average_outputs(segments, rows, elastic=Elastic(elastic), work=work)
    least = max(0.0, -average_outputs(segments, rows, elastic=together, known=apart.columns, work=work).value)
    return None if least >= IMPOSSIBLE else least


def _segments(scores: Sequence[Structure], rows: Rows) -> list[Segment] | None:
    """The scores without what is forbidden; None if no output is left."""
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
    return segments


def refuse_conflict(scores: Sequence[Structure], rows: Rows) -> None:
    """Raise if no q satisfies the rows of these instances: of one instance, or of a corpus (shard by shard)."""
    rows = rows.written_out()
    seen: list[OutputColumn] = []
    if can_hold(scores, strict_rows(rows), seen):
        return
    filtering = partial(can_hold, scores, seen=seen, work=WorkBudget(MOST_WORK))
    try:
        conflict = find_conflict(rows, filtering, partial(least_violation, scores))
    except UndecidedError:
        return
    if not conflict.names:
        return  # the model itself leaves no output
    if len(scores) == 1 and len(scores[0]) == 1:
        number = scores[0].first
        raise conflict.error(f"instance {number}", (number,))
    raise conflict.error("over the corpus")


def explain_all(scores: Sequence[Structure], rows: Rows) -> None:
    """Look for a conflict inside each instance of the shards, then over all of them."""
    first, rows = 0, rows.written_out()
    for one in scores:
        _explain_first(one, rows.shard(first, first + len(one)).local())
        first += len(one)
    refuse_conflict(scores, rows)


def _explain_first(scores: Structure, rows: Rows) -> None:
    """Raise if an instance's own rows conflict, for the first such instance, which is found by halving."""
    if len(scores) == 1:
        refuse_conflict([scores], rows)
    elif not can_hold([scores], strict_rows(rows)):
        middle = len(scores) // 2
        _explain_first(scores.instances(0, middle), rows.shard(0, middle))
        _explain_first(scores.instances(middle, len(scores)), rows.shard(middle, len(scores)))
