"""The conditions of a rule: keys that begin with if_ must hold, those that begin with unless_ must not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import and_

from trellis.constraints.condition import column, following, position, preceding, word
from trellis.constraints.earlier import earlier
from trellis.constraints.labels import label, previous
from trellis.constraints.rule import Rule
from trellis.constraints.rules.section import Section

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
