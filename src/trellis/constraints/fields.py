"""Order and length of fields, as rows over where fields start.

With s(t) = [a field of A starts at t] and sentences of n tokens:

    A before B     M_t · s_A(t) + Σ_{u<t} s_B(u) ≤ M_t      every token t; M_t is the largest value of the sum
    at least m     Σ_{t−m<u≤t} s(u) ≤ [y_t = A]             every token t
                   Σ_u max(m − n + u, 0) · s(u) ≤ 0         every sentence: fields that its end cuts short
    at most m      [y_t = A] ≤ Σ_{t−m<u≤t} s(u)             every token t

    on segmentations, whose parts are segments of l tokens that end with t, as far as they tell lengths apart:
    at least m     Σ_t,l max(m − l, 0) · [segment of A] ≤ 0       every sentence
    at most m      Σ_t,l max(l − m, 0) · [segment of A] ≤ 0       every sentence

Lengths are the inequalities of minimum and maximum up-times (Rajan and Takriti 2005). All rows are exact for every
single output, whose violations add up to the number of pairs of fields in the wrong order, of tokens that are missing
from short fields, and of tokens beyond the maximum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.constraints.amounts import any_of, is_whole
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowBlock, instance_units, token_units
from trellis.constraints.count import starts
from trellis.constraints.entries import Terms, entries_of, rows_of_terms, spread, times
from trellis.constraints.labels import Label, label_names
from trellis.constraints.reduction import Outputs, TestedPlaces, joined
from trellis.constraints.rule import Or, Rule
from trellis.data.ragged import BoolArray, IntArray
from trellis.errors import ConstraintError


@dataclass(frozen=True, eq=False, repr=False)
class FieldOrder(Constraint):
    """No field of a label starts after one of a later label."""

    labels: tuple[str, ...]

    @property
    def ties_instances(self) -> bool:
        return False

    def code(self) -> str:
        return f"ordered({', '.join(map(repr, self.labels))})"

    def statement(self) -> str:
        if len(self.labels) == 2:
            return f"in every sentence {self.labels[0]} segments come before {self.labels[1]} segments"
        return f"in every sentence segments come in the order {', '.join(self.labels)}"

    def _pairs(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each label with those that come after it."""
        return [(name, self.labels[i + 1 :]) for i, name in enumerate(self.labels[:-1])]

    def blocks(self, context: Context) -> list[RowBlock]:
        return [_order_rows(context, name, later) for name, later in self._pairs()]

    def tested(self, outputs: Outputs) -> TestedPlaces:
        """Places are fields of sentences that have a later one too."""
        context, pieces = outputs.context, []
        for name, later in self._pairs():
            here, others = outputs.holds(_start(name)), outputs.holds(_start(*later))
            so_far = np.concatenate(([0], np.cumsum(others)))
            first, end = context.batch.offsets[context.instance], context.batch.offsets[context.instance + 1]
            places = here & (so_far[end] > so_far[first])
            pieces.append(_single(context, places, places & (so_far[:-1] > so_far[first])))
        return joined(pieces)


