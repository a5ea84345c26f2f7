"""What large-margin learners share: constructor arguments in common, the loop, prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint, Rule
from trellis.constraints.compilation import named
from trellis.constraints.penalties import is_learned, learn_penalties, with_penalties
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray
from trellis.engine import engine_for, threads_for
from trellis.errors import DataError, check_name
from trellis.learn.learner import Learner, SavedLearner
from trellis.learn.margin.cutting_plane import CuttingPlane, Examples, Weights
from trellis.learn.margin.group import Group
from trellis.learn.margin.steps import MarginStep
from trellis.loop.checkpoint import Checkpoint
from trellis.loop.loop import Loop
from trellis.models.inference import Inference, ProjectionQuery, SearchedInference
from trellis.models.model import own_model
from trellis.models.sequence import labelled
from trellis.search.methods import Options

LOSSES = {"hinge": 1, "squared_hinge": 2}


class _MarginHeader(SavedLearner):
    bias: float


@dataclass(eq=False, repr=False)
class MarginLearner(Learner):
    """Weights of a model, learned by a margin. Subclasses bring ``fit`` for their kind of examples.

    Parameters
    ----------
    model : estimator
        Model with weights and a feature map, such as :class:`CRF`, :class:`MaxEnt` or :class:`ArcParser`. A copy is
        trained and stored as ``model_``.
    constraints : list of Constraint
        Constraints that apply to every search, in training and prediction. Hard constraints always hold;
        violations of others cost their penalty, which is estimated from the given outputs for strength "learned".
    random_state : int or None
        Seed of the order of examples.
    C : float
        Weight of the losses relative to ½ ‖w‖².
    loss : {"squared_hinge", "hinge"}
        Loss of a margin violation.

    Attributes
    ----------
    history_ : History
        Objective, duality gap and seconds of every round.
    bias_ : float
        Weight of the constant feature.
    objective_ : float
        Final objective.
    penalties_ : dict
        Penalty of each constraint of strength "learned", estimated from the given outputs, by name; 0 for others.
    """

    model: Any
    constraints: Sequence[Constraint | Rule] = ()
    _: KW_ONLY
    max_iter: int = 100
    beam: int = 50
    search: str = "auto"
    random_state: int | None = 0
    n_jobs: int | None = None
    engine: Any = None
    checkpoint: FilePath | None = None
    checkpoint_every: int = 10
    verbose: bool = False

    has_penalties = True
    learned_names = _MarginHeader
    trains_networks: ClassVar[bool] = False

    # prediction

    def best_structures(self, X: Any, *, constrained: bool = True) -> Any:
        """argmax_h w · Φ(x, h), less the price of violated constraints, by name."""
        return self.infer(X, constrained=constrained).labels

    def decision_function(self, X: Any, *, constrained: bool = True) -> FloatArray:
        """(n,): the score of the best output of each instance."""
        return self.infer(X, constrained=constrained).values

    def _inference(self, batch: Any, constrained: bool, transductive: bool) -> Inference:
        projection = ProjectionQuery(self._priced() if constrained else (), transductive=transductive)
        rho = np.zeros(len(projection.constraints))
        how = Options.of_predictions(self.search, self.beam)
        return SearchedInference(self.model_, batch, threads_for(self.n_jobs), projection, rho, how, self._priced())

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        names, arrays = super().learned()
        return {**names, "bias": self.bias_}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.bias_ = float(names["bias"])
        if not np.isfinite(self.bias_):
            raise DataError(f"the bias must be a finite number, but is {self.bias_}")
        super().restore(names, arrays)
        self._check_settings()

    # training

    def _begin(self, X: Any, y: Any, sample_weight: Any, *, learned: bool = False) -> tuple[Any, Any]:
        """A model like the one given, and the batch; with ``learned`` the model keeps what it has learned."""
        model: Any = own_model(self.model, learned=learned)
        network = callable(getattr(model, "margin_step", None))
        if network and not self.trains_networks:
            raise DataError(
                f"{type(self).__name__} needs a model that is linear in its weights, and {type(model).__name__} is a "
                "network: use SSVM(model, method='subgradient')"
            )
        if not network and not callable(getattr(model, "phi", None)):
            raise DataError(f"a margin is learned over features, but {type(model).__name__} has no feature map phi")
        batch = model.encode(*labelled(model, X, y), sample_weight, fit=not learned)
        if not len(batch):
            raise DataError("there are no instances to learn from")
        to_learn, rho = is_learned(self.constraints), np.zeros(len(self.constraints))
        if np.any(to_learn):
            whole = batch.take(np.flatnonzero(batch.complete))
            found = learn_penalties(self.constraints, whole, model.label_names_, model.parts(whole))
            rho[to_learn] = [one.penalty for one in found]
        self.model_ = model
        self.penalties_ = dict(zip([one.name for one in named(self.constraints)], rho.tolist(), strict=True))
        return model, batch

    def _priced(self) -> list[Constraint]:
        """The constraints, with the penalties that were learned; one that is set after ``fit`` has its own strength."""
        rho = [self.penalties_.get(one.name, 0.0) for one in named(self.constraints)]
        return with_penalties(self.constraints, np.array(rho))

    def _refuse_unknown(self, batch: Any) -> None:
        """Examples must have all their labels."""
        unknown = np.flatnonzero(~np.asarray(batch.complete) & (np.asarray(batch.lengths) > 0))
        if len(unknown):
            raise DataError(
                f"{len(unknown)} of {len(batch)} instances are not labelled in full, the first of them instance "
                f"{unknown[0]}: leave them out, or learn from them with LatentSSVM or JLIS"
            )

    def _examples(self, model: Any, batch: Any, given: Any, negative: Any, positive: Any, *, latent: bool) -> Examples:
        """The instances with these numbers, as three groups; an instance of weight 0 is left out."""
        engine = engine_for(self.n_jobs, self.engine)
        groups = [
            Group(model, batch, numbers[batch.weights[numbers] > 0], self._priced(), engine, beam=self.beam)
            for numbers in (given, negative, positive)
        ]
        return Examples(groups[0], groups[1], groups[2], latent)

    def _loop(
        self, weights: Weights, step: MarginStep[Any], batch: Any, dev: tuple[Any, Any] | None, *, warns: bool = True
    ) -> Loop:
        """The rounds."""

        def judge(_: Any) -> float:
            self.bias_ = weights.bias
            return float(self.score(*dev))  # type: ignore[misc]

        known = None
        if self.checkpoint is not None:
            known = self._known(batch, constraints=[repr(one) for one in self.constraints])
        score: Callable[..., float] | None = None if dev is None else judge
        return self._loop_of(
            step, score=score, known=known, start="model", max_iter=self._rounds, tol=self.tol if warns else 0.0,
            rises=False,
        )  # fmt: skip

    def _trained(self, loop: Loop, run: Checkpoint) -> Self:
        """Itself, with what a run of :meth:`_loop` tells beside the model's weights."""
        self.bias_ = loop.step.model.bias
        self._take_run(run)
        self.objective_ = run.history[-1].objective
        return self

    @property
    def _rounds(self) -> int:
        """Rounds at most."""
        return self.max_iter

    def _check_settings(self, dev: Any = None) -> None:
        self._check_learner(dev)
        self._check_whole(max_iter=1, n_init=1, random_state=0, checkpoint_every=1)

    def _check_loss(self, loss: str) -> int:
        """The power d of the loss ℓ(a) = max(0, a)^d."""
        check_name("loss", loss, LOSSES)
        return LOSSES[loss]


def solver_of(learner: Any, weights: Weights, examples: Examples, **settings: Any) -> CuttingPlane:
    """The convex problem with the learner's C and loss."""
    return CuttingPlane(weights, examples, C=learner.C, power=learner._check_loss(learner.loss), **settings)


Constraints = Sequence[Constraint | Rule]
NONE = np.zeros(0, dtype=np.int64)
