"""What models of pairs share: linear weights over the features of a structure, and one file.

    score(x, h) = w · Φ(x, h),      Φ(x, h) = Σ_{parts of h} features of the part            (Chang 2011, eq. 5.1)

They are scorers (:mod:`trellis.learn.margin.scorer`): a large-margin learner gives them their weights.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse

from trellis.data.arrays import ArrayOf, as_parameters
from trellis.data.checks import check_list, sides_of
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.models.saving import SavedEstimator

Pair = tuple[str, str]


class Aligned(NamedTuple):
    """What stands side by side in two texts, "" for nothing; and what it adds to the score of the alignment."""

    left: str
    right: str
    worth: float


@dataclass(frozen=True)
class PairBatch(ABC):
    """What learners ask of a batch of pairs; alignments are never given, so it has no labels.

    pairs : the two texts of each instance;  offsets : (n + 1,) how large each is, by which shards are cut
    weights : (n,);  first : the number of the first instance in the corpus
    """

    pairs: Sequence[Pair]
    offsets: IntArray
    weights: FloatArray
    first: int = 0

    labels: ClassVar[Any] = np.zeros(0, np.int32)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)

    @property
    def complete(self) -> BoolArray:
        """(n,): whether the alignment of each is known."""
        return np.zeros(len(self), np.bool_)

    def with_labels(self, labels: None) -> Self:
        """Itself: nothing is known."""
        return self

    def instances(self, start: int, stop: int) -> Self:
        """Instances start..stop−1."""
        made = self.take(np.arange(start, stop))
        object.__setattr__(made, "first", self.first + start)
        return made

    @abstractmethod
    def take(self, numbers: IntArray) -> Self:
        """The instances with these numbers, in this order."""


class PairModel(SavedEstimator, ABC):
    """Weights by the vector; subclasses bring features and structures."""

    weights_: FloatArray
    label_names_: Vocabulary
    ARRAYS: ClassVar[dict[str, ArrayOf]] = {"weights": ArrayOf(np.float64, ("weights",))}

    @abstractmethod
    def _n_weights(self) -> int:
        """How many weights its features have."""

    @abstractmethod
    def parts(self, batch: Any) -> Any:
        """The parts of its structure."""

    @abstractmethod
    def part_features(self, batch: Any, used: IntArray) -> Any:
        """Sparse rows (n_used, n_weights) of the features of parts."""

    def phi(self, batch: Any, outputs: Any) -> Any:
        """The feature map: a sparse row (n_weights,) per instance, so that score(outputs) = phi · w."""
        parts = self.parts(batch)
        used = parts.of(outputs)
        of_instance = (np.ones(len(used)), (parts.instance_of(used), np.arange(len(used))))
        rows = sparse.csr_matrix(of_instance, shape=(len(batch), len(used)))
        return sparse.csr_matrix(rows @ self.part_features(batch, used))

    @abstractmethod
    def _shown(self, batch: Any, outputs: Any) -> tuple[list[list[Pair]], list[IntArray]]:
        """What stands side by side in each alignment, "" for nothing; and the part of each of these."""

    def decode(self, batch: Any, outputs: Any) -> list[list[Aligned]]:
        """What stands side by side in each alignment, and what it adds to the score."""
        pairs, parts = self._shown(batch, outputs)
        worth = iter(self._worth(batch, np.concatenate([np.zeros(0, np.int64), *parts])).tolist())
        return [[Aligned(left, right, next(worth)) for left, right in own] for own in pairs]

    def _worth(self, batch: Any, used: IntArray) -> FloatArray:
        """(n_used,): what parts add to the score of an alignment."""
        return np.asarray(self.part_features(batch, used) @ self.weights_)

    def bare(self) -> Self:
        """The model as it travels to a worker."""
        return copy.copy(self)

    def reset(self) -> None:
        """All weights 0."""
        self.weights_ = np.zeros(self._n_weights())

    def parameters(self) -> dict[str, FloatArray]:
        """The vector of all weights."""
        self._check_fitted()
        return {"weights": self.weights_}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Take weights of the form that :meth:`parameters` gives."""
        self.weights_ = as_parameters(PairModel.ARRAYS, parameters, weights=self._n_weights())["weights"]

    def _begin(self) -> None:
        """Forget what was learned."""
        self.label_names_ = Vocabulary([], kind="label")
        self.reset()


def check_pairs(X: Any) -> list[Pair]:
    """Pairs of two strings, from any iterable of tuples, lists or arrays of two."""
    made = []
    for i, pair in enumerate(check_list(X, "pairs of texts")):
        sides = sides_of(pair)
        if len(sides) != 2 or not all(isinstance(side, str) for side in sides):
            raise DataError(f"pair {i}: expected two texts, got {pair!r:.80}")
        made.append((str(sides[0]), str(sides[1])))
    return made


def no_outputs(y: Any) -> None:
    """Refuse alignments that are given."""
    if y is not None and any(one is not None for one in y):
        raise DataError("alignments of pairs cannot be given: they are inferred")
