"""The E-step over a corpus: project every shard, collect statistics, and account for the objective.

For instances not fully labelled (known labels clamp them), at parameters θ:

    T(θ; γ) = Σ_i w_i max_q [ E_q[log p_θ] + γ H(q) ] − prices        q obeys the constraints
    statistics = Σ_i w_i E_q[sufficient statistics]

with log p_θ(x, y) of a generative model and log p_θ(y | x) of a discriminative one (Samdani et al. 2012, eq. 6-8 and
algorithm 1). For γ = 1 it is the PR objective, likelihood − KL(q ‖ p) (Ganchev et al. 2010, eq. 4). With α < 1 the
M-step sees (1 − α) p + α q and the objective is L(θ) − α KL (appendix A, eq. 60-62).
Instances whose every label is known contribute log p(x, y), and statistics that never change.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from trellis.constraints import Constraint, Rule, compile_constraints
from trellis.constraints.price import expected_price
from trellis.constraints.rows import Rows
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.shards import shard_bounds
from trellis.engine import Engine, Shard, map_sum, shards_of
from trellis.errors import DataError, InfeasibleError
from trellis.models.model import Model
from trellis.projection import CorpusProjection, Duals, Projector, ShardAnswer
from trellis.projection.kernels import fast_path
from trellis.structures import Structure

T = TypeVar("T")


@dataclass(frozen=True)
class Expectation:
    """What an E-step hands to the M-step and to the history.

    statistics : of all instances;  objective : without the prior
    log_likelihood, kl : None where they were not asked for, or are not known
    violation : constraint name -> mean excess of its rows under q
    gap : by at most how much a better q could raise the objective; 0 where the residual alone says so
    unsolved : the worst constraint, where the projection ended above its tolerance
    """

    statistics: Any
    objective: float
    log_likelihood: float | None
    kl: float | None
    violation: dict[str, float]
    duals: Duals
    kkt_residual: float
    evaluations: int
    gap: float = 0.0
    unsolved: str | None = None


@dataclass(frozen=True)
class _Sums:
    """What a shard adds to the whole.

    log_given : Σ w log Z over outputs that agree with what is known;  log_free : over all, of a discriminative model
    excess, n_rows : (n_constraints,) of local rows, and how many they are;  prices : of local rows
    coupling : (n_coupling,) expectations;  largest : (n_keys, width) maxima of each l1/linf block
    """

    statistics: Any
    log_given: float
    log_free: float
    expected_score: float
    excess: FloatArray
    n_rows: IntArray
    prices: float
    coupling: FloatArray
    largest: tuple[FloatArray, ...]

    def __iadd__(self, other: _Sums) -> _Sums:
        """The sum; statistics that can be are added in place, since a model's may be as large as the model."""
        statistics = self.statistics
        statistics += other.statistics
        return _Sums(
            statistics,
            self.log_given + other.log_given,
            self.log_free + other.log_free,
            self.expected_score + other.expected_score,
            self.excess + other.excess,
            self.n_rows + other.n_rows,
            self.prices + other.prices,
            self.coupling + other.coupling,
            tuple(np.maximum(a, b) for a, b in zip(self.largest, other.largest, strict=True)),
        )


