"""Sentence pairs read in chunks, some of them kept; kernels are compiled once all are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trellis.apps.align.hints import Hint
from trellis.data.bitext import LONGEST, each_pair
from trellis.data.checks import check_list
from trellis.engine.compiling import compile_ahead
from trellis.engine.threads import cut
from trellis.errors import DataError

Text = str | Sequence[str]
CHUNK = 5_000
CHUNK_CELLS = 4_000_000
"""Pairs of new text, and cells of them, that are held at a time."""


def chunks_of(pairs: Iterable[tuple[Text, Text]]) -> Iterator[list[tuple[Sequence[str], Sequence[str]]]]:
    """Pairs in runs that are small enough to be held; where a run ends changes nothing in the result."""

    def cells(pair: tuple[Sequence[str], Sequence[str]]) -> int:
        lengths = len(pair[0]), len(pair[1])
        return min(lengths[0] * lengths[1], LONGEST * max(lengths))

    return cut(each_pair(pairs), cells, CHUNK_CELLS, CHUNK)


def keeping(pairs: Iterable[tuple[Text, Text]], n: int, kept: list[tuple[Text, Text]]) -> Iterator[tuple[Text, Text]]:
    """The same pairs, the first n of which are put aside on their way."""
    for pair in pairs:
        if len(kept) < n:
            kept.append(pair)
        yield pair
    if len(kept) < n:
        raise DataError(f"gold links are given for {n} pairs, but there are only {len(kept)} pairs")


def then_compiling(
    pairs: Iterable[tuple[Text, Text]], hints: Sequence[Sequence[Hint]] | None
) -> Iterator[tuple[Text, Text]]:
    """The same pairs; when all are read and nothing is wrong with them, kernels are compiled."""
    n = 0
    for n, pair in enumerate(check_list(pairs, "sentence pairs"), start=1):  # noqa: B007  how many there were
        yield pair
    if hints is not None and len(hints) != n:
        raise DataError(f"hints are given for {len(hints)} pairs, but there are {n} pairs")
    compile_ahead("align")
