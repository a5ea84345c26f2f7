"""Constraints: expressions over counts of parts, compiled to sparse rows."""

from trellis.constraints.arcs import arcs, root
from trellis.constraints.comparison import at_least, at_most, exactly, exists
from trellis.constraints.compilation import compile_constraints
from trellis.constraints.condition import column, feature, following, position, preceding, word
from trellis.constraints.constraint import Constraint
from trellis.constraints.count import count, share, starts, transitions
from trellis.constraints.custom import custom
from trellis.constraints.each_label import each_label, few_arcs_per, few_labels_per
from trellis.constraints.earlier import earlier
from trellis.constraints.fields import length, ordered
from trellis.constraints.given import given, trusted
from trellis.constraints.labels import changed, dictionary, label, previous
from trellis.constraints.links import backward, each, forward, links
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
from trellis.constraints.rules import RulesFile, parse_rules, read_rules
from trellis.constraints.shares import Shares, shares
from trellis.constraints.strength import Strength, hard, learned, penalty, slack
from trellis.constraints.together import together

__all__ = [
    "Constraint", "Rule", "RulesFile", "Shares", "Strength", "arcs", "at_least", "at_most", "backward", "changed",
    "column", "compile_constraints", "count", "counts_like", "custom", "dictionary", "each", "each_label", "earlier",
    "entities", "entity", "exactly", "exists", "feature", "few_arcs_per", "few_labels_per", "first", "following",
    "forward", "given", "hard", "label", "learned", "length", "links", "one_relation_per_pair", "ordered",
    "parse_rules", "penalty", "position", "preceding", "previous", "read_rules", "relation", "relations", "root",
    "second", "share", "shares", "slack", "starts", "together", "transitions", "trusted", "word",
]  # fmt: skip
