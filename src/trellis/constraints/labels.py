"""Atoms of token rules that speak of labels: this token's, the one before, and whether they differ."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trellis.constraints.condition import any_of, strings_of
from trellis.constraints.rule import Patterns, Rule, Unobserved
from trellis.data.ragged import BoolArray
from trellis.errors import ConstraintError


class Label(Unobserved):
    """y_t is one of the names."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def table(self, patterns: Patterns) -> BoolArray:
        return patterns.context.label_set(self.names)[None, None, :]

    def code(self) -> str:
        return f"label({', '.join(map(repr, self.names))})"

    def english(self, *, negated: bool = False) -> str:
        return f"the label is {'not ' if negated else ''}{any_of(list(self.names))}"


class Previous(Unobserved):
    """y_{t−1} is one of the names; false at a first slot, which has no label before."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    @property
    def uses_previous(self) -> bool:
        return True

    def table(self, patterns: Patterns) -> BoolArray:
        chosen = patterns.context.label_set(self.names)
        return ~patterns.is_first[:, None, None] & chosen[None, :, None]

    def code(self) -> str:
        return f"previous({', '.join(map(repr, self.names))})"

    def english(self, *, negated: bool = False) -> str:
        return f"the label before is {'not ' if negated else ''}{any_of(list(self.names))}"


class GoesOn(Previous):
    """The token before is of the same field, and its label one of the names; false at a first slot."""

    def table(self, patterns: Patterns) -> BoolArray:
        return super().table(patterns) & (not patterns.again)


class Changed(Unobserved):
    """y_{t−1} ≠ y_t, or a field of y_t follows another one of it; false at a first slot."""

    @property
    def uses_previous(self) -> bool:
        return True

    def table(self, patterns: Patterns) -> BoolArray:
        differs = ~np.eye(patterns.context.n_labels, dtype=np.bool_) | patterns.again
        return ~patterns.is_first[:, None, None] & differs[None]

    def code(self) -> str:
        return "changed"

    def english(self, *, negated: bool = False) -> str:
        return "the label stays" if negated else "the label differs from the one before"


def label_names(names: tuple[str | Iterable[str], ...], what: str) -> tuple[str, ...]:
    """Names given one by one or as a list, each once."""
    for item in names:
        if isinstance(item, Rule) and what == "previous":
            raise ConstraintError(f"previous takes names of labels, got {item!r}; rules look one token back, not two")
    return tuple(dict.fromkeys(strings_of(names, f"{what} takes names of labels")))


def some_names(names: tuple[str | Iterable[str], ...], what: str) -> tuple[str, ...]:
    """The same; at least one must be given."""
    chosen = label_names(names, what)
    if not chosen:
        raise ConstraintError(f"{what}() needs at least one name")
    return chosen


def label(*names: str | Iterable[str]) -> Rule:
    """Condition: the token has one of these labels.

    Parameters
    ----------
    *names : str or list of str
        Labels.

    Returns
    -------
    Rule
        Condition, to be combined with ``&``, ``|``, ``~`` and ``implies``.

    Examples
    --------
    >>> previous("TITLE").implies(label("DATE", "PAGES")).describe()
    'At every token, if the label before is TITLE then the label is DATE or PAGES, as a hard constraint.'
    """
    return Label(some_names(names, "label"))


def previous(*names: str | Iterable[str]) -> Rule:
    """Condition: the previous token has one of these labels. False at the first token.

    Parameters
    ----------
    *names : str or list of str
        Labels.

    Returns
    -------
    Rule
        Condition, to be combined with ``&``, ``|``, ``~`` and ``implies``.

    Examples
    --------
    >>> previous("TITLE").implies(~label("PAGES")).describe()
    'At every token, if the label before is TITLE then the label is not PAGES, as a hard constraint.'
    """
    return Previous(some_names(names, "previous"))


changed: Rule = Changed()
"""The token's label differs from that of the token before; false at the first token."""
