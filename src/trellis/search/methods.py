"""The search methods for instances that an argmax does not solve, and their order."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from trellis.constraints.violations import first_curved
from trellis.data.ragged import IntArray
from trellis.errors import ConstraintError, ConvergenceWarning, DataError, check_name
from trellis.search import ilp
from trellis.search.ilp import refuse_curved
from trellis.search.kernels import kinds_with
from trellis.search.progress import Plan, SearchProgress

METHODS = ("auto", "argmax", "beam", "astar", "ilp")
SEARCHES = ("auto", "beam", "astar", "ilp", "exact")
"""Of predictions: "exact" is "auto" with ``prove``."""
WIDEST_BEAM = 100_000
"""Of a learner: a file may not ask for more memory than there is."""


@dataclass(frozen=True)
class Options:
    """How to search, checked; see :func:`trellis.search.decode`."""

    method: str = "auto"
    beam: int = 50
    prove: bool = False
    max_nodes: int = 100_000
    time_limit: float = 30.0

    @classmethod
    def of_predictions(cls, search: str, beam: int = 50) -> Options:
        """Of the method that a learner is given, checked."""
        check_name("search", search, SEARCHES)
        return cls(method="auto" if search == "exact" else search, beam=beam, prove=search == "exact")

    def __post_init__(self) -> None:
        check_name("decoding method", self.method, METHODS)
        check_count("beam", self.beam)
        check_count("max_nodes", self.max_nodes)


def check_count(name: str, number: object) -> None:
    """Refuse what is not a whole number, 1 or more."""
    if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
        raise DataError(f"{name} must be a whole number, 1 or more, but is {number!r}")


def refuse_unserved(plan: Plan, method: str) -> None:
    """Raise if a method is asked for that does not know the structure, or is not exact for the rows."""
    if method == "argmax" and len(plan.remaining.rows):
        rows = plan.remaining.rows
        names = [rows.names[int(c)] for c in np.unique(rows.constraint)]
        raise ConstraintError(
            f"{', '.join(map(repr, names))} {'does' if len(names) == 1 else 'do'} not factor over single parts, so an "
            "argmax is not exact: use method 'auto', 'beam', 'astar' or 'ilp'"
        )
    for one in plan.rows.checks:
        if method not in ("auto", "beam"):
            name = plan.rows.names[one.constraint]
            raise ConstraintError(f"{name!r} is a Python function, which method {method!r} cannot use: use 'beam'")
    if method in ("beam", "astar") and not plan.serves(method):
        parts = plan.rows.parts
        what = f"{parts.outputs_are} (kind {parts.kind!r})" if parts.kind else parts.outputs_are
        kinds = " and ".join(map(repr, kinds_with(method)))
        raise ConstraintError(
            f"method {method!r} serves structures of kind {kinds}, but these are {what}: use method 'auto' or 'ilp'"
        )


def search(progress: SearchProgress, options: Options) -> None:
    """The method asked for, then others where it found no output or, with ``prove``, left a doubt."""
    todo = progress.unproved()
    if len(todo) == 0:
        return
    plan, fast = progress.plan, progress.plan.fast
    if plan.rows.checks:
        fast.checked_beam(progress, todo, options.beam)
    elif options.method == "astar":
        _astar_or_beam(progress, todo, options)
    elif options.method == "ilp" or not plan.serves("beam"):
        refuse_curved(plan.remaining.rows)
        if plan.serves("beam"):
            # a good output first: parts that no better one uses then need no variable
            fast.beam(progress, todo, options.beam)
        ilp.improve(progress, todo, options.time_limit)
        return
    else:
        fast.beam(progress, todo, options.beam)
    if not plan.rows.checks:
        search_on(progress, options)


def search_on(progress: SearchProgress, options: Options) -> None:
    """Exact methods for instances that have no output yet and, with ``prove``, for those in doubt."""
    plan = progress.plan
    for further in ("astar", "ilp"):
        todo = progress.unproved() if options.prove else progress.missing()
        todo = todo[progress.bound[todo] > -np.inf]
        if not len(todo):
            return
        if further == "astar" and options.method != "astar" and plan.serves("astar"):
            plan.fast.astar(progress, todo, options.max_nodes)
        elif further == "ilp" and first_curved(plan.remaining.rows) is None:
            ilp.improve(progress, todo, options.time_limit)


def _astar_or_beam(progress: SearchProgress, todo: IntArray, options: Options) -> None:
    fast = progress.plan.fast
    capped = fast.astar(progress, todo, options.max_nodes)
    if len(capped):
        fast.beam(progress, capped, options.beam)
        warnings.warn(
            f"A* stored {options.max_nodes} prefixes of instance {progress.scores.first + capped[0]} without an answer"
            + (f", and so in {len(capped) - 1} more instances" if len(capped) > 1 else "")
            + f"; a beam of width {options.beam} answered there. Raise max_nodes, or use method 'ilp'",
            ConvergenceWarning,
            stacklevel=5,
        )
