"""Prior knowledge about words: a dictionary, and words with the same spelling, as pseudo-counts of the table.

Words that are spelled alike on both sides (names, numbers, marks) are often translations of each other, which helps
most where a word is rare; a dictionary says the same of other pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trellis.data.bitext import Bitext, WordCodes
from trellis.data.ragged import IntArray
from trellis.models.alignment.pair_table import PairTable
from trellis.models.alignment.translation import ExtraCounts


def extra_counts(
    table: PairTable, source: WordCodes, target: WordCodes, priors: Mapping[tuple[str, str], float], alike: float
) -> ExtraCounts:
    """Pseudo-counts of a dictionary, negative for forbidden pairs, and ``alike`` for words spelled alike.

    Words are told apart as in the text, by their first letters. Pairs that never meet in the text change nothing.
    """
    found: dict[int, float] = {}
    if alike > 0.0:
        for e, name in enumerate(source.names):
            found[table.place(e, target.find(name))] = alike
    for (left, right), weight in priors.items():
        place = table.place(source.find(left), target.find(right))
        before = found.get(place, 0.0)
        found[place] = -1.0 if weight < 0 or before < 0 else before + weight
    found.pop(-1, None)
    at = np.array(sorted(found), np.int64)
    return ExtraCounts(at, np.array([found[k] for k in at.tolist()]), alike)


def alike_cells(words: Sequence[tuple[Sequence[str], Sequence[str]]], bitext: Bitext, offsets: IntArray) -> IntArray:
    """Rising numbers of the cells of equal words (names, numbers of a new text); offsets : cells of each piece."""
    found: list[int] = []
    for pair, (left, right) in enumerate(words):
        shared = set(left).intersection(right)
        if not shared:
            continue
        first = int(bitext.pieces[pair])
        for piece in range(first, int(bitext.pieces[pair + 1])):
            i, i_end = (bitext.source_offsets[[piece, piece + 1]] - bitext.source_offsets[first]).tolist()
            j, j_end = (bitext.target_offsets[[piece, piece + 1]] - bitext.target_offsets[first]).tolist()
            columns = [(place, word) for place, word in enumerate(right[j:j_end]) if word in shared]
            for row, word in enumerate(left[i:i_end]):
                if word in shared:
                    start = int(offsets[piece]) + row * (j_end - j)
                    found += [start + place for place, other in columns if other == word]
    return np.array(found, np.int64)
