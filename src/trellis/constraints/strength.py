"""The strength of a constraint, and its effect on the dual variables.

For the rows of one norm group, with violations ξ (E_q[φ] − b ≤ ξ, or |E_q[φ] − b| ≤ ξ for an equality):

    strength        primal                  dual variables λ of the group             source
    hard            ξ = 0                   λ ≥ 0 (free for =)                        Ganchev et al. 2010, eq. 6, ε = 0
    slack ε         ‖ξ‖ ≤ ε                 as hard, and − ε ‖λ‖_* in the dual        eq. 6-8
    penalty σ       + σ ‖ξ‖                 as hard, and ‖λ‖_* ≤ σ                    eq. 5; Graça et al. 2009, eq. 6
    squared σ       + (σ/2) ‖ξ‖₂²           as hard, and − ‖λ‖₂² / (2σ) in the dual
    kl σ            + σ Σ D(b ‖ E)          λ < σ, and + Σ σ b log(1 − λ/σ) + b λ in the dual

where ‖·‖_* is the dual norm: L1 and L∞ are each other's, L2 is its own; E = E_q[φ], and D(b ‖ E) = b log(b / E) − b + E
is the divergence of an expected count from its target, summed over rows (Mann and McCallum 2010, for shares of labels).
Its dual term is − sup_E (λ E − σ D(b ‖ E)) + b λ, attained at E = b / (1 − λ/σ).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from numbers import Real

import numpy as np

from trellis.constraints.amounts import number
from trellis.errors import ConstraintError, did_you_mean


class Kind(IntEnum):
    """What the amount of a strength bounds or prices."""

    HARD = 0
    SLACK = 1
    PENALTY = 2
    SQUARED = 3
    LEARNED = 4
    KL = 5


class Norm(IntEnum):
    """The norm in which violations are measured."""

    L1 = 1
    L2 = 2
    LINF = 3


_NORMS = {"l1": Norm.L1, "l2": Norm.L2, "linf": Norm.LINF}


def norm_of(name: str) -> Norm:
    """The norm called "l1", "l2" or "linf"."""
    if not isinstance(name, str):
        raise ConstraintError(f"norm must be one of {', '.join(map(repr, _NORMS))}, got {name!r:.80}")
    if name.lower() not in _NORMS:
        raise ConstraintError(f"unknown norm {name!r}{did_you_mean(name, _NORMS)}")
    return _NORMS[name.lower()]


@dataclass(frozen=True)
class Strength:
    """One of hard, slack, penalty, squared penalty, or a penalty still to be learned from labelled data.

    >>> slack(0.5, "l2").describe()
    'up to a violation of 0.5 (L2)'
    """

    kind: Kind
    norm: Norm
    amount: float

    def __post_init__(self) -> None:
        if not (self.amount >= 0 and np.isfinite(self.amount)):
            raise ConstraintError(f"the amount of a strength must be finite and not negative, got {self.amount}")
        if self.kind in (Kind.SQUARED, Kind.KL) and self.amount == 0:
            name = "squared" if self.kind == Kind.SQUARED else "KL"
            raise ConstraintError(f"a {name} penalty of strength 0 has no effect: leave the constraint out")

    def code(self) -> str:
        """The method call that gives a constraint this strength; nothing for a hard one.

        >>> slack(0.5, "l2").code(), penalty(2).code(), penalty(1, "squared").code(), learned().code(), hard().code()
        (".slack(0.5, 'l2')", '.penalty(2)', ".penalty(1, 'squared')", '.learned()', '')
        """
        amount, norm = number(self.amount), next(name for name, norm in _NORMS.items() if norm == self.norm)
        return {
            Kind.HARD: "",
            Kind.SLACK: f".slack({amount})" if norm == "linf" else f".slack({amount}, {norm!r})",
            Kind.PENALTY: f".penalty({amount})" if norm == "l1" else f".penalty({amount}, {norm!r})",
            Kind.SQUARED: f".penalty({amount}, 'squared')",
            Kind.KL: f".penalty({amount}, 'kl')",
            Kind.LEARNED: ".learned()",
        }[self.kind]

    def describe(self) -> str:
        """The tail of a sentence about the constraint."""
        norm = {Norm.L1: "L1", Norm.L2: "L2", Norm.LINF: "L∞"}[self.norm]
        return {
            Kind.HARD: "as a hard constraint",
            Kind.SLACK: f"up to a violation of {self.amount:g} ({norm})",
            Kind.PENALTY: f"with a penalty of {self.amount:.4g} per unit of violation ({norm})",
            Kind.SQUARED: f"with a penalty of {self.amount / 2:g} times the squared violation",
            Kind.KL: f"with a penalty of {self.amount:g} times the KL divergence from the target",
            Kind.LEARNED: "with a penalty learned from labelled data",
        }[self.kind]


def hard() -> Strength:
    """Holds exactly."""
    return Strength(Kind.HARD, Norm.LINF, 0.0)


def slack(amount: float, norm: str = "linf") -> Strength:
    """Holds up to a violation whose norm is at most ``amount``."""
    return Strength(Kind.SLACK, norm_of(norm), _amount(amount))


def penalty(amount: float, norm: str = "l1") -> Strength:
    """May be violated, at ``amount`` times the norm of the violation; norm "squared" is amount/2 times ‖ξ‖₂².

    Norm "kl" is for equalities: ``amount`` times the KL divergence of the expected count from its target.
    """
    if str(norm).lower() == "squared":
        return Strength(Kind.SQUARED, Norm.L2, _amount(amount))
    if str(norm).lower() == "kl":
        return Strength(Kind.KL, Norm.L1, _amount(amount))
    return Strength(Kind.PENALTY, norm_of(norm), _amount(amount))


def _amount(amount: object) -> float:
    if not isinstance(amount, Real) or isinstance(amount, bool):
        raise ConstraintError(f"the amount of a slack or penalty must be a number, got {amount!r:.80}")
    return float(amount)


def learned() -> Strength:
    """May be violated, at a price per violation that a learner sets from labelled data."""
    return Strength(Kind.LEARNED, Norm.L1, 0.0)
