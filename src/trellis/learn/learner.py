"""What all learners share: a model and constraints, their file, what training needs, and prediction.

Predictions are views of one inference (:mod:`trellis.models.inference`): by projection (EM and its relatives) of q, the
model's posterior projected onto the constraints; by search (constrained conditional models) the best output of the
scores less the price of violations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint, Rule
from trellis.constraints.compilation import named
from trellis.constraints.expression import Written, read_constraints, write_constraints
from trellis.constraints.penalties import (
    LearnedPenalty,
    check_constraints,
    check_penalties,
    is_learned,
    learn_penalties,
)
from trellis.data.batch import Batch
from trellis.data.checks import check_dev
from trellis.data.files import FilePath, check_writable
from trellis.data.fingerprint import fingerprint
from trellis.data.ragged import FloatArray
from trellis.data.storage import UNBOUNDED
from trellis.engine import engine_for, threads_for
from trellis.errors import DataError, check_name
from trellis.learn.labelling import ArgmaxStep, LabellingState
from trellis.learn.training import Training
from trellis.loop.checkpoint import Checkpoint
from trellis.loop.history import History
from trellis.loop.loop import Loop, Settings
from trellis.loop.schedule import gamma_at
from trellis.loop.step import Step
from trellis.models.inference import Inference, ProjectedInference, ProjectionQuery, SearchedInference
from trellis.models.model import own_model
from trellis.models.saving import SavedEstimator, from_archive, to_archive
from trellis.models.sequence import labelled
from trellis.models.state import InnerHeader
from trellis.projection.shard import PATIENT
from trellis.search.methods import SEARCHES, WIDEST_BEAM, Options

Dev = tuple[Any, Any] | None
"""Instances and their labels that a run is judged on, (X, y)."""
MAY_CHANGE = ("max_iter", "n_jobs", "engine", "checkpoint", "checkpoint_every", "verbose")
"""Settings that a run may be gone on from with others."""
DECODINGS = ("viterbi", "posterior")


class SavedLearner(TypedDict):
    """What a file keeps beside the arrays."""

    model: InnerHeader
    constraints: list[Written]
    penalties: dict[str, float]
    history: list[dict[str, Any]]


class Learner(SavedEstimator):
    """Base of all learners: a model, constraints, and what training and inference have in common.

    A file holds the model and the rules.

    Attributes
    ----------
    model_ : estimator
        The trained copy of the model.
    history_ : History
        One entry per round.
    n_iter_ : int
        Number of rounds.
    converged_ : bool
        Whether training stopped before ``max_iter``.
    """

    has_penalties = False
    not_saved = (*SavedEstimator.not_saved, "model", "constraints")
    learned_names: ClassVar[Any] = SavedLearner
    model: Any
    model_: Any
    constraints: Sequence[Constraint | Rule]
    n_jobs: int | None
    engine: Any
    max_iter: int
    # how a run goes where a learner has no parameter for it
    beta: float | None = None
    unlabelled_weight: float = 1.0
    start: str = "auto"
    start_scale: float = 1.0
    n_init: int = 1
    tol: float = 0.0
    patience: int | None = None
    random_state: int | None = None
    checkpoint: FilePath | None = None
    checkpoint_every: int = 1
    verbose: bool = False
    title = "learning"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        header, arrays = to_archive(self.model_)
        names = {
            "model": header,
            "constraints": write_constraints(self.constraints, self.model_.label_names_.names),
            "penalties": getattr(self, "penalties_", {}),
            "history": [{**entry, "seconds": 0.0} for entry in self.history_.to_json()],
        }
        return names, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.model_ = from_archive(names["model"], arrays)
        self.model = own_model(self.model_, learned=False)
        self.constraints = read_constraints(names["constraints"])
        self.penalties_ = check_penalties(names["penalties"], self.constraints if self.has_penalties else ())
        self.history_ = History.from_json(names["history"])
        self._check_settings()

    # prediction: views of one inference

    def infer(self, X: Any, *, constrained: bool = True, transductive: bool = False) -> Inference:
        """Inference on new instances, or on a batch of the model's ``encode``: labels, marginals, violations, ...

        constrained : under the constraints, in place of the model alone
        transductive : whether constraints that tie instances together hold over X; by default, they are left out
        """
        return self._inference(self._encoded(X), constrained, transductive)

    def predict(self, X: Any, *, constrained: bool = True, transductive: bool = False) -> Any:
        """The best output of each instance, by name; the arguments are those of :meth:`infer`."""
        return self.infer(X, constrained=constrained, transductive=transductive).labels

    def score(self, X: Any, y: Any = None, *, constrained: bool = True) -> float:
        """Share of the known labels that ``predict`` gives."""
        return self._inference(self._encoded(X, y, scored=True), constrained, False).accuracy()

    def violations(self, X: Any, *, constrained: bool = True, transductive: bool = False) -> dict[str, float]:
        """How much the result of :meth:`infer` violates each constraint.

        Of learners that project, the share of its rows that the posterior violates (by more than the tolerance); of
        those that search, the excess of the outputs per token, and for constraints over the corpus the excess itself.
        """
        return self.infer(X, constrained=constrained, transductive=transductive).violations

    def _inference(self, batch: Any, constrained: bool, transductive: bool) -> Inference:
        """The inference of this kind of learner over a batch."""
        raise NotImplementedError

    def _encoded(self, X: Any, y: Any = None, *, scored: bool = False) -> Batch:
        """Instances as a batch; scored : with the labels that documents have."""
        self._check_fitted()
        X, y = labelled(self.model_, X, y) if scored else (X, y)
        if isinstance(X, Batch):
            return X
        if not callable(getattr(self.model_, "decode", None)):
            name = type(self.model_).__name__
            raise DataError(
                f"a learner cannot predict with an {name}: use the application (trellis.Aligner), or model_.scores"
            )
        batch: Batch = self.model_.encode(X) if y is None else self.model_.encode(X, y)
        return batch

    def _training(self, X: Any, y: Any, sample_weight: Any, *, learned: bool = False) -> Training:
        """Instances in the codes of a model like the one given; with ``learned``, of that model as it is.

        With β labelled instances come in through their parameters and not as counts. Where only labelled or only
        unlabelled instances have weight there is nothing to mix, and β has no effect.
        """
        model = own_model(self.model, learned=learned)
        batch = model.encode(*labelled(model, X, y), sample_weight, fit=not learned)
        known, weighted = batch.complete, batch.weights > 0
        mixes = self.beta is not None and bool(np.any(known & weighted) and np.any(~known & weighted))
        return Training(
            model, batch, engine_for(self.n_jobs, self.engine), use_labelled=not mixes,
            unlabelled_weight=self.unlabelled_weight,
        )  # fmt: skip

    def _loop_of(
        self,
        step: Step[Any],
        *,
        score: Callable[[Any], float] | None = None,
        known: dict[str, str] | None = None,
        **changes: Any,
    ) -> Loop:
        """The rounds of a step with this learner's settings, but for ``changes``; ``score``, ``known`` as in Loop."""
        own = Settings(
            start=self.start, start_scale=self.start_scale, n_init=self.n_init, max_iter=self.max_iter, tol=self.tol,
            patience=self.patience, random_state=self.random_state, checkpoint=self.checkpoint,
            checkpoint_every=self.checkpoint_every, verbose=self.verbose, title=self.title,
        )  # fmt: skip
        return Loop(step, replace(own, **changes), score=score, known=known)

    def _known(self, batch: Any, **content: Any) -> dict[str, str]:
        """Fingerprints of what must be the same for a checkpoint to be gone on from: settings and data.

        content : further things, some of them in place of a setting whose content they are
        """
        settings = self.get_params(deep=False)
        same = {name: value for name, value in settings.items() if name not in MAY_CHANGE}
        known = {**same, "data": (batch, self.model_.label_names_), **content}
        return {name: fingerprint(value) for name, value in known.items()}

    def _take_run(self, run: Checkpoint) -> None:
        """What a run leaves behind beside the model."""
        self.history_, self.n_iter_, self.converged_ = run.history, len(run.history), run.converged

    def _check_settings(self, dev: Any = None) -> None:
        """Refuse settings that cannot be, when learning begins and when a file is read."""
        self._check_learner(dev)

    def _check_learner(self, dev: Any) -> None:
        """Refuse arguments of the wrong kind with a word about the right one."""
        if isinstance(self.model, type):
            name = self.model.__name__
            raise DataError(f"model must be a model, {name}(...), and not the class {name} itself")
        if not callable(getattr(self.model, "scores", None)):
            raise DataError(f"model must be a model, such as HMM(labels), got {self.model!r}")
        if self.has_penalties and not callable(getattr(self.model, "decode", None)):
            name = type(self.model).__name__
            raise DataError(
                f"{type(self).__name__} learns from outputs with labels, which {name} does not have: use UEM"
            )
        check_constraints(self.constraints)
        if self.checkpoint is not None:
            check_writable(self.checkpoint)
        if hasattr(self, "beam"):
            self._check_whole(beam=1)
            self._check_within(beam=(1, WIDEST_BEAM))
            self._check_names(search=SEARCHES)
        self._check_within(unlabelled_weight=(0.0, np.inf))
        if self.beta is not None and self.unlabelled_weight != 1.0:
            raise DataError(
                "with beta, parameters are mixed in that proportion: leave out unlabelled_weight, or beta=None"
            )
        check_dev(dev)


