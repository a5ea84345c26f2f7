"""Pairs of texts in a file: left TAB right, or left TAB right TAB answer; or a table with these columns.

An answer is one of 1, +1, yes, true and 0, -1, no, false. Every line of a file has as many columns as the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trellis.data.files import FilePath, lines_or_errors, shown
from trellis.data.tables import is_table, table_rows
from trellis.errors import DataError

ANSWERS = {"1": 1, "+1": 1, "yes": 1, "true": 1, "0": -1, "-1": -1, "no": -1, "false": -1}


@dataclass(frozen=True)
class PairLine:
    """A pair of texts, and the answer to whether they match: 1, −1, or None where it is not known."""

    left: str
    right: str
    answer: int | None = None
    line: int = 0


def read_pairs(path: FilePath, *, longest: int | None = None) -> list[PairLine]:
    """All pairs of a file; the first odd line is an error that names it.

    longest : texts with more characters than this are odd
    """
    found = []
    for pair in pairs_or_errors(path, longest=longest):
        if isinstance(pair, DataError):
            raise pair
        found.append(pair)
    if not found:
        raise DataError("there are no pairs in it", path=shown(path))
    return found


def pairs_or_errors(path: FilePath, *, longest: int | None = None) -> Iterator[PairLine | DataError]:
    """The same, with the error itself in the place of an odd line; blank lines are left out."""
    if is_table(path):
        for number, row in table_rows(path):
            cells = [str(row[name]).strip() for name in ("left", "right", "answer") if row.get(name) not in (None, "")]
            try:
                if not {"left", "right"} <= row.keys():
                    raise DataError(f"expected the columns 'left' and 'right' but found {list(row)}")
                yield _pair(cells, len(cells), longest, number)
            except DataError as error:
                yield DataError(str(error), path=shown(path), line=number)
        return
    n_columns = 0
    for number, line in lines_or_errors(path):
        if isinstance(line, DataError):
            yield line
            continue
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        try:
            n_columns = n_columns or (len(cells) if len(cells) in (2, 3) else 0)
            yield _pair(cells, n_columns, longest, number)
        except DataError as error:
            yield DataError(str(error), path=shown(path), line=number)


def _pair(cells: list[str], n_columns: int, longest: int | None, number: int) -> PairLine:
    if len(cells) not in (2, 3):
        raise DataError(f"expected left TAB right, or left TAB right TAB answer, but found {len(cells)} columns")
    if len(cells) != n_columns:
        raise DataError(f"found {len(cells)} columns, but the lines before have {n_columns}")
    for side, text in zip(("left", "right"), cells, strict=False):
        if not text:
            raise DataError(f"the {side} side is empty")
        if longest is not None and len(text) > longest:
            raise DataError(
                f"the {side} side has {len(text)} characters, {text[:20]!r}...; at most {longest} are allowed"
            )
    if len(cells) == 2:
        return PairLine(cells[0], cells[1], None, number)
    if cells[2].lower() not in ANSWERS:
        raise DataError(f"an answer is 1 or 0, yes or no, true or false, but found {cells[2][:40]!r}")
    return PairLine(cells[0], cells[1], ANSWERS[cells[2].lower()], number)
