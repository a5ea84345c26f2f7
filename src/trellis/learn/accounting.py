"""Numbers about a posterior: expected scores, excess of rows, prices of violations.

price of a group = σ ‖excess‖ (penalty), (σ/2) ‖excess‖₂² (squared), 0 (hard, slack)
"""

from __future__ import annotations

import numpy as np

from trellis.constraints.rows import COUPLING, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray, LabelArray
from trellis.structures import Categorical, Chain, Posterior, Structure


def expected_score(scores: Structure, q: Posterior, batch: Batch) -> float:
    """Σ_i weight_i E_{q_i}[score], for q whose edge counts are weighted."""
    slot_weight = np.repeat(batch.weights, batch.lengths)
    if isinstance(scores, Categorical):
        return float(slot_weight @ _dot(q.node, scores.node).sum(axis=1))
    if not isinstance(scores, Chain) or q.edge_counts is None:
        raise TypeError("expected scores are known of chains and categoricals")
    t, filled = scores.tables, batch.lengths > 0
    first, last = batch.offsets[:-1][filled], batch.offsets[1:][filled] - 1
    ends = _dot(q.node[first], t.start).sum(axis=1) + _dot(q.node[last], t.stop).sum(axis=1)
    return float(
        slot_weight @ _dot(q.node, scores.node).sum(axis=1)
        + _dot(q.edge_counts, t.edge).sum()
        + batch.weights[filled] @ ends
    )


def _dot(probability: FloatArray, score: FloatArray) -> FloatArray:
    """probability · score entry by entry, with 0 · −∞ = 0."""
    return np.where(probability > 0, probability * np.where(score > -np.inf, score, 0.0), 0.0)


def one_hot(scores: Structure, batch: Batch) -> Posterior:
    """The posterior that is certain of the batch's labels, with edge counts in the shape of the scores' matrices."""
    y: LabelArray = batch.labels
    n_labels = scores.parts.n_labels
    node = np.zeros((batch.n_slots, n_labels))
    node[np.arange(batch.n_slots), y] = 1.0
    if not isinstance(scores, Chain):
        return Posterior(node, scores.score(y))
    right = np.flatnonzero(scores.parts.has_boundary())
    weight = np.repeat(batch.weights, batch.lengths)[right]
    counts = np.zeros((scores.tables.n_matrices, n_labels, n_labels))
    np.add.at(counts, (scores.edge_index[right], y[right - 1], y[right]), weight)
    return Posterior(node, scores.score(y), counts)


def prices_of(rows: Rows, excess: FloatArray, instance_weight: FloatArray) -> float:
    """Σ over groups of what their excess costs; a local group's price counts as often as its instance weighs."""
    if not len(rows):
        return 0.0
    n = len(rows.groups)
    norms = {
        Norm.L1: np.bincount(rows.group, excess, minlength=n),
        Norm.L2: np.sqrt(np.bincount(rows.group, excess**2, minlength=n)),
        Norm.LINF: np.zeros(n),
    }
    np.maximum.at(norms[Norm.LINF], rows.group, excess)
    kind, amount = rows.groups.kind, rows.groups.amount
    size = np.select([rows.groups.norm == norm for norm in norms], list(norms.values()))
    price = np.select(
        [kind == Kind.PENALTY, kind == Kind.SQUARED], [amount * size, amount / 2 * norms[Norm.L2] ** 2], 0.0
    )
    weight = np.ones(n)
    local = rows.instance != COUPLING
    weight[rows.group[local]] = instance_weight[rows.instance[local]]
    return float(weight @ price)
