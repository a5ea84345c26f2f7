"""Inference with a trained model over a batch: one object whose results are computed on first access.

    Inference            the model alone
    ProjectedInference   q, the model's posterior projected onto constraints          (EM and its relatives)
    SearchedInference    argmax_y  score(y) − Σ_k ρ_k d_k(x, y)                       (constrained conditional models)

``predict``, ``predict_proba``, ``score`` and ``violations`` of every estimator are views of such an object. Inference
runs once for each kind of query, and ``compute`` runs it once for several. Constraints that tie instances together
(counts over a corpus) are left out, unless inference is transductive: then they hold over the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.constraints.penalties import (
    check_constraints,
    excess_by_name,
    is_learned,
    loosened,
    priced,
    with_penalties,
)
from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray
from trellis.engine import Engine, Piece, place_batch, shards_of
from trellis.errors import DataError, counted
from trellis.models.model import bare, rows_of, scores_of
from trellis.projection import ProjectionItem, Projector, ShardAnswer
from trellis.search import Plan, Searcher, decode
from trellis.search.corpus import SearchItem
from trellis.search.methods import Options

T = TypeVar("T")
Constraints = Sequence[Constraint | Rule]

OUTPUTS, POSTERIORS, LOG_PARTITION, PLACES, EXPECTED = "outputs", "posteriors", "log_partition", "places", "expected"
"""Kinds of queries; "places" is the marginal argmax of each place."""
LARGEST_DUAL = 50.0
"""Bound on duals where ρ is larger or infinite: e^−50 is as good as never, and the projection stays well scaled."""


@dataclass(frozen=True)
class BestOutputs:
    """Best outputs of a shard.

    value : (n,) their scores, less the prices of what they violate;  proved : (n,) whether each is known to be the best
    """

    outputs: Any
    value: FloatArray
    proved: BoolArray


class Inference:
    """Result of ``infer``: best outputs, labels, probabilities, violations and certificates of new instances.

    Every result is computed on first access and cached. ``predict`` and ``predict_proba`` are views of it.

    Parameters
    ----------
    model : estimator
        Trained model.
    batch : Batch
        Instances, as the model's ``encode`` gives them.
    engine : Engine
        Where shards run.

    Examples
    --------
    >>> from trellis.models import HMM
    >>> hmm = HMM(min_count=1, unknown=None).fit([["the", "dog", "barks"]], [["D", "N", "V"]])
    >>> found = hmm.infer([["the", "dog"], ["dog", "barks"]])
    >>> found.labels, found.certificate.tolist(), found.marginals[0].argmax(axis=1).tolist()
    ([['D', 'N'], ['N', 'V']], [True, True], [0, 1])
    """

    def __init__(self, model: Any, batch: Any, engine: Engine) -> None:
        self.model, self.batch, self.engine = model, batch, engine
        self._found: dict[str, list[Any]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({counted(len(self.batch), 'instance')} of {type(self.model).__name__})"

    def compute(self, *kinds: str) -> Self:
        """Run inference once for several kinds of queries: "outputs", "posteriors", "log_partition", "places"."""
        if missing := tuple(kind for kind in kinds if kind not in self._found):
            self._found.update(self._run(missing))
        return self

    def _run(self, kinds: tuple[str, ...]) -> dict[str, list[Any]]:
        return by_kind(kinds, list(place_batch(self.engine, self.batch).run(Query(kinds), bare(self.model))))

    def _shards(self, kind: str) -> list[Any]:
        return self.compute(kind)._found[kind]

    @cached_property
    def outputs(self) -> Any:
        """The best structures under the constraints, as codes: of labels (n_slots,)."""
        return self._joined([shard.outputs for shard in self._shards(OUTPUTS)])

    @cached_property
    def labels(self) -> Any:
        """The best structures by name, in the form that ``predict`` gives them."""
        return self.model.decode(self.batch, self.outputs)

    @cached_property
    def marginal_argmax(self) -> Any:
        """Codes of the most probable label, head, ... of each place by itself."""
        return self._joined(self._shards(PLACES))

    @cached_property
    def marginal_labels(self) -> Any:
        """The same by name."""
        return self.model.decode(self.batch, self.marginal_argmax)

    @cached_property
    def marginals(self) -> Any:
        """Marginal probabilities, in the form that ``predict_proba`` gives them."""
        return self.model.probabilities(self.batch, self._shards(POSTERIORS))

    @cached_property
    def log_partition(self) -> FloatArray:
        """(n_instances,): log Σ_y exp score(y) of the model alone; of a generative model log p(x)."""
        return np.concatenate([np.zeros(0), *self._shards(LOG_PARTITION)])

    @cached_property
    def values(self) -> FloatArray:
        """(n_instances,): scores of the outputs, less the prices of the constraints that they violate."""
        return np.concatenate([np.zeros(0), *(shard.value for shard in self._shards(OUTPUTS))])

    @cached_property
    def certificate(self) -> BoolArray:
        """(n_instances,): whether each output is proved to be the best under the constraints."""
        return np.concatenate([np.zeros(0, np.bool_), *(shard.proved for shard in self._shards(OUTPUTS))])

    @cached_property
    def violations(self) -> dict[str, float]:
        """How much the result violates each constraint, by name."""
        return {}

    def accuracy(self, outputs: Any = None) -> float:
        """Share of the batch's known labels, or parts of known alignments, that the outputs have, by weight.

        outputs : others than the best ones, such as ``marginal_argmax``
        """
        found = self.outputs if outputs is None else outputs
        if isinstance(self.batch.labels, np.ndarray):
            return accuracy(self.batch, found)
        loss, weights = self.model.parts(self.batch).hamming(self.batch.labels), self.batch.weights
        if not weights @ loss.constant > 0:
            raise DataError("no alignment is known with a positive weight, so there is no accuracy")
        return 1.0 - float(weights @ loss.of(found) / (weights @ loss.constant))

    def under(self, constraints: Constraints, search: str = "auto") -> Inference:
        """The best outputs under constraints, each with a strength of its own, found by ``search``.

        Marginals are those of the posterior projected onto the constraints.
        """
        how = Options.of_predictions(search)
        check_constraints(constraints)
        if not constraints:
            return self
        for number in np.flatnonzero(is_learned(constraints)).tolist():
            one = constraints[number]
            raise DataError(f"{one!r} has a penalty still to be learned: train with CoDL, or give it a strength")
        query, rho = ProjectionQuery(constraints), np.zeros(len(constraints))
        return SearchedInference(self.model, self.batch, self.engine, query, rho, how, constraints)

    def _joined(self, pieces: list[Any]) -> Any:
        """Outputs of the batch from those of its shards."""
        return self.model.parts(self.batch).join_outputs(pieces)


def accuracy(batch: Any, outputs: Any) -> float:
    """Share of a batch's known labels that outputs have, by weight."""
    known = batch.labels >= 0
    weight = np.repeat(batch.weights, batch.lengths)[known]
    if not weight.sum() > 0:
        raise DataError("no label is known with a positive weight, so there is no accuracy")
    return float(np.average(outputs[known] == batch.labels[known], weights=weight))


