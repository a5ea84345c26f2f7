"""What classifiers of rows share: checked matrices in, labels of any kind out, scikit-learn's conventions.

A row is one instance with one slot. scikit-learn's own checks are not imported; the messages say the same, since its
``check_estimator`` reads them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.batch import UNKNOWN, Batch
from trellis.data.checks import check_sample_weight, is_list, is_whole
from trellis.data.ragged import FloatArray, LabelArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import threads_for
from trellis.errors import DataError, DataTypeError
from trellis.models.inference import Constraints, Inference
from trellis.models.saving import SavedEstimator
from trellis.structures import Categorical, CategoricalParts, LabelPosterior


class _TabularHeader(TypedDict):
    """What a file keeps of labels and features beside the arrays."""

    classes: list[str | int | float | bool]
    classes_type: str
    n_features: int
    feature_names: list[str] | None


class TabularModel(SavedEstimator):
    """A classifier over the rows of a matrix, dense or sparse; subclasses bring ``scores``.

    Learned: ``classes_`` the labels, ``label_names_`` their names as text, ``n_features_in_``, and
    ``feature_names_in_`` where the training data was a table with named columns.
    """

    outputs_are: ClassVar[str] = "one label per instance"
    labels: Any
    classes_: NDArray[Any]
    label_names_: Vocabulary
    n_features_in_: int
    _not_negative = False
    ARRAYS: ClassVar[dict[str, ArrayOf]]
    learned_names = _TabularHeader

    def scores(self, batch: Batch) -> Categorical:
        raise NotImplementedError

    def parts(self, batch: Batch) -> CategoricalParts:
        """The parts of a batch's outputs."""
        if np.any(batch.lengths != 1):
            i = int(np.flatnonzero(batch.lengths != 1)[0])
            raise DataError(f"a row has one label, but instance {batch.first + i} has {batch.lengths[i]} slots")
        return CategoricalParts(len(batch), len(self.label_names_))

    def probabilities(self, batch: Batch, posteriors: Sequence[LabelPosterior]) -> FloatArray:
        """Posteriors of the batch's shards in the form that ``predict_proba`` gives them."""
        return np.concatenate([np.empty((0, len(self.label_names_))), *(q.node for q in posteriors)])

    def uniform(self, batch: Batch) -> Categorical:
        """Scores under which all labels are equally likely."""
        return Categorical(np.zeros((len(batch), len(self.classes_))), batch.first)

    def _features(self, batch: Batch) -> Any:
        """The matrix of a batch, which must have this model's columns."""
        if batch.features is None or batch.features.shape[1] != self.n_features_in_:
            raise DataError(
                f"the batch must have a matrix of {self.n_features_in_} features: make it with the model's encode"
            )
        return batch.features

    def _check_settings(self) -> None:
        """Refuse arguments of the constructor that have no meaning."""

    def reset(self) -> None:
        raise NotImplementedError

    def parameters(self) -> dict[str, FloatArray]:
        raise NotImplementedError

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> Batch:
        """A batch with one instance a row and the rows as features.

        y : (n_rows,) labels, None where unknown;  weights : (n_rows,)
        fit : learn classes and the number of features, and reset the parameters
        """
        if not fit:
            self._check_fitted()
        matrix = check_matrix(X, not_negative=self._not_negative, name=type(self).__name__)
        self._check_columns(X, matrix, fit)
        given, known = check_targets(y, matrix.shape[0])
        if fit:
            self.classes_ = _check_classes(self._learn_classes(given, known))
            self.label_names_ = Vocabulary(map(str, self.classes_.tolist()), kind="label")
            self._check_settings()
            self.reset()
        labels = np.full(matrix.shape[0], UNKNOWN, dtype=np.int32)
        labels[known] = self._codes(given[known])
        return Batch.of_rows(matrix, labels, weights)

    def infer(self, X: Any, constraints: Constraints = (), *, search: str = "auto") -> Inference:
        """Inference on rows, or on a batch of ``encode``: labels, marginals, log-partitions, ...

        constraints : under which the best labels are searched;  search : "auto", "beam", "astar", "ilp" or "exact"
        """
        return Inference(self, X if isinstance(X, Batch) else self.encode(X), threads_for(1)).under(constraints, search)

    def predict(self, X: Any) -> NDArray[Any]:
        """The best label of each row; of equals the first in ``classes_``."""
        found: NDArray[Any] = self.infer(X).labels
        return found

    def decode(self, batch: Batch, labels: LabelArray) -> NDArray[Any]:
        """Label names of each row of a batch; ``labels`` (n_rows,)."""
        return self.classes_[labels]

    def predict_proba(self, X: Any) -> FloatArray:
        """P(label | row), (n_rows, n_labels), columns as in ``classes_``."""
        found: FloatArray = self.infer(X).marginals
        return found

    def predict_log_proba(self, X: Any) -> FloatArray:
        """log P(label | row), −inf where it is impossible."""
        scores = self.scores(self.encode(X))
        return scores.node - scores.infer().log_partition[:, None]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows with a known label that ``predict`` labels so."""
        given, known = check_targets(y, None)
        predicted = self.predict(X)
        if len(predicted) != len(given):
            raise DataError(f"found {len(predicted)} rows but {len(given)} labels")
        weights = check_sample_weight(sample_weight, len(given))
        if not weights[known].sum() > 0:
            raise DataError("no row has a known label and a positive weight, so there is no accuracy")
        return float(np.average(predicted[known] == given[known], weights=weights[known]))

    def _labelled(self, X: Any, y: Any, sample_weight: Any) -> Batch:
        """The rows with a known label, after learning from them."""
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; to learn from rows without "
                "labels, train this model with a learner of trellis.learn"
            )
        batch = self.encode(X, y, sample_weight, fit=True)
        known = np.flatnonzero(batch.labels >= 0)
        if not np.any(batch.weights[known] > 0):
            raise DataError("no row has a known label and a sample weight above zero, and fit uses only such rows")
        if len(known) == len(batch):
            return batch
        rows = Batch.of_rows(batch.features[known], batch.labels[known], batch.weights[known])
        return replace(rows, first=batch.first)

    def _learn_classes(self, given: NDArray[Any], known: NDArray[np.bool_]) -> NDArray[Any]:
        if is_whole(self.labels):
            if self.labels < 1:
                raise DataError(f"labels must be names or a number of labels, 1 or more; got {self.labels}")
            return np.arange(self.labels)
        if self.labels is not None:
            if not is_list(self.labels) or not len(self.labels):
                raise DataError(f"labels must be a list of labels or a number of them, got {self.labels!r:.80}")
            given = _as_array(list(self.labels), "labels must be a list of labels or a number of them")
            if given.ndim != 1:
                raise DataError(f"labels must be a list of labels or a number of them, got {self.labels!r:.80}")
            return given
        found = given[known]
        if not len(found):
            raise DataError(f"there are no labels: give y, or name them: {type(self).__name__}(labels=[...])")
        try:
            return np.unique(found.astype(str) if _all_text(found) else found)
        except TypeError as error:
            raise DataError(f"labels of one kind are needed: {error}") from error

    def _codes(self, labels: NDArray[Any]) -> LabelArray:
        order = np.argsort(self.classes_, kind="stable")
        ranked = self.classes_[order]
        try:
            at = np.minimum(np.searchsorted(ranked, labels), len(ranked) - 1)
            wrong = ranked[at] != labels
        except TypeError as error:
            raise DataError(f"labels must be of the kind of {self.classes_[0]!r}: {error}") from error
        if np.any(wrong):
            self.label_names_.number(str(labels[np.flatnonzero(wrong)[0]]))  # raises, with near names
            raise DataError(f"label {labels[np.flatnonzero(wrong)[0]]!r} is not one of {self.classes_.tolist()}")
        return order[at].astype(np.int32)

    def _check_columns(self, X: Any, matrix: Any, fit: bool) -> None:
        columns = getattr(X, "columns", None)
        named = columns is not None and all(isinstance(name, str) for name in columns)
        names = np.asarray(columns, dtype=object) if named else None
        n = matrix.shape[1]
        if fit:
            self.n_features_in_ = n
            if names is not None:
                self.feature_names_in_ = names
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        if n != self.n_features_in_:
            raise DataError(
                f"X has {n} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input."
            )
        trained = getattr(self, "feature_names_in_", None)
        if names is not None and trained is not None and list(names) != list(trained):
            raise DataError(
                "The feature names should match those that were passed during fit: they are "
                f"{list(trained)} and here {list(names)}"
            )

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        parameters = self.parameters()
        columns = getattr(self, "feature_names_in_", None)
        names = {
            "classes": self.classes_.tolist(),
            "classes_type": self.classes_.dtype.str if self.classes_.dtype != object else "O",
            "n_features": self.n_features_in_,
            "feature_names": None if columns is None else list(columns),
        }
        return names, dict(parameters)

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        self._restore_names(names)
        self.set_parameters(check_arrays(self.ARRAYS, arrays))

    def _restore_names(self, names: Mapping[str, Any]) -> None:
        classes = names["classes"]
        kind, n_features = np.dtype(names["classes_type"]), names["n_features"]
        longest = max((len(name) for name in classes if isinstance(name, str)), default=0)
        if not classes or kind.kind not in "biufUO" or kind.itemsize > 4 * max(longest, 1000) or n_features < 1:
            raise DataError(f"{len(classes)} classes of type {kind} and {n_features} features cannot be")
        self.classes_ = np.array(classes, dtype=kind)
        if self.classes_.tolist() != classes:
            raise DataError(f"the classes are not of the type {kind}")
        self.label_names_ = Vocabulary(map(str, classes), kind="label")
        self.n_features_in_ = n_features
        if names["feature_names"] is not None:
            self.feature_names_in_ = np.asarray(names["feature_names"], dtype=object)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(poor_score=self._not_negative),
            input_tags=InputTags(sparse=True, positive_only=self._not_negative),
        )


def check_matrix(X: Any, *, not_negative: bool, name: str) -> Any:
    """Rows as a scipy CSR array of finite float64 with at least one row and one column."""
    from scipy.sparse import csr_array, issparse

    if issparse(X):
        if X.dtype.kind == "c":
            raise DataError("Complex data not supported: features are real numbers")
        matrix = csr_array(X, dtype=np.float64)
        values = matrix.data
    else:
        dense = _as_array(X, "X must be a matrix of numbers")
        if dense.dtype.kind == "c":
            raise DataError("Complex data not supported: features are real numbers")
        if dense.ndim != 2:
            raise DataError(
                f"Expected 2D array, got {dense.ndim}D array of shape {dense.shape} instead. Reshape your data with "
                "X.reshape(-1, 1) if it has one feature, or X.reshape(1, -1) if it is one row."
            )
        try:
            values = np.asarray(dense, dtype=np.float64)
        except (TypeError, ValueError) as error:
            # scikit-learn's tools expect the class of the original error
            kind = DataTypeError if isinstance(error, TypeError) else DataError
            raise kind(f"features must be numbers: {error}") from error
        matrix = None
    n_rows, n_columns = (matrix if matrix is not None else values).shape
    if n_rows == 0:
        raise DataError(f"Found array with 0 sample(s) while a minimum of 1 is required by {name}.")
    if n_columns == 0:
        raise DataError(
            f"Found array with 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required by {name}."
        )
    if not np.all(np.isfinite(values)):
        raise DataError(
            f"Input X contains {'NaN' if np.isnan(values).any() else 'infinity'}: features are finite numbers"
        )
    if not_negative and np.any(values < 0):
        raise DataError(f"Negative values in data passed to {name}: its features are counts")
    if matrix is None:
        matrix = csr_array(values)
    if not matrix.has_canonical_format or (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return matrix


def _as_array(given: Any, wanted: str) -> NDArray[Any]:
    """An array of what was given; lists of unequal lengths are refused."""
    if isinstance(given, Mapping | Set):
        raise DataError(f"{wanted}, got {type(given).__name__}")
    if isinstance(given, Iterator):
        given = list(given)
    try:
        return np.asarray(given)
    except ValueError:
        raise DataError(f"{wanted}, but its rows have different lengths") from None


def check_targets(y: Any, n_rows: int | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Labels (n_rows,) and which of them are known; None stands for an unknown one, y=None for none at all."""
    if y is None:
        n = n_rows or 0
        return np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    given = _as_array(y, "y must be a list of labels, one for each row")
    if given.ndim == 2 and given.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is taken as one",
            _conversion_warning(),
            stacklevel=4,
        )
        given = given[:, 0]
    if given.ndim != 1:
        raise DataError(f"y should be a 1d array, got an array of shape {given.shape} instead.")
    if n_rows is not None and len(given) != n_rows:
        raise DataError(
            f"Found input variables with inconsistent numbers of samples: {n_rows} rows, {len(given)} labels"
        )
    known = np.ones(len(given), dtype=np.bool_)
    if given.dtype == object:
        known = np.array([label is not None for label in given], dtype=np.bool_)
    elif given.dtype.kind == "f":
        if not np.all(np.isfinite(given)):
            raise DataError("Input y contains NaN or infinity; give None where a label is unknown")
        if np.any(given != np.floor(given)):
            raise DataError("Unknown label type: continuous. Labels are classes: text or whole numbers")
    elif given.dtype.kind == "c":
        raise DataError("Complex data not supported: labels are text or whole numbers")
    return given, known


def _check_classes(classes: NDArray[Any]) -> NDArray[Any]:
    """Refuse what a file could not hold, before anything is learned."""
    plain = classes.dtype.kind in "biufU"
    wrong = [] if plain else [c for c in classes.tolist() if not isinstance(c, str | int | float)]
    if wrong or classes.dtype.kind not in "biufUO":
        raise DataError(f"labels are text, truth values or numbers, but there is {(wrong or classes.tolist())[0]!r}")
    return classes


def _all_text(labels: NDArray[Any]) -> bool:
    return labels.dtype == object and all(isinstance(label, str) for label in labels)


def _conversion_warning() -> type[Warning]:
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "DataConversionWarning", UserWarning)
    return theirs if isinstance(theirs, type) and issubclass(theirs, Warning) else UserWarning
