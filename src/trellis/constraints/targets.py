"""Tables of target expectations: a feature a line, how often it occurs, and the share that each label is to have of it.

    word    count   PRICE   ROOM    OTHER
    $       120     0.95    0.01    0.04
    sunny   31      0.05    0.80

The first column names what is observed: a word, or the number of a feature (a column of a classifier's matrix). An
empty cell asks nothing of that label. Lines that begin with # are for people, and so is the count. A person edits the
numbers, deletes lines and adds others; then the table is a list of constraints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trellis.constraints.condition import feature, word
from trellis.constraints.rule import Rule
from trellis.constraints.shares import Shares, shares
from trellis.data.files import FilePath, numbered_lines, shown, writing
from trellis.errors import ConstraintError, DataError, UnknownNameError

WORD, FEATURE = "word", "feature"


DECIMALS = 4
"""Decimals of a share in a table."""
ROUNDING = 0.5 * 10.0**-DECIMALS
"""What rounding may add to a share of a table."""


@dataclass(frozen=True)
class Target:
    """A line of a table.

    observed : "word" or "feature";  name : the word, or the number of the feature;  count : of all text
    """

    observed: str
    name: str
    count: int
    shares: Mapping[str, float]

    def where(self, *, ignore_case: bool = False) -> Rule:
        """Where it is observed."""
        if self.observed == FEATURE:
            return feature(int(self.name))
        return word.isin(self.name, ignore_case=ignore_case)

    def constraint(self, *, ignore_case: bool = False) -> Shares:
        """The target as a constraint, hard unless a strength is given to it."""
        return shares(self.shares, where=self.where(ignore_case=ignore_case))


def write_targets(path: FilePath, targets: Sequence[Target], labels: Sequence[str]) -> None:
    """Write target expectations as a table to edit.

    Parameters
    ----------
    path : path
        File to write.
    targets : list of Target
        Targets to write.
    labels : list of str
        Columns of the table.
    """
    with writing(path) as out:
        out.write("\t".join([targets[0].observed if targets else WORD, "count", *labels]) + "\n")
        for one in targets:
            cells = [f"{one.shares[label]:.{DECIMALS}f}" if label in one.shares else "" for label in labels]
            out.write("\t".join([one.name, str(one.count), *cells]) + "\n")


def read_targets(path: FilePath) -> list[Target]:
    """Read a table of target expectations.

    Parameters
    ----------
    path : path
        Table that :func:`write_targets` or ``trellis extract propose`` wrote.

    Returns
    -------
    list of Target
        One target per line; ``target.constraint()`` makes a constraint.
    """
    return list(targets_of(numbered_lines(path), shown(path)))


def targets_of(lines: Iterable[tuple[int, str]], path: str, labels: Sequence[str] | None = None) -> Iterator[Target]:
    """Targets of numbered lines; labels that are not among those given are refused."""
    header: list[str] | None = None
    for number, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.rstrip("\r").split("\t")
        if header is None:
            if cells[0] not in (WORD, FEATURE) or cells[1:2] != ["count"] or len(cells) < 3:
                message = (
                    f"a table of targets begins with {WORD!r} or {FEATURE!r}, 'count' and labels, with tabs between"
                )
                raise DataError(message, path=path, line=number)
            header = cells
            for name in cells[2:]:
                if labels is not None and name not in labels:
                    raise UnknownNameError("label", name, labels, path=path, line=number)
            continue
        if len(cells) != len(header) or not cells[0]:
            message = f"expected {len(header)} cells with tabs between, as in the first line, but found {len(cells)}"
            raise DataError(message, path=path, line=number)
        yield _target(header, cells, path, number)


def _target(header: list[str], cells: list[str], path: str, line: int) -> Target:
    try:
        given = {label: float(cell) for label, cell in zip(header[2:], cells[2:], strict=True) if cell.strip()}
        total = sum(given.values())
        if 1.0 < total <= 1.0 + ROUNDING * len(given):
            given = {label: share / total for label, share in given.items()}
        target = Target(header[0], cells[0], int(cells[1] or 0), given)
        target.constraint()  # says what is wrong with its shares
    except ConstraintError as error:
        raise DataError(str(error), path=path, line=line) from None
    except ValueError:
        message = f"the count must be a whole number and shares numbers from 0 to 1, but found {cells[1:]}"
        raise DataError(message, path=path, line=line) from None
    return target
