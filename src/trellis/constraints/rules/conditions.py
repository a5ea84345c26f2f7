"""The conditions of a rule: keys that begin with if_ must hold, those that begin with unless_ must not; and rules about
fields: how often they appear, how long they are, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import and_

from trellis.constraints.comparison import compare
from trellis.constraints.condition import column, following, position, preceding, word
from trellis.constraints.constraint import Constraint
from trellis.constraints.count import starts
from trellis.constraints.each_label import each_label
from trellis.constraints.earlier import earlier
from trellis.constraints.fields import length, ordered
from trellis.constraints.labels import label, previous
from trellis.constraints.linear_count import Count
from trellis.constraints.rule import Rule
from trellis.constraints.rules.section import Section
from trellis.data.bio import NO_FIELD

_Reader = Callable[[Section, str, bool], Rule]


def joined(rules: Iterable[Rule]) -> Rule | None:
    """All of the rules joined by "and", or None where there are none."""
    found = list(rules)
    return reduce(and_, found) if found else None


def _is(section: Section, key: str, fold: bool) -> Rule:
    return word.isin(*section.texts(key), ignore_case=fold)


def _in_list(section: Section, key: str, fold: bool) -> Rule:
    return word.isin(*section.words_of(key), ignore_case=fold)


def _matches(section: Section, key: str, fold: bool) -> Rule:
    return word.matches(section.text(key), ignore_case=fold)


def column_values(section: Section, key: str, fold: bool) -> Rule:
    """{ pos = "VERB", shape = ["X", "Xx"] }: each of the columns is one of its values."""
    inner = section.inner(key)
    if not inner.values:
        section.fail(f'{key} must name a column, for instance {{ pos = "VERB" }}', key)
    return reduce(and_, (column(name).isin(*inner.texts(name), ignore_case=fold) for name in inner.values))


def _place(section: Section, key: str, fold: bool) -> Rule:
    where = section.choice(key, ("first", "last"))
    return position.first if where == "first" else position.last


_OBSERVED: dict[str, _Reader] = {
    "word": _is,
    "word_in": _in_list,
    "word_matches": _matches,
    "previous_word": lambda s, k, f: preceding(_is(s, k, f)),
    "previous_word_in": lambda s, k, f: preceding(_in_list(s, k, f)),
    "previous_word_matches": lambda s, k, f: preceding(_matches(s, k, f)),
    "next_word": lambda s, k, f: following(_is(s, k, f)),
    "next_word_in": lambda s, k, f: following(_in_list(s, k, f)),
    "next_word_matches": lambda s, k, f: following(_matches(s, k, f)),
    "token": _place,
    "column": column_values,
}
_LABELLED: dict[str, _Reader] = {
    "label": lambda s, k, f: label(*s.label_names(k)),
    "previous_label": lambda s, k, f: previous(*s.label_names(k)),
}
_FARTHER: dict[str, _Reader] = {"earlier_label": lambda s, k, f: earlier_label(s, k)}

OBSERVED_KEYS = (*(f"{sign}_{name}" for sign in ("if", "unless") for name in _OBSERVED), "ignore_case")
LABEL_KEYS = tuple(f"{sign}_{name}" for sign in ("if", "unless") for name in _LABELLED)
EARLIER_KEYS = ("if_earlier_label", "unless_earlier_label", "earlier_distance")


def earlier_label(section: Section, key: str) -> Rule:
    """One of the labels at an earlier token; how far back is a key of its own."""
    back = section.distance("earlier_distance", "tokens") if "earlier_distance" in section else None
    return earlier(*section.label_names(key), distance=back)


def condition_of(section: Section, *, with_labels: bool = True) -> Rule | None:
    """All conditions of a rule joined by "and", or None where it has none."""
    fold = section.flag("ignore_case")
    readers = {**_OBSERVED, **_LABELLED, **_FARTHER} if with_labels else _OBSERVED
    found = [reader(section, f"if_{name}", fold) for name, reader in readers.items() if f"if_{name}" in section]
    found += [
        ~reader(section, f"unless_{name}", fold) for name, reader in readers.items() if f"unless_{name}" in section
    ]
    return joined(found)


SIGNS = {"at_least": ">=", "at_most": "<=", "exactly": "=="}
APPEARS_KEYS = ("appears_at_most", "appears_at_least", "appears_exactly")
LENGTH_KEYS = ("length_at_least", "length_at_most")
EVERY = "*"
"""In place of a label: every label there is."""


def appears(section: Section) -> Constraint:
    """How many fields a text has."""
    keys = [key for key in APPEARS_KEYS if key in section]
    if len(keys) > 1:
        section.fail(f"{keys[0]} and {keys[1]} must be in separate rules", keys[1])
    n = section.whole(keys[0])
    sign = SIGNS[keys[0].removeprefix("appears_")]
    return _of_fields(section, lambda name: compare(starts(name), sign, Count((), float(n))))


def field_length(section: Section) -> Constraint:
    """How many tokens a field has."""
    low, high = (section.whole(key, low=1) if key in section else None for key in LENGTH_KEYS)
    if low is not None and high is not None and low > high:
        section.fail(f"a length cannot lie between {low} and {high}", LENGTH_KEYS[1])
    return _of_fields(section, lambda name: length(name, at_least=low, at_most=high))


def field_order(section: Section) -> Constraint:
    """Fields come in the order of their labels."""
    return ordered(*section.label_names("field_order"))


def _of_fields(section: Section, of: Callable[[str], Constraint]) -> Constraint:
    """The same of every field that ``field`` names, or of every one there is."""
    if "field" not in section or section.texts("field") == (EVERY,):
        without = section.labels is not None and NO_FIELD not in section.labels
        return each_label(of) if without else each_label(of, but=NO_FIELD)
    names = section.label_names("field")
    return of(names[0]) if len(names) == 1 else each_label(of, *names)