@dataclass(frozen=True, eq=False, repr=False)
class FieldLength(Constraint):
    """Every field of these labels has at least ``low`` and at most ``high`` tokens."""

    labels: tuple[str, ...]
    low: int | None
    high: int | None

    @property
    def ties_instances(self) -> bool:
        return False

    def code(self) -> str:
        bounds = [f"{key}={n}" for key, n in (("at_least", self.low), ("at_most", self.high)) if n is not None]
        return f"length({', '.join([*map(repr, self.labels), *bounds])})"

    def statement(self) -> str:
        bound = f"at most {self.high}" if self.low is None else f"at least {self.low}"
        if self.low is not None and self.high is not None:
            bound = f"exactly {self.low}" if self.low == self.high else f"between {self.low} and {self.high}"
        last = self.low if self.high is None else self.high
        return f"in every sentence each {any_of(list(self.labels))} segment has {bound} token{'' if last == 1 else 's'}"

    def blocks(self, context: Context) -> list[RowBlock]:
        made = []
        for name in self.labels:
            if self.low is not None:
                made += _missing(context, name, self.low)
            if self.high is not None:
                made += _surplus(context, name, self.high)
        return made

    def tested(self, outputs: Outputs) -> TestedPlaces:
        """Places are fields, at their first tokens."""
        context, pieces = outputs.context, []
        for name in self.labels:
            here, own = outputs.holds(_start(name)), outputs.holds(Label((name,)))
            length = np.bincount(np.cumsum(here)[own], minlength=int(here.sum()) + 1)[1:]
            broken = np.zeros_like(here)
            broken[here] = (length < (self.low or 0)) | (length > (np.inf if self.high is None else self.high))
            pieces.append(_single(context, here, broken))
        return joined(pieces)


def _start(*labels: str) -> Rule:
    """A field of one of the labels starts here."""
    rules = [term.rule for term in starts(*labels).terms]
    return rules[0] if len(rules) == 1 else Or(*rules)


def _single(context: Context, places: BoolArray, broken: BoolArray) -> TestedPlaces:
    slots = np.arange(context.n_slots)
    return TestedPlaces(places.astype(np.float64), broken.astype(np.float64), context.instance, slots)


