"""NeuralCRF: a chain whose label scores come from a network, and whose transitions are a table.

p(y | x) ∝ exp( Σ_t net(x)_t[y_t] + Σ_{t>1} edge[y_{t−1}, y_t] + start[y_1] + stop[y_n] )
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Any, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trellis.data.batch import Batch, Column
from trellis.data.checks import check_label_lists, check_list
from trellis.data.corpus import Corpus
from trellis.data.ragged import FloatArray, IntArray
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError
from trellis.models.documentation import documented
from trellis.models.log_linear import Dev
from trellis.models.sequence import Labels, SequenceModel, check_sentences, with_labels
from trellis.models.state import InnerHeader, SavedVocabulary, vocabulary_from_json, vocabulary_to_json
from trellis.neural.encoders import check_scores_of
from trellis.neural.forms import FORMS, Form
from trellis.neural.model import NeuralModel, chain_groups
from trellis.neural.scan import chain_log_partition
from trellis.neural.targets import NeuralStatistics, Targets
from trellis.structures import Chain, ChainTables, LabelPosterior
from trellis.structures.chain_parts import pair_up


class _CRFHeader(TypedDict):
    """What a file keeps beside the arrays."""

    labels: SavedVocabulary
    encoder: InnerHeader | None


class ChainNetwork(nn.Module):
    """Scores of labels from a body (and a linear layer, where it gives vectors), and scores of transitions."""

    def __init__(self, body: Any, width: int | None, n_labels: int, ends: bool) -> None:
        super().__init__()
        self.body, self.n_labels = body, n_labels
        self.linear = None if width is None else nn.Linear(width, n_labels)
        dtype = next((one.dtype for one in body.parameters() if one.is_floating_point()), torch.get_default_dtype())
        self.edge = nn.Parameter(torch.zeros(n_labels, n_labels, dtype=dtype))
        self.start = nn.Parameter(torch.zeros(n_labels, dtype=dtype), requires_grad=ends)
        self.stop = nn.Parameter(torch.zeros(n_labels, dtype=dtype), requires_grad=ends)

    def forward(self, batch: Batch) -> tuple[Any, Any, Any, Any]:
        node = self.body(batch) if batch.n_slots else self.edge.new_zeros(0, self.n_labels)
        if self.linear is not None and batch.n_slots:
            node = self.linear(node)
        node = check_scores_of(node, (batch.n_slots, self.n_labels), "a score for each token and label")
        return node, self.edge, self.start, self.stop


@documented
@dataclass(eq=False, repr=False)
class NeuralCRF(NeuralModel, SequenceModel):
    """Linear-chain CRF over the scores of a network.

    Parameters
    ----------
    module : torch.nn.Module, Encoder or str, default="bilstm"
        What scores the labels of tokens. A module of your own gives a tensor (n_tokens, n_labels), all sentences one
        after the other. An encoder gives vectors, which a linear layer turns into scores: ``BiLSTM``, ``WordVectors``,
        ``Pretrained``, or "bilstm" for the first.
    labels : list of str, int or None, default=None
        Names of the labels, or their number. By default, the labels that occur in ``y``.
    inputs : callable or None, default=None
        Function that maps a batch to the argument (or a tuple of arguments) of a module of your own. By default it is
        given the vectors of the tokens as one tensor, or the sentences as lists of words.
    ends : bool, default=True
        Learn scores of the first and the last label of a sentence.

    Attributes
    ----------
    net_ : torch.nn.Module
        The trained network.
    label_names_ : Vocabulary
        Labels.
    history_ : History
        Objective and development score of each pass.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether training stopped before ``max_iter``.

    Examples
    --------
    >>> X, y = [["the", "dog", "barks"], ["dogs", "bark"]], [["D", "N", "V"], ["N", "V"]]
    >>> from trellis.neural import BiLSTM
    >>> small = BiLSTM(word_size=8, char_size=0, hidden=8, layers=1, min_count=1, dropout=0.0)
    >>> NeuralCRF(small, max_iter=40, learning_rate=0.05).fit(X, y).predict([["the", "dogs", "bark"]])
    [['D', 'N', 'V']]
    """

    module: Any = "bilstm"
    labels: Sequence[str] | int | None = None
    _: KW_ONLY
    inputs: Callable[[Batch], Any] | None = None
    ends: bool = True

    learned_names = _CRFHeader

    # text in

    def encode(self, X: Any, y: Labels | None = None, weights: Any = None, fit: bool = False) -> Batch:
        """A batch with the column "word", or with vectors as features where tokens are vectors.

        X : sentences, each a list of words or of vectors; or a Corpus, which brings its labels along
        y : labels, None where unknown;  weights : (n_sentences,)
        fit : learn words and labels from X and y, and reset the parameters
        """
        if fit:
            self._check_settings()
            self.label_names_ = self._learn_label_names(X, y)
        else:
            self._check_fitted()
        batch = self._coded(X, check_label_lists(y), weights)
        if fit:
            self._learn(batch)
        return batch

    def _coded(self, X: Any, y: Labels | None, weights: Any) -> Batch:
        if isinstance(X, Corpus):
            if y is not None:
                raise DataError("a Corpus contains its labels: leave out y")
            names = [None if k < 0 else X.label_names[k] for k in X.batch.labels.tolist()]
            ends = X.batch.offsets.tolist()
            known = [names[low:high] for low, high in pairwise(ends)]
            blank = [[""] * n for n in X.batch.lengths.tolist()]
            made = Batch.from_sentences(blank, known, label_names=self.label_names_, weights=weights)
            return _with(made, columns=dict(X.batch.columns))
        given = [list(x) if isinstance(x, np.ndarray) and x.ndim == 2 else x for x in check_list(X, "sentences")]
        sentences = check_sentences(given)
        words = all(isinstance(token, str) for sentence in sentences for token in sentence)
        blank = [[""] * len(sentence) for sentence in sentences]
        made = Batch.from_sentences(blank, y, label_names=self.label_names_, weights=weights)
        if words:
            return _with(made, columns={"word": Column.of([word for sentence in sentences for word in sentence])})
        return _with(made, columns={}, features=_vectors(sentences))

    # the four verbs

    def _inputs(self) -> Callable[[Batch], Any] | None:
        return self.inputs

    def _network(self, body: Any, width: int | None) -> Any:
        return ChainNetwork(body, width, len(self.label_names_), bool(self.ends))

    def _groups(self, batch: Batch) -> IntArray:
        return chain_groups(self, batch, len(self.label_names_))

    def _structure(self, batch: Batch, arrays: Sequence[FloatArray]) -> Chain:
        node, edge, start, stop = arrays
        group = self._groups(batch)
        n_groups = int(group.max(initial=0)) + 1
        # A matrix for each group of instances: the posterior then counts transitions group by group.
        stack = np.ascontiguousarray(np.broadcast_to(edge, (n_groups, *edge.shape)))
        tables = ChainTables(np.ascontiguousarray(node), stack, start, stop)
        return Chain.over(tables, batch.offsets, edge_index=np.repeat(group, batch.lengths), first=batch.first)

    def in_place_of(self, batch: Batch, scores: Chain) -> Chain:
        """The scores of another model of these instances, whose posteriors this model can collect."""
        group = np.repeat(self._groups(batch), batch.lengths).astype(np.int32)
        n_groups = int(group.max(initial=0)) + 1
        inside = np.where(scores.parts.has_boundary(), group, 0)
        own, theirs, index = pair_up(inside, scores.edge_index, scores.tables.n_matrices)
        tables = ChainTables(scores.node, scores.tables.edge[theirs], scores.tables.start, scores.tables.stop)
        return Chain.over(tables, batch.offsets, edge_index=index, first=batch.first, owner=(own, n_groups))

    def _rows(self, batch: Batch, q: LabelPosterior) -> FloatArray:
        return q.node

    def collect(self, batch: Batch, q: LabelPosterior) -> NeuralStatistics:
        """Expected labels of tokens, and expected transitions by group of sentences."""
        (plain,) = super().collect(batch, q).pieces
        group = self._groups(batch)
        n_groups = int(group.max(initial=-1)) + 1
        if q.edge_counts is None or len(q.edge_counts) != max(n_groups, 1):
            raise DataError(
                "the posterior must be one over this model's own transitions: a view with several matrices of "
                "transitions (edge features, or an HMM with `after`) cannot be trained to agree with a network"
            )
        return NeuralStatistics((replace(plain, group=group, edge=q.edge_counts[:n_groups]),))

    def form_of(self, batch: Batch) -> Form:
        return FORMS["chain"]

    def _log_partition(self, batch: Batch, tensors: Sequence[Any], weights: FloatArray) -> Any:
        if tensors[0].is_cuda:
            return chain_log_partition(batch.offsets, tensors, weights)
        return super()._log_partition(batch, tensors, weights)

    def _linear(self, part: Targets, tensors: Sequence[Any]) -> list[Any]:
        rows, offsets = part.rows, part.batch.offsets
        filled = np.diff(offsets) > 0
        edge = np.zeros((rows.shape[1],) * 2) if part.edge is None else part.edge.sum(axis=0)
        ends = [rows[offsets[:-1][filled]].sum(axis=0), rows[offsets[1:][filled] - 1].sum(axis=0)]
        like = zip(tensors, (rows, edge, *ends), strict=True)
        return [torch.from_numpy(array).to(one.device, one.dtype, non_blocking=True) for one, array in like]

    # alone, as an estimator

    def fit(self, X: Any, y: Labels | None = None, sample_weight: Any = None, *, dev: Dev = None) -> Self:
        """Supervised training on the sentences whose labels are all known; others only teach the encoder its words.

        dev : (X, y) whose score decides which pass is kept

        To learn from partly labelled and unlabelled text as well, give the model to a learner.
        """
        self._check_types()
        compile_ahead("CRF")
        return self._fitted(self._complete(self.encode(*with_labels(X, y), sample_weight, fit=True)), dev)

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        names, arrays = self._learned()
        return {"labels": vocabulary_to_json(self.label_names_), **names}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.label_names_ = vocabulary_from_json(names["labels"])
        if not len(self.label_names_):
            raise DataError("it names no labels")
        self._restore(names, arrays)

    def _check_settings(self) -> None:
        self._check_network()


def _with(batch: Batch, columns: Mapping[str, Column], features: Any = None) -> Batch:
    return Batch(batch.offsets, batch.labels, batch.weights, columns, features)


def _vectors(sentences: Sequence[Sequence[Any]]) -> FloatArray:
    """Tokens that are vectors as one matrix."""
    try:
        found = np.array([token for sentence in sentences for token in sentence], dtype=np.float64)
    except (TypeError, ValueError):
        found = np.zeros(0)
    if found.ndim != 2:
        raise DataError("tokens must be words, or vectors of numbers that all have the same length")
    return found
