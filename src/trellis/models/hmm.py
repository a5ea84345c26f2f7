"""HMM: a generative chain in which each label emits a word.

    p(x, y) = start[y_1] Π_{t>1} transition[y_{t−1}, y_t] Π_t emission[x_t, y_t]

There is no stop probability: sentences have the lengths they have. M-steps are those of
:mod:`trellis.models.dirichlet`, so that EM, MAP-EM and variational Bayes (Graça et al. 2009, sec. 4) differ in two
constructor arguments. ``emissions`` says what stands behind emission[x, y]: a table with a number for each pair, or
weights of features that words share (:mod:`trellis.models.emissions`). With ``after``, labels depend on what the token
before says too, of which words are emitted first:

    p(y_t | y_{t−1}, c(x_{t−1})) = transition[c, y_{t−1}, y_t]

A comma says that a list of names goes on, a full stop that the title is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf, as_parameters, check_arrays
from trellis.data.batch import Batch, Column
from trellis.data.checks import check_label_lists
from trellis.data.corpus import Corpus
from trellis.data.ragged import BoolArray, FloatArray, LabelArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Additive, Engine, Placed
from trellis.errors import DataError, UnknownNameError
from trellis.models import dirichlet
from trellis.models.back_off import Forms, transitions_after
from trellis.models.documentation import documented
from trellis.models.emissions import LogLinearEmissions, WordDescription, word_features
from trellis.models.estimator import generator
from trellis.models.free_weights import FreeWeights
from trellis.models.gaussian import check_l2
from trellis.models.kernels import counting
from trellis.models.lexicon import (
    TagDictionary,
    first_unknown,
    learn_small,
    learn_symbols,
    symbol_column,
    with_small,
)
from trellis.models.row_counts import RowCounts
from trellis.models.saving import SavedVocabulary, missing_function, vocabulary_from_json, vocabulary_to_json
from trellis.models.sequence import Labels, SequenceModel, check_sentences, recode_labels, streamed
from trellis.structures import Chain, ChainTables, LabelPosterior

SYMBOL = "symbol"
"""Column of a batch with the word's number in the model; the column "word" keeps the word itself."""

CONTEXT = "context"
"""Column of a batch with what a token says of the label after it, numbered by the model."""
ANYTHING = "<anything>"
"""The context of tokens that say what training never met."""

EMISSIONS = ("table", "features")


@dataclass(frozen=True)
class HMMStatistics(Additive):
    """Expected counts.

    start : (K,) of first labels;  transition : (K, K) of label pairs, or with ``after`` (n_contexts, K, K)
    emission : (n_symbols, K) of words with labels
    """

    start: FloatArray
    transition: FloatArray
    emission: RowCounts


class _Names(TypedDict, total=False):
    """What a file keeps beside the arrays; the last three where the settings call for them."""

    labels: SavedVocabulary
    symbols: SavedVocabulary
    features: SavedVocabulary
    small: SavedVocabulary
    contexts: SavedVocabulary


