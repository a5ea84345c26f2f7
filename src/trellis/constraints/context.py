"""What expressions are compiled against (a batch, the names of labels, the parts of the structure), and rows of one
constraint before they are checked and joined with those of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from trellis.constraints.implicit import Checks, LinkRows, Sparsity
from trellis.constraints.rows import COUPLING
from trellis.data.batch import Batch, Column
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, DataError, check_name
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
            raise ConstraintError("constraints refer to labels, but the vocabulary of labels is empty")
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
                f"this constraint refers to tokens and their labels, but these {self.parts.outputs_are} have none"
            )

    def side(self, number: int) -> Context:
        """The source words (0) or the target words (1) of a batch of pairs, for conditions on what links join."""
        words = getattr(self.batch, "words", None)
        if words is None:
            raise ConstraintError(
                f"the words of these {self.parts.outputs_are} are not available for conditions on words"
            )
        return Context(words(number), self.labels, self.parts)

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
            check_name("label", name, self.labels)  # number() would take a mistake for an unknown member
            chosen[self.labels.number(name)] = True
        return chosen


@dataclass(frozen=True)
class RowBlock:
    """Rows  Σ coefficient · part ≤ bound  (or = bound), entries sorted by row and part, each pair once.

    row, part, coefficient : (n_entries,)
    bound : (n_rows,)
    instance : (n_rows,)     inside the batch, or COUPLING
    sign, offset : for messages, where the count is sign · (Σ + offset), offset (n_rows,)
    subject : the count in words
    where : row number -> "sentence 3, which has 2 tokens"
    slot : (n_rows,) the token that a row is about; None where rows are not about single tokens
    """

    row: IntArray
    part: IntArray
    coefficient: FloatArray
    bound: FloatArray
    equality: bool
    instance: IntArray
    sign: int
    offset: FloatArray
    subject: str
    where: Callable[[int], str]
    slot: IntArray | None = None

    def __len__(self) -> int:
        return len(self.bound)


RowsOrImplicit = RowBlock | Sparsity | LinkRows | Checks
"""What a constraint compiles to: rows, or an l1/linf block, rows about links or a function, which stay implicit."""


@dataclass(frozen=True)
class Units:
    """What a constraint has one row for: every token, every instance, the corpus, or every key.

    row : (n_slots,)      the row that each slot counts in
    instance : (n_rows,)  inside the batch, or COUPLING
    slot : (n_rows,)      the token that a row is about; None where rows are not about single tokens
    """

    row: IntArray
    instance: IntArray
    where: Callable[[int], str]
    slot: IntArray | None = None

    def __len__(self) -> int:
        return len(self.instance)


def token_units(context: Context) -> Units:
    """One row a token."""

    def where(row: int) -> str:
        instance = int(context.instance[row])
        return f"token {row - int(context.batch.offsets[instance])} of instance {context.batch.first + instance}"

    slots = np.arange(context.n_slots, dtype=np.int64)
    return Units(slots, context.instance, where, slots)


def instance_units(context: Context) -> Units:
    """One row an instance."""

    def where(row: int) -> str:
        n = int(context.batch.lengths[row])
        return f"instance {context.batch.first + row}, which has {n} token{'' if n == 1 else 's'}"

    return Units(context.instance, np.arange(len(context.batch), dtype=np.int64), where)


def corpus_units(context: Context) -> Units:
    """One row in all."""
    n = context.n_slots
    return Units(np.zeros(n, dtype=np.int64), np.full(1, COUPLING), lambda row: f"the corpus, which has {n} tokens")


def key_units(codes: IntArray, strings: list[str], english: str) -> Units:
    """One row a value of a key that occurs."""
    present, row = np.unique(codes, return_inverse=True)
    size = np.bincount(row, minlength=len(present))

    def where(number: int) -> str:
        return f"{english} {strings[int(present[number])]!r}, which occurs {size[number]} times"

    return Units(row.astype(np.int64), np.full(len(present), COUPLING), where)


def merge(
    row: IntArray, part: IntArray, coefficient: FloatArray, n_parts: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Entries sorted by row and part, those of one pair added up, zeros left out."""
    pair = row * np.int64(n_parts) + part
    if np.any(np.diff(pair) <= 0):
        order = np.argsort(pair, kind="stable")
        pair, coefficient = pair[order], coefficient[order]
        first = np.flatnonzero(np.concatenate(([True], np.diff(pair) > 0)))
        coefficient = np.add.reduceat(coefficient, first)
        row, part = row[order][first], part[order][first]
    kept: BoolArray = coefficient != 0
    if not kept.all():
        row, part, coefficient = row[kept], part[kept], coefficient[kept]
    return row, part, coefficient
