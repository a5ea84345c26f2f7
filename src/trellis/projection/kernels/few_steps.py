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

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.engine import Engine, SerialEngine, Shard
from trellis.errors import DataError
from trellis.projection.duals import CorpusProjection, Duals
from trellis.projection.kernels import sparse_chain, sparse_step
from trellis.projection.local import LocalState
from trellis.projection.shard import ShardAnswer
from trellis.structures.chain import Chain
from trellis.structures.chain_tables import ChainTables
from trellis.structures.kernels import chain_sum
from trellis.structures.kernels.lanes import with_slack
from trellis.structures.kernels.notice import tell_if_compiling
from trellis.structures.results import LabelPosterior
from trellis.structures.structure import check_gamma

T = TypeVar("T")
Dual = NDArray[Any]

ROWS_A_TASK = 16_384
"""Keys are moved in tasks of about so many rows: by a rule that does not look at the number of workers."""
LARGEST_SINGLE = 256.0
"""Up to this σ/γ dual variables are kept in single precision: a rounding of 32 · 6e-8 nats is far below any gap."""
SLOWER, FASTER, FASTEST = 0.5, 1.1, 1.0
"""Factors of the speed after a step that raised the dual and after one that lowered it, and its limit."""


class FewStepsProjector:
    """One l1/linf block laid out key by key, ready to be stepped on round after round.

    rows : of the whole corpus, with that block and nothing else;  bounds : first instances of the shards
    """

    def __init__(self, rows: Rows, bounds: IntArray, *, most_steps: int, tolerance: float = 1e-3) -> None:
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
        self.shards = [Shard(i, range(int(a), int(b))) for i, (a, b) in enumerate(pairwise(bounds))]
        order = np.argsort(self.block.key, kind="stable")
        self.key_start = np.searchsorted(self.block.key[order], np.arange(self.block.n_keys + 1)).astype(np.int64)
        self.slot_of = (self.block.first[order] // self.n_labels).astype(np.int32)
        row_of = np.full(parts.n_slots, -1, np.int32)
        row_of[self.slot_of] = np.arange(len(order), dtype=np.int32)
        first_slots = parts.offsets[bounds]
        self.row_of: list[LabelArray] = [row_of[int(a) : int(b)] for a, b in pairwise(first_slots)]
        self.tasks = self._tasks()
        self._marginal: Dual | None = None

    def _tasks(self) -> list[Shard]:
        n_rows = len(self.slot_of)
        ideal = np.arange(0, n_rows + ROWS_A_TASK, ROWS_A_TASK)
        cuts = np.unique(np.searchsorted(self.key_start, np.minimum(ideal, n_rows)))
        cuts = np.unique(np.concatenate(([0], cuts, [self.block.n_keys]))).tolist()
        return [Shard(i, range(a, b)) for i, (a, b) in enumerate(pairwise(cuts))]

    def no_duals(self, gamma: float) -> Duals:
        """θ = 0: rows by key. ``curvature`` holds what the steps remember: the speed, and thresholds."""
        kind = np.float32 if self.block.strength / gamma <= LARGEST_SINGLE else np.float64
        levels = np.zeros((self.block.n_keys, self.n_labels), kind)
        return Duals(
            np.zeros(0), (np.zeros((len(self.slot_of), self.n_labels), kind),), (np.ones(2), levels)
        )  # fmt: skip

    def run(
        self,
        scores_of: Callable[[int], Any],
        gamma: float = 1.0,
        *,
        then: Callable[[int, ShardAnswer], T],
        weights: FloatArray | None = None,
        duals: Duals | None = None,
        engine: Engine | None = None,
    ) -> CorpusProjection[T]:
        """Take steps; ``then(shard number, answer)`` is called on each shard's posterior at the last evaluation.

        duals : of the round before. They are moved in place, and are those of the outcome
        """
        engine = SerialEngine() if engine is None else engine
        if gamma == 0.0:
            raise DataError("few_dual_steps needs γ > 0: leave it out for LP-EM")
        gamma, radius = check_gamma(gamma), self.block.strength / gamma
        duals = self.no_duals(gamma) if duals is None else duals
        theta, (memory, level) = duals.sparsity[0], (duals.curvature[0], duals.curvature[1])
        if memory is None or level is None or len(theta) != len(self.slot_of):
            raise DataError("these duals are not of few_dual_steps over this corpus")
        if memory[1] != gamma:
            # λ = γθ is what is carried from one γ to another.
            theta *= memory[1] / gamma
            level *= memory[1] / gamma
            memory[1] = gamma
        if self._marginal is None or self._marginal.dtype != theta.dtype:
            self._marginal = np.zeros_like(theta)
        marginal, largest = self._marginal, np.zeros((self.block.n_keys, self.n_labels))
        tempered: dict[int, tuple[ChainTables, ChainTables]] = {}

        def one(shard: Shard, last: bool) -> tuple[float, T | None]:
            number = shard.index
            mine = None if weights is None else weights[shard.instances.start : shard.instances.stop]
            chain = _tempered(scores_of(number).as_chain(), gamma, tempered)
            answer = _evaluate(chain, self.row_of[number], theta, marginal, mine, whole=last)
            return answer.value, then(number, answer) if last else None

        def move(task: Shard) -> FloatArray:
            sums = np.zeros(3)
            sparse_step.step_keys(
                theta, marginal, self.key_start, task.instances.start, task.instances.stop, radius,
                memory[0], level, largest, sums,
            )  # fmt: skip
            return sums

        before, rounding, evaluations, residual, results = np.inf, 0.0, 0, np.inf, list[T]()
        last = False
        while not last:
            evaluations += 1
            last = evaluations >= self.most_steps or residual <= self.tolerance or radius == 0.0
            value = 0.0
            for shard_value, result in engine.map(partial(one, last=last), self.shards):
                value += shard_value
                if result is not None:
                    results.append(result)
            if evaluations > 1:
                memory[0] = memory[0] * SLOWER if value > before + rounding else min(memory[0] * FASTER, FASTEST)
            before, gap, residual, pull = value, 0.0, 0.0, 0.0
            if radius > 0.0:
                for sums in engine.map(move, self.tasks):
                    gap += float(sums[0])
                    residual = max(residual, float(sums[1]))
                    pull += float(sums[2])
            # Near the optimum the dual changes by less than what rounding θ does to it.
            rounding = 1e-13 * abs(value) + float(np.finfo(theta.dtype).eps) * (1.0 + pull)
        return CorpusProjection(
            results, duals, -gamma * (value - gap), residual, self.block.name, evaluations,
            residual <= self.tolerance, gap, largest,
        )  # fmt: skip


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


def _evaluate(
    chain: Chain, row_of: LabelArray, theta: Dual, marginal: Dual, weights: FloatArray | None, *, whole: bool
) -> ShardAnswer:
    """One shard at θ: its marginals go to ``marginal``; with ``whole`` posterior and edge counts are kept."""
    tell_if_compiling(sparse_chain.infer_tilted)
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
