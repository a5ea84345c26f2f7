"""What a person knows about a text's links, brought into the form the model takes: hints on cells, priors on pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trellis.data.bitext import Bitext, WordCodes
from trellis.data.files import FilePath, numbered_lines, shown
from trellis.data.ragged import FloatArray
from trellis.errors import DataError
from trellis.metrics.alignment import parse_links
from trellis.models.alignment import PairTable
from trellis.structures.kernels.align_shard import Pairs

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


def prior_counts(
    table: PairTable, source: WordCodes, target: WordCodes, priors: Mapping[tuple[str, str], float]
) -> FloatArray:
    """(n_pairs,) pseudo-counts of a dictionary, negative for forbidden pairs; empty for no dictionary.

    Words are told apart as in the text, by their first letters. Pairs that never meet in the text change nothing.
    """
    if not priors:
        return np.zeros(0)
    frozen = source.frozen, target.frozen
    source.frozen = target.frozen = True
    pseudo = np.zeros(len(table))
    for (left, right), weight in priors.items():
        e, f = source[left], target[right]
        if e < 0 or f < 0:
            continue
        start, stop = table.row_offsets[e], table.row_offsets[e + 1]
        for k in start + np.flatnonzero(table.row_targets[start:stop] == f):
            pseudo[k] = -1.0 if weight < 0 or pseudo[k] < 0 else pseudo[k] + weight
    source.frozen, target.frozen = frozen
    return pseudo


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
