"""GE: generalized expectation, which fits a model's expectations to targets.

    max_θ  L(θ) − Σ_g distance_g( E_θ[φ], b ) + log prior(θ)                              (Ganchev et al. 2010, eq. 33)

    penalty l2    σ ‖ξ‖₂            ξ = E − b, of an inequality where it is beyond b
    penalty l1    σ ‖ξ‖₁
    squared       (σ/2) ‖ξ‖₂²
    kl            σ Σ_k b_k log(b_k / E_k) − b_k + E_k
    hard          λ·ξ + (ρ/2) ‖ξ‖₂² at multipliers λ    (the augmented Lagrangian; Nocedal & Wright 2006, chapter 17)

The multipliers of hard targets rise after each round. L is the likelihood of the
labelled instances and, of generative models, that of all that is observed; expectations are over the free ones. The
gradient is a covariance of features and φ (eq. 34), and as φ enters by one direction v = ∂distance/∂E alone,

    ∇ distance = Cov(f, v·φ) = d/dε E_{scores + ε v·φ}[f],

which is a central difference of inference, for any structure that has sums: three passes, however many targets there
are. In the picture of posterior regularization (eq. 35) GE is what remains when q must be the model itself. The same
targets run as PR, UEM, or CoDL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint, Rule
from trellis.constraints.rows import COUPLING, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.constraints.violations import TINY, divergence
from trellis.data.arrays import ArrayOf
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray
from trellis.engine import Placed
from trellis.engine.compiling import compile_ahead
from trellis.errors import ConstraintError, DataError
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.learner import ProjectedLearner
from trellis.learn.measured import MeasuredStep
from trellis.learn.training import STARTS, Training, TrainingStep
from trellis.loop.step import ArrayState, StepResult
from trellis.models.documentation import documented
from trellis.models.lbfgs import Descent, minimise
from trellis.models.model import bare, rows_of, scores_of
from trellis.projection import ProjectionItem

DISTANCES = ("l1", "l2", "squared", "kl")
CORNER = 0.1
"""‖ξ‖₂ is √(‖ξ‖₂² + CORNER²) − CORNER: a target that is met is a corner of the norm, at which L-BFGS would stop; so is
|ξ| of every row in L1."""
STIFF = 20.0
"""ρ of a hard target, over the sum of its squared coefficients, which is about four times its variance at most."""


def distances(
    rows: Rows, expected: FloatArray, distance: str | None, weights: FloatArray, multiplier: FloatArray
) -> tuple[float, FloatArray]:
    """Σ_g w_g distance_g, and its derivative by the expectation of each row (n_rows,), without w.

    distance : for all groups; None: what the strength of each says;  multiplier : (n_rows,) λ of hard rows
    """
    groups, of = rows.groups, rows.group
    kind, norm, amount = groups.kind[of], groups.norm[of], groups.amount[of]
    weight = np.where(rows.instance == COUPLING, 1.0, weights[rows.instance])
    over, stiff, hard = expected - rows.bound, stiffness(rows), kind == Kind.HARD
    pull = multipliers(rows, expected, multiplier)
    held = (pull**2 - multiplier**2) / (2.0 * stiff)
    over = np.where(rows.equality, over, np.maximum(over, 0.0))
    squared = kind == Kind.SQUARED if distance is None else np.full(len(of), distance == "squared")
    single = norm == Norm.L1 if distance is None else np.full(len(of), distance == "l1")
    squares = over**2
    whole = np.bincount(of, squares, minlength=len(groups))[of]
    size = np.sqrt(np.where(single, squares, whole) + CORNER**2)  # of the row alone, or of its group
    rows_of_size = np.where(single, 1, np.bincount(of, minlength=len(groups))[of])
    value = amount * np.where(squared, 0.5 * squares, (size - CORNER) / rows_of_size)
    slope = amount * np.where(squared, 1.0, 1.0 / size) * over
    diverging = kind == Kind.KL if distance is None else np.full(len(of), distance == "kl")
    value = np.where(diverging, divergence(rows, expected), value)
    slope = np.where(diverging, amount * (1.0 - rows.bound / np.maximum(expected, TINY)), slope)
    return float(weight @ np.where(hard, held, value)), np.where(hard, pull, slope)


def stiffness(rows: Rows) -> FloatArray:
    """(n_rows,): ρ of each row."""
    squares = np.bincount(rows.entry_row, rows.coefficient**2, minlength=len(rows))
    return STIFF / np.maximum(squares, 1e-12)


def multipliers(rows: Rows, expected: FloatArray, multiplier: FloatArray) -> FloatArray:
    """λ + ρ ξ of hard rows, at least 0 of inequalities, and 0 of others."""
    pull = multiplier + stiffness(rows) * (expected - rows.bound)
    pull = np.where(rows.equality, pull, np.maximum(pull, 0.0))
    return np.where(rows.groups.kind[rows.group] == Kind.HARD, pull, 0.0)


def check_targets(rows: Rows, distance: str | None) -> None:
    """Say which constraint is no target of an expectation."""

    def fail(number: int, why: str) -> None:
        raise ConstraintError(f"constraint {rows.names[number]!r} {why}")

    if len(rows.forbidden) or rows.sparsity or rows.implicit or rows.checks:
        raise ConstraintError(
            "GE moves the model's own expectations and cannot make an output impossible, nor count labels per word: "
            "give hard rules a penalty, .penalty(σ, 'squared'), and leave few_labels_per to method 'pr'"
        )
    groups, of_group = rows.groups, np.zeros(len(rows.groups), dtype=np.int64)
    of_group[rows.group] = rows.constraint
    for number in of_group[(groups.kind == Kind.SLACK) | (groups.kind == Kind.LEARNED)].tolist():
        fail(number, "has no price: GE takes hard targets and those with a penalty, .penalty(σ, 'squared')")
    if distance is None:
        for number in of_group[(groups.kind == Kind.PENALTY) & (groups.norm == Norm.LINF)].tolist():
            fail(number, "has a norm whose corners GE cannot follow: use 'l1', 'l2', 'squared' or 'kl'")
    if distance == "kl":
        for number in rows.constraint[
            (groups.kind[rows.group] != Kind.HARD) & (~rows.equality | (rows.bound < 0))
        ].tolist():
            fail(
                number, "is no target share, and 'kl' is a distance of shares: write shares({label: share}, where=...)"
            )


GAMMAS = {"ge": 1.0, "pr": 1.0, "uem": 0.5, "codl": 0.0, "measurements": 1.0}
"""γ of the posterior by method."""
ROUNDS_INSIDE = 25
"""Rounds of L-BFGS in one round of the loop, which keeps a history and checkpoints."""
MET = 1e-3
"""A hard target is met to so many tokens, or instances."""
STEP = 1e-4
"""Largest change of a score, in nats, on either side of a central difference."""


def expect_shard(model: Any, item: ProjectionItem, state: Any) -> tuple[FloatArray, Any]:
    """E[φ] of a shard's rows; of rows over the corpus what the shard adds to them."""
    rows = item.rows.weighted(item.data.weights)
    return rows.expect(scores_of(model, item.data).infer(at=rows.part)), state


