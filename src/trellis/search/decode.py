"""decode: the best output of each instance, given scores and what is known about outputs.

    y* = argmax_y  score(y) − Σ price of what y violates         (Chang 2011, eq. 3.3-3.4; prices: :mod:`prices`)

    method        exact                            cost
    viterbi       where every price factors        one pass
    beam          if nothing lost was better       n · K · width · rows; says what it may have lost
    astar         always, up to a cap of memory    from one pass to exponential
    ilp           up to the solver's tolerance     a linear program, sometimes a 0/1 search
    relaxation    if its gap closes                up to 200 passes, then lists of best outputs
    auto          viterbi where it is exact, else beam; with ``prove``, A* and then ILP where the beam left a doubt

Every method starts with Viterbi on scores into which all that factors is folded; where its output violates nothing
else, that is the answer and nothing is searched.
"""

from __future__ import annotations

import warnings

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import IntArray
from trellis.errors import ConvergenceWarning, DataError, InfeasibleError, UnknownNameError
from trellis.search import astar, ilp, relaxation
from trellis.search import beam as beam_search
from trellis.search.infeasible import explain
from trellis.search.kernels import beam as beam_kernel
from trellis.search.plan import Plan, arrays_of, prices
from trellis.search.prices import check_same_parts
from trellis.search.progress import Progress
from trellis.search.result import Decoded, DecodedKBest, gaps
from trellis.search.single import as_chain
from trellis.search.viterbi import refuse_unfolded
from trellis.structures.chain import Chain
from trellis.structures.structure import Structure

METHODS = ("auto", "viterbi", "beam", "astar", "ilp", "relaxation")


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
    """A best output of each instance, or the best found, with what is known about its distance from the best.

    rows : compiled constraints, or a :class:`Plan` of them when the same rows are decoded many times
    beam : width of beams
    prove : go on with A* and ILP where the method leaves a doubt
    max_nodes : prefixes that A* stores of one instance; beyond them beam search answers, with a warning
    time_limit : seconds of ILP for one instance
    rng : draw among equal outputs. Uniformly where Viterbi answers (see :meth:`Chain.argmax`); in beam and A* each tie
        is broken by chance, which is not quite uniform over outputs; ILP and relaxation have no part in it

    An InfeasibleError names the constraints that leave an instance without an output.

    >>> from trellis.constraints import compile_constraints, count
    >>> from trellis.data.batch import Batch
    >>> from trellis.data.vocabulary import Vocabulary
    >>> rows = compile_constraints([count("V") >= 1], Batch.from_sentences([["a", "b"]]), Vocabulary(["N", "V"]))
    >>> scores = Chain([0, 2], np.log([[0.9, 0.1], [0.6, 0.4]]), np.zeros((2, 2)))
    >>> found = decode(scores, rows)
    >>> found.labels.tolist(), found.proved.tolist()
    ([0, 1], [True])
    """
    _check(method, beam=beam, max_nodes=max_nodes)
    plan, chain, folded = _prepare(scores, rows)
    if method == "viterbi":
        refuse_unfolded(plan)
    progress = _begin(chain, folded, plan, rng)
    _search_best(progress, chain, method, prove, beam, max_nodes, time_limit)
    return _result(progress, chain)


def decode_kbest(scores: Structure, rows: Rows | Plan, k: int, *, beam: int = 50) -> DecodedKBest:
    """The k best outputs of each instance by value, by beam search (width ``beam``, or 2 k if that is more).

    The first is that of :func:`decode` with method "beam". Few prefixes can be dropped early when many outputs are
    wanted, so this takes ten times as long and more.
    """
    _check("beam", beam=beam, k=k)
    plan, chain, folded = _prepare(scores, rows)
    progress = _begin(chain, folded, plan, None)
    _search_best(progress, chain, "beam", False, beam, 100_000, 30.0)
    n, every = len(chain), np.arange(len(chain))
    labels, value = np.full((k, chain.n_slots), -1, np.int32), np.full((k, n), -np.inf)
    labels[0], value[0], bound = progress.labels, progress.value, progress.bound.copy()
    if k > 1:
        beam_kernel.search(
            arrays_of(folded), plan.terms, every, max(beam, 2 * k), np.zeros(n, np.uint64), labels, value, bound
        )  # fmt: skip
    proved, _ = gaps(value[-1], bound)
    # fewer than k outputs and nothing lost: all there are
    proved |= (value[-1] == -np.inf) & (bound == -np.inf)
    score = np.full((k, n), -np.inf)
    for place in range(k):
        there = value[place] > -np.inf
        whole = np.maximum(labels[place], 0)
        of_output = chain.score(whole)
        score[place, there] = of_output[there]
        value[place, there] = (of_output - prices(plan.all_terms, chain.offsets, whole, every))[there]
    return DecodedKBest(labels, score, value, proved)