class ProjectedLearner(Learner):
    """A learner that projects the model's posterior onto the constraints, in training and prediction."""

    gamma: Any
    projection_tol: float
    max_evaluations: int

    def predict(
        self, X: Any, *, constrained: bool = True, decoding: str = "viterbi", transductive: bool = False
    ) -> Any:
        """Labels by name: the best output (``decoding="viterbi"``), or the best label of each slot ("posterior").

        constrained : under the constraints, in place of the model's own
        transductive : whether constraints that tie instances together hold over X; by default, they are left out
        """
        check_name("decoding", decoding, DECODINGS)
        found = self.infer(X, constrained=constrained, transductive=transductive)
        return found.labels if decoding == "viterbi" else found.marginal_labels

    def predict_proba(self, X: Any, *, constrained: bool = True, transductive: bool = False) -> Any:
        """Posterior of each slot's label, as the model's own ``predict_proba`` gives it."""
        return self.infer(X, constrained=constrained, transductive=transductive).marginals

    def score(self, X: Any, y: Any = None, *, constrained: bool = True, decoding: str = "viterbi") -> float:
        """Share of the slots with a known label that ``predict`` labels so."""
        check_name("decoding", decoding, DECODINGS)
        found = self._inference(self._encoded(X, y, scored=True), constrained, False)
        return found.accuracy() if decoding == "viterbi" else found.accuracy(found.marginal_argmax)

    @property
    def _memory(self) -> object:
        """What a run may use: a checkpoint knows rows by their content, so that all of it must be at hand."""
        return None if self.checkpoint is None else UNBOUNDED

    def _projection_loop(
        self,
        training: Training,
        step: Any,
        *,
        score: Callable[[], float] | None = None,
        falls: bool = False,
        **changes: Any,
    ) -> Loop:
        """The rounds of an E-step, which has ``rows``, that train the model of a training in place.

        score : the development metric;  falls : whether the objective may fall
        changes : settings that are not this learner's
        """
        self.model_ = training.model
        return self._loop_of(
            step, score=None if score is None else lambda _: score(),
            known=None if self.checkpoint is None else self._known(training.batch, constraints=step.rows),
            # projections that are stopped early give a bound, which may fall
            rises=not falls and self.max_evaluations >= PATIENT and getattr(training.model, "rises", True),
            beta=None if training.use_labelled else self.beta,
            unsolved=f"KKT residual; projection_tol {self.projection_tol:g}). Allow more `max_evaluations` than "
            f"{self.max_evaluations}, raise `projection_tol`, or give the constraint slack or a penalty",
            **changes,
        )  # fmt: skip

    def _inference(self, batch: Any, constrained: bool, transductive: bool) -> Inference:
        projection = self._projection(constrained, transductive)
        return ProjectedInference(self.model_, batch, threads_for(self.n_jobs), projection, self.constraints)

    def _projection(self, constrained: bool, transductive: bool) -> ProjectionQuery:
        return ProjectionQuery(
            self.constraints if constrained else (), self._gamma(constrained), self.projection_tol,
            self.max_evaluations, transductive,
        )  # fmt: skip

    def _gamma(self, constrained: bool) -> float:
        """γ of the last round; without constraints the model's own posterior, 1."""
        return gamma_at(self.gamma, max(self.max_iter - 1, 0)) if constrained else 1.0