def derive_shard(model: Any, item: ProjectionItem, state: Any, slope: FloatArray) -> tuple[FloatArray, Any]:
    """Cov(f, slope·φ) of a shard (n_weights,)."""
    rows, scores, largest = item.rows, scores_of(model, item.data), float(np.abs(slope).max(initial=0.0))
    step = STEP / (largest * float(np.max(rows.largest, initial=0.0)) or 1.0)
    gradient = model.vector if model.discriminative else model.gradient
    up, down = (
        gradient(model.collect(item.data, scores.add(rows.part, rows.pull(move)).infer(weights=item.data.weights)))
        for move in (-step * slope, step * slope)
    )
    return (up - down) / (2.0 * step), state


def likelihood_shard(model: Any, item: ProjectionItem, state: Any) -> tuple[tuple[float, Any], Any]:
    """Σ w log p(x) of a shard, and its statistics."""
    q = scores_of(model, item.data).infer(weights=item.data.weights)
    return (float(item.data.weights @ q.log_partition), model.collect(item.data, q)), state


class ExpectationObjective:
    """Negative likelihood and the distances of the free instances, with the gradient."""

    def __init__(self, training: Training, rows: Rows, placed: Placed[ProjectionItem], distance: str | None) -> None:
        self.training, self.rows, self.placed, self.distance = training, rows, placed, distance
        self.multiplier = np.zeros(len(rows))
        self.local = np.cumsum([0, *(item.n_local for item in self._shards())])
        model: Any = training.model
        self.loss = None
        if training.supervised is not None and model.discriminative:
            self.loss = model.loss(training.supervised, [training.labelled])

    def _shards(self) -> list[Rows]:
        cuts = [(s.instances.start, s.instances.stop) for s in self.training.free_shards]
        return [self.rows.shard(a, b) for a, b in cuts]

    def expect(self, model: Any) -> FloatArray:
        """E[φ] of all rows."""
        n_local = int(self.local[-1])
        total = np.zeros(len(self.rows))
        for own, (low, high) in zip(self.placed.run(expect_shard, model), self._cuts(), strict=True):
            total[low:high] = own[: high - low]
            total[n_local:] += own[high - low :]
        return total

    def _cuts(self) -> list[tuple[int, int]]:
        return list(zip(self.local[:-1].tolist(), self.local[1:].tolist(), strict=True))

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        model: Any = self.training.model
        value, gradient = (0.0, np.zeros(len(weights))) if self.loss is None else self.loss(weights)
        if model.discriminative:
            at = model.at(weights)
        else:
            model.set_vector(weights)
            at = bare(model)
            value, gradient = self._likelihood(at)
        expected = self.expect(at)
        distance, slope = distances(
            self.rows, expected, self.distance, self.training.free_batch.weights, self.multiplier
        )
        n_local = int(self.local[-1])
        own = [np.concatenate([slope[low:high], slope[n_local:]]) for low, high in self._cuts()]
        for found in self.placed.run(derive_shard, at, own):
            gradient = gradient + found
        return value + distance, gradient

    def _likelihood(self, at: Any) -> tuple[float, FloatArray]:
        """Of a generative model −log p of all that is observed, and of the prior."""
        training, model = self.training, at
        value, statistics = training.known_value() + training.log_prior(), training.supervised
        for own, counted in self.placed.run(likelihood_shard, at):
            value, statistics = value + own, counted if statistics is None else statistics + counted
        return -value, -model.gradient(statistics)


