"""Constrained argmax over a corpus, shard by shard: the E-step of CoDL and the prediction of every CCM.

ŷ = argmax_y  score(y) − Σ_k ρ_k d_k(x, y)                            (Chang 2011, eq. 3.2; algorithm 8, line 5)

In the picture of unified EM it is γ = −∞: the posterior is one output that obeys the constraints. Rows over the corpus
are held by prices λ that all instances see (Lagrangian relaxation):

    ŷ_i = argmax_y  score(y) − Σ_k ρ_k d_k(x_i, y) − λ·φ_i(y),    λ_r ≥ 0, or any for an equality, Σ_i φ_ir(ŷ_i) ≤ b_r

φ_r falls where λ_r rises, so that every λ_r is bisected, all of them in the same passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind
from trellis.data.batch import Batch
from trellis.data.on_demand import OnDemand
from trellis.data.ragged import BoolArray, FloatArray, LabelArray
from trellis.data.storage import UNBOUNDED
from trellis.engine import Engine, Placed, shards_of
from trellis.errors import ConstraintError
from trellis.learn.expectation import Expectation
from trellis.learn.penalties import Violations, count_violations, is_learned, no_violations, priced
from trellis.learn.training import Training, rows_in_file, rows_of, scores_of
from trellis.models.model import Model, bare
from trellis.projection import Duals, Item
from trellis.search import Plan, decode, decode_kbest

MOST_PASSES = 16
"""Over the corpus, for the prices of rows over it."""
PRECISE = 0.05
"""Nats up to which such a price is found."""


@dataclass(frozen=True)
class Labelling:
    """Best outputs of a corpus.

    labels : (n_slots,) the best one;  value : Σ_i w_i (score − prices) of the outputs, averaged over the k best
    statistics : of the k best outputs, each with weight 1 / k; None if not asked for, or for an empty corpus
    violations : of them;  proved : share of the instances whose output is known to be the best
    log_free : Σ_i w_i log Z_i, if statistics are collected for a discriminative model
    changed : how many labels are not those of the labelling before
    counts : (n_coupling,) values of the rows over the corpus
    """

    labels: LabelArray
    value: float
    statistics: Any
    violations: Violations
    proved: float
    log_free: float = 0.0
    changed: int = 0
    counts: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class Ask:
    """What is asked of every shard: k outputs at penalties ρ and prices λ of the rows over the corpus, and whether
    their statistics are collected."""

    model: Model
    rho: FloatArray
    beam: int
    k: int
    collect: bool
    lam: FloatArray


class ConstrainedArgmax:
    """Instances and their constraints, compiled once for many decodings with changing scores and penalties.

    Constraints over the corpus must be hard counts; with ``local_only`` all that tie instances together are left out.
    Known labels of a batch are kept. memory : what the run may use; rows that take too much of it are kept on disk
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
        memory: object = UNBOUNDED,
    ) -> None:
        self.model, self.n_instances, self.beam = model, len(batch), beam
        shards = shards_of(batch)
        parts = OnDemand(len(shards), lambda number: shards[number].of(batch))
        stored = rows_in_file(model, parts, constraints, memory, lambda rows: rows)
        rows = rows_of(model, batch, constraints).canonical() if stored is None else stored[0][0]
        if local_only:
            rows = replace(rows.local(), sparsity=())
        self.names = rows.names
        self.coupling = rows.coupling()
        _refuse_what_has_no_price(self.coupling, rows)

        def item(number: int) -> Item:
            mine = shards[number].instances
            return Item(parts[number], rows.shard(mine.start, mine.stop) if stored is None else stored[1][number], None)

        items: Sequence[Item] = OnDemand(len(shards), item)
        self.placed: Placed[Item] = engine.place(list(items) if stored is None else items, shards)

    def run(self, rho: FloatArray, *, k: int = 1, collect: bool = False) -> Labelling:
        """Decode at the model's parameters and ρ (n_constraints,) for constraints whose strength is "learned"."""
        ask = Ask(bare(self.model), rho, self.beam, k, collect, np.zeros(0))
        if len(self.coupling):
            ask = replace(ask, lam=self._prices(replace(ask, k=1, collect=False)))
        found = list(self.placed.run(label_shard, ask))
        violations, statistics = no_violations(self.names), None
        for one in found:
            violations = violations + one.violations
            if collect:
                statistics = one.statistics if statistics is None else statistics + one.statistics
        return Labelling(
            np.concatenate([np.zeros(0, np.int32), *(one.labels for one in found)]),
            sum(one.value for one in found), statistics, violations,
            sum(one.proved for one in found) / max(self.n_instances, 1), sum(one.log_free for one in found),
            sum(one.changed for one in found), _total(found, len(self.coupling)),
        )  # fmt: skip

    def _prices(self, ask: Ask) -> FloatArray:
        """λ (n_coupling,) at which the rows over the corpus hold, or are the least violated of all that were tried."""
        rows = self.coupling
        unit = 1.0 / np.maximum(np.maximum.reduceat(np.abs(rows.coefficient), rows.start[:-1]), 1e-300)
        low, high = np.where(rows.equality, -np.inf, 0.0), np.full(len(rows), np.inf)
        lam, best, least = np.zeros(len(rows)), np.zeros(len(rows)), (np.inf, np.inf)
        for _ in range(MOST_PASSES):
            found = list(self.placed.run(count_shard, replace(ask, lam=lam)))
            counts = _total(found, len(rows))
            over = (counts - rows.bound) * unit
            judged = (float((rows.excess(counts) * unit).sum()), float(np.abs(lam / unit).sum()))
            if judged < least:
                best, least = lam, judged
            # what held at this price before and does not now was moved by the others: it is looked for anew
            high = np.where(over > 0, np.where(high <= lam, np.inf, high), np.minimum(high, lam))
            low = np.where(over > 0, lam, np.where(low < lam, low, np.where(rows.equality, -np.inf, 0.0)))
            apart, between = high - low > PRECISE * unit, np.isfinite(low) & np.isfinite(high)
            middle = (np.where(between, low, 0.0) + np.where(between, high, 0.0)) / 2.0
            beyond = np.where(np.isinf(high), np.maximum(2.0 * lam, unit), np.minimum(2.0 * lam, -unit))
            new = np.where(over == 0.0, lam, np.where(between, np.where(apart, middle, high), beyond))
            if np.array_equal(new, lam):
                break
            lam = new
        return best


