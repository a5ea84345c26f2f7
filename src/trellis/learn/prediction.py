"""Prediction with a trained model under its constraints.

By projection (EM and its relatives): of q, the model's posterior projected onto the constraints. By search (constrained
conditional models): the best output of the scores less the price of violations. In both, constraints that tie instances
together (counts over a corpus) shape training alone and are left out; ``constrained=False`` leaves all of them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint, Rule
from trellis.constraints.expression import Written, read_constraints, write_constraints
from trellis.constraints.penalties import (
    LearnedPenalty,
    check_penalties,
    count_violations,
    is_learned,
    learn_penalties,
    soft_rows,
)
from trellis.data.batch import Batch
from trellis.data.checks import check_dev
from trellis.data.files import check_writable
from trellis.data.fingerprint import fingerprint
from trellis.data.ragged import FloatArray, LabelArray
from trellis.engine import engine_for, shards_of, threads_for
from trellis.errors import DataError, UnknownNameError
from trellis.learn.labelling import searcher_of
from trellis.learn.training import Training
from trellis.loop.checkpoint import Checkpoint
from trellis.loop.history import History
from trellis.loop.schedule import Gamma, gamma_at
from trellis.models.model import bare, own_model, rows_of, scores_of
from trellis.models.saving import InnerHeader, SavedEstimator, from_archive, to_archive
from trellis.projection import Item, Projector, ShardAnswer
from trellis.search import Labelling
from trellis.search.methods import WIDEST_BEAM

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


class Prediction(SavedEstimator):
    """What all learners with a model and constraints have in common. A file holds the model and the rules."""

    has_penalties = False
    not_saved = (*SavedEstimator.not_saved, "model", "constraints")
    learned_names: ClassVar[Any] = SavedLearner
    model: Any
    model_: Any
    constraints: Sequence[Constraint | Rule]
    beta: float | None
    n_jobs: int | None
    engine: Any

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

    def _encoded(self, X: Any, y: Any = None) -> Batch:
        self._check_fitted()
        if not callable(getattr(self.model_, "decode", None)):
            name = type(self.model_).__name__
            raise DataError(
                f"learners have no predictions of an {name}: use its task (trellis.Aligner), or model_.scores"
            )
        batch: Batch = self.model_.encode(X) if y is None else self.model_.encode(X, y)
        return batch

    @property
    def _scores(self) -> Any:
        """Scores of a shard, by the model that was learned."""
        return partial(scores_of, bare(self.model_))

    def _training(self, X: Any, y: Any, sample_weight: Any, *, learned: bool = False) -> Training:
        """Instances in the codes of a model like the one given; with ``learned``, of that model as it is.

        With β labelled instances come in through their parameters and not as counts. Where only labelled or only
        unlabelled instances have weight there is nothing to mix, and β has no effect.
        """
        model = own_model(self.model, learned=learned)
        batch = model.encode(X, y, sample_weight, fit=not learned)
        known, weighted = batch.complete, batch.weights > 0
        mixes = self.beta is not None and bool(np.any(known & weighted) and np.any(~known & weighted))
        return Training(model, batch, engine_for(self.n_jobs, self.engine), use_labelled=not mixes)

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
        given: Any = self.constraints
        if isinstance(given, Constraint | Rule):
            raise DataError("constraints must be a list of constraints, so put the one there is in brackets: [...]")
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise DataError(f"constraints must be a list of constraints, got {type(given).__name__}")
        for one in given:
            if not isinstance(one, Constraint | Rule):
                raise DataError(f"constraints must be a list of constraints, but has {one!r} among them")
        if getattr(self, "checkpoint", None) is not None:
            check_writable(self.checkpoint)  # type: ignore[attr-defined]
        if hasattr(self, "beam"):
            self._check_whole(beam=1)
            self._check_within(beam=(1, WIDEST_BEAM))
        check_dev(dev)


def accuracy(batch: Batch, labels: LabelArray) -> float:
    """Share of the slots with a known label that are labelled so, by weight."""
    known = batch.labels >= 0
    if not np.any(known):
        raise DataError("no label is known, so there is no accuracy")
    weight = np.repeat(batch.weights, batch.lengths)[known]
    return float(np.average(labels[known] == batch.labels[known], weights=weight))


@dataclass(frozen=True)
class _Best:
    """Best outputs of a shard, or with ``slots`` the best label of each slot."""

    slots: bool

    def __call__(self, item: Item, answer: ShardAnswer) -> LabelArray:
        if self.slots:
            return np.asarray(answer.tilted.likeliest(answer.posterior))
        return np.asarray(item.rows.q_scores(answer).argmax().outputs)


def _whole(item: Item, answer: ShardAnswer) -> Any:
    return answer.posterior


def _best_and_whole(item: Item, answer: ShardAnswer) -> tuple[LabelArray, Any]:
    return _Best(False)(item, answer), answer.posterior


class ProjectedPrediction(Prediction):
    """What a learner that projects predicts."""

    gamma: Gamma
    projection_tol: float
    max_evaluations: int
    max_iter: int

    def predict(self, X: Any, *, constrained: bool = True, decoding: str = "viterbi") -> Any:
        """Labels by name: the best output (``decoding="viterbi"``), or the best label of each slot ("posterior").

        constrained : of q, the model's posterior projected onto the constraints, in place of the model's own
        """
        batch = self._encoded(X)
        return self.model_.decode(batch, self.labels(batch, constrained, decoding))

    def predict_proba(self, X: Any, *, constrained: bool = True) -> Any:
        """Posterior of each slot's label, as the model's own ``predict_proba`` gives it."""
        batch = self._encoded(X)
        found = self._projector(batch, constrained).run(self._scores, self._gamma(constrained), then=_whole)
        return self.model_.probabilities(batch, found.results)

    def score(self, X: Any, y: Any = None, *, constrained: bool = True, decoding: str = "viterbi") -> float:
        """Share of the slots with a known label that ``predict`` labels so."""
        batch = self._encoded(X, y)
        return accuracy(batch, self.labels(batch, constrained, decoding))

    def violations(self, X: Any, *, constrained: bool = True) -> dict[str, float]:
        """Share of each constraint's rows that the posterior of new data violates (by more than the tolerance)."""
        batch = self._encoded(X).with_labels(None)
        rows = rows_of(self.model_, batch, self.constraints).canonical()
        projector = self._projector(batch, constrained)
        cuts = zip(projector.items, projector.bounds[:-1].tolist(), projector.bounds[1:].tolist(), strict=True)
        shards = {item.data.first: rows.shard(a, b) for item, a, b in cuts}
        found = projector.run(
            self._scores, self._gamma(constrained), warn=False, at=lambda item: shards[item.data.first].part,
            then=lambda item, answer: shards[item.data.first].expect(answer.posterior),
        )  # fmt: skip
        mine = list(zip(shards.values(), found.results, strict=True))
        coupling = sum((expected[own.n_local :] for own, expected in mine), np.zeros(len(rows) - rows.n_local))
        excess = rows.excess(np.concatenate([*(expected[: own.n_local] for own, expected in mine), coupling]))
        violated = np.bincount(rows.constraint, excess > 2 * self.projection_tol, minlength=len(rows.names))
        n_rows = np.maximum(np.bincount(rows.constraint, minlength=len(violated)), 1)
        return dict(zip(rows.names, (violated / n_rows).tolist(), strict=True))

    def labels(self, batch: Batch, constrained: bool = True, decoding: str = "viterbi") -> LabelArray:
        """What ``predict`` says, as numbers, of a batch of the model's ``encode``."""
        if decoding not in DECODINGS:
            raise UnknownNameError("decoding", decoding, DECODINGS)
        gamma = self._gamma(constrained)
        best = _Best(decoding == "posterior" or gamma == 0.0)
        outcome = self._projector(batch, constrained).run(self._scores, gamma, then=best)
        return np.concatenate([np.zeros(0, np.int32), *outcome.results])

    def labels_and_posteriors(self, batch: Batch) -> tuple[LabelArray, list[Any]]:
        """What ``predict`` says, as numbers, and the posteriors of the shards, by one projection."""
        found = self._projector(batch, True).run(self._scores, self._gamma(True), then=_best_and_whole).results
        return np.concatenate([np.zeros(0, np.int32), *(labels for labels, _ in found)]), [q for _, q in found]

    def _projector(self, batch: Batch, constrained: bool) -> Projector:
        batch = batch.with_labels(None)
        rows = rows_of(self.model_, batch, self.constraints if constrained else ()).canonical()
        rows = replace(rows.local(), sparsity=()) if constrained else rows
        parts = [shard.of(batch) for shard in shards_of(batch)]
        return Projector.of_batches(
            rows, parts, threads_for(self.n_jobs), tolerance=self.projection_tol, most_evaluations=self.max_evaluations
        )

    def _gamma(self, constrained: bool) -> float:
        """γ of the last round; without constraints the model's own posterior, 1."""
        return gamma_at(self.gamma, max(self.max_iter - 1, 0)) if constrained else 1.0


