"""Constrained argmax over a corpus, shard by shard: the E-step of CoDL and the prediction of every CCM.

ŷ = argmax_y  score(y) − Σ_k ρ_k d_k(x, y)                            (Chang 2011, eq. 3.2; algorithm 8, line 5)

In the picture of unified EM it is γ = −∞: the posterior is one output that obeys the constraints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.constraints.rows import Rows
from trellis.data.batch import Batch
from trellis.data.ragged import BoolArray, FloatArray, LabelArray
from trellis.engine import Engine, Placed, shards_of
from trellis.errors import ConstraintError
from trellis.learn.expectation import Expectation
from trellis.learn.penalties import Violations, count_violations, is_learned, no_violations, priced
from trellis.learn.training import Training, rows_of, scores_of
from trellis.models.model import Model, bare
from trellis.projection import Duals, Item
from trellis.search import Plan, decode, decode_kbest


@dataclass(frozen=True)
class Labelling:
    """Best outputs of a corpus.

    labels : (n_slots,) the best one;  value : Σ_i w_i (score − prices) of the outputs, averaged over the k best
    statistics : of the k best outputs, each with weight 1 / k; None if not asked for, or for an empty corpus
    violations : of them;  proved : share of the instances whose output is known to be the best
    log_free : Σ_i w_i log Z_i, if statistics are collected for a discriminative model
    changed : how many labels are not those of the labelling before
    """

    labels: LabelArray
    value: float
    statistics: Any
    violations: Violations
    proved: float
    log_free: float = 0.0
    changed: int = 0


@dataclass(frozen=True)
class Ask:
    """What is asked of every shard: k outputs at penalties ρ, and whether their statistics are collected."""

    model: Model
    rho: FloatArray
    beam: int
    k: int
    collect: bool


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
        self.model, self.n_instances, self.beam = model, len(batch), beam
        rows = rows_of(model, batch, constraints).canonical()
        if local_only:
            rows = replace(rows.local(), sparsity=())
        self.names = rows.names
        tying = rows.coupling()
        self.coupling: str | None = None
        """Name of a constraint that ties instances together, where there is one."""
        if len(tying) or rows.sparsity:
            self.coupling = rows.names[int(tying.constraint[0])] if len(tying) else rows.sparsity[0].name
        shards = shards_of(batch)
        items = [Item(s.of(batch), rows.shard(s.instances.start, s.instances.stop), None) for s in shards]
        self.placed: Placed[Item] = engine.place(items, shards)

    def run(self, rho: FloatArray, *, k: int = 1, collect: bool = False) -> Labelling:
        """Decode at the model's parameters and ρ (n_constraints,) for constraints whose strength is "learned"."""
        found = list(self.placed.run(label_shard, Ask(bare(self.model), rho, self.beam, k, collect)))
        violations, statistics = no_violations(self.names), None
        for one in found:
            violations = violations + one.violations
            if collect:
                statistics = one.statistics if statistics is None else statistics + one.statistics
        return Labelling(
            np.concatenate([np.zeros(0, np.int32), *(one.labels for one in found)]),
            sum(one.value for one in found), statistics, violations,
            sum(one.proved for one in found) / max(self.n_instances, 1), sum(one.log_free for one in found),
            sum(one.changed for one in found),
        )  # fmt: skip


def label_shard(ask: Ask, item: Item, before: LabelArray | None) -> tuple[Labelling, LabelArray]:
    """Label one shard; its state is its last labelling."""
    model, part, rows = ask.model, item.data, priced(item.rows, ask.rho)
    scores = scores_of(model, part)
    if ask.k == 1:
        found = decode(scores, Plan.of(rows), beam=ask.beam)
        outputs, value, proved = [(found.outputs, np.ones(len(part)))], found.value, found.proved
    else:
        best = decode_kbest(scores, Plan.of(rows), ask.k, beam=ask.beam)
        there = best.value > -np.inf
        share = there / np.maximum(there.sum(axis=0), 1)
        outputs = [(np.maximum(y, 0), s) for y, s in zip(best.outputs, share, strict=True)]
        value, proved = (np.where(there, best.value, 0.0) * share).sum(axis=0), best.proved
    statistics, violations = _counted(ask, part, rows, outputs)
    log_free = 0.0
    if ask.collect and model.discriminative:
        log_free = float(part.weights @ model.scores(part).infer().log_partition)
    labels = outputs[0][0]
    # A checkpoint brings the labels back as numbers that are compared with, and nothing else.
    known = before is not None and before.shape == labels.shape
    changed = int(np.count_nonzero(before != labels)) if known else len(labels)
    sure = float(np.count_nonzero(proved))
    return Labelling(labels, float(part.weights @ value), statistics, violations, sure, log_free, changed), labels


