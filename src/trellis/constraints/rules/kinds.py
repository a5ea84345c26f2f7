"""The kinds of rules, each identified by the key that says what it is about.

Rules about entities and relations are those of :mod:`trellis.constraints.relations`, rules about arcs of dependency
trees those of :mod:`trellis.constraints.arcs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from trellis.constraints.arcs import DIRECTIONS, arcs, root
from trellis.constraints.comparison import at_most, band, compare, exists
from trellis.constraints.condition import Key, column, word
from trellis.constraints.constraint import Constraint
from trellis.constraints.count import count, share, transitions
from trellis.constraints.each_label import few_arcs_per, few_labels_per
from trellis.constraints.given import given, trusted
from trellis.constraints.labels import dictionary, label, previous
from trellis.constraints.linear_count import Count
from trellis.constraints.links import each, links
from trellis.constraints.relations import (
    counts_like,
    entities,
    entity,
    first,
    one_relation_per_pair,
    relation,
    relations,
    second,
)
from trellis.constraints.rule import Rule
from trellis.constraints.rules.conditions import (
    APPEARS_KEYS,
    EARLIER_KEYS,
    EVERY,
    LABEL_KEYS,
    LENGTH_KEYS,
    OBSERVED_KEYS,
    SIGNS,
    appears,
    column_values,
    condition_of,
    earlier_label,
    field_length,
    field_order,
    joined,
)
from trellis.constraints.rules.features import dictionary_file
from trellis.constraints.rules.section import Section
from trellis.constraints.shares import targets_of

STRENGTH_KEYS = ("strength", "slack", "penalty", "norm", "norm_over")
BOUND_KEYS = ("at_least", "at_most", "exactly", "between")
SCOPE_KEYS = ("per", "per_column")
IF_SOME_KEYS = ("if_some_label", "if_all_labels", "if_no_label", "if_some_word", "if_some_word_in")
SCOPES = ("token", "sentence", "corpus", "word")
END_KEYS = ("head_word", "head_column", "head_root", "child_word", "child_column")
ARC_KEYS = (*END_KEYS, "direction", "distance", "given_heads", "ignore_case")
LINK_KEYS = ("source_word", "source_column", "target_word", "target_column", "ignore_case", "per")
ARGUMENT_KEYS = ("then_first", "then_second")


def bounded(section: Section, counted: Count) -> Constraint:
    """The count within the rule's bounds."""
    found = [key for key in BOUND_KEYS if key in section]
    if found == ["at_least", "at_most"]:
        return band(counted, *(_bound(section, key) for key in found))
    if len(found) != 1:
        given_bounds = f"has {' and '.join(found)}" if found else "has none"
        section.fail(
            f"the rule needs one of {', '.join(BOUND_KEYS)} (or at_least and at_most together), but {given_bounds}"
        )
    key = found[0]
    if key == "between":
        pair = section.values[key]
        if not isinstance(pair, list) or len(pair) != 2:
            section.fail("between must be two numbers, [lowest, highest]", key)
        ends = [replace(section, values={key: end}).number(key) for end in pair]
        return band(counted, *ends)
    return compare(counted, SIGNS[key], _bound(section, key))


def _bound(section: Section, key: str) -> Count:
    """A number, or { times = 0.2, count = "NOUN" }."""
    if not isinstance(section.values[key], dict):
        return Count((), section.number(key))
    inner = section.inner(key)
    inner.check_keys(("times", "count"))
    if "count" not in inner:
        section.fail(f'{key} must be a number or a table such as {{ times = 0.2, count = "NOUN" }}', key)
    factor = inner.number("times") if "times" in inner else 1.0
    names = inner.texts("count")
    counted = count() if names == (EVERY,) else count(*inner.label_names("count"))
    return counted * factor


def _bounded_in_scope(section: Section, counted: Count) -> Constraint:
    """The count in the rule's scope, within its bounds."""
    if "per" in section and "per_column" in section:
        section.fail("a rule has per or per_column, not both", "per_column")
    if "per_column" in section:
        counted = counted.per(column(section.text("per_column")))
    elif "per" in section:
        scope = section.choice("per", SCOPES)
        counted = counted.per(word if scope == "word" else "instance" if scope == "sentence" else scope)
    return bounded(section, counted)


def _implied(condition: Rule | None, wanted: Rule) -> Constraint:
    return (wanted if condition is None else condition.implies(wanted)).constraint()


