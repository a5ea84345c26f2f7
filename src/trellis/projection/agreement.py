"""Agreement of two posteriors: the nearest pair of distributions that say the same.

    min_{q₁, q₂} Σ_i γ q_i log q_i − q_i·score_i     s.t.  q₁ and q₂ agree                (Ganchev et al. 2010, sec. 6)

*Fully*, over equal spaces of outputs: q₁ = q₂ ∝ (p₁ p₂)^{1/2γ}, the geometric mean (prop. 6.1, 6.2).
*Through a map of labels* g₁(y₁) = g₂(y₂) = z (a coarse tag set, say): the classes of slots, and of neighbouring slots,
have equal marginals (prop. 6.3, eq. 54). These are ordinary rows between the members of a joint structure:

    Σ_{k: g₁(k) = z} q₁(y_t = k) − Σ_{k: g₂(k) = z} q₂(y_t = k) = 0

There is no closed form for chains; the dual is solved by L-BFGS after a few marginal-ratio steps
λ ← λ + γ/2 (log m₁ − log m₂), which start well and then stall.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import ConvergenceWarning, DataError
from trellis.structures.joint import Joint
from trellis.structures.structure import Structure, check_gamma

RATIO_STEPS = 3
TINY = 1e-12


@dataclass(frozen=True)
class Agreement:
    """The two distributions as scores and as posteriors, the optimum, and the largest disagreement left."""

    first: Any
    second: Any
    first_scores: Any
    second_scores: Any
    value: float
    kkt_residual: float
    evaluations: int


@dataclass(frozen=True)
class ClassRows:
    """Classes of labels as sums over the parts of a joint structure.

    row, part : (n_entries,);  sign : (n_entries,) +1 for the first member, −1 for the second;  n : number of rows
    is_label : (n,) whether the row is about one slot, and not about two neighbours
    """

    row: IntArray
    part: IntArray
    sign: FloatArray
    is_label: BoolArray

    def expect(self, marginals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What either member expects of each row."""
        first = self.sign > 0
        n = len(self.is_label)
        one = np.bincount(self.row[first], marginals[first], minlength=n)
        other = np.bincount(self.row[~first], marginals[~first], minlength=n)
        return one.astype(np.float64), other.astype(np.float64)


def agree(
    first: Structure,
    second: Structure,
    gamma: float = 1.0,
    *,
    maps: tuple[Sequence[int], Sequence[int]] | None = None,
    edges: bool = True,
    tolerance: float = 1e-3,
    most_evaluations: int = 500,
) -> Agreement:
    """Project a pair of scores onto agreement, fully or through ``maps`` (the class of each label of each model).

    ``edges``: through a map, chains agree on the classes of neighbouring slots too, not of single slots alone.

    >>> from trellis.structures import Categorical
    >>> p, q = Categorical(np.log([[0.9, 0.1]])), Categorical(np.log([[0.5, 0.5]]))
    >>> agree(p, q).first.node.round(2).tolist()
    [[0.75, 0.25]]
    """
    gamma = check_gamma(gamma)
    if first.kind != second.kind or not first.parts.has_labels:
        raise DataError("models agree over outputs of one kind: two chains, or two categoricals")
    if maps is None:
        mean = first.mean(second).temper(gamma)
        q = mean.infer(at=np.array([mean.parts.n_parts - 1]))
        value = -2.0 * gamma * float(q.log_partition.sum())
        return Agreement(q, q, mean, mean, value, 0.0, 1)
    joint = Joint(first, second)
    rows = class_rows(joint, maps, edges)
    return _through_rows(joint.temper(gamma), rows, gamma, tolerance, most_evaluations)


def class_rows(joint: Joint, maps: tuple[Sequence[int], Sequence[int]], edges: bool) -> ClassRows:
    """Rows of all slots and classes and, of chains, of all boundaries and pairs of classes."""
    rows, parts, signs = [], [], []
    n_classes = 1 + max(int(max(given, default=0)) for given in maps)
    is_label = np.zeros(0, dtype=np.bool_)
    for number, given in enumerate(maps):
        member, start = joint.parts.member(number)
        of_label, of_pair = member.grid()
        label_class = np.asarray(given, dtype=np.int64)
        if label_class.shape != (of_label.shape[1],) or label_class.min(initial=0) < 0:
            raise DataError(f"a map gives a class ≥ 0 to each of {of_label.shape[1]} labels, got {list(given)!r}")
        n_slots = len(of_label)
        slot = np.arange(n_slots, dtype=np.int64)[:, None]
        found = [(slot * n_classes + label_class, of_label)]
        if edges and len(of_pair):
            pair = label_class[:, None] * n_classes + label_class
            boundary = np.arange(len(of_pair), dtype=np.int64)[:, None, None]
            found.append((n_slots * n_classes + boundary * n_classes**2 + pair, of_pair))
        n_rows = n_slots * n_classes + (len(of_pair) * n_classes**2 if edges else 0)
        is_label = np.arange(n_rows) < n_slots * n_classes
        for row, part in found:
            rows.append(np.broadcast_to(row, part.shape).reshape(-1))
            parts.append(part.reshape(-1) + start)
            signs.append(np.full(part.size, (1.0, -1.0)[number]))
    return ClassRows(np.concatenate(rows), np.concatenate(parts), np.concatenate(signs), is_label)


def _through_rows(scaled: Joint, rows: ClassRows, gamma: float, tolerance: float, most_evaluations: int) -> Agreement:
    evaluations = 0

    def tilted(theta: FloatArray) -> Joint:
        return scaled.add(rows.part, -rows.sign * theta[rows.row])

    def evaluate(theta: FloatArray) -> tuple[float, FloatArray]:
        nonlocal evaluations
        evaluations += 1
        q = tilted(theta).infer(at=rows.part)
        one, other = rows.expect(q.at(rows.part))
        return float(q.log_partition.sum()), other - one

    theta = np.zeros(len(rows.is_label))
    for _ in range(RATIO_STEPS):
        one, other = rows.expect(tilted(theta).infer(at=rows.part).at(rows.part))
        theta += np.where(rows.is_label, 0.5 * (np.log(one + TINY) - np.log(other + TINY)), 0.0)
        evaluations += 1
    solved = minimize(
        evaluate, theta, jac=True, method="L-BFGS-B",
        options={"gtol": tolerance, "ftol": 0.0, "maxiter": most_evaluations, "maxfun": most_evaluations, "maxcor": 20},
    )  # fmt: skip
    outcome = tilted(solved.x)
    q = outcome.infer(at=rows.part)
    one, other = rows.expect(q.at(rows.part))
    residual = float(np.max(np.abs(one - other), initial=0.0))
    if residual > tolerance:
        warnings.warn(
            f"the two models still disagree by {residual:.2g} (tolerance {tolerance:g}): allow more evaluations, or "
            "check that some output of each is possible for the other",
            ConvergenceWarning,
            stacklevel=3,
        )
    value = -gamma * float(solved.fun)
    return Agreement(q.members[0], q.members[1], outcome.members[0], outcome.members[1], value, residual, evaluations)
