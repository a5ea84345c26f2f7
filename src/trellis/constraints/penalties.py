"""Penalties of constraints learned from labelled data: how often gold outputs violate them.

    P(Ψ_k) = (broken_k + n p) / (places_k + n),   n = 20 s        (Chang 2011, eq. 3.10, algorithm 7; s: smoothing)
    ρ_k    = − log( P(Ψ_k) / (1 − P(Ψ_k)) ),   at least 0         (eq. 3.8)

A place is where the labels put the constraint to the test (:mod:`trellis.constraints.reduction`): a token at which the
condition of an implication holds, a sentence that must have a label, a token at which a forbidden transition could be.
The thesis counts every token as a place, whatever a constraint is about; then one that is broken at 15 of 15 places
among 300 tokens still costs log(285 / 15).

The prior is that a constraint is broken at one of 200 places, p = 1/200, and it counts as much as n places do, 10 at
s = 0.5. So a constraint that labels never test costs log 199 = 5.3, less than one that was tested and held. One that is
broken at half of its places or more costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.compilation import compile_constraints
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context
from trellis.constraints.each_label import FewLabels
from trellis.constraints.reduction import Outputs
from trellis.constraints.rows import Groups, Rows
from trellis.constraints.rule import Rule
from trellis.constraints.strength import Kind, Norm, Strength, learned, penalty
from trellis.data.batch import Batch
from trellis.data.ragged import BoolArray, FloatArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, DataError
from trellis.structures import Parts

PRIOR = 1.0 / 200.0
"""Share of its places at which a constraint is broken, before labels are seen."""
PRIOR_PLACES = 20.0
"""Places that the prior counts as, for a smoothing of 1."""
UNTESTED = float(np.log((1.0 - PRIOR) / PRIOR))
"""ρ of a constraint that the labels never test."""
INFINITE = 1e6
"""What ρ = ∞ is decoded with: no difference of log-probabilities outweighs it, so the output with the fewest violations
wins, and one without any where there is such. Unlike a hard row it leaves every instance an output."""


@dataclass(frozen=True)
class LearnedPenalty:
    """What labels say of a constraint whose penalty is learned.

    places : how often they test it;  broken : how often they break it there;  penalty : ρ
    """

    name: str
    places: float
    broken: float
    penalty: float

    @property
    def untested(self) -> bool:
        """Whether the labels say nothing about it."""
        return self.places == 0

    @property
    def contradicted(self) -> bool:
        """Whether the labels break it at half of the places or more, so that it costs nothing."""
        return self.places > 0 and 2.0 * self.broken >= self.places


@dataclass(frozen=True)
class Violations:
    """How often outputs of a corpus violate each constraint.

    names : of the constraints
    excess : (n_constraints,) d_k summed over instances
    rows : (n_constraints,) places where the constraint can be violated
    n_slots : Σ_j T_j
    """

    names: tuple[str, ...]
    excess: FloatArray
    rows: FloatArray
    n_slots: float

    def __add__(self, other: Violations) -> Violations:
        return Violations(self.names, self.excess + other.excess, self.rows + other.rows, self.n_slots + other.n_slots)


def no_violations(names: tuple[str, ...]) -> Violations:
    """Those of no instance at all."""
    return Violations(names, np.zeros(len(names)), np.zeros(len(names)), 0.0)


def count_violations(rows: Rows, batch: Batch) -> Violations:
    """Violations by the labels of a batch, all of which must be known; instances count as often as they weigh."""
    n = len(rows.names)
    over = rows.excess(rows.evaluate(batch.labels)) if len(rows) else np.zeros(0)
    weight = batch.weights[rows.instance] if len(rows) else np.zeros(0)
    excess = np.bincount(rows.constraint, over * weight, minlength=n).astype(np.float64)
    places = np.bincount(rows.constraint, weight, minlength=n).astype(np.float64)
    for one in rows.checks:
        excess[one.constraint] += batch.weights @ one.violations(batch.labels)
        places[one.constraint] += batch.weights @ batch.lengths
    return Violations(rows.names, excess, places, float(batch.weights @ batch.lengths))


def excess_by_name(rows: Rows, batch: Batch) -> dict[str, float]:
    """Excess of the labels of a batch over each constraint: per token; of constraints over the corpus, the whole."""
    inside, coupling = count_violations(replace(rows.local(), sparsity=()), batch), rows.coupling()
    over = coupling.excess(coupling.weighted(batch.weights).evaluate(batch.labels))
    in_all = np.bincount(coupling.constraint, over, minlength=len(rows.names))
    return dict(zip(rows.names, (inside.excess / max(inside.n_slots, 1.0) + in_all).tolist(), strict=True))


def soft_rows(constraints: Sequence[Constraint | Rule], batch: Batch, labels: Vocabulary, parts: Parts) -> Rows:
    """Rows inside the instances of a batch as if all of them could be violated: none becomes forbidden parts."""
    return _inside(loosened(constraints, batch, labels, parts))


def loosened(constraints: Sequence[Constraint | Rule], batch: Batch, labels: Vocabulary, parts: Parts) -> Rows:
    """Rows of all constraints as if each could be violated: none becomes forbidden parts."""
    loose = [as_constraint(c) for c in constraints]
    loose = [c if isinstance(c, FewLabels) else c.with_strength(learned()) for c in loose]
    return compile_constraints(loose, batch, labels, parts)


def _inside(rows: Rows) -> Rows:
    return replace(rows.local().canonical(), sparsity=())


def penalty_of(places: FloatArray, broken: FloatArray, smoothing: float = 0.5) -> FloatArray:
    """ρ of constraints that were tested at so many places, and broken at so many of them; arrays (n,).

    >>> penalty_of(np.array([15.0, 15.0, 15.0, 0.0]), np.array([0.0, 1.0, 15.0, 0.0])).round(2).tolist()
    [6.21, 3.12, 0.0, 5.29]
    """
    if not (smoothing >= 0 and np.isfinite(smoothing)):
        raise DataError(f"smoothing of penalties must be 0 or more, got {smoothing}")
    n = PRIOR_PLACES * smoothing
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.minimum((broken + n * PRIOR) / (places + n), 0.5)
        rho = np.where(2.0 * broken >= places, 0.0, np.log1p(-share) - np.log(share))
        return np.asarray(np.where(places > 0, rho, UNTESTED))


def count_tests(
    constraints: Sequence[Constraint | Rule], batch: Batch, labels: Vocabulary, parts: Parts
) -> tuple[FloatArray, FloatArray]:
    """Places and broken ones of each constraint (n_constraints,), by the labels of a batch, all of which are known.

    Constraints with a strength of their own, and rows over several instances, are left out.
    """
    if not np.any(is_learned(constraints)) or not len(batch):
        return np.zeros(len(constraints)), np.zeros(len(constraints))
    outputs = Outputs(Context(batch, labels, parts), parts.of(batch.labels))
    found = [
        one.tested(outputs).sums(batch.weights) if one.strength.kind == Kind.LEARNED else (0.0, 0.0)
        for one in map(as_constraint, constraints)
    ]
    places, broken = np.array(found).T
    return places, broken


def learn_penalties(
    constraints: Sequence[Constraint | Rule],
    labelled: Batch,
    labels: Vocabulary,
    parts: Parts,
    *,
    hard: bool = False,
    smoothing: float = 0.5,
) -> list[LearnedPenalty]:
    """What labelled instances say of each constraint of strength "learned".

    hard : ρ = ∞ for all of them
    """
    to_learn = is_learned(constraints)
    if not np.any(to_learn):
        return []
    rows = loosened(constraints, labelled, labels, parts)
    tying = rows.coupling().constraint
    for number in tying[to_learn[tying]][:1].tolist():
        raise ConstraintError(
            f"the penalty of {rows.names[number]!r} cannot be learned, since it is about the whole corpus and not "
            "about single instances: set a penalty or slack, or make it hard"
        )
    if len(labelled) == 0 and not hard:
        names = [repr(name) for name, learn in zip(rows.names, to_learn, strict=True) if learn]
        more = "" if len(names) <= 3 else f" and {len(names) - 3} more"
        raise DataError(
            f"no labelled text: the {'penalty' if len(names) == 1 else 'penalties'} of {', '.join(names[:3])}{more} "
            "cannot be learned. Label some texts, set penalty = in the rules, or use hard=True (--hard)"
        )
    places, broken = count_tests(constraints, labelled, labels, parts)
    rho = np.full(len(places), INFINITE) if hard else penalty_of(places, broken, smoothing)
    return [
        LearnedPenalty(rows.names[i], float(places[i]), float(broken[i]), float(rho[i]))
        for i in np.flatnonzero(to_learn).tolist()
    ]


def check_constraints(given: Any) -> None:
    """Refuse what is no list of constraints with a word about the right kind."""
    if isinstance(given, Constraint | Rule):
        raise DataError("constraints must be a list of constraints: put the single one in brackets, [...]")
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DataError(f"constraints must be a list of constraints, got {type(given).__name__}")
    for one in given:
        if not isinstance(one, Constraint | Rule):
            raise DataError(f"constraints must be a list of constraints, but has {one!r} among them")


def as_constraint(item: Constraint | Rule) -> Constraint:
    """A rule is the constraint that it holds at every token."""
    return item if isinstance(item, Constraint) else item.constraint()


def is_learned(constraints: Sequence[Constraint | Rule]) -> BoolArray:
    """(n_constraints,): whose penalty is to be learned."""
    return np.array([as_constraint(c).strength.kind == Kind.LEARNED for c in constraints], dtype=np.bool_)


def with_penalties(constraints: Sequence[Constraint | Rule], rho: FloatArray) -> list[Constraint]:
    """The constraints, those of strength "learned" with their ρ (n_constraints,) as an L1 penalty."""
    return [
        c.with_strength(Strength(Kind.PENALTY, Norm.L1, float(min(r, INFINITE))))
        if c.strength.kind == Kind.LEARNED
        else c
        for c, r in zip(map(as_constraint, constraints), rho, strict=True)
    ]


def priced(rows: Rows, rho: FloatArray) -> Rows:
    """The same rows with ρ (n_constraints,) as the L1 penalty of every group whose strength is "learned"."""
    of_group = np.zeros(len(rows.groups), dtype=np.int64)
    of_group[rows.group] = rows.constraint
    to_learn = rows.groups.kind == Kind.LEARNED
    groups = Groups(
        np.where(to_learn, np.int8(Kind.PENALTY), rows.groups.kind).astype(np.int8),
        np.where(to_learn, np.int8(Norm.L1), rows.groups.norm).astype(np.int8),
        np.where(to_learn, np.minimum(rho, INFINITE)[of_group], rows.groups.amount),
    )
    checks = tuple(
        replace(one, strength=penalty(min(float(rho[one.constraint]), INFINITE)))
        if one.strength.kind == Kind.LEARNED
        else one
        for one in rows.checks
    )
    return replace(rows, groups=groups, checks=checks)


def check_penalties(found: Mapping[str, Any], constraints: Sequence[Constraint]) -> dict[str, float]:
    """The ρ of a file, if there is one of each constraint; they are numbers from 0 on."""
    wanted = [one.name for one in constraints]
    fine = all(isinstance(rho, int | float) and not isinstance(rho, bool) and rho >= 0 for rho in found.values())
    if sorted(found) != sorted(wanted) or not fine:
        raise DataError(f"expected a non-negative penalty for each of {wanted} but found {dict(found)}")
    return {name: float(rho) for name, rho in found.items()}
