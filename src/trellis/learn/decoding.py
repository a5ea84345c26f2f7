"""Constrained argmax over a corpus, shard by shard: the E-step of CoDL and the prediction of every CCM.

ŷ = argmax_y  score(y) − Σ_k ρ_k d_k(x, y)                            (Chang 2011, eq. 3.2; algorithm 8, line 5)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints import Constraint, Rows, Rule, compile_constraints
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray, LabelArray
from trellis.engine import Engine, Shard, engine_for, shards_of
from trellis.errors import DataError
from trellis.learn.penalties import Violations, count_violations, no_violations, priced, soft_rows
from trellis.models.estimator import Estimator
from trellis.models.model import Model
from trellis.search import Plan, decode, decode_kbest


@dataclass(frozen=True)
class Labelling:
    """Best outputs of a corpus.

    labels : (n_slots,) the best one;  value : Σ_i w_i (score − prices) of the outputs, averaged over the k best
    statistics : of the k best outputs, each with weight 1 / k; None if not asked for, or for an empty corpus
    violations : of them;  proved : share of the instances whose output is known to be the best
    """

    labels: LabelArray
    value: float
    statistics: Any
    violations: Violations
    proved: float


class ConstrainedArgmax:
    """Instances and their constraints, compiled once for many decodings with changing scores and penalties.

    Constraints must concern single instances; with ``local_only`` those that tie instances together are left out
    instead of refused. Known labels of a batch are kept.
    """

    def __init__(
        self,
        model: Model,
        batch: Batch,
        constraints: Sequence[Constraint | Rule],
        engine: Engine,
        *,
        beam: int = 50,
        local_only: bool = False,
    ) -> None:
        self.model, self.batch, self.engine, self.beam = model, batch, engine, beam
        self.shards = shards_of(batch)
        self.parts = [shard.of(batch) for shard in self.shards]
        rows = rows_of(model, batch, constraints)
        if local_only:
            rows = replace(rows.local(), sparsity=())
        self.names = rows.names
        tying = rows.coupling()
        self.coupling: str | None = None
        """Name of a constraint that ties instances together, where there is one."""
        if len(tying) or rows.sparsity:
            self.coupling = rows.names[int(tying.constraint[0])] if len(tying) else rows.sparsity[0].name
        self.rows = [rows.shard(s.instances.start, s.instances.stop) for s in self.shards]

    def run(self, rho: FloatArray, *, k: int = 1, collect: bool = False) -> Labelling:
        """Decode at the model's parameters and ρ (n_constraints,) for constraints whose strength is "learned"."""

        def work(shard: Shard) -> Labelling:
            part, rows = self.parts[shard.index], priced(self.rows[shard.index], rho)
            scores = self.model.scores(part)
            if part.known:
                scores = scores.clamp(part.labels)
            if k == 1:
                found = decode(scores, Plan.of(rows), beam=self.beam)
                outputs, value, proved = [(found.outputs, np.ones(len(part)))], found.value, found.proved
            else:
                best = decode_kbest(scores, Plan.of(rows), k, beam=self.beam)
                there = best.value > -np.inf
                share = there / np.maximum(there.sum(axis=0), 1)
                outputs = [(np.maximum(y, 0), s) for y, s in zip(best.outputs, share, strict=True)]
                value, proved = (np.where(there, best.value, 0.0) * share).sum(axis=0), best.proved
            return self._sum(part, rows, outputs, value, float(np.count_nonzero(proved)), collect)

        found = list(self.engine.map(work, self.shards))
        violations = no_violations(self.names)
        labels = np.concatenate([np.zeros(0, np.int32), *(one.labels for one in found)])
        value, proved, statistics = 0.0, 0.0, None
        for one in found:
            value, proved, violations = value + one.value, proved + one.proved, violations + one.violations
            if collect:
                statistics = one.statistics if statistics is None else statistics + one.statistics
        return Labelling(labels, value, statistics, violations, proved / max(len(self.batch), 1))

    def _sum(
        self,
        part: Batch,
        rows: Rows,
        outputs: list[tuple[LabelArray, FloatArray]],
        value: FloatArray,
        proved: float,
        collect: bool,
    ) -> Labelling:
        statistics, violations = None, no_violations(self.names)
        for labels, share in outputs:
            weighted = replace(part, labels=labels, weights=part.weights * share)
            violations = violations + count_violations(rows, weighted)
            if collect:
                q = self.model.scores(weighted).certain(labels, weights=weighted.weights)
                counted = self.model.collect(weighted, q)
                statistics = counted if statistics is None else statistics + counted
        return Labelling(outputs[0][0], float(part.weights @ value), statistics, violations, proved)


def rows_of(model: Model, batch: Batch, constraints: Sequence[Constraint | Rule]) -> Rows:
    """The constraints over the parts of a batch, in the order that cutting into shards asks for."""
    parts = model.parts(batch)
    if not constraints:
        return Rows.none(parts)
    return compile_constraints(list(constraints), batch, model.label_names_, parts).canonical()


class CCMPrediction(Estimator):
    """What a constrained conditional model predicts: the best output of its scores less the price of violations.

    Subclasses learn ``model`` and ``penalties_``, ρ by the name of the constraint.
    """

    model: Any
    constraints: Sequence[Constraint | Rule]
    beam: int
    threads: int | None
    penalties_: dict[str, float]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "penalties_")

    def predict(self, X: Any, *, constrained: bool = True) -> list[list[str]]:
        """Labels by name; with ``constrained=False`` the model's own best output.

        Constraints that tie instances together (counts over a corpus) shape training alone and are left out here.
        """
        batch = self._encoded(X, None)
        labels: list[list[str]] = self.model.decode(batch, self.decode(batch, constrained=constrained).labels)
        return labels

    def score(self, X: Any, y: Any = None, *, constrained: bool = True) -> float:
        """Share of the tokens with a known label that ``predict`` labels so."""
        batch = self._encoded(X, y)
        known = batch.labels >= 0
        if not np.any(known):
            raise DataError("no label is known, so there is no accuracy")
        weight = np.repeat(batch.weights, batch.lengths)[known]
        found = self.decode(batch, constrained=constrained).labels
        return float(np.average(found[known] == batch.labels[known], weights=weight))

    def violations(self, X: Any, *, constrained: bool = False) -> dict[str, float]:
        """How often the outputs (without ``constrained`` the model's own) violate each constraint, a token."""
        batch = self._encoded(X, None).with_labels(None)
        labels = self.decode(batch, constrained=constrained).labels
        rows = soft_rows(self.constraints, batch, self.model)
        seen = count_violations(rows, batch.with_labels(labels))
        return dict(zip(seen.names, (seen.excess / max(seen.n_slots, 1.0)).tolist(), strict=True))

    def decode(self, batch: Batch, *, constrained: bool = True) -> Labelling:
        """Best outputs of a batch of the model's ``encode``; its labels are not looked at."""
        constraints = self.constraints if constrained else ()
        step = ConstrainedArgmax(
            self.model, batch.with_labels(None), constraints, engine_for(self.threads), beam=self.beam, local_only=True
        )
        return step.run(np.array([self.penalties_[name] for name in step.names]))

    def _encoded(self, X: Any, y: Any) -> Batch:
        self._check_fitted()
        batch: Batch = self.model.encode(X) if y is None else self.model.encode(X, y)
        return batch
