"""Prior knowledge about links, read from files: known links and a dictionary."""

from __future__ import annotations

from collections.abc import Sequence

from trellis.data.bitext import Bitext
from trellis.data.files import FilePath, numbered_lines, shown
from trellis.errors import DataError
from trellis.metrics.alignment import parse_links

Hint = tuple[int, int]


def hints_of_pieces(bitext: Bitext, hints: Sequence[Sequence[Hint]]) -> list[list[Hint]]:
    """Given links of every pair as links of the pieces that long ones are cut into.

    A hint that joins two pieces of a cut pair cannot be kept and is left out.
    """
    if len(hints) != len(bitext):
        raise DataError(f"hints are given for {len(hints)} pairs, but there are {len(bitext)} pairs")
    source, target = bitext.source_offsets, bitext.target_offsets
    found: list[list[Hint]] = []
    for pair, links in enumerate(hints):
        pieces = range(int(bitext.pieces[pair]), int(bitext.pieces[pair + 1]))
        n_source, n_target = source[pieces.stop] - source[pieces.start], target[pieces.stop] - target[pieces.start]
        for i, j in links:
            if not (0 <= i < n_source and 0 <= j < n_target):
                raise DataError(f"pair {pair + 1} has {n_source} and {n_target} words, so it has no link {i}-{j}")
        for piece in pieces:
            i0, j0 = int(source[piece] - source[pieces.start]), int(target[piece] - target[pieces.start])
            i1, j1 = int(source[piece + 1] - source[piece]), int(target[piece + 1] - target[piece])
            found.append([(i - i0, j - j0) for i, j in links if 0 <= i - i0 < i1 and 0 <= j - j0 < j1])
    return found


def read_priors(path: FilePath) -> dict[tuple[str, str], float]:
    """A dictionary: ``source TAB target``, and perhaps TAB pseudo-count (else 1; negative: forbidden)."""
    priors: dict[tuple[str, str], float] = {}
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        parts = line.split("\t")
        if len(parts) not in (2, 3) or not parts[0] or not parts[1]:
            raise DataError(
                "expected source TAB target, optionally followed by TAB weight", path=shown(path), line=number
            )
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
