"""Translation probabilities of the links of a batch, as inference kernels read them, from one lexicon or from two."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.models.alignment.kernels import table as kernel
from trellis.models.alignment.lexicon import Lexicon
from trellis.models.alignment.sentence_pairs import SentencePairs
from trellis.structures.kernels.align_work import Words


def words_of_one(lexicon: Lexicon, b: SentencePairs) -> tuple[Words, Words]:
    """Probabilities of the links of both directions, from one table."""
    t, none = lexicon.tables, np.zeros(0)
    entries, cells = lexicon.table.number(b)
    # A small table of their own, which fits into the cache, and an entry that kernels read where there is none.
    pair = np.zeros((len(entries) + 1, 2), np.float32)
    np.take(t.pair, entries, axis=0, out=pair[:-1])
    return (
        Words(none, none, pair, 0, cells, b.target, b.source, t.null1, t.unseen1, t.alike1),
        Words(none, none, pair, 1, cells, b.source, b.target, t.null2, t.unseen2, t.alike2),
    )


def words_of_two(words: tuple[Lexicon, SentencePairs], stems: tuple[Lexicon, SentencePairs]) -> tuple[Words, Words]:
    """The same as geometric means of two tables: an entry for every link, and for every word.

    words, stems : each a lexicon and the batch in its codes
    """
    b = words[1]
    given: list[Any] = []
    null1, null2 = np.ones(len(b.target) + 1, np.float32), np.ones(len(b.source) + 1, np.float32)
    for lexicon, own in (words, stems):
        t, source, target = lexicon.tables, np.maximum(own.source, -1), np.maximum(own.target, -1)
        entries, cells = lexicon.table.number(own)
        own.hold_cells(cells)
        pair = np.ones((len(entries) + 1, 2), np.float32)
        np.take(t.pair, entries, axis=0, out=pair[:-1])
        unseen1, unseen2 = (t.unseen1[source], t.alike1[source]), (t.unseen2[target], t.alike2[target])
        given += [cells, np.sqrt(pair), np.sqrt(np.stack(unseen1)), np.sqrt(np.stack(unseen2))]
        null1[:-1] *= np.sqrt(t.null1[target])
        null2[:-1] *= np.sqrt(t.null2[source])
    table = np.empty((b.n_slots + 1, 2), np.float32)
    kernel.products(*given, b.source_offsets, b.target_offsets, table)
    cells, none = np.arange(b.n_slots, dtype=np.int32), np.zeros(0)
    sides = [np.arange(len(side), dtype=np.int32) for side in (b.source, b.target)]
    return (
        Words(none, none, table, 0, cells, sides[1], sides[0], null1, null2, null2),
        Words(none, none, table, 1, cells, sides[0], sides[1], null2, null1, null1),
    )
