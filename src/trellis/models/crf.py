"""CRF: a discriminative chain with sparse features of tokens (Lafferty et al. 2001).

    p(y | x) ∝ exp( Σ_t Σ_f value(t, f) w[f, y_t] + Σ_{t>1} edge_t[y_{t−1}, y_t] + start[y_1] + stop[y_n] )
    edge_t = edge, or with ``edge_features``  edge + Σ_f value(t, f) v[f]

The M-step on soft labels q maximises  Σ_i weight_i E_q[log p_w(y | x_i)] − (l2 / 2) ‖w‖², which is concave; with labels
given it is ordinary supervised training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.batch import Batch, Column
from trellis.data.checks import check_label_lists, check_sample_weight
from trellis.data.corpus import Corpus
from trellis.data.files import FilePath
from trellis.data.on_demand import OnDemand
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError
from trellis.models.crf_objective import CRFStatistics, WeightLayout, features_of
from trellis.models.documentation import documented
from trellis.models.features import FeatureFunction, describe, feature_matrix, learn_matrix
from trellis.models.kernels import log_linear
from trellis.models.log_linear import Dev, LogLinearModel
from trellis.models.saving import missing_function
from trellis.models.sequence import Labels, SequenceModel, check_sentences, with_labels
from trellis.models.state import vocabulary
from trellis.structures import Chain, LabelPosterior

Sentences = Sequence[Sequence[Any]]


@documented
@dataclass(eq=False, repr=False)
class CRF(LogLinearModel, SequenceModel):
    """Linear-chain conditional random field.

    Parameters
    ----------
    labels : list of str, int or None, default=None
        Names of the labels, or their number. By default, the labels that occur in ``y``.
    features : callable or None, default=None
        Function that maps a sentence and a position to a description of the token. By default, tokens are descriptions
        themselves: dictionaries, lists of feature names, or words.
    min_count : int, default=1
        Features that occur on fewer tokens are dropped.
    all_pairs : bool, default=False
        Use a weight for every pair of feature and label, not only for those that occur in the training data.
    ends : bool, default=True
        Use weights for the first and the last label of a sentence.
    transitions : bool, default=True
        Use weights for pairs of neighbouring labels. Without them, and without ``ends``, each token is classified by
        itself, as by :class:`MaxEnt`.
    edge_features : bool or str, default=False
        Give every feature weights for pairs of labels as well, or only the features whose names begin with a given
        string. Needs K² weights per feature.

    Attributes
    ----------
    weights_ : ndarray of shape (n_weights,)
        Feature weights.
    edge_ : ndarray of shape (K, K)
        Transition weights.
    start_ : ndarray of shape (K,)
        Weights of first labels.
    stop_ : ndarray of shape (K,)
        Weights of last labels.
    feature_names_ : Vocabulary
        Features.
    label_names_ : Vocabulary
        Labels.

    Examples
    --------
    >>> crf = CRF(l2=0.1).fit([["the", "dog", "barks"], ["dogs", "bark"]], [["D", "N", "V"], ["N", "V"]])
    >>> crf.predict([["the", "dogs", "bark"]])
    [['D', 'N', 'V']]
    """

    labels: Sequence[str] | int | None = None
    _: KW_ONLY
    features: FeatureFunction | None = None
    min_count: int = 1
    all_pairs: bool = False
    ends: bool = True
    transitions: bool = True
    edge_features: bool | str = False
    l2: float = 1.0
    solver: str = "lbfgs"
    max_iter: int = 500
    tol: float = 1e-7
    learning_rate: float = 0.1
    batch_size: int = 64
    random_state: int | None = None
    patience: int | None = None
    checkpoint: FilePath | None = None
    checkpoint_every: int = 10
    verbose: bool = False
    n_jobs: int | None = None
    engine: Any = None

    saved: ClassVar = {"labels": vocabulary("label_names_"), "features": vocabulary("feature_names_")}
    ARRAYS: ClassVar = {
        "first_pair": ArrayOf(np.int64, ("features + 1",), offsets_of="pairs"),
        "pair_label": ArrayOf(np.int32, ("pairs",), below="labels", rises_in="first_pair"),
        **LogLinearModel.ARRAYS,
    }

    # text in

    def encode(self, X: Any, y: Labels | None = None, weights: Any = None, fit: bool = False) -> Batch:
        """A batch with a feature matrix, and with the column "word" where the tokens are words.

        X : sentences, each a list of tokens; or a Corpus, whose tokens are dictionaries of its columns and which
            brings its labels along
        y : labels, None where unknown;  weights : (n_sentences,)
        fit : learn features, labels and their pairs from X and y, and reset the weights to 0
        """
        if not fit:
            self._check_fitted()
        sentences, y, columns = _unpacked(X, check_label_lists(y))
        return self._encode(sentences, y, weights, columns, self._learn_label_names(X, y) if fit else None)

    def _encode(
        self, sentences: Sentences, y: Labels | None, weights: Any, columns: Any, names: Vocabulary | None
    ) -> Batch:
        """With ``names`` of labels the features are learned as well."""
        if names is not None:
            self._check_settings()
            self.label_names_ = names
            self.feature_names_, features = learn_matrix(self._describe(sentences), self.min_count)
        else:
            features = feature_matrix(self._describe(sentences), self.feature_names_)
        blank = [[""] * len(sentence) for sentence in sentences]
        batch = replace(self._labelled(blank, y, weights), features=features, columns=columns)
        if names is not None:
            self.layout_ = self._learn_layout(batch)
            self.reset()
        return batch

    def _labelled(self, blank: Sentences, y: Labels | None, weights: Any) -> Batch:
        return Batch.from_sentences(blank, y, label_names=self.label_names_, weights=weights)

    def _describe(self, sentences: Sentences) -> Iterator[Iterator[tuple[str, float]]]:
        return describe(sentences, self._function())

    def _learn_layout(self, batch: Batch) -> WeightLayout:
        k = len(self.label_names_)
        marked = np.full((len(self.feature_names_), k), self.all_pairs, dtype=np.bool_)
        if not self.all_pairs:
            log_linear.mark_pairs(batch.features.indptr, batch.features.indices, batch.labels, marked)
        first = np.concatenate([[0], np.cumsum(marked.sum(axis=1))]).astype(np.int64)
        return self._layout(first, np.nonzero(marked)[1].astype(np.int32))

    def _layout(self, first_pair: NDArray[np.int64], pair_label: LabelArray) -> WeightLayout:
        k, own = len(self.label_names_), (bool(self.ends), bool(self.transitions))
        return WeightLayout(first_pair, pair_label, k, *own, self._with_edges())

    def _with_edges(self) -> IntArray:
        """Numbers of the features that have edges."""
        if isinstance(self.edge_features, str):
            names, start = self.feature_names_.names, self.edge_features
            return np.array([number for number, name in enumerate(names) if name.startswith(start)], dtype=np.int64)
        return np.arange(len(self.feature_names_) if self.edge_features else 0, dtype=np.int64)

    def _function(self, argument: str = "features") -> FeatureFunction | None:
        given: FeatureFunction | None = getattr(self, argument)
        missing = missing_function(given)
        if missing is not None:
            raise DataError(
                f"this model was trained with the feature function {missing}, which its file cannot hold: "
                f"load_model(path, {argument}=...) with that function"
            )
        return given

    # the four verbs

    def scores(self, batch: Batch) -> Chain:
        """Log-potentials of p(y | x) over the parts of the batch."""
        found: Chain = features_of(batch, self.layout_).scores(self.weights_)
        return found

    def uniform(self, batch: Batch) -> Chain:
        """Scores under which all label sequences are equally likely."""
        k = len(self.label_names_)
        edges, index = np.zeros((k, k)), None
        if len(self.layout_.edge_features):
            edges, index = features_of(batch, self.layout_).stack(edges)
        return Chain(batch.offsets, np.zeros((batch.n_slots, k)), edges, edge_index=index, first=batch.first)

    def collect(self, batch: Batch, q: LabelPosterior) -> CRFStatistics:
        """Expected counts of features with labels, of label pairs, and of first and last labels."""
        found: CRFStatistics = features_of(batch, self.layout_).collect(q)
        return found

    # weights

    def _n_weights(self) -> int:
        return self.layout_.n_weights

    def phi(self, batch: Batch, outputs: LabelArray) -> Any:
        """Counts of features with labels, of label pairs, and of first and last labels: a sparse row per sentence."""
        return self.layout_.phi(batch, outputs)

    def _vector(self, statistics: CRFStatistics) -> FloatArray:
        return statistics.vector(self.layout_)

    def bare(self) -> Self:
        """The model without the names of its features."""
        made = super().bare()
        made.feature_names_ = Vocabulary([], kind="feature")
        made.features = None
        return made

    @property
    def edge_(self) -> FloatArray:
        return self.layout_.split(self.weights_)[1]

    @property
    def start_(self) -> FloatArray:
        return self.layout_.split(self.weights_)[2]

    @property
    def stop_(self) -> FloatArray:
        return self.layout_.split(self.weights_)[3]

    def feature_weight(self, feature: str, label: str) -> float:
        """The weight of a feature with a label; 0 where that pair has none."""
        layout, f = self.layout_, self.feature_names_.number(feature)
        lo, hi = layout.first_pair[f], layout.first_pair[f + 1]
        at = np.flatnonzero(layout.pair_label[lo:hi] == self.label_names_.number(label))
        return float(self.weights_[lo + at[0]]) if len(at) else 0.0

    # alone, as an estimator

    def fit(
        self, X: Any, y: Labels | None = None, sample_weight: Any = None, *, dev: Dev = None, resume: bool = False
    ) -> Self:
        """Supervised training on the sentences whose labels are all known; others are left out.

        dev : (X, y) whose score decides which round is kept

        To learn from partly labelled and unlabelled text as well, give the model to a learner.
        """
        self._check_types()
        X, y = with_labels(X, y)
        sentences, labels, _ = _unpacked(X, y)
        complete = [i for i, known in enumerate(labels or ()) if known is not None and None not in known]
        if labels is None or not complete:
            raise DataError(
                "no sentence is fully labelled, and fit uses only such sentences; to learn from the others, train "
                "this model with a learner of trellis.learn"
            )
        if len(labels) != len(sentences):
            raise DataError(f"expected labels for {len(sentences)} sentences but got {len(labels)}")
        weights = check_sample_weight(sample_weight, len(sentences))[complete]
        compile_ahead("CRF")
        names = self._learn_label_names(X, y)
        whole = OnDemand(len(complete), lambda number: sentences[complete[number]])
        batch = self._encode(whole, [labels[i] for i in complete], weights, {}, names)
        return self._trained(self._loop(batch, dev).run(resume=resume))

    # one file

    def _saved_arrays(self) -> dict[str, NDArray[Any]]:
        return {
            **self.parameters(), "first_pair": self.layout_.first_pair, "pair_label": self.layout_.pair_label,
        }  # fmt: skip

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        sizes = {"labels": len(self.label_names_), "features": len(self.feature_names_)}
        checked = check_arrays(self.ARRAYS, arrays, **sizes)
        self.layout_ = self._layout(checked["first_pair"], checked["pair_label"])
        self.set_parameters(checked)

    def _check_settings(self) -> None:
        self._check_training()
        self._check_whole(min_count=1)


def _unpacked(X: Any, y: Labels | None) -> tuple[Sentences, Labels | None, dict[str, Column]]:
    """Sentences of tokens, their labels, and the columns that constraints may look at."""
    if not isinstance(X, Corpus):
        sentences = check_sentences(X)
        all_words = all(isinstance(token, str) for sentence in sentences for token in sentence)
        words = [token for sentence in sentences for token in sentence] if all_words else []
        return sentences, y, {"word": Column.of(words)} if all_words else {}
    if y is not None:
        raise DataError("a Corpus contains its labels: leave out y")
    batch = X.batch

    def sentence(number: int) -> list[dict[str, str]]:
        own = batch.instances(number, number + 1).columns
        strings = {name: column.strings() for name, column in own.items()}
        return [dict(zip(strings, cells, strict=True)) for cells in zip(*strings.values(), strict=True)]

    labels = [None if code < 0 else X.label_names[code] for code in batch.labels.tolist()]
    bounds = pairwise(batch.offsets.tolist())
    # a dictionary per token would be larger than all that is made of it
    return OnDemand(len(batch), sentence), [labels[lo:hi] for lo, hi in bounds], dict(batch.columns)
