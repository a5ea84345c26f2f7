"""What taggers share: sentences in and out, labels by name, predictions shard by shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trellis.data.batch import Batch
from trellis.data.checks import check_label_lists, check_list, check_names, is_list, is_whole
from trellis.data.corpus import Corpus, corpus_of
from trellis.data.document import Document
from trellis.data.ragged import FloatArray, LabelArray
from trellis.data.storage import Storage
from trellis.data.vocabulary import Vocabulary
from trellis.engine import shards_of, threads_for
from trellis.errors import DataError
from trellis.models.inference import Constraints, Inference
from trellis.models.saving import SavedEstimator
from trellis.structures import Chain, ChainParts, LabelPosterior

Labels = Sequence[Sequence[str | None] | None]
"""A label a token where known; None for a token or for a whole sentence: not known."""


class SequenceModel(SavedEstimator):
    """A model of label sequences; subclasses bring ``encode`` and ``scores``."""

    outputs_are: ClassVar[str] = "a label for each token"
    discriminative: bool
    labels: Any
    n_jobs: int | None
    label_names_: Vocabulary

    def encode(self, X: Any, y: Labels | None = None, weights: Any = None, fit: bool = False) -> Batch:
        raise NotImplementedError

    def scores(self, batch: Batch) -> Chain:
        raise NotImplementedError

    def parts(self, batch: Batch) -> ChainParts:
        """The parts of a batch's outputs."""
        return ChainParts(batch.offsets, len(self.label_names_))

    def probabilities(self, batch: Batch, posteriors: Sequence[LabelPosterior]) -> list[FloatArray]:
        """Posteriors of the batch's shards in the form that ``predict_proba`` gives them."""
        node = np.concatenate([np.empty((0, len(self.label_names_))), *(q.node for q in posteriors)])
        return [node[lo:hi] for lo, hi in pairwise(batch.offsets)]

    @property
    def classes_(self) -> NDArray[Any]:
        """The label names, in the order of the columns of ``predict_proba``."""
        return np.array(self.label_names_.names)

    def infer(self, X: Any, constraints: Constraints = (), *, search: str = "auto") -> Inference:
        """Inference on sentences, or on a batch of ``encode``: labels, marginals, log-partitions, ...

        constraints : under which the best labels are searched;  search : "auto", "beam", "astar", "ilp" or "exact"
        """
        return Inference(self, self._encoded(X), threads_for(self.n_jobs)).under(constraints, search)

    def predict(self, X: Any) -> list[list[str]]:
        """The best label sequence of each sentence (Viterbi)."""
        found: list[list[str]] = self.infer(X).labels
        return found

    def predict_proba(self, X: Any) -> list[FloatArray]:
        """P(y_t = k | x): one (n_tokens, n_labels) array a sentence, columns as in ``classes_``."""
        found: list[FloatArray] = self.infer(X).marginals
        return found

    def score(self, X: Any, y: Labels | None = None, sample_weight: Any = None) -> float:
        """Share of the tokens with a known label that ``predict`` labels so; without y, labels are those of X."""
        return self.infer(self._encoded(*with_labels(X, y), sample_weight)).accuracy()

    def log_likelihood(self, X: Any, y: Labels | None = None) -> float:
        """Σ_i log p of what is given: p(x) or p(x, y) of a generative model, p(y | x) of a discriminative one.

        Labels that are not known are summed over.
        """
        batch = self._encoded(X, y)

        def of_shard(shard: Batch) -> float:
            scores = self.scores(shard)
            given = scores.clamp(shard.labels).infer().log_partition
            return float((given - scores.infer().log_partition if self.discriminative else given).sum())

        shards = shards_of(batch)
        return sum(threads_for(self.n_jobs).map(lambda shard: of_shard(shard.of(batch)), shards), 0.0)

    def decode(self, batch: Batch, labels: LabelArray) -> list[list[str]]:
        """Label names of each instance; ``labels`` (n_slots,)."""
        names, codes = self.label_names_.names, labels.tolist()
        offsets = batch.offsets.tolist()
        return [[names[k] for k in codes[lo:hi]] for lo, hi in pairwise(offsets)]

    def _encoded(self, X: Any, y: Labels | None = None, weights: Any = None) -> Batch:
        self._check_fitted()
        return X if isinstance(X, Batch) else self.encode(X, y, weights)

    def _learn_label_names(self, X: Any, y: Labels | None) -> Vocabulary:
        """From the constructor, else from the corpus, else those found in ``y``, sorted."""
        if self.labels is not None:
            return label_vocabulary(self.labels)
        if isinstance(X, Corpus):
            return X.label_names
        found = {label for known in check_label_lists(y) or () for label in known or () if label is not None}
        if not found:
            raise DataError(
                f"there are no labels: give y, or name the labels: {type(self).__name__}(labels=[...]) or labels=10"
            )
        return Vocabulary(sorted(found), kind="label")


