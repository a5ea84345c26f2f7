"""Penalties of violations: the objective of constrained decoding.

    value(y) = score(y) − Σ_g price_g(e_g(y)),      e_r(y) = (φ_r(y) − b_r)⁺,  or |φ_r(y) − b_r| for an equality

(Chang 2011, eq. 3.2, with d_Ψ = e; Σ_g over norm groups, see :mod:`trellis.constraints.strength`)

    strength             price of a group with excess vector e
    hard                 0 if e = 0, else ∞
    slack ε, norm        0 if ‖e‖ ≤ ε, else ∞
    penalty σ, norm      σ ‖e‖
    squared σ            (σ/2) ‖e‖₂²

Every price is non-decreasing in each e_r: that is what makes a bound on the excess of a prefix a bound on the price of
all its completions (Chang 2011, theorem 1). Groups whose price is a sum over rows are taken apart into single rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import COUPLING, Groups, Rows, check_same_parts
from trellis.constraints.strength import Kind, Norm
from trellis.constraints.violations import TOLERANCE, price
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import ConstraintError
from trellis.structures.structure import Structure


class Pricing(IntEnum):
    """How a row is priced: the first three alone, the others together with the rest of their group."""

    LINEAR = 0
    HARD = 1
    SQUARED = 2
    L2 = 3
    LINF = 4
    WITHIN_L1 = 5
    WITHIN_L2 = 6


FIRST_JOINT = Pricing.L2


@dataclass(frozen=True)
class Priced:
    """Local rows and the price of each.

    rows : local rows, those of an instance together, and in it those of a group; those that cost nothing are left out,
        and norms of single rows are L1 (penalties) or L∞ (slacks)
    pricing : (n_rows,) Pricing
    amount : (n_rows,) ρ of LINEAR, the excess that HARD allows, σ of SQUARED, L2, LINF, and ε of WITHIN
    tolerance : (n_rows,) by how much more a hard row, or a bounded norm, may be exceeded and yet count as met
    """

    rows: Rows
    pricing: NDArray[np.int8]
    amount: FloatArray
    tolerance: FloatArray

    @classmethod
    def of(cls, rows: Rows) -> Priced:
        _refuse_what_has_no_price(rows)
        rows = _plainest_norms(rows.canonical())
        groups = rows.groups
        kind, norm, amount = groups.kind[rows.group], groups.norm[rows.group], groups.amount[rows.group]
        is_slack = kind == Kind.SLACK
        pricing = np.select(
            [
                kind == Kind.SQUARED,
                (kind == Kind.PENALTY) & (norm == Norm.L1),
                (kind == Kind.PENALTY) & (norm == Norm.L2),
                kind == Kind.PENALTY,
                is_slack & (norm == Norm.L1),
                is_slack & (norm == Norm.L2),
            ],
            [Pricing.SQUARED, Pricing.LINEAR, Pricing.L2, Pricing.LINF, Pricing.WITHIN_L1, Pricing.WITHIN_L2],
            Pricing.HARD,
        ).astype(np.int8)
        free = (amount == 0) & ((kind == Kind.PENALTY) | (kind == Kind.SQUARED))
        tolerance = TOLERANCE * (1.0 + amount)
        return cls(rows, pricing, amount, tolerance).select(~free)

    def select(self, keep: BoolArray) -> Priced:
        if np.all(keep):
            return self
        return Priced(self.rows.select(keep), self.pricing[keep], self.amount[keep], self.tolerance[keep])

    def terms(self) -> IntArray:
        """(n_rows,): numbers, increasing by one, of what is priced by itself: a row, or a group priced together."""
        new = np.ones(len(self.rows), dtype=np.bool_)
        new[1:] = (self.pricing[1:] < FIRST_JOINT) | (self.rows.group[1:] != self.rows.group[:-1])
        return np.cumsum(new) - 1


def _plainest_norms(rows: Rows) -> Rows:
    """The same prices with groups that need no norm: all norms of one number are alike, and a slack of 0 is none."""
    groups = rows.groups
    alone = np.bincount(rows.group, minlength=len(groups)) == 1
    none = (groups.kind == Kind.SLACK) & (groups.amount == 0)
    kind = np.where(none, Kind.HARD, groups.kind).astype(np.int8)
    norm = np.where(alone & (kind == Kind.PENALTY), Norm.L1, groups.norm)
    norm = np.where(none | (alone & (kind == Kind.SLACK)), Norm.LINF, norm).astype(np.int8)
    return replace(rows, groups=Groups(kind, norm, groups.amount))


def prices(rows: Rows, outputs: Any) -> FloatArray:
    """(n_instances,): what the outputs violate costs; local rows only."""
    of_group = np.zeros(len(rows.groups), dtype=np.int64)
    of_group[rows.group] = rows.instance
    cost = price(rows, rows.excess(rows.evaluate(outputs)))
    total = np.bincount(of_group, cost, minlength=rows.parts.n_instances).astype(np.float64, copy=False)
    for one in rows.checks:
        total = total + one.prices(outputs)
    return total


def penalised_value(scores: Structure, rows: Rows, outputs: Any) -> FloatArray:
    """value(y) = score(y) − price of what y violates, of each instance; −∞ for what is forbidden or breaks a hard row.

    >>> from trellis.structures import Categorical
    >>> scores = Categorical(np.log([[0.75, 0.25]]))
    >>> penalised_value(scores, Rows.none(scores.parts), np.array([0])).round(3).tolist()
    [-0.288]
    """
    rows = rows.written_out()
    check_same_parts(scores, rows)
    _refuse_what_has_no_price(rows)
    value = scores.score(outputs) - prices(rows, outputs)
    used = scores.parts.of(outputs)
    value[scores.parts.instance_of(used[rows.forbidden.contains(used)])] = -np.inf
    return value


def _refuse_what_has_no_price(rows: Rows) -> None:
    """Only what concerns single instances, and has its price, can be decoded."""
    coupling = np.flatnonzero(rows.instance == COUPLING)
    if len(coupling) or rows.sparsity:
        name = rows.names[int(rows.constraint[coupling[0]])] if len(coupling) else rows.sparsity[0].name
        raise ConstraintError(
            f"constraint {name!r} spans several instances, but outputs are searched one instance at a time. Give it "
            "the scope of an instance, leave it out (rows.local()), or project onto it instead"
        )
    diverging = np.flatnonzero(rows.groups.kind[rows.group] == Kind.KL)
    if len(diverging):
        name = rows.names[int(rows.constraint[diverging[0]])]
        raise ConstraintError(
            f"constraint {name!r} has a KL penalty, which is for expected counts, but outputs are searched one "
            "instance at a time: give it a penalty of another norm, or project onto it instead"
        )
    unpriced = np.flatnonzero(rows.groups.kind[rows.group] == Kind.LEARNED)
    if len(unpriced):
        name = rows.names[int(rows.constraint[unpriced[0]])]
        raise ConstraintError(
            f"the penalty of constraint {name!r} has not been learned from labelled data yet: learn it first, or set "
            "penalty(σ)"
        )