class ExpectationStep:
    """A corpus, its constraints compiled, and how E-steps over it run.

    labelled : numbers of the fully labelled instances;  free : of the others, on which constraints act
    use_labelled : whether labelled instances enter statistics and objective (CoDL's β brings them in otherwise)
    few_dual_steps : solve a single l1/linf block by so many compiled steps, where there is a fast path for that
    """

    def __init__(
        self,
        model: Model,
        batch: Batch,
        constraints: Sequence[Constraint | Rule],
        engine: Engine,
        *,
        tolerance: float = 1e-3,
        most_evaluations: int = 200,
        most_rounds: int = 200,
        use_labelled: bool = True,
        few_dual_steps: int | None = None,
    ) -> None:
        self.model, self.engine, self.use_labelled = model, engine, use_labelled
        complete = batch.complete
        self.labelled: IntArray = np.flatnonzero(complete)
        self.free: IntArray = np.flatnonzero(~complete)
        self.free_batch = batch.take(self.free)
        self.free_parts = [shard.of(self.free_batch) for shard in shards_of(self.free_batch)]
        labelled = batch.take(self.labelled)
        self.labelled_shards = shards_of(labelled)
        self.labelled_parts = [shard.of(labelled) for shard in self.labelled_shards]
        self.clamped = [part.known for part in self.free_parts]
        self.rows = self._compile(constraints)
        bounds = shard_bounds(self.free_batch.offsets)
        self.few: Any = None
        if few_dual_steps is not None:
            fast = fast_path(self.rows.parts.kind, "few steps")
            if fast is None:
                raise DataError(f"few_dual_steps knows nothing of {self.rows.parts.outputs_are}: leave it out")
            self.few = fast.FewStepsProjector(self.rows, bounds, most_steps=few_dual_steps, tolerance=tolerance)
        self.projector = Projector(
            self.rows if self.few is None else replace(self.rows, sparsity=()), bounds,
            tolerance=tolerance, most_evaluations=most_evaluations, most_rounds=most_rounds,
        )  # fmt: skip
        self.supervised: Any = None
        if self.labelled_shards:
            self.supervised = map_sum(engine, self._count_labelled, self.labelled_shards)

    @property
    def parts(self) -> list[Batch]:
        """Every batch that the objective looks at, for a discriminative M-step."""
        return [*self.free_parts, *(self.labelled_parts if self.use_labelled else [])]

    def run(
        self,
        gamma: float,
        duals: Duals | None = None,
        *,
        alpha: float = 1.0,
        likelihood: bool = True,
        warn: bool = True,
    ) -> Expectation:
        """One E-step at the model's current parameters."""
        rows = self.rows
        plain = gamma == 1.0 and not (len(rows) or rows.sparsity or rows.implicit or len(rows.forbidden))
        generative = not self.model.discriminative

        def then(number: int, answer: ShardAnswer) -> _Sums:
            part = self.free_parts[number]
            q = answer.posterior
            statistics = self.model.collect(part, q)
            log_given, log_free, expected = 0.0, 0.0, 0.0
            if plain and generative:
                log_given = float(part.weights @ q.log_partition)
            elif likelihood or alpha < 1.0 or not generative:
                scores = self.scores_of(number)
                p = scores.infer(weights=part.weights)
                log_given = float(part.weights @ p.log_partition)
                expected = scores.expected_score(q, part.weights)
                if alpha < 1.0:
                    statistics = statistics * alpha + self.model.collect(part, p) * (1.0 - alpha)
                if not generative:
                    free = self.model.scores(part).infer() if self.clamped[number] else p
                    log_free = float(part.weights @ free.log_partition)
            return self._account(number, answer, part, statistics, (log_given, log_free, expected), likelihood)

        try:
            outcome = self.project(gamma, duals, then, warn=warn, fold=operator.iadd)
        except InfeasibleError as error:
            if error.instances and len(self.labelled):
                number = int(self.free[error.instances[0]])
                error.add_note(f"(counted without the fully labelled ones; in the data it is instance {number})")
            raise
        return self._assemble(outcome, gamma, alpha, likelihood, plain)

    def project(
        self,
        gamma: float,
        duals: Duals | None,
        then: Callable[[int, ShardAnswer], T],
        *,
        warn: bool = True,
        fold: Callable[[T, T], T] | None = None,
    ) -> CorpusProjection[T]:
        """Posteriors of all shards of the free instances, handed to ``then``; ``fold`` as in ``Projector.run``."""
        if self.few is not None:
            found: CorpusProjection[T] = self.few.run(
                self.scores_of, gamma, then=then, weights=self.free_batch.weights, duals=duals, engine=self.engine
            )
            return found
        return self.projector.run(
            self.scores_of, gamma, then=then, weights=self.free_batch.weights, duals=duals, engine=self.engine,
            warn=warn, fold=fold,
        )  # fmt: skip

    def no_duals(self, gamma: float) -> Duals:
        """λ = 0 everywhere, in the form that this step begins with."""
        none: Duals = self.projector.no_duals() if self.few is None else self.few.no_duals(gamma)
        return none

    def scores_of(self, number: int) -> Structure:
        """Scores of a shard of the free instances, known labels clamped."""
        part = self.free_parts[number]
        scores = self.model.scores(part)
        return scores.clamp(part.labels) if self.clamped[number] else scores

    def _compile(self, constraints: Sequence[Constraint | Rule]) -> Rows:
        parts = self.model.parts(self.free_batch)
        if not constraints or len(self.free_batch) == 0:
            return Rows.none(parts)
        return compile_constraints(list(constraints), self.free_batch, self.model.label_names_, parts)

    def _account(
        self,
        number: int,
        answer: ShardAnswer,
        part: Batch,
        statistics: Any,
        logs: tuple[float, float, float],
        likelihood: bool,
    ) -> _Sums:
        mine = self.projector.shard_rows[number]
        # Implicit rows are written out only where more than the bare round was asked for.
        local, q = mine.local.rows.written_out() if likelihood else mine.local.rows, answer.posterior
        excess, prices = np.zeros(len(self.rows.names)), 0.0
        if len(local):
            over = local.excess(local.expect(q))
            excess = np.bincount(local.constraint, over, minlength=len(excess)).astype(np.float64)
            prices = expected_price(local, over, part.weights)
        coupling = mine.coupling.expect(q, part.weights)
        largest = tuple(block.statistic(q.at(block.parts)) for block in mine.sparsity)
        n_rows = np.bincount(local.constraint, minlength=len(excess))
        return _Sums(statistics, *logs, excess, n_rows, prices, coupling, largest)

    def _assemble(
        self, outcome: CorpusProjection[_Sums], gamma: float, alpha: float, likelihood: bool, plain: bool
    ) -> Expectation:
        objective, statistics = -outcome.value, None
        log_likelihood, kl = 0.0, 0.0
        violation: dict[str, float] = {}
        if outcome.results:
            total = outcome.results[0]
            for sums in outcome.results[1:]:
                total += sums
            if outcome.largest is not None:
                total = replace(total, largest=(outcome.largest,))
            statistics = total.statistics
            # Of a discriminative model the likelihood is that of the known labels, and log_free is not 0.
            log_likelihood = total.log_given - total.log_free
            violation, prices = self._violation(total)
            objective -= total.log_free
            if alpha < 1.0:
                objective = alpha * objective + (1.0 - alpha) * log_likelihood
            if not plain and gamma > 0.0:
                # From the optimum V = −γ H(q) − E_q[score] + prices:  KL = −H(q) − E_q[score] + log Z.
                minus_entropy = (outcome.value - prices + total.expected_score) / gamma
                kl = max(0.0, minus_entropy - total.expected_score + total.log_given)
        if self.supervised is not None and self.use_labelled:
            given = float(sum(self.engine.map(self._labelled_value, self.labelled_shards)))
            objective += given
            log_likelihood += given
            statistics = self.supervised if statistics is None else statistics + self.supervised
        known = likelihood or plain
        return Expectation(
            statistics, objective, log_likelihood if known else None, kl if known and gamma > 0.0 else None, violation,
            outcome.duals, outcome.kkt_residual, outcome.evaluations,
            gamma * outcome.gap, None if outcome.converged or self.few is not None else outcome.worst_constraint,
        )  # fmt: skip

    def _violation(self, total: _Sums) -> tuple[dict[str, float], float]:
        """Mean excess of each constraint's rows, and what all violations cost."""
        coupling = self.projector.coupling
        over = coupling.excess(total.coupling) if len(coupling) else np.zeros(0)
        excess = total.excess + np.bincount(coupling.constraint, over, minlength=len(total.excess))
        n_rows = total.n_rows + np.bincount(coupling.constraint, minlength=len(excess))
        violation = dict(zip(self.rows.names, (excess / np.maximum(n_rows, 1)).tolist(), strict=True))
        for one in self.rows.implicit:
            if not n_rows[one.constraint]:
                violation.pop(self.rows.names[one.constraint], None)  # not looked at
        prices = total.prices + expected_price(coupling, over, self.free_batch.weights)
        for block, largest in zip(self.rows.sparsity, total.largest, strict=True):
            # The l1/linf statistic: how many labels a key is given, on average over keys.
            violation[block.name] = float(largest.sum()) / max(block.n_keys, 1)
            prices += block.strength * float(largest.sum())
        return violation, prices

    def _count_labelled(self, shard: Shard) -> Any:
        part = self.labelled_parts[shard.index]
        return self.model.collect(part, self.model.scores(part).certain(part.labels, weights=part.weights))

    def _labelled_value(self, shard: Shard) -> float:
        part = self.labelled_parts[shard.index]
        scores = self.model.scores(part)
        given = scores.score(part.labels)
        if self.model.discriminative:
            given = given - scores.infer().log_partition
        return float(part.weights @ given)