@dataclass(frozen=True)
class Multipliers(ArrayState):
    """multiplier : (n_rows,) λ of hard targets, 0 elsewhere."""

    multiplier: FloatArray

    ARRAYS: ClassVar = {"multiplier": ArrayOf(np.float64, ("rows",))}


class ExpectationStep(TrainingStep[Multipliers]):
    """Rounds of L-BFGS on the GE objective: an E-step that makes its own M-steps."""

    def __init__(self, training: Training, constraints: Sequence[Constraint | Rule], distance: str | None) -> None:
        super().__init__(training)
        self.distance = distance
        self.rows = rows_of(training.model, training.free_batch, constraints).canonical()
        check_targets(self.rows, distance)
        batch, shards = training.free_batch, training.free_shards
        items = [
            ProjectionItem(s.of(batch), self.rows.shard(s.instances.start, s.instances.stop), None) for s in shards
        ]
        self.free: Placed[ProjectionItem] = training.engine.place(items, shards)
        self.objective = ExpectationObjective(training, self.rows, self.free, distance)

    @property
    def placed(self) -> list[Placed[Any]]:
        return [self.free]

    def _lower(self, model: Any) -> Descent:
        """Rounds of L-BFGS from the present parameters."""
        if model.discriminative:
            made: Descent = model.lower(self.objective, max_iter=ROUNDS_INSIDE)
            return made
        found = minimise(self.objective, model.vector(), max_iter=ROUNDS_INSIDE, tol=0.0)
        model.set_vector(found.weights)
        return found

    @property
    def falls(self) -> bool:
        """Whether some target is hard, so that the objective falls while its multiplier is found."""
        return bool(np.any(self.rows.groups.kind == Kind.HARD))

    def initial_state(self, gamma: float, rng: np.random.Generator) -> Multipliers:
        return Multipliers(np.zeros(len(self.rows)))

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> Multipliers:
        return Multipliers.read(arrays, rows=len(self.rows))

    def run(self, gamma: float, state: Multipliers, rng: np.random.Generator) -> StepResult:
        model: Any = self.training.model
        self.objective.multiplier = state.multiplier
        found = self._lower(model)
        expected, rows = self.objective.expect(bare(model)), self.rows
        n = np.maximum(np.bincount(rows.constraint, minlength=len(rows.names)), 1)
        over = np.bincount(rows.constraint, rows.excess(expected), minlength=len(rows.names)) / n
        hard = rows.groups.kind[rows.group] == Kind.HARD
        return StepResult(
            None, -found.objective - model.log_prior(), Multipliers(multipliers(rows, expected, state.multiplier)),
            self.training.known_value(), violation=dict(zip(rows.names, over.tolist(), strict=True)),
            evaluations=found.evaluations,
            settled=found.converged and not np.any(rows.excess(expected)[hard] > MET),
        )  # fmt: skip


def _in_l1(constraint: Constraint | Rule) -> Constraint | Rule:
    """The same price per unit of violation, in a norm that a linear program can hold."""
    if not isinstance(constraint, Constraint) or constraint.strength.kind not in (Kind.PENALTY, Kind.SQUARED, Kind.KL):
        return constraint
    return constraint.penalty(constraint.strength.amount, "l1")


