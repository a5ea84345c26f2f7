"""The E-step over a corpus: project every shard, collect statistics, and account for the objective.

For instances not fully labelled (known labels clamp them), at parameters θ:

    T(θ; γ) = Σ_i w_i max_q [ E_q[log p_θ] + γ H(q) ] − prices        q obeys the constraints
    statistics = Σ_i w_i E_q[sufficient statistics]

with log p_θ(x, y) of a generative model and log p_θ(y | x) of a discriminative one (Samdani et al. 2012, eq. 6-8 and
algorithm 1). For γ = 1 it is the PR objective, likelihood − KL(q ‖ p) (Ganchev et al. 2010, eq. 4). With α < 1 the
M-step sees (1 − α) p + α q and the objective is L(θ) − α KL (appendix A, eq. 60-62).
Instances whose every label is known contribute log p(x, y), and statistics that never change.

Gradient ascent on the objective takes the place of M-steps in :class:`DirectStep` (Berg-Kirkpatrick et al. 2010,
algorithm 2).

    ∇_w max_q T(q, w) = E_q*[∇_w log p_w(x, y)] + ∇_w log prior(w)

for the best q* at w, whether it is free (then it is the posterior, and this is Fisher's identity for ∇ log p_w(x)) or
obeys constraints: q moves with w, but at the best one that changes nothing to first order. So an E-step gives
value and gradient, and L-BFGS climbs on all weights at once. EM climbs on the same surface, but each of its rounds goes
only as far as the posterior of the round before allows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint, Rule
from trellis.constraints.compilation import rows_in_file
from trellis.constraints.rows import Rows
from trellis.constraints.violations import expected_price
from trellis.data.arrays import split_arrays
from trellis.data.ragged import FloatArray, IntArray
from trellis.engine import Placed
from trellis.errors import DataError, InfeasibleError
from trellis.learn.training import Training, TrainingStep
from trellis.loop.step import StepResult
from trellis.models.lbfgs import Descent, descend
from trellis.models.model import Model, bare, rows_of, scores_of
from trellis.projection import CorpusProjection, Duals, KeyDuals, ProjectionItem, Projector, ShardAnswer, ShardRows
from trellis.projection.kernels import fast_path

T = TypeVar("T")


@dataclass(frozen=True)
class Sums:
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

    def __iadd__(self, other: Sums) -> Sums:
        """The sum; statistics that can be are added in place, since a model's may be as large as the model."""
        statistics = self.statistics
        statistics += other.statistics
        return Sums(
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


@dataclass(frozen=True)
class SolverSettings:
    """How far projections are solved.

    tolerance : of the KKT residual;  evaluations : at most so many per instance, and passes for rows that couple them
    few_dual_steps : solve a single l1/linf block by so many compiled steps, where there is a fast path for that
    memory : what the run may use; rows inside instances that take too much of it are kept on disk, and so are dual
        variables of these steps
    """

    tolerance: float = 1e-3
    evaluations: int = 200
    few_dual_steps: int | None = None
    memory: object = None


class ProjectedStep(TrainingStep[Duals | KeyDuals]):
    """The E-step at a γ ≥ 0 of the free instances under their constraints, compiled once for all rounds.

    alpha : weight of the projected posterior in the statistics;  likelihood : whether it is accounted for
    rows : of these instances, a part of more; rows that couple instances then keep the duals they are given, and
        ``expected`` holds their expectations
    """

    def __init__(
        self,
        training: Training,
        constraints: Sequence[Constraint | Rule],
        solving: SolverSettings | None = None,
        *,
        alpha: float = 1.0,
        likelihood: bool = True,
        rows: Rows | None = None,
    ) -> None:
        super().__init__(training)
        self.alpha, self.likelihood, self.held = alpha, likelihood, rows is not None
        self.expected = np.zeros(0)
        solving = SolverSettings() if solving is None else solving
        model, shard_rows = training.model, None
        parts = training.free_parts
        compiled = partial(rows_of, model, constraints=constraints)
        stored = rows_in_file(constraints, parts, compiled, solving.memory, lambda rows: ShardRows(rows).prepared())
        if stored is None:
            self.rows = compiled(training.free_batch) if rows is None else rows
        else:
            self.rows, shard_rows = Rows.of_shards(model.parts(training.free_batch), stored[0]), stored[1]
        fast = None if solving.few_dual_steps is None else fast_path(self.rows.parts.kind, "few steps")
        if solving.few_dual_steps is not None and fast is None:
            raise DataError(f"few_dual_steps does not support {self.rows.parts.outputs_are}: leave it out")
        self.projector = Projector.of_batches(
            self.rows if fast is None else replace(self.rows, sparsity=()), parts, training.engine,
            tolerance=solving.tolerance, max_evaluations=solving.evaluations, shard_rows=shard_rows,
        )  # fmt: skip
        self.few: Any = None
        if fast is not None:
            self.few = fast.FewStepsProjector(
                self.rows, self.projector.bounds, most_steps=solving.few_dual_steps, tolerance=solving.tolerance,
                items=self.projector.items, engine=training.engine, memory=solving.memory,
            )  # fmt: skip

    @property
    def placed(self) -> list[Placed[Any]]:
        """The shards of the free instances."""
        return [self.projector.placed]

    def initial_state(self, gamma: float, rng: Any = None) -> Duals | KeyDuals:
        """λ = 0 everywhere, in the form that this step begins with."""
        none: Duals | KeyDuals = self.projector.no_duals() if self.few is None else self.few.no_duals(gamma)
        return none

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> Duals | KeyDuals:
        found: Duals | KeyDuals = (self.projector if self.few is None else self.few).read_duals(arrays)
        return found

    def sum_of_duals(self, state: Duals | KeyDuals) -> float:
        return state.size()

    def run(
        self, gamma: float, state: Duals | KeyDuals | None = None, rng: Any = None, *, warn: bool = False
    ) -> StepResult:
        """One E-step at the model's current parameters."""
        rows, model = self.rows, self.training.model
        free = not (len(rows) or rows.sparsity or rows.implicit or len(rows.forbidden))
        plain = gamma == 1.0 and free and getattr(model, "copies", 1) == 1  # q of several views is no view's own
        then = Collect(bare(model), plain, self.likelihood, self.alpha, len(rows.names))
        try:
            scores = partial(scores_of, bare(model))
            outcome = self._projection(warn)(scores, gamma, then=then, duals=state, fold=operator.iadd)
        except InfeasibleError as error:
            if error.instances and len(self.training.labelled_batch):
                number = int(self.training.free[error.instances[0]])
                error.add_note(f"(counted without the fully labelled ones; in the data it is instance {number})")
            raise
        return self._assemble(outcome, gamma, plain)

    def project(
        self,
        gamma: float,
        duals: Any,
        then: Callable[[ProjectionItem, ShardAnswer], T],
        *,
        warn: bool = True,
        fold: Callable[[T, T], T] | None = None,
    ) -> CorpusProjection[T]:
        """Posteriors of all shards of the free instances, handed to ``then``; ``fold`` as in ``Projector.run``."""
        scores = partial(scores_of, bare(self.training.model))
        found: CorpusProjection[T] = self._projection(warn)(scores, gamma, then=then, duals=duals, fold=fold)
        return found

    def _projection(self, warn: bool) -> Callable[..., CorpusProjection[Any]]:
        """The solver's function over all shards."""
        return partial(self.projector.run, warn=warn, held=self.held) if self.few is None else self.few.run

    def _assemble(self, outcome: CorpusProjection[Sums], gamma: float, plain: bool) -> StepResult:
        objective, statistics = -outcome.value, None
        log_likelihood, kl = 0.0, 0.0
        violation: dict[str, float] = {}
        if outcome.results:
            total = outcome.results[0]
            if outcome.largest is not None:
                total = replace(total, largest=(outcome.largest,))
            statistics = total.statistics
            # Of a discriminative model the likelihood is that of the known labels, and log_free is not 0.
            log_likelihood = total.log_given - total.log_free
            violation, prices = self._violation(total)
            if self.held:
                self.expected = total.coupling
                prices = total.prices + float(outcome.duals.row[self.rows.n_local :] @ total.coupling)
            objective -= total.log_free
            if self.alpha < 1.0:
                objective = self.alpha * objective + (1.0 - self.alpha) * log_likelihood
            if not plain and gamma > 0.0:
                # From the optimum V = −γ H(q) − E_q[score] + prices:  KL = −H(q) − E_q[score] + log Z.
                # Of n views, that of all of them.
                minus_entropy = (outcome.value - prices + total.expected_score) / gamma
                n = getattr(self.training.model, "copies", 1)
                kl = max(0.0, n * minus_entropy - total.expected_score + total.log_given)
        given = self.training.known_value()
        known = self.likelihood or plain
        return StepResult(
            self.training.with_supervised(statistics), objective + given, outcome.duals,
            log_likelihood + given if known else None, kl if known and gamma > 0.0 else None, violation,
            outcome.kkt_residual, outcome.evaluations, gamma * outcome.gap,
            None if outcome.converged or self.few is not None else outcome.worst_constraint,
        )  # fmt: skip

    def _violation(self, total: Sums) -> tuple[dict[str, float], float]:
        """Mean excess of each constraint's rows, and what all violations cost."""
        coupling = self.projector.coupling
        over = coupling.excess(total.coupling) if len(coupling) else np.zeros(0)
        excess = total.excess + np.bincount(coupling.constraint, over, minlength=len(total.excess))
        n_rows = total.n_rows + np.bincount(coupling.constraint, minlength=len(excess))
        violation = dict(zip(self.rows.names, (excess / np.maximum(n_rows, 1)).tolist(), strict=True))
        for one in self.rows.implicit:
            if not n_rows[one.constraint]:
                violation.pop(self.rows.names[one.constraint], None)  # not looked at
        prices = total.prices + expected_price(coupling, total.coupling, self.training.free_batch.weights)
        for block, largest in zip(self.rows.sparsity, total.largest, strict=True):
            # The l1/linf statistic: how many labels a key is given, on average over keys.
            violation[block.name] = float(largest.sum()) / max(block.n_keys, 1)
            prices += block.strength * float(largest.sum())
        return violation, prices


@dataclass(frozen=True)
class Collect:
    """What a shard adds to the whole, from its posterior q.

    plain : q is the model's own posterior;  n_constraints : of the corpus
    """

    model: Model
    plain: bool
    likelihood: bool
    alpha: float
    n_constraints: int

    def __call__(self, item: ProjectionItem, answer: ShardAnswer) -> Sums:
        model, part, q = self.model, item.data, answer.posterior
        generative = not model.discriminative
        several = getattr(model, "log_partitions", None)  # of views, some of which may be discriminative
        statistics = model.collect(part, q)
        log_given, log_free, expected = 0.0, 0.0, 0.0
        if self.plain and generative:
            log_given = float(part.weights @ q.log_partition)
        elif self.likelihood or self.alpha < 1.0 or not generative or several is not None:
            scores = scores_of(model, part)
            p = scores.infer(weights=part.weights)
            log_given = float(part.weights @ p.log_partition)
            expected = scores.expected_score(q, part.weights)
            if self.alpha < 1.0:
                statistics = statistics * self.alpha + model.collect(part, p) * (1.0 - self.alpha)
            if several is not None:
                log_given, log_free = (float(part.weights @ found) for found in several(part))
            elif not generative:
                free = model.scores(part).infer() if part.known else p
                log_free = float(part.weights @ free.log_partition)
        mine = item.rows
        # Implicit rows are written out only where more than the bare round was asked for.
        local = mine.local.rows.written_out() if self.likelihood else mine.local.rows
        excess, prices = np.zeros(self.n_constraints), 0.0
        if len(local):
            own = local.expect(q)
            excess = np.bincount(local.constraint, local.excess(own), minlength=len(excess)).astype(np.float64)
            prices = expected_price(local, own, part.weights)
        coupling = mine.coupling.expect(q, part.weights)
        largest = tuple(block.statistic(q.at(block.parts)) for block in mine.sparsity)
        n_rows = np.bincount(local.constraint, minlength=len(excess))
        return Sums(statistics, log_given, log_free, expected, excess, n_rows, prices, coupling, largest)


@dataclass(frozen=True)
class ClimbState:
    """descent : of L-BFGS;  duals : of the last projection."""

    descent: Descent
    duals: Duals | KeyDuals

    def arrays(self) -> dict[str, NDArray[Any]]:
        named = {"descent": self.descent.arrays(), "duals": self.duals.arrays()}
        return {f"{name}.{key}": value for name, own in named.items() for key, value in own.items()}


class DirectStep(TrainingStep[ClimbState]):
    """A round of L-BFGS on the objective of an E-step: an E-step that makes its own M-steps.

    inner : whose posteriors are those of the objective; its model has ``vector``, ``set_vector`` and ``gradient``
    """

    def __init__(self, inner: ProjectedStep) -> None:
        super().__init__(inner.training)
        if not hasattr(self.model, "gradient"):
            raise DataError(f"a {type(self.model).__name__} cannot be trained by gradient ascent: train it by EM")
        self.inner, self.rows = inner, inner.rows
        self.gamma: float | None = None

    @property
    def placed(self) -> list[Placed[Any]]:
        return self.inner.placed

    def initial_state(self, gamma: float, rng: np.random.Generator) -> ClimbState:
        self.gamma = None
        return ClimbState(Descent.begin(self.model.vector()), self.inner.initial_state(gamma))

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> ClimbState:
        own = split_arrays(arrays, ["descent.", "duals."])
        n_weights = len(self.model.vector())
        return ClimbState(Descent.read(own["descent."], n_weights), self.inner.read_state(own["duals."]))

    def run(self, gamma: float, state: ClimbState, rng: Any = None) -> StepResult:
        model: Any = self.model
        if self.gamma is not None and gamma != self.gamma:
            raise DataError("gradient ascent needs a fixed γ: give a number instead of a schedule")
        self.gamma, duals = gamma, state.duals
        at: FloatArray | None = None
        last: StepResult | None = None

        def objective(vector: FloatArray) -> tuple[float, FloatArray]:
            nonlocal at, last, duals
            model.set_vector(vector)
            last = self.inner.run(gamma, duals)
            at, duals = vector, last.state
            return -last.objective - self.training.log_prior(), -model.gradient(last.statistics)

        found = descend(objective, state.descent, tol=0.0)
        assert last is not None
        if found.weights is not at:  # the search ended at another point than the one it tried last
            model.set_vector(found.weights)
        return replace(
            last, statistics=None, objective=-found.objective - self.training.log_prior(),
            state=ClimbState(found, duals), evaluations=found.evaluations, settled=found.converged,
        )  # fmt: skip
