"""An HMM by features as a function of one vector of free numbers, for whoever climbs its likelihood directly.

    v = (weights of features, log transition, log start),      transition[a] = exp v_a / Σ exp v_a

Every v is a model, so that a gradient is all that a climb needs (Berg-Kirkpatrick et al. 2010): that of log p(x) is the
one of E_q[log p(x, y)] with q the posterior at v itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.models.emissions import LogLinearEmissions
from trellis.models.estimator import Estimator

if TYPE_CHECKING:
    from trellis.models.hmm import HMMStatistics

NEVER = 1e-12
"""A transition of probability 0 has this one in a vector of logarithms."""


class FreeWeights(Estimator):
    """The vector of an HMM, which brings the tables."""

    label_names_: Vocabulary
    start_: FloatArray
    transition_: FloatArray
    emission_: FloatArray
    weights_: FloatArray
    transition_prior: float
    _log_linear: LogLinearEmissions | None = None

    def _set_weights(self, start: FloatArray, transition_t: FloatArray) -> None:
        """Emissions of ``weights_``, beside distributions of labels as columns."""
        raise NotImplementedError

    def vector(self) -> FloatArray:
        """Weights of features and logarithms of transitions and first labels, one after the other, all of them free."""
        self._check_by_features("vector")
        labels = [np.log(np.maximum(table, NEVER)).ravel() for table in (self.transition_, self.start_)]
        return np.concatenate([self.weights_.ravel(), *labels])

    def set_vector(self, vector: FloatArray) -> None:
        """Take such numbers; transitions and first labels are normalised."""
        k, n = len(self.label_names_), self.weights_.size
        self.weights_ = vector[:n].reshape(self.weights_.shape)
        labels = vector[n:].reshape(k + 1, k).T
        found = np.exp(labels - labels.max(axis=0))
        found /= found.sum(axis=0)
        self._set_weights(found[:, k:], found[:, :k])

    def gradient(self, statistics: HMMStatistics) -> FloatArray:
        """∇ of E_q[log p(x, y)] + log prior in these numbers, q being what the statistics were collected from.

        Of a distribution exp(v) / Σ exp(v) with counts c it is c − Σ c · exp(v) / Σ exp(v).
        """
        self._check_by_features("gradient")
        assert self._log_linear is not None
        emission = self._log_linear.gradient(statistics.emission.table(), self.weights_, self.emission_)
        more = self.transition_prior - 1.0
        labels = [
            (counts + more) - (counts + more).sum(axis=-1, keepdims=True) * own
            for counts, own in ((statistics.transition, self.transition_), (statistics.start, self.start_))
        ]
        return np.concatenate([emission.ravel(), *(one.ravel() for one in labels)])

    def _check_by_features(self, verb: str) -> None:
        self._check_fitted()
        if self._log_linear is None:
            raise DataError(f"{verb} is of weights of features: HMM(..., emissions='features')")
