"""Which hard constraints together leave an instance without an output, and what slack would undo it."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import numpy as np

from trellis.constraints.rows import Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.errors import InfeasibleError
from trellis.search import astar, ilp
from trellis.search.plan import Plan
from trellis.search.progress import Progress
from trellis.search.single import rows_of, scores_of
from trellis.structures.chain import Chain
from trellis.structures.chain_tables import ChainTables

SECONDS = 10.0
"""For each question whether some of the constraints can hold together; if it takes longer they are taken to."""
MOST_NODES = 200_000


def explain(scores: Chain, rows: Rows, instance: int, n_more: int = 0) -> NoReturn:
    """Raise the error that names the conflict. ``scores`` are those before anything was folded in."""
    one = _any_output(scores_of(scores, instance))
    one.argmax()  # without any constraint: its own error names the instance
    mine = rows_of(rows.canonical(), instance)
    strict = np.isin(mine.groups.kind[mine.group], (Kind.HARD, Kind.SLACK))
    mine = mine.select(strict)
    guilty = sorted({*mine.constraint.tolist(), *mine.forbidden_by.tolist()})
    for constraint in list(guilty):
        rest = [other for other in guilty if other != constraint]
        if not _is_feasible(one, _only(mine, rest)):
            guilty = rest
    names = tuple(rows.names[c] for c in guilty)
    number = scores.first + instance
    more = f" ({n_more} more instances are like it)" if n_more else ""
    slack = _least_slack(one, _only(mine, guilty))
    remedy = "Drop one of them" if len(names) > 1 else "Drop it"
    amount = "" if slack is None else f" of {slack:.6g}"
    raise InfeasibleError(
        f"instance {number}{more} has no output that meets {' and '.join(map(repr, names))}, given the labels and "
        f"transitions its scores allow. {remedy}, or allow a slack{amount} or a penalty",
        instances=(number,),
        constraints=names,
        slack=slack,
    )


def _any_output(scores: Chain) -> Chain:
    """Scores in which all possible outputs are equal."""
    t = scores.tables
    flat = (np.where(table == -np.inf, -np.inf, 0.0) for table in (t.node, t.edge, t.start, t.stop))
    return Chain.over(
        ChainTables(*flat),
        scores.offsets,
        node_index=scores.node_index,
        edge_index=scores.edge_index,
        first=scores.first,
    )


def _only(rows: Rows, constraints: list[int]) -> Rows:
    """Rows and forbidden parts of some constraints."""
    kept = np.isin(rows.forbidden_by, constraints)
    some = rows.select(np.isin(rows.constraint, constraints))
    return replace(some, forbidden=rows.forbidden[kept], forbidden_by=rows.forbidden_by[kept])


def _is_feasible(scores: Chain, rows: Rows) -> bool:
    """Whether some output meets all rows; yes where that was not settled in time."""
    plan = Plan.of(rows)
    folded = plan.additions.apply(scores)
    try:
        progress = Progress.begin(folded, plan, None)
    except InfeasibleError:
        return False
    if progress.value[0] == -np.inf:
        todo = np.array([0])
        if len(astar.improve(progress, todo, MOST_NODES)) and not ilp.has_curved(plan.remaining.rows):
            ilp.improve(progress, todo, SECONDS)
    return len(progress.infeasible()) == 0


def _least_slack(scores: Chain, rows: Rows) -> float | None:
    """The least ε such that some output exceeds no row by more; None where parts are forbidden outright."""
    if len(rows.forbidden) or len(rows) == 0:
        return None
    together = Groups(
        np.array([Kind.PENALTY], np.int8), np.array([Norm.LINF], np.int8), np.array([1.0])
    )  # fmt: skip
    found = ilp.solve(
        scores, replace(rows, group=np.zeros(len(rows), dtype=np.int64), groups=together), time_limit=SECONDS
    )  # fmt: skip
    if found.labels is None:
        return None
    return float(rows.excess(rows.evaluate(found.labels)).max())
