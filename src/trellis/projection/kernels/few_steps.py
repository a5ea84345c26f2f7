"""The E-step of one l1/linf block over chains, by a few compiled dual steps per round.

    min_θ  Σ_i w_i log Z_i(θ)    s.t. θ ≥ 0,  Σ_{slots t of key w} θ_tk ≤ σ/γ          (Graça et al. 2009, eq. 9)
    q(y) ∝ exp(score(y)/γ − Σ_t θ_{t, y_t})

One *step* is an evaluation (one pass of forward-backward over the shards) and a projected gradient move of θ
(:mod:`trellis.projection.kernels.sparse_step`). A round takes ``most_steps`` of them, or fewer once the residual is
below the tolerance, starts where the last round ended, and hands to the M-step the posterior of its last evaluation.
The move made after that evaluation is where the next round begins.

*What is exact.* θ is always feasible, so q is the exact PR posterior of *some* dual point, its statistics are exactly
those of q, and the value reported is what this q attains (a lower bound on the maximum over q):

    E_q[score] + γ H(q) − σ Σ_wk max_t q_tk  =  γ (Σ_i w_i log Z_i − gap),     gap = (σ/γ) Σ_wk max_t q_tk − θ·q ≥ 0

*What is approximate.* With few steps q is not yet the maximiser; γ·gap says by at most how much the objective could
still rise in this E-step. With enough steps the residual goes to 0 and the answer is that of the general solver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import Rows
from trellis.data.on_demand import OnDemand
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.data.storage import Storage, mapped_zeros, release_mapped
from trellis.engine import Engine, SerialEngine, Shard
from trellis.errors import DataError
from trellis.projection.duals import CorpusProjection, KeyDuals, put
from trellis.projection.kernels import sparse_chain, sparse_step
from trellis.projection.local import LocalState
from trellis.projection.shard import ProjectionItem, ShardAnswer
from trellis.structures.chain import Chain
from trellis.structures.chain_tables import ChainTables
from trellis.structures.kernels import chain_sum
from trellis.structures.kernels.lanes import with_slack
from trellis.structures.results import LabelPosterior
from trellis.structures.structure import check_gamma

T = TypeVar("T")
Dual = NDArray[Any]

ROWS_A_TASK = 16_384
"""Keys are moved in tasks of about so many rows: by a rule that does not look at the number of workers."""
LARGEST_SINGLE = 256.0
"""Up to this σ/γ dual variables are kept in single precision: a rounding of 32 · 6e-8 nats is far below any gap."""
SLOWER, FASTER, FASTEST, ENOUGH = 0.5, 1.1, 1.0, 0.01
"""Factors of the speed after a step that did not lower the dual by ENOUGH of what it promised and after one that did,
and its limit. Neighbours under one key bend the dual more than each alone: steps of twice the right length would go to
and fro over the optimum for ever, and hardly raise the dual."""


@dataclass(frozen=True)
class _Slots:
    """A shard: what its scores are made of, the row of θ of each of its slots (−1: none) counted from the first of its
    own, and its instances' weights."""

    data: Any
    row_of: LabelArray
    weights: FloatArray | None


@dataclass(frozen=True)
class _Keys:
    """A task: a run of keys that are moved together.

    start : (n_keys + 1,) first row of each key;  inverse : (n_rows,) 1/w of their instances, rows by key
    rows : (n_rows,) where these rows are among those of the task, which stand as in the text
    """

    start: IntArray
    inverse: Dual
    rows: LabelArray


@dataclass(frozen=True)
class _Ask:
    """What an evaluation asks of every shard; ``then`` only of the last. ``tempered`` remembers tables at γ."""

    scores_of: Callable[[Any], Any]
    gamma: float
    then: Callable[[Any, ShardAnswer], Any] | None
    tempered: dict[int, tuple[ChainTables, ChainTables]] = field(default_factory=dict)