def _token_rule(section: Section) -> Constraint:
    makers: dict[str, Callable[[str], Rule]] = {
        "then_label": lambda key: label(*section.label_names(key)),
        "then_not_label": lambda key: ~label(*section.label_names(key)),
        "then_previous_label": lambda key: previous(*section.label_names(key)),
        "then_earlier_label": lambda key: earlier_label(section, key),
    }
    found = [key for key in ("if_earlier_label", "unless_earlier_label", "then_earlier_label") if key in section]
    if len(found) > 1:
        section.fail(f"{found[0]} and {found[1]} must be in separate rules", found[1])
    if "earlier_distance" in section and not found:
        section.fail("earlier_distance needs if_earlier_label, unless_earlier_label or then_earlier_label")
    condition = condition_of(section)
    wanted = joined(make(key) for key, make in makers.items() if key in section)
    assert wanted is not None  # the table of kinds has seen one of the keys
    return _implied(condition, wanted)


def _count(section: Section) -> Constraint:
    return _bounded_in_scope(section, count(*section.label_names("count"), where=condition_of(section)))


def _share(section: Section) -> Constraint:
    counted = share(*section.label_names("share"), where=condition_of(section, with_labels=False))
    return _bounded_in_scope(section, counted)


def _transitions(section: Section) -> Constraint:
    section.check_on("transitions")
    counted = transitions(
        where=condition_of(section, with_labels=False),
        from_=section.label_names("from_label") if "from_label" in section else None,
        to=section.label_names("to_label") if "to_label" in section else None,
    )
    return _bounded_in_scope(section, counted)


def _dictionary(section: Section) -> Constraint:
    fold = section.flag("ignore_case")
    if isinstance(section.values["dictionary"], str):
        return dictionary(dictionary_file(section), ignore_case=fold).constraint()
    inner = section.inner("dictionary")
    if not inner.values:
        section.fail("the dictionary has no entries", "dictionary")
    return dictionary({entry: inner.label_names(entry) for entry in inner.values}, ignore_case=fold).constraint()


def _targets(section: Section) -> list[Constraint]:
    """A table of target expectations, in a file beside the rules."""
    name, fold = section.text("targets"), section.flag("ignore_case")
    path, lines = section.files.path(name), section.files.lines(name)
    found = list(targets_of(lines, path, section.labels))
    if not found:
        section.fail(f"the table {path} has no targets", "targets")
    return [one.constraint(ignore_case=fold) for one in found]


def _few_labels(section: Section) -> Constraint:
    name = section.text("few_labels_per")
    key: Key = word if name == "word" else column(name)
    if "penalty" not in section:
        section.fail("few_labels_per needs a strength: set penalty to a number", "few_labels_per")
    least = section.whole("min_count", low=1) if "min_count" in section else 1
    return few_labels_per(key, strength=section.number("penalty", low=0.0), min_count=least)


def _few_arcs(section: Section) -> Constraint:
    if "penalty" not in section:
        section.fail("few_arcs_per needs a strength: set penalty to a number", "few_arcs_per")
    return few_arcs_per(column(section.text("few_arcs_per")), strength=section.number("penalty", low=0.0))


def _given(section: Section) -> Constraint:
    return given(column(section.text("given_column"))).constraint()


def _trusted(section: Section) -> Constraint:
    if "at_least" not in section:
        section.fail("trust_column needs at_least, the share of its labels that are correct", "trust_column")
    per: Any = section.choice("per", ("corpus", "sentence")) if "per" in section else "corpus"
    source = column(section.text("trust_column"))
    right = section.number("at_least", low=0.0, high=1.0)
    return trusted(source, at_least=right, per="instance" if per == "sentence" else per)


def _arcs(section: Section) -> Constraint:
    """The count or the share of arcs that ``arcs = "count"`` or ``arcs = "share"`` begins."""
    counted = section.choice("arcs", ("count", "share"))
    head = _end(section, "head")
    if section.flag("head_root"):
        if head is not None:
            section.fail("head_root = true already sets the head: leave out head_word and head_column", "head_root")
        head = root
    direction = section.choice("direction", DIRECTIONS) if "direction" in section else None
    if head is root and (direction is not None or "distance" in section):
        section.fail("arcs from the root have no direction and no distance", "head_root")
    chosen = arcs(
        column(section.text("given_heads")) if "given_heads" in section else None,
        head=head,
        child=_end(section, "child"),
        direction=direction,
        distance=section.distance("distance", "words") if "distance" in section else None,
        share=counted == "share",
    )
    return _bounded_in_scope(section, chosen)


