"""The vocabulary of an HMM: words and further columns of tokens as numbers of emitted symbols.

Log-linear emissions: words with common features share parameters (Berg-Kirkpatrick et al. 2010, eq. 1).

    emission[w, k] = exp(f(w) · W[:, k]) / Z_k,      Z_k = Σ_w' exp(f(w') · W[:, k])

    M-step: minimise  Σ_k n_k log Z_k(W) − Σ_{w, k} c[w, k] f(w) · W[:, k] + (l2 / 2) ‖W‖²

c are the expected counts of words with labels, n_k their sums over words. The sums of Z are over the words of training;
a word that was not among them is scored by the same formula, so that its endings say what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from trellis.data.batch import Batch, Column
from trellis.data.checks import check_label_lists
from trellis.data.corpus import Corpus
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine.blas import blas_at_one_thread
from trellis.errors import DataError
from trellis.models.features import feature_matrix, learn_features, named_values
from trellis.models.lbfgs import GaussianPrior, minimise
from trellis.models.lexicon import (
    Forms,
    TagDictionary,
    first_unknown,
    learn_small,
    learn_symbols,
    symbol_column,
    with_small,
)
from trellis.models.saving import missing_function
from trellis.models.sequence import Labels, SequenceModel, check_sentences, recode_labels, streamed

WordDescription = Callable[[str], Any]
"""word -> its features, in one of the forms of :mod:`trellis.models.features`."""

STEPS = 8
"""Rounds of L-BFGS in an M-step that goes on from the one before; the next round of EM goes on from there."""
ALONE, ALONE_TOL = 200, 1e-6
"""Rounds and tolerance of one that begins at W = 0: there is no next round to finish it."""

_ITSELF = "itself="


def word_features(word: str) -> dict[str, Any]:
    """Endings of one to three letters, digits, hyphens, capitals, marks: the basic features of the paper, and marks.

    >>> word_features("Re-reading")  # doctest: +NORMALIZE_WHITESPACE
    {'ends': ['g', 'ng', 'ing'], 'digit': False, 'hyphen': True, 'capital': True, 'capitals': False, 'marks': False}
    """
    low = word.lower()
    return {
        "ends": [low[-n:] for n in (1, 2, 3) if len(low) > n],
        "digit": any(letter.isdigit() for letter in word),
        "hyphen": "-" in word,
        "capital": word[:1].isupper(),
        "capitals": len(word) > 1 and word.isupper(),
        "marks": not any(letter.isalnum() for letter in word),
    }


class LogLinearEmissions:
    """The words of a model, their features, and what the M-step does with counts.

    words : those of training;  names : the features, see :meth:`learn`;  describe : word -> its features
    allowed : (n_words, n_labels) whether the word may have the label; None: all may
    """

    def __init__(
        self, words: Vocabulary, names: Vocabulary, describe: WordDescription, allowed: BoolArray | None, l2: float
    ) -> None:
        self.names, self.describe, self.allowed, self.l2 = names, describe, allowed, l2
        self.matrix = self.rows(words)

    @staticmethod
    def learn(words: Vocabulary, seen: IntArray, describe: WordDescription, min_count: int) -> Vocabulary:
        """Features that two words share, and the word itself of each that was ``seen`` at least ``min_count`` times."""
        shared = learn_features(map(named_values, map(describe, words)), 2)
        own = (_ITSELF + words[int(w)] for w in np.flatnonzero(seen >= min_count))
        return Vocabulary([*shared, *own], kind="feature")

    def rows(self, words: Iterable[str]) -> Any:
        """f(w) of words, old or new: a sparse row each."""
        return feature_matrix(map(self._named, words), self.names)

    def _named(self, word: str) -> Iterator[tuple[str, float]]:
        yield from named_values(self.describe(word))
        yield _ITSELF + word, 1.0

    @cached_property
    def _by_feature(self) -> Any:
        return self.matrix.T.tocsr()

    def probabilities(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """emission (n_words, n_labels) and log Z (n_labels,) of weights (n_features, n_labels)."""
        scores = np.asarray(self.matrix @ weights)
        if self.allowed is not None:
            scores[~self.allowed] = -np.inf
        largest = scores.max(axis=0)
        largest[~np.isfinite(largest)] = 0.0  # a label that no word may have
        found = np.exp(scores - largest)
        total = found.sum(axis=0)
        total[total == 0.0] = 1.0
        return found / total, largest + np.log(total)

    def of_new(self, words: Iterable[str], weights: FloatArray, log_z: FloatArray) -> FloatArray:
        """exp(f(w) · W[:, k]) / Z_k of words that were not in training."""
        return np.asarray(np.exp(self.rows(words) @ weights - log_z))

    def fit(self, counts: FloatArray, weights: FloatArray) -> FloatArray:
        """Weights after the M-step on counts (n_words, n_labels), which goes on from ``weights``."""
        total = counts.sum(axis=0)
        wanted = np.asarray(self._by_feature @ counts)

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            at = flat.reshape(weights.shape)
            found, log_z = self.probabilities(at)
            found *= total
            gradient = self._by_feature @ found - wanted
            return float(total @ log_z - np.vdot(wanted, at)), gradient.ravel()

        begins = not weights.any()
        with blas_at_one_thread():
            found = minimise(
                objective, weights.ravel(), prior=GaussianPrior(self.l2),
                max_iter=ALONE if begins else STEPS, tol=ALONE_TOL if begins else 0.0,
            )  # fmt: skip
        return found.weights.reshape(weights.shape)

    def gradient(self, counts: FloatArray, weights: FloatArray, emission: FloatArray) -> FloatArray:
        """∂/∂W of Σ c log emission − (l2 / 2) ‖W‖²  (n_features, n_labels), at weights with those emissions."""
        return np.asarray(self._by_feature @ (counts - counts.sum(axis=0) * emission)) - self.l2 * weights

    def log_prior(self, weights: FloatArray) -> float:
        """−(l2 / 2) ‖W‖²."""
        return -0.5 * self.l2 * float(np.vdot(weights, weights))


SYMBOL = "symbol"
"""Column of a batch with the word's number in the model; the column "word" keeps the word itself."""