def _check(method: str, **positive: object) -> None:
    if method not in METHODS:
        raise UnknownNameError("decoding method", method, METHODS)
    for name, number in positive.items():
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
            raise DataError(f"{name} must be a whole number, 1 or more, but is {number!r}")


def _prepare(scores: Structure, rows: Rows | Plan) -> tuple[Plan, Chain, Chain]:
    """The plan, the scores as a chain, and these with all that factors folded in."""
    plan = rows if isinstance(rows, Plan) else Plan.of(rows)
    check_same_parts(scores, plan.rows)
    chain = as_chain(scores)
    return plan, chain, plan.additions.apply(chain)


def _begin(chain: Chain, folded: Chain, plan: Plan, rng: np.random.Generator | None) -> Progress:
    try:
        return Progress.begin(folded, plan, rng)
    except InfeasibleError as error:
        explain(chain, plan.rows, error.instances[0] - chain.first, len(error.instances) - 1)


def _search_best(
    progress: Progress, chain: Chain, method: str, prove: bool, beam: int, max_nodes: int, time_limit: float
) -> None:
    """The method asked for, then what else is needed; an error where there is no output."""
    todo = progress.unproved()
    if len(todo) == 0:
        return
    _search(progress, todo, method, beam, max_nodes, time_limit)
    if method != "ilp":
        _search_on(progress, prove, method, max_nodes, time_limit)
    lost = progress.infeasible()
    if len(lost):
        explain(chain, progress.plan.rows, int(lost[0]), len(lost) - 1)
    _warn_if_missing(progress, chain.first)


def _search(progress: Progress, todo: IntArray, method: str, beam: int, max_nodes: int, time_limit: float) -> None:
    """The method asked for."""
    if method == "astar":
        capped = astar.improve(progress, todo, max_nodes)
        if len(capped):
            beam_search.improve(progress, capped, beam)
            progress.method[capped] = "beam"
            warnings.warn(
                f"A* stored {max_nodes} prefixes of instance {progress.scores.first + capped[0]} without an answer"
                + (f", and so in {len(capped) - 1} more instances" if len(capped) > 1 else "")
                + f"; a beam of width {beam} answered there. Raise max_nodes, or use method 'ilp'",
                ConvergenceWarning,
                stacklevel=5,
            )
    elif method == "relaxation":
        relaxation.improve(progress, todo)
    elif method == "ilp":
        ilp.refuse_curved(progress.plan.remaining.rows)
        # a good output first: parts that no better one uses then need no variable
        beam_search.improve(progress, todo, beam)
        ilp.improve(progress, todo, time_limit)
    else:
        beam_search.improve(progress, todo, beam)


def _search_on(progress: Progress, prove: bool, method: str, max_nodes: int, time_limit: float) -> None:
    """Further methods for instances that have no output yet and, with ``prove``, for those in doubt."""
    for further in ("astar", "ilp"):
        todo = progress.unproved() if prove else progress.missing()
        todo = todo[progress.bound[todo] > -np.inf]
        if len(todo) == 0:
            return
        if further == "astar" and method != "astar":
            astar.improve(progress, todo, max_nodes)
        elif further == "ilp" and not ilp.has_curved(progress.plan.remaining.rows):
            ilp.improve(progress, todo, time_limit)


def _warn_if_missing(progress: Progress, first: int) -> None:
    missing = progress.missing()
    if len(missing):
        warnings.warn(
            f"no output that meets the hard constraints was found for instance {first + missing[0]}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
            + "; their value is −inf and their labels are the best without these constraints. "
            "Widen the beam, raise max_nodes or time_limit, or make a constraint soft",
            ConvergenceWarning,
            stacklevel=4,
        )


def _result(progress: Progress, chain: Chain) -> Decoded:
    proved, gap = gaps(progress.value, progress.bound, progress.proof)
    score = chain.score(progress.labels)
    every = np.arange(len(chain))
    value = score - prices(progress.plan.all_terms, chain.offsets, progress.labels, every)
    return Decoded(progress.labels, score, value, proved, gap, progress.method)
