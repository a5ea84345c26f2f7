"""Penalties of constraints learned from labelled data: how often gold outputs violate them.

    P(Ψ_k) = (Σ_j d_k(x_j, y_j) + s) / (Σ_j T_j + 2 s)            (Chang 2011, eq. 3.10, algorithm 7; s: smoothing)
    ρ_k    = − log( P(Ψ_k) / (1 − P(Ψ_k)) ),   at least 0         (eq. 3.8)

d_k is the excess of the constraint's rows, T_j the number of tokens. A constraint that is never violated has with s = 0
an infinite penalty; s > 0 makes it large and finite, log((T + s) / s), and larger the more data says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.compilation import compile_constraints
from trellis.constraints.constraint import Constraint
from trellis.constraints.few_labels import FewLabels
from trellis.constraints.rows import Groups, Rows
from trellis.constraints.rule import Rule
from trellis.constraints.strength import Kind, Norm, Strength, learned
from trellis.data.batch import Batch
from trellis.data.ragged import BoolArray, FloatArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, DataError
from trellis.structures import Parts

INFINITE = 1e6
"""What ρ = ∞ is decoded with: no difference of log-probabilities outweighs it, so the output with the fewest violations
wins, and one without any where there is such. Unlike a hard row it leaves every instance an output."""


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

    def penalties(self, smoothing: float = 0.5) -> FloatArray:
        """(n_constraints,): ρ_k.

        >>> seen = Violations(("never", "once"), np.array([0.0, 1.0]), np.array([9.0, 9.0]), 99.0)
        >>> seen.penalties(0.5).round(3).tolist(), seen.penalties(0.0).round(3).tolist()
        ([5.293, 4.185], [inf, 4.585])
        """
        if not (smoothing >= 0 and np.isfinite(smoothing)):
            raise DataError(f"smoothing of penalties must be 0 or more, got {smoothing}")
        total = self.n_slots + 2.0 * smoothing
        if total <= 0:
            return np.zeros(len(self.names))
        share = np.minimum((self.excess + smoothing) / total, 0.5)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(-share) - np.log(share))


def no_violations(names: tuple[str, ...]) -> Violations:
    """Those of no instance at all."""
    return Violations(names, np.zeros(len(names)), np.zeros(len(names)), 0.0)


def count_violations(rows: Rows, batch: Batch) -> Violations:
    """Violations by the labels of a batch, all of which must be known; instances count as often as they weigh."""
    n = len(rows.names)
    over = rows.excess(rows.evaluate(batch.labels)) if len(rows) else np.zeros(0)
    weight = batch.weights[rows.instance] if len(rows) else np.zeros(0)
    return Violations(
        rows.names,
        np.bincount(rows.constraint, over * weight, minlength=n).astype(np.float64),
        np.bincount(rows.constraint, weight, minlength=n).astype(np.float64),
        float(batch.weights @ batch.lengths),
    )


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


def learn_penalties(
    constraints: Sequence[Constraint | Rule],
    labelled: Batch,
    labels: Vocabulary,
    parts: Parts,
    *,
    hard: bool = False,
    smoothing: float = 0.5,
) -> FloatArray:
    """ρ (n_constraints,) from labelled instances; 0 for constraints with a strength of their own.

    hard : ρ = ∞ for all that would be learned
    """
    to_learn = is_learned(constraints)
    if not np.any(to_learn):
        return np.zeros(len(constraints))
    rows = loosened(constraints, labelled, labels, parts)
    tying = rows.coupling().constraint
    for number in tying[to_learn[tying]][:1].tolist():
        raise ConstraintError(
            f"the price of {rows.names[number]!r} cannot be learned, since it is about the whole corpus and not about "
            "single instances: give it a penalty or slack of its own, or make it hard"
        )
    if hard:
        return np.where(to_learn, INFINITE, 0.0)
    if len(labelled) == 0:
        names = [repr(name) for name, learn in zip(rows.names, to_learn, strict=True) if learn]
        more = "" if len(names) <= 3 else f" and {len(names) - 3} more"
        raise DataError(
            f"there are no fully labelled instances to learn the strength of {', '.join(names[:3])}{more} from: give "
            "some labels, a penalty of your own for these rules, or make them all strict (hard=True, --hard)"
        )
    return np.where(to_learn, count_violations(_inside(rows), labelled).penalties(smoothing), 0.0)


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
    return replace(rows, groups=groups)


def check_penalties(found: Mapping[str, Any], constraints: Sequence[Constraint]) -> dict[str, float]:
    """The ρ of a file, if there is one of each constraint; they are numbers from 0 on."""
    wanted = [one.name for one in constraints]
    fine = all(isinstance(rho, int | float) and not isinstance(rho, bool) and rho >= 0 for rho in found.values())
    if sorted(found) != sorted(wanted) or not fine:
        raise DataError(f"expected a penalty, not negative, of each of {wanted} but found {dict(found)}")
    return {name: float(rho) for name, rho in found.items()}
