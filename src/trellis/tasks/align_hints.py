"""What is known of a text's links beforehand, in the form the model takes: hints on cells, counts of pairs.

Words that are spelled alike on both sides (names, numbers, marks) are often translations of each other, which helps
most where a word is rare; a dictionary says the same of other pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trellis.data.bitext import Bitext, WordCodes
from trellis.data.files import FilePath, numbered_lines, shown
from trellis.errors import DataError
from trellis.metrics.alignment import parse_links
from trellis.models.alignment import ExtraCounts, PairTable
from trellis.structures.kernels.align_shard import ALIKE, Pairs

Hint = tuple[int, int]


def hint_cells(bitext: Bitext, coded: Pairs, hints: Sequence[Sequence[Hint]] | None) -> NDArray[np.uint8]:
    """(n_cells,) 1 at hinted links, or an empty array where there are no hints at all."""
    if hints is None or not any(hints):
        return np.zeros(0, np.uint8)
    if len(hints) != len(bitext):
        raise DataError(f"there are hints for {len(hints)} pairs but {len(bitext)} pairs")
    marks = np.zeros(int(coded.cell_offsets[-1]), np.uint8)
    for pair, links in enumerate(hints):
        pieces = range(int(bitext.pieces[pair]), int(bitext.pieces[pair + 1]))
        source, target = bitext.source_offsets, bitext.target_offsets
        n_source, n_target = source[pieces.stop] - source[pieces.start], target[pieces.stop] - target[pieces.start]
        for i, j in links:
            if not (0 <= i < n_source and 0 <= j < n_target):
                raise DataError(f"pair {pair + 1} has {n_source} and {n_target} words, so it has no link {i}-{j}")
            for piece in pieces:
                # A hint that joins two pieces of a cut pair cannot be kept and is left out.
                a, b = source[pieces.start] + i - source[piece], target[pieces.start] + j - target[piece]
                if 0 <= a < source[piece + 1] - source[piece] and 0 <= b < target[piece + 1] - target[piece]:
                    marks[coded.cell_offsets[piece] + a * (target[piece + 1] - target[piece]) + b] = 1
    return marks


def extra_counts(
    table: PairTable,
    source: WordCodes,
    target: WordCodes,
    priors: Mapping[tuple[str, str], float],
    alike: float,
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


def mark_alike(words: Sequence[tuple[Sequence[str], Sequence[str]]], bitext: Bitext, coded: Pairs) -> None:
    """Mark, in place, the cells of equal words that the table does not have: names and numbers of a new text."""
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
                if word not in shared:
                    continue
                start = coded.cell_offsets[piece] + row * (j_end - j)
                for place, other in columns:
                    if other == word and coded.cells[start + place] < 0:
                        coded.cells[start + place] = ALIKE


def read_priors(path: FilePath) -> dict[tuple[str, str], float]:
    """A dictionary: ``source TAB target``, and perhaps TAB pseudo-count (else 1; negative: forbidden)."""
    priors: dict[tuple[str, str], float] = {}
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) not in (2, 3) or not parts[0] or not parts[1]:
            raise DataError("expected source TAB target, and perhaps TAB weight", path=shown(path), line=number)
        try:
            weight = float(parts[2]) if len(parts) == 3 else 1.0
        except ValueError:
            weight = float("nan")
        if not abs(weight) < float("inf"):
            raise DataError(f"the weight {parts[2]!r} is not a number", path=shown(path), line=number)
        priors[parts[0], parts[1]] = weight
    return priors


def read_hints(path: FilePath) -> list[list[Hint]]:
    """Given links, a line a pair, in the format of outputs: ``0-0 1-2``; an empty line gives none."""
    return [
        sorted(parse_links(line, path=shown(path), number=number).possible) for number, line in numbered_lines(path)
    ]