def _end(section: Section, end: str) -> Rule | None:
    """The conditions on the word at this end of an arc or a link, joined by "and"."""
    fold, found = section.flag("ignore_case"), list[Rule]()
    if f"{end}_word" in section:
        found.append(word.isin(*section.texts(f"{end}_word"), ignore_case=fold))
    if f"{end}_column" in section:
        found.append(column_values(section, f"{end}_column", fold))
    return joined(found)


def _links(section: Section) -> Constraint:
    """How many links there are, of each word or of the pair, or that they do not cross."""
    if section.choice("links", ("count", "in_order")) == "in_order":
        for key in (*LINK_KEYS, *BOUND_KEYS):
            if key in section:
                section.fail(f"{key} is not allowed where links must be in order", key)
        return links.in_order()
    ends: dict[str, Any] = {"source": _end(section, "source"), "target": _end(section, "target")}
    per = section.choice("per", ("pair", "source", "target")) if "per" in section else "pair"
    if per != "pair":
        if ends[per] is not None:
            section.fail(f'per = "{per}" counts the links of every {per} word: leave out {per}_word', f"{per}_word")
        ends[per] = each
    bounds = [key for key in SIGNS if key in section]
    if len(bounds) != 1 or "between" in section:
        section.fail(f"the rule needs one of {', '.join(SIGNS)}; write two rules for two of them")
    compared, bound = links(**ends), section.number(bounds[0])
    sign = SIGNS[bounds[0]]
    return compared <= bound if sign == "<=" else compared >= bound if sign == ">=" else compared == bound


def _argument_types(section: Section) -> Constraint:
    """if_relation, then_first and then_second."""
    sides = zip(ARGUMENT_KEYS, (first, second), strict=True)
    wanted = joined(side(entity(*section.type_names(key, "entities"))) for key, side in sides if key in section)
    if "if_relation" not in section or wanted is None:
        section.fail("the rule needs if_relation, and then_first or then_second")
    return _implied(relation(*section.type_names("if_relation", "relations")), wanted)


def _entity(section: Section) -> Constraint:
    """What the text of a mention says of its type: a gazetteer."""
    condition = condition_of(section, with_labels=False)
    return _implied(condition, entity(*section.type_names("then_entity", "entities")))


def _relation(section: Section) -> Constraint:
    """What stands between two mentions says of their relation."""
    condition = condition_of(section, with_labels=False)
    return _implied(condition, relation(*section.type_names("then_relation", "relations")))


def _relation_count(section: Section) -> Constraint:
    """How many relations, or mentions, of some types there are, or their share of all pairs."""
    if "relation_count" in section:
        counted = relations(*section.type_names("relation_count", "relations"))
    elif "relation_share" in section:
        counted = relations(*section.type_names("relation_share", "relations"), share=True)
    else:
        counted = entities(*section.type_names("entity_count", "entities"))
    return _bounded_in_scope(section, counted)


def _counts_like(section: Section) -> Constraint:
    """Shares of relations as in labelled sentences, which come later."""
    section.check_on("counts_like_labelled")
    return counts_like(None, section.number("within", low=0.0, high=1.0) if "within" in section else None)


def _one_per_pair(section: Section) -> Constraint:
    section.check_on("one_relation_per_pair")
    return one_relation_per_pair()


def _statement(section: Section) -> Constraint:
    """if some token has A, and some token has B, then some token has C, and their opposites."""
    conditions = {
        "if_some_label": lambda key: exists(label(*section.label_names(key))),
        "if_all_labels": lambda key: reduce(and_, (exists(label(name)) for name in section.label_names(key))),
        "if_no_label": lambda key: at_most(0, label(*section.label_names(key))),
        "if_some_word": lambda key: exists(word.isin(*section.texts(key), ignore_case=section.flag("ignore_case"))),
        "if_some_word_in": lambda key: exists(
            word.isin(*section.words_of(key), ignore_case=section.flag("ignore_case"))
        ),
    }
    present = [key for key in conditions if key in section]
    wanted = [key for key in ("then_some_label", "then_no_label") if key in section]
    if not present or len(wanted) != 1:
        section.fail(f"the rule needs one or more of {', '.join(conditions)}, and then_some_label or then_no_label")
    then = exists if wanted[0] == "then_some_label" else lambda rule: at_most(0, rule)
    condition = reduce(and_, (conditions[key](key) for key in present))
    return condition.implies(then(label(*section.label_names(wanted[0]))))


