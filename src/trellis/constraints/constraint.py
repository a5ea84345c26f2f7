"""Base class of constraints: a name, a strength, a description in words, and rows to compile to."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self

from trellis.constraints.amounts import is_text
from trellis.constraints.context import Context, RowBlock, RowsOrImplicit
from trellis.constraints.reduction import Outputs, TestedPlaces, joined
from trellis.constraints.strength import Strength, hard, learned, penalty, slack
from trellis.data.display import table_html
from trellis.errors import ConstraintError


def is_call(code: str) -> bool:
    """Whether a method may follow an expression without brackets around it.

    >>> is_call("exists('A').implies(exists('B'))"), is_call("count('A') >= 1")
    (True, False)
    """
    try:
        return isinstance(ast.parse(code, mode="eval").body, ast.Call)
    except SyntaxError:
        return False


@dataclass(frozen=True)
class RuleOrigin:
    """Where in a rules file a constraint was written."""

    path: str
    line: int


@dataclass(frozen=True, eq=False, repr=False)
class Constraint(ABC):
    """Something known about outputs, hard unless another strength is given."""

    given_name: str | None = field(default=None, kw_only=True)
    strength: Strength = field(default_factory=hard, kw_only=True)
    origin: RuleOrigin | None = field(default=None, kw_only=True)

    @property
    def name(self) -> str:
        """Its given name, or the expression itself."""
        return self.code() if self.given_name is None else self.given_name

    def named(self, name: str) -> Self:
        if not is_text(name):
            raise ConstraintError(f"the name of a constraint must be a non-empty string, got {name!r}")
        return replace(self, given_name=name)

    def with_strength(self, strength: Strength) -> Self:
        if not isinstance(strength, Strength):
            raise ConstraintError(
                f"a strength is hard(), slack(ε), penalty(σ) or learned(), got {strength!r} for {self.name!r}"
            )
        return replace(self, strength=strength)

    def hard(self) -> Self:
        """Holds exactly; this is so unless another strength is given."""
        return self.with_strength(hard())

    def slack(self, amount: float, norm: str = "linf") -> Self:
        """Holds up to a violation whose norm is at most ``amount``."""
        return self.with_strength(slack(amount, norm))

    def penalty(self, amount: float, norm: str = "l1") -> Self:
        """May be violated, at ``amount`` times the norm ("l1", "l2", "linf", or "squared") of the violation.

        Norm "kl" takes the KL divergence of an expected count from the number that it should be equal to.
        """
        return self.with_strength(penalty(amount, norm))

    def learned(self) -> Self:
        """May be violated, at a price that a learner sets from labelled data."""
        return self.with_strength(learned())

    def describe(self) -> str:
        """What it says, in one English sentence."""
        text = self.statement()
        return f"{text[0].upper()}{text[1:]}, {self.strength.describe()}."

    @property
    def ties_instances(self) -> bool:
        """Whether its rows may be about several instances, so that those of some tell nothing of those of all."""
        return True

    @abstractmethod
    def statement(self) -> str:
        """The sentence without its strength and full stop."""

    @abstractmethod
    def code(self) -> str:
        """The expression as one would write it."""

    @abstractmethod
    def blocks(self, context: Context) -> Sequence[RowsOrImplicit]:
        """Its rows over the parts of a batch."""

    def tested(self, outputs: Outputs) -> TestedPlaces:
        """Where outputs put it to the test, and where they break it."""
        return joined([outputs.test(block) for block in self.blocks(outputs.context) if isinstance(block, RowBlock)])

    def __repr__(self) -> str:
        """The expression with its strength and its name, as one would write it."""
        code, strength = self.code(), self._strength_code()
        name = "" if self.given_name in (None, code) else f".named({self.given_name!r})"
        return (code if is_call(code) else f"({code})") + strength + name if strength or name else code

    def _repr_html_(self) -> str:
        return table_html(("constraint", "in words"), [(self.name, self.describe())])

    def _strength_code(self) -> str:
        """What follows the expression to give it its strength."""
        return self.strength.code()

    def __bool__(self) -> NoReturn:
        raise ConstraintError(
            f"{self.code()} has no truth value. A chain such as 0.1 <= share('VERB') <= 0.2 is not possible in Python: "
            "write share('VERB').between(0.1, 0.2). In place of 'and' list both constraints; 'or' and 'not' of "
            "statements are written | and ~"
        )

    def __and__(self, other: Any) -> Any:
        raise ConstraintError(
            f"list {self.code()} and {other!r} as two constraints: all constraints of a list must hold"
        )

    def __or__(self, other: Any) -> Any:
        raise ConstraintError(
            f"{self.code()} | {other!r} has no linear form; supported are exists(A) | exists(B), which is exists(A | "
            "B), and implications exists(A).implies(...)"
        )

    def __invert__(self) -> Any:
        raise ConstraintError(f"the negation of {self.code()} has no linear form; supported is ~exists(A)")

    def implies(self, other: Any) -> Any:
        raise ConstraintError(
            f"{self.code()} cannot be the condition of an implication; supported are exists(A) and ~exists(A)"
        )
