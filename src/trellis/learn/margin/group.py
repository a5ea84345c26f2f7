"""Instances searched in the same way, in shards: the most violating output of each, or the best that agrees with y.

    max_h  w · Φ(x, h) + Δ(y, h) − price(h)        loss-augmented (Chang 2011, eq. 2.11); price: of violated constraints

The loss Δ is the Hamming loss of the structure (:meth:`trellis.structures.Parts.hamming`): the labels of y that h does
not have, or its parts where the structure has no labels; or the model's own ``part_loss``. It is a sum over parts, so
the search is the structure's own argmax or, with constraints, :func:`trellis.search.decode`. Labels that are not known
cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from trellis.constraints import Constraint, Rule
from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.shards import shard_bounds
from trellis.engine import Engine, Placed, Shard
from trellis.learn.margin.scorer import loss_of, sizes_of
from trellis.models.model import bare, rows_of
from trellis.search import Plan, decode
from trellis.search.prices import prices
from trellis.structures import Parts, Structure

BLOCKS = 16
"""Blocks of a group, searched one after the other while the weights move on; each is shared out to workers."""
LEAST = 8
"""Instances to a block at least."""


@dataclass(frozen=True)
class Best:
    """Best outputs of instances.

    value : (n,) w · Φ + Δ − price of the best output of each
    number : (m,) the instances whose value is above the level asked for;  rows : (m, n_weights) their Φ
    constant : (m,) their Δ − price, what of the value is not w · Φ
    """

    value: FloatArray
    number: IntArray
    rows: Any
    constant: FloatArray


@dataclass(frozen=True)
class MarginRequest:
    """What is asked of every shard.

    loss : whether Δ is added;  known : whether only outputs that agree with the known labels are looked at
    """

    model: Any
    loss: bool
    known: bool
    beam: int


@dataclass(frozen=True)
class Searched:
    """The instances of a shard, and what is known of their outputs; None: nothing."""

    data: Any
    plan: Plan | None


class Group:
    """Instances of a batch, placed in shards.

    numbers : which of the batch;  sizes : κ(x) (n,);  weights : (n,)
    local_only : leave out constraints that tie instances together, in place of refusing them
    """

    def __init__(
        self,
        model: Any,
        batch: Any,
        numbers: IntArray,
        constraints: Sequence[Constraint | Rule],
        engine: Engine,
        *,
        beam: int = 50,
        local_only: bool = False,
    ) -> None:
        self.model, self.numbers, self.beam = model, numbers, beam
        self.batch = batch.take(numbers)
        self.sizes, self.weights = sizes_of(model, self.batch), self.batch.weights
        rows = rows_of(model, self.batch, constraints).canonical() if constraints else None
        if local_only and rows is not None:
            rows = replace(rows.local(), sparsity=())
        self.bounds = _bounds(self.batch)
        self.blocks = [self._place(engine, rows, low, high) for low, high in pairwise(self.bounds)]

    def _place(self, engine: Engine, rows: Rows | None, low: int, high: int) -> Placed[Searched]:
        """One block, in two shards or as many as its size asks for."""
        part = self.batch.instances(low, high)
        ends = low + np.unique([0, (high - low + 1) // 2, *shard_bounds(part.offsets).tolist()])
        shards = [Shard(i, range(a, b), self.batch.first) for i, (a, b) in enumerate(pairwise(ends.tolist()))]
        items = [
            Searched(self.batch.instances(a, b), None if rows is None else Plan.of(rows.shard(a, b)))
            for a, b in pairwise(ends.tolist())
        ]
        return engine.place(items, shards)

    def __len__(self) -> int:
        return len(self.numbers)

    def block(self, number: int) -> slice:
        """The instances of a block."""
        return slice(self.bounds[number], self.bounds[number + 1])

    def search(
        self,
        *,
        loss: bool = False,
        known: bool = False,
        level: FloatArray | None = None,
        rng: np.random.Generator | None = None,
        block: int | None = None,
    ) -> Best:
        """The best output of each instance at the model's weights.

        level : (n,) features are wanted where the value is above it; None: of all
        rng : draw among outputs that are equally good;  block : of this block alone, numbered inside it
        """
        ask = MarginRequest(bare(self.model), loss, known, self.beam)
        found: list[Best] = []
        numbers: list[int] = []
        at = 0
        for placed in self.blocks if block is None else [self.blocks[block]]:
            sizes = [len(shard.instances) for shard in placed.shards]
            seeds = [None] * len(sizes) if rng is None else rng.integers(2**63, size=len(sizes)).tolist()
            ends = at + np.cumsum([0, *sizes])
            levels = [None if level is None else level[a:b] for a, b in pairwise(ends.tolist())]
            found += placed.run(search_shard, ask, list(zip(levels, seeds, strict=True)))
            numbers += ends[:-1].tolist()
            at = int(ends[-1])
        if len(found) == 1:
            return found[0]
        none = [np.zeros(0)]
        number = [a + one.number for a, one in zip(numbers, found, strict=True)]
        return Best(
            np.concatenate([*none, *(one.value for one in found)]),
            np.concatenate([np.zeros(0, np.int64), *number]),
            sparse.vstack([one.rows for one in found], format="csr") if found else self._nothing(),
            np.concatenate([*none, *(one.constant for one in found)]),
        )

    def given(self) -> tuple[Any, FloatArray]:
        """Φ of the labels given (n, n_weights), and what they pay for constraints they violate (n,).

        A label that breaks a hard constraint pays nothing for it: there is no price.
        """
        found = self._over(count_shard, bare(self.model))
        rows = sparse.vstack([rows for rows, _ in found], format="csr") if found else self._nothing()
        return rows, np.concatenate([np.zeros(0), *(paid for _, paid in found)])

    def outputs(self) -> tuple[Any, FloatArray]:
        """The best outputs, and their scores less prices (n,)."""
        found = self._over(output_shard, MarginRequest(bare(self.model), False, False, self.beam))
        joined = self.model.parts(self.batch).join_outputs([outputs for outputs, _ in found])
        return joined, np.concatenate([np.zeros(0), *(value for _, value in found)])

    def _over(self, work: Any, parameters: Any) -> list[Any]:
        return [one for placed in self.blocks for one in placed.run(work, parameters)]

    def _nothing(self) -> Any:
        return sparse.csr_matrix((0, len(self.model.weights_)))


def _bounds(batch: Any) -> list[int]:
    """Where blocks of about equally many slots begin, and the end; the batch alone decides."""
    n = len(batch)
    count = min(BLOCKS, -(-n // LEAST))
    cuts = np.searchsorted(batch.offsets, np.arange(1, count) * (int(batch.offsets[-1]) / max(count, 1)))
    return [int(at) for at in np.unique([0, *cuts, n])]


def search_shard(
    ask: MarginRequest, item: Searched, state: Any, own: tuple[FloatArray | None, int | None]
) -> tuple[Best, Any]:
    """Best outputs of a shard, features of those above their level."""
    level, seed = own
    model, part = ask.model, item.data
    rng = None if seed is None else np.random.default_rng(seed)
    scores: Structure = model.scores(part)
    if ask.known and part.known:
        scores = scores.clamp(part.labels)
    parts = scores.parts
    loss = loss_of(model, part, parts) if ask.loss else None
    searched = scores if loss is None else loss.add_to(scores)
    if item.plan is None:
        outputs, paid = searched.argmax(rng).outputs, np.zeros(len(scores))
    else:
        outputs, paid = best_outputs(searched, item.plan, ask.beam, rng)
    plain = scores.score(outputs)
    constant = -paid if loss is None else loss.of(outputs) - paid
    value = plain + constant
    chosen = np.arange(len(value)) if level is None else np.flatnonzero(value > level)
    return Best(value, chosen, features(model, part, parts, outputs, chosen), constant[chosen]), state


def output_shard(ask: MarginRequest, item: Searched, state: Any) -> tuple[tuple[Any, FloatArray], Any]:
    """Best outputs of a shard, and their scores less prices."""
    scores: Structure = ask.model.scores(item.data)
    outputs, paid = best_outputs(scores, item.plan, ask.beam, None)
    return (outputs, scores.score(outputs) - paid), state


def best_outputs(
    scores: Structure, plan: Plan | None, beam: int, rng: np.random.Generator | None
) -> tuple[Any, FloatArray]:
    """The outputs with the best score less price, and their prices (n,)."""
    if plan is None:
        return scores.argmax(rng).outputs, np.zeros(len(scores))
    found = decode(scores, plan, beam=beam, rng=rng)
    return found.outputs, np.where(found.value > -np.inf, found.score - found.value, 0.0)


def features(model: Any, part: Any, parts: Parts, outputs: Any, chosen: IntArray) -> Any:
    """Φ of the outputs of chosen instances (m, n_weights)."""
    if len(chosen) == len(part):
        return model.phi(part, outputs)
    pieces = parts.split_outputs(outputs)
    if not len(chosen):
        return sparse.csr_matrix((0, len(model.weights_)))
    return model.phi(part.take(chosen), parts.join_outputs([pieces[i] for i in chosen.tolist()]))


def count_shard(model: Any, item: Searched, state: Any) -> tuple[tuple[Any, FloatArray], Any]:
    """Features and prices of the labels given."""
    part = item.data
    paid = np.zeros(len(part)) if item.plan is None else prices(item.plan.rows, part.labels)
    return (model.phi(part, part.labels), np.where(np.isfinite(paid), paid, 0.0)), state
