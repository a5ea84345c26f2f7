"""Linear arithmetic on counts:  Σ coefficient · Σ_t [rule holds at t] + constant,  in every unit of a scope.

E_q of it is linear in the marginals of parts, so comparisons of such expressions are rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from trellis.constraints.amounts import is_number, number
from trellis.constraints.condition import Key, word
from trellis.constraints.context import Context, Units, corpus_units, instance_units, key_units, merge, token_units
from trellis.constraints.entries import entries_of
from trellis.constraints.rows import COUPLING
from trellis.constraints.rule import Rule
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import ConstraintError, did_you_mean

if TYPE_CHECKING:
    from trellis.constraints.comparison import Comparison

SCOPES = ("token", "instance", "corpus")


@dataclass(frozen=True)
class Term:
    """coefficient · Σ_t [rule], divided by Σ_t [over] of the same scope where ``over`` is given.

    code, phrase : how it is written, and what it is called
    """

    coefficient: float
    rule: Rule
    over: Rule | None
    code: str
    phrase: str


@dataclass(frozen=True)
class Linear:
    """The linear form of a count in every one of its units.

    row, part, coefficient : (n_entries,)
    constant : (n_units,)
    defined : (n_units,)   false where a share has nothing to be a share of
    """

    units: Units
    row: IntArray
    part: IntArray
    coefficient: FloatArray
    constant: FloatArray
    defined: BoolArray


@dataclass(frozen=True, eq=False, repr=False)
class Count:
    """Σ terms + constant, in a scope: None (in every sentence, unless joined with a count that says otherwise)."""

    terms: tuple[Term, ...]
    constant: float = 0.0
    scope: str | Key | None = None

    def per(self, scope: str | Key | Callable[[str], str]) -> Count:
        """Counted in every "token", every "instance", the whole "corpus", or for every value of a key.

        A key is ``word``, ``column(name)``, or a function of the word.
        """
        if isinstance(scope, str):
            if scope not in SCOPES:
                raise ConstraintError(
                    f"unknown scope {scope!r}{did_you_mean(scope, SCOPES)} For one row per value of a column, write "
                    "per(word) or per(column('pos'))"
                )
            return replace(self, scope=scope)
        if isinstance(scope, Key):
            return replace(self, scope=scope)
        if callable(scope):
            return replace(self, scope=word.map(scope))
        raise ConstraintError(f"a count is taken per 'token', 'instance', 'corpus' or key, not per {scope!r}")

    def __add__(self, other: Any) -> Count:
        if is_number(other):
            return replace(self, constant=self.constant + float(other))
        if not isinstance(other, Count):
            raise self._not_linear("+", other)
        return Count(self.terms + other.terms, self.constant + other.constant, _joint_scope(self, other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Count:
        if not (is_number(other) or isinstance(other, Count)):
            raise self._not_linear("-", other)
        return self.__add__(other * -1.0)

    def __rsub__(self, other: Any) -> Count:
        return self.__mul__(-1.0).__add__(other)

    def __mul__(self, other: Any) -> Count:
        if not is_number(other):
            raise self._not_linear("*", other)
        factor = float(other)
        terms = tuple(replace(term, coefficient=term.coefficient * factor) for term in self.terms)
        return replace(self, terms=terms, constant=self.constant * factor)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Count:
        if not is_number(other):
            raise self._not_linear("/", other)
        if float(other) == 0.0:
            raise ConstraintError(f"{self.code()} is divided by 0")
        return self.__mul__(1.0 / float(other))

    def __rtruediv__(self, other: Any) -> NoReturn:
        raise self._not_linear("under", other)

    def __neg__(self) -> Count:
        return self.__mul__(-1.0)

    def _not_linear(self, operator: str, other: Any) -> ConstraintError:
        if isinstance(other, Count) and operator == "/":
            return ConstraintError(
                f"{self.code()} / {other.code()} is not linear; write share('A') for a share of all tokens, or compare "
                "a count with a number times another: count('A') <= 0.2 * count('A', 'B')"
            )
        return ConstraintError(
            f"{self.code()} {operator} {other!r} has no linear form; counts can be added, subtracted, "
            "multiplied by numbers and compared"
        )

    def __le__(self, other: Any) -> Comparison:
        return _compare(self, "<=", other)

    def __ge__(self, other: Any) -> Comparison:
        return _compare(self, ">=", other)

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]
        return _compare(self, "==", other)

    def __ne__(self, other: object) -> NoReturn:
        raise ConstraintError(f"{self.code()} != {other!r} is not linear; supported are <=, >= and ==")

    def __lt__(self, other: Any) -> NoReturn:
        raise ConstraintError(f"{self.code()} < {other!r}: expectations are compared with <=, >= or ==")

    def __gt__(self, other: Any) -> NoReturn:
        raise ConstraintError(f"{self.code()} > {other!r}: expectations are compared with <=, >= or ==")

    __hash__ = object.__hash__

    def between(self, low: Any, high: Any) -> Comparison:
        """low ≤ count ≤ high."""
        from trellis.constraints.comparison import band

        return band(self, low, high)

    def like(self, X: Any, y: Any = None, *, within: float | None = None) -> Comparison:
        """As frequent over the corpus as in labelled texts, within a relative tolerance.

        X, y : labelled texts in any form; those that are not fully labelled are left out
        within : from 0 to 1; by default 0.2, or 1 / √n for n < 25 occurrences

        >>> from trellis.constraints import count
        >>> count("N").like([["a", "b"], ["c"]], [["N", "V"], ["N"]], within=0.1)
        count('N').per('corpus').between(0.6 * count().per('corpus'), 0.7333333333333334 * count().per('corpus'))
        """
        from trellis.constraints.comparison import like_labelled

        return like_labelled(self, X, y, within)

    def __bool__(self) -> NoReturn:
        raise ConstraintError(f"{self.code()} has no truth value before labels are known")

    def __repr__(self) -> str:
        return self.code()

    def code(self) -> str:
        """The expression as one would write it."""
        text = ""
        for i, term in enumerate(self.terms):
            size = abs(term.coefficient)
            body = term.code if size == 1 else f"{number(size)} * {term.code}"
            minus = term.coefficient < 0
            text += (("-" if minus else "") if i == 0 else (" - " if minus else " + ")) + body
        if self.constant or not self.terms:
            sign = " - " if self.constant < 0 else " + "
            text = text + sign + number(abs(self.constant)) if text else number(self.constant)
        if self.scope is None:
            return text
        scope = self.scope.code() if isinstance(self.scope, Key) else repr(self.scope)
        return f"({text}).per({scope})" if len(self.terms) + bool(self.constant) > 1 else f"{text}.per({scope})"

    def english(self) -> str:
        """What it is called: "the expected count of VERB"."""
        text = ""
        for i, term in enumerate(self.terms):
            size = abs(term.coefficient)
            body = term.phrase if size == 1 else f"{size:g} times {term.phrase}"
            minus = term.coefficient < 0
            text += (("minus " if minus else "") if i == 0 else (" minus " if minus else " plus ")) + body
        if self.constant or not self.terms:
            sign = " minus " if self.constant < 0 else " plus "
            text = text + sign + f"{abs(self.constant):g}" if text else f"{self.constant + 0.0:g}"
        return text

    def where(self) -> str:
        """The scope as the head of a sentence."""
        if isinstance(self.scope, Key):
            return f"for every {self.scope.english()}"
        heads = {"token": "at every token", "corpus": "over the corpus"}
        return heads.get(self.scope or "instance", "in every sentence")

    def units(self, context: Context) -> Units:
        """What it is counted in."""
        if isinstance(self.scope, Key):
            return key_units(*self.scope.types(context), self.scope.english())
        if self.scope == "token":
            return token_units(context)
        return corpus_units(context) if self.scope == "corpus" else instance_units(context)

    def linear(self, context: Context) -> Linear:
        """Its linear form in every unit."""
        units = self.units(context)
        rows, parts, values = [], [], []
        # A row over several instances counts each as often as it weighs; what weights do to its parts is the business
        # of whoever takes expectations.
        weight = np.where(units.instance[units.row] == COUPLING, context.slot_weights, 1.0)
        constant = np.full(len(units), self.constant)
        defined = np.ones(len(units), dtype=np.bool_)
        for term in self.terms:
            scale = np.full(len(units), term.coefficient)
            if term.over is not None:
                total = np.bincount(units.row, weights=term.over.holds(context) * weight, minlength=len(units))
                defined &= total > 0
                scale /= np.where(total > 0, total, 1.0)
            entries = entries_of(term.rule, context)
            row = units.row[entries.slot]
            rows.append(row)
            parts.append(entries.part)
            values.append(entries.value * scale[row])
            constant += scale * np.bincount(units.row, weights=entries.constant * weight, minlength=len(units))
        if not rows:
            nothing = np.zeros(0, dtype=np.int64)
            return Linear(units, nothing, nothing, np.zeros(0), constant, defined)
        merged = merge(np.concatenate(rows), np.concatenate(parts), np.concatenate(values), context.parts.n_parts)
        return Linear(units, *merged, constant, defined)


def as_count(value: Any, beside: Count) -> Count:
    """A number or a count as a count."""
    if is_number(value):
        if not np.isfinite(float(value)):
            raise ConstraintError(f"{beside.code()} is compared with {value}: bounds must be finite")
        return Count((), float(value), None)
    if isinstance(value, Count):
        return value
    raise ConstraintError(f"{beside.code()} is compared with a number or another count, got {value!r}")


def _compare(left: Count, sign: str, right: Any) -> Comparison:
    from trellis.constraints.comparison import compare

    return compare(left, sign, as_count(right, left))


def _joint_scope(left: Count, right: Count) -> str | Key | None:
    """The scope of two counts joined; one that says nothing follows the other."""
    if left.scope is None or right.scope is None:
        return right.scope if left.scope is None else left.scope
    same = left.scope is right.scope if isinstance(left.scope, Key) else left.scope == right.scope
    if isinstance(left.scope, Key) and isinstance(right.scope, Key):
        same = left.scope.code() == right.scope.code()
    if not same:
        raise ConstraintError(f"{left.code()} and {right.code()} are counted in different scopes")
    return left.scope
