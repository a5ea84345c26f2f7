"""Boolean rules at one token: conditions on the observed token, its label and the label before it.

A rule is a boolean function r_t(y_{t−1}, y_t) at every slot t. Its atoms are

    observed      word.isin(...), position.first, ...                    see :mod:`condition`
    labels        label("A", "B"): y_t ∈ {A, B};  previous("A"): y_{t−1} = A, false at a first slot;
                  changed: y_{t−1} ≠ y_t, false at a first slot          see :mod:`labels`
    farther back  earlier("A"): some y_u = A, u < t; not in counts       see :mod:`earlier`

and it is built of them with ``&``, ``|``, ``~`` and ``implies``. On its own a rule is a constraint: it holds at every
token, so the parts that violate it are not used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from trellis.constraints.context import Context
from trellis.constraints.strength import Strength
from trellis.data.ragged import BoolArray, IntArray
from trellis.errors import ConstraintError

if TYPE_CHECKING:
    from trellis.constraints.comparison import Comparison
    from trellis.constraints.earlier import Earlier
    from trellis.constraints.entries import RuleEntries


@dataclass(frozen=True)
class Patterns:
    """The distinct ways in which slots look to a rule: P of them.

    value : leaf -> (P,) its code in each pattern
    is_first : (P,) whether slots of the pattern are the first of their instance
    again : for boundaries between two fields of one label, which only some structures have
    sizes, axes : where slots are variables: labels of the variables that a rule sees; role -> its axis, and the names
        of its labels
    """

    context: Context
    value: Mapping[int, IntArray]
    is_first: BoolArray
    again: bool = field(default=False, kw_only=True)
    sizes: tuple[int, ...] = field(default=(), kw_only=True)
    axes: Mapping[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict, kw_only=True)

    def of(self, leaf: Rule) -> IntArray:
        return self.value[id(leaf)]


class Rule(ABC):
    """A boolean function of (y_{t−1}, y_t) at every slot."""

    @property
    @abstractmethod
    def observed(self) -> bool:
        """Whether it speaks of what is observed alone, and of no label."""

    @property
    def uses_previous(self) -> bool:
        """Whether it speaks of the label before."""
        return False

    @abstractmethod
    def leaves(self) -> Iterator[Rule]:
        """The largest sub-rules that are observed, and atoms that are looked up by a code a slot."""

    def codes(self, context: Context) -> IntArray:
        """(n_slots,): what a leaf sees at each slot; of an observed rule 0 or 1."""
        return self.holds(context).astype(np.int64)

    def holds(self, context: Context) -> BoolArray:
        """(n_slots,): where an observed rule holds."""
        raise ConstraintError(f"{self.code()} depends on labels: only conditions on observations are allowed here")

    @abstractmethod
    def table(self, patterns: Patterns) -> BoolArray:
        """(P or 1, K or 1, K or 1): whether it holds for each pattern, label before, and label."""

    def entries(self, context: Context) -> RuleEntries | None:
        """Its linear form where it speaks of other parts than labels."""
        return None

    def earlier(self) -> Iterator[Earlier]:
        """Conditions on labels farther back than the previous one."""
        return iter(())

    def decided(self, value: bool) -> Rule:
        """The rule where all of these conditions hold, or none."""
        return self

    @abstractmethod
    def code(self) -> str:
        """The rule as one would write it."""

    @abstractmethod
    def english(self, *, negated: bool = False) -> str:
        """The rule as a clause, "the label is VERB"."""

    def everywhere(self) -> str:
        """Where a rule that always holds does so."""
        return "at every token"

    def __repr__(self) -> str:
        return self.code()

    def __and__(self, other: Any) -> Rule:
        return And(self, as_rule(other, self, "&"))

    def __or__(self, other: Any) -> Rule:
        return Or(self, as_rule(other, self, "|"))

    def __invert__(self) -> Rule:
        return Not(self)

    def implies(self, other: Any) -> Rule:
        """Wherever this holds, ``other`` holds too."""
        return Implies(self, as_rule(other, self, "implies"))

    def __bool__(self) -> NoReturn:
        raise ConstraintError(
            f"{self.code()} has no truth value before labels are known: write & | ~ in place of and, or, not, "
            "and .between(low, high) in place of low <= x <= high"
        )

    def constraint(self) -> Comparison:
        """The constraint that it holds at every token."""
        from trellis.constraints.comparison import holds_everywhere

        return holds_everywhere(self)

    def named(self, name: str) -> Comparison:
        return self.constraint().named(name)

    def with_strength(self, strength: Strength) -> Comparison:
        return self.constraint().with_strength(strength)

    def hard(self) -> Comparison:
        return self.constraint().hard()

    def slack(self, amount: float, norm: str = "linf") -> Comparison:
        return self.constraint().slack(amount, norm)

    def penalty(self, amount: float, norm: str = "l1") -> Comparison:
        return self.constraint().penalty(amount, norm)

    def learned(self) -> Comparison:
        return self.constraint().learned()

    def describe(self) -> str:
        return self.constraint().describe()

    def __le__(self, other: Any) -> Comparison:
        """The probability that it holds, bounded at every token."""
        from trellis.constraints.count import count

        return count(where=self).per("token").__le__(other)

    def __ge__(self, other: Any) -> Comparison:
        from trellis.constraints.count import count

        return count(where=self).per("token").__ge__(other)


def as_rule(value: Any, beside: Rule, operator: str) -> Rule:
    """``value`` as an operand of a token rule."""
    if isinstance(value, Rule):
        return value
    from trellis.constraints.constraint import Constraint
    from trellis.constraints.linear_count import Count

    if isinstance(value, Constraint | Count):
        raise ConstraintError(
            f"{beside!r} is about one token, {value!r} about a whole sentence or more: they cannot be combined with "
            f"{operator}; write two constraints, or combine conditions on sentences, as in exists(A).implies(exists(B))"
        )
    raise ConstraintError(
        f"the right side of {operator} after {beside!r} must be a rule such as label('A') or a condition such as "
        f"word.isin('a', 'b'), got {value!r}"
    )


class Observed(Rule):
    """A rule about what is observed."""

    @property
    def observed(self) -> bool:
        return True

    def leaves(self) -> Iterator[Rule]:
        yield self

    @abstractmethod
    def holds(self, context: Context) -> BoolArray:
        """(n_slots,): where it holds."""

    def table(self, patterns: Patterns) -> BoolArray:
        return np.asarray(patterns.of(self) != 0)[:, None, None]


class Unobserved(Rule):
    """An atom about outputs, and not about what is observed; a leaf where it is looked up by a code a slot."""

    is_leaf = False

    @property
    def observed(self) -> bool:
        return False

    def leaves(self) -> Iterator[Rule]:
        if self.is_leaf:
            yield self


class Always(Observed):
    """Holds at every token."""

    def holds(self, context: Context) -> BoolArray:
        return np.ones(context.n_slots, dtype=np.bool_)

    def leaves(self) -> Iterator[Rule]:
        return iter(())

    def table(self, patterns: Patterns) -> BoolArray:
        return np.ones((1, 1, 1), dtype=np.bool_)

    def code(self) -> str:
        return "always"

    def english(self, *, negated: bool = False) -> str:
        return "there is no token" if negated else "there is a token"


class _Compound(Rule):
    """A rule made of others."""

    def __init__(self, *parts: Rule) -> None:
        self.parts = parts

    @property
    def observed(self) -> bool:
        return all(part.observed for part in self.parts)

    @property
    def uses_previous(self) -> bool:
        return any(part.uses_previous for part in self.parts)

    def everywhere(self) -> str:
        """Said by the part that speaks of anything else than tokens."""
        plain = super().everywhere()
        return next((where for part in self.parts if (where := part.everywhere()) != plain), plain)

    def leaves(self) -> Iterator[Rule]:
        if self.observed:
            yield self
        else:
            for part in self.parts:
                yield from part.leaves()

    def holds(self, context: Context) -> BoolArray:
        for part in self.parts:
            if not part.observed:
                part.holds(context)  # refuses, and points at the part
        return self.combine([part.holds(context) for part in self.parts])

    def earlier(self) -> Iterator[Earlier]:
        for part in self.parts:
            yield from part.earlier()

    def decided(self, value: bool) -> Rule:
        return type(self)(*(part.decided(value) for part in self.parts))

    def table(self, patterns: Patterns) -> BoolArray:
        if self.observed:
            return np.asarray(patterns.of(self) != 0)[:, None, None]
        return self.combine([part.table(patterns) for part in self.parts])

    @abstractmethod
    def combine(self, values: list[BoolArray]) -> BoolArray:
        """The rule's value from those of its parts."""


