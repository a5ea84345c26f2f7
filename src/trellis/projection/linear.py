"""γ = 0: the projection is a linear program, and its solution an average of a few outputs.

    q = argmin_q −E_q[score] + prices   s.t. the rows            (Samdani et al. 2012, sec. 3: LP-EM)

Without constraints q is the single best output: hard EM. With them the best outputs under Lagrangian multipliers are
averaged (:mod:`columns`); the average is *integral* where an instance needs one output only. There is one program per
shard, or one over all shards where rows couple instances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray, IntArray
from trellis.errors import InfeasibleError
from trellis.projection.columns import Averaged, Segment, average_outputs
from trellis.projection.diagnosis import explain_all
from trellis.projection.duals import CorpusProjection, Duals, put
from trellis.projection.local import LocalState
from trellis.projection.master import check_linear
from trellis.projection.shard import ProjectionItem, ShardAnswer
from trellis.structures.structure import Structure

if TYPE_CHECKING:
    from trellis.projection.projector import Projector

T = TypeVar("T")

SOLVED = 1e-6
"""Relative duality gap up to which the linear program counts as solved."""


def run_linear(
    projector: Projector,
    scores_of: Callable[[Any], Structure],
    then: Callable[[ProjectionItem, ShardAnswer], T],
    duals: Duals | None,
    at: Callable[[ProjectionItem], IntArray] | None = None,
    fold: Callable[[T, T], T] | None = None,
) -> CorpusProjection[T]:
    """As :meth:`Projector.run` with γ = 0; the KKT residual reported is the duality gap."""
    rows, items, placed = projector.rows, projector.items, projector.placed
    results: list[T] = []
    coupling, value, gap = np.zeros(0), 0.0, 0.0
    if not projector.couples:
        for result, won, lost in placed.run(average_shard, Averaging(scores_of, then, at)):
            put(results, result, fold)
            value -= won
            gap += lost
    else:
        scores = [scores_of(item.data) for item in items]
        masked = [one.apply(item.rows.rows.mask) for item, one in zip(items, scores, strict=True)]
        explicit = rows.with_explicit_sparsity().written_out()
        firsts = projector.bounds[:-1].tolist()
        segments = [Segment.of(m, explicit, first) for m, first in zip(masked, firsts, strict=True)]
        # Multipliers of rows that are not written out are not kept.
        known = not (rows.sparsity or rows.implicit)
        start = duals.row if duals is not None and known else None
        averaged = _average(segments, explicit, projector.weights, start, scores, rows)
        for number, item in enumerate(items):
            put(results, then(item, _answer(item, segments, number, averaged, at)), fold)
        row = averaged.multipliers[: len(rows)] if not rows.implicit else np.zeros(len(rows))
        coupling, value, gap = row[rows.n_local :], -averaged.value, averaged.bound - averaged.value
        cuts = projector.local_start
        placed.restore([LocalState(row[cuts[i] : cuts[i + 1]]) for i in range(len(items))])
    blocks = tuple(np.zeros((len(block), block.width)) for block in rows.sparsity)
    row = np.concatenate([*(state.theta for state in placed.states), coupling])
    out = Duals(row, blocks, tuple(None for _ in items))
    solved = bool(gap <= SOLVED * (1.0 + abs(value)))
    worst = None if solved else " or ".join(rows.names)
    return CorpusProjection(results, out, float(value), float(gap), worst, 0, solved)


@dataclass(frozen=True)
class Averaging:
    """What the pass over shards that nothing ties together asks of each; see :meth:`Projector.run`."""

    scores_of: Callable[[Any], Structure]
    then: Callable[[ProjectionItem, ShardAnswer], Any]
    at: Callable[[ProjectionItem], IntArray] | None


def average_shard(
    asked: Averaging, item: ProjectionItem, state: LocalState
) -> tuple[tuple[Any, float, float], LocalState]:
    """The linear program of one shard: what ``then`` makes of it, its value, and its gap."""
    scores, rows = asked.scores_of(item.data), item.rows.rows
    local = item.rows.local.rows.written_out()
    segments = [Segment.whole(scores.apply(rows.mask), local)]
    averaged = _average(segments, local, item.weights, None if rows.implicit else state.theta, [scores], rows)
    kept = LocalState(state.theta if rows.implicit else averaged.multipliers)
    result = asked.then(item, _answer(item, segments, 0, averaged, asked.at))
    return (result, averaged.value, averaged.bound - averaged.value), kept


def _answer(
    item: ProjectionItem,
    segments: list[Segment],
    number: int,
    averaged: Averaged,
    at: Callable[[ProjectionItem], IntArray] | None,
) -> ShardAnswer:
    segment = segments[number]
    wanted = [item.rows.rows.part, item.rows.coupled, *([] if at is None else [at(item)])]
    # The best score, where other γ have a log-partition: both are γ log Σ exp(score/γ) at their γ.
    q = averaged.posterior(
        segments, number, log_partition=segment.scores.argmax().score, weights=item.weights,
        at=np.concatenate(wanted),
    )  # fmt: skip
    integral = averaged.integral(segment)
    return ShardAnswer(q, segment.scores, None, LocalState(np.zeros(0)), 0.0, np.zeros(0), (), integral)


def _average(
    segments: list[Segment],
    rows: Rows,
    weights: FloatArray | None,
    multipliers: FloatArray | None,
    scores: list[Structure],
    whole: Rows,
) -> Averaged:
    """The averaged outputs; if there are none, an error that says which constraints conflict."""
    check_linear(rows)
    try:
        return average_outputs(segments, rows, weights=weights, multipliers=multipliers)
    except InfeasibleError:
        explain_all(scores, whole if weights is None else whole.weighted(weights))
        raise
