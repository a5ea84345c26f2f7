"""Conditions on labels farther back than the previous one, in rules that hold at every token.

With S_t = Σ of [y_u is one of the labels] over the m_t tokens u of a window before t, and a rule P_t(y_{t−1}, y_t):

    P never with one of them in the window       m_t · P_t + S_t ≤ m_t
    P only with one of them in the window        P_t − S_t ≤ 0

A rule that has such a condition says both, with P = "the rule is violated where the condition holds", or where it does
not. Rows are exact for every single output. The violation is the number of tokens in the window that have the labels in
the first case, and 1 in the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from trellis.constraints.amounts import any_of, is_whole
from trellis.constraints.context import Context, RowBlock, token_units
from trellis.constraints.entries import Terms, entries_of, rows_of_terms, spread, times
from trellis.constraints.labels import Label, some_names
from trellis.constraints.rule import Always, Not, Patterns, Rule, Unobserved
from trellis.data.ragged import BoolArray, IntArray
from trellis.errors import ConstraintError


class Earlier(Unobserved):
    """A token from ``low`` to ``high`` tokens back (None: any farther) has one of the names as its label."""

    def __init__(self, names: tuple[str, ...], low: int, high: int | None) -> None:
        self.names, self.low, self.high = names, low, high

    def earlier(self) -> Iterator[Earlier]:
        yield self

    def decided(self, value: bool) -> Rule:
        return Always() if value else Not(Always())

    def table(self, patterns: Patterns) -> BoolArray:
        raise ConstraintError(
            f"{self.code()} can only be used in a rule that holds at every token, such as "
            f"{self.code()}.implies(~label('A')), and not in a count"
        )

    def code(self) -> str:
        names = ", ".join(map(repr, self.names))
        if (self.low, self.high) == (1, None):
            return f"earlier({names})"
        return f"earlier({names}, distance={self.low if self.low == self.high else (self.low, self.high)})"

    def english(self, *, negated: bool = False) -> str:
        if self.low == self.high:
            return f"the label {self.low} tokens back is {'not ' if negated else ''}{any_of(list(self.names))}"
        where = "" if self.high is None else f" {self.low} to {self.high} tokens back"
        return f"{'no' if negated else 'an'} earlier label{where} is {any_of(list(self.names))}"

    def sizes(self, context: Context) -> IntArray:
        """(n_slots,): m_t."""
        farthest = context.from_start if self.high is None else np.minimum(context.from_start, self.high)
        return np.maximum(farthest - self.low + 1, 0)

    def terms(self, context: Context, sign: float) -> Terms:
        """sign · S_t."""
        slots, n = np.arange(context.n_slots), context.from_end + 1
        end = n if self.high is None else np.minimum(n, self.high + 1)
        return spread(entries_of(Label(self.names), context), slots + np.minimum(n, self.low), slots + end, sign)

    def holds_in(self, here: BoolArray, context: Context) -> BoolArray:
        """(n_slots,): whether it does, given where the labels are."""
        so_far, slots = np.concatenate(([0], np.cumsum(here))), np.arange(context.n_slots)
        size, last = self.sizes(context), np.maximum(slots - self.low + 1, 0)
        return np.asarray(so_far[last] > so_far[last - size])


def earlier_of(rule: Rule) -> Earlier | None:
    """The condition on earlier labels that a rule has."""
    found = list(rule.earlier())
    if len(found) > 1:
        raise ConstraintError(
            f"{rule.code()} has {len(found)} conditions on earlier labels, but a rule may have one: write two rules, "
            "or name several labels, earlier('A', 'B')"
        )
    return found[0] if found else None


def earlier_blocks(rule: Rule, condition: Earlier, context: Context) -> list[RowBlock]:
    """Rows of a rule that holds at every token."""
    if context.parts.has_variables or not context.parts.has_labels:
        raise ConstraintError(f"{condition.code()} refers to tokens in a row, which {context.parts.outputs_are} lack")
    size, units = condition.sizes(context).astype(np.float64), token_units(context)
    with_it, without = (entries_of(Not(rule.decided(value)), context) for value in (True, False))
    never = [times(with_it, size), condition.terms(context, 1.0)]
    only = [times(without, 1.0), condition.terms(context, -1.0)]
    subject = f"the number of violations of {rule.code()!r}"
    return [
        rows_of_terms(context, units, never, size, subject), rows_of_terms(context, units, only, 0.0, subject)
    ]  # fmt: skip


def earlier(*names: str | Iterable[str], distance: int | tuple[int, int] | None = None) -> Rule:
    """Condition: an earlier token of the sentence has one of these labels.

    Use it in rules that hold at every token, once in each.

    Parameters
    ----------
    *names : str or list of str
        Labels.
    distance : int, (int, int) or None, default=None
        How many tokens back: a number, or the least and the most. By default, anywhere before the token.

    Returns
    -------
    Rule
        Condition, to be combined with ``&``, ``|``, ``~`` and ``implies``.

    Examples
    --------
    >>> from trellis.constraints import label
    >>> earlier("TITLE").implies(~label("AUTHOR")).describe()
    'At every token, if an earlier label is TITLE then the label is not AUTHOR, as a hard constraint.'
    >>> label("PAGES").implies(earlier("JOURNAL", "VOLUME", distance=(1, 5)))
    label('PAGES').implies(earlier('JOURNAL', 'VOLUME', distance=(1, 5)))
    """
    chosen = some_names(names, "earlier")
    if distance is None:
        return Earlier(chosen, 1, None)
    ends: Any = (distance, distance) if is_whole(distance) else distance
    if not isinstance(ends, list | tuple) or len(ends) != 2 or not all(map(is_whole, ends)):
        raise ConstraintError(f"distance must be a number of tokens or (least, most), got {distance!r:.80}")
    low, high = map(int, ends)
    if not 1 <= low <= high:
        raise ConstraintError(f"distance must be a number of tokens, at least 1, or (least, most), got {distance!r}")
    return Earlier(chosen, low, high)