def by_kind(kinds: Sequence[str], shards: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """The answers of all shards to each query."""
    return {kind: [shard[kind] for shard in shards] for kind in kinds}


@dataclass(frozen=True)
class Query:
    """Queries of the model's own scores of a shard."""

    kinds: tuple[str, ...]

    def __call__(self, model: Any, item: Piece, state: Any) -> tuple[dict[str, Any], Any]:
        scores, found = model.scores(item.data), dict[str, Any]()
        if OUTPUTS in self.kinds:
            best = scores.argmax()
            found[OUTPUTS] = BestOutputs(best.outputs, best.score, np.ones(len(scores), np.bool_))
        if {POSTERIORS, LOG_PARTITION, PLACES} & set(self.kinds):
            q = scores.infer()
            found[POSTERIORS], found[LOG_PARTITION] = q, q.log_partition
            if PLACES in self.kinds:
                found[PLACES] = scores.marginal_argmax(q)
        return found, state


@dataclass(frozen=True)
class ProjectionQuery:
    """How the model's posterior is projected at prediction.

    gamma : γ;  tolerance : of the KKT residual;  evaluations : at most so many per instance
    transductive : whether constraints that tie instances together hold over the batch
    """

    constraints: Sequence[Constraint | Rule] = ()
    gamma: float = 1.0
    tolerance: float = 1e-2
    evaluations: int = 50
    transductive: bool = False


class ProjectedInference(Inference):
    """Inference with q, the model's posterior projected onto constraints.

    watched : constraints whose violations are counted, also where they are not projected onto
    """

    def __init__(
        self,
        model: Any,
        batch: Any,
        engine: Engine,
        projection: ProjectionQuery,
        watched: Sequence[Constraint | Rule] = (),
    ) -> None:
        super().__init__(model, batch, engine)
        self.projection, self.watched = projection, watched
        self.unlabelled = batch.with_labels(None)

    def _rows(self, constraints: Sequence[Constraint | Rule]) -> Rows:
        """The constraints over the batch, without those that tie instances together if these are left out."""
        rows = rows_of(self.model, self.unlabelled, constraints).canonical()
        return rows if self.projection.transductive else replace(rows.local(), sparsity=())

    @cached_property
    def _projector(self) -> Projector:
        how = self.projection
        parts = [shard.of(self.unlabelled) for shard in shards_of(self.unlabelled)]
        return Projector.of_batches(
            replace(self._rows(how.constraints), checks=()),
            parts,
            self.engine,
            tolerance=how.tolerance,
            max_evaluations=how.evaluations,
        )

    def _run(self, kinds: tuple[str, ...]) -> dict[str, list[Any]]:
        if kinds == (LOG_PARTITION,):
            return super()._run(kinds)
        watched = self._watched_rows if EXPECTED in kinds else None
        outcome = self._projector.run(
            partial(scores_of, bare(self.model)), self.projection.gamma, warn=watched is None,
            then=ProjectedQuery(kinds, self.projection.gamma, watched),
            at=None if watched is None else lambda item: watched[item.data.first].part,
        )  # fmt: skip
        found = by_kind(kinds, outcome.results)
        if not outcome.converged:
            found |= {OUTPUTS: [replace(one, proved=np.zeros_like(one.proved)) for one in found.get(OUTPUTS, ())]}
        return found

    def project(self, then: Callable[[ProjectionItem, ShardAnswer], T]) -> list[T]:
        """What ``then`` makes of the projected posterior of every shard: for queries of an application's own."""
        scores = partial(scores_of, bare(self.model))
        return self._projector.run(scores, self.projection.gamma, then=then, warn=False).results

    # violations of expectations

    @cached_property
    def _all_watched(self) -> Rows:
        return rows_of(self.model, self.unlabelled, self.watched).canonical()

    @cached_property
    def _watched_rows(self) -> dict[int, Rows]:
        """The rows of each shard, by its first instance."""
        bounds = self._projector.bounds.tolist()
        shards = zip(self._projector.items, pairwise(bounds), strict=True)
        return {item.data.first: self._all_watched.shard(low, high) for item, (low, high) in shards}

    @cached_property
    def violations(self) -> dict[str, float]:
        """Share of each constraint's rows that q violates, by more than twice the tolerance of the projection."""
        rows, mine = self._all_watched, list(zip(self._watched_rows.values(), self._shards(EXPECTED), strict=True))
        coupling = sum((expected[own.n_local :] for own, expected in mine), np.zeros(len(rows) - rows.n_local))
        excess = rows.excess(np.concatenate([*(expected[: own.n_local] for own, expected in mine), coupling]))
        violated = np.bincount(rows.constraint, excess > 2 * self.projection.tolerance, minlength=len(rows.names))
        n_rows = np.maximum(np.bincount(rows.constraint, minlength=len(violated)), 1)
        return dict(zip(rows.names, (violated / n_rows).tolist(), strict=True))


@dataclass(frozen=True)
class ProjectedQuery:
    """Queries of the projected posterior of a shard; at γ = 0 the best output is that of each place."""

    kinds: tuple[str, ...]
    gamma: float
    watched: dict[int, Rows] | None = None

    def __call__(self, item: ProjectionItem, answer: ShardAnswer) -> dict[str, Any]:
        found: dict[str, Any] = {POSTERIORS: answer.posterior} if POSTERIORS in self.kinds else {}
        if PLACES in self.kinds or (OUTPUTS in self.kinds and self.gamma == 0.0):
            found[PLACES] = np.asarray(answer.tilted.marginal_argmax(answer.posterior))
        if OUTPUTS in self.kinds:
            found[OUTPUTS] = self._best(item, answer, found)
        if self.watched is not None:
            found[EXPECTED] = self.watched[item.data.first].expect(answer.posterior)
        return found

    def _best(self, item: ProjectionItem, answer: ShardAnswer, found: dict[str, Any]) -> BestOutputs:
        if self.gamma == 0.0:
            value = answer.posterior.log_partition
            proved = np.zeros(len(value), np.bool_) if answer.integral is None else answer.integral
            return BestOutputs(found[PLACES], value, proved)
        best = item.rows.q_scores(answer).argmax()
        return BestOutputs(best.outputs, best.score, np.ones(len(best.score), np.bool_))


class SearchedInference(ProjectedInference):
    """Inference with the best outputs under constraints; probabilities are those of the projected posterior.

    rho : (n_constraints,) penalties of constraints of strength "learned";  how : to search
    """

    def __init__(
        self,
        model: Any,
        batch: Any,
        engine: Engine,
        projection: ProjectionQuery,
        rho: FloatArray,
        how: Options,
        watched: Sequence[Constraint | Rule] = (),
    ) -> None:
        self.constraints, self.rho, self.how = projection.constraints, rho, how
        penalised = with_penalties(self.constraints, np.minimum(rho, LARGEST_DUAL))
        super().__init__(model, batch, engine, replace(projection, constraints=penalised), watched)

    def _run(self, kinds: tuple[str, ...]) -> dict[str, list[Any]]:
        projected = tuple(kind for kind in kinds if kind != OUTPUTS)
        found = super()._run(projected) if projected else {}
        return found if OUTPUTS not in kinds else {**found, OUTPUTS: self._search()}

    def _search(self) -> list[BestOutputs]:
        """The best outputs of every shard."""
        if not self.constraints:
            return Inference._run(self, (OUTPUTS,))[OUTPUTS]
        rows = self._rows(self.constraints)
        scores, prices = partial(scores_of, bare(self.model)), np.zeros(0)
        if self.projection.transductive:
            prices = Searcher(rows, self.unlabelled, self.engine, beam=self.how.beam).prices(scores, self.rho)
        shards = shards_of(self.unlabelled)
        items = [
            SearchItem(shard.of(self.unlabelled), rows.shard(shard.instances.start, shard.instances.stop))
            for shard in shards
        ]
        return list(self.engine.place(items, shards).run(SearchQuery(self.rho, self.how, prices), bare(self.model)))

    @cached_property
    def violations(self) -> dict[str, float]:
        """Excess of the outputs over each constraint per token; of constraints over the corpus, the excess itself."""
        rows = loosened(self.watched, self.unlabelled, self.model.label_names_, self.model.parts(self.batch))
        return excess_by_name(rows.canonical(), self.unlabelled.with_labels(self.outputs))


@dataclass(frozen=True)
class SearchQuery:
    """The search for the best outputs of a shard.

    prices : (n_coupling,) of rows that tie instances together, none where they are left out
    """

    rho: FloatArray
    how: Options
    prices: FloatArray

    def __call__(self, model: Any, item: SearchItem, state: Any) -> tuple[BestOutputs, Any]:
        scores, rows = scores_of(model, item.data), priced(item.rows, self.rho)
        coupling = rows.coupling()
        if len(coupling):
            scores, rows = scores.add(coupling.part, coupling.pull(self.prices)), rows.local()
        found = decode(scores, Plan.of(rows), self.how.method, beam=self.how.beam, prove=self.how.prove)
        value = np.where(found.value > -np.inf, found.value, found.score)
        return BestOutputs(found.outputs, value, found.proved & (len(coupling) == 0)), state
