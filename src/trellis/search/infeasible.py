"""Which hard constraints together leave an instance without an output, and what slack would undo it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NoReturn

import numpy as np

from trellis.constraints.conflict import find_conflict
from trellis.constraints.rows import Groups, Rows
from trellis.constraints.strength import Norm
from trellis.data.ragged import BoolArray
from trellis.errors import InfeasibleError
from trellis.search import ilp
from trellis.search.methods import Options, search_on
from trellis.search.plan import Plan
from trellis.search.progress import SearchProgress
from trellis.structures.structure import Structure

EFFORT = Options(max_nodes=200_000, time_limit=10.0)
"""For each question whether some of the constraints can hold together; if it takes more they are taken to."""


def explain(scores: Structure, rows: Rows, instance: int, n_more: int = 0) -> NoReturn:
    """Raise the error that names the conflict. ``scores`` are those before anything was folded in."""
    one, mine = scores.instances(instance, instance + 1).flat(), rows.canonical().shard(instance, instance + 1)
    one.argmax()  # without any constraint: its own error names the instance
    conflict = find_conflict(mine, partial(_is_feasible, one), partial(_least_violation, one))
    number = scores.first + instance
    where = f"instance {number}" + (f" (and {n_more} more)" if n_more else "")
    raise conflict.error(where, (number,))


def _is_feasible(scores: Structure, rows: Rows) -> bool:
    """Whether some output meets all rows; yes where that was not settled."""
    try:
        progress = SearchProgress.begin(scores, Plan.of(rows), None)
    except InfeasibleError:
        return False
    search_on(progress, EFFORT)
    return len(progress.infeasible()) == 0


def _least_violation(scores: Structure, rows: Rows, elastic: BoolArray) -> float | None:
    """The least ε such that some output exceeds the elastic rows by no more, and the others not at all; None: no ε is.

    A slack in L2 is taken for one in L1, which is no larger.
    """
    norm = np.where(rows.groups.norm == Norm.L2, Norm.L1, rows.groups.norm).astype(np.int8)
    groups = Groups(rows.groups.kind, norm, rows.groups.amount)
    program = ilp.program_of(scores, replace(rows, groups=groups)).loosened(rows.equality, elastic)
    found = ilp.solve(program, EFFORT.time_limit)
    return None if found.variables is None else max(float(found.variables[-1]), 0.0)
