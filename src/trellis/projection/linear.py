"""γ = 0 over a corpus: a linear program a shard, or one of the whole corpus where rows couple instances."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.engine import Engine, Shard
from trellis.errors import InfeasibleError
from trellis.projection.diagnosis import explain_all
from trellis.projection.duals import CorpusProjection, Duals
from trellis.projection.mask import fold_edge_counts
from trellis.projection.relaxation import Relaxation, cut, join, relax
from trellis.projection.shard import ShardAnswer, as_chain
from trellis.structures.chain import Chain
from trellis.structures.results import Posterior
from trellis.structures.structure import Structure

if TYPE_CHECKING:
    from trellis.projection.projector import Projector

T = TypeVar("T")


def run_linear(
    projector: Projector,
    scores_of: Callable[[int], Structure],
    then: Callable[[int, ShardAnswer], T],
    weights: FloatArray | None,
    duals: Duals | None,
    engine: Engine,
    edge_marginals: bool,
) -> CorpusProjection[T]:
    """As :meth:`Projector.run` with γ = 0; the KKT residual reported is the duality gap."""
    rows, shards, shard_rows = projector.rows, projector.shards, projector.shard_rows
    cuts = projector.local_start

    def weights_of(shard: Shard) -> FloatArray | None:
        return None if weights is None else weights[shard.instances.start : shard.instances.stop]

    def one(shard: Shard) -> tuple[T, Relaxation]:
        scores, mine = scores_of(shard.index), shard_rows[shard.index]
        start = None if duals is None else duals.row[cuts[shard.index] : cuts[shard.index + 1]]
        try:
            masked = mine.mask.apply(as_chain(scores))
            solved = relax(
                masked, mine.local, weights=weights_of(shard), multipliers=start, edge_marginals=edge_marginals
            )
        except InfeasibleError:
            explain_all(as_chain(scores), mine.rows)
            raise
        return then(shard.index, _answer(scores, solved, solved.posterior, masked)), solved

    if not projector.couples:
        pairs = list(engine.map(one, shards))
        row = np.concatenate([solved.multipliers for _, solved in pairs]) if pairs else np.zeros(0)
        value, gap = (sum(getattr(solved, name) for _, solved in pairs) for name in ("value", "gap"))
        results = [result for result, _ in pairs]
    else:
        scores = [scores_of(shard.index) for shard in shards]
        chains = [as_chain(s) for s in scores]
        try:
            masked = [mine.mask.apply(chain) for mine, chain in zip(shard_rows, chains, strict=True)]
            joined = join(masked)
            start = None if duals is None or rows.sparsity else duals.row
            solved = relax(
                joined, rows.with_explicit_sparsity(), weights=weights, multipliers=start, edge_marginals=True
            )
        except InfeasibleError:
            explain_all(join(chains), rows if weights is None else rows.weighted(weights))
            raise
        results = []
        for shard in shards:
            q = cut(solved.posterior, joined, masked[shard.index], shard.instances.start, weights_of(shard))
            results.append(then(shard.index, _answer(scores[shard.index], solved, q, masked[shard.index])))
        row, value, gap = solved.multipliers[: len(rows)], solved.value, solved.gap
    blocks = tuple(np.zeros((len(block.slots), rows.parts.n_labels)) for block in rows.sparsity)
    out = Duals(row, blocks, tuple(None for _ in shards))
    return CorpusProjection(results, out, float(value), float(gap), None, 0, True)


def _answer(scores: Structure, solved: Relaxation, q: Posterior, masked: Chain) -> ShardAnswer:
    counts = None
    if isinstance(scores, Chain) and q.edge_counts is not None:
        counts = fold_edge_counts(q.edge_counts, masked.edge_index, scores)
    folded = Posterior(q.node, q.log_partition, counts, q.edge)
    return ShardAnswer(folded, masked, None, -solved.value, np.zeros(0), (), solved.integral)
