"""MaxEnt: a discriminative classifier of rows, multinomial logistic regression.

    p(y = k | x) ∝ exp( Σ_f x_f weight[f, k] + intercept[k] )

The M-step on soft labels q maximises  Σ_i weight_i E_q[log p(y | x_i)] − (l2 / 2) ‖weight‖², which is concave; the
intercept has no prior. With labels given it is ordinary supervised training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from trellis.data.batch import Batch
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray, LabelArray
from trellis.engine import Additive
from trellis.models.documentation import documented
from trellis.models.log_linear import Dev, LogLinearModel
from trellis.models.tabular import TabularModel
from trellis.structures import Categorical, LabelPosterior


@dataclass(frozen=True)
class MaxEntStatistics(Additive):
    """Expected counts.  feature : (n_features, K);  label : (K,);  log_partition : Σ_i weight_i log Z_i."""

    feature: FloatArray
    label: FloatArray
    log_partition: float


@documented
@dataclass(eq=False, repr=False)
class MaxEnt(LogLinearModel, TabularModel):
    """Maximum entropy classifier (multinomial logistic regression) over dense or sparse feature vectors.

    Parameters
    ----------
    labels : list, int or None, default=None
        Names of the labels, or their number. By default, the labels that occur in ``y``.
    fit_intercept : bool, default=True
        Add a weight per label.
    random_state : int or None, default=None
        Seed of the order of rows in stochastic steps.

    Attributes
    ----------
    weights_ : ndarray
        All weights.
    feature_weights_ : ndarray of shape (n_features, K)
        Weights of features.
    intercept_ : ndarray of shape (K,)
        Weights of labels.

    Examples
    --------
    >>> rows = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [3.0, 0.5]])
    >>> MaxEnt(l2=0.1).fit(rows, ["low", "low", "high", "high"]).predict([[0.5, 1.0], [2.5, 0.0]]).tolist()
    ['low', 'high']
    """

    labels: Sequence[Any] | int | None = None
    _: KW_ONLY
    l2: float = 1.0
    fit_intercept: bool = True
    solver: str = "lbfgs"
    max_iter: int = 1000
    tol: float = 1e-9
    learning_rate: float = 0.1
    batch_size: int = 64
    random_state: int | None = None
    patience: int | None = None
    checkpoint: FilePath | None = None
    checkpoint_every: int = 10
    verbose: bool = False
    n_jobs: int | None = None
    engine: Any = None

    def _check_settings(self) -> None:
        self._check_training()

    # the four verbs

    def scores(self, batch: Batch) -> Categorical:
        """Log-potentials of p(y | x), (n_rows, K)."""
        feature, intercept = self._split(self.weights_)
        return Categorical(self._features(batch) @ feature + intercept, batch.first)

    def collect(self, batch: Batch, q: LabelPosterior) -> MaxEntStatistics:
        """Expected counts of features with labels and of labels."""
        weighted = batch.weights[:, None] * q.node
        return MaxEntStatistics(
            np.asarray(batch.features.T @ weighted), weighted.sum(axis=0), float(batch.weights @ q.log_partition)
        )

    def phi(self, batch: Batch, outputs: LabelArray) -> Any:
        """(n_rows, n_weights): the features of each row, at the places of its label."""
        k, n = len(self.classes_), self.n_features_in_
        features, y = sparse.coo_matrix(batch.features), np.asarray(outputs, np.int64)
        row, column, value = features.row, features.col.astype(np.int64) * k + y[features.row], features.data
        if self.fit_intercept:
            own = np.arange(len(batch))
            row, column = np.concatenate([row, own]), np.concatenate([column, n * k + y])
            value = np.concatenate([value, np.ones(len(own))])
        return sparse.csr_matrix((value, (row, column)), shape=(len(batch), self._n_weights()))

    # weights

    def _n_weights(self) -> int:
        return (self.n_features_in_ + bool(self.fit_intercept)) * len(self.classes_)

    def _free(self) -> slice:
        return slice(self.n_features_in_ * len(self.classes_), None)

    def _split(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        n, k = self.n_features_in_, len(self.classes_)
        return weights[: n * k].reshape(n, k), weights[n * k :] if self.fit_intercept else np.zeros(k)

    def _vector(self, statistics: MaxEntStatistics) -> FloatArray:
        if not self.fit_intercept:
            return statistics.feature.ravel()
        return np.concatenate([statistics.feature.ravel(), statistics.label])

    @property
    def feature_weights_(self) -> FloatArray:
        return self._split(self.weights_)[0]

    @property
    def intercept_(self) -> FloatArray:
        return self._split(self.weights_)[1]

    # alone, as an estimator

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, dev: Dev = None, resume: bool = False) -> Self:
        """Supervised training on the rows whose label is known; the score on ``dev`` = (X, y) decides which round is
        kept."""
        self._check_types()
        batch = self._labelled(X, y, sample_weight)
        return self._trained(self._loop(batch, dev).run(resume=resume))
