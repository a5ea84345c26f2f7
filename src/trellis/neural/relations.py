"""NeuralRelations: a network scores the types of mentions and the relations between them.

    score(mention is of type t) = w_t · f(mention) + MLP([v_first; v_last])_t
    score(relation of i and j is r) = w_r · f(i, j) + MLP([m_i; m_j; mean of v between])_r

with v the encoder's vectors, m the hidden layer of a mention, and f the features of the log-linear model. Given a
sentence, mentions and pairs are independent, so that log Z is a sum of log Σ exp; rules tie them in the E-step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trellis.data.batch import Batch, Column
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.data.related import as_related
from trellis.errors import DataError
from trellis.models.documentation import documented
from trellis.models.relation_features import slots_of
from trellis.models.relation_model import RelationModel
from trellis.models.saving import members_from_archive, members_to_archive
from trellis.models.state import InnerHeader
from trellis.neural.model import PIECE
from trellis.neural.parser import Layer
from trellis.neural.parts import NeuralParts
from trellis.structures import Graph, PartPosterior

SENTENCE, BEGIN, END = "sentence", "begin", "end"
"""Columns of a batch beside those of the log-linear model: the words, and where a mention begins and ends."""
BLANK = "\0"
"""Between the words of a sentence."""


class _RelationsHeader(TypedDict):
    """What a file keeps beside the arrays."""

    like: InnerHeader
    encoder: InnerHeader | None


def sentences_of(batch: Batch) -> Batch:
    """The sentences of mentions as a batch of words; an instance without mentions is empty."""

    def make() -> Batch:
        column, filled = batch.column(SENTENCE), batch.lengths > 0
        names, codes = column.vocabulary.names, iter(column.codes[batch.offsets[:-1][filled]].tolist())
        return Batch.from_sentences([names[next(codes)].split(BLANK) if some else [] for some in filled.tolist()])

    return batch.remembered("sentences", make)


class SparseScores(nn.Module):
    """w · f for sparse features f that are 0 or 1; begins with zeros."""

    def __init__(self, n_features: int, n_labels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_features, n_labels))

    def reset_parameters(self) -> None:
        """Begin with all labels alike."""
        nn.init.zeros_(self.weight)

    def forward(self, rows: Any) -> Any:
        device = self.weight.device
        at, starts = (torch.from_numpy(one.astype(np.int64)).to(device) for one in (rows.indices, rows.indptr[:-1]))
        return nn.functional.embedding_bag(at, self.weight, starts, mode="sum")


class RelationNetwork(nn.Module):
    """Scores of mentions and pairs, (n_mentions · n_types + n_pairs · n_relations,)."""

    def __init__(
        self, body: Any, width: int, n_features: Sequence[int], n_labels: Sequence[int], size: int, dropout: float
    ) -> None:
        super().__init__()
        self.body, self.n_features = body, tuple(n_features)
        self.weights = nn.ModuleList(map(SparseScores, n_features, n_labels))
        self.hidden = nn.ModuleList([Layer(2 * width, size, dropout), Layer(2 * size + width, size, dropout)])
        self.out = nn.ModuleList(nn.Linear(size, n) for n in n_labels)

    def forward(self, batch: Batch) -> tuple[Any]:
        if not batch.n_slots:
            return (self.weights[0].weight.new_zeros(0),)
        mentions, pairs = slots_of(batch)
        device, owner = self.weights[0].weight.device, np.repeat(np.arange(len(batch)), batch.lengths)
        first_word, first_mention = sentences_of(batch).offsets[:-1], np.searchsorted(mentions, batch.offsets[:-1])

        def numbers(name: str, slots: IntArray, start: IntArray) -> IntArray:
            found: IntArray = batch.column(name).codes[slots].astype(np.int64) + start[owner[slots]]
            return found

        def tensor(array: NDArray[Any]) -> Any:
            return torch.from_numpy(array).to(device)

        begin, end = (numbers(name, mentions, first_word) for name in (BEGIN, END))
        one, two = (numbers(name, pairs, first_mention) for name in ("first", "second"))
        vectors = self._vectors(sentences_of(batch))
        mention = self.hidden[0](torch.cat([vectors[tensor(begin)], vectors[tensor(end - 1)]], dim=1))
        low, high = np.minimum(end[one], end[two]), np.maximum(begin[one], begin[two])
        high = np.maximum(low, high)  # mentions may overlap
        sums = torch.cat([vectors.new_zeros(1, vectors.shape[1]), vectors.cumsum(0)])
        lengths = tensor(np.maximum(high - low, 1)).to(vectors.dtype)
        between = (sums[tensor(high)] - sums[tensor(low)]) / lengths[:, None]
        pair = self.hidden[1](torch.cat([mention[tensor(one)], mention[tensor(two)], between], dim=1))
        n, m = self.n_features
        own = batch.features[mentions][:, :n], batch.features[pairs][:, -m:]
        scores = (w(f) + o(h) for w, f, o, h in zip(self.weights, own, self.out, (mention, pair), strict=True))
        return (torch.cat([score.reshape(-1) for score in scores]),)

    def _vectors(self, text: Batch) -> Any:
        if self.training:
            return self.body(text)
        pieces = (text.instances(low, min(low + PIECE, len(text))) for low in range(0, len(text), PIECE))
        return torch.cat([self.body(piece) for piece in pieces if piece.n_slots])


@documented
@dataclass(eq=False, repr=False)
class NeuralRelations(NeuralParts):
    """Types of mentions and relations between them, scored by features and by a network over the words.

    Parameters
    ----------
    module : Encoder or str
        Encoder of words, such as "bilstm".
    like : RelationModel
        Model that encodes sentences; its features are those of this model.
    size : int, default=100
        Size of the hidden layers of mentions and of pairs.
    dropout : float, default=0.33
        Dropout of these layers.

    Attributes
    ----------
    net_ : torch.nn.Module
        The trained network.
    like_ : RelationModel
        The model that encodes and decodes.
    history_ : History
        Objective and development score of each pass.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether training stopped before ``max_iter``.

    Examples
    --------
    >>> from trellis.models.relation_model import RelationModel
    >>> from trellis.neural import BiLSTM
    >>> text = {
    ...     "tokens": ["Ann", "of", "Ely"],
    ...     "mentions": [{"start": 0, "end": 1, "type": "Peop"}, {"start": 2, "end": 3, "type": "Loc"}],
    ...     "relations": [{"first": 0, "second": 1, "type": "Live_In"}],
    ... }
    >>> small = BiLSTM(word_size=8, char_size=0, hidden=8, layers=1, min_count=1, dropout=0.0)
    >>> model = NeuralRelations(small, RelationModel(min_count=1), max_iter=40, learning_rate=0.05).fit([text])
    >>> model.predict([text])
    [(['Peop', 'Loc'], {(0, 1): 'Live_In'})]
    """

    size: int = 100
    dropout: float = 0.33

    learned_names = _RelationsHeader  # type: ignore[assignment]

    @property
    def types_(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of entity types and of relations."""
        found: tuple[tuple[str, ...], tuple[str, ...]] = self.like_.types_
        return found

    def with_ties(self, most: int) -> Self:
        """The same model, whose variables factors tie in sentences of up to so many mentions."""
        made: Self = replace(self)
        made.__dict__.update(self.__dict__)
        made.like_ = self.like_.with_ties(most)
        return made

    def confidence(self, batch: Batch, labels: LabelArray, q: PartPosterior) -> FloatArray:
        """(n_slots,): P(label) of every mention and pair under a posterior."""
        found: FloatArray = self.like_.confidence(batch, labels, q)
        return found

    def slots_seen(self, batch: Batch, parts: IntArray) -> IntArray:
        """The mentions and pairs that parts refer to."""
        found: IntArray = self.like_.slots_seen(batch, parts)
        return found

    # text in

    def _coded(self, X: Any, y: Any, weights: Any, fit: bool) -> Batch:
        texts = as_related(X)
        batch: Batch = self.like_.encode(texts, y, weights, fit=fit)
        spans = [text.spans or () for text in texts]
        repeats = [len(own) ** 2 for own in spans]
        words = Column.of([BLANK.join(text.tokens) for text, n in zip(texts, repeats, strict=True) for _ in range(n)])
        places = np.zeros((2, batch.n_slots), np.int32)
        for own, (low, _) in zip(spans, pairwise(batch.offsets.tolist()), strict=True):
            places[:, low : low + len(own)] = np.array([(m.first, m.last) for m in own]).reshape(-1, 2).T
        numbers = Column.of([str(n) for n in range(int(places.max(initial=0)) + 1)]).vocabulary
        own_columns = {SENTENCE: words, BEGIN: Column(places[0], numbers), END: Column(places[1], numbers)}
        return replace(batch, columns={**batch.columns, **own_columns})

    def _words(self, batch: Batch) -> Batch:
        return sentences_of(batch)

    # the four verbs

    def _network(self, body: Any, width: int | None) -> Any:
        if width is None:
            raise DataError("relations need an encoder such as BiLSTM(), whose vectors mentions are scored from")
        sides = self.like_.sides_
        n_labels = [len(own) for own in self.types_]
        return RelationNetwork(body, width, [side.n_features_in_ for side in sides], n_labels, self.size, self.dropout)

    def _structure(self, batch: Any, arrays: Sequence[FloatArray]) -> Graph:
        parts = self.parts(batch)
        return Graph(parts, np.concatenate([arrays[0], np.zeros(parts.n_parts - len(arrays[0]))]), batch.first)  # type: ignore[arg-type]

    def _by_instance(self, batch: Any) -> IntArray:
        instance, local = self._places(batch)
        found: IntArray = np.lexsort((local, instance))
        return found

    def _sizes(self, batch: Any) -> IntArray:
        found: IntArray = np.bincount(self._places(batch)[0], minlength=len(batch))
        return found

    def _places(self, batch: Any) -> tuple[IntArray, IntArray]:
        """Instances and local numbers of the parts that are scored: those of variables, and not of factors."""
        parts: Any = self.parts(batch)
        found: tuple[IntArray, IntArray] = parts.split(np.arange(parts.starts[2], dtype=np.int64))
        return found

    def _log_partition(self, batch: Any, tensors: Sequence[Any], weights: FloatArray) -> Any:
        parts: Any = self.parts(batch)
        total = tensors[0].new_zeros(())
        for own, low, high in zip(parts.variables, parts.starts, parts.starts[1:], strict=False):
            weight = torch.from_numpy(np.repeat(weights, np.diff(own.offsets))).to(tensors[0].device, tensors[0].dtype)
            total = total + (weight * tensors[0][low:high].reshape(-1, own.size).logsumexp(1)).sum()
        return total

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        header, arrays = members_to_archive({"like": self.like_})
        names, own = self._learned()
        return {**header, **names}, {**own, **arrays}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        own = {name: array for name, array in arrays.items() if name.startswith("like_")}
        self.like = self.like_ = members_from_archive(names, own, {"like": RelationModel})["like"]
        if self.like is None or names["encoder"] is None:
            raise DataError("it has no encoder, or no model of relations")
        self._restore(names, {name: array for name, array in arrays.items() if name not in own})

    def _check_settings(self) -> None:
        self._check_network()
        self._check_whole(size=1)
        self._check_within(dropout=(0.0, 0.9))
        if not isinstance(self.like, RelationModel):
            raise DataError(f"like must be a RelationModel, got {self.like!r:.80}")
