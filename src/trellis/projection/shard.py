"""One shard's side of the E-step: from scores and dual variables to posteriors and expectations.

Dual variables that couple instances are given; those of rows inside one instance are solved for here, so what a shard
reports of the coupling ones is the value and gradient of the dual with the local ones already optimal:

    value = Σ_i weight_i · min_{θ_i} [ log Z_i(θ_i, θ_coupling) + b·θ_i + g(θ_i) ]
    expected = Σ_i weight_i E_{q_i}[φ_coupling]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse

from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.projection.kernels import solver
from trellis.projection.local import LocalSolution, ScaledRows, project_local
from trellis.projection.mask import Mask, fold_edge_counts, sum_at
from trellis.structures.categorical import Categorical
from trellis.structures.chain import Chain
from trellis.structures.chain_tables import ChainTables
from trellis.structures.results import Posterior
from trellis.structures.structure import Structure

ANNEALING_FACTOR = 4.0
ANNEALING = tuple(ANNEALING_FACTOR**power for power in range(6, -1, -1))
"""Multiples of γ through which an instance that does not converge is solved."""
PATIENT = 50
"""Who allows fewer evaluations than this does not want every instance to converge, and gets no annealing."""
MOST_RESCUED = 100
"""More instances than this that do not converge are not a hard corner or two but something wrong: they are left."""


@dataclass
class LocalState:
    """Where the solver of a shard's local rows starts: its last answer. The only mutable thing in a projection."""

    theta: FloatArray
    curvature: FloatArray | None = None


@dataclass(frozen=True)
class ShardAnswer:
    """What one evaluation of a shard gives.

    posterior : edge counts are of the model's own matrices, weighted
    tilted : q itself, as scores
    value : Σ_i weight_i (...), see above
    coupling : (n_coupling,) expectations;  sparsity : one (n, K) array of marginals a block
    integral : for γ = 0, which instances are a single output
    """

    posterior: Posterior
    tilted: Chain
    local: LocalSolution | None
    value: float
    coupling: FloatArray
    sparsity: tuple[FloatArray, ...]
    integral: BoolArray | None = None


