"""What is done to a shard in one pass of the projection: pure work, which any process can do.

    work(parameters, item, state) -> (result, new state)

The state is where the solver of the shard's local rows ended, λ and curvature; λ = γθ, so that it serves any γ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray
from trellis.projection.diagnosis import explaining
from trellis.projection.local import LocalState, SolverOptions
from trellis.projection.shard import ProjectionItem, ShardAnswer
from trellis.structures.structure import Structure


@dataclass(frozen=True)
class ProjectionRequest:
    """What one pass asks of every shard.

    scores_of : scores from a shard's data;  theta : (n_coupling,) duals of the coupling rows
    curvature : whether the covariance of the coupling rows is wanted
    """

    scores_of: Callable[[Any], Structure]
    asked: SolverOptions
    theta: FloatArray
    curvature: bool = False

    def of(
        self, item: ProjectionItem, state: LocalState, at: IntArray | None = None
    ) -> tuple[Structure, LocalState, SolverOptions]:
        """A shard's scores, where its solver starts, and what it is asked."""
        start = LocalState(state.theta / self.asked.gamma, state.curvature)
        return self.scores_of(item.data), start, replace(self.asked, weights=item.weights, at=at)

    def moved(self, theta: FloatArray, curvature: bool = False) -> ProjectionRequest:
        return replace(self, theta=theta, curvature=curvature)


@dataclass(frozen=True)
class Finish:
    """The last pass: ``then`` makes of each shard's posterior what the caller wants; ``at`` says of which parts."""

    ask: ProjectionRequest
    then: Callable[[ProjectionItem, ShardAnswer], Any]
    at: Callable[[ProjectionItem], IntArray] | None


@dataclass(frozen=True)
class Evaluated:
    """What the corpus dual needs of a shard; see :class:`ShardAnswer`."""

    value: float
    coupling: FloatArray
    sparsity: tuple[FloatArray, ...]
    covariance: FloatArray | None


@dataclass(frozen=True)
class Finished:
    """What the corpus keeps of a shard's last evaluation; worst : the instance with the largest residual."""

    value: float
    residual: float
    worst: int
    evaluations: int


def evaluate(
    ask: ProjectionRequest, item: ProjectionItem, state: LocalState, blocks: tuple[FloatArray, ...]
) -> tuple[Evaluated, LocalState]:
    """Value and gradient of a shard at coupling and l1/linf duals, the local rows solved."""
    scores, start, own = ask.of(item, state)
    with explaining(scores, item.rows.rows):
        answer = item.rows.evaluate(scores, ask.theta, blocks, start, own)
    wanted = ask.curvature and len(item.rows.coupling)
    covariance = item.rows.coupling_covariance(answer, item.weights) if wanted else None
    return Evaluated(answer.value, answer.coupling, answer.sparsity, covariance), _kept(answer.state, ask.asked.gamma)


def finish(
    asked: Finish, item: ProjectionItem, state: LocalState, blocks: tuple[FloatArray, ...]
) -> tuple[tuple[Any, Finished], LocalState]:
    """The shard's posterior at the solution, handed on."""
    gamma = asked.ask.asked.gamma
    scores, start, own = asked.ask.of(item, state, None if asked.at is None else asked.at(item))
    with explaining(scores, item.rows.rows):
        answer = item.rows.evaluate(scores, asked.ask.theta, blocks, start, own)
    local, end = answer.local, Finished(answer.value, 0.0, -1, 0)
    kept = answer.state
    if local is not None and len(local.residual):
        worst = int(np.argmax(local.residual))
        end = Finished(answer.value, float(local.residual[worst]), worst, int(local.evaluations.sum()))
        kept = LocalState(local.theta, kept.curvature)
    return (asked.then(item, answer), end), _kept(kept, gamma)


def _kept(state: LocalState, gamma: float) -> LocalState:
    return LocalState(state.theta * gamma, state.curvature)
