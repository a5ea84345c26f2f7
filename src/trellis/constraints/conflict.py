"""Constraints in conflict: a smallest set of them that cannot hold together, and the slack that would resolve it.

Whether some constraints can hold is decided by the caller: by one output (search), by an average of outputs
(projection). A deletion filter drops every constraint without which the rest still conflicts: of what is left, every
member is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from trellis.constraints.rows import COUPLING, Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import BoolArray, offsets_of
from trellis.errors import InfeasibleError


@dataclass(frozen=True)
class Conflict:
    """Constraints that cannot hold together, and the least slack (L∞) with which they could.

    names : none where the scores alone, without any constraint, leave no output
    slack : None where no slack helps, or none was found;  further : whether some of them have slack already
    """

    names: tuple[str, ...]
    slack: float | None
    further: bool = False

    def error(self, where: str, instances: tuple[int, ...] = ()) -> InfeasibleError:
        """The error that says what conflicts, where ("instance 7"), and what would resolve it."""
        if len(self.names) == 1:
            what = f"{where}: constraint {self.names[0]!r} cannot hold"
        else:
            what = f"{where}: constraints {' and '.join(map(repr, self.names))} cannot hold together"
        if self.slack is None:
            remedy = "together with the model's own zeros they leave no possible output: allow more, or make one soft"
        else:
            # rounded up: a slack that is too small by a digit resolves nothing
            unit = 10.0 ** (math.floor(math.log10(self.slack)) - 3) if self.slack > 0 else 1.0
            enough = math.ceil(self.slack / unit - 1e-6) * unit
            slack = "a further slack" if self.further else "a slack"
            remedy = f"{slack} of {enough:.4g} (L∞) would resolve it, or make one of them soft (a penalty)"
        return InfeasibleError(f"{what}; {remedy}.", instances=instances, constraints=self.names, slack=self.slack)


def find_conflict(
    rows: Rows, feasible: Callable[[Rows], bool], least_violation: Callable[[Rows, BoolArray], float | None]
) -> Conflict:
    """A smallest conflicting set of the constraints of rows that cannot all hold.

    feasible : whether hard and slack rows, and what they forbid, can hold
    least_violation : by how much the worst of some such rows (n_rows,) is exceeded at best, beyond its slack, while the
        others hold; None where they cannot
    """
    strict = strict_rows(rows)
    kept = np.unique(np.concatenate((strict.constraint, strict.forbidden.by))).astype(int).tolist()
    for number in list(kept):
        rest = [other for other in kept if other != number]
        if not feasible(_only(strict, rest)):
            kept = rest
    guilty, slack = _only(strict, kept), None
    # beside everything else, or where another conflict is left, by themselves
    for some in (strict, guilty) if kept else ():
        loose = forbidden_as_rows(some, kept)
        slack = least_violation(loose, np.isin(loose.constraint, kept)) if slack is None else slack
    further = bool(np.any(guilty.groups.amount[guilty.group] > 0))
    return Conflict(tuple(rows.names[number] for number in kept), slack, further)


def strict_rows(rows: Rows) -> Rows:
    """What may not be violated at any price: hard and slack rows, and what is forbidden."""
    return replace(rows.select(np.isin(rows.groups.kind[rows.group], (Kind.HARD, Kind.SLACK))), sparsity=())


def _only(rows: Rows, constraints: list[int]) -> Rows:
    """Rows and forbidden parts of some constraints."""
    some = rows.select(np.isin(rows.constraint, constraints))
    return replace(some, forbidden=rows.forbidden.only(constraints))


def forbidden_as_rows(rows: Rows, constraints: list[int]) -> Rows:
    """The same, with what these constraints forbid as hard rows: its forbidden parts are used 0 times by each.

    The new rows are local where the rows are the local rows of one instance.
    """
    own = rows.forbidden.only(constraints)
    parts = [some.listed() for some in own.sets]
    n, start = len(parts), offsets_of(map(len, parts))
    alone = rows.parts.n_instances == 1 and not np.any(rows.instance == COUPLING)
    closed = Rows(
        rows.parts, rows.names, start, np.concatenate([np.zeros(0, np.int64), *parts]), np.ones(int(start[-1])),
        np.zeros(n), np.zeros(n, np.bool_), np.full(n, 0 if alone else COUPLING), np.arange(n),
        np.asarray(own.by, dtype=np.int64), np.arange(n), Groups.uniform(n, Kind.HARD, Norm.LINF, 0.0),
    )  # fmt: skip
    return replace(rows.followed_by(closed), forbidden=rows.forbidden.without(constraints))
