"""Conditions on what is observed: strings of a column, and the place of a token in its instance.

String conditions are decided once for every type of the column's vocabulary and then looked up by code.
"""

from __future__ import annotations

import operator
import re
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import regex

from trellis.constraints.amounts import any_of
from trellis.constraints.context import Context
from trellis.constraints.rule import Observed, Rule
from trellis.data.ragged import BoolArray, IntArray
from trellis.errors import ConstraintError

SECONDS_PER_STRING, SECONDS_PER_RULE = 1.0, 60.0
"""How long a regular expression may look at one string, and at all strings of a text together."""


def strings_of(items: Iterable[Any], wanted: str) -> list[str]:
    """Strings given one by one or in lists; ``wanted`` begins the message about anything else."""
    flat: list[str] = []
    for item in items:
        listed = isinstance(item, Iterable) and not isinstance(item, str | bytes) and getattr(item, "ndim", 1) == 1
        for one in item if listed else [item]:
            if not isinstance(one, str):
                raise ConstraintError(f"{wanted}, got {one!r:.80}")
            flat.append(one)
    return flat


class Key(ABC):
    """A string a slot: a column, or a function of one. Compared with strings it gives conditions."""

    @abstractmethod
    def types(self, context: Context) -> tuple[IntArray, list[str]]:
        """codes (n_slots,) and the strings they stand for."""

    @abstractmethod
    def code(self) -> str:
        """The key as one would write it."""

    @abstractmethod
    def english(self) -> str:
        """What a value of the key is called: "word"."""

    def __repr__(self) -> str:
        return self.code()

    def isin(self, *strings: str | Iterable[str], ignore_case: bool = False) -> Rule:
        """Is one of the strings, given one by one or as a list."""
        return IsIn(self, tuple(strings_of(strings, f"{self.code()}.isin takes strings")), ignore_case=ignore_case)

    def matches(self, pattern: str, *, ignore_case: bool = False) -> Rule:
        """The regular expression is found in it; write ^...$ for the whole string."""
        if not isinstance(pattern, str):
            raise ConstraintError(f"{self.code()}.matches takes a regular expression, got {pattern!r:.80}")
        return Matches(self, pattern, ignore_case=ignore_case)

    def map(self, function: Callable[[str], str], name: str | None = None) -> Key:
        """A function of the string, for instance ``word.map(str.lower)``."""
        return MappedKey(self, function, name)

    def __eq__(self, other: object) -> Rule:  # type: ignore[override]
        if not isinstance(other, str):
            raise ConstraintError(f"{self.code()} is compared with a string, got {other!r}")
        return IsIn(self, (other,))

    def __ne__(self, other: object) -> Rule:  # type: ignore[override]
        return ~(self == other)

    __hash__ = object.__hash__


class ColumnKey(Key):
    """The strings of a column of the batch."""

    def __init__(self, name: str) -> None:
        self.name = name

    def types(self, context: Context) -> tuple[IntArray, list[str]]:
        column = context.column(self.name)
        codes = column.codes.astype(np.int64)
        if len(column.vocabulary) <= len(codes):
            return codes, list(column.vocabulary.names)
        # a small batch under a large vocabulary: only types that occur need be looked at
        present, codes = np.unique(codes, return_inverse=True)
        return codes.astype(np.int64), column.vocabulary.decode(present.tolist())

    def code(self) -> str:
        return "word" if self.name == "word" else f"column({self.name!r})"

    def english(self) -> str:
        return self.name


class MappedKey(Key):
    """A function of another key's string."""

    def __init__(self, base: Key, function: Callable[[str], str], name: str | None = None) -> None:
        self.base = base
        self.function = function
        self.name = name or getattr(function, "__name__", "function").replace("<lambda>", "f")

    def types(self, context: Context) -> tuple[IntArray, list[str]]:
        codes, strings = self.base.types(context)
        number: dict[str, int] = {}
        mapped = [number.setdefault(str(self.function(s)), len(number)) for s in strings]
        return np.asarray(mapped, dtype=np.int64)[codes], list(number)

    def code(self) -> str:
        return f"{self.base.code()}.map({self.name})"

    def english(self) -> str:
        return f"{self.name} of the {self.base.english()}"


class _StringTest(Observed):
    """A condition on the string of a key."""

    key: Key

    def holds(self, context: Context) -> BoolArray:
        codes, strings = self.key.types(context)
        return np.fromiter(map(self.accepts, strings), dtype=np.bool_, count=len(strings))[codes]

    @abstractmethod
    def accepts(self, string: str) -> bool:
        """Whether it holds of one string."""