class CCMPrediction(Prediction):
    """What a constrained conditional model predicts: the best output of its scores less the price of violations.

    Subclasses learn ``model_``, ``penalties_``, ρ by the name of the constraint, and ``learned_penalties_``: for each
    constraint of strength "learned", how often the labels test and break it. It is not saved.
    """

    has_penalties = True
    beam: int
    hard: bool
    smoothing: float
    penalties_: dict[str, float]
    learned_penalties_: Sequence[LearnedPenalty] = ()

    def predict(self, X: Any, *, constrained: bool = True) -> list[list[str]]:
        """Labels by name; with ``constrained=False`` the model's own best output."""
        batch = self._encoded(X)
        labels: list[list[str]] = self.model_.decode(batch, self.decode(batch, constrained=constrained).labels)
        return labels

    def score(self, X: Any, y: Any = None, *, constrained: bool = True) -> float:
        """Share of the tokens with a known label that ``predict`` labels so."""
        batch = self._encoded(X, y)
        return accuracy(batch, self.decode(batch, constrained=constrained).labels)

    def violations(self, X: Any, *, constrained: bool = True) -> dict[str, float]:
        """How often the outputs (without ``constrained`` the model's own) violate each constraint, per token."""
        batch = self._encoded(X).with_labels(None)
        labels = self.decode(batch, constrained=constrained).labels
        rows = soft_rows(self.constraints, batch, self.model_.label_names_, self.model_.parts(batch))
        seen = count_violations(rows, batch.with_labels(labels))
        return dict(zip(seen.names, (seen.excess / max(seen.n_slots, 1.0)).tolist(), strict=True))

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

    def decode(self, batch: Batch, *, constrained: bool = True) -> Labelling:
        """Best outputs of a batch of the model's ``encode``; its labels are not looked at."""
        search = searcher_of(
            self.model_, batch.with_labels(None), self.constraints if constrained else (), threads_for(self.n_jobs),
            beam=self.beam, local_only=True,
        )  # fmt: skip
        return search.run(self._scores, np.array([self.penalties_[name] for name in search.names]))
