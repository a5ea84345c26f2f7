"""shares: target proportions of labels among the tokens that meet a condition.

    E_q[ tokens labelled k where it holds ] = target_k · tokens where it holds      over the corpus, for each k named

One constraint is one feature with its targets, so that their violations are measured together; they are measured in
tokens, so that a price is one of each token off its target, whether the feature is common or rare. With no condition
it is label regularisation (Mann and McCallum 2007); with words, what a person says of a word (Druck et al. 2008).

In a table of targets a line is a feature, how often it occurs, and the share that each label is to have of it:

    word    count   PRICE   ROOM    OTHER
    $       120     0.95    0.01    0.04
    sunny   31      0.05    0.80

The first column names what is observed: a word, or the number of a feature (a column of a classifier's matrix). An
empty cell does not constrain that label. Lines that begin with # are comments; the count is for people, who edit the
numbers, delete lines and add others; then the table is a list of constraints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trellis.constraints.amounts import is_number, number
from trellis.constraints.comparison import Comparison
from trellis.constraints.condition import feature, word
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowBlock
from trellis.constraints.count import count
from trellis.constraints.rule import Rule
from trellis.data.checks import check_names, is_list
from trellis.data.files import FilePath, numbered_lines, shown, writing
from trellis.errors import ConstraintError, DataError, UnknownNameError, check_name


@dataclass(frozen=True, eq=False, repr=False)
class Shares(Constraint):
    """Targets of labels among tokens where a condition holds (None: all), over the corpus."""

    targets: tuple[tuple[str, float], ...]
    where: Rule | None

    def _each(self) -> list[Comparison]:
        tokens = count(where=self.where).per("corpus")
        return [count(label, where=self.where).per("corpus") == target * tokens for label, target in self.targets]

    def code(self) -> str:
        entries = ", ".join(f"{label!r}: {number(target)}" for label, target in self.targets)
        return f"shares({{{entries}}}{'' if self.where is None else f', where={self.where.code()}'})"

    def statement(self) -> str:
        listed = ", ".join(f"{100 * target:.4g} % {label}" for label, target in self.targets)
        where = "" if self.where is None else f" where {self.where.english()}"
        return f"in the corpus the tokens{where} are expected to be {listed}"

    def blocks(self, context: Context) -> Sequence[RowBlock]:
        return [block for one in self._each() for block in one.blocks(context)]


def shares(targets: Mapping[str, float], where: Any = None) -> Shares:
    """Target proportions of all labels, for the tokens at which a condition holds.

    Parameters
    ----------
    targets : dict
        Expected proportion of each label.
    where : Rule or None, default=None
        Condition that selects the tokens. By default, all tokens.

    Returns
    -------
    Shares
        A constraint; give it a ``penalty`` for :class:`GE`.

    Examples
    --------
    >>> from trellis.constraints import word
    >>> shares({"SPORT": 0.9, "OTHER": 0.1}, where=word == "goal").describe()
    "In the corpus the tokens where the word is 'goal' are expected to be 90 % SPORT, 10 % OTHER, as a hard constraint."
    """
    given: Any = targets
    if not isinstance(given, Mapping) or not given:
        raise ConstraintError(f"shares takes a dictionary, label -> share of the tokens, got {given!r}")
    for label, target in given.items():
        if not isinstance(label, str) or not label:
            raise ConstraintError(f"shares must have names of labels as keys, got {label!r}")
        if not is_number(target) or not 0.0 <= float(target) <= 1.0:
            raise ConstraintError(f"the share of {label!r} must be a number from 0 to 1, got {target!r}")
    total = sum(map(float, targets.values()))
    if total > 1.0 + 1e-6:
        raise ConstraintError(f"the shares of {', '.join(targets)} are {total:.6g} in total, which is more than 1")
    if where is not None and not (isinstance(where, Rule) and where.observed):
        raise ConstraintError(f"where= takes a condition on what is observed, such as word == 'goal', got {where!r}")
    return Shares(tuple((label, float(target)) for label, target in targets.items()), where)


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
    if not is_list(targets) or not all(isinstance(one, Target) for one in targets):
        raise DataError(f"targets must be a list of Target, as propose_targets returns it, got {targets!r:.80}")
    labels = check_names(labels, "labels")
    for one in targets:
        if one.observed != targets[0].observed:
            raise DataError("a table has targets of words or of features, not both: write two tables")
        for label in one.shares:
            check_name("label", label, labels)
    with writing(path) as out:
        out.write("\t".join([targets[0].observed if len(targets) else WORD, "count", *labels]) + "\n")
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
    for at, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.rstrip("\r").split("\t")
        if header is None:
            if cells[0] not in (WORD, FEATURE) or cells[1:2] != ["count"] or len(cells) < 3:
                message = (
                    f"a table of targets begins with {WORD!r} or {FEATURE!r}, 'count' and labels, with tabs between"
                )
                raise DataError(message, path=path, line=at)
            header = cells
            for name in cells[2:]:
                if labels is not None and name not in labels:
                    raise UnknownNameError("label", name, labels, path=path, line=at)
            continue
        if len(cells) != len(header) or not cells[0]:
            message = f"expected {len(header)} cells with tabs between, as in the first line, but found {len(cells)}"
            raise DataError(message, path=path, line=at)
        yield _target(header, cells, path, at)


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