class IsIn(_StringTest):
    """The string is one of a few."""

    def __init__(self, key: Key, strings: tuple[str, ...], *, ignore_case: bool = False) -> None:
        self.key, self.strings, self.ignore_case = key, strings, ignore_case
        self.folded = frozenset(s.casefold() if ignore_case else s for s in strings)

    def accepts(self, string: str) -> bool:
        return (string.casefold() if self.ignore_case else string) in self.folded

    def code(self) -> str:
        if len(self.strings) == 1 and not self.ignore_case:
            return f"({self.key.code()} == {self.strings[0]!r})"
        case = ", ignore_case=True" if self.ignore_case else ""
        return f"{self.key.code()}.isin({', '.join(map(repr, self.strings))}{case})"

    def english(self, *, negated: bool = False) -> str:
        case = " in any case" if self.ignore_case else ""
        return f"the {self.key.english()} {'is not' if negated else 'is'} {any_of(list(map(repr, self.strings)))}{case}"


class Matches(_StringTest):
    """A regular expression is found in the string.

    The engine is that of the package ``regex``, which takes a time limit: a pattern may come from a stranger's model,
    and one such as (a|aa)+$ tries more ways than there are seconds. See docs/decisions/regular-expressions.md.
    """

    def __init__(self, key: Key, pattern: str, *, ignore_case: bool = False) -> None:
        self.key, self.ignore_case = key, ignore_case
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a pattern that a later Python may read otherwise
                re.compile(pattern)  # the language is Python's: what more the engine reads has no meaning here
                self.pattern = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
        except (re.error, regex.error, OverflowError, RecursionError, TypeError, ValueError) as cause:
            raise ConstraintError(f"{pattern!r} is not a valid regular expression: {cause}") from None

    def holds(self, context: Context) -> BoolArray:
        codes, strings = self.key.types(context)
        found, end = np.zeros(len(strings), dtype=np.bool_), time.monotonic() + SECONDS_PER_RULE
        for i, string in enumerate(strings):
            found[i] = self.accepts(string, end - time.monotonic())
        return found[codes]

    def accepts(self, string: str, left: float = SECONDS_PER_RULE) -> bool:
        """Whether it is found in a string; ``left``: the seconds that the rule has."""
        try:
            return self.pattern.search(string, timeout=max(min(left, SECONDS_PER_STRING), 1e-3)) is not None
        except TimeoutError:
            raise ConstraintError(
                f"the regular expression {self.pattern.pattern!r} takes too long on {string!r:.60}, which has "
                f"{len(string)} characters: avoid nested repetitions such as (a+)+"
            ) from None

    def code(self) -> str:
        case = ", ignore_case=True" if self.ignore_case else ""
        return f"{self.key.code()}.matches({self.pattern.pattern!r}{case})"

    def english(self, *, negated: bool = False) -> str:
        verb = "does not match" if negated else "matches"
        case = " in any case" if self.ignore_case else ""
        return f"the {self.key.english()} {verb} {self.pattern.pattern}{case}"


class PositionTest(Observed):
    """The token's place, from the start or from the end, compared with a number."""

    def __init__(self, from_end: bool, sign: str, number: int) -> None:
        self.from_end, self.sign, self.number = from_end, sign, number

    def holds(self, context: Context) -> BoolArray:
        place = context.from_end if self.from_end else context.from_start
        return np.asarray(COMPARE[self.sign](place, self.number), dtype=np.bool_)

    def code(self) -> str:
        if self.sign == "==" and self.number == 0:
            return "position.last" if self.from_end else "position.first"
        return f"({'position.from_end' if self.from_end else 'position'} {self.sign} {self.number})"

    def english(self, *, negated: bool = False) -> str:
        if self.sign == "==" and self.number == 0:
            return f"the token is {'not ' if negated else ''}the {'last' if self.from_end else 'first'}"
        sign = _NEGATED[self.sign] if negated else self.sign
        end = " from the end" if self.from_end else ""
        return f"the token's position{end} (counted from 0) is {_IN_WORDS[sign]} {self.number}"


COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "<": operator.lt, ">": operator.gt, "!=": operator.ne,
}  # fmt: skip
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_IN_WORDS = {"==": "", "!=": "not", "<": "less than", "<=": "at most", ">": "more than", ">=": "at least"}


