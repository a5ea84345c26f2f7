"""One instance of a batch by itself, for methods that take one at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import IntArray
from trellis.errors import DataError
from trellis.structures.categorical import Categorical
from trellis.structures.chain import Chain
from trellis.structures.chain_parts import ChainParts
from trellis.structures.structure import Structure


def as_chain(scores: Structure) -> Chain:
    """The scores as a chain: a categorical is one of sequences of one slot, with the same node parts."""
    if isinstance(scores, Categorical):
        k = scores.n_labels
        return Chain(scores.parts.offsets, scores.node, np.zeros((k, k)), first=scores.first)
    if not isinstance(scores, Chain):
        raise DataError(f"decoding knows the structures Chain and Categorical, got {type(scores).__name__}")
    return scores


def scores_of(scores: Chain, instance: int) -> Chain:
    """The scores of one instance."""
    low, high = int(scores.offsets[instance]), int(scores.offsets[instance + 1])
    return Chain.over(
        scores.tables,
        np.array([0, high - low]),
        node_index=scores.node_index[low:high],
        edge_index=scores.edge_index[low:high],
        first=scores.first + instance,
    )


def rows_of(rows: Rows, instance: int) -> Rows:
    """The rows of one instance, which stand together (Rows.canonical), over the parts of a chain of that instance."""
    first, last = np.searchsorted(rows.instance, [instance, instance + 1])
    low, high = int(rows.parts.offsets[instance]), int(rows.parts.offsets[instance + 1])
    n, k = high - low, rows.parts.n_labels
    entries = slice(int(rows.start[first]), int(rows.start[last]))

    def moved(part: IntArray) -> IntArray:
        is_edge = part >= rows.parts.n_node_parts
        return np.where(is_edge, part - rows.parts.n_node_parts - low * k * k + n * k, part - low * k)

    used, group = np.unique(rows.group[first:last], return_inverse=True)
    n_node = rows.parts.n_node_parts
    edges = [n_node + low * k * k, n_node + high * k * k]
    f0, f1, f2, f3 = np.searchsorted(rows.forbidden, [low * k, high * k, *edges])
    chosen = np.concatenate((np.arange(f0, f1), np.arange(f2, f3)))
    return replace(
        rows,
        parts=ChainParts(np.array([0, n]), k),
        start=rows.start[first : last + 1] - rows.start[first],
        part=moved(rows.part[entries]),
        coefficient=rows.coefficient[entries],
        bound=rows.bound[first:last],
        equality=rows.equality[first:last],
        instance=np.zeros(last - first, dtype=np.int64),
        group=group.astype(np.int64),
        constraint=rows.constraint[first:last],
        row_number=rows.row_number[first:last],
        groups=rows.groups.take(used),
        forbidden=moved(rows.forbidden[chosen]),
        forbidden_by=rows.forbidden_by[chosen],
        sparsity=(),
    )