def _order_rows(context: Context, name: str, later: tuple[str, ...]) -> RowBlock:
    """M_t · s_A(t) + Σ_{u<t} s_B(u) ≤ M_t."""
    t, slots = context.from_start, np.arange(context.n_slots)
    # fields of one label stand apart, unless they may be adjacent
    most = (t if context.parts.has_again or len(later) > 1 else (t + 1) // 2).astype(np.float64)
    before = [spread(entries_of(_start(one), context), slots + 1, slots + 1 + context.from_end, 1.0) for one in later]
    here = times(entries_of(_start(name), context), most)
    subject = f"the number of {any_of(list(later))} segments before a {name} segment"
    return rows_of_terms(context, token_units(context), [here, *before], most, subject)


def _window(context: Context, name: str, length: int, sign: float) -> Terms:
    """sign · Σ_{t−length<u≤t} s(u)."""
    slots = np.arange(context.n_slots)
    end = slots + np.minimum(length, context.from_end + 1)
    return spread(entries_of(_start(name), context), slots, end, sign)


def _missing(context: Context, name: str, low: int) -> list[RowBlock]:
    """Tokens missing from fields."""
    longest = context.parts.segment_lengths
    if low <= longest:
        subject = f"the number of tokens missing from {name} segments"
        return [_segment_rows(context, name, np.maximum(low - np.arange(1, longest + 1), 0), subject)]
    return [_missing_rows(context, name, low), _cut_rows(context, name, low)]


def _surplus(context: Context, name: str, high: int) -> list[RowBlock]:
    """Tokens of fields beyond the maximum."""
    longest = context.parts.segment_lengths
    if high < longest:
        subject = f"the number of tokens of {name} segments beyond {high}"
        short = _segment_rows(context, name, np.maximum(np.arange(1, longest + 1) - high, 0), subject)
        return [short, _surplus_rows(context, name, longest)]  # the last length stands for longer ones too
    return [_surplus_rows(context, name, high)]


def _segment_rows(context: Context, name: str, excess: IntArray, subject: str) -> RowBlock:
    """Σ_t,l excess[l − 1] · [a segment of l tokens ends with t] ≤ 0, in every sentence."""
    units, (label,) = instance_units(context), np.flatnonzero(context.label_set((name,)))
    at = np.flatnonzero(excess)
    slot, which = (index.reshape(-1) for index in np.meshgrid(np.arange(context.n_slots), at, indexing="ij"))
    fits = which <= context.from_start[slot]
    slot, which = slot[fits], which[fits]
    part = np.asarray(context.parts.segment(slot, which + 1, label))
    terms: Terms = units.row[slot], part, excess[which].astype(np.float64), np.zeros(len(units))
    return rows_of_terms(context, units, [terms], 0.0, subject)


def _missing_rows(context: Context, name: str, low: int) -> RowBlock:
    """Σ_{t−m<u≤t} s(u) − [y_t = A] ≤ 0."""
    terms = [_window(context, name, low, 1.0), times(entries_of(Label((name,)), context), -1.0)]
    subject = f"the number of tokens missing from {name} segments"
    return rows_of_terms(context, token_units(context), terms, 0.0, subject)


def _cut_rows(context: Context, name: str, low: int) -> RowBlock:
    """Σ_u max(m − n + u, 0) · s(u) ≤ 0, in every sentence."""
    units, missing = instance_units(context), np.maximum(low - 1 - context.from_end, 0).astype(np.float64)
    slot, part, value, constant = times(entries_of(_start(name), context), missing)
    total = np.bincount(units.row, constant, minlength=len(units))
    terms: Terms = units.row[slot], part, value, total.astype(np.float64)
    return rows_of_terms(context, units, [terms], 0.0, f"the number of tokens missing from {name} segments")


def _surplus_rows(context: Context, name: str, high: int) -> RowBlock:
    """[y_t = A] − Σ_{t−m<u≤t} s(u) ≤ 0."""
    terms = [_window(context, name, high, -1.0), times(entries_of(Label((name,)), context), 1.0)]
    subject = f"the number of tokens of {name} segments beyond {high}"
    return rows_of_terms(context, token_units(context), terms, 0.0, subject)


def ordered(*labels: str | Iterable[str]) -> FieldOrder:
    """In every sentence, fields come in the order of their labels.

    No field of a label starts after a field of a later label. Fields may be absent, repeated, or have other labels
    between them. A violation is the number of pairs of fields in the wrong order.

    Parameters
    ----------
    *labels : str or list of str
        Two or more labels, in order.

    Returns
    -------
    FieldOrder
        A constraint.

    Examples
    --------
    >>> ordered("AUTHOR", "TITLE").describe()
    'In every sentence AUTHOR segments come before TITLE segments, as a hard constraint.'
    """
    names = label_names(labels, "ordered")
    if len(names) < 2:
        raise ConstraintError(f"ordered takes two labels or more, such as ordered('AUTHOR', 'TITLE'), got {names!r}")
    return FieldOrder(names)


def length(*labels: str | Iterable[str], at_least: int | None = None, at_most: int | None = None) -> FieldLength:
    """Every field of the labels has a minimum or a maximum number of tokens.

    A violation is the number of tokens that are missing from short fields, or that long ones have beyond the maximum.

    Parameters
    ----------
    *labels : str or list of str
        Labels.
    at_least : int or None, default=None
        Minimum length of a field.
    at_most : int or None, default=None
        Maximum length of a field.

    Returns
    -------
    FieldLength
        A constraint.

    Examples
    --------
    >>> length("TITLE", at_least=3).describe()
    'In every sentence each TITLE segment has at least 3 tokens, as a hard constraint.'
    """
    names = label_names(labels, "length")
    if not names:
        raise ConstraintError("length() needs at least one label")
    if at_least is None and at_most is None:
        raise ConstraintError(f"length({', '.join(map(repr, names))}) needs at_least, at_most or both")
    for what, n in (("at_least", at_least), ("at_most", at_most)):
        if n is not None:
            _check_length(what, n)
    if at_least is not None and at_most is not None and at_least > at_most:
        raise ConstraintError(f"a length cannot lie between {at_least} and {at_most}: the first is larger")
    return FieldLength(names, at_least, at_most)


def _check_length(what: str, n: Any) -> None:
    if not is_whole(n) or n < 1:
        raise ConstraintError(f"{what} of length(...) is a whole number of tokens from 1, got {n!r}")
