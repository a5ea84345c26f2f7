"""HMM: a generative chain in which each label emits a word.

    p(x, y) = start[y_1] Π_{t>1} transition[y_{t−1}, y_t] Π_t emission[x_t, y_t]

There is no stop probability: sentences have the lengths they have. M-steps are those of
:mod:`trellis.models.dirichlet`, so that EM, MAP-EM and variational Bayes (Graça et al. 2009, sec. 4) differ in two
constructor arguments. ``emissions`` says what stands behind emission[x, y]: a table with a number for each pair, or
weights of features that words share (:mod:`trellis.models.hmm_words`). With ``after``, labels depend on what the token
before says too, of which words are emitted first:

    p(y_t | y_{t−1}, c(x_{t−1})) = transition[c, y_{t−1}, y_t]

A comma says that a list of names goes on, a full stop that the title is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import check_arrays
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray
from trellis.engine import Engine, Placed
from trellis.errors import DataError, UnknownNameError
from trellis.models import dirichlet
from trellis.models.documentation import documented
from trellis.models.estimator import generator
from trellis.models.hmm_parameters import HMMParameters, HMMStatistics
from trellis.models.hmm_words import WordDescription
from trellis.models.kernels import counting
from trellis.models.lbfgs import check_l2
from trellis.models.lexicon import Forms, TagDictionary, transitions_after
from trellis.models.sequence import Labels, with_labels
from trellis.models.state import SavedVocabulary, vocabulary_from_json, vocabulary_to_json
from trellis.models.statistics import RowCounts
from trellis.structures import Chain, ChainTables, LabelPosterior

EMISSIONS = ("table", "features")


class _HMMHeader(TypedDict, total=False):
    """What a file keeps beside the arrays; the last three where the settings call for them."""

    labels: SavedVocabulary
    symbols: SavedVocabulary
    features: SavedVocabulary
    small: SavedVocabulary
    contexts: SavedVocabulary


@documented
@dataclass(eq=False, repr=False)
class HMM(HMMParameters):
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
    learned_names = _HMMHeader
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

    # alone, as an estimator

    def fit(self, X: Any, y: Labels | None = None, sample_weight: Any = None) -> Self:
        """Supervised: count the labels that are known.

        A token counts where its label is known, a transition where both its labels are. Sentences may be labelled in
        part; what is unknown is left out and not inferred. To learn from unlabelled text as well, give the model
        to a learner.
        """
        self._check_types()
        batch = self.encode(*with_labels(X, y), sample_weight, fit=True)
        if not np.any(batch.labels >= 0):
            raise DataError(
                "no token has a known label, and fit counts only those; to learn from unlabelled text, train this "
                "model with a learner of trellis.learn"
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
            raise DataError("sample does not support `after`, where labels depend on the words before them")
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

    def _check_settings(self) -> None:
        dirichlet.check_prior("transition_prior", self.transition_prior, variational=self.variational)
        dirichlet.check_prior("emission_prior", self.emission_prior, variational=self.variational)
        self._check_whole(min_count=1)
        if isinstance(self.emissions, str) and self.emissions not in EMISSIONS:
            raise UnknownNameError("emissions", self.emissions, EMISSIONS)
        check_l2(self.l2)
        self._check_within(back_off=(0.0, np.inf))
        if self.after is not None and not self.back_off:
            raise DataError("after needs a back_off above 0, since counts of a single context are sparse")
        if self.back_off and self.emissions != "table":
            raise DataError("back_off requires emissions='table': features can include word forms themselves")
        if self.emissions != "table":
            if self.variational:
                raise DataError("variational Bayes requires emissions='table': feature weights have a Gaussian prior")
            return
        if self.unknown is None and self.min_count > 1:
            raise DataError(f"min_count={self.min_count} needs a symbol for rarer words: give unknown='<unk>'")


def _log(probabilities: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(probabilities)