@documented
@dataclass(eq=False, repr=False)
class GE(ProjectedLearner):
    """Train a log-linear model from target expectations, labelled and unlabelled instances.

    The model's own expectations are fitted to targets such as "a review with *waste* is negative in 80 % of cases"
    (Ganchev et al. 2010, eq. 33).

    Parameters
    ----------
    model : estimator
        Model to train: a :class:`MaxEnt`, :class:`CRF`, :class:`SemiCRF`, :class:`ArcParser`, or an :class:`HMM` with
        ``emissions="features"``. A copy is trained and stored as ``model_``.
    constraints : list of Constraint, default=()
        Targets with a penalty, ``shares({...}, where=...).penalty(σ, "squared")``, or any other comparison. Targets
        without a strength are met exactly.
    method : {"ge", "pr", "uem", "codl", "measurements"}, default="ge"
        How to learn. "pr" projects the posterior onto the same targets, "uem" does so with γ = 0.5, and "codl" with γ =
        0. "measurements" samples labels that are near the targets together (Liang et al. 2009), for small data.
    distance : {"l1", "l2", "squared", "kl"} or None, default=None
        Distance of "ge" for all targets. By default, the norm of each target's penalty.
    start : str, default="auto"
        Initial parameters. "auto" trains on the labelled instances if there are any, and uses weights of 0 otherwise.
    max_iter : int, default=20
        Rounds of training. A round of "ge" consists of 25 steps of L-BFGS.
    random_state : int or None, default=None
        Seed of the random numbers.

    Attributes
    ----------
    history_ : History
        One entry per round; ``violation`` is the mean distance from each target.

    Examples
    --------
    >>> from trellis.constraints import shares, word
    >>> from trellis.models import CRF
    >>> text = [s.split() for s in ("the dog barks", "a dog sleeps", "the cat runs", "a cat barks")]
    >>> known = [({"D": 0.9, "N": 0.05, "V": 0.05}, "the"), ({"D": 0.05, "N": 0.9, "V": 0.05}, "dog")]
    >>> targets = [shares(target, where=word == w).penalty(10.0, "squared") for target, w in known]
    >>> GE(CRF(["D", "N", "V"], l2=0.1), targets).fit(text).predict([["the", "dog"]])
    [['D', 'N']]
    """

    model: Any
    constraints: Sequence[Constraint | Rule] = ()
    _: KW_ONLY
    method: str = "ge"
    distance: str | None = None
    start: str = "auto"
    max_iter: int = 20
    tol: float = 1e-5
    projection_tol: float = 1e-3
    max_evaluations: int = 200
    random_state: int | None = None
    n_jobs: int | None = None
    engine: Any = None
    checkpoint: FilePath | None = None
    checkpoint_every: int = 1
    verbose: bool = False

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        dev: tuple[Any, Any] | None = None,
        resume: bool = False,
    ) -> Self:
        """Train a model like the one given; ``dev`` is (X, y) whose score decides which round is kept."""
        self._check_types()
        self._check_settings(dev)
        compile_ahead(type(self.model).__name__)
        training = self._training(X, y, sample_weight, learned=self.start == "model")
        start = self.start
        if start == "auto":
            start = "uniform" if training.supervised is None else "labelled"
        training.check(needs_labels=start == "labelled")
        step: Any
        if self.method == "ge":
            step = ExpectationStep(training, self.constraints, self.distance)
        elif self.method == "measurements":
            step = MeasuredStep(training, self.constraints)
            check_targets(step.rows, None)
        else:
            constraints = self.constraints if self.method != "codl" else [_in_l1(one) for one in self.constraints]
            solving = SolverSettings(self.projection_tol, self.max_evaluations, memory=self._memory)
            step = ProjectedStep(training, constraints, solving)
        score = None if dev is None else lambda: float(self.score(*dev))
        falls = not isinstance(step, ProjectedStep) and step.falls
        loop = self._projection_loop(training, step, score=score, gamma=GAMMAS[self.method], start=start, falls=falls)
        self._take_run(loop.run(resume=resume))
        return self

    def _gamma(self, constrained: bool) -> float:
        return GAMMAS[self.method] if constrained else 1.0

    def _check_settings(self, dev: Any = None) -> None:
        self._check_names(method=GAMMAS, distance=DISTANCES)
        if self.distance is not None and self.method != "ge":
            raise DataError(f"distance requires method 'ge'; for {self.method!r} give every target its own penalty")
        self._check_names(start=STARTS)
        self._check_learner(dev)
        if not hasattr(self.model, "lower") and getattr(self.model, "emissions", "table") == "table":
            raise DataError(
                "GE is for log-linear models, such as MaxEnt and CRF, and for HMM(..., emissions='features'), but the "
                f"model is a {type(self.model).__name__} without feature weights"
            )
        self._check_whole(max_iter=1, max_evaluations=1, checkpoint_every=1, random_state=0)
        self._check_within(tol=(0.0, np.inf), projection_tol=(1e-15, np.inf))
