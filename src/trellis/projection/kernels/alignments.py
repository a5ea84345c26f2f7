"""The fused projection of a pair of alignments onto agreement, bijectivity and trusted links."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.constraints.implicit import LinkRows, Unit
from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind, Norm, Strength
from trellis.data.ragged import FloatArray, IntArray
from trellis.projection.kernels import align_project, solver
from trellis.projection.kernels.align_project import LARGEST_DUAL, Projected, Rules
from trellis.projection.local import LocalRows, LocalSolution, LocalState, SolverOptions
from trellis.structures.results import JointPosterior
from trellis.structures.structure import check_weights, refuse_impossible

AGREEMENT = ((0, 1.0), (1, -1.0)), Unit.LINK, 0.0, True
SOURCE = ((0, 1.0),), Unit.SOURCE, 1.0, False
TARGET = ((1, 1.0),), Unit.TARGET, 1.0, False
TRUSTED = (((0, -1.0),), Unit.TARGET), (((1, -1.0),), Unit.SOURCE)


def takes(rows: Rows) -> bool:
    """Only these rows, hard or with an L1 penalty; links trusted in both directions, with a penalty."""
    seen = []
    for one in rows.implicit:
        shape = _shape(one)
        if shape is None or shape in seen or not _is_known(one.strength, shape):
            return False
        seen.append(shape)
    trusted = [one for one in rows.implicit if one.links is not None]
    alike = len({(one.bound, one.strength) for one in trusted}) <= 1 and len(trusted) in (0, 2)
    return bool(rows.implicit) and len(rows) == 0 and alike and _same_links(trusted)


def _shape(one: LinkRows) -> Any:
    """Which of the known kinds the rows are, or None."""
    if one.links is None:
        shape: Any = one.terms, one.unit, one.bound, one.equality
        return shape if shape in (AGREEMENT, SOURCE, TARGET) else None
    shape = one.terms, one.unit
    return shape if shape in TRUSTED and 0.0 < -one.bound < 1.0 and not one.equality else None


def _is_known(strength: Strength, shape: Any) -> bool:
    if strength.kind == Kind.PENALTY:
        return strength.norm == Norm.L1
    return strength.kind == Kind.HARD and shape not in TRUSTED


def _same_links(trusted: list[LinkRows]) -> bool:
    return all(np.array_equal(trusted[0].links, one.links) for one in trusted[1:])  # type: ignore[arg-type]


def project_rows(scores: Any, mine: LocalRows, state: LocalState, asked: SolverOptions) -> LocalSolution:
    """As :func:`trellis.projection.lock_step.project_rows` of the rows written out, in one compiled call.

    Dual variables are not kept: there are as many as links, and a few steps from nothing do as well. Who asks for them
    after all (``pull``) has them found again.
    """
    members, n = scores.members, len(scores)
    rules, given = _rules(mine.rows, asked.gamma)
    weights = check_weights(asked.weights, n)

    def solve(n_pulls: int) -> tuple[Any, Projected]:
        found = tuple(member.new_found(np.float32) for member in members)
        out = Projected(np.zeros(n_pulls), np.zeros(n_pulls), np.zeros(n), np.zeros(n), np.zeros(n, np.int64))
        chosen = np.arange(n)
        for logs in (None, True):
            align_project.project_pairs(
                chosen, members[0].direction, members[1].direction, weights, rules, given, asked.tolerance,
                asked.most_evaluations, logs, found, out,
            )  # fmt: skip
            chosen = np.flatnonzero(np.isnan(out.value))
            if not len(chosen):
                break
        return found, out

    def pull() -> tuple[FloatArray, ...]:
        out = solve(members[0].parts.n_links)[1]
        pulls = zip((out.pull1, out.pull2), members, strict=True)
        return tuple(np.append(one, np.zeros(member.parts.n_observed)) for one, member in pulls)

    found, out = solve(0)
    for one in found:
        refuse_impossible(one.log_partition, scores.first, scores.numbers)
    q = [member.posterior_of(one) for member, one in zip(members, found, strict=True)]
    return LocalSolution(
        posterior=JointPosterior(q, scores.parts.starts),
        theta=state.theta,
        curvature=np.zeros(0),
        residual=out.residual,
        evaluations=out.evaluations,
        ending=np.where(out.residual <= asked.tolerance, solver.CONVERGED, solver.EXHAUSTED),
        value=out.value,
        pull=pull,
    )


def _rules(rows: Rows, gamma: float) -> tuple[Rules, IntArray]:
    """What the kernel reads of the rows, and the trusted links."""
    by_shape = {_shape(one): one for one in rows.implicit}
    trusted = by_shape.get(TRUSTED[0])

    def most(one: LinkRows | None) -> float:
        if one is None or one.strength.kind == Kind.HARD:
            return LARGEST_DUAL
        return min(one.strength.amount / gamma, LARGEST_DUAL)

    kinds = [by_shape.get(shape) for shape in (AGREEMENT, SOURCE, TARGET)]
    rules = Rules(  # type: ignore[call-arg]
        *(one is not None for one in kinds),
        0.5 if trusted is None else -trusted.bound,
        *map(most, kinds),
        most(trusted),
    )
    none = np.zeros(0, np.int64)
    return rules, none if trusted is None or trusted.links is None else trusted.links
