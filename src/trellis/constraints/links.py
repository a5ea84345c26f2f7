"""Constraints on links between words, in expectation under the alignments of one direction or of two.

    forward.links == backward.links            both directions link the same words       (Ganchev et al. 2010, sec. 5.3)
    forward.links(source=each) <= 1            a source word has at most one link        (sec. 5.2)
    links(target=each) >= 0.5                  the same of an alignment by itself
    forward.links().per("corpus") <= 900       links counted in every pair, or over the corpus
    trusted(links=..., at_least=0.9)           given links hold: see :mod:`given`

``forward`` and ``backward`` are the first and the second member of a joint structure: p(target | source), in which
target words choose, and p(source | target).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from trellis.constraints.amounts import is_number, number
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowBlock
from trellis.constraints.implicit import LinkRows, Unit
from trellis.constraints.rows import COUPLING
from trellis.constraints.strength import penalty, slack
from trellis.data.ragged import IntArray
from trellis.errors import ConstraintError


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
    """

    member: int | None
    scope: Unit | str = Unit.LINK

    def __call__(self, *, source: Any = None, target: Any = None) -> LinkCount:
        """Links of each source word, of each target word, or without either of the whole sentence pair."""
        for side in (source, target):
            if side is not None and not isinstance(side, Each):
                raise ConstraintError(
                    f"links are counted for each word: write source=each or target=each, not {side!r}"
                )
        if source is not None and target is not None:
            return replace(self, scope=Unit.LINK)
        if source is None and target is None:
            return replace(self, scope="instance")
        return replace(self, scope=Unit.SOURCE if source is not None else Unit.TARGET)

    def per(self, scope: str) -> LinkCount:
        """All links of every "instance", or of the "corpus"."""
        if scope not in ("instance", "corpus"):
            raise ConstraintError(f"links are counted per 'instance' or 'corpus', not per {scope!r}")
        return replace(self, scope=scope)

    def code(self) -> str:
        name = _SIDES[self.member]
        if self.scope == Unit.LINK:
            return name
        if isinstance(self.scope, Unit):
            return f"{name}({'source' if self.scope == Unit.SOURCE else 'target'}=each)"
        return f"{name}()" if self.scope == "instance" else f"{name}().per('corpus')"

    def english(self) -> str:
        what = "the probability of a link" if self.scope == Unit.LINK else "the expected number of links"
        return what if self.member is None else f"{what} in the {('forward', 'backward')[self.member]} direction"

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
        terms: tuple[tuple[int | None, float], ...] = ((self.left.member, factor),)
        bound = 0.0
        if isinstance(self.right, LinkCount):
            terms += ((self.right.member, -factor),)
        else:
            bound = factor * self.right
        if isinstance(self.left.scope, Unit):
            rows = LinkRows(0, terms, self.left.scope, bound, self.sign == "==", self.strength)
            rows.written(context.parts.shard(0, 0))  # parts without links refuse now
            return [rows]
        return [self._counted(context, terms, bound)]

    def _counted(self, context: Context, terms: tuple[tuple[int | None, float], ...], bound: float) -> RowBlock:
        part, value = [], []
        for member, sign in terms:
            parts, first = (context.parts, 0) if member is None else context.parts.member(member)
            found = first + np.arange(len(parts.linked_words()[0]), dtype=np.int64)
            part.append(found)
            value.append(np.full(len(found), sign))
        every, coefficient = np.concatenate(part), np.concatenate(value)
        n, corpus = len(context.batch), self.left.scope == "corpus"
        row = np.zeros(len(every), np.int64) if corpus else context.parts.instance_of(every)
        order = np.lexsort((every, row))
        sign = -1 if self.sign == ">=" else 1
        return RowBlock(
            row=row[order],
            part=every[order],
            coefficient=coefficient[order],
            bound=np.full(1 if corpus else n, bound),
            equality=self.sign == "==",
            instance=np.full(1, COUPLING) if corpus else np.arange(n, dtype=np.int64),
            sign=sign,
            offset=np.zeros(1 if corpus else n),
            subject=self.left.english(),
            where=lambda r: "the corpus" if corpus else f"instance {context.batch.first + r}",
        )


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


_COUNT = r"(?:(forward|backward)\.)?links(\((?:source=each|target=each)?\)|\(\)\.per\('corpus'\))?"
_COMPARED = re.compile(rf"{_COUNT} (<=|>=|==) (?:{_COUNT}|(-?\d[\d.e+-]*))")
_WITH_STRENGTH = re.compile(r"\((.*)\)\.(slack|penalty)\((\d[\d.e+-]*)(?:, '(l1|l2|linf|squared)')?\)")


def read_links(code: str) -> LinkComparison:
    """The constraint on links that is written so, as files of models hold it; the inverse of ``repr``.

    >>> read_links("(forward.links(source=each) <= 1).penalty(2.5)")
    (forward.links(source=each) <= 1).penalty(2.5)
    """
    strong = _WITH_STRENGTH.fullmatch(code)
    found = _COMPARED.fullmatch(strong[1] if strong else code)
    if found is None:
        raise ConstraintError(
            f"{code!r:.100} is not a constraint on links: write, for example, 'forward.links == backward.links' or "
            "'(forward.links(source=each) <= 1).penalty(2)'"
        )
    left, right = _count(found[1], found[2]), _count(found[4], found[5])
    compared = {"<=": left.__le__, ">=": left.__ge__, "==": left.__eq__}[found[3]]
    constraint = compared(right if found[6] is None else _number(found[6]))
    if strong is None:
        return constraint
    made = {"slack": slack, "penalty": penalty}[strong[2]]
    return constraint.with_strength(made(_number(strong[3]), *filter(None, [strong[4]])))


def _count(side: str | None, scope: str | None) -> LinkCount:
    member = None if side is None else ("forward", "backward").index(side)
    scopes: dict[str | None, Unit | str] = {
        None: Unit.LINK,
        "(source=each)": Unit.SOURCE,
        "(target=each)": Unit.TARGET,
        "()": "instance",
    }
    return LinkCount(member, scopes.get(scope, "corpus"))


def _number(written: str) -> float:
    try:
        return float(written)
    except ValueError:
        raise ConstraintError(f"{written!r:.40} is not a number") from None
