"""Rules about fields: how often they appear, how long they are, and their order."""

from __future__ import annotations

from collections.abc import Callable

from trellis.constraints.comparison import compare
from trellis.constraints.constraint import Constraint
from trellis.constraints.count import starts
from trellis.constraints.each_label import each_label
from trellis.constraints.fields import length, ordered
from trellis.constraints.linear_count import Count
from trellis.constraints.rules.section import Section
from trellis.data.bio import NO_FIELD

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
