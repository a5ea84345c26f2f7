"""Prediction with a trained model: by its own posterior p, or by q, p projected onto the constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray, LabelArray
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
        batch, labels, _ = self._decode(X, None, constrained, decoding)
        return self.model.decode(batch, labels)

    def predict_proba(self, X: Any, *, constrained: bool = False) -> Any:
        """Posterior of each slot's label, as the model's own ``predict_proba`` gives it."""
        if not constrained:
            return self.model.predict_proba(X)
        batch, _, node = self._decode(X, None, constrained, "posterior")
        if isinstance(self.model.predict_proba(X), np.ndarray):
            return node
        return [node[a:b] for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]

    def score(self, X: Any, y: Any, *, constrained: bool = False, decoding: str = "viterbi") -> float:
        """Share of the slots with a known label that ``predict`` labels so."""
        batch, labels, _ = self._decode(X, y, constrained, decoding)
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
            shown.scores_of, self._gamma(), then=lambda _, answer: answer, warn=False, edge_marginals=True
        )
        coupling = np.zeros(len(step.projector.coupling))
        for number, answer in enumerate(outcome.results):
            mine, q = step.projector.shard_rows[number], answer.posterior
            over = mine.local.excess(mine.local.expect(q.node, q.edge))
            violated += np.bincount(mine.local.constraint, over > 2 * self.tolerance, minlength=len(violated))
            coupling += mine.coupling.expect(q.node, q.edge)
        over = step.projector.coupling.excess(coupling)
        violated += np.bincount(step.projector.coupling.constraint, over > 2 * self.tolerance, minlength=len(violated))
        n_rows = np.maximum(np.bincount(step.rows.constraint, minlength=len(violated)), 1)
        return dict(zip(step.rows.names, (violated / n_rows).tolist(), strict=True))

    def _decode(self, X: Any, y: Any, constrained: bool, decoding: str) -> tuple[Batch, LabelArray, FloatArray]:
        if decoding not in DECODINGS:
            raise UnknownNameError("decoding", decoding, DECODINGS)
        batch = self.model.encode(X, y)
        step = self._step(batch.with_labels(None), self.constraints if constrained else ())
        gamma = self._gamma() if constrained else 1.0

        def decode(number: int, answer: ShardAnswer) -> tuple[LabelArray, FloatArray]:
            node = answer.posterior.node
            if decoding == "posterior":
                return node.argmax(axis=1).astype(np.int32), node
            if not constrained:
                return step.scores_of(number).argmax().outputs, node
            if gamma == 0.0:
                return node.argmax(axis=1).astype(np.int32), node
            return step.projector.shard_rows[number].q_scores(answer).argmax().outputs, node

        outcome = step.projector.run(step.scores_of, gamma, then=decode, engine=step.engine)
        n_labels = len(self.model.label_names_)
        labels = np.concatenate([np.zeros(0, np.int32), *(found for found, _ in outcome.results)])
        node = np.concatenate([np.zeros((0, n_labels)), *(q for _, q in outcome.results)])
        return batch, labels, node

    def _step(self, batch: Batch, constraints: Sequence[Constraint | Rule]) -> ExpectationStep:
        return ExpectationStep(
            self.model, batch, tuple(constraints), engine_for(self.threads),
            tolerance=self.tolerance, most_evaluations=self.evaluations, most_rounds=self.evaluations,
        )  # fmt: skip

    def _gamma(self) -> float:
        """γ of the last round."""
        return gamma_at(self.gamma, max(self.max_rounds - 1, 0))
