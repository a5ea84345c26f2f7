"""What a network learns from: instances with the expected parts of a posterior q.

    Σ_i w_i E_{q_i}[log p_θ]  =  Σ_parts target(part) score_θ(part) − Σ_i w_i log Z_i,      target = w · marginal of q

Targets of parts that every instance shares (transitions of a chain) are held by *groups* of instances, since a
mini-batch needs those of its own instances; a mini-batch is made of whole groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.data.batch import Batch, Column
from trellis.data.ragged import FloatArray, IntArray, offsets_of, take_rows


@dataclass(frozen=True)
class Targets:
    """Instances and their expected parts, weighted.

    weights : (n_instances,);  rows : expected parts, instance by instance;  sizes : (n_instances,) rows of each
    group : (n_instances,) the group of each instance;  edge : (n_groups, K, K), of chains only
    """

    batch: Any
    weights: FloatArray
    rows: FloatArray
    sizes: IntArray
    group: IntArray
    edge: FloatArray | None = None

    def __mul__(self, factor: float) -> Targets:
        edge = None if self.edge is None else self.edge * factor
        return replace(self, weights=self.weights * factor, rows=self.rows * factor, edge=edge)

    def take(self, groups: IntArray, members: Sequence[IntArray]) -> Targets:
        """The targets of these groups, as one group; members : the instances of each group."""
        numbers = np.sort(np.concatenate([members[g] for g in groups.tolist()]))
        edge = None if self.edge is None else self.edge[groups].sum(axis=0, keepdims=True)
        rows = self.rows[take_rows(offsets_of(self.sizes), numbers)[1]]
        group = np.zeros(len(numbers), np.int64)
        return Targets(self.batch.take(numbers), self.weights[numbers], rows, self.sizes[numbers], group, edge)


@dataclass(frozen=True)
class NeuralStatistics:
    """Targets of shards; a sum has those of both."""

    pieces: tuple[Targets, ...]

    def __add__(self, other: NeuralStatistics) -> NeuralStatistics:
        return NeuralStatistics(self.pieces + other.pieces)

    def __mul__(self, factor: float) -> NeuralStatistics:
        return NeuralStatistics(tuple(piece * factor for piece in self.pieces))

    def joined(self) -> Targets:
        """All of them as one; instances of weight 0 stay, since they may have targets of their own."""
        pieces = self.pieces
        first = np.cumsum([0, *(int(piece.group.max(initial=-1)) + 1 for piece in pieces)])
        edges = [piece.edge for piece in pieces if piece.edge is not None]
        return Targets(
            join_batches([piece.batch for piece in pieces]),
            np.concatenate([piece.weights for piece in pieces]),
            np.concatenate([piece.rows for piece in pieces]),
            np.concatenate([piece.sizes for piece in pieces]),
            np.concatenate([piece.group + first[i] for i, piece in enumerate(pieces)]),
            np.concatenate(edges) if edges else None,
        )


def join_batches(batches: Sequence[Batch]) -> Batch:
    """Batches of one encoder, one after the other."""
    if len(batches) == 1:
        return batches[0]
    one = batches[0]
    columns = {name: _join_columns([b.column(name) for b in batches]) for name in one.columns}
    features = None
    if one.features is not None:
        dense = isinstance(one.features, np.ndarray)
        features = np.concatenate([b.features for b in batches]) if dense else _stacked([b.features for b in batches])
    return Batch(
        offsets_of(np.concatenate([b.lengths for b in batches])),
        np.concatenate([b.labels for b in batches]),
        np.concatenate([b.weights for b in batches]),
        columns,
        features,
    )


def _join_columns(columns: Sequence[Column]) -> Column:
    one = columns[0].vocabulary
    if all(column.vocabulary is one for column in columns):
        return Column(np.concatenate([column.codes for column in columns]), one)
    return Column.of([string for column in columns for string in column.strings()], kind=one.kind)


def _stacked(matrices: Sequence[Any]) -> Any:
    from scipy import sparse

    return sparse.vstack(matrices, format="csr")


def groups_of(offsets: IntArray, n_labels: int, largest: int) -> IntArray:
    """(n_instances,): groups of runs of instances, so that a matrix for each takes about as much as scores of labels.

    Every group has a transition, if there is any; largest : instances of a group
    """
    lengths = np.diff(offsets)
    n = len(lengths)
    mean = max(float(lengths.mean()) if n else 1.0, 1.0)
    size = int(np.clip(np.ceil(n_labels / (4.0 * mean)), 1, largest))
    # Counted by instances with transitions: the others belong to the group that is under way.
    moves = (lengths > 1).astype(np.int64)
    last = max((int(moves.sum()) - 1) // size, 0)
    found: IntArray = np.minimum((np.cumsum(moves) - moves) // size, last).astype(np.int64)
    return found


def mini_batches(targets: Targets, size: int, rng: np.random.Generator | None, pool: int = 20) -> Iterator[Targets]:
    """The targets in mini-batches of about ``size`` instances, in another order each time.

    Instances of similar length come together, within ``pool`` mini-batches that are drawn at random; without a
    generator mini-batches are in the order of the instances.
    """
    order = np.argsort(targets.group, kind="stable")
    n_groups = int(targets.group.max(initial=-1)) + 1
    members = np.split(order, np.searchsorted(targets.group[order], np.arange(1, n_groups)))
    counts = np.array([len(one) for one in members], dtype=np.int64)
    groups = np.arange(n_groups)
    if rng is not None:
        rng.shuffle(groups)
        lengths = np.bincount(targets.group, targets.sizes, minlength=n_groups) / np.maximum(counts, 1)
        ends = np.cumsum(counts[groups]) // max(size * pool, 1)
        groups = groups[np.lexsort((lengths[groups], ends))]
    cuts = np.flatnonzero(np.diff(np.cumsum(counts[groups]) // size) > 0) + 1
    chunks = [chunk for chunk in np.split(groups, cuts) if len(chunk)]
    for number in range(len(chunks)) if rng is None else rng.permutation(len(chunks)).tolist():
        yield targets.take(chunks[number], members)
