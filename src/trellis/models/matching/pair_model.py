"""What models of pairs share: linear weights over the features of a structure, and one file.

    score(x, h) = w · Φ(x, h),      Φ(x, h) = Σ_{parts of h} features of the part            (Chang 2011, eq. 5.1)

They are scorers (:mod:`trellis.learn.margin.scorer`): a large-margin learner gives them their weights.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from scipy import sparse

from trellis.data.arrays import ArrayOf, as_parameters
from trellis.data.batch import Batch
from trellis.data.checks import check_list, sides_of
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.models.saving import SavedEstimator

Pair = tuple[str, str]
B = TypeVar("B", bound="PairBatch")


class Aligned(NamedTuple):
    """What stands side by side in two texts, "" for nothing; and what it adds to the score of the alignment."""

    left: str
    right: str
    worth: float


@dataclass(frozen=True)
class PairBatch(ABC):
    """What learners ask of a batch of pairs.

    pairs : the two texts of each instance;  offsets : (n + 1,) how large each is, by which shards are cut
    weights : (n,);  first : the number of the first instance in the corpus
    labels : the alignment of each, None where it is not given; empty where none is
    """

    pairs: Sequence[Pair]
    offsets: IntArray
    weights: FloatArray
    first: int = 0
    labels: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)

    @property
    def complete(self) -> BoolArray:
        """(n,): whether the alignment of each is known."""
        return np.array([one is not None for one in self.labels] or np.zeros(len(self)), np.bool_)

    @property
    def known(self) -> bool:
        """Whether any alignment is known."""
        return bool(np.any(self.complete))

    @property
    def outputs(self) -> tuple[Any, ...]:
        """What is known of the alignments, as structures take it."""
        return self.labels

    def with_labels(self, labels: Sequence[Any] | None) -> Self:
        """The same pairs with other alignments; None: none known."""
        return replace(self, labels=() if labels is None else tuple(labels))

    def instances(self, start: int, stop: int) -> Self:
        """Instances start..stop−1."""
        made = self.take(np.arange(start, stop))
        object.__setattr__(made, "first", self.first + start)
        return made

    def take(self, numbers: IntArray) -> Self:
        """The instances with these numbers, in this order."""
        listed = numbers.tolist()
        return replace(
            self, pairs=[self.pairs[i] for i in listed], offsets=offsets_of(self.lengths[numbers]),
            weights=self.weights[numbers], first=0, labels=tuple(self.labels[i] for i in listed if self.labels),
            **self._taken(numbers),
        )  # fmt: skip

    @abstractmethod
    def _taken(self, numbers: IntArray) -> dict[str, Any]:
        """The fields of its own of these instances."""

    @abstractmethod
    def words(self, side: int) -> Batch:
        """The words, or characters, of the first (0) or second (1) text of each pair, for conditions of constraints."""


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
    def _output(self, batch: Any, number: int, alignment: Any) -> Any:
        """The output of a pair that an alignment stands for, as it is given by name."""

    def _with_given(self, batch: B, y: Any) -> B:
        """The batch with alignments that are given by name, None where they are not."""
        if y is None:
            return batch
        given = list(check_list(y, "alignments"))
        if len(given) != len(batch):
            raise DataError(f"expected an alignment, or None, for each of {len(batch)} pairs but got {len(given)}")
        return batch.with_labels([None if one is None else self._output(batch, i, one) for i, one in enumerate(given)])

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
