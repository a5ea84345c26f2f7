"""What models of dependency trees share: tagged sentences in, heads out.

A sentence is a list of (word, tag); its tree a head for each word, as CoNLL-U has them: 0 the root, k the k-th word,
and None (or −1) where the head is not known.

Scores of arcs take n² memory and the best tree n³ time. A sentence of more than :data:`LONGEST` words is cut into
pieces of at most :data:`PIECE` words, after punctuation where there is any. The root of the first piece is the root of
the sentence; the roots of the other pieces are its dependents. If the trees of the pieces are projective, so is the
whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from trellis.data.batch import Batch, Column
from trellis.data.checks import check_list, check_sample_weight, is_list, is_whole
from trellis.data.ragged import FloatArray, IntArray, LabelArray, offsets_of
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Piece, Shard, threads_for
from trellis.engine.engine import Work
from trellis.errors import DataError
from trellis.models.inference import OUTPUTS, BestOutputs, Constraints, Inference, Query, by_kind
from trellis.models.saving import SavedEstimator
from trellis.models.sequence import check_sentences
from trellis.structures import Arcs, TreeParts, TreePosterior

Heads = Sequence[Sequence[int | None] | None]
"""A head for each word where known; None for a word or for a whole sentence: not known."""

UNKNOWN_TAG = "<other>"
"""Stands for every tag that training has not seen."""
WORDS_PER_PIECE = 2_000
"""Predictions are made in pieces of about so many words, so that all cores have something to do."""
MOST_WORDS = 2_000
"""Words of a sentence whose arcs all get a probability, or that is learned from: memory grows with their square."""


class TreeModel(SavedEstimator):
    """A model of the trees of tagged sentences; subclasses bring ``scores``."""

    outputs_are: ClassVar[str] = "trees"
    single_root: bool
    n_jobs: int | None
    label_names_: Vocabulary
    tag_names_: Vocabulary
    projective = True

    def scores(self, batch: Batch) -> Arcs:
        raise NotImplementedError

    def _learn(self, batch: Batch) -> None:
        """Learn what is to be known of a text before its trees are, and reset the parameters."""
        raise NotImplementedError

    def _check_settings(self) -> None:
        raise NotImplementedError

    def encode(self, X: Any, y: Heads | None = None, weights: Any = None, fit: bool = False) -> Batch:
        """A batch with the columns "word" and "upos", and heads for labels.

        X : sentences, each a list of (word, tag);  y : heads, None where unknown;  weights : (n_sentences,)
        fit : learn tags and words from X, and reset the parameters
        """
        sentences = [list(sentence) for sentence in check_sentences(X)]
        for i, sentence in enumerate(sentences):
            for token in sentence:
                if not (isinstance(token, tuple | list) and len(token) == 2 and all(isinstance(x, str) for x in token)):
                    raise DataError(f"sentence {i}: a token of a tree is a word and its tag, got {token!r}")
        tags = [tag for sentence in sentences for _, tag in sentence]
        if fit:
            self._check_settings()
            self.label_names_ = Vocabulary([], kind="label")
            self.tag_names_ = Vocabulary(
                [*sorted({*tags} - {UNKNOWN_TAG}), UNKNOWN_TAG], kind="tag", unknown=UNKNOWN_TAG
            )
        offsets = offsets_of(map(len, sentences))
        batch = Batch(
            offsets=offsets,
            labels=_flat_heads(sentences, y),
            weights=check_sample_weight(weights, len(sentences)),
            columns={
                "word": Column.of([word for sentence in sentences for word, _ in sentence]),
                "upos": Column.of(tags, self.tag_names_, kind="tag"),
            },
        )
        self.parts(batch).check(batch.labels, unknown=True)
        if fit:
            self._learn(batch)
        return batch

    def parts(self, batch: Batch) -> TreeParts:
        """The parts of a batch's outputs."""
        return TreeParts(batch.offsets, self.projective, self.single_root)

    def uniform(self, batch: Batch) -> Arcs:
        """Scores under which all trees are equally likely."""
        flat = self.parts(batch).zeros()
        flat.first = batch.first
        return flat

    def decode(self, batch: Batch, outputs: LabelArray) -> list[list[int]]:
        """Heads of each sentence."""
        heads = outputs.tolist()
        return [heads[low:high] for low, high in pairwise(batch.offsets.tolist())]

    def probabilities(self, batch: Batch, posteriors: Sequence[TreePosterior]) -> list[FloatArray]:
        """P(head of word c is h): of each sentence (n_words, n_words + 1), the first column the root."""
        marginal = np.concatenate([np.empty(0), *(q.marginal for q in posteriors)])
        made = []
        for n, first in zip(batch.lengths.tolist(), self.parts(batch).arc_offsets.tolist(), strict=False):
            square = marginal[first : first + n * n].reshape(n, n)
            own = np.concatenate((np.diag(square)[:, None], square), axis=1)
            own[np.arange(n), np.arange(n) + 1] = 0.0
            made.append(own)
        return made

    def infer(self, X: Any, constraints: Constraints = (), *, search: str = "auto") -> Inference:
        """Inference on tagged sentences, or on a batch of ``encode``: labels (heads), marginals, log-partitions, ...

        Sentences of more than 500 words are parsed in pieces; ``predict`` warns of them.

        constraints : under which the best trees are searched;  search : "auto" or "ilp", which are the same for trees
        """
        return TreeInference(self, self._encoded(X), threads_for(self.n_jobs)).under(constraints, search)

    def predict(self, X: Any) -> list[list[int]]:
        """The best tree of each sentence; sentences of more than 500 words are parsed in pieces, with a warning."""
        found = self.infer(X)
        warn_of_long(found.batch.lengths)
        heads: list[list[int]] = found.labels
        return heads

    def predict_proba(self, X: Any) -> list[FloatArray]:
        """P(head of word c is h): of each sentence (n_words, n_words + 1), the first column the root."""
        found: list[FloatArray] = self.infer(X).marginals
        return found

    def score(self, X: Any, y: Heads, sample_weight: Any = None) -> float:
        """Share of the words with a known head that ``predict`` gives it."""
        found = self.infer(self._encoded(X, y, sample_weight))
        warn_of_long(found.batch.lengths)
        return found.accuracy()

    def best_trees(self, batch: Batch) -> BestOutputs:
        """The trees that ``predict`` gives, of sentences that are parsed whole."""
        best = self.scores(batch).argmax()
        return BestOutputs(np.asarray(best.outputs, dtype=np.int32), best.score, np.ones(len(batch), np.bool_))

    def _encoded(self, X: Any, y: Heads | None = None, weights: Any = None) -> Batch:
        self._check_fitted()
        return X if isinstance(X, Batch) else self.encode(X, y, weights)