@dataclass(frozen=True)
class RuleKind:
    """A kind of rule: keys one of which tells it, keys it may have besides, and how it is read."""

    signs: tuple[str, ...]
    others: tuple[str, ...]
    read: Callable[[Section], Constraint | list[Constraint]]

    @property
    def keys(self) -> tuple[str, ...]:
        return ("name", *self.signs, *self.others)


_CONDITIONS = OBSERVED_KEYS + LABEL_KEYS
KINDS: tuple[RuleKind, ...] = (
    RuleKind(
        ("then_label", "then_not_label", "then_previous_label", "then_earlier_label"),
        _CONDITIONS + EARLIER_KEYS + STRENGTH_KEYS,
        _token_rule,
    ),
    RuleKind(("count",), _CONDITIONS + BOUND_KEYS + SCOPE_KEYS + STRENGTH_KEYS, _count),
    RuleKind(("share",), OBSERVED_KEYS + BOUND_KEYS + SCOPE_KEYS + STRENGTH_KEYS, _share),
    RuleKind(APPEARS_KEYS, ("field", *STRENGTH_KEYS), appears),
    RuleKind(LENGTH_KEYS, ("field", *STRENGTH_KEYS), field_length),
    RuleKind(("field_order",), STRENGTH_KEYS, field_order),
    RuleKind(
        ("transitions",),
        ("from_label", "to_label", *OBSERVED_KEYS, *BOUND_KEYS, *SCOPE_KEYS, *STRENGTH_KEYS),
        _transitions,
    ),
    RuleKind(("arcs",), (*ARC_KEYS, *BOUND_KEYS, *SCOPE_KEYS, *STRENGTH_KEYS), _arcs),
    RuleKind(("links",), (*LINK_KEYS, *BOUND_KEYS, *STRENGTH_KEYS), _links),
    RuleKind(("dictionary",), ("ignore_case", *STRENGTH_KEYS), _dictionary),
    RuleKind(("targets",), ("ignore_case", *STRENGTH_KEYS), _targets),
    RuleKind(("few_labels_per",), ("penalty", "min_count"), _few_labels),
    RuleKind(("few_arcs_per",), ("penalty",), _few_arcs),
    RuleKind(("given_column",), STRENGTH_KEYS, _given),
    RuleKind(("trust_column",), ("at_least", "per", *STRENGTH_KEYS), _trusted),
    RuleKind(("then_some_label", "then_no_label"), (*IF_SOME_KEYS, "ignore_case", *STRENGTH_KEYS), _statement),
    RuleKind(ARGUMENT_KEYS, ("if_relation", *STRENGTH_KEYS), _argument_types),
    RuleKind(("then_entity",), OBSERVED_KEYS + STRENGTH_KEYS, _entity),
    RuleKind(("then_relation",), OBSERVED_KEYS + STRENGTH_KEYS, _relation),
    RuleKind(
        ("relation_count", "relation_share", "entity_count"), BOUND_KEYS + ("per",) + STRENGTH_KEYS, _relation_count
    ),
    RuleKind(("counts_like_labelled",), ("within", *STRENGTH_KEYS), _counts_like),
    RuleKind(("one_relation_per_pair",), STRENGTH_KEYS, _one_per_pair),
)
ALL_KEYS = tuple(dict.fromkeys(key for kind in KINDS for key in kind.keys))


def kind_of(section: Section) -> RuleKind:
    """The kind of a rule, after its keys are checked."""
    section.check_keys(ALL_KEYS)
    found = [kind for kind in KINDS if any(sign in section for sign in kind.signs)]
    if not found:
        signs = ", ".join(sign for kind in KINDS for sign in kind.signs)
        section.fail(f"the kind of the rule is not clear; it needs one of {signs}")
    if len(found) > 1:
        one, two = (next(sign for sign in kind.signs if sign in section) for kind in found[:2])
        section.fail(f"{one} and {two} cannot be combined in one rule: write two rules", two)
    kind = found[0]
    sign = next(sign for sign in kind.signs if sign in section)
    for key in section.values:
        if key not in kind.keys:
            section.fail(f"{key} is not allowed in a rule with {sign}; allowed are {', '.join(kind.others)}", key)
    return kind
