"""Agreement of several posteriors: the nearest distributions with equal marginals.

    min_{q₁, q₂, ...} Σ_i γ q_i log q_i − q_i·score_i     s.t.  all q_i agree             (Ganchev et al. 2010, sec. 6)

*Fully*, over equal spaces of outputs: q_i ∝ (p₁ p₂ ⋯ p_n)^{1/nγ}, the geometric mean (prop. 6.1, 6.2).
*Through maps of labels* g₁(y₁) = g₂(y₂) = z (a coarse tag set, say): of single labels q_i(y) = p_i(y | z) q(z) with
q(z) ∝ Π p_i(z)^{1/n} (prop. 6.3). Of chains, the classes of slots, and of neighbouring slots, have equal marginals
(eq. 54), which are ordinary rows between the members of a joint structure:

    Σ_{k: g₁(k) = z} q₁(y_t = k) − Σ_{k: g₂(k) = z} q₂(y_t = k) = 0

There is no closed form for these; the dual is solved by L-BFGS after a few marginal-ratio steps λ ← λ + γ/2 (log m₁ −
log m₂), which start well and then stall. Constraints on the labels of the first member are further rows beside these;
then the projection solves for all of them.

At γ = 1 the value of the problem is n times the Bhattacharyya distance  −log Σ_z Π p_i(z)^{1/n}  of the p_i.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from trellis.constraints.implicit import Forbidden
from trellis.constraints.rows import COUPLING, Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.errors import ConstraintError, ConvergenceWarning, DataError
from trellis.projection.projector import project
from trellis.structures.joint import Joint, JointParts
from trellis.structures.structure import Structure, check_gamma

RATIO_STEPS = 3
TINY = 1e-12
AGREEMENT = "agreement of the views"

Maps = Sequence[Sequence[int] | IntArray]
"""The class of each label of each member."""


@dataclass(frozen=True)
class Agreement:
    """The distributions as posteriors and as scores, one a member; the optimum; and the largest disagreement left."""

    members: tuple[Any, ...]
    scores: tuple[Any, ...]
    value: float
    kkt_residual: float
    evaluations: int


@dataclass(frozen=True)
class ClassRows:
    """Classes of labels as sums over the parts of a joint structure, the same in each member and in the next.

    row, part : (n_entries,);  sign : (n_entries,) +1 for the one member, −1 for the next;  n : number of rows
    is_label : (n,) whether the row is about one slot, and not about two neighbours
    """

    row: IntArray
    part: IntArray
    sign: FloatArray
    is_label: BoolArray

    @cached_property
    def first(self) -> BoolArray:
        """Entries of the one member."""
        return np.asarray(self.sign > 0)

    def expect(self, marginals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What either member expects of each row."""
        first, n = self.first, len(self.is_label)
        one = np.bincount(self.row[first], marginals[first], minlength=n)
        other = np.bincount(self.row[~first], marginals[~first], minlength=n)
        return one.astype(np.float64), other.astype(np.float64)

    def rows(self, joint: JointParts) -> Rows:
        """The same as hard rows over the parts of the joint structure."""
        n, order = len(self.is_label), np.lexsort((self.part, self.row))
        start, number = offsets_of(np.bincount(self.row, minlength=n)), np.arange(n, dtype=np.int64)
        instance = joint.instance_of(self.part[order][start[:-1]])
        return Rows(
            joint, (AGREEMENT,), start, self.part[order], self.sign[order], np.zeros(n), np.ones(n, np.bool_), instance,
            number, np.zeros(n, np.int64), number, Groups.uniform(n, Kind.HARD, Norm.LINF, 0.0),
        )  # fmt: skip


def geometric_mean(members: Sequence[Structure]) -> Structure:
    """The mean of scores over the same outputs: q ∝ Π p_i^{1/n}."""
    mean = members[0]
    for number, member in enumerate(members[1:], start=1):
        mean = mean.mean(member, number / (number + 1.0))
    return mean


def agree(
    *members: Structure,
    gamma: float = 1.0,
    maps: Maps | None = None,
    edges: bool = True,
    rows: Rows | None = None,
    weights: FloatArray | None = None,
    tolerance: float = 1e-3,
    max_evaluations: int = 500,
) -> Agreement:
    """Project the scores of several models onto agreement.

    Agreement is full, or through ``maps`` (Ganchev et al. 2010, prop. 6.1 to 6.3).

    Parameters
    ----------
    *members : Structure
        Scores of the models on the same instances; full agreement is for outputs of any kind, such as trees. With maps,
        segmentations and chains agree on the labels of tokens.
    gamma : float, default=1.0
        Temperature γ of the agreed posterior.
    maps : list or None, default=None
        The class of each label of each model.
    edges : bool, default=True
        With maps, chains agree on neighbouring tokens as well.
    rows : Rows or None, default=None
        With maps, constraints on the labels of the first model, from :func:`compile_constraints`.
    weights : ndarray or None, default=None
        Weights of the instances.
    tolerance : float, default=0.001
        KKT residual at which the solver stops.
    max_evaluations : int, default=500
        Maximum number of dual evaluations.

    Returns
    -------
    Agreement
        ``members`` are the posteriors of the models.

    Examples
    --------
    >>> from trellis.structures import Categorical
    >>> p, q = Categorical(np.log([[0.9, 0.1]])), Categorical(np.log([[0.5, 0.5]]))
    >>> agree(p, q).members[0].node.round(2).tolist()
    [[0.75, 0.25]]
    """
    gamma = check_gamma(gamma)
    if not all(isinstance(member, Structure) for member in members):
        raise DataError("agree takes scores of models, each as an argument of its own: agree(one, other)")
    alike = len({member.kind for member in members}) == 1
    if not alike and maps is None:
        raise DataError(
            "models agree over outputs of one kind, two chains, say, or two categoricals; segmentations and chains do "
            "through maps of their labels"
        )
    for member in members if maps is not None else ():
        if not member.parts.has_labels:
            raise DataError(f"maps are of labels, which {member.parts.outputs_are} do not have: leave out maps")
    edges = edges and alike  # two neighbours of one label are one segment or two, which a chain does not tell
    if maps is None and rows is not None:
        raise DataError("rows go with maps: without these, agree first and project the mean")
    if maps is None:
        mean = geometric_mean(members).temper(gamma)
        q = mean.infer(weights=weights, at=np.array([mean.parts.n_parts - 1]))
        value = -len(members) * gamma * float(q.log_partition.sum())
        return Agreement((q,) * len(members), (mean,) * len(members), value, 0.0, 1)
    if rows is not None:
        joint = Joint(*members)
        return _under_rows(joint, class_rows(joint, maps, edges), rows, gamma, weights, tolerance, max_evaluations)
    scaled = [member.temper(gamma) for member in members]
    closed = scaled[0].agreeing(scaled[1:], _checked(scaled, maps)) if alike else None
    if closed is not None:
        found = tuple(member.infer(weights=weights) for member in closed)
        value = -gamma * sum(float(q.log_partition.sum()) for q in found)
        return Agreement(found, tuple(closed), value, 0.0, 1)
    joint = Joint(*scaled)
    return _through_rows(joint, class_rows(joint, maps, edges), gamma, weights, tolerance, max_evaluations)


