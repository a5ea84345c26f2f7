"""ContrastiveEstimation: a log-linear model learned from text without labels, against changed copies of it.

    max_w  Σ_i w_i [ log Σ_h exp(w·Φ(x_i, h)) − log Σ_{x ∈ N(x_i)} Σ_h exp(w·Φ(x, h)) ] + log prior(w)

(Smith and Eisner 2005; Chang 2011, sec. 6.5.4.) The neighbourhood N(x_i) holds x_i itself and copies that are worse,
such as those with two tokens swapped. Outputs h that the constraints forbid are in neither sum, and the first sum is
over those that agree with the known labels. Labelled instances add log p(y | x). The gradient is

    Σ_i w_i ( E[Φ | x_i] − Σ_{x ∈ N(x_i)} p(x | N(x_i)) E[Φ | x] ).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.constraints.rows import Rows
from trellis.data.batch import Batch
from trellis.data.checks import check_list
from trellis.data.ragged import FloatArray, IntArray, offsets_of
from trellis.engine import Placed, shards_of
from trellis.engine.compiling import compile_ahead
from trellis.errors import ConstraintError, DataError
from trellis.learn.learner import Dev, ProjectedLearner
from trellis.learn.training import Training, TrainingStep
from trellis.loop.step import ArrayState, StepResult
from trellis.models.documentation import documented
from trellis.models.model import rows_of, scores_of
from trellis.models.sequence import labelled
from trellis.projection import ProjectionItem

STARTS = ("uniform", "random", "labelled", "model")
ROUNDS_INSIDE = 25
"""Rounds of L-BFGS in one round of the loop."""

Neighbours = Callable[[Any], Sequence[Any]]
"""From an instance to its changed copies."""


def transposed(sentence: Sequence[Any]) -> list[list[Any]]:
    """The sentence with two neighbouring tokens swapped, once for each two that differ.

    >>> transposed(["a", "a", "b"])
    [['a', 'b', 'a']]
    """
    given = list(sentence)
    places = [t for t in range(len(given) - 1) if given[t] != given[t + 1]]
    return [[*given[:t], given[t + 1], given[t], *given[t + 2 :]] for t in places]


def sums_of_shard(model: Any, item: ProjectionItem, state: Any) -> tuple[FloatArray, Any]:
    """log Σ_h of each instance of a shard."""
    return np.asarray(_allowed(model, item).infer().log_partition), state


def count_shard(model: Any, item: ProjectionItem, state: Any, weights: FloatArray) -> tuple[tuple[float, Any], Any]:
    """Σ weight log Σ_h of a shard, over outputs that agree with the known labels, and the expected counts."""
    batch = replace(item.data, weights=weights)
    scores = _allowed(model, item)
    q = (scores.clamp(batch.outputs) if batch.known else scores).infer(weights=weights)
    return (float(weights @ q.log_partition), model.vector(model.collect(batch, q))), state


def _allowed(model: Any, item: ProjectionItem) -> Any:
    scores = scores_of(model, item.data)
    return scores.apply(item.rows.mask) if len(item.rows.forbidden) else scores


class ContrastiveObjective:
    """The objective with its sign changed, without the prior, and the gradient.

    training : whose free instances are contrasted;  around : the instances of all neighbourhoods, one after the other
    sizes : (n_free,) of each neighbourhood
    """

    def __init__(
        self, training: Training, around: Batch, sizes: IntArray, constraints: Sequence[Constraint | Rule]
    ) -> None:
        self.training, self.weights = training, training.free_batch.weights
        self.first, self.owner = offsets_of(sizes)[:-1], np.repeat(np.arange(len(sizes)), sizes)
        self.given = self._placed(training.free_batch, constraints)
        self.around = self._placed(around, constraints)
        model: Any = training.model
        self.loss = None
        if training.supervised is not None:
            self.loss = model.loss(training.supervised, [training.labelled])

    def _placed(self, batch: Batch, constraints: Sequence[Constraint | Rule]) -> Placed[ProjectionItem]:
        shards = shards_of(batch)
        rows = rows_of(self.training.model, batch, constraints)
        _check_rows(rows)
        items = [ProjectionItem(s.of(batch), rows.shard(s.instances.start, s.instances.stop), None) for s in shards]
        return self.training.engine.place(items, shards)

    def __call__(self, weights: FloatArray) -> tuple[float, FloatArray]:
        model: Any = self.training.model
        value, gradient = (0.0, np.zeros(len(weights))) if self.loss is None else self.loss(weights)
        if not len(self.weights):
            return value, gradient
        at = model.at(weights)
        log_sum = np.concatenate(list(self.around.run(sums_of_shard, at)))
        top = np.maximum.reduceat(log_sum, self.first)
        share = np.exp(log_sum - top[self.owner])
        total = np.add.reduceat(share, self.first)
        value += float(self.weights @ (top + np.log(total)))
        share *= (self.weights / total)[self.owner]
        for placed, of, sign in ((self.given, self.weights, -1.0), (self.around, share, 1.0)):
            own = [of[shard.instances.start : shard.instances.stop] for shard in placed.shards]
            for log_sums, counts in placed.run(count_shard, at, own):
                value -= log_sums if placed is self.given else 0.0
                gradient = gradient + sign * counts
        return value, gradient


def _check_rows(rows: Rows) -> None:
    """Constraints may say which outputs there are, and nothing else."""
    if len(rows) or rows.sparsity or rows.implicit or rows.checks:
        name = rows.names[int(rows.constraint[0])] if len(rows) else "a constraint"
        raise ConstraintError(
            f"{name!r} does not forbid labels, as dictionary(...) does: contrastive estimation sums over all outputs "
            "that the constraints leave, and has no posterior to project"
        )


class ContrastiveStep(TrainingStep[ArrayState]):
    """Rounds of L-BFGS on the contrastive objective."""

    def __init__(self, training: Training, objective: ContrastiveObjective) -> None:
        super().__init__(training)
        self.objective = objective

    @property
    def placed(self) -> list[Placed[Any]]:
        return [self.objective.given]

    def begin(self, start: str, rng: np.random.Generator, scale: float) -> None:
        if start == "uniform":
            self.training.model.reset()
        else:
            super().begin(start, rng, scale)

    def run(self, gamma: float, state: ArrayState, rng: np.random.Generator) -> StepResult:
        model: Any = self.training.model
        found = model.lower(self.objective, max_iter=ROUNDS_INSIDE)
        value = -found.objective - model.log_prior()
        return StepResult(None, value, state, evaluations=found.evaluations, settled=found.converged)


@documented
@dataclass(eq=False, repr=False)
class ContrastiveEstimation(ProjectedLearner):
    """Train a log-linear model without labels, by contrast with changed copies of the text.

    Every sentence must be more probable than its neighbours, which are copies of it that are worse (Smith and Eisner
    2005). Constraints say which labels a token may have.

    Parameters
    ----------
    model : estimator
        Model to train, such as :class:`CRF`. A copy is trained and stored as ``model_``.
    constraints : list of Constraint, default=()
        Constraints that forbid labels, such as ``dictionary(...)``.
    neighbours : "transposed" or callable, default="transposed"
        Function that maps an instance to a list of worse ones. By default, sentences with two neighbouring tokens
        swapped.
    start : {"uniform", "random", "labelled", "model"}, default="uniform"
        Initial weights: 0, random, those of the labelled instances, or those of the model.
    start_scale : float, default=1.0
        Standard deviation of random weights.
    n_init : int, default=1
        Number of random starts; the run with the best objective (or development score) is kept.
    max_iter : int, default=20
        Rounds of training. A round consists of 25 steps of L-BFGS.
    random_state : int or None, default=None
        Seed of random weights.

    Attributes
    ----------
    objective_ : float
        Final objective.

    Examples
    --------
    >>> from trellis.constraints import dictionary
    >>> from trellis.models import CRF
    >>> text = [s.split() for s in ("the dog barks", "a dog sleeps", "the cat runs", "a cat barks")]
    >>> known = dictionary({"the": ["D"], "a": ["D"], "dog": ["N"], "barks": ["V", "N"], "sleeps": ["V"]})
    >>> learner = ContrastiveEstimation(CRF(["D", "N", "V"], l2=0.1), [known]).fit(text)
    >>> learner.predict([["the", "cat", "barks"]])
    [['D', 'N', 'V']]
    """

    model: Any
    constraints: Sequence[Constraint | Rule] = ()
    _: KW_ONLY
    neighbours: str | Neighbours = "transposed"
    start: str = "uniform"
    start_scale: float = 1.0
    n_init: int = 1
    max_iter: int = 20
    random_state: int | None = None
    n_jobs: int | None = None
    engine: Any = None
    verbose: bool = False

    gamma = 1.0
    projection_tol = 1e-3
    max_evaluations = 200
    title = "contrastive estimation"

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, dev: Dev = None) -> Self:
        """Train a model like the one given; ``dev`` is (X, y) whose score decides which round is kept."""
        self._check_types()
        self._check_settings(dev)
        compile_ahead(type(self.model).__name__)
        training = self._training(X, y, sample_weight, learned=self.start == "model")
        training.check(needs_labels=self.start == "labelled")
        instances = list(check_list(labelled(training.model, X, y)[0], "instances"))
        around, sizes = self._around([instances[i] for i in training.free.tolist()])
        objective = ContrastiveObjective(training, training.model.encode(around), sizes, tuple(self.constraints))
        self.model_: Any = training.model
        score = None if dev is None else lambda _: float(self.score(*dev))
        run = self._loop_of(ContrastiveStep(training, objective), score=score).run()
        self._take_run(run)
        self.objective_ = run.history[-1].objective
        return self

    def _around(self, instances: Sequence[Any]) -> tuple[list[Any], IntArray]:
        """The instances of all neighbourhoods, each of which begins with the instance itself, and their sizes."""
        find: Neighbours = transposed if isinstance(self.neighbours, str) else self.neighbours
        lists = [[one, *find(one)] for one in instances]
        return [one for own in lists for one in own], np.array([len(own) for own in lists], np.int64)

    def _check_settings(self, dev: Any = None) -> None:
        self._check_learner(dev)
        self._check_names(start=STARTS)
        if self.neighbours != "transposed" and not callable(self.neighbours):
            raise DataError(f"neighbours must be 'transposed' or a function, got {self.neighbours!r}")
        if not (hasattr(self.model, "lower") and self.model.discriminative):
            raise DataError(
                "contrastive estimation is for log-linear models, such as CRF, but the model is a "
                f"{type(self.model).__name__}"
            )
        self._check_whole(n_init=1, max_iter=1, random_state=0)
        self._check_within(start_scale=(0.0, np.inf))
