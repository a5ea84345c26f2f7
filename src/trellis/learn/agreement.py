"""The E-step of views with different labels: the nearest posteriors that agree through maps of labels.

    q = argmin Σ_i KL(q_i ‖ p_i)     s.t.  classes of labels have the same probabilities in all views

(Ganchev et al. 2010, prop. 6.3; of chains the classes of slots and of neighbouring slots, eq. 54.) Views with the same
labels agree in closed form inside the ordinary E-step: see :mod:`trellis.models.views`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.constraints import Constraint, Rule, compile_constraints
from trellis.data.ragged import IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Engine, Piece, Placed, place_batch
from trellis.learn.training import Training, TrainingStep
from trellis.loop.step import ArrayState, StepResult
from trellis.models.inference import (
    LOG_PARTITION,
    OUTPUTS,
    PLACES,
    POSTERIORS,
    BestOutputs,
    Inference,
    accuracy,
    by_kind,
)
from trellis.models.model import bare, scores_of
from trellis.models.views import Views
from trellis.projection import Agreement, agree


@dataclass(frozen=True)
class Agreed:
    """What a shard adds to the whole.  value : of the problem above;  given, free : Σ w log Z as in the E-steps"""

    statistics: Any
    value: float
    given: float
    free: float
    residual: float

    def __add__(self, other: Agreed) -> Agreed:
        return Agreed(
            self.statistics + other.statistics, self.value + other.value, self.given + other.given,
            self.free + other.free, max(self.residual, other.residual),
        )  # fmt: skip


@dataclass(frozen=True)
class AgreeShard:
    """Work on a shard: its views made to agree, and what they count then.

    constraints : on the first view's labels, which have these names
    """

    classes: list[IntArray]
    gamma: float
    edges: bool
    tolerance: float
    evaluations: int
    constraints: Sequence[Constraint | Rule]
    labels: Vocabulary

    def __call__(self, model: Views, item: Piece, state: Any) -> tuple[Agreed, Any]:
        part: Any = item.data
        found = self.of(model, part)
        statistics = model.collect(part, found)
        # Without constraints −value is γ Σ_i of the log-partitions at the solution, instance by instance.
        value = -found.value
        if not self.constraints:
            value = self.gamma * sum(float(part.weights @ q.log_partition) for q in found.members)
        given, free = (float(part.weights @ one) for one in model.log_partitions(part))
        return Agreed(statistics, value, given, free, found.kkt_residual), state

    def of(self, model: Any, part: Any) -> Agreement:
        """The agreement of a batch."""
        joint: Any = scores_of(model, part)
        rows = None
        if self.constraints:
            rows = compile_constraints(self.constraints, part.members[0], self.labels, joint.members[0].parts)
        return agree(
            *joint.members, gamma=self.gamma, maps=self.classes, edges=self.edges, rows=rows,
            weights=part.weights, tolerance=self.tolerance, max_evaluations=self.evaluations,
        )  # fmt: skip


class AgreementStep(TrainingStep[ArrayState]):
    """Agreement of the free instances through maps of labels."""

    def __init__(self, training: Training, work: AgreeShard) -> None:
        super().__init__(training)
        self.work, self.rows = work, work
        self.free: Placed[Piece] = place_batch(training.engine, training.free_batch)

    @property
    def placed(self) -> list[Placed[Any]]:
        return [self.free]

    def run(self, gamma: float, state: ArrayState, rng: np.random.Generator) -> StepResult:
        training, known = self.training, self.training.known_value()
        if not len(self.free):
            return StepResult(training.with_supervised(None), known, state, known, 0.0)
        found = self.free.total(self.work, bare(training.model))
        solved = found.residual <= self.work.tolerance
        kl = max(0.0, found.given - found.value) if self.work.gamma == 1.0 and not self.work.constraints else None
        return StepResult(
            training.with_supervised(found.statistics), found.value - found.free + known, state,
            found.given - found.free + known, kl, kkt_residual=found.residual, evaluations=1,
            unsolved=None if solved else "agreement of the views",
        )  # fmt: skip


@dataclass(frozen=True)
class AgreedQuery:
    """Queries of a shard whose views agree through maps: outputs and posteriors of each view."""

    agreed: AgreeShard
    kinds: tuple[str, ...]

    def __call__(self, model: Views, item: Piece, state: Any) -> tuple[dict[str, Any], Any]:
        q = self.agreed.of(model, item.data)
        found: dict[str, Any] = {POSTERIORS: q, LOG_PARTITION: sum(p.log_partition for p in q.members)}
        best = [scores.argmax() for scores in q.scores] if OUTPUTS in self.kinds else []
        value = np.sum([one.score for one in best], axis=0)
        found[OUTPUTS] = BestOutputs([one.outputs for one in best], value, np.ones_like(value, np.bool_))
        found[PLACES] = [scores.marginal_argmax(p) for scores, p in zip(q.scores, q.members, strict=True)]
        return found, state


class AgreedInference(Inference):
    """Inference of views that agree through maps of labels: every result is a list, one a view."""

    def __init__(self, model: Views, batch: Any, engine: Engine, agreed: AgreeShard) -> None:
        super().__init__(model, batch, engine)
        self.agreed = agreed

    def _run(self, kinds: tuple[str, ...]) -> dict[str, list[Any]]:
        placed = place_batch(self.engine, self.batch.with_labels(None))
        return by_kind(kinds, list(placed.run(AgreedQuery(self.agreed, kinds), bare(self.model))))

    def _joined(self, pieces: list[Any]) -> Any:
        return [np.concatenate(own) for own in zip(*pieces, strict=True)]

    def accuracy(self, outputs: Any = None) -> float:
        found = self.outputs if outputs is None else outputs
        pairs = zip(self.batch.members, found, strict=True)
        return float(np.mean([accuracy(own, labels) for own, labels in pairs if own.known]))