class FewStepsProjector:
    """One l1/linf block laid out key by key, ready to be stepped on round after round.

    rows : of the whole corpus, with that block and nothing else;  bounds : first instances of the shards
    items : the shards, else their numbers are what scores are made of, with these ``weights``
    memory : what the run may use (:func:`trellis.data.storage.bytes_of`); dual variables that take too much of it are
        kept on disk
    """

    def __init__(
        self,
        rows: Rows,
        bounds: IntArray,
        *,
        most_steps: int,
        tolerance: float = 1e-3,
        items: Sequence[ProjectionItem] | None = None,
        weights: FloatArray | None = None,
        engine: Engine | None = None,
        memory: object = None,
    ) -> None:
        if len(rows.sparsity) != 1 or len(rows) or len(rows.forbidden):
            found = [*(rows.names if len(rows) or len(rows.forbidden) else ()), *(b.name for b in rows.sparsity[1:])]
            raise DataError(
                "few_dual_steps is for a single few_labels_per constraint on sequences"
                + (f", but there are also: {', '.join(found)}" if found else ", but there is none")
                + ". Leave few_dual_steps out to use the general solver"
            )
        if most_steps < 1:
            raise DataError(f"few_dual_steps must be at least 1, got {most_steps}")
        parts: Any = rows.parts
        self.block, self.n_labels = rows.sparsity[0], rows.sparsity[0].width
        self.most_steps, self.tolerance = most_steps, tolerance
        order = np.argsort(self.block.key, kind="stable")
        self.key_start = np.searchsorted(self.block.key[order], np.arange(self.block.n_keys + 1)).astype(np.int64)
        self.slot_of = (self.block.first[order] // self.n_labels).astype(np.int32)
        """The slot of each row of θ: tasks one after the other, and the rows of each as they stand in the text."""
        n_rows = len(order)
        del order
        self.tasks = self._tasks()
        by_key = [self._in_order_of_text(rows) for rows, _ in self.tasks]
        row_of = np.full(parts.n_slots, -1, np.int32)
        row_of[self.slot_of] = np.arange(n_rows, dtype=np.int32)
        own = [row_of[int(a) : int(b)] for a, b in pairwise(parts.offsets[bounds])]
        self.own_rows = [rows_here[rows_here >= 0] for rows_here in own]
        """Of each shard the rows of θ that belong to its slots, in their order."""
        if items is None:
            cut = [None if weights is None else weights[a:b] for a, b in pairwise(bounds.tolist())]
            items = [ProjectionItem(number, None, mine) for number, mine in enumerate(cut)]
        slots = [
            _Slots(item, np.where(mine >= 0, np.cumsum(mine >= 0) - 1, -1).astype(np.int32), item.weights)
            for item, mine in zip(items, own, strict=True)
        ]
        engine = SerialEngine() if engine is None else engine
        shards = [Shard(i, range(int(a), int(b))) for i, (a, b) in enumerate(pairwise(bounds))]
        self.placed = engine.place(slots, shards)
        weight = np.ones(parts.n_instances)
        for item, (a, b) in zip(items, pairwise(bounds.tolist()), strict=True):
            if item.weights is not None:
                weight[a:b] = item.weights
        of_row = weight[np.searchsorted(parts.offsets, self.slot_of, side="right") - 1]
        inverse = (1.0 / np.where(of_row > 0, of_row, 1.0)).astype(np.float32)
        self.steps = engine.place(
            [
                _Keys(self.key_start[keys.start : keys.stop + 1] - rows.start, inverse[rows][own], own)
                for (rows, keys), own in zip(self.tasks, by_key, strict=True)
            ]
        )
        # θ and marginals, in the wider of the two kinds they can have: a rule that does not look at γ
        self.is_on_disk = 2 * 8 * n_rows * self.n_labels > Storage(memory).budget

    def _tasks(self) -> list[tuple[slice, slice]]:
        """Runs of rows and of keys that are moved together."""
        n_rows = len(self.slot_of)
        ideal = np.arange(0, n_rows + ROWS_A_TASK, ROWS_A_TASK)
        cuts = np.unique(np.searchsorted(self.key_start, np.minimum(ideal, n_rows)))
        bounds = np.unique(np.concatenate(([0], cuts, [self.block.n_keys]))).tolist()
        return [(slice(int(self.key_start[a]), int(self.key_start[b])), slice(a, b)) for a, b in pairwise(bounds)]

    def _in_order_of_text(self, rows: slice) -> LabelArray:
        """Put the rows of a task into the order of the text, and return where the rows of its keys now are.

        So those of a shard lie together, in few pages where θ is on disk.
        """
        by_text = np.argsort(self.slot_of[rows])
        self.slot_of[rows] = self.slot_of[rows][by_text]
        return np.argsort(by_text).astype(np.int32)

    def _zeros(self, kind: Any) -> Dual:
        shape = (len(self.slot_of), self.n_labels)
        return mapped_zeros(shape, kind) if self.is_on_disk else np.zeros(shape, kind)

    def no_duals(self, gamma: float) -> KeyDuals:
        """θ = 0, rows as in ``slot_of``."""
        if gamma == 0.0:
            raise DataError("few_dual_steps needs γ > 0: leave it out for LP-EM")
        kind = np.float32 if self.block.strength / gamma <= LARGEST_SINGLE else np.float64
        levels = np.zeros((self.block.n_keys, self.n_labels), kind)
        return KeyDuals(self._zeros(kind), levels, 1.0, 1.0)

    def read_duals(self, arrays: Mapping[str, NDArray[Any]]) -> KeyDuals:
        """Duals of a checkpoint, if they are of these rows and keys."""
        return KeyDuals.read(arrays, self.no_duals(1.0))

    def run(
        self,
        scores_of: Callable[[Any], Any],
        gamma: float = 1.0,
        *,
        then: Callable[[Any, ShardAnswer], T],
        duals: KeyDuals | None = None,
        fold: Callable[[T, T], T] | None = None,
    ) -> CorpusProjection[T]:
        """Take steps; ``then(item, answer)`` is called on each shard's posterior at the last evaluation.

        duals : of the round before
        """
        duals = self.no_duals(gamma) if duals is None else duals
        gamma, radius = check_gamma(gamma), self.block.strength / gamma
        theta, level, speed, known = duals.theta, duals.level, duals.speed, duals.gamma
        if len(theta) != len(self.slot_of):
            raise DataError("these duals are not of few_dual_steps over this corpus")
        if known != gamma:
            # λ = γθ is what is carried from one γ to another.
            theta, level = theta * theta.dtype.type(known / gamma), level * level.dtype.type(known / gamma)
        largest = np.zeros((self.block.n_keys, self.n_labels))
        before, promised, rounding, evaluations, residual, results = np.inf, 0.0, 0.0, 0, np.inf, list[T]()
        ask, done = _Ask(scores_of, gamma, None), False
        while not done:
            evaluations += 1
            # The last one, unless the step before it has led out of the tolerance again.
            last = evaluations >= self.most_steps or residual <= self.tolerance or radius == 0.0
            results.clear()
            value, marginal = 0.0, self._zeros(theta.dtype)
            own = OnDemand(len(self.own_rows), partial(_rows_of, theta, self.own_rows))
            for number, found in enumerate(self.placed.run(_evaluate, replace(ask, then=then if last else None), own)):
                value += found[0]
                marginal[self.own_rows[number]] = found[1]
                if last:
                    put(results, found[2], fold)
                if self.is_on_disk:
                    release_mapped()
            if evaluations > 1:
                speed = (
                    speed * SLOWER if value > before - ENOUGH * promised + rounding else min(speed * FASTER, FASTEST)
                )
            before, promised, gap, residual, pull = value, 0.0, 0.0, 0.0, 0.0
            if radius > 0.0:
                given = OnDemand(len(self.tasks), partial(_of_task, theta, marginal, level, self.tasks))
                # A task's marginals are used up when it ends, and θ after the step takes their place.
                theta, level = marginal, np.empty_like(level)
                moves = self.steps.run(_move, (radius, speed), given)
                for (rows, keys), (sums, *moved) in zip(self.tasks, moves, strict=True):
                    theta[rows], level[keys], largest[keys] = moved
                    gap += float(sums[0])
                    residual = max(residual, float(sums[1]))
                    pull += float(sums[2])
                    promised += float(sums[3])
            # Near the optimum the dual changes by less than what rounding θ does to it.
            rounding = 1e-13 * abs(value) + float(np.finfo(theta.dtype).eps) * (1.0 + pull)
            done = last and (evaluations >= self.most_steps or residual <= self.tolerance)
        return CorpusProjection(
            results, KeyDuals(theta, level, speed, gamma), -gamma * (value - gap), residual, self.block.name,
            evaluations, residual <= self.tolerance, gap, largest,
        )  # fmt: skip


def _rows_of(theta: Dual, rows: Sequence[IntArray], number: int) -> Dual:
    """θ of one shard."""
    return theta[rows[number]]


def _of_task(
    theta: Dual, marginal: Dual, level: Dual, tasks: Sequence[tuple[slice, slice]], number: int
) -> tuple[Dual, Dual, Dual]:
    """θ, marginals and thresholds of one task."""
    rows, keys = tasks[number]
    return theta[rows], marginal[rows], level[keys]


def _move(
    given: tuple[float, float], keys: _Keys, state: None, own: tuple[Dual, Dual, Dual]
) -> tuple[tuple[FloatArray, Dual, Dual, FloatArray], None]:
    """The step of a run of keys: its sums, the new θ and thresholds, and the largest marginals."""
    theta, marginal, level = own[0][keys.rows], own[1][keys.rows], own[2].copy()
    sums, largest, n = np.zeros(4), np.zeros(own[2].shape), len(keys.start) - 1
    sparse_step.step_keys(theta, marginal, keys.inverse, keys.start, 0, n, *given, level, largest, sums)
    marginal[keys.rows] = theta  # by now it is only room
    return (sums, marginal, level, largest), None


def _evaluate(ask: _Ask, item: _Slots, state: None, theta: Dual) -> tuple[tuple[float, Dual, Any], None]:
    """A shard at θ of its own rows: its value, the marginals of these rows, and what ``then`` makes of it."""
    chain = _tempered(ask.scores_of(item.data.data).as_chain(), ask.gamma, ask.tempered)
    marginal = np.zeros_like(theta)
    answer = _infer(chain, item.row_of, theta, marginal, item.weights, whole=ask.then is not None)
    return (answer.value, marginal, None if ask.then is None else ask.then(item.data, answer)), None


def _tempered(chain: Chain, gamma: float, known: dict[int, tuple[ChainTables, ChainTables]]) -> Chain:
    """score / γ; chains that share tables share the divided ones."""
    if gamma == 1.0:
        return chain
    divided = known.get(id(chain.tables))
    if divided is None or divided[0] is not chain.tables:
        divided = chain.tables, chain.temper(gamma).tables
        known[id(chain.tables)] = divided
    return Chain.over(
        divided[1], chain.offsets, node_index=chain.node_index, edge_index=chain.edge_index, first=chain.first
    )


def _infer(
    chain: Chain, row_of: LabelArray, theta: Dual, marginal: Dual, weights: FloatArray | None, *, whole: bool
) -> ShardAnswer:
    """One shard at θ: its marginals go to ``marginal``; with ``whole`` posterior and edge counts are kept."""
    p, k, n = chain.tables.potentials, chain.n_labels, len(chain)
    given = np.ones(n) if weights is None else weights
    posterior = with_slack((chain.n_slots if whole else 0, k))
    counts_t = with_slack(p.edge.shape, zeros=True)
    log_partition, status = np.empty(n), np.empty(n, np.int8)
    sparse_chain.infer_tilted(
        chain.offsets, p.node, chain.node_index, p.edge, p.edge_t, chain.edge_index, p.start, p.stop, given,
        row_of, theta, marginal, posterior, counts_t, log_partition, status,
    )  # fmt: skip
    chain_sum.add_shifts(
        chain.offsets, p.node_shift, chain.node_index, p.edge_shift, chain.edge_index, p.ends_shift, log_partition
    )
    counts = counts_t.transpose(0, 2, 1) * p.edge
    for i in np.flatnonzero(status == chain_sum.FLAGGED).tolist():
        low, high = int(chain.offsets[i]), int(chain.offsets[i + 1])
        rows = row_of[low:high]
        change = np.zeros((high - low, k))
        if given[i] > 0.0:
            change[rows >= 0] = -theta[rows[rows >= 0]] / given[i]
        one = chain.instances(i, i + 1)
        q = one.add(np.arange(change.size), change.reshape(-1)).infer(weights=given[i : i + 1])
        marginal[rows[rows >= 0]] = q.node[rows >= 0]
        log_partition[i] = q.log_partition[0]
        if whole and q.edge_counts is not None:
            posterior[low:high] = q.node
            counts += q.edge_counts
    return ShardAnswer(
        posterior=LabelPosterior(posterior, log_partition, counts, None),
        tilted=chain,
        local=None,
        state=LocalState(np.zeros(0)),
        value=float(given @ log_partition),
        coupling=np.zeros(0),
        sparsity=(),
    )
