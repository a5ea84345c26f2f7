"""Prediction with a trained model: by its own posterior p, or by q, p projected onto the constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.data.batch import Batch
from trellis.data.ragged import LabelArray
from trellis.engine import engine_for
from trellis.errors import DataError, UnknownNameError
from trellis.learn.expectation import ExpectationStep
from trellis.learn.schedule import Gamma, gamma_at
from trellis.models.estimator import Estimator
from trellis.projection import ShardAnswer

DECODINGS = ("viterbi", "posterior")


class ConstrainedPrediction(Estimator):
    """What a learner with a model and constraints predicts."""

    model: Any
    constraints: Sequence[Constraint | Rule]
    gamma: Gamma
    tolerance: float
    evaluations: int
    threads: int | None
    max_rounds: int

    def predict(self, X: Any, *, constrained: bool = False, decoding: str = "viterbi") -> Any:
        """Labels by name: the best output (``decoding="viterbi"``), or the best label of each slot ("posterior").

        constrained : of q, the model's posterior projected onto the constraints, in place of the model's own
        """
        batch, labels = self._decode(X, None, constrained, decoding)
        return self.model.decode(batch, labels)

    def predict_proba(self, X: Any, *, constrained: bool = False) -> Any:
        """Posterior of each slot's label, as the model's own ``predict_proba`` gives it."""
        if not constrained:
            return self.model.predict_proba(X)
        batch = self.model.encode(X)
        step = self._step(batch.with_labels(None), self.constraints)
        outcome = step.projector.run(
            step.scores_of, self._gamma(), then=lambda _, answer: answer.posterior, engine=step.engine
        )
        return self.model.probabilities(batch, outcome.results)

    def score(self, X: Any, y: Any, *, constrained: bool = False, decoding: str = "viterbi") -> float:
        """Share of the slots with a known label that ``predict`` labels so."""
        batch, labels = self._decode(X, y, constrained, decoding)
        known = batch.labels >= 0
        if not np.any(known):
            raise DataError("no label is known, so there is no accuracy")
        weight = np.repeat(batch.weights, batch.lengths)[known]
        return float(np.average(labels[known] == batch.labels[known], weights=weight))

    def violations(self, X: Any, *, constrained: bool = False) -> dict[str, float]:
        """Share of each constraint's rows that the posterior of new data violates (by more than the tolerance)."""
        batch = self.model.encode(X).with_labels(None)
        step = self._step(batch, self.constraints)
        shown = step if constrained else self._step(batch, ())
        violated = np.zeros(len(step.rows.names))
        outcome = shown.projector.run(
            shown.scores_of, self._gamma(), then=lambda _, answer: answer, warn=False,
            at=lambda number: step.projector.shard_rows[number].rows.part,
        )  # fmt: skip
        coupling = np.zeros(len(step.projector.coupling))
        for number, answer in enumerate(outcome.results):
            mine, q = step.projector.shard_rows[number], answer.posterior
            local = mine.local.rows
            over = local.excess(local.expect(q))
            violated += np.bincount(local.constraint, over > 2 * self.tolerance, minlength=len(violated))
            coupling += mine.coupling.expect(q)
        over = step.projector.coupling.excess(coupling)
        violated += np.bincount(step.projector.coupling.constraint, over > 2 * self.tolerance, minlength=len(violated))
        n_rows = np.maximum(np.bincount(step.rows.constraint, minlength=len(violated)), 1)
        return dict(zip(step.rows.names, (violated / n_rows).tolist(), strict=True))

    def _decode(self, X: Any, y: Any, constrained: bool, decoding: str) -> tuple[Batch, LabelArray]:
        if decoding not in DECODINGS:
            raise UnknownNameError("decoding", decoding, DECODINGS)
        batch = self.model.encode(X, y)
        step = self._step(batch.with_labels(None), self.constraints if constrained else ())
        gamma = self._gamma() if constrained else 1.0

        def decode(number: int, answer: ShardAnswer) -> LabelArray:
            scores = step.scores_of(number)
            if decoding == "posterior" or (constrained and gamma == 0.0):
                return np.asarray(scores.likeliest(answer.posterior))
            best = step.projector.shard_rows[number].q_scores(answer) if constrained else scores
            return np.asarray(best.argmax().outputs)

        outcome = step.projector.run(step.scores_of, gamma, then=decode, engine=step.engine)
        return batch, np.concatenate([np.zeros(0, np.int32), *outcome.results])

    def _step(self, batch: Batch, constraints: Sequence[Constraint | Rule]) -> ExpectationStep:
        return ExpectationStep(
            self.model, batch, tuple(constraints), engine_for(self.threads),
            tolerance=self.tolerance, most_evaluations=self.evaluations, most_rounds=self.evaluations,
        )  # fmt: skip

    def _gamma(self) -> float:
        """γ of the last round."""
        return gamma_at(self.gamma, max(self.max_rounds - 1, 0))