class TreeInference(Inference):
    """Inference of trees: those of long sentences are put together from pieces, and are not proved to be the best."""

    def _run(self, kinds: tuple[str, ...]) -> dict[str, list[Any]]:
        own = tuple(kind for kind in kinds if kind != OUTPUTS)
        found = by_kind(own, self._over(self.batch, Query(own))) if own else {}
        return found if OUTPUTS not in kinds else {**found, OUTPUTS: [self._trees()]}

    def _trees(self) -> BestOutputs:
        batch, pieces = self.batch, cut_long(self.batch)
        cut = replace(batch, offsets=pieces, weights=np.ones(len(pieces) - 1), origin=None)
        found = self._over(cut, _best_trees)
        heads = np.concatenate([np.zeros(0, np.int32), *(own.outputs for own in found)])
        values = np.concatenate([np.zeros(0), *(own.value for own in found)])
        proved = np.concatenate([np.zeros(0), *(own.proved for own in found)])
        begin, end = np.searchsorted(pieces, batch.offsets[:-1], "right"), np.searchsorted(pieces, batch.offsets[1:])
        n_pieces = 1 + np.maximum(end - begin, 0)
        first = np.concatenate([[0], np.cumsum(n_pieces)[:-1]])[: len(batch)]
        owner = np.repeat(np.arange(len(batch)), n_pieces)
        value = np.bincount(owner, values, minlength=len(batch)).astype(np.float64)
        joined = join_heads(heads, pieces, batch.offsets)
        return BestOutputs(joined, value, (proved[first] > 0) & (n_pieces == 1))

    def _over(self, batch: Batch, work: Work[Any]) -> list[Any]:
        """What a function makes of the sentences, in runs of a few thousand words."""
        cuts = np.searchsorted(batch.offsets, np.arange(0, batch.n_slots, WORDS_PER_PIECE)[1:])
        bounds = np.unique(np.concatenate(([0], cuts, [len(batch)]))).tolist()
        runs = [Shard(i, range(low, high), batch.first) for i, (low, high) in enumerate(pairwise(bounds))]
        return list(self.engine.place([Piece(run.of(batch)) for run in runs], runs).run(work, self.model))

    @cached_property
    def marginals(self) -> Any:
        long = np.flatnonzero(self.batch.lengths > MOST_WORDS)
        if len(long):
            raise DataError(
                f"sentence {long[0]} has {self.batch.lengths[long[0]]} words: probabilities of arcs are computed for "
                f"at most {MOST_WORDS} words; split it, or use predict"
            )
        return super().marginals