def label_vocabulary(labels: Any) -> Vocabulary:
    """The names of labels, given as a list of names or as the number of labels."""
    if is_whole(labels):
        if labels < 1:
            raise DataError(f"labels must be names or a number of labels, 1 or more; got {labels}")
        return Vocabulary(map(str, range(labels)), kind="label")
    if isinstance(labels, Vocabulary):
        return Vocabulary(labels.names, kind="label")
    if isinstance(labels, np.ndarray):
        labels = labels.tolist()
    names = check_names(labels, "labels")
    if not names:
        raise DataError("labels must be a list of names or a number of labels, but the list is empty")
    return Vocabulary(names, kind="label")


def check_sentences(X: Any) -> Sequence[Sequence[Any]]:
    """Sentences as a sequence of sequences; a string where a list of tokens should be is a mistake."""
    given = check_list(X, "sentences, each a list of tokens")
    sentences = given if isinstance(given, Sequence) else list(given)
    some = False
    for i, sentence in enumerate(sentences):
        some |= check_sentence(i, sentence) is not sentence
    return [check_sentence(i, sentence) for i, sentence in enumerate(sentences)] if some else sentences


def labelled(model: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Instances of any model and their labels, as for :func:`with_labels` if it labels sequences."""
    return with_labels(X, y) if y is None and isinstance(model, SequenceModel) else (X, y)


def with_labels(X: Any, y: Labels | None) -> tuple[Any, Labels | None]:
    """Sentences and their labels; without y, those of documents or of a table with "labels"."""
    if y is None and not isinstance(X, Batch | Corpus):
        X = X if isinstance(X, Sequence) else list(check_list(X, "sentences, each a list of tokens"))
        own = [
            one.labels if isinstance(one, Document) else one.get("labels") if isinstance(one, Mapping) else None
            for one in X
        ]
        y = own if any(one is not None for one in own) else None
    return X, check_label_lists(y)


def streamed(
    X: Iterable[Any], y: Labels | None = None, names: Vocabulary | None = None, memory: object = None
) -> Corpus:
    """Sentences that come one by one, as lists of words: only the numbers of words are kept.

    names : of the labels in y;  memory : as in :class:`~trellis.data.storage.Storage`: what takes too much goes to disk
    """
    known = iter(() if y is None else y)

    def sentence(number: int, given: Any) -> Document:
        words = check_sentence(number, given)
        for one in words:
            if not isinstance(one, str):
                raise DataError(f"words must be strings: sentence {number} has {one!r}, a {type(one).__name__}")
        labels = next(known, None)
        return Document(tuple(words), None if labels is None else tuple(labels))

    given = check_list(X, "sentences, each a list of tokens")
    found = corpus_of(map(sentence, count(), given), label_names=names, storage=Storage(memory))
    if y is not None and len(found.batch) != len(y):
        raise DataError(f"expected labels for {len(found.batch)} sentences but got {len(y)}")
    return found


def check_sentence(number: int, sentence: Any) -> Sequence[Any]:
    """One of them as a sequence; of a document, or the row of a table, its tokens."""
    if isinstance(sentence, Document):
        return sentence.tokens
    if isinstance(sentence, Mapping) and is_list(sentence.get("tokens")):
        sentence = sentence["tokens"]
    if not is_list(sentence):
        raise DataError(
            f"sentence {number} is of type {type(sentence).__name__}: expected a list of tokens; split strings first"
        )
    return sentence  # type: ignore[no-any-return]


def recode_labels(labels: LabelArray, given: Vocabulary, own: Vocabulary) -> LabelArray:
    """Labels coded by ``given`` as codes of ``own``; −1 stays."""
    if given is own or given == own:
        return labels
    used = np.zeros(len(given) + 1, dtype=np.bool_)
    used[labels] = True  # −1 marks the last entry
    table = np.full(len(given) + 1, -1, dtype=np.int32)
    for code in np.flatnonzero(used[:-1]):
        table[code] = own.number(given[int(code)])
    return table[labels]
