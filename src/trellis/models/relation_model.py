"""RelationModel: two log-linear classifiers, of mentions and of ordered pairs of them, over the variables of a graph.

    p(types, relations | sentence) = Π_i p(type_i | mention i) · Π_{i≠j} p(relation_ij | mentions i and j)
                                                                        (Roth & Yih 2004; Samdani et al. 2012, sec. 5.3)

By itself it knows of no tie between its two parts: constraints bring it. They act on the variables as they are, in
expectation, or where ``tied`` says so on factors over every pair and its two mentions, exactly.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.constraints.relation_rows import ENTITY, RELATION
from trellis.constraints.relations import NONE
from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.batch import UNKNOWN, Batch
from trellis.data.document import Document
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.data.related import as_related, is_labelled
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Additive, Engine, Placed
from trellis.errors import DataError, UnknownNameError
from trellis.models.documentation import documented
from trellis.models.features import feature_matrix, learn_matrix
from trellis.models.lbfgs import check_l2
from trellis.models.maxent import MaxEnt, MaxEntStatistics
from trellis.models.relation_features import (
    TAGS,
    batch_of,
    mention_features,
    mentions_of,
    pair_features,
    slots_of,
    ties_of,
    topic_features,
    variables_of,
)
from trellis.models.saving import SavedEstimator
from trellis.structures import Categorical, Graph, GraphParts, LabelPosterior, PartPosterior

KINDS = (ENTITY, RELATION)
MOST_SUMMED = 7
"""Mentions of a sentence up to which sums over factors are quick; an argmax takes any number."""


class _RelationHeader(TypedDict):
    """What a file keeps beside the weights."""

    types: list[list[str]]
    features: list[list[str]]


class SlotMaxEnt(MaxEnt):
    """A classifier of the slots of one kind of a batch.

    kind : 0 for mentions, 1 for pairs
    """

    def __init__(
        self, kind: int = 0, labels: Sequence[str] | None = None, *, l2: float = 0.3, max_iter: int = 100,
        tol: float = 1e-7,
    ) -> None:  # fmt: skip
        super().__init__(labels, l2=l2, max_iter=max_iter, tol=tol)
        self.kind = kind

    def scores(self, batch: Batch) -> Categorical:
        return super().scores(self._rows(batch))

    def collect(self, batch: Batch, q: LabelPosterior) -> MaxEntStatistics:
        return super().collect(self._rows(batch), q)

    def _rows(self, batch: Batch) -> Batch:
        """The slots of this kind; their features are the first columns, or the last."""
        n = self.n_features_in_

        def make() -> Batch:
            slots = slots_of(batch)[self.kind]
            features = batch.features[slots][:, :n] if self.kind == 0 else batch.features[slots][:, -n:]
            weights = np.repeat(batch.weights, batch.lengths)[slots]
            return Batch.of_rows(sparse.csr_array(features), batch.labels[slots], weights)

        return batch.remembered(("rows", self.kind, n), make)


@dataclass(frozen=True)
class RelationStatistics(Additive):
    """Expected counts of both classifiers."""

    mentions: MaxEntStatistics
    pairs: MaxEntStatistics


@documented
@dataclass(eq=False, repr=False)
class RelationModel(SavedEstimator):
    """Two log-linear models, of mention types and of relations between mentions.

    Parameters
    ----------
    entities : list of str or None, default=None
        Names of the entity types. By default, those that occur in training.
    relations : list of str or None, default=None
        Names of the relations. By default, those that occur in training.
    min_count : int, default=2
        Features that occur in fewer pairs are dropped.
    max_iter : int, default=60
        Rounds of L-BFGS in each M-step.
    tol : float, default=1e-06
        L-BFGS stops when the objective improves by less than this fraction.
    tied : int, default=0
        Rules hold in every output for sentences of up to this many mentions; otherwise in expectation.
    both_ways : bool, default=False
        Factors connect the two relations between a pair of mentions, one for each direction.

    Attributes
    ----------
    sides_ : tuple
        The two classifiers.
    types_ : tuple
        Names of entity types and of relations.
    """

    entities: Sequence[str] | None = None
    relations: Sequence[str] | None = None
    _: KW_ONLY
    l2: float = 0.3
    min_count: int = 2
    max_iter: int = 60
    tol: float = 1e-6
    tied: int = 0
    both_ways: bool = False

    discriminative = True
    outputs_are: ClassVar[str] = "entities and relations"
    learned_names = _RelationHeader
    # Beyond these bounds sums over the labels of several variables lose what distinguishes them.
    ARRAYS: ClassVar[dict[str, ArrayOf]] = {
        kind: ArrayOf(np.float64, (f"{kind}_weights",), low=-1e6, high=1e6) for kind in KINDS
    }

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "sides_")

    def with_ties(self, most: int) -> Self:
        """The same model, whose variables factors tie in sentences of up to so many mentions."""
        made = copy.copy(self)
        made.tied = most
        return made

    # batches

    def described(self, text: Document) -> tuple[list[list[str]], list[list[str]]]:
        """Features of every mention and of every ordered pair."""
        spans = [(m.first, m.last) for m in text.spans or ()]
        ends, topic = range(len(spans)), topic_features(text.tokens)
        return (
            [mention_features(text.tokens, span, text.columns.get("tag")) for span in spans],
            [[*pair_features(text.tokens, spans, i, j), *topic] for i in ends for j in ends if i != j],
        )

    def encode(self, X: Iterable[Document], y: Any = None, weights: Any = None, fit: bool = False) -> Batch:
        """Sentences as a batch: the slots of one are its mentions, and then its ordered pairs of mentions.

        What is known of types and relations stands in the sentences; with ``fit`` types and features are learned.
        """
        if y is not None:
            raise DataError("known mentions and relations are part of the sentences: leave out y")
        if not fit:
            self._check_fitted()
        texts = as_related(X)
        for number, text in enumerate(texts):
            if text.spans is None:
                raise DataError(f"sentence {number} has no mentions: find them first", path=text.path, line=text.line)
            if not fit and "tag" not in text.columns and self.tagged:
                raise DataError(
                    f"sentence {number} has no tags, but the model was trained with tags: add them, or train with a "
                    "tagger",
                    path=text.path,
                    line=text.line,
                )
        if fit:
            self._check_settings()
            self._learn_types(texts)
        described = [self.described(text) for text in texts]

        def rows(kind: int) -> Iterator[Iterator[tuple[str, float]]]:
            return (((name, 1.0) for name in one) for own in described for one in own[kind])

        if fit:
            # the classifier of mentions is small, and a letter or two may be all that it knows of a name
            names, matrices = zip(
                *(learn_matrix(rows(kind), (1, self.min_count)[kind]) for kind in (0, 1)), strict=True
            )
            self._features = names
            if not all(map(len, names)):
                raise DataError("no feature is frequent enough to learn from: lower min_count, or give more text")
            self._make_sides()
        else:
            matrices = tuple(feature_matrix(rows(kind), self._features[kind]) for kind in (0, 1))
        return batch_of(texts, matrices, [self._known(text) for text in texts], weights)

    def _learn_types(self, texts: Sequence[Document]) -> None:
        entities, relations = self.entities, self.relations
        if entities is None:
            entities = sorted({m.label for text in texts for m in text.spans or () if m.label})
        if relations is None:
            relations = sorted({r.label for text in texts for r in text.relations or ()})
        if not entities or not relations:
            what = "relations" if entities else "types of mentions"
            raise DataError(f"there are no {what}: give labelled sentences, or name them")
        self.types_ = (tuple(entities), (NONE, *(name for name in relations if name != NONE)))

    def _known(self, text: Document) -> tuple[list[int], list[int]]:
        numbers = [{name: n for n, name in enumerate(own)} for own in self.types_]
        mentions = [UNKNOWN if m.label is None else self._number(0, m.label, numbers, text) for m in text.spans or ()]
        n = len(mentions)
        if text.relations is None:
            return mentions, [UNKNOWN] * (n * (n - 1))
        named = {(r.first, r.second): self._number(1, r.label, numbers, text) for r in text.relations}
        return mentions, [named.get((i, j), 0) for i in range(n) for j in range(n) if i != j]

    def _number(self, kind: int, name: str, numbers: list[dict[str, int]], text: Document) -> int:
        if name not in numbers[kind]:
            what = ("type of a mention", "relation")[kind]
            raise UnknownNameError(what, name, self.types_[kind], path=text.path, line=text.line)
        return numbers[kind][name]

    def _make_sides(self) -> None:
        made = []
        for kind in (0, 1):
            side = SlotMaxEnt(kind, self.types_[kind], l2=self.l2, max_iter=self.max_iter, tol=self.tol)
            side.classes_ = np.array(self.types_[kind])
            side.label_names_ = Vocabulary(self.types_[kind], kind="label")
            side.n_features_in_ = len(self._features[kind])
            side.reset()
            made.append(side)
        self.sides_ = (made[0], made[1])
        self.label_names_ = _label_names(self.types_)

    @cached_property
    def tagged(self) -> bool:
        """Whether it learned from tags."""
        return any(name.startswith(TAGS) for name in self._features[0].names)

    # the four verbs

    def parts(self, batch: Batch) -> GraphParts:
        return batch.remembered(("graph", self.tied, self.both_ways, self.types_), lambda: self._parts(batch))

    def _parts(self, batch: Batch) -> GraphParts:
        variables = variables_of(batch, self.types_)
        return GraphParts(variables, ties_of(variables, self.tied, both_ways=self.both_ways) if self.tied else ())

    def scores(self, batch: Batch) -> Graph:
        return self._graph(batch, [side.scores(batch).node for side in self.sides_])

    def uniform(self, batch: Batch) -> Graph:
        return self.parts(batch).zeros()

    def _graph(self, batch: Batch, nodes: Sequence[FloatArray]) -> Graph:
        parts, flat = self.parts(batch), [node.reshape(-1) for node in nodes]
        zeros = np.zeros(parts.n_parts - sum(map(len, flat)))
        return Graph(parts, np.concatenate([*flat, zeros]), batch.first)

    def collect(self, batch: Batch, q: PartPosterior) -> RelationStatistics:
        """Expected counts of features with types, and with relations."""
        starts = self.parts(batch).starts
        found = []
        for kind, side in enumerate(self.sides_):
            node = q.marginal[starts[kind] : starts[kind + 1]].reshape(-1, len(self.types_[kind]))
            found.append(side.collect(batch, LabelPosterior(node, np.zeros(len(node)))))
        return RelationStatistics(*found)

    def update(
        self, statistics: RelationStatistics, *, shards: Sequence[Placed[Any]] | None = None,
        engine: Engine | None = None,
    ) -> None:  # fmt: skip
        for side, own in zip(self.sides_, (statistics.mentions, statistics.pairs), strict=True):
            side.update(own, shards=shards, engine=engine)

    def log_prior(self) -> float:
        return sum(side.log_prior() for side in self.sides_)

    def reset(self) -> None:
        for side in self.sides_:
            side.reset()

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        for side in self.sides_:
            side.randomize(rng, scale)

    def parameters(self) -> dict[str, FloatArray]:
        self._check_fitted()
        return {kind: side.parameters()["weights"] for kind, side in zip(KINDS, self.sides_, strict=True)}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        for kind, side in zip(KINDS, self.sides_, strict=True):
            side.set_parameters({"weights": parameters[kind]})

    def fit(self, X: Iterable[Document], y: Any = None) -> Self:
        """Supervised training on the fully labelled sentences."""
        self._check_types()
        from trellis.engine import SerialEngine, place_batch

        if y is not None:
            raise DataError("known mentions and relations are part of the sentences: leave out y")
        texts = [text for text in as_related(X) if is_labelled(text)]
        if not texts:
            raise DataError("no sentence has all types and relations known, and fit uses only such sentences")
        batch = self.encode(texts, fit=True)
        certain = self.scores(batch).certain(batch.labels, weights=batch.weights)
        self.update(self.collect(batch, certain), shards=[place_batch(SerialEngine(), batch)])
        return self

    # names

    def decode(self, batch: Batch, outputs: LabelArray) -> list[tuple[list[str], dict[tuple[int, int], str]]]:
        """Of each sentence the types of its mentions, and the relations that hold by their two mentions."""
        parts = self.parts(batch)
        types, ties = parts.by_kind(outputs)
        made = []
        mentions, pairs = parts.variables
        for i in range(len(batch)):
            own = slice(int(pairs.offsets[i]), int(pairs.offsets[i + 1]))
            named = zip(mentions_of(pairs)[own].tolist(), ties[own].tolist(), strict=True)
            made.append(
                (
                    [self.types_[0][t] for t in types[mentions.offsets[i] : mentions.offsets[i + 1]].tolist()],
                    {(a, b): self.types_[1][r] for (a, b), r in named if r},
                )
            )
        return made

    def probabilities(self, batch: Batch, posteriors: Sequence[PartPosterior]) -> tuple[FloatArray, FloatArray]:
        """P(type) of every mention (n_mentions, n_types) and P(relation) of every pair (n_pairs, n_relations)."""
        from trellis.engine import shards_of

        found: list[list[FloatArray]] = [[np.zeros((0, len(own)))] for own in self.types_]
        for shard, q in zip(shards_of(batch), posteriors, strict=True):
            starts = self.parts(shard.of(batch)).starts
            for kind in (0, 1):
                found[kind].append(q.marginal[starts[kind] : starts[kind + 1]].reshape(-1, len(self.types_[kind])))
        return np.concatenate(found[0]), np.concatenate(found[1])

    def confidence(self, batch: Batch, labels: LabelArray, q: PartPosterior) -> FloatArray:
        """(n_slots,): P(label) of every mention and pair under a posterior."""
        parts = self.parts(batch)
        shares = np.empty(batch.n_slots)
        for slots, part in zip(parts.slots, parts.used_by_kind(labels), strict=True):
            shares[slots] = q.at(part)
        return shares

    def slots_seen(self, batch: Batch, parts: IntArray) -> IntArray:
        """The mentions and pairs that parts refer to."""
        return self.parts(batch).slots_seen(parts)

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        parameters = self.parameters()
        names = _RelationHeader(
            types=[list(own) for own in self.types_], features=[list(own.names) for own in self._features]
        )
        return {**names}, dict(parameters)

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        if len(names["types"]) != 2 or len(names["features"]) != 2:
            raise DataError("a model of relations has two sides, with types and features of their own")
        entities, relations = (Vocabulary(own, kind="label").names for own in names["types"])
        if not entities or relations[:1] != (NONE,):
            raise DataError(f"it needs types of mentions, and {NONE!r} for the first of its relations")
        self.types_ = (entities, relations)
        self._features = tuple(Vocabulary(own, kind="feature") for own in names["features"])
        if not all(map(len, self._features)):
            raise DataError("it has no features")
        self._make_sides()
        self.set_parameters(check_arrays(self.ARRAYS, arrays))

    def _check_settings(self) -> None:
        check_l2(self.l2)
        self._check_whole(min_count=1, tied=0, max_iter=1)
        self._check_within(tol=(0.0, np.inf))


def _label_names(types: tuple[tuple[str, ...], tuple[str, ...]]) -> Vocabulary:
    """All names, for messages."""
    return Vocabulary(dict.fromkeys([*types[0], *types[1]]), kind="label")