CONTEXT = "context"
"""Column of a batch with what a token says of the label after it, numbered by the model."""
ANYTHING = "<anything>"
"""The context of tokens that say what training never met."""


class EmitsWords(SequenceModel):
    """A generative chain whose labels emit words; subclasses bring the parameters."""

    min_count: int
    unknown: str | None
    emits: str
    tag_dictionary: Mapping[str, Sequence[str]] | None
    other_labels: Sequence[str] | None
    emissions: str | WordDescription
    back_off: float
    forms: str
    after: str | None
    l2: float
    truecase: bool

    symbols_: Vocabulary
    feature_names_: Vocabulary
    weights_: FloatArray
    emission_: FloatArray
    _log_z: FloatArray
    _row_names: Vocabulary
    _tags: TagDictionary | None
    _log_linear: LogLinearEmissions | None = None
    # learned where settings call for them, and no fields: those are settings
    _forms = cast("Forms | None", None)
    _allowed = cast("BoolArray | None", None)
    _unknown_sets = cast("BoolArray | None", None)
    contexts_ = cast("Vocabulary | None", None)
    small_ = cast("Vocabulary | None", None)

    def reset(self) -> None:
        raise NotImplementedError

    def encode(self, X: Any, y: Labels | None = None, weights: Any = None, fit: bool = False) -> Batch:
        """A batch with the columns "word" and "symbol".

        X : sentences, each a list of words, or a Corpus, which brings its labels along. Sentences that come one by one
            (any iterable that is no sequence) are never held together, and go to disk where they take much memory
        y : labels, None where unknown;  weights : (n_sentences,)
        fit : learn the vocabularies from X and y and reset the parameters to uniform ones
        """
        if not fit:
            self._check_fitted()
        y = check_label_lists(y)
        if isinstance(X, Iterable) and not isinstance(X, Sequence | Corpus | np.ndarray | Mapping | Set):
            X, y = streamed(X, y, self._learn_label_names(X, y) if fit else self.label_names_), None
        if isinstance(X, Corpus):
            if y is not None:
                raise DataError("a Corpus contains its labels: leave out y")
            batch, names = X.batch, X.label_names
            if weights is not None:
                batch = replace(batch, weights=weights)
        else:
            X = check_sentences(X)
            names = self._learn_label_names(X, y) if fit else self.label_names_
            batch = _batch_of(X, y, names, weights)
        words, firsts = batch.column(self.emits), batch.offsets[:-1][batch.lengths > 0]
        if fit:
            self._check_settings()
            self.label_names_ = self._learn_label_names(X, y)
            self._tags = TagDictionary.of(self.tag_dictionary, self.other_labels, self.label_names_)
            self.small_ = learn_small(words, firsts, self._tags) if self.truecase else None
            if self.small_ is not None:
                words = with_small(words, firsts, self.small_, words.vocabulary, self._tags)
            by_table = self.emissions == "table"
            self.symbols_ = learn_symbols(words, self.min_count if by_table else 1, self.unknown if by_table else None)
            self._learn_allowed()
            if not by_table:
                seen = np.bincount(symbol_column(words, self.symbols_).codes, minlength=len(self.symbols_))
                self._describe_words(LogLinearEmissions.learn(self.symbols_, seen, self._description(), self.min_count))
            if self.back_off:
                coded = symbol_column(words, self.symbols_)
                self._forms = Forms.learn(coded, batch.column(self.forms), self.symbols_)
            self.contexts_ = None
            if self.after is not None:
                found = sorted({*batch.column(self.after).vocabulary} - {ANYTHING})
                self.contexts_ = Vocabulary([ANYTHING, *found], unknown=ANYTHING, kind="context")
            self.reset()
        elif self.small_ is not None:
            words = with_small(words, firsts, self.small_, self.symbols_, self._tags)
        return replace(
            batch,
            labels=recode_labels(batch.labels, names, self.label_names_),
            columns={**batch.columns, SYMBOL: self._symbol_column(words, batch), **self._context_column(batch)},
        )

    def _context_column(self, batch: Batch) -> dict[str, Column]:
        if self.contexts_ is None:
            return {}
        return {CONTEXT: symbol_column(batch.column(str(self.after)), self.contexts_)}

    def _matrices(self, batch: Batch) -> LabelArray | None:
        """The matrix of the boundary before each slot, where there are several: what the token before says."""
        if self.contexts_ is None:
            return None
        codes = batch.column(CONTEXT).codes
        return np.concatenate([np.zeros(min(1, len(codes)), dtype=np.int32), codes[:-1]])

    @property
    def _transition_shape(self) -> tuple[int, ...]:
        k = len(self.label_names_)
        return (k, k) if self.contexts_ is None else (len(self.contexts_), k, k)

    def _description(self) -> WordDescription:
        missing = missing_function(self.emissions)
        if missing is not None:
            raise DataError(
                f"this model was trained with the features of words that {missing} gives, which its file cannot hold: "
                "load_model(path, emissions=...) with that function"
            )
        return word_features if isinstance(self.emissions, str) else self.emissions

    def _describe_words(self, names: Vocabulary) -> None:
        self.feature_names_ = names
        self._log_linear = LogLinearEmissions(self.symbols_, names, self._description(), self._allowed, self.l2)
        self.weights_ = np.zeros((len(names), len(self.label_names_)))

    def _symbol_column(self, words: Column, batch: Batch) -> Column:
        if self._log_linear is not None:
            used = np.flatnonzero(np.bincount(words.codes, minlength=len(words.vocabulary)))
            new = [w for w in (words.vocabulary[int(code)] for code in used) if w not in self.symbols_]
            known = Vocabulary([*self.symbols_, *new], kind="word") if new else self.symbols_
            return symbol_column(words, known)
        coded = symbol_column(words, self.symbols_)
        if self._unknown_sets is not None:
            assert self._tags is not None
            sets = self._tags.sets_of(words.vocabulary)[words.codes]
            is_unknown = coded.codes == self.symbols_.number(str(self.unknown))
            return Column(
                np.where(is_unknown, len(self.symbols_) + sets, coded.codes).astype(np.int32), self._row_names
            )
        found = first_unknown(batch, words, coded)
        if found is not None and not self.emission_[self.symbols_.number(found[0])].any():
            raise DataError(
                f"word {found[0]!r} of sentence {found[1]} was not seen in training, and unseen words have no "
                f"probability, since no training word was rarer than min_count={self.min_count}. Train with a larger "
                "min_count, or with emission_prior above 1"
            )
        return coded

    def _learn_allowed(self) -> None:
        """The labels that symbols may have, from the dictionary, which knows words and not symbols.

        Words that are emitted as ``unknown`` keep the labels of their own strings: for each set of labels there is a
        row of scores behind those of the symbols, that of ``unknown`` without the labels outside the set.
        """
        self._allowed, self._unknown_sets, self._row_names = None, None, self.symbols_
        if self._tags is None:
            return
        self._allowed = self._tags.allowed(self.symbols_)
        if self.emissions == "table" and self.unknown is not None:
            self._allowed[self.symbols_.number(self.unknown)] = self._tags.sets.any(axis=0)
            self._unknown_sets = self._tags.sets
            rows = (f"{self.unknown}\n{i}" for i in range(len(self._unknown_sets)))
            self._row_names = Vocabulary([*self.symbols_, *rows], kind="word")

    def _emission_rows(self, new: Sequence[str] = ()) -> FloatArray:
        """(n_rows, K) the emission of each symbol, of each set of unknown words, and of new words by their features.

        Where no unknown word of training had any of the labels of a set, each of them emits it equally often.
        """
        if self._unknown_sets is not None:
            unknown = np.where(self._unknown_sets, self.emission_[self.symbols_.number(str(self.unknown))], 0.0)
            never = ~unknown.any(axis=1)
            unknown[never] = self._unknown_sets[never] / len(self.symbols_)
            return np.concatenate([self.emission_, unknown])
        if not new:
            return self.emission_
        assert self._log_linear is not None
        rows = self._log_linear.of_new(new, self.weights_, self._log_z)
        return np.concatenate([self.emission_, rows if self._tags is None else rows * self._tags.allowed(new)])

    def _coded(self, batch: Batch) -> tuple[LabelArray, Sequence[str]]:
        """Numbers of the words, and the words that those beyond the model's own stand for."""
        column, own = batch.column(SYMBOL), self._row_names
        if column.vocabulary is own or column.vocabulary == own:
            return column.codes, ()
        if self._log_linear is None or column.vocabulary.names[: len(own)] != own.names:
            raise DataError("the batch was encoded with another vocabulary: create it with this model's encode")
        return column.codes, column.vocabulary.names[len(own) :]

    def _symbols(self, batch: Batch) -> LabelArray:
        codes, new = self._coded(batch)
        if new:
            raise DataError(
                f"the word {new[0]!r} was not among those that this model's features were learned from, so nothing "
                "can be counted for it: fit a new model on all the text"
            )
        if self._unknown_sets is None:
            return codes
        unknown = np.int32(self.symbols_.number(str(self.unknown)))
        return np.where(codes < len(self.symbols_), codes, unknown)


def _batch_of(X: Sequence[Sequence[str]], y: Labels | None, names: Vocabulary, weights: Any) -> Batch:
    try:
        return Batch.from_sentences(X, y, label_names=names, weights=weights)
    except TypeError as error:
        raise DataError(f"words must be strings: {error}") from error