class And(_Compound):
    """Both hold."""

    def combine(self, values: list[BoolArray]) -> BoolArray:
        return values[0] & values[1]

    def code(self) -> str:
        return " & ".join(_wrap(part) for part in self.parts)

    def english(self, *, negated: bool = False) -> str:
        return (" or " if negated else " and ").join(_clause(part, negated) for part in self.parts)


class Or(_Compound):
    """At least one holds."""

    def combine(self, values: list[BoolArray]) -> BoolArray:
        return values[0] | values[1]

    def code(self) -> str:
        return " | ".join(_wrap(part) for part in self.parts)

    def english(self, *, negated: bool = False) -> str:
        return (" and " if negated else " or ").join(_clause(part, negated) for part in self.parts)


class Not(_Compound):
    """Does not hold."""

    def combine(self, values: list[BoolArray]) -> BoolArray:
        return ~values[0]

    def code(self) -> str:
        return "~" + _wrap(self.parts[0])

    def english(self, *, negated: bool = False) -> str:
        return self.parts[0].english(negated=not negated)


class Implies(_Compound):
    """The first holds only where the second does."""

    def combine(self, values: list[BoolArray]) -> BoolArray:
        return ~values[0] | values[1]

    def code(self) -> str:
        return f"{_wrap(self.parts[0])}.implies({self.parts[1].code()})"

    def english(self, *, negated: bool = False) -> str:
        if negated:
            return f"{self.parts[0].english()} and yet {self.parts[1].english(negated=True)}"
        return f"if {self.parts[0].english()} then {self.parts[1].english()}"


def _wrap(rule: Rule) -> str:
    return f"({rule.code()})" if isinstance(rule, And | Or) else rule.code()


def _clause(rule: Rule, negated: bool) -> str:
    """A part of a longer clause, in brackets where it would read wrongly without."""
    text = rule.english(negated=negated)
    inner: Rule = rule
    while isinstance(inner, Not):
        inner = inner.parts[0]
    return f"({text})" if isinstance(inner, And | Or | Implies) else text
