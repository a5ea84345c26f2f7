"""Parameters of an HMM: probabilities, Dirichlet parameters of variational Bayes, or one vector of free numbers.

For learners that maximise the likelihood of an HMM by features directly, it is a function of one vector,

    v = (weights of features, log transition, log start),      transition[a] = exp v_a / Σ exp v_a

Every v is a model, so that a gradient is all that is needed: that of log p(x) is the one of E_q[log p(x, y)] with q the
posterior at v itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trellis.data.arrays import ArrayOf, as_parameters
from trellis.data.ragged import FloatArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Additive
from trellis.errors import DataError
from trellis.models import dirichlet
from trellis.models.hmm_words import EmitsWords
from trellis.models.statistics import RowCounts
from trellis.structures import ChainTables

NEVER = 1e-12
"""A transition of probability 0 has this one in a vector of logarithms."""


@dataclass(frozen=True)
class HMMStatistics(Additive):
    """Expected counts.

    start : (K,) of first labels;  transition : (K, K) of label pairs, or with ``after`` (n_contexts, K, K)
    emission : (n_symbols, K) of words with labels
    """

    start: FloatArray
    transition: FloatArray
    emission: RowCounts


class HMMParameters(EmitsWords):
    """Start, transition and emission; subclasses bring the M-step."""

    transition_prior: float
    variational: bool
    start_: FloatArray
    transition_: FloatArray
    _concentrations: tuple[FloatArray, FloatArray, FloatArray]
    _tables: ChainTables

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

    def update(self, statistics: HMMStatistics) -> None:
        raise NotImplementedError

    def _columns(self, transition: FloatArray) -> FloatArray:
        raise NotImplementedError

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
            rows, self._rows(dirichlet.expected_log(transition_t)), dirichlet.expected_log(start)[:, 0]
        )
        self._tables.potentials  # noqa: B018  taken here once, and not by two shards at the same time

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
            raise DataError(f"{verb} requires feature weights: HMM(..., emissions='features')")
