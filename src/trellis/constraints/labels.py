"""Atoms of token rules about labels: this token's, the one before, whether they differ; tag dictionaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar

import numpy as np

from trellis.constraints.amounts import any_of
from trellis.constraints.condition import Key, strings_of, word
from trellis.constraints.context import Context
from trellis.constraints.rule import Patterns, Rule, Unobserved
from trellis.data.ragged import BoolArray, IntArray
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


WHOLE: ContextVar[bool] = ContextVar("whole", default=False)
"""Whether dictionaries print whole, for files, and not their first entries, for people."""


class InDictionary(Unobserved):
    """The label is one that the dictionary allows for the key's string; strings it does not list are free."""

    is_leaf = True

    def __init__(self, allowed: Mapping[str, tuple[str, ...]], key: Key, *, ignore_case: bool) -> None:
        self.key, self.ignore_case = key, ignore_case
        self.allowed = dict(allowed)
        # entries of equal labels share a row of the table: patterns are as many as label sets, not as words
        self.sets = tuple(dict.fromkeys(self.allowed.values()))
        number = {names: i + 1 for i, names in enumerate(self.sets)}
        self.set_of = {entry: number[names] for entry, names in self.allowed.items()}

    def codes(self, context: Context) -> IntArray:
        """(n_slots,): the number of the label set of each slot's string, 0 where it is not listed."""
        codes, strings = self.key.types(context)
        found = (self.set_of.get(s.casefold() if self.ignore_case else s, 0) for s in strings)
        return np.fromiter(found, dtype=np.int64, count=len(strings))[codes]

    def table(self, patterns: Patterns) -> BoolArray:
        for name in {name for names in self.sets for name in names if name not in patterns.context.labels}:
            patterns.context.label_set((name,))  # refuses
        # only sets that occur: a dictionary may have as many as it has words
        used, numbers = np.unique(patterns.of(self), return_inverse=True)
        rows = np.ones((len(used), patterns.context.n_labels), dtype=np.bool_)
        for row, number in zip(rows, used.tolist(), strict=True):
            if number:
                row[:] = patterns.context.label_set(self.sets[number - 1])
        return rows[numbers.reshape(-1)][:, None, :]

    def code(self) -> str:
        most = len(self.allowed) if WHOLE.get() else 2
        shown = [f"{entry!r}: {list(names)!r}" for entry, names in list(self.allowed.items())[:most]]
        dots = ", ..." if len(self.allowed) > most else ""
        more = "" if self.key is word or not WHOLE.get() else f", key={self.key.code()}"
        more += ", ignore_case=True" if self.ignore_case and WHOLE.get() else ""
        return f"dictionary({{{', '.join(shown)}{dots}}}{more})"

    def english(self, *, negated: bool = False) -> str:
        n = len(self.allowed)
        has = "has none of" if negated else "has one of"
        return f"a {self.key.english()} of the dictionary ({n} entr{'y' if n == 1 else 'ies'}) {has} its listed labels"


def dictionary(
    entries: Mapping[str, str | Iterable[str]], *, key: Key = word, ignore_case: bool = False
) -> InDictionary:
    """Words may only have the labels that are listed for them.

    Parameters
    ----------
    entries : dict
        Labels of each word. Other words are unrestricted.
    key : Key, default=word
        Column that is looked up.
    ignore_case : bool, default=False
        Compare without case.

    Returns
    -------
    InDictionary
        A constraint.

    Examples
    --------
    >>> dictionary({"the": "DET", "run": ["NOUN", "VERB"]}).describe()
    'At every token, a word of the dictionary (2 entries) has one of its listed labels, as a hard constraint.'
    """
    allowed: dict[str, dict[str, None]] = {}
    if not isinstance(entries, Mapping):
        raise ConstraintError(f"dictionary takes a dictionary of words and their labels, got {entries!r:.80}")
    for entry, names in entries.items():
        if not isinstance(entry, str):
            raise ConstraintError(f"the words of a dictionary are strings, got {entry!r:.80}")
        chosen = label_names((names,), f"dictionary entry {entry!r}")
        if not chosen:
            raise ConstraintError(f"the dictionary allows no label at all for {entry!r}: list one, or leave it out")
        folded = entry.casefold() if ignore_case else entry
        allowed.setdefault(folded, {}).update(dict.fromkeys(chosen))
    return InDictionary({entry: tuple(names) for entry, names in allowed.items()}, key, ignore_case=ignore_case)
