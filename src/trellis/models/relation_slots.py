"""Sentences with mentions as a batch, and its slots as variables of a graph.

slots of a sentence of n mentions      m_1 .. m_n, and then the ordered pairs  (1, 2), (1, 3), .., (n, n − 1)
columns "first", "second"              the mentions of a pair, −1 at a mention
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from trellis.constraints.relation_rows import ENTITY, RELATION, opposite_pairs
from trellis.data.batch import Batch, Column
from trellis.data.document import Document
from trellis.data.ragged import IntArray, offsets_of, owners
from trellis.data.vocabulary import Vocabulary
from trellis.data.weights import check_sample_weight
from trellis.structures import Factors, Variables, factors_over


def slots_of(batch: Batch) -> tuple[IntArray, IntArray]:
    """The slots of a batch that are mentions, and those that are pairs."""
    is_pair = batch.column("first").codes >= 0
    return np.flatnonzero(~is_pair), np.flatnonzero(is_pair)


def variables_of(batch: Batch, types: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[Variables, Variables]:
    """The mentions and the pairs of a batch as variables of a graph."""
    owner = np.repeat(np.arange(len(batch)), batch.lengths)
    mentions, pairs = slots_of(batch)
    arguments = np.column_stack([batch.column(name).codes[pairs] for name in ("first", "second")]).astype(np.int64)
    return (
        Variables(ENTITY, types[0], _cut(owner[mentions], len(batch))),
        Variables(RELATION, types[1], _cut(owner[pairs], len(batch)), (ENTITY, ENTITY), arguments),
    )


def batch_of(
    texts: Sequence[Document], matrices: Sequence[Any], known: Sequence[tuple[list[int], list[int]]], weights: Any
) -> Batch:
    """Slots of sentences: mentions and then pairs, features of the first in the first columns."""
    counts = [len(text.spans or ()) for text in texts]
    labels = np.array([y for own in known for kind in own for y in kind], np.int32)
    word, between = list[str](), list[str]()
    first, second, order = list[int](), list[int](), list[int]()
    mention = pair = 0
    n_mentions = sum(counts)
    for text, n in zip(texts, counts, strict=True):
        spans = text.spans or ()
        word += [" ".join(text.tokens[m.first : m.last]) for m in spans]
        between += [""] * n
        first += [-1] * n
        second += [-1] * n
        order += range(mention, mention + n)
        mention += n
        for i in range(n):
            for j in range(n):
                if i != j:
                    low, high = sorted((spans[i], spans[j]), key=lambda m: m.first)
                    between.append(" ".join(text.tokens[low.end : high.start]))
                    word.append("")
                    first.append(i)
                    second.append(j)
                    order.append(n_mentions + pair)
                    pair += 1
    stacked = sparse.block_array([[matrices[0], None], [None, matrices[1]]], format="csr")[np.array(order, np.int64)]
    numbers = Vocabulary(map(str, range(max([1, *counts]))), kind="mention")
    return Batch(
        offsets=offsets_of([n * n for n in counts]),
        labels=labels,
        weights=check_sample_weight(weights, len(texts)),
        columns={
            "word": Column.of(word),
            "between": Column.of(between),
            "first": Column(np.array(first, np.int32), numbers),
            "second": Column(np.array(second, np.int32), numbers),
        },
        features=sparse.csr_array(stacked),
    )


def ties_of(variables: tuple[Variables, ...], most: int, *, both_ways: bool) -> tuple[Factors, ...]:
    """Factors over every pair after its two mentions, and over the two relations between two mentions."""
    mentions, pairs = variables
    few = np.diff(mentions.offsets) <= most
    owner = owners(pairs.offsets)
    local = np.arange(len(owner)) - pairs.offsets[owner]
    tied = few[owner]
    scope = np.column_stack((mentions_of(pairs), local))[tied]
    made = [factors_over(variables, (ENTITY, ENTITY, RELATION), scope, _cut(owner[tied], len(few)))]
    if both_ways:
        both = opposite_pairs(mentions_of(pairs), owner)
        both = both[tied[both[:, 0]]]
        both = both[np.argsort(owner[both[:, 0]], kind="stable")]
        made.append(factors_over(variables, (RELATION, RELATION), local[both], _cut(owner[both[:, 0]], len(few))))
    return tuple(made)


def _cut(owner: IntArray, n: int) -> IntArray:
    return offsets_of(np.bincount(owner, minlength=n))


def mentions_of(pairs: Variables) -> IntArray:
    """(n, 2): the mentions of every pair."""
    return np.zeros((0, 2), np.int64) if pairs.arguments is None else pairs.arguments