class SearchingLearner(ProjectedLearner):
    """A learner of a constrained conditional model: predictions are the best outputs less the price of violations.

    ``learned_penalties_`` is not saved.

    Attributes
    ----------
    penalties_ : dict
        Penalty of each constraint, by name.
    learned_penalties_ : list
        Of each constraint of strength "learned": how often the labels test it, how often they violate it, and its
        penalty.
    """

    has_penalties = True
    projection_tol = 1e-2
    max_evaluations = 50
    beam: int
    search: str
    hard: bool
    smoothing: float
    k_best: int
    penalties_: dict[str, float]
    learned_penalties_: Sequence[LearnedPenalty] = ()

    def _inference(self, batch: Any, constrained: bool, transductive: bool) -> Inference:
        projection = self._projection(constrained, transductive)
        rho = np.array([self.penalties_[one.name] for one in named(projection.constraints)])
        how = Options.of_predictions(self.search, self.beam)
        return SearchedInference(self.model_, batch, threads_for(self.n_jobs), projection, rho, how, self.constraints)

    def _gamma(self, constrained: bool) -> float:
        return 1.0

    def _labelling_loop(
        self,
        training: Training,
        constraints: Sequence[Constraint | Rule],
        rho: FloatArray,
        *,
        relearn: bool,
        judge: Callable[[LabellingState], float] | None = None,
        memory: object = None,
        **changes: Any,
    ) -> Loop:
        """The rounds of constrained argmaxes that train the model of a training in place.

        rho : penalties that are learned already;  judge : the development metric at a state
        memory : what the run may use, None: half of what is free; rules that take too much of it are kept on disk
        """
        training.check(needs_labels=False)
        beta = None if training.use_labelled else self.beta
        step = ArgmaxStep(
            training, constraints, rho, beam=self.beam, k_best=self.k_best, beta=beta, relearn=relearn,
            smoothing=self.smoothing, memory=memory,
        )  # fmt: skip
        self.model_ = training.model
        known = None if self.checkpoint is None else self._known(training.batch, penalties=rho)
        changes = {"max_iter": self.max_iter, **changes}
        changes["max_iter"] *= len(training.free) > 0
        return self._loop_of(
            step, score=judge, known=known, beta=beta, title="constraint-driven learning", rises=False,
            keep_best=False, **changes,
        )  # fmt: skip

    def _take_penalties(self, rho: FloatArray) -> None:
        self.penalties_ = dict(zip([one.name for one in named(self.constraints)], rho.tolist(), strict=True))

    def _learned_penalties(self, training: Training) -> FloatArray:
        """ρ₀ (n_constraints,), from the labelled instances; 0 for constraints with a strength of their own."""
        labelled, model = training.labelled_batch, training.model
        self.learned_penalties_ = learn_penalties(
            self.constraints, labelled, model.label_names_, model.parts(labelled), hard=self.hard,
            smoothing=self.smoothing,
        )  # fmt: skip
        rho = np.zeros(len(self.constraints))
        rho[is_learned(self.constraints)] = [one.penalty for one in self.learned_penalties_]
        return rho
