"""Constrained argmax over a corpus, shard by shard, with multipliers for constraints over the whole corpus.

    ŷ = argmax_y  score(y) − Σ_k ρ_k d_k(x, y)                        (Chang 2011, eq. 3.2; algorithm 8, line 5)

Rows over the corpus are held by prices λ that all instances see (Lagrangian relaxation):

    ŷ_i = argmax_y  score(y) − Σ_k ρ_k d_k(x_i, y) − λ·φ_i(y),    λ_r ≥ 0, or any for an equality, Σ_i φ_ir(ŷ_i) ≤ b_r

φ_r falls where λ_r rises, so that every λ_r is bisected, all of them in the same passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trellis.constraints.penalties import Violations, count_violations, no_violations, priced
from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind
from trellis.data.batch import Batch
from trellis.data.on_demand import OnDemand
from trellis.data.ragged import FloatArray, LabelArray
from trellis.engine import Engine, Piece, Placed, shards_of
from trellis.errors import ConstraintError
from trellis.search.decode import decode, decode_kbest
from trellis.search.progress import Plan
from trellis.structures.structure import Structure

MOST_PASSES = 16
"""Over the corpus, for the prices of rows over it."""
PRECISE = 0.05
"""Nats up to which such a price is found."""

Then = Callable[[Batch, Sequence[Batch]], Any]
"""Of a shard and its answers, each a copy of it with its labels and weights; what comes out adds."""


@dataclass(frozen=True)
class Labelling:
    """Best outputs of a corpus.

    labels : (n_slots,) the best one;  value : Σ_i w_i (score − prices) of the outputs, averaged over the k best
    violations : of them;  proved : share of the instances whose output is known to be the best
    collected : what ``then`` made of the k best outputs, each with weight 1 / k; None if there is none, or no corpus
    changed : how many labels are not those of the labelling before
    counts : (n_coupling,) values of the rows over the corpus
    """

    labels: LabelArray
    value: float
    violations: Violations
    proved: float
    collected: Any = None
    changed: int = 0
    counts: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class SearchItem(Piece):
    """A shard as it is placed on an engine: its instances and their rows."""

    rows: Rows


@dataclass(frozen=True)
class SearchRequest:
    """What is asked of every shard: k outputs at penalties ρ and prices λ of the rows over the corpus."""

    scores_of: Callable[[Any], Structure]
    rho: FloatArray
    beam: int
    k: int
    then: Then | None
    lam: FloatArray


class Searcher:
    """Instances and their constraints, compiled once for many searches with changing scores and penalties.

    rows : over the whole batch; those over the corpus must be hard counts
    shard_rows : rows of each shard, which are local, where ``rows`` are a head alone and they are made on demand
    """

    def __init__(
        self, rows: Rows, batch: Batch, engine: Engine, *, beam: int = 50, shard_rows: Sequence[Rows] | None = None
    ) -> None:
        self.n_instances, self.beam, self.names, self.coupling = len(batch), beam, rows.names, rows.coupling()
        _refuse_what_has_no_price(self.coupling, rows)
        shards = shards_of(batch)

        def item(number: int) -> SearchItem:
            mine = shards[number].instances
            own = rows.shard(mine.start, mine.stop) if shard_rows is None else shard_rows[number]
            return SearchItem(shards[number].of(batch), own)

        items: Sequence[SearchItem] = OnDemand(len(shards), item)
        self.placed: Placed[SearchItem] = engine.place(list(items) if shard_rows is None else items, shards)

    def run(
        self, scores_of: Callable[[Any], Structure], rho: FloatArray, *, k: int = 1, then: Then | None = None
    ) -> Labelling:
        """Search at ρ (n_constraints,) for constraints whose strength is "learned".

        scores_of : scores of a shard from its data, which keep to what is known of it. On a cluster this and ``then``
            go to the workers
        """
        ask = SearchRequest(scores_of, rho, self.beam, k, then, self.prices(scores_of, rho))
        found = list(self.placed.run(label_shard, ask))
        violations, collected = no_violations(self.names), None
        for one in found:
            violations = violations + one.violations
            if then is not None:
                collected = one.collected if collected is None else collected + one.collected
        return Labelling(
            np.concatenate([np.zeros(0, np.int32), *(one.labels for one in found)]),
            sum(one.value for one in found), violations, sum(one.proved for one in found) / max(self.n_instances, 1),
            collected, sum(one.changed for one in found), _total(found, len(self.coupling)),
        )  # fmt: skip

    def prices(self, scores_of: Callable[[Any], Structure], rho: FloatArray) -> FloatArray:
        """λ (n_coupling,) at which the rows over the corpus hold, or are the least violated of all that were tried."""
        rows, ask = self.coupling, SearchRequest(scores_of, rho, self.beam, 1, None, np.zeros(0))
        if not len(rows):
            return np.zeros(0)
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
            f"constraint {name!r} spans several instances and is not a hard count, the only kind that a search can "
            "enforce over a corpus: make it hard, count per sentence, or learn with UEM (method 'pr' or 'uem' of CCM, "
            "or on the command line), which projects"
        )


def count_shard(ask: SearchRequest, item: SearchItem, before: LabelArray | None) -> tuple[Labelling, LabelArray | None]:
    """Label one shard, and leave its state as it is."""
    return label_shard(ask, item, before)[0], before


def label_shard(ask: SearchRequest, item: SearchItem, before: LabelArray | None) -> tuple[Labelling, LabelArray]:
    """Label one shard; its state is its last labelling."""
    part, rows = item.data, priced(item.rows, ask.rho)
    scores, coupling = ask.scores_of(part), rows.coupling()
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
    answers = [replace(part, labels=y, weights=part.weights * share) for y, share in outputs]
    violations, counts = no_violations(rows.names), np.zeros(len(coupling))
    for one in answers:
        violations = violations + count_violations(rows, one)
        counts += coupling.weighted(one.weights).evaluate(one.labels)
    labels: LabelArray = outputs[0][0]
    # A checkpoint brings the labels back as numbers that are compared with, and nothing else.
    known = before is not None and before.shape == labels.shape
    changed = int(np.count_nonzero(before != labels)) if known else len(labels)
    return Labelling(
        labels, float(part.weights @ value + ask.lam @ counts), violations, float(np.count_nonzero(proved)),
        None if ask.then is None else ask.then(part, answers), changed, counts,
    ), labels  # fmt: skip