def _best_trees(model: TreeModel, item: Piece, state: Any) -> tuple[BestOutputs, Any]:
    return model.best_trees(item.data), state


def _flat_heads(sentences: Sequence[Sequence[Any]], y: Heads | None) -> LabelArray:
    flat = np.full(sum(map(len, sentences)), -1, dtype=np.int32)
    if y is None:
        return flat
    given = list(check_list(y, "lists of heads, one for each sentence"))
    if len(given) != len(sentences):
        raise DataError(f"expected heads for {len(sentences)} sentences but got {len(given)}")
    at = 0
    for i, (sentence, heads) in enumerate(zip(sentences, given, strict=True)):
        if heads is not None:
            if not is_list(heads):
                raise DataError(f"the heads of sentence {i} are {heads!r:.80}: expected a list of numbers, or None")
            if len(heads) != len(sentence):
                raise DataError(f"sentence {i} has {len(sentence)} words but {len(heads)} heads")
            flat[at : at + len(sentence)] = [_head(head, i, len(sentence)) for head in heads]
        at += len(sentence)
    return flat


def _head(head: Any, sentence: int, n: int) -> int:
    """A head as a number; −1 where it is not known."""
    if head is None:
        return -1
    if not is_whole(head) and not (isinstance(head, float | np.floating) and float(head).is_integer()):
        raise DataError(f"sentence {sentence} has the head {head!r:.80}: heads are whole numbers, or None")
    if not -1 <= head <= n:
        raise DataError(f"sentence {sentence} has the head {head}: expected 0 for the root, or 1 to {n} for a word")
    return int(head)


LONGEST = 500
"""Words of a sentence that is parsed as a whole: some seconds for the slowest model."""
PIECE = 100
"""Words of the pieces of longer sentences."""


def cut_long(batch: Batch) -> IntArray:
    """(n_pieces + 1,): the offsets of the batch, and those of the pieces of long sentences."""
    long = np.flatnonzero(batch.lengths > LONGEST)
    if not len(long):
        return batch.offsets
    word = batch.column("word")
    is_punctuation = np.array([not any(map(str.isalnum, text)) for text in word.vocabulary], dtype=np.bool_)
    cuts: list[int] = []
    for i in long.tolist():
        at, end = int(batch.offsets[i]), int(batch.offsets[i + 1])
        while end - at > PIECE:
            ends = np.flatnonzero(is_punctuation[word.codes[at + PIECE // 2 : at + PIECE]])
            at += PIECE // 2 + int(ends[-1]) + 1 if len(ends) else PIECE
            cuts.append(at)
    return np.sort(np.concatenate((batch.offsets, np.array(cuts, dtype=np.int64))))


def join_heads(heads: LabelArray, pieces: IntArray, offsets: IntArray) -> LabelArray:
    """Heads of sentences from heads of their pieces, (n_words,) each."""
    if len(pieces) == len(offsets):
        return heads
    joined = heads.copy()
    for i in np.flatnonzero(np.diff(np.searchsorted(pieces, offsets)) > 1).tolist():
        begin, end = int(offsets[i]), int(offsets[i + 1])
        own = pieces[(pieces >= begin) & (pieces <= end)]
        first_of_piece = np.repeat(own[:-1] - begin, np.diff(own))
        # the last of several roots: arcs from it to later pieces cross no other arc
        root = int(np.flatnonzero(heads[begin : own[1]] == 0)[-1]) + 1
        is_root = heads[begin:end] == 0
        joined[begin:end] += np.where(is_root, 0, first_of_piece).astype(joined.dtype)
        joined[begin:end][is_root & (first_of_piece > 0)] = root
    return joined


def warn_of_long(lengths: IntArray, places: Sequence[tuple[str | None, int | None]] | None = None) -> None:
    """Warn, once for all sentences, that long ones are parsed in pieces; ``places`` : file and line of each."""
    long = np.flatnonzero(lengths > LONGEST).tolist()
    if not long:
        return
    path, line = (None, None) if places is None else places[long[0]]
    where = f"sentence {long[0]}" if path is None else path if line is None else f"line {line} of {path}"
    others = f" (and {len(long) - 1} more sentences)" if len(long) > 1 else ""
    warnings.warn(
        f"{where} has {int(lengths[long[0]])} words{others}: sentences of more than {LONGEST} words are parsed in "
        f"pieces of at most {PIECE} words; split the text into sentences",
        UserWarning,
        stacklevel=3,
    )