def _total(found: Sequence[Labelling], n: int) -> FloatArray:
    """(n,): the rows over the corpus, summed over shards."""
    return np.sum([one.counts for one in found], axis=0) if found and n else np.zeros(n)


def _refuse_what_has_no_price(coupling: Rows, rows: Rows) -> None:
    soft = np.flatnonzero(coupling.groups.kind[coupling.group] != Kind.HARD)
    if len(soft) or rows.sparsity:
        name = rows.names[int(coupling.constraint[soft[0]])] if len(soft) else rows.sparsity[0].name
        raise ConstraintError(
            f"constraint {name!r} ties instances together and is not a hard count, which is all that CoDL can hold "
            "over a corpus: make it hard, count per sentence, or learn with method 'pr' or 'uem' (of CCM, or on the "
            "command line), which project"
        )


def count_shard(ask: Ask, item: Item, before: LabelArray | None) -> tuple[Labelling, LabelArray | None]:
    """Label one shard, and leave its state as it is."""
    return label_shard(ask, item, before)[0], before


def label_shard(ask: Ask, item: Item, before: LabelArray | None) -> tuple[Labelling, LabelArray]:
    """Label one shard; its state is its last labelling."""
    model, part, rows = ask.model, item.data, priced(item.rows, ask.rho)
    scores, coupling = scores_of(model, part), rows.coupling()
    if len(coupling):
        scores, rows = scores.add(coupling.part, coupling.pull(ask.lam)), rows.local()
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
    counts = np.zeros(len(coupling))
    for y, share in outputs:
        counts += coupling.weighted(part.weights * share).evaluate(y)
    # A checkpoint brings the labels back as numbers that are compared with, and nothing else.
    known = before is not None and before.shape == labels.shape
    changed = int(np.count_nonzero(before != labels)) if known else len(labels)
    sure = float(np.count_nonzero(proved))
    value = part.weights @ value + ask.lam @ counts
    return Labelling(labels, float(value), statistics, violations, sure, log_free, changed, counts), labels


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
        memory: object = UNBOUNDED,
    ) -> None:
        self.training, self.rho, self.k_best = training, rho, k_best
        self.beta, self.relearn, self.smoothing = beta, relearn, smoothing
        self.to_learn: BoolArray = is_learned(constraints)
        self.search = ConstrainedArgmax(
            training.model, training.free_batch, constraints, training.engine, beam=beam, memory=memory
        )  # fmt: skip
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
