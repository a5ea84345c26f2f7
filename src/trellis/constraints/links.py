"""Constraints on links between words or characters, of one alignment, or in expectation of those of two directions.

    forward.links == backward.links            both directions link the same words       (Ganchev et al. 2010, sec. 5.3)
    forward.links(source=each) <= 1            a source word has at most one link        (sec. 5.2)
    links(target=each) >= 0.5                  the same of an alignment by itself
    forward.links().per("corpus") <= 900       links counted in every pair, or over the corpus
    links(source=word == "a", target=word.isin("b", "c")) <= 0      links between words that meet conditions
    links.in_order()                           no two links cross
    trusted(links=..., at_least=0.9)           given links hold: see :mod:`given`

``forward`` and ``backward`` are the first and the second member of a joint structure: p(target | source), in which
target words choose, and p(source | target). Two segments side by side link each word of the one with each of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from trellis.constraints.amounts import is_number, number
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowBlock
from trellis.constraints.implicit import LinkRows, Unit
from trellis.constraints.rows import COUPLING
from trellis.constraints.rule import Rule
from trellis.data.ragged import FloatArray, IntArray
from trellis.errors import ConstraintError
from trellis.structures.parts import Parts


class Each:
    """``each``: one row for every word of that side."""

    def __repr__(self) -> str:
        return "each"


each = Each()

_SIDES = {None: "links", 0: "forward.links", 1: "backward.links"}
_WORDS = {Unit.LINK: "for every two words", Unit.SOURCE: "for every source word", Unit.TARGET: "for every target word"}


@dataclass(frozen=True, eq=False, repr=False)
class LinkCount:
    """Expected links: of every two words, of every word of a side, of a sentence pair, or of the corpus.

    member : of a joint structure, None: an alignment by itself;  scope : a Unit, "instance" or "corpus"
    ends : conditions that the source and the target word of a link must meet, None: any word
    """

    member: int | None
    scope: Unit | str = Unit.LINK
    ends: tuple[Rule | None, Rule | None] = (None, None)

    def __call__(self, *, source: Any = None, target: Any = None) -> LinkCount:
        """Links of each source word, of each target word, or without either of the whole sentence pair.

        source, target : ``each``, or a condition on the word such as ``word == "a"``
        """
        for name, side in (("source", source), ("target", target)):
            if side is not None and not isinstance(side, Each) and not getattr(side, "observed", False):
                raise ConstraintError(f"{name}= takes each, or a condition such as word == 'the', not {side!r}")
        by_source, by_target = isinstance(source, Each), isinstance(target, Each)
        one_side = Unit.SOURCE if by_source else Unit.TARGET if by_target else "instance"
        ends = None if by_source else source, None if by_target else target
        return replace(self, scope=Unit.LINK if by_source and by_target else one_side, ends=ends)

    def in_order(self) -> LinkOrder:
        """Links do not cross: of two, the one with the later source word has no earlier target word."""
        return LinkOrder(self.member)

    def per(self, scope: str) -> LinkCount:
        """All links of every "instance", or of the "corpus"."""
        if scope not in ("instance", "corpus"):
            raise ConstraintError(f"links are counted per 'instance' or 'corpus', not per {scope!r}")
        return replace(self, scope=scope)

    def code(self) -> str:
        name, sides = _SIDES[self.member], (Unit.SOURCE, Unit.TARGET)
        if self.scope == Unit.LINK:
            return name
        given = [each if self.scope == side else end for side, end in zip(sides, self.ends, strict=True)]
        named = zip(("source", "target"), given, strict=True)
        called = f"{name}({', '.join(f'{side}={what!r}' for side, what in named if what is not None)})"
        return f"{called}.per('corpus')" if self.scope == "corpus" else called

    def english(self) -> str:
        what = "the probability of a link" if self.scope == Unit.LINK else "the expected number of links"
        for way, end in zip(("from", "to"), self.ends, strict=True):
            what += "" if end is None else f" {way} words where {end.english()}"
        return what if self.member is None else f"{what} in the {('forward', 'backward')[self.member]} direction"

    def entries(self, context: Context) -> LinkEntries:
        """The links that count."""
        parts, first = _member(context.parts, self.member)
        part, source, target = parts.linked_words()
        kept = np.ones(len(part), np.bool_)
        for side, (end, words) in enumerate(zip(self.ends, (source, target), strict=True)):
            if end is not None:
                kept &= end.holds(context.side(side))[words]
        return LinkEntries(first + part[kept], source[kept], target[kept])

    def where(self) -> str:
        if isinstance(self.scope, Unit):
            return _WORDS[self.scope]
        return "over the corpus" if self.scope == "corpus" else "in every sentence pair"

    def __le__(self, other: Any) -> LinkComparison:
        return LinkComparison(self, "<=", self._checked(other, "<="))

    def __ge__(self, other: Any) -> LinkComparison:
        return LinkComparison(self, ">=", self._checked(other, ">="))

    def __eq__(self, other: object) -> LinkComparison:  # type: ignore[override]
        return LinkComparison(self, "==", self._checked(other, "=="))

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise ConstraintError(f"{self.code()} has no truth value before alignments are known")

    def __repr__(self) -> str:
        return self.code()

    def _checked(self, other: Any, sign: str) -> LinkCount | float:
        if isinstance(other, LinkCount):
            if other.scope != self.scope:
                raise ConstraintError(f"{self.code()} and {other.code()} are counted in different scopes")
            return other
        if not is_number(other) or not np.isfinite(float(other)):
            raise ConstraintError(f"{self.code()} {sign} {other!r}: links are compared with a number or with links")
        return float(other)


@dataclass(frozen=True)
class LinkDirection:
    """One direction of alignments in both."""

    member: int

    @property
    def links(self) -> LinkCount:
        return LinkCount(self.member)


@dataclass(frozen=True)
class LinkEntries:
    """Links by their parts and words (n,): places in the flat texts of both sides."""

    part: IntArray
    source: IntArray
    target: IntArray


forward, backward = LinkDirection(0), LinkDirection(1)
links = LinkCount(None)


@dataclass(frozen=True, eq=False, repr=False)
class LinkComparison(Constraint):
    """left <= right, left >= right or left == right, in every unit of the scope."""

    left: LinkCount
    sign: str
    right: LinkCount | float

    def code(self) -> str:
        right = self.right.code() if isinstance(self.right, LinkCount) else number(self.right)
        return f"{self.left.code()} {self.sign} {right}"

    def statement(self) -> str:
        compared = {"<=": "at most", ">=": "at least", "==": "equal to"}[self.sign]
        right = self.right.english() if isinstance(self.right, LinkCount) else f"{self.right:g}"
        return f"{self.left.where()} {self.left.english()} is {compared} {right}"

    def blocks(self, context: Context) -> Sequence[RowBlock | LinkRows]:
        factor = -1.0 if self.sign == ">=" else 1.0
        compared: list[tuple[LinkCount, float]] = [(self.left, factor)]
        bound = 0.0
        if isinstance(self.right, LinkCount):
            compared.append((self.right, -factor))
        else:
            bound = factor * self.right
        parts = _member(context.parts, self.left.member)[0]
        plain = all(count.ends == (None, None) for count, _ in compared)
        if isinstance(self.left.scope, Unit) and plain and parts.has_many_links:
            terms = tuple((count.member, sign) for count, sign in compared)
            return [LinkRows(0, terms, self.left.scope, bound, self.sign == "==", self.strength)]
        return [self._counted(context, [(count.entries(context), sign) for count, sign in compared], bound)]

    def _counted(self, context: Context, terms: list[tuple[LinkEntries, float]], bound: float) -> RowBlock:
        part = np.concatenate([links.part for links, _ in terms])
        source, target = (np.concatenate([getattr(one, side) for one, _ in terms]) for side in ("source", "target"))
        coefficient = np.concatenate([np.full(len(links.part), sign) for links, sign in terms])
        owner, n = context.parts.instance_of(part), len(context.batch)
        match self.left.scope:
            case Unit.LINK:
                words, row = np.unique(source * (target.max(initial=0) + 1) + target, return_inverse=True)
            case Unit.SOURCE | Unit.TARGET as unit:
                words, row = np.unique(source if unit == Unit.SOURCE else target, return_inverse=True)
            case "corpus":
                words, row, owner = np.zeros(1), np.zeros(len(part), np.int64), np.full(len(part), COUPLING)
            case _:
                words, row = np.arange(n), owner
        instance = np.arange(len(words), dtype=np.int64) if self.left.scope == "instance" else np.full(len(words), -1)
        instance[row] = owner
        bounds = np.full(len(words), bound)
        return block_of(context, row, part, coefficient, bounds, instance, self, self.left.english())


@dataclass(frozen=True, eq=False, repr=False)
class LinkOrder(Constraint):
    """No two links cross: h(i, j) + h(k, l) <= 1 wherever i < k and l < j. Those of one part cannot cross."""

    member: int | None
    sign = "<="

    def code(self) -> str:
        return f"{_SIDES[self.member]}.in_order()"

    def statement(self) -> str:
        return "in every sentence pair no two links cross"

    def blocks(self, context: Context) -> Sequence[RowBlock]:
        links, crossing = LinkCount(self.member).entries(context), list[IntArray]()
        owner = context.parts.instance_of(links.part)
        order = np.argsort(owner, kind="stable")
        for some in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
            i, j = links.source[some], links.target[some]
            crossing.append(np.sort(links.part[some[np.argwhere((i[:, None] < i) & (j[:, None] > j))]], axis=1))
        pairs = np.unique(np.concatenate([np.zeros((0, 2), np.int64), *crossing]), axis=0)
        pairs = pairs[pairs[:, 0] < pairs[:, 1]]
        row, part = np.repeat(np.arange(len(pairs)), 2), pairs.ravel()
        instance, bound = context.parts.instance_of(pairs[:, 0]), np.ones(len(pairs))
        return [block_of(context, row, part, np.ones(len(part)), bound, instance, self, "the number of crossing links")]


def block_of(
    context: Context,
    row: IntArray,
    part: IntArray,
    coefficient: FloatArray,
    bound: FloatArray,
    instance: IntArray,
    compared: Any,
    subject: str,
) -> RowBlock:
    """Rows of a comparison; coefficients of entries with the same row and part add up."""
    size = context.parts.n_parts
    cell, at = np.unique(row * size + part, return_inverse=True)
    summed = np.bincount(at, coefficient, minlength=len(cell)).astype(np.float64, copy=False)

    def where(number: int) -> str:
        own = int(instance[number])
        return "the corpus" if own == COUPLING else f"instance {context.batch.first + own}"

    return RowBlock(
        row=cell // size, part=cell % size, coefficient=summed, bound=bound, equality=compared.sign == "==",
        instance=instance, sign=-1 if compared.sign == ">=" else 1,
        offset=np.zeros(len(bound)), subject=subject, where=where,
    )  # fmt: skip


def _member(parts: Parts, number: int | None) -> tuple[Parts, int]:
    return (parts, 0) if number is None else parts.member(number)


@dataclass(frozen=True, eq=False, repr=False)
class TrustedLinks(Constraint):
    """The given links of a word hold with a probability of at least ``at_least`` together, in either direction.

    given : (n,) links, increasing; or a sequence per instance of (source word, target word), counted in its pair
    """

    given: Any
    at_least: float

    def code(self) -> str:
        return f"trusted(links=..., at_least={self.at_least:g})"

    def statement(self) -> str:
        return f"for every word with given links the probability that one of them holds is at least {self.at_least:g}"

    def blocks(self, context: Context) -> Sequence[LinkRows]:
        chosen = self._links(context)
        return [
            LinkRows(0, ((member, -1.0),), unit, -self.at_least, False, self.strength, chosen)
            for member, unit in ((0, Unit.TARGET), (1, Unit.SOURCE))
        ]

    def _links(self, context: Context) -> IntArray:
        parts, _ = context.parts.member(0)
        if isinstance(self.given, np.ndarray):
            return np.unique(self.given.astype(np.int64))
        rows = enumerate(context.given_here(self.given, "links", "pairs"))
        return np.unique(np.array([parts.link_within(n, i, j) for n, row in rows for i, j in row], np.int64))
