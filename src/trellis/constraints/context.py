"""What expressions are compiled against: a batch, the names of labels, and the parts of the structure."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from trellis.data.batch import Batch, Column
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, DataError, UnknownNameError
from trellis.structures.parts import Parts

T = TypeVar("T")
NOT_GIVEN = ("", "_", "-", "?")
"""Strings of a column of labels or heads that stand for "not given"."""


@dataclass(frozen=True)
class Context:
    """A batch whose slots take ``labels``, and the numbers of the parts of its outputs."""

    batch: Batch
    labels: Vocabulary
    parts: Parts

    def __post_init__(self) -> None:
        if self.parts.n_instances != len(self.batch):
            raise DataError(
                f"these are parts of {self.parts.n_instances} instances, but the batch has {len(self.batch)}"
            )
        if not self.parts.has_labels:
            return
        if len(self.labels) == 0:
            raise ConstraintError("constraints speak of labels, but the vocabulary of labels is empty")
        n_slots, n_labels = self.parts.label_shape
        if (n_slots, n_labels) != (self.n_slots, self.n_labels):
            raise DataError(
                f"these are parts of {n_slots} slots with {n_labels} labels each, but the batch has {self.n_slots} "
                f"slots and there are {self.n_labels} labels"
            )

    @property
    def n_slots(self) -> int:
        return self.batch.n_slots

    @property
    def n_labels(self) -> int:
        return len(self.labels)

    @cached_property
    def instance(self) -> IntArray:
        """(n_slots,): the instance of each slot, counted inside this batch."""
        self._check_tokens()
        return np.repeat(np.arange(len(self.batch), dtype=np.int64), self.batch.lengths)

    def _check_tokens(self) -> None:
        if not isinstance(self.batch, Batch):
            raise ConstraintError(
                f"this constraint speaks of tokens and their labels, but these {self.parts.outputs_are} have none"
            )

    def column(self, name: str) -> Column:
        """What is observed of each token."""
        self._check_tokens()
        return self.batch.column(name)

    @property
    def slot_weights(self) -> FloatArray:
        """(n_slots,): the weight of each slot's instance."""
        return self.batch.weights[self.instance]

    @cached_property
    def from_start(self) -> IntArray:
        """(n_slots,): 0 at an instance's first slot."""
        return np.arange(self.n_slots, dtype=np.int64) - self.batch.offsets[self.instance]

    @cached_property
    def from_end(self) -> IntArray:
        """(n_slots,): 0 at an instance's last slot."""
        return self.batch.offsets[self.instance + 1] - 1 - np.arange(self.n_slots, dtype=np.int64)

    @cached_property
    def is_first(self) -> BoolArray:
        return np.asarray(self.from_start == 0)

    def given_here(self, given: Sequence[T], what: str, instances: str = "instances") -> Sequence[T]:
        """What is given for every instance, for those of the batch; both words are for messages.

        Lists speak of all the data that a learner has, and constraints act on instances that are not known in full.
        """
        if not isinstance(given, Sized):
            raise DataError(f"{what} must be a list with one entry for each of the {instances}, got {given!r:.80}")
        origin = getattr(self.batch, "origin", None)  # pairs of sentences have none
        if origin is not None and len(given) == origin.n_instances:
            return [given[i] for i in origin.instances.tolist()]
        if len(given) != len(self.batch):
            raise DataError(f"{what} are given for {len(given)} {instances}, but the batch has {len(self.batch)}")
        return given

    def label_set(self, names: tuple[str, ...]) -> BoolArray:
        """(n_labels,): whether each label is one of ``names``."""
        chosen = np.zeros(self.n_labels, dtype=np.bool_)
        for name in names:
            if name not in self.labels:  # not number(): an unknown member would swallow the mistake
                raise UnknownNameError("label", name, self.labels)
            chosen[self.labels.number(name)] = True
        return chosen
