"""Rules about arcs of dependency trees, as a rules file has them: see :mod:`trellis.constraints.arcs`."""

from __future__ import annotations

from trellis.constraints.arcs import DIRECTIONS, arcs, root
from trellis.constraints.condition import ColumnKey, Key, column, word
from trellis.constraints.linear_count import Count
from trellis.constraints.rule import Rule
from trellis.constraints.rules.section import Section

END_KEYS = ("head_word", "head_column", "head_root", "child_word", "child_column")
ARC_KEYS = (*END_KEYS, "direction", "distance", "given_heads", "ignore_case")


def arcs_of(section: Section) -> Count:
    """The count or the share that ``arcs = "count"`` or ``arcs = "share"`` begins."""
    counted = section.choice("arcs", ("count", "share"))
    head = _end(section, "head")
    if section.flag("head_root"):
        if head is not None:
            section.fail("head_root = true says what the head is: leave out head_word and head_column", "head_root")
        head = root
    direction = section.choice("direction", DIRECTIONS) if "direction" in section else None
    if head is root and (direction is not None or "distance" in section):
        section.fail("arcs from the root have no direction and no distance", "head_root")
    return arcs(
        column(section.text("given_heads")) if "given_heads" in section else None,
        head=head,
        child=_end(section, "child"),
        direction=direction,
        distance=_distance(section),
        share=counted == "share",
    )


def _end(section: Section, end: str) -> Rule | None:
    """The conditions on the head or on the child, joined by "and"."""
    fold, found = section.flag("ignore_case"), list[Rule]()
    if f"{end}_word" in section:
        found.append(word.isin(*section.texts(f"{end}_word"), ignore_case=fold))
    if f"{end}_column" in section:
        inner = section.inner(f"{end}_column")
        if not inner.values:
            section.fail(f'{end}_column must name a column, for instance {{ upos = "VERB" }}', f"{end}_column")
        for name in inner.values:
            key: Key = ColumnKey(name)
            found.append(key.isin(*inner.texts(name), ignore_case=fold))
    joined: Rule | None = None
    for rule in found:
        joined = rule if joined is None else joined & rule
    return joined


def _distance(section: Section) -> tuple[int, int] | None:
    if "distance" not in section:
        return None
    value = section.values["distance"]
    if not isinstance(value, list):
        n = section.whole("distance", low=1)
        return n, n
    whole = len(value) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in value)
    if not whole or not 1 <= value[0] <= value[1]:
        section.fail("distance must be a number of words from 1, or [least, most]", "distance")
    return value[0], value[1]
