"""γ = 0: the projection is a linear program, and its answer an average of a few outputs.

    q = argmin_q −E_q[score] + prices   s.t. the rows            (Samdani et al. 2012, sec. 3: LP-EM)

Without constraints q is the single best output: hard EM. With them the best outputs under Lagrangian multipliers are
averaged (:mod:`columns`); the average is *integral* where an instance needs one output only. There is one program per
shard, or one over all shards where rows couple instances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray
from trellis.engine import Engine, Shard
from trellis.errors import InfeasibleError
from trellis.projection.columns import Averaged, Segment, average_outputs, check_linear
from trellis.projection.diagnosis import explain_all
from trellis.projection.duals import CorpusProjection, Duals, put
from trellis.projection.local import LocalState
from trellis.projection.shard import ShardAnswer
from trellis.structures.structure import Structure

if TYPE_CHECKING:
    from trellis.projection.projector import Projector

T = TypeVar("T")

SOLVED = 1e-6
"""Relative duality gap up to which the linear program counts as solved."""


def run_linear(
    projector: Projector,
    scores_of: Callable[[int], Structure],
    then: Callable[[int, ShardAnswer], T],
    weights: FloatArray | None,
    duals: Duals | None,
    engine: Engine,
    fold: Callable[[T, T], T] | None = None,
) -> CorpusProjection[T]:
    """As :meth:`Projector.run` with γ = 0; the KKT residual reported is the duality gap."""
    rows, shards, shard_rows = projector.rows, projector.shards, projector.shard_rows
    cuts = projector.local_start

    def weights_of(shard: Shard) -> FloatArray | None:
        return None if weights is None else weights[shard.instances.start : shard.instances.stop]

    def answer(shard: Shard, segments: list[Segment], number: int, averaged: Averaged) -> ShardAnswer:
        segment = segments[number]
        # The best score, where other γ have a log-partition: both are γ log Σ exp(score/γ) at their γ.
        q = averaged.posterior(
            segments, number, log_partition=segment.scores.argmax().score, weights=weights_of(shard),
            at=np.concatenate((shard_rows[shard.index].rows.part, shard_rows[shard.index].coupled)),
        )  # fmt: skip
        integral = averaged.integral(segment)
        return ShardAnswer(q, segment.scores, None, LocalState(np.zeros(0)), 0.0, np.zeros(0), (), integral)

    def one(shard: Shard) -> tuple[T, Averaged]:
        mine, scores = shard_rows[shard.index], scores_of(shard.index)
        local = mine.local.rows.written_out()
        segments = [Segment.whole(scores.apply(mine.rows.mask), local)]
        start = None if duals is None or rows.implicit else duals.row[cuts[shard.index] : cuts[shard.index + 1]]
        averaged = _average(segments, local, weights_of(shard), start, [scores], mine.rows)
        return then(shard.index, answer(shard, segments, 0, averaged)), averaged

    if not projector.couples:
        results: list[T] = []
        multipliers, value, gap = [np.zeros(0)], 0.0, 0.0
        for result, averaged in engine.map(one, shards):
            put(results, result, fold)
            # Multipliers of rows that are not written out are not kept.
            multipliers.append(np.zeros(0) if rows.implicit else averaged.multipliers)
            value -= averaged.value
            gap += averaged.bound - averaged.value
        row = np.concatenate(multipliers)
    else:
        scores = [scores_of(shard.index) for shard in shards]
        masked = [one_scores.apply(mine.rows.mask) for mine, one_scores in zip(shard_rows, scores, strict=True)]
        explicit = rows.with_explicit_sparsity().written_out()
        segments = [Segment.of(m, explicit, shard.instances.start) for m, shard in zip(masked, shards, strict=True)]
        start = None if duals is None or rows.sparsity or rows.implicit else duals.row
        averaged = _average(segments, explicit, weights, start, scores, rows)
        results = [then(shard.index, answer(shard, segments, shard.index, averaged)) for shard in shards]
        row, value, gap = averaged.multipliers[: len(rows)], -averaged.value, averaged.bound - averaged.value
    if rows.implicit:
        row = np.zeros(len(rows))
    blocks = tuple(np.zeros((len(block), block.width)) for block in rows.sparsity)
    out = Duals(row, blocks, tuple(None for _ in shards))
    solved = bool(gap <= SOLVED * (1.0 + abs(value)))
    worst = None if solved else " or ".join(rows.names)
    return CorpusProjection(results, out, float(value), float(gap), worst, 0, solved)


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
