"""Decoding by integer programming: the linear relaxation first, 0/1 search only where its answer is fractional.

The program is that of :func:`trellis.search.program.as_program`, one instance at a time, and serves every structure
that has a polytope. Where every vertex of that is an output (paths through the slots of a chain) the relaxation is
fractional only where rows make it so. Parts that no output as good as a known one uses (their max-marginal is smaller)
are closed.

The bound is that of the solver (:mod:`trellis.structures.integer`), which may hold up to 1e-6 only, and prices multiply
that. So a proof of this method is one up to 1e-5, relative to 1 + |value|.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray, IntArray
from trellis.search.prices import prices
from trellis.search.program import Program, as_program
from trellis.search.progress import SearchProgress
from trellis.structures import integer
from trellis.structures.integer import Solution
from trellis.structures.structure import Structure

PROOF = 1e-5
"""Relative gap at which the solver's bound counts as reached."""


def improve(progress: SearchProgress, todo: IntArray, time_limit: float, solver: str | None = None) -> None:
    """Search the instances ``todo``, for ``time_limit`` seconds each at most."""
    better: dict[int, Any] = {}
    for i in todo.tolist():
        scores, rows = progress.scores.instances(i, i + 1), progress.plan.remaining.rows.shard(i, i + 1)
        program = program_of(scores, rows, least=float(progress.value[i]))
        found = solve(program, time_limit, solver)
        if found.variables is not None:
            output = program.outputs(found.variables)
            value = _value(scores, rows, output)
            if value > progress.value[i]:
                better[i], progress.value[i] = output, value
        progress.bound[i] = min(progress.bound[i], max(found.bound, progress.value[i]))
        progress.proof[i] = PROOF
        progress.method[i] = "ilp"
    progress.replace(better)


def kbest(progress: SearchProgress, k: int, time_limit: float) -> tuple[list[Any], FloatArray, FloatArray]:
    """k outputs of every instance: after the best the best of all others, and so on.

    Their values are (k, n_instances), −∞ where there is none, and bounds of all others are (n_instances,).
    """
    n, parts = len(progress.value), progress.scores.parts
    value, bound = np.full((k, n), -np.inf), progress.bound.copy()
    best = parts.split_outputs(progress.outputs)
    found: list[list[Any]] = [list(best) for _ in range(k)]
    for i in range(n):
        scores, rows = progress.scores.instances(i, i + 1), progress.plan.remaining.rows.shard(i, i + 1)
        program, listed = program_of(scores, rows), [(float(progress.value[i]), best[i])]
        while len(listed) < k:
            program = program.without(scores.parts.of(listed[-1][1]))
            one = solve(program, time_limit)
            bound[i] = one.bound
            if one.variables is None:
                break
            output = program.outputs(one.variables)
            listed.append((_value(scores, rows, output), output))
        # solvers find them in this order up to their tolerance
        listed.sort(key=lambda pair: -pair[0])
        for place, (worth, output) in enumerate(listed):
            value[place, i], found[place][i] = worth, output
        for place in range(len(listed), k):
            found[place][i] = listed[0][1]
    return [parts.join_outputs(pieces) for pieces in found], value, bound


def program_of(scores: Structure, rows: Rows, *, least: float = -np.inf) -> Program:
    """The program of one instance: a batch of one, and rows over its parts.

    least : the value of a known output, which must be found again or beaten; −∞ if none is known
    """
    closed = np.zeros(scores.parts.n_parts, dtype=np.bool_)
    for some in rows.forbidden.sets:
        closed[some.listed()] = True
    best = scores.max_marginals() if least > -np.inf else None
    if best is not None:
        closed |= best < least - PROOF * (1.0 + abs(least))
    return as_program(scores.polytope(np.flatnonzero(closed)), rows)


def solve(program: Program, time_limit: float, solver: str | None = None) -> Solution:
    """The best output of a program, by the solver of this name (:mod:`trellis.structures.integer`)."""
    return integer.solve(program, program.whole, time_limit, solver)


def _value(scores: Structure, rows: Rows, output: Any) -> float:
    return float(scores.score(output)[0] - prices(rows, output)[0])
