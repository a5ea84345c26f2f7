"""decode: the best output of each instance, given scores and constraints.

    y* = argmax_y  score(y) − Σ price of what y violates         (Chang 2011, eq. 3.3-3.4; prices: :mod:`prices`)

    method        exact                            serves               cost
    argmax        where every price factors        every structure      one pass
    beam          if nothing lost was better       labels, sequences    n · K · width · rows; says what it may have lost
    astar         always, up to a cap of memory    labels, sequences    from one pass to exponential
    ilp           up to the solver's tolerance     with a polytope      a linear program, sometimes a 0/1 search
    auto          argmax where it is exact; else beam, and with ``prove`` A* and then ILP where the beam left a doubt;
                  ILP where there is no beam

Every method starts with an argmax of scores into which all that factors is folded (:class:`Plan`); where its output
violates nothing else, that is the answer and nothing is searched.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import NoReturn

import numpy as np

from trellis.constraints.conflict import find_conflict
from trellis.constraints.rows import Groups, Rows, check_same_parts
from trellis.constraints.strength import Norm
from trellis.data.ragged import BoolArray
from trellis.errors import ConstraintError, ConvergenceWarning, InfeasibleError
from trellis.search import ilp
from trellis.search.methods import Options, check_count, refuse_unserved, search, search_on
from trellis.search.prices import prices
from trellis.search.progress import Decoded, DecodedKBest, Plan, SearchProgress, gaps
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


def decode(
    scores: Structure,
    rows: Rows | Plan,
    method: str = "auto",
    *,
    beam: int = 50,
    prove: bool = False,
    max_nodes: int = 100_000,
    time_limit: float = 30.0,
    rng: np.random.Generator | None = None,
) -> Decoded:
    """Find the best output of each instance under constraints.

    An :class:`InfeasibleError` names the constraints that leave an instance without an output.

    Parameters
    ----------
    scores : Structure
        Log-potentials of the parts.
    rows : Rows or Plan
        Compiled constraints, or a plan of them for repeated use.
    method : str, default="auto"
        Search method: "auto", "argmax", "beam", "astar" or "ilp".
    beam : int, default=50
        Beam width of the search.
    prove : bool, default=False
        Continue with A* and integer programming until optimality is proved.
    max_nodes : int, default=100000
        Prefixes that A* stores per instance; beyond, beam search answers with a warning.
    time_limit : float, default=30.0
        Seconds of integer programming per instance.
    rng : Generator or None, default=None
        Choose at random among outputs with equal scores.

    Returns
    -------
    Decoded
        ``outputs``, their scores, and ``proved``: whether each is optimal.

    Examples
    --------
    >>> from trellis.constraints import compile_constraints, count
    >>> from trellis.data.batch import Batch
    >>> from trellis.data.vocabulary import Vocabulary
    >>> from trellis.structures import Chain
    >>> scores = Chain([0, 2], np.log([[0.9, 0.1], [0.6, 0.4]]), np.zeros((2, 2)))
    >>> batch, labels = Batch.from_sentences([["a", "b"]]), Vocabulary(["N", "V"])
    >>> found = decode(scores, compile_constraints([count("V") >= 1], batch, labels, scores.parts))
    >>> found.outputs.tolist(), found.proved.tolist()
    ([0, 1], [True])
    """
    options = Options(method, beam, prove, max_nodes, time_limit)
    progress = _search_best(scores, rows, options, rng)
    proved, gap = gaps(progress.value, progress.bound, progress.proof)
    score = scores.score(progress.outputs)
    value = score - prices(progress.plan.priced.rows, progress.outputs)
    return Decoded(progress.outputs, score, value, proved, gap, progress.method)


def decode_kbest(
    scores: Structure, rows: Rows | Plan, k: int, *, beam: int = 50, time_limit: float = 30.0
) -> DecodedKBest:
    """The k best outputs of each instance by value: by beam search (width ``beam``, or 2 k if that is more) where the
    structure has it, by integer programs else (``time_limit`` seconds each).

    The first is that of :func:`decode`. Few prefixes can be dropped early when many outputs are wanted, so this takes
    ten times as long and more.
    """
    check_count("k", k)
    progress = _search_best(scores, rows, Options(beam=beam, time_limit=time_limit), None)
    for one in progress.plan.rows.checks:
        raise ConstraintError(f"{progress.plan.rows.names[one.constraint]!r} is a Python function: set k_best=1")
    if progress.plan.serves("kbest"):
        outputs, value, bound = progress.plan.fast.kbest(progress, k, beam)
        proved, _ = gaps(value[-1], bound)
    else:
        outputs, value, bound = ilp.kbest(progress, k, time_limit)
        proved, _ = gaps(value[-1], bound, ilp.PROOF)
    # fewer than k outputs and nothing lost: all there are
    proved |= (value[-1] == -np.inf) & (bound == -np.inf)
    score = np.where(value > -np.inf, [scores.score(y) for y in outputs], -np.inf)
    price = np.array([prices(progress.plan.priced.rows, y) for y in outputs])
    return DecodedKBest(tuple(outputs), score, score - price, proved)


def _search_best(
    scores: Structure, rows: Rows | Plan, options: Options, rng: np.random.Generator | None
) -> SearchProgress:
    """The best outputs found; an error where there is none."""
    check_same_parts(scores, rows.rows if isinstance(rows, Plan) else rows)
    plan = rows if isinstance(rows, Plan) else Plan.of(rows)
    refuse_unserved(plan, options.method)
    try:
        progress = SearchProgress.begin(scores, plan, rng)
    except InfeasibleError as error:
        explain(scores, plan.rows, error.instances[0] - scores.first, len(error.instances) - 1)
    search(progress, options)
    lost = progress.infeasible()
    if len(lost) and plan.rows.checks:
        number, names = scores.first + int(lost[0]), [plan.rows.names[one.constraint] for one in plan.rows.checks]
        raise InfeasibleError(
            f"instance {number}: no labels satisfy {', '.join(map(repr, names))} and the other hard constraints; give "
            "them penalties", instances=(number,), constraints=tuple(names),
        )  # fmt: skip
    if len(lost):
        explain(scores, plan.rows, int(lost[0]), len(lost) - 1)
    missing = progress.missing()
    if len(missing):
        warnings.warn(
            f"no output that meets the hard constraints was found for instance {scores.first + missing[0]}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
            + "; their value is −inf and their outputs are the best without these constraints. "
            "Widen the beam, raise max_nodes or time_limit, or make a constraint soft",
            ConvergenceWarning,
            stacklevel=3,
        )
    return progress
