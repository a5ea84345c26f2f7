"""A sentence as it stands in a file: what every reader gives and every writer takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trellis.errors import DataError


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words, a label a word where known, further named columns, and where they were read.

    words : (n,) strings
    labels : (n,) strings, None where unknown; None as a whole: no labels
    columns : name -> (n,) strings
    comments : comment lines before the words, as written
    path, line : the file and its line of the first word; not part of equality
    rows : (n,) line of each word where each has its own (a ``range`` as long as they follow each other)
    multiword : (surface form, first word, the one after the last) of each multiword token of a treebank

    >>> sentence = Sentence(("time", "flies"), ("NOUN", None), path="a.tsv", line=7, rows=range(7, 9))
    >>> len(sentence), sentence.line_of(1)
    (2, 8)
    """

    words: tuple[str, ...]
    labels: tuple[str | None, ...] | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    path: str | None = field(default=None, compare=False)
    line: int | None = field(default=None, compare=False)
    rows: Sequence[int] | None = field(default=None, compare=False, repr=False)
    multiword: tuple[tuple[str, int, int], ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        n = len(self.words)
        if self.labels is not None and len(self.labels) != n:
            raise DataError(f"found {n} words but {len(self.labels)} labels", path=self.path, line=self.line)
        for name, cells in self.columns.items():
            if len(cells) != n:
                message = f"found {n} words but {len(cells)} entries in column {name!r}"
                raise DataError(message, path=self.path, line=self.line)

    def __len__(self) -> int:
        return len(self.words)

    def line_of(self, slot: int) -> int | None:
        """The line on which word ``slot`` stands."""
        return self.line if self.rows is None else self.rows[slot]


def line_numbers(numbers: list[int]) -> Sequence[int]:
    """Rising line numbers, as a range where none is left out: lines of a sentence cost nothing then."""
    if numbers and numbers[-1] - numbers[0] == len(numbers) - 1:
        return range(numbers[0], numbers[-1] + 1)
    return tuple(numbers)