class ShardRows:
    """The rows of one shard, taken apart once for all rounds."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.mask = Mask.of(rows)
        self.local = rows.local()
        self.scaled = ScaledRows.of(self.local)
        self.coupling = rows.coupling()
        self.sparsity = rows.sparsity
        n_node = rows.parts.n_node_parts
        self._entry_row = self.coupling.entry_row
        self._is_node = self.coupling.part < n_node
        self.node_only = bool(np.all(self._is_node))

    def evaluate(
        self,
        scores: Structure,
        gamma: float,
        theta: FloatArray,
        sparsity: tuple[FloatArray, ...],
        state: LocalState,
        *,
        weights: FloatArray | None,
        tolerance: float,
        most_evaluations: int,
        edge_marginals: bool = False,
    ) -> ShardAnswer:
        """Posteriors at given coupling duals θ (n_coupling,) and l1/linf duals, the local ones solved."""
        model = as_chain(scores)
        masked = self.mask.apply(model)
        n = len(model)
        slot_weight = None if weights is None else np.repeat(weights, np.diff(model.offsets))
        tilted = self._tilt(masked, gamma, theta, sparsity, slot_weight)
        local = None
        pairs = edge_marginals or not self.node_only
        if len(self.local):
            solve = partial(
                project_local, tilted, self.scaled, gamma,
                weights=weights, tolerance=tolerance, most_evaluations=most_evaluations, edge_marginals=pairs,
            )  # fmt: skip
            local = solve(state.theta, state.curvature)
            if most_evaluations >= PATIENT and np.any(local.ending != solver.CONVERGED):
                local = solve(*self._anneal(tilted, gamma, local, tolerance, most_evaluations))
            state.theta, state.curvature = local.reliable_start(self.local)
            q, values = local.posterior, local.value
        else:
            q = tilted.infer(weights=weights, edge_marginals=pairs)
            values = q.log_partition
        weight = np.ones(n) if weights is None else weights
        counts = None
        if isinstance(scores, Chain) and q.edge_counts is not None:
            counts = fold_edge_counts(q.edge_counts, tilted.edge_index, model)
        weighted = q.node if slot_weight is None else q.node * slot_weight[:, None]
        weighted_edge = q.edge
        if q.edge is not None and slot_weight is not None:
            weighted_edge = q.edge * slot_weight[:, None, None]
        return ShardAnswer(
            posterior=Posterior(q.node, q.log_partition, counts, q.edge if isinstance(scores, Chain) else None),
            tilted=tilted,
            local=local,
            value=float(np.dot(weight, values)),
            coupling=self.coupling.expect(weighted, weighted_edge),
            sparsity=tuple(q.node[block.slots] for block in self.sparsity),
        )

    def _anneal(
        self, tilted: Chain, gamma: float, local: LocalSolution, tolerance: float, most_evaluations: int
    ) -> tuple[FloatArray, FloatArray]:
        """Another start for the instances that did not converge: their solution at a high γ, followed down to γ.

        A problem of strong preferences against strong constraints is all corners at a low temperature; at a high one it
        is round, and from each γ' to the next the multipliers λ = γ'·θ change little.
        """
        theta, curvature = (np.array(x) for x in local.reliable_start(self.local))
        for i in np.flatnonzero(local.ending != solver.CONVERGED)[:MOST_RESCUED].tolist():
            mine = self.local.instance == i
            rows = self.rows.shard(i, i + 1).local()
            scaled, chain = ScaledRows.of(rows), tilted.instances(i, i + 1)
            found = np.zeros(len(rows))
            for ratio in ANNEALING:
                step = project_local(
                    chain.tilt(gamma=ratio), scaled, gamma * ratio, found, None,
                    weights=None, tolerance=tolerance, most_evaluations=most_evaluations,
                )  # fmt: skip
                if not np.all(np.isfinite(step.theta)):
                    break
                found = step.theta * ANNEALING_FACTOR
            theta[mine] = found / ANNEALING_FACTOR
        return theta, curvature

    def coupling_covariance(self, answer: ShardAnswer, weights: FloatArray | None) -> FloatArray:
        """Cov_q[φ] of the coupling rows as if slots (and boundaries) were independent: a Hessian to start from.

        Σ_t w_t [ Σ_parts c_r c_s μ − (Σ_parts c_r μ)(Σ_parts c_s μ) ]      over the parts of slot or boundary t
        """
        rows, q = self.coupling, answer.posterior
        k, n_slots = self.rows.parts.n_labels, self.rows.parts.n_slots
        flat = q.node.reshape(-1)
        if not self.node_only and q.edge is not None:
            flat = np.concatenate([flat, q.edge.reshape(-1)])
        mu = flat[rows.part]
        is_edge = rows.part >= n_slots * k
        place = np.where(is_edge, n_slots + (rows.part - n_slots * k) // (k * k), rows.part // k)
        weight = np.ones(n_slots) if weights is None else np.repeat(weights, np.diff(self.rows.parts.offsets))
        root = np.sqrt(weight)[place % max(n_slots, 1)]
        shape = (len(rows), rows.parts.n_parts)
        spread = sparse.csr_matrix((rows.coefficient * np.sqrt(mu) * root, rows.part, rows.start), shape=shape)
        means = sparse.csr_matrix(
            (rows.coefficient * mu * root, (self._entry_row, place)), shape=(len(rows), 2 * n_slots)
        )
        return np.asarray((spread @ spread.T - means @ means.T).todense())

    def q_scores(self, answer: ShardAnswer) -> Chain:
        """q itself as scores, the tilt of the local rows included."""
        if answer.local is None or not len(self.local):
            return answer.tilted
        k, n_slots = answer.tilted.n_labels, answer.tilted.n_slots
        change = -answer.local.theta[self.local.entry_row] * self.local.coefficient
        at, here = self.local.part, self.local.part < n_slots * k
        node = sum_at(at[here], change[here], n_slots * k).reshape(n_slots, k)
        edge = None
        if not np.all(here):
            edge = sum_at(at[~here] - n_slots * k, change[~here], n_slots * k * k).reshape(n_slots, k, k)
        return answer.tilted.tilt(node, edge)

    def _tilt(
        self,
        masked: Chain,
        gamma: float,
        theta: FloatArray,
        sparsity: tuple[FloatArray, ...],
        slot_weight: FloatArray | None,
    ) -> Chain:
        """p^{1/γ} exp(−θ·φ) for the coupling rows and l1/linf blocks, as scores.

        An l1/linf block looks at the largest of q itself and not at sums, so an instance that counts w times shares
        its dual variables among its copies: the tilt is λ/w.
        """
        node: FloatArray | None = None
        edge: FloatArray | None = None
        k, n_slots = masked.n_labels, masked.n_slots
        if len(theta) and np.any(theta):
            change = -theta[self._entry_row] * self.coupling.coefficient
            at, here = self.coupling.part, self._is_node
            node = sum_at(at[here], change[here], n_slots * k).reshape(n_slots, k)
            if not self.node_only:
                edge = sum_at(at[~here] - n_slots * k, change[~here], n_slots * k * k).reshape(n_slots, k, k)
        for block, dual in zip(self.sparsity, sparsity, strict=True):
            if node is None:
                node = np.zeros((n_slots, k))
            if slot_weight is None:
                node[block.slots] -= dual
            else:
                weight = slot_weight[block.slots]
                node[block.slots] -= dual / np.where(weight > 0, weight, np.inf)[:, None]
        if gamma == 1.0 and node is None and edge is None:
            return masked
        # θ = λ/γ is added after scores are divided by γ.
        scaled = masked if gamma == 1.0 else masked.tilt(gamma=gamma)
        return scaled if node is None and edge is None else scaled.tilt(node, edge)


def as_chain(scores: Structure) -> Chain:
    """A categorical as chains of one slot, so that one solver serves both."""
    if isinstance(scores, Chain):
        return scores
    if not isinstance(scores, Categorical):
        raise TypeError(f"projection does not know the structure {type(scores).__name__}")
    n, k = scores.node.shape
    tables = ChainTables(scores.node, np.zeros((1, k, k)), np.zeros(k), np.zeros(k))
    offsets: IntArray = np.arange(n + 1, dtype=np.int64)
    return Chain.over(tables, offsets, first=scores.first)
