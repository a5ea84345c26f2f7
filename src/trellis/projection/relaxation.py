"""γ = 0: the projection is a linear program, and its answer an average of a few outputs.

    q = argmin_q −E_q[score] + prices   s.t. the rows            (Samdani et al. 2012, sec. 3: LP-EM)

Without constraints q is the single best output: hard EM. With them the best outputs under Lagrangian multipliers are
averaged; the average is *integral* where an instance needs one output only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray, offsets_of
from trellis.projection.columns import average_outputs, check_linear
from trellis.structures.chain import Chain
from trellis.structures.results import Posterior


@dataclass(frozen=True)
class Relaxation:
    """The averaged primal, its value, the distance to the dual bound, and which instances are a single output.

    multipliers : (n_rows,)
    """

    posterior: Posterior
    multipliers: FloatArray
    value: float
    gap: float
    integral: BoolArray


def relax(
    scores: Chain,
    rows: Rows,
    *,
    weights: FloatArray | None = None,
    multipliers: FloatArray | None = None,
    edge_marginals: bool = False,
    tolerance: float = 1e-9,
) -> Relaxation:
    """Solve γ = 0 exactly for scores in which forbidden parts are already −inf."""
    check_linear(rows)
    n, k = len(scores), scores.n_labels
    node = np.zeros((scores.n_slots, k))
    weight_of = np.ones(n) if weights is None else weights
    counts = np.zeros(scores.tables.edge.shape)
    edge = np.zeros((scores.n_slots, k, k)) if edge_marginals else None
    if len(rows):
        averaged = average_outputs(scores, rows, weights=weights, multipliers=multipliers, tolerance=tolerance)
        instance, weight, labels = averaged.instance, averaged.weight, averaged.labels
        found, value, gap = averaged.multipliers, averaged.value, averaged.bound - averaged.value
    else:
        best = scores.argmax()
        cuts = scores.offsets
        instance, weight = np.arange(n), np.ones(n)
        labels = [best.labels[cuts[i] : cuts[i + 1]] for i in range(n)]
        found, value, gap = np.zeros(0), float(weight_of @ best.score), 0.0
    integral = np.zeros(n, dtype=np.bool_)
    for i, u, y in zip(instance.tolist(), weight.tolist(), labels, strict=True):
        if u <= 0.0:
            continue
        lo = int(scores.offsets[i])
        slots = lo + np.arange(len(y))
        node[slots, y] += u
        integral[i] |= u > 1.0 - 1e-9
        if len(y) > 1:
            np.add.at(counts, (scores.edge_index[slots[1:]], y[:-1], y[1:]), u * weight_of[i])
            if edge is not None:
                edge[slots[1:], y[:-1], y[1:]] += u
    # The best score, where other γ have a log-partition: both are γ log Σ exp(score/γ) at their γ.
    log_partition = scores.argmax().score
    return Relaxation(Posterior(node, log_partition, counts, edge), found, -value, gap, integral)


def join(chains: Sequence[Chain]) -> Chain:
    """The chains of several shards of one model as one."""
    if len(chains) == 1:
        return chains[0]
    first = chains[0]
    edge_starts = np.cumsum([0, *(len(c.tables.edge) for c in chains)])
    return Chain(
        offsets_of(np.concatenate([np.diff(c.offsets) for c in chains])),
        np.concatenate([c.node for c in chains]),
        np.concatenate([c.tables.edge for c in chains]),
        start=first.tables.start,
        stop=first.tables.stop,
        edge_index=np.concatenate([c.edge_index + s for c, s in zip(chains, edge_starts, strict=False)]),
        first=first.first,
    )


def cut(posterior: Posterior, joined: Chain, shard: Chain, first: int, weights: FloatArray | None) -> Posterior:
    """The part of a joined posterior that belongs to the shard whose first instance has this number."""
    low = int(joined.offsets[first])
    edge = None if posterior.edge is None else posterior.edge[low : low + shard.n_slots]
    counts = np.zeros(shard.tables.edge.shape)
    if edge is not None:
        slot_weight = 1.0 if weights is None else np.repeat(weights, np.diff(shard.offsets))[:, None, None]
        np.add.at(counts, shard.edge_index, edge * slot_weight)
    n = len(shard)
    return Posterior(
        posterior.node[low : low + shard.n_slots], posterior.log_partition[first : first + n], counts, edge
    )