def _counted(ask: Ask, part: Batch, rows: Rows, outputs: list[tuple[LabelArray, FloatArray]]) -> tuple[Any, Violations]:
    """Statistics (where they are collected) and violations of weighted outputs."""
    statistics, violations = None, no_violations(rows.names)
    for labels, share in outputs:
        weighted = replace(part, labels=labels, weights=part.weights * share)
        violations = violations + count_violations(rows, weighted)
        if ask.collect:
            q = ask.model.scores(weighted).certain(labels, weights=weighted.weights)
            counted = ask.model.collect(weighted, q)
            statistics = counted if statistics is None else statistics + counted
    return statistics, violations


class ArgmaxStep:
    """The E-step of CoDL: label the free instances, and with ``relearn`` learn ρ anew from the labelling.

    rho : ρ₀ (n_constraints,);  beta : weight of ρ₀ where ρ is learned anew
    Carried from round to round: ρ, and each shard's labels.
    """

    def __init__(
        self,
        training: Training,
        constraints: Sequence[Constraint | Rule],
        rho: FloatArray,
        *,
        beam: int,
        k_best: int,
        beta: float | None,
        relearn: bool,
        smoothing: float,
    ) -> None:
        self.training, self.rho, self.k_best = training, rho, k_best
        self.beta, self.relearn, self.smoothing = beta, relearn, smoothing
        self.to_learn: BoolArray = is_learned(constraints)
        self.search = ConstrainedArgmax(
            training.model, training.free_batch, constraints, training.engine, beam=beam
        )  # fmt: skip
        if self.search.coupling is not None:
            raise ConstraintError(
                f"constraint {self.search.coupling!r} ties instances together, but CoDL labels one at a time: count "
                "per sentence, or learn with method 'pr' or 'uem' (of CCM, or on the command line), which project"
            )
        self._left: Duals | None = None

    @property
    def placed(self) -> list[Placed[Any]]:
        return [self.search.placed]

    def nothing(self, gamma: float) -> Duals:
        return Duals(self.rho, (), tuple(None for _ in self.search.placed.shards))

    def run(self, gamma: float, duals: Duals | None) -> Expectation:
        training, placed = self.training, self.search.placed
        if duals is None or duals is not self._left:
            duals = self.nothing(gamma) if duals is None else duals
            placed.restore(list(duals.memory))
        found = self.search.run(duals.row, k=self.k_best, collect=True)
        rho = self._relearned(found)
        self._left = Duals(rho, (), tuple(labels.astype(np.float64) for labels in placed.states))
        seen = found.violations
        violation = dict(zip(seen.names, (seen.excess / np.maximum(seen.rows, 1.0)).tolist(), strict=True))
        # The same labels and the same prices give the same parameters for ever.
        settled = self.k_best == 1 and found.changed == 0 and np.array_equal(rho, duals.row)
        return Expectation(
            training.with_supervised(found.statistics), found.value - found.log_free + training.known_value(), None,
            None, violation, self._left, 0.0, 0, settled=bool(settled),
        )  # fmt: skip

    def _relearned(self, found: Labelling) -> FloatArray:
        """ρ after a round: β ρ₀ + (1 − β) ρ of the round's labelling."""
        if not self.relearn or self.beta is None:
            return self.rho
        mixed = self.beta * self.rho + (1.0 - self.beta) * found.violations.penalties(self.smoothing)
        return np.where(self.to_learn, mixed, self.rho)
