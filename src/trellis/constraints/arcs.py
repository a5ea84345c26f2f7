"""Counts of arcs of dependency trees, selected by conditions on head and child.

    arcs(head=tag == "VERB", child=tag == "NOUN") >= 1                  verbs head a noun, in every sentence
    arcs(head=tag == "VERB", child=tag == "NOUN", share=True).per("corpus") >= 0.8
                                                                        of all nouns, four of five hang on a verb
    arcs(head=root, child=tag == "VERB").per("corpus") >= 100           ``root``: arcs from the root
    arcs(direction="left", distance=(1, 3)) <= 5                        the child stands left of its head, 1 to 3 words
    arcs(projected, share=True) >= 0.9                                  given arcs hold (Ganchev et al. 2010, sec. 7)

with ``tag = column("upos")``. Like every count they add up, and are taken per "token" (the child), "instance", "corpus"
or key of the child.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.constraints.amounts import is_whole
from trellis.constraints.condition import Key
from trellis.constraints.context import NOT_GIVEN, Context
from trellis.constraints.entries import RuleEntries
from trellis.constraints.linear_count import Count, Term
from trellis.constraints.rule import Always, And, Observed, Patterns, Rule, Unobserved
from trellis.data.ragged import BoolArray, IntArray
from trellis.errors import ConstraintError

DIRECTIONS = ("left", "right")


class Root(Observed):
    """``root``: in the place of a condition on the head, the root itself."""

    def holds(self, context: Context) -> BoolArray:
        return np.zeros(context.n_slots, dtype=np.bool_)

    def code(self) -> str:
        return "root"

    def english(self, *, negated: bool = False) -> str:
        return f"it is {'not ' if negated else ''}the root"


root = Root()


class GivenArcs:
    """Arcs that are given: (head, child) pairs for every sentence, or a column of heads.

    Words of a sentence count from 1, and head 0 is the root, as in CoNLL-U. A child may be given several heads.
    """

    def __init__(self, source: Any) -> None:
        if isinstance(source, str):
            raise ConstraintError(f"heads are given as a column: write column({source!r}) in place of {source!r}")
        self.source = source

    def parts(self, context: Context) -> IntArray:
        """The numbers of the given arcs, increasing."""
        pairs = self._of_column(context) if isinstance(self.source, Key) else self._of_list(context)
        found = [context.parts.arc_within(i, h, c) for i, own in enumerate(pairs) for h, c in own]
        return np.unique(np.array(found, dtype=np.int64))

    def _of_list(self, context: Context) -> list[list[tuple[int, int]]]:
        return [[(int(h), int(c)) for h, c in own] for own in context.given_here(self.source, "arcs", "sentences")]

    def _of_column(self, context: Context) -> list[list[tuple[int, int]]]:
        codes, strings = self.source.types(context)
        heads = [None if s in NOT_GIVEN else s for s in strings]
        for head in heads:
            if head is not None and not head.isdecimal():
                raise ConstraintError(f"{self.source.code()} holds {head!r}, which is not the number of a head")
        found: list[list[tuple[int, int]]] = [[] for _ in range(len(context.batch))]
        for slot, code in enumerate(codes.tolist()):
            head = heads[code]
            if head is not None:
                found[int(context.instance[slot])].append((int(head), int(context.from_start[slot]) + 1))
        return found

    def code(self) -> str:
        return self.source.code() if isinstance(self.source, Key) else "given"


class HasGivenArc(Observed):
    """A head is given for the word."""

    def __init__(self, given: GivenArcs) -> None:
        self.given = given

    def holds(self, context: Context) -> BoolArray:
        held = np.zeros(context.n_slots, dtype=np.bool_)
        held[context.parts.arc_words()[1][self.given.parts(context)]] = True
        return held

    def code(self) -> str:
        return f"has_given_arc({self.given.code()})"

    def english(self, *, negated: bool = False) -> str:
        return f"{'no' if negated else 'a'} head is given"


@dataclass(eq=False, repr=False)
class ChosenArcs(Unobserved):
    """The word hangs on a head by an arc that is chosen."""

    is_leaf = True
    given: GivenArcs | None
    head: Rule | None
    child: Rule | None
    direction: str | None
    distance: tuple[int, int] | None

    def table(self, patterns: Patterns) -> BoolArray:
        raise ConstraintError(f"{self.code()} counts arcs: it cannot be combined with rules about labels")

    def entries(self, context: Context) -> RuleEntries:
        head, child = context.parts.arc_words()
        chosen = np.ones(len(child), dtype=np.bool_)
        if self.given is not None:
            chosen[:] = False
            chosen[self.given.parts(context)] = True
        if self.child is not None:
            chosen &= self.child.holds(context)[child]
        if isinstance(self.head, Root):
            chosen &= head < 0
        elif self.head is not None:
            chosen &= self.head.holds(context)[np.maximum(head, 0)] & (head >= 0)
        if self.direction is not None:
            chosen &= (head >= 0) & ((child < head) if self.direction == "left" else (child > head))
        if self.distance is not None:
            low, high = self.distance
            away = np.abs(child - head)
            chosen &= (head >= 0) & (away >= low) & (away <= high)
        part = np.flatnonzero(chosen)
        return RuleEntries(child[part], part, np.ones(len(part)), np.zeros(context.n_slots))

    def arguments(self) -> str:
        named = [("head", self.head), ("child", self.child), ("direction", self.direction), ("distance", self.distance)]
        own = [self.given.code()] if self.given is not None else []
        return ", ".join(own + [f"{name}={value!r}" for name, value in named if value is not None])

    def code(self) -> str:
        return f"arcs({self.arguments()})"

    def english(self, *, negated: bool = False) -> str:
        return f"the arc to its head is {'none' if negated else 'one'} of {self.phrase()}"

    def phrase(self) -> str:
        """What is counted: "given arcs to the left"."""
        text = "arcs" if self.given is None else "given arcs"
        if self.direction is not None:
            text += f" to the {self.direction}"
        if self.distance is not None:
            low, high = self.distance
            text += f" over {low} words" if low == high else f" over {low} to {high} words"
        if isinstance(self.head, Root):
            text += " from the root"
        elif self.head is not None:
            text += f" from a word where {self.head.english()}"
        return text if self.child is None else f"{text} to a word where {self.child.english()}"


def arcs(
    given: Any = None,
    *,
    head: Rule | None = None,
    child: Rule | None = None,
    direction: str | None = None,
    distance: int | tuple[int, int] | None = None,
    share: bool = False,
) -> Count:
    """The number of arcs that meet every condition named.

    given : only these: for every sentence a list of (head, child), words counted from 1 and the root 0, or a column
        that holds the head of each word
    head, child : conditions on what is observed at either end; ``head=root``: arcs from the root
    direction : "left" or "right", where the child stands seen from its head;  distance : in words, or (least, most)
    share : in place of their number, their share of the words that could have one: those that ``child`` chooses, and
        for which a head is given where heads are

    >>> from trellis.constraints import column
    >>> tag = column("upos")
    >>> (arcs(head=tag == "VERB", child=tag == "NOUN", share=True).per("corpus") >= 0.8).describe()[:79]
    "Over the corpus the expected share of arcs from a word where the upos is 'VERB'"
    """
    for name, condition in (("head", head), ("child", child)):
        if condition is not None and not getattr(condition, "observed", False):
            raise ConstraintError(f"{name}= takes a condition such as column('upos') == 'VERB', got {condition!r}")
    if isinstance(child, Root):
        raise ConstraintError("the root has no head: use head=root")
    if direction is not None and direction not in DIRECTIONS:
        raise ConstraintError(f"direction must be 'left' or 'right', seen from the head, got {direction!r}")
    if isinstance(head, Root) and (direction is not None or distance is not None):
        raise ConstraintError("arcs from the root have no direction and no distance")
    source = None if given is None else GivenArcs(given)
    chosen = ChosenArcs(source, head, child, direction, _span(distance))
    if not share:
        return Count((Term(1.0, chosen, None, chosen.code(), f"the expected number of {chosen.phrase()}"),))
    over: Rule = Always() if child is None else child
    if source is not None:
        over = HasGivenArc(source) if child is None else And(HasGivenArc(source), child)
    code = f"arcs({', '.join(filter(None, (chosen.arguments(), 'share=True')))})"
    return Count((Term(1.0, chosen, over, code, f"the expected share of {chosen.phrase()}"),))


def _span(distance: Any) -> tuple[int, int] | None:
    if distance is None:
        return None
    pair = (distance, distance) if is_whole(distance) else distance
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(map(is_whole, pair)) and 1 <= pair[0] <= pair[1]):
        raise ConstraintError(f"distance must be a number of words, 1 or more, or (least, most), got {distance!r}")
    return int(pair[0]), int(pair[1])