class Position:
    """The token's place in its instance, counted from 0; ``position.from_end`` counts from the last one."""

    def __init__(self, *, counted_from_end: bool = False) -> None:
        self._from_end = counted_from_end

    @property
    def first(self) -> Rule:
        return PositionTest(False, "==", 0)

    @property
    def last(self) -> Rule:
        return PositionTest(True, "==", 0)

    @property
    def from_end(self) -> Position:
        return Position(counted_from_end=True)

    def __eq__(self, other: object) -> Rule:  # type: ignore[override]
        return self._test("==", other)

    def __ne__(self, other: object) -> Rule:  # type: ignore[override]
        return self._test("!=", other)

    def __lt__(self, other: object) -> Rule:
        return self._test("<", other)

    def __le__(self, other: object) -> Rule:
        return self._test("<=", other)

    def __gt__(self, other: object) -> Rule:
        return self._test(">", other)

    def __ge__(self, other: object) -> Rule:
        return self._test(">=", other)

    __hash__ = object.__hash__

    def _test(self, sign: str, other: object) -> Rule:
        if isinstance(other, bool) or not isinstance(other, int):
            raise ConstraintError(f"a position is compared with a whole number, got {other!r}")
        return PositionTest(self._from_end, sign, other)


class Shifted(Observed):
    """A condition on the token before (or after); false where there is none."""

    def __init__(self, condition: Any, step: int) -> None:
        if not isinstance(condition, Rule) or not condition.observed:
            raise ConstraintError(
                f"{'preceding' if step < 0 else 'following'} takes a condition on what is observed, got {condition!r}; "
                "for the label before write previous(...)"
            )
        self.condition, self.step = condition, step

    def holds(self, context: Context) -> BoolArray:
        here = self.condition.holds(context)
        there = np.zeros_like(here)
        if self.step < 0:
            there[1:] = here[:-1]
            return there & ~context.is_first
        there[:-1] = here[1:]
        return np.asarray(there & (context.from_end != 0))

    def code(self) -> str:
        return f"{'preceding' if self.step < 0 else 'following'}({self.condition.code()})"

    def english(self, *, negated: bool = False) -> str:
        place = "before" if self.step < 0 else "after"
        start = "it is not so that " if negated else ""
        return f"{start}at the token {place}, {self.condition.english()}"


class HasFeature(Observed):
    """A column of the instances' feature matrix is not 0."""

    def __init__(self, number: int) -> None:
        self.number = number

    def holds(self, context: Context) -> BoolArray:
        features = context.batch.features
        n = 0 if features is None else features.shape[1]
        if self.number >= n:
            raise ConstraintError(f"there is no feature {self.number}: the instances have {n}, counted from 0")
        chosen = features[:, [self.number]]
        dense = chosen.toarray() if hasattr(chosen, "toarray") else np.asarray(chosen)
        return np.asarray(dense[:, 0] != 0)

    def code(self) -> str:
        return f"feature({self.number})"

    def english(self, *, negated: bool = False) -> str:
        return f"feature {self.number} is {'' if negated else 'not '}0"


def feature(number: Any) -> Rule:
    """Condition: a feature of the instance is not 0.

    Parameters
    ----------
    number : int
        Column of the feature matrix.

    Returns
    -------
    Rule
        Condition for constraints on classifiers.
    """
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 0:
        raise ConstraintError(f"a feature is identified by the number of its column, from 0, got {number!r}")
    return HasFeature(int(number))


def column(name: str) -> Key:
    """Values of a column of the data, to be compared with strings.

    Parameters
    ----------
    name : str
        Name of the column.

    Returns
    -------
    Key
        ``column(name) == value``, ``.isin(...)`` and ``.matches(...)`` are conditions.
    """
    if not isinstance(name, str):
        raise ConstraintError(f"column takes the name of a column, got {name!r:.80}")
    return ColumnKey(name)


def preceding(condition: Rule) -> Rule:
    """Condition: another condition holds at the previous token.

    Parameters
    ----------
    condition : Rule
        Condition on words or columns.

    Returns
    -------
    Rule
        False at the first token.
    """
    return Shifted(condition, -1)


def following(condition: Rule) -> Rule:
    """Condition: another condition holds at the next token.

    Parameters
    ----------
    condition : Rule
        Condition on words or columns.

    Returns
    -------
    Rule
        False at the last token.
    """
    return Shifted(condition, +1)


word = ColumnKey("word")
position = Position()
