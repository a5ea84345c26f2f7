"""Similarity of words that a user brings: a function of two words, or a table of pairs (Chang 2011, table 5.6).

Values are from 0 to 1; two words of similarity 0 cannot be mapped to each other. A table is a file with lines
``word TAB word TAB value``, or the same as a dictionary {word: {word: value}}; pairs that it does not list have 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from trellis.data.files import FilePath, numbered_lines, shown
from trellis.errors import DataError

SimilarityTable = Mapping[str, Mapping[str, float]]


class WordSimilarity:
    """The similarity of two words in lower case, whatever their order in a table.

    >>> WordSimilarity({"car": {"auto": 0.9}})("auto", "car")
    0.9
    """

    def __init__(self, given: Callable[[str, str], float] | SimilarityTable) -> None:
        if not callable(given) and not isinstance(given, Mapping):
            raise DataError(
                f"similarity must be a function of two words, a table or the name of its file, not {given!r:.60}"
            )
        self._find = given if callable(given) else None
        self._known: dict[tuple[str, str], float] = {}
        for one, row in () if callable(given) else given.items():
            if not isinstance(row, Mapping):
                raise DataError(
                    f"a table of similarities maps words to words and their values, not {one!r} to {row!r:.40}"
                )
            for other, value in row.items():
                self._known[_ordered(one.lower(), other.lower())] = _checked(value, one, other)

    def __call__(self, one: str, other: str) -> float:
        pair = _ordered(one, other)
        value = self._known.get(pair)
        if value is None:
            value = self._known[pair] = 0.0 if self._find is None else _checked(self._find(*pair), *pair)
        return value


def read_similarity(path: FilePath) -> dict[str, dict[str, float]]:
    """The table of a file."""
    table: dict[str, dict[str, float]] = {}
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        cells = line.split("\t")
        try:
            one, other, value = cells[0].strip(), cells[1].strip(), float(cells[2])
        except (IndexError, ValueError):
            raise DataError(
                f"expected word TAB word TAB value, got {line!r:.60}", path=shown(path), line=number
            ) from None
        if not 0.0 <= value <= 1.0:
            raise DataError(f"expected a value from 0 to 1, got {cells[2]!r:.40}", path=shown(path), line=number)
        table.setdefault(one, {})[other] = value
    if not table:
        raise DataError("has no similarities: expected lines of the form word TAB word TAB value", path=shown(path))
    return table


def _ordered(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)


def _checked(value: Any, one: str, other: str) -> float:
    if not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:  # NaN is in no range
        raise DataError(f"the similarity of {one!r} and {other!r} must be a number from 0 to 1, got {value!r:.40}")
    return float(value)