def _checked(members: Sequence[Structure], maps: Maps) -> list[IntArray]:
    """Maps as arrays, a class for each label."""
    found = []
    for member, given in zip(members, maps, strict=True):
        n, classes = member.parts.label_shape[1], np.asarray(given, dtype=np.int64)
        if classes.shape != (n,) or classes.min(initial=0) < 0:
            raise DataError(f"a map gives a class ≥ 0 to each of {n} labels, got {list(given)!r}")
        found.append(classes)
    return found


def class_rows(joint: Joint, maps: Maps, edges: bool) -> ClassRows:
    """Rows of all slots and classes and, of chains, of all boundaries and pairs of classes, for each two neighbours."""
    rows, parts, signs, n_rows = [], [], [], 0
    is_label: list[BoolArray] = []
    classes = _checked(joint.members, maps)
    n_classes = 1 + max(int(given.max(initial=0)) for given in classes)
    for pair in pairwise(range(len(joint.members))):
        for number, sign in zip(pair, (1.0, -1.0), strict=True):
            member, start = joint.parts.member(number)
            of_label, of_pair = member.grid(), member.transition_grid()
            given, n_slots = classes[number], len(of_label)
            slot = np.arange(n_slots, dtype=np.int64)[:, None]
            found = [(slot * n_classes + given, of_label)]
            if edges and len(of_pair):
                both = given[:, None] * n_classes + given
                boundary = np.arange(len(of_pair), dtype=np.int64)[:, None, None]
                found.append((n_slots * n_classes + boundary * n_classes**2 + both, of_pair))
            for row, part in found:
                rows.append(n_rows + np.broadcast_to(row, part.shape).reshape(-1))
                parts.append(part.reshape(-1) + start)
                signs.append(np.full(part.size, sign))
        n_pairs = len(of_pair) * n_classes**2 if edges else 0
        is_label += [np.ones(n_slots * n_classes, np.bool_), np.zeros(n_pairs, np.bool_)]
        n_rows += n_slots * n_classes + n_pairs
    return ClassRows(np.concatenate(rows), np.concatenate(parts), np.concatenate(signs), np.concatenate(is_label))


def _through_rows(
    scaled: Joint, rows: ClassRows, gamma: float, weights: FloatArray | None, tolerance: float, max_evaluations: int
) -> Agreement:
    from scipy.optimize import minimize  # 20 MB, which most runs do without

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
        options={"gtol": tolerance, "ftol": 0.0, "maxiter": max_evaluations, "maxfun": max_evaluations, "maxcor": 20},
    )  # fmt: skip
    outcome = tilted(solved.x)
    q = outcome.infer(weights=weights, at=rows.part)
    one, other = rows.expect(q.at(rows.part))
    residual = float(np.max(np.abs(one - other), initial=0.0))
    if residual > tolerance:
        warnings.warn(
            f"the models still disagree by {residual:.2g} (tolerance {tolerance:g}): allow more evaluations, or "
            "check that some output of each is possible for the other",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Agreement(tuple(q.members), outcome.members, -gamma * float(solved.fun), residual, evaluations)


def _under_rows(
    joint: Joint, same: ClassRows, rows: Rows, gamma: float, weights: FloatArray | None, tolerance: float, most: int
) -> Agreement:
    """Agreement and constraints, all of them rows of one projection."""
    if np.any(rows.instance == COUPLING) or rows.sparsity or rows.implicit or rows.checks:
        raise ConstraintError(
            "with maps of labels, constraints are about single instances: leave out those over the corpus, and "
            "few_labels_per"
        )
    joint = joint.forbid(rows.forbidden.listed()[0])
    given = replace(rows, parts=joint.parts, forbidden=Forbidden())
    agreed = same.rows(joint.parts)
    every = given.followed_by(replace(agreed, constraint=agreed.constraint + len(rows.names)))
    every = replace(every, names=(*rows.names, *agreed.names))
    found = project(joint, every, gamma, weights=weights, tolerance=tolerance, max_evaluations=most)
    moved = joint.temper(gamma).add(found.rows.part, found.rows.pull(found.duals.row / gamma))
    members = tuple(found.posterior.members)
    return Agreement(members, moved.members, found.value, found.kkt_residual, found.evaluations)