@documented
@dataclass(eq=False, repr=False)
class HMM(FreeWeights, SequenceModel):
    """Hidden Markov model over words.

    Parameters
    ----------
    labels : list of str, int or None, default=None
        Names of the labels, or their number. By default, the labels that occur in ``y``.
    min_count : int, default=2
        Words that occur less often are treated as unknown.
    unknown : str or None, default="<unk>"
        Symbol for words that occur fewer than ``min_count`` times and for unseen words. None, with ``min_count=1``,
        makes the vocabulary closed: unseen words are errors.
    emits : str, default="word"
        Column that labels emit: the words, or another column of a Corpus.
    tag_dictionary : dict or None, default=None
        Possible labels of words, including rare and unseen ones.
    other_labels : list of str or None, default=None
        Possible labels of words outside of the tag dictionary. By default, all.
    transition_prior : float, default=1.01
        Dirichlet parameter α of transitions. 1 is maximum likelihood; more than 1 keeps unseen events possible.
    emission_prior : float, default=1.01
        Dirichlet parameter α of words. 1 is maximum likelihood; more than 1 keeps unseen events possible.
    variational : bool, default=False
        Use variational Bayes in place of the posterior mode; priors below 1 are then allowed.
    emissions : {"table", "features"} or callable, default="table"
        "table" has one probability per word and label. "features" is log-linear in suffixes, digits, hyphens, capitals
        and punctuation, and in the word itself if it is frequent. A function maps a word to features of your own.
    back_off : float, default=0.0
        Weight κ of backing off from words to their forms; 0 is none.
    forms : str, default="form"
        Column of a Corpus with the forms of words, for ``back_off``.
    after : str or None, default=None
        Column of a Corpus; transitions depend on its value at the previous token. Requires ``back_off`` above 0.
    l2 : float, default=1.0
        Strength of the Gaussian prior on the weights, 1 / σ². For features only.
    truecase : bool, default=False
        Lower-case the first word of a sentence if it occurs more often in lower case elsewhere.

    Attributes
    ----------
    start_ : ndarray of shape (K,)
        Initial probabilities.
    transition_ : ndarray of shape (K, K)
        Transition probabilities; with ``after`` one matrix per context.
    emission_ : ndarray of shape (n_symbols, K)
        Emission probabilities; columns sum to 1.
    symbols_ : Vocabulary
        Emitted symbols.
    label_names_ : Vocabulary
        Labels.
    weights_ : ndarray of shape (n_features, K)
        With features, their weights.
    feature_names_ : Vocabulary
        With features, their names.

    Examples
    --------
    >>> hmm = HMM(min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    >>> _ = hmm.fit([["the", "dog", "barks"], ["dogs", "bark"]], [["DET", "NOUN", "VERB"], ["NOUN", "VERB"]])
    >>> hmm.predict([["dogs", "barks"]])
    [['NOUN', 'VERB']]
    """

    labels: Sequence[str] | int | None = None
    _: KW_ONLY
    min_count: int = 2
    unknown: str | None = "<unk>"
    emits: str = "word"
    tag_dictionary: Mapping[str, Sequence[str]] | None = None
    other_labels: Sequence[str] | None = None
    transition_prior: float = 1.01
    emission_prior: float = 1.01
    variational: bool = False
    emissions: str | WordDescription = "table"
    back_off: float = 0.0
    forms: str = "form"
    after: str | None = None
    l2: float = 1.0
    truecase: bool = False
    n_jobs: int | None = None

    discriminative = False
    learned_names = _Names
    ARRAYS: ClassVar = {
        "start": ArrayOf(np.float64, ("labels",), low=0.0),
        "transition": ArrayOf(np.float64, ("labels", "labels"), low=0.0),
        "emission": ArrayOf(np.float64, ("symbols", "labels"), low=0.0),
    }
    ARRAYS_OF_FEATURES: ClassVar = {
        "start": ARRAYS["start"],
        "transition": ARRAYS["transition"],
        "weights": ArrayOf(np.float64, ("features", "labels")),
    }
    ARRAYS_OF_FORMS: ClassVar = {
        "form": ArrayOf(np.int64, ("symbols",), low=0),
        "form_share": ArrayOf(np.float64, ("symbols",), low=0.0),
    }
    # learned where they are asked for, and no fields: those are settings
    _forms = cast("Forms | None", None)
    _allowed = cast("BoolArray | None", None)
    _unknown_sets = cast("BoolArray | None", None)
    contexts_ = cast("Vocabulary | None", None)
    small_ = cast("Vocabulary | None", None)

    # text in

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
                raise DataError("a Corpus brings its own labels: give it without y")
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
                f"probability, since none seen there was rarer than min_count={self.min_count}. Train with a larger "
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

        Where no unknown word of training had any of the labels of a set, each of them emits it alike.
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

    # the four verbs

    def scores(self, batch: Batch) -> Chain:
        """log p(x, y) over the parts of the batch."""
        symbols, new = self._coded(batch)
        tables = self._tables
        if new:
            tables = ChainTables.of_probabilities(self._emission_rows(new), self.transition_, self.start_)
        return Chain.over(
            tables, batch.offsets, node_index=symbols, edge_index=self._matrices(batch), first=batch.first
        )

    def collect(self, batch: Batch, q: LabelPosterior) -> HMMStatistics:
        """Expected counts of a posterior whose edge counts are weighted already."""
        if q.edge_counts is None:
            raise DataError("the posterior of a chain must come with edge counts")
        symbols = self._symbols(batch)
        rows, places = counting.rows_used(symbols, len(self.symbols_))
        emission = np.zeros((len(rows), q.node.shape[1]))
        start = counting.add_slots(batch.offsets, batch.weights, places, q.node, emission)
        transition = q.edge_counts
        if self.contexts_ is None:
            transition = transition.sum(axis=0)
        elif transition.shape != self._transition_shape:
            raise DataError("the posterior must be one over this model's own transitions, a matrix for each context")
        return HMMStatistics(start, transition, RowCounts.of_rows(len(self.symbols_), rows, emission))

    def _columns(self, transition: FloatArray) -> FloatArray:
        """Counts of transitions with a distribution a column; with ``after`` they fall back."""
        if self.contexts_ is not None:
            transition = transitions_after(transition, self.back_off, self.transition_prior)
        return np.ascontiguousarray(transition.reshape(-1, len(self.label_names_)).T)

    def update(
        self, statistics: HMMStatistics, *, shards: Sequence[Placed[Any]] | None = None, engine: Engine | None = None
    ) -> None:
        """M-step: counts are all it needs, so the data is not looked at again."""
        start, transition = statistics.start[:, None], self._columns(statistics.transition)
        emission = statistics.emission.table()
        if self._forms is not None:
            emission = emission + self.back_off * self._forms.base(emission)
        if self._log_linear is not None:
            self.weights_ = self._log_linear.fit(emission, self.weights_)
            self._set_labels(statistics)
        else:
            fitted = partial(dirichlet.fitted, variational=self.variational)
            (self._set_concentrations if self.variational else self._set_probabilities)(
                fitted(start, self.transition_prior),
                fitted(transition, self.transition_prior),
                fitted(emission, self.emission_prior, self._allowed),
            )

    def uniform(self, batch: Batch) -> Chain:
        """Scores under which all label sequences that the tag dictionary allows are equally likely."""
        k = len(self.label_names_)
        symbols, new = self._coded(batch)
        allowed = np.ones((len(self._row_names) + len(new), k))
        if self._tags is not None:
            assert self._allowed is not None
            beyond = self._tags.allowed(new) if self._unknown_sets is None else self._unknown_sets
            allowed = np.concatenate([self._allowed, beyond]).astype(np.float64)
        tables = ChainTables.of_probabilities(allowed, np.ones(self._transition_shape))
        return Chain.over(
            tables, batch.offsets, node_index=symbols, edge_index=self._matrices(batch), first=batch.first
        )

    def log_prior(self) -> float:
        """Log-density of the priors up to a constant; with ``variational`` −KL(q(θ) ‖ p(θ))."""
        if self.variational:
            priors = (self.transition_prior, self.transition_prior, self.emission_prior)
            return dirichlet.log_prior(self._concentrations, priors, variational=True)
        if self._log_linear is not None:
            of_emission = self._log_linear.log_prior(self.weights_)
        else:
            of_emission = dirichlet.log_density(self.emission_, self.emission_prior, self._allowed)
        return (
            dirichlet.log_density(self.start_, self.transition_prior)
            + dirichlet.log_density(self.transition_, self.transition_prior)
            + of_emission
        )

    # parameters

    def reset(self) -> None:
        """Uniform parameters over what is allowed."""
        if self._log_linear is not None:
            self.weights_ = np.zeros_like(self.weights_)
        self.update(self.pseudo_counts(np.zeros))

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        """Parameters from pseudo-counts 1 + scale · U(0, 1), as in the experiments of Ganchev et al. 2010.

        Weights of features are drawn from N(0, scale²): counts would say the same of all that share one.
        """
        counts = self.pseudo_counts(lambda shape: 1.0 + scale * rng.random(shape))
        if self._log_linear is None:
            self.update(counts)
            return
        self.weights_ = scale * rng.standard_normal(self.weights_.shape)
        self._set_labels(counts)

    def pseudo_counts(self, draw: Callable[[tuple[int, ...]], FloatArray]) -> HMMStatistics:
        """Counts drawn by a function of a shape, nothing where the tag dictionary does not allow the label."""
        n, k = len(self.symbols_), len(self.label_names_)
        start, transition, emission = draw((k,)), draw(self._transition_shape), draw((n, k))
        if self._allowed is not None:
            emission = np.where(self._allowed, emission, 0.0)
        return HMMStatistics(start, transition, RowCounts.of_table(emission))

    def parameters(self) -> dict[str, FloatArray]:
        """The probabilities, or with ``variational`` the Dirichlet parameters of q(θ).

        "start" (K,), "transition" (K, K), "emission" (n_symbols, K), or with features "weights" (n_features, K)
        """
        self._check_fitted()
        if self._log_linear is not None:
            return {"start": self.start_, "transition": self.transition_, "weights": self.weights_}
        if self.variational:
            start, transition, emission = self._concentrations
            return {"start": start[:, 0], "transition": self._rows(transition), "emission": emission}
        return {"start": self.start_, "transition": self.transition_, "emission": self.emission_}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Take parameters of the form that :meth:`parameters` gives."""
        table, sizes = self._table_of_arrays(None if self._log_linear is None else self.feature_names_)
        tables = as_parameters(table, parameters, **sizes)
        k = len(self.label_names_)
        start, transition = tables["start"][:, None], np.ascontiguousarray(tables["transition"].reshape(-1, k).T)
        if self._log_linear is not None:
            self.weights_ = tables["weights"]
            self._check_sums(start=start, transition=transition)
            self._set_weights(start, transition)
            return
        emission = tables["emission"]
        if self._allowed is not None and np.any(emission[~self._allowed]):
            raise DataError("emission gives probability to a label that the tag dictionary does not allow")
        if self.variational:
            self._set_concentrations(start, transition, emission)
            return
        self._check_sums(start=start, transition=transition, emission=emission)
        self._set_probabilities(start, transition, emission)

    def _check_sums(self, **tables: FloatArray) -> None:
        names = {"transition": "rows of transition", "emission": "columns of emission"}
        for name, table in tables.items():
            dirichlet.check_sums(names.get(name, name), table, may_be_empty=True)

    def _table_of_arrays(self, features: Vocabulary | None) -> tuple[dict[str, ArrayOf], dict[str, int]]:
        k = len(self.label_names_)
        table, sizes = self.ARRAYS, {"symbols": len(self.symbols_), "labels": k}
        if features is not None:
            table, sizes = self.ARRAYS_OF_FEATURES, {"features": len(features), "labels": k}
        if self.contexts_ is not None:
            shape = ArrayOf(np.float64, ("contexts", "labels", "labels"), low=0.0)
            table, sizes = {**table, "transition": shape}, {**sizes, "contexts": len(self.contexts_)}
        return table, sizes

    def _set_labels(self, statistics: HMMStatistics) -> None:
        """Start and transitions from counts, emissions from ``weights_``."""
        start, transition = statistics.start[:, None], self._columns(statistics.transition)
        self._set_weights(
            dirichlet.mode(start, self.transition_prior), dirichlet.mode(transition, self.transition_prior)
        )

    def _set_weights(self, start: FloatArray, transition_t: FloatArray) -> None:
        """Emissions of ``weights_``, beside distributions of labels as columns."""
        assert self._log_linear is not None
        emission, self._log_z = self._log_linear.probabilities(self.weights_)
        self._set_probabilities(start, transition_t, emission)

    def _set_probabilities(self, start: FloatArray, transition_t: FloatArray, emission: FloatArray) -> None:
        """Distributions as columns, as :mod:`dirichlet` has them."""
        self.start_, self.transition_, self.emission_ = start[:, 0], self._rows(transition_t), emission
        self._tables = ChainTables.of_probabilities(self._emission_rows(), self.transition_, self.start_)

    def _rows(self, transition_t: FloatArray) -> FloatArray:
        """Transitions with a distribution a row, in matrices, from those with one a column."""
        return np.ascontiguousarray(transition_t.T).reshape(self._transition_shape)

    def _set_concentrations(self, start: FloatArray, transition_t: FloatArray, emission: FloatArray) -> None:
        self._concentrations = (start, transition_t, emission)
        self.start_ = dirichlet.mean(start)[:, 0]
        self.transition_ = self._rows(dirichlet.mean(transition_t))
        self.emission_ = dirichlet.mean(emission)
        rows = dirichlet.expected_log(emission)
        if self._unknown_sets is not None:
            unknown = rows[self.symbols_.number(str(self.unknown))]
            rows = np.concatenate([rows, np.where(self._unknown_sets, unknown, -np.inf)])
        self._tables = ChainTables.of(
            rows,
            self._rows(dirichlet.expected_log(transition_t)),
            dirichlet.expected_log(start)[:, 0],
        )
        self._tables.potentials  # noqa: B018  taken here once, and not by two shards at the same time

    # alone, as an estimator

    def fit(self, X: Any, y: Labels | None = None, sample_weight: Any = None) -> Self:
        """Supervised: count the labels that are known.

        A token counts where its label is known, a transition where both its labels are. Sentences may be labelled in
        part; what is unknown is left out and not inferred. To learn from unlabelled text as well, give the model
        to a learner.
        """
        self._check_types()
        batch = self.encode(X, y, sample_weight, fit=True)
        if not np.any(batch.labels >= 0):
            raise DataError(
                "no token has a known label, and fit counts those alone; to learn from unlabelled text use a learner "
                "of trellis.learn with this model"
            )
        self.update(self.count(batch))
        return self

    def count(self, batch: Batch) -> HMMStatistics:
        """Statistics of the known labels of a batch alone."""
        k, symbols = len(self.label_names_), self._symbols(batch)
        rows, places = counting.rows_used(symbols, len(self.symbols_))
        start, transition, emission = np.zeros(k), np.zeros((k, k)), np.zeros((len(rows), k))
        counting.count_labels(batch.offsets, batch.weights, places, batch.labels, start, transition, emission)
        matrices = self._matrices(batch)
        if matrices is not None:
            inner, y = np.ones(batch.n_slots, dtype=np.bool_), batch.labels
            inner[batch.offsets[:-1][batch.lengths > 0]] = False
            at = np.flatnonzero(inner & (y >= 0) & (np.roll(y, 1) >= 0))
            transition = np.zeros(self._transition_shape)
            np.add.at(transition, (matrices[at], y[at - 1], y[at]), np.repeat(batch.weights, batch.lengths)[at])
        return HMMStatistics(start, transition, RowCounts.of_rows(len(self.symbols_), rows, emission))

    def sample(self, lengths: Sequence[int], random_state: Any = None) -> tuple[list[list[str]], list[list[str]]]:
        """Sentences of the given lengths drawn from the model, and their labels.

        random_state : a seed or a numpy Generator
        """
        self._check_fitted()
        if self.contexts_ is not None:
            raise DataError("with `after` labels depend on words before them, and sample draws all labels first")
        rng = generator(random_state)
        batch = Batch.from_sentences([[""] * n for n in lengths])
        k = len(self.label_names_)
        chain = Chain(batch.offsets, np.zeros((batch.n_slots, k)), _log(self.transition_), start=_log(self.start_))
        labels = chain.sample(1, rng)[0]
        words = np.empty(batch.n_slots, dtype=np.int64)
        for label in range(k):
            slots = np.flatnonzero(labels == label)
            words[slots] = rng.choice(len(self.symbols_), size=len(slots), p=self.emission_[:, label])
        sentences = self.symbols_.decode(words.tolist())
        offsets = batch.offsets.tolist()
        split = [sentences[lo:hi] for lo, hi in pairwise(offsets)]
        return split, self.decode(batch, labels)

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        parameters = self.parameters()
        names = {"labels": vocabulary_to_json(self.label_names_), "symbols": vocabulary_to_json(self.symbols_)}
        if self._log_linear is not None:
            names["features"] = vocabulary_to_json(self.feature_names_)
        if self.small_ is not None:
            names["small"] = vocabulary_to_json(self.small_)
        if self.contexts_ is not None:
            names["contexts"] = vocabulary_to_json(self.contexts_)
        forms = {} if self._forms is None else {"form": self._forms.form, "form_share": self._forms.share}
        return names, {**parameters, **forms}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        self.label_names_ = vocabulary_from_json(names["labels"])
        self.symbols_ = vocabulary_from_json(names["symbols"])
        features = None if self.emissions == "table" else vocabulary_from_json(names["features"])
        self.contexts_ = None if self.after is None else vocabulary_from_json(names["contexts"])
        self.small_ = vocabulary_from_json(names["small"]) if self.truecase else None
        table, sizes = self._table_of_arrays(features)
        if self.back_off:
            table = {**table, **self.ARRAYS_OF_FORMS}
        arrays = check_arrays(table, arrays, **sizes)  # before anything of the size that names claim is made
        if self.back_off:
            form, share = arrays["form"], arrays["form_share"]
            _, numbers = np.unique(form, return_inverse=True)  # a large number would be a large table
            self._forms = Forms(numbers.astype(np.int64), share)
            arrays = {name: one for name, one in arrays.items() if name not in self.ARRAYS_OF_FORMS}
        self._tags = TagDictionary.of(self.tag_dictionary, self.other_labels, self.label_names_)
        self._learn_allowed()
        if features is not None:
            self._describe_words(features)
        self.set_parameters(arrays)

    def _coded(self, batch: Batch) -> tuple[LabelArray, Sequence[str]]:
        """Numbers of the words, and the words that those beyond the model's own stand for."""
        column, own = batch.column(SYMBOL), self._row_names
        if column.vocabulary is own or column.vocabulary == own:
            return column.codes, ()
        if self._log_linear is None or column.vocabulary.names[: len(own)] != own.names:
            raise DataError("the batch was coded with other words than this model's: make it with its encode")
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

    def _check_settings(self) -> None:
        dirichlet.check_prior("transition_prior", self.transition_prior, variational=self.variational)
        dirichlet.check_prior("emission_prior", self.emission_prior, variational=self.variational)
        self._check_whole(min_count=1)
        if isinstance(self.emissions, str) and self.emissions not in EMISSIONS:
            raise UnknownNameError("emissions", self.emissions, EMISSIONS)
        check_l2(self.l2)
        self._check_within(back_off=(0.0, np.inf))
        if self.after is not None and not self.back_off:
            raise DataError("after needs a back_off above 0: what was seen after one thing alone is little")
        if self.back_off and self.emissions != "table":
            raise DataError("back_off is for emissions='table': features of words may have their forms among them")
        if self.emissions != "table":
            if self.variational:
                raise DataError("variational Bayes is for emissions='table': weights of features have a Gaussian prior")
            return
        if self.unknown is None and self.min_count > 1:
            raise DataError(f"min_count={self.min_count} needs a symbol for rarer words: give unknown='<unk>'")


def _batch_of(X: Sequence[Sequence[str]], y: Labels | None, names: Vocabulary, weights: Any) -> Batch:
    try:
        return Batch.from_sentences(X, y, label_names=names, weights=weights)
    except TypeError as error:
        raise DataError(f"words must be strings: {error}") from error


def _log(probabilities: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(probabilities)
