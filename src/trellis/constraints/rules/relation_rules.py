"""Rules about entities and relations, as a rules file has them: see :mod:`trellis.constraints.relations`."""

from __future__ import annotations

from trellis.constraints.constraint import Constraint
from trellis.constraints.linear_count import Count
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
from trellis.constraints.rules.conditions import condition_of
from trellis.constraints.rules.section import Section

ARGUMENT_KEYS = ("then_first", "then_second")


def implied_types(section: Section) -> Constraint:
    """if_relation, or conditions on what stands between the two, then_first and then_second."""
    wanted: Rule | None = None
    for key, side in zip(ARGUMENT_KEYS, (first, second), strict=True):
        if key in section:
            one: Rule = side(entity(*section.type_names(key, "entities")))
            wanted = one if wanted is None else wanted & one
    if "if_relation" not in section or wanted is None:
        section.fail("the rule needs if_relation, and then_first or then_second")
    return relation(*section.type_names("if_relation", "relations")).implies(wanted).constraint()


def implied_entity(section: Section) -> Constraint:
    """What the text of a mention says of its type: a gazetteer."""
    condition = condition_of(section, with_labels=False)
    wanted = entity(*section.type_names("then_entity", "entities"))
    return (wanted if condition is None else condition.implies(wanted)).constraint()


def implied_relation(section: Section) -> Constraint:
    """What stands between two mentions says of their relation."""
    condition = condition_of(section, with_labels=False)
    names = section.type_names("then_relation", "relations")
    wanted: Rule = relation(*names)
    return (wanted if condition is None else condition.implies(wanted)).constraint()


def counted(section: Section) -> Count:
    """How many relations, or mentions, of some types there are; with share = true, of all pairs."""
    if "relation_count" in section:
        return relations(*section.type_names("relation_count", "relations"))
    if "relation_share" in section:
        return relations(*section.type_names("relation_share", "relations"), share=True)
    return entities(*section.type_names("entity_count", "entities"))


def like_labelled(section: Section) -> Constraint:
    """Shares of relations as in labelled sentences, which come later."""
    if not section.flag("counts_like_labelled"):
        section.fail("counts_like_labelled = true is the only value with a meaning", "counts_like_labelled")
    return counts_like(None, section.number("within", low=0.0, high=1.0) if "within" in section else None)


def one_per_pair(section: Section) -> Constraint:
    """At most one relation between two mentions."""
    if not section.flag("one_relation_per_pair"):
        section.fail("one_relation_per_pair = true is the only value with a meaning", "one_relation_per_pair")
    return one_relation_per_pair()
