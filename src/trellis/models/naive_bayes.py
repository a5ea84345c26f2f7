"""Naive Bayes: a generative model of counts, whose features are independent given the label.

    p(x, y = k) ∝ prior[k] Π_f feature[f, k]^{x_f}

The multinomial coefficient of x, the same for every label, is left out of scores and of likelihoods. M-steps are those
of :mod:`trellis.models.dirichlet`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from trellis.data.arrays import ArrayOf, as_parameters
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray
from trellis.engine import Additive, Engine, Placed
from trellis.models import dirichlet
from trellis.models.tabular import TabularModel
from trellis.structures import Categorical, LabelPosterior


@dataclass(frozen=True)
class NaiveBayesStatistics(Additive):
    """Expected counts.  label : (K,);  feature : (n_features, K)."""

    label: FloatArray
    feature: FloatArray


@dataclass(eq=False, repr=False)
class NaiveBayes(TabularModel):
    """Multinomial naive Bayes over count vectors.

    Parameters
    ----------
    labels : list, int or None, default=None
        Names of the labels, or their number. By default, the labels that occur in ``y``.
    class_prior : float, default=1.0
        Dirichlet parameter α of labels. 1 is maximum likelihood, 2 adds one (Laplace).
    feature_prior : float, default=2.0
        Dirichlet parameter α of features. 1 is maximum likelihood, 2 adds one (Laplace).
    variational : bool, default=False
        Use variational Bayes in place of the posterior mode; priors below 1 are then allowed.

    Attributes
    ----------
    prior_ : ndarray of shape (K,)
        Label probabilities.
    feature_ : ndarray of shape (n_features, K)
        Feature probabilities; columns sum to 1.

    Examples
    --------
    >>> counts = np.array([[3, 0, 1], [2, 1, 0], [0, 4, 1]])
    >>> NaiveBayes().fit(counts, ["a", "a", "b"]).predict([[1, 0, 0], [0, 2, 1]]).tolist()
    ['a', 'b']
    """

    labels: Sequence[Any] | int | None = None
    _: KW_ONLY
    class_prior: float = 1.0
    feature_prior: float = 2.0
    variational: bool = False

    discriminative = False
    _not_negative = True
    ARRAYS: ClassVar = {
        "prior": ArrayOf(np.float64, ("labels",), low=0.0),
        "feature": ArrayOf(np.float64, ("features", "labels"), low=0.0),
    }

    def _check_settings(self) -> None:
        dirichlet.check_prior("class_prior", self.class_prior, variational=self.variational)
        dirichlet.check_prior("feature_prior", self.feature_prior, variational=self.variational)

    # the four verbs

    def scores(self, batch: Batch) -> Categorical:
        """log p(x, y) of each row, (n_rows, K)."""
        return Categorical(self._log_prior + self._features(batch) @ self._log_feature, batch.first)

    def collect(self, batch: Batch, q: LabelPosterior) -> NaiveBayesStatistics:
        """Expected counts of labels and of features with labels."""
        weighted = batch.weights[:, None] * q.node
        return NaiveBayesStatistics(weighted.sum(axis=0), np.asarray(batch.features.T @ weighted))

    def update(
        self,
        statistics: NaiveBayesStatistics,
        *,
        shards: Sequence[Placed[Any]] | None = None,
        engine: Engine | None = None,
    ) -> None:
        """M-step: counts are all it needs, so the data is not looked at again."""
        counts = statistics.label[:, None], statistics.feature
        pairs = zip(counts, self._priors, strict=True)
        self._set(*(dirichlet.fitted(own, prior, variational=self.variational) for own, prior in pairs))

    def log_prior(self) -> float:
        """Log-density of the Dirichlet priors up to a constant; with ``variational`` −KL(q(θ) ‖ p(θ))."""
        return dirichlet.log_prior(self._tables, self._priors, variational=self.variational)

    # parameters

    def reset(self) -> None:
        """Uniform parameters."""
        n, k = self.n_features_in_, len(self.classes_)
        self.update(NaiveBayesStatistics(np.zeros(k), np.zeros((n, k))))

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        """Parameters from pseudo-counts 1 + scale · U(0, 1)."""
        n, k = self.n_features_in_, len(self.classes_)
        self.update(NaiveBayesStatistics(1.0 + scale * rng.random(k), 1.0 + scale * rng.random((n, k))))

    def parameters(self) -> dict[str, FloatArray]:
        """The probabilities, or with ``variational`` the Dirichlet parameters of q(θ): "prior" (K,), "feature"."""
        self._check_fitted()
        return {"prior": self._tables[0][:, 0], "feature": self._tables[1]}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Take parameters of the form that :meth:`parameters` gives."""
        sizes = {"features": self.n_features_in_, "labels": len(self.classes_)}
        tables = as_parameters(self.ARRAYS, parameters, **sizes)
        for name, table in tables.items() if not self.variational else ():
            dirichlet.check_sums(name, table)
        self._set(tables["prior"][:, None], tables["feature"])

    @property
    def _priors(self) -> tuple[float, float]:
        return self.class_prior, self.feature_prior

    def _set(self, *tables: FloatArray) -> None:
        """Probabilities (K, 1) and (n_features, K), or with ``variational`` Dirichlet parameters."""
        self._tables = tables
        (prior, self.feature_), logs = dirichlet.means_and_logs(tables, variational=self.variational)
        self.prior_, self._log_prior, self._log_feature = prior[:, 0], logs[0][:, 0], logs[1]

    # alone, as an estimator

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Supervised: count the rows whose label is known."""
        self._check_types()
        batch = self._labelled(X, y, sample_weight)
        self.update(self.collect(batch, self.uniform(batch).certain(batch.labels)))
        return self
