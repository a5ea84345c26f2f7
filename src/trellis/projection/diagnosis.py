"""When no q can satisfy the rows: a smallest set of constraints that conflict, and the slack that would resolve it.

Feasibility of a set of constraints is decided by the linear program of :mod:`columns` (the least possible largest
violation of its hard and slack rows over all averages of outputs), after the parts it forbids are masked. A deletion
filter then drops every constraint without which the rest still conflicts: of what is left, every member is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trellis.constraints.rows import COUPLING, Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.errors import InfeasibleError
from trellis.projection.columns import FEASIBLE, Segment, average_outputs
from trellis.structures.structure import Structure


@dataclass(frozen=True)
class Conflict:
    """Constraints that cannot hold together, and the least slack (L∞) with which they could.

    slack : None where no slack helps, because the model itself leaves no output
    """

    names: tuple[str, ...]
    slack: float | None


def find_conflict(scores: Sequence[Structure], rows: Rows) -> Conflict | None:
    """A smallest conflicting set of constraints of these instances, or None if they can all hold."""
    rows = rows.written_out()
    strict = rows.select(np.isin(rows.groups.kind[rows.group], (Kind.HARD, Kind.SLACK)))
    involved = np.unique(np.concatenate([strict.constraint, rows.forbidden_by])).tolist()
    everything = least_violation(scores, strict, involved)
    if everything is not None and everything <= FEASIBLE:
        return None
    kept = list(involved)
    for number in involved:
        rest = [other for other in kept if other != number]
        violation = least_violation(scores, strict, rest)
        if violation is None or violation > FEASIBLE:
            kept = rest
    if not kept:
        return None  # the model itself leaves no output
    slack = least_violation(scores, strict, kept)
    if slack is None:
        slack = least_violation(scores, forbidden_as_rows(strict), kept)
    return Conflict(tuple(rows.names[number] for number in kept), slack)


def least_violation(scores: Sequence[Structure], rows: Rows, constraints: Collection[int]) -> float | None:
    """The least possible largest violation with only some constraints in force; None if no output is left."""
    forbid = np.isin(rows.forbidden_by, list(constraints))
    chosen = rows.select(np.isin(rows.constraint, list(constraints))).with_forbidden(forbid)
    segments, first = [], 0
    for one in scores:
        closed = chosen.parts.within(chosen.forbidden, first, first + len(one))[1]
        segments.append(Segment.of(one.forbid(closed), chosen, first))
        first += len(one)
    try:
        for segment in segments:
            segment.scores.argmax()
    except InfeasibleError:
        return None
    if not len(chosen):
        return 0.0
    return max(0.0, -average_outputs(segments, chosen, feasibility=True).value)


def forbidden_as_rows(rows: Rows) -> Rows:
    """The same, with forbidden parts as hard rows: a constraint's forbidden parts are used 0 times."""
    numbers, place = np.unique(rows.forbidden_by, return_inverse=True)
    order = np.lexsort((rows.forbidden, place))
    n, n_groups = len(numbers), len(rows.groups)
    zeros, new = np.zeros(n), np.arange(n)
    return replace(
        rows,
        start=np.concatenate([rows.start, rows.start[-1] + np.cumsum(np.bincount(place, minlength=n))]),
        part=np.concatenate([rows.part, rows.forbidden[order]]),
        coefficient=np.concatenate([rows.coefficient, np.ones(len(order))]),
        bound=np.concatenate([rows.bound, zeros]),
        equality=np.concatenate([rows.equality, zeros > 0]),
        instance=np.concatenate([rows.instance, np.full(n, COUPLING)]),
        group=np.concatenate([rows.group, n_groups + new]),
        constraint=np.concatenate([rows.constraint, numbers]),
        row_number=np.concatenate([rows.row_number, len(rows) + new]),
        groups=Groups(
            np.concatenate([rows.groups.kind, np.full(n, Kind.HARD, np.int8)]),
            np.concatenate([rows.groups.norm, np.full(n, Norm.LINF, np.int8)]),
            np.concatenate([rows.groups.amount, zeros]),
        ),
        forbidden=rows.forbidden[:0],
        forbidden_by=rows.forbidden_by[:0],
    )


def conflict_error(conflict: Conflict, where: str, instances: tuple[int, ...]) -> InfeasibleError:
    """The error that says what conflicts, where, and what would resolve it."""
    if len(conflict.names) == 1:
        what = f"{where}: constraint {conflict.names[0]!r} cannot hold"
    else:
        what = f"{where}: constraints {' and '.join(map(repr, conflict.names))} cannot hold together"
    if conflict.slack is None:
        help_ = (
            "together with the model's own zeros they leave no possible output: allow more, or make one of them soft"
        )
    else:
        help_ = f"a slack of {conflict.slack:.4g} (L∞) would resolve it, or make one of them soft (a penalty)"
    return InfeasibleError(f"{what}; {help_}.", instances=instances, constraints=conflict.names, slack=conflict.slack)


def refuse_conflict(scores: Sequence[Structure], rows: Rows) -> None:
    """Raise if no q satisfies the rows of these instances: of one instance, or of a corpus (shard by shard)."""
    conflict = find_conflict(scores, rows)
    if conflict is None:
        return
    if len(scores) == 1 and len(scores[0]) == 1:
        number = scores[0].first
        raise conflict_error(conflict, f"instance {number}", (number,))
    raise conflict_error(conflict, "over the corpus", ())


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
