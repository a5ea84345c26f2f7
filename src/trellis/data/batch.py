"""A batch: instances as flat arrays, cut by offsets, with labels that may be unknown.

A *slot* is a place where a label goes: a token of a sequence, or the one slot of an instance that is
classified as a whole. Everything that describes slots (columns of strings, a row of features, a label) has
one entry a slot; weights have one entry an instance.

    slots of instance i  =  offsets[i] .. offsets[i + 1] - 1
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from trellis.data.checks import NOT_A_LABEL, check_list, check_sample_weight, is_list
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, check_offsets, offsets_of, take_rows
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, check_name

T = TypeVar("T")

UNKNOWN = -1
"""The label of a slot whose label is not known."""


@dataclass(frozen=True)
class Column:
    """One string a slot, coded: ``vocabulary[codes[slot]]``.

    codes : (n_slots,) int32
    """

    codes: LabelArray
    vocabulary: Vocabulary

    @classmethod
    def of(cls, strings: Sequence[str], vocabulary: Vocabulary | None = None, *, kind: str = "word") -> Column:
        """Code strings with a vocabulary, or with one made of them."""
        if vocabulary is None:
            vocabulary = Vocabulary(dict.fromkeys(strings), kind=kind)
        return cls(vocabulary.encode(strings), vocabulary)

    def strings(self) -> list[str]:
        return self.vocabulary.decode(self.codes.tolist())


@dataclass(frozen=True)
class Origin:
    """Where the instances of a batch stand in the data that it was taken from.

    instances : (n,) their numbers there;  starts : (n,) the first slot of each there
    n_instances, n_slots : of all that data
    """

    instances: IntArray
    starts: IntArray
    n_instances: int
    n_slots: int


@dataclass(frozen=True)
class Batch:
    """Instances as flat arrays: labelled, partly labelled and unlabelled ones together.

    Parameters
    ----------
    offsets : array of shape (n_instances + 1,)
        First slot of each instance.
    labels : int32 array of shape (n_slots,)
        Labels, −1 if unknown.
    weights : array of shape (n_instances,)
        Weights of the instances.
    columns : dict
        Columns with codes of shape (n_slots,); the words are the column "word".
    features : sparse matrix or None, default=None
        Features of the slots.
    first : int, default=0
        Number of the first instance in the corpus, for messages.
    origin : Origin or None, default=None
        Batch that this one was taken from.

    Examples
    --------
    >>> batch = Batch.from_sentences(
    ...     [["time", "flies"], ["stop"]],
    ...     [["NOUN", None], None],
    ...     label_names=Vocabulary(["NOUN", "VERB"], kind="label"),
    ... )
    >>> len(batch), batch.n_slots, batch.labels.tolist()
    (2, 3, [0, -1, -1])
    """

    offsets: IntArray
    labels: LabelArray
    weights: FloatArray
    columns: Mapping[str, Column] = field(default_factory=dict)
    features: Any = None
    first: int = 0
    origin: Origin | None = None

    def __post_init__(self) -> None:
        offsets = check_offsets(self.offsets)
        n_slots = int(offsets[-1])
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "labels", np.ascontiguousarray(self.labels, dtype=np.int32))
        object.__setattr__(self, "weights", check_sample_weight(self.weights, len(offsets) - 1))
        if self.labels.shape != (n_slots,):
            raise DataError(f"expected one label for each of {n_slots} slots but got shape {self.labels.shape}")
        for name, column in self.columns.items():
            if len(column.codes) != n_slots:
                raise DataError(f"column {name!r} has {len(column.codes)} entries for {n_slots} slots")
        if self.features is not None and self.features.shape[0] != n_slots:
            raise DataError(f"features have {self.features.shape[0]} rows for {n_slots} slots")

    @classmethod
    def from_sentences(
        cls,
        sentences: Sequence[Sequence[str]],
        labels: Sequence[Sequence[str | None] | None] | None = None,
        *,
        label_names: Vocabulary | None = None,
        words: Vocabulary | None = None,
        weights: Sequence[float] | None = None,
    ) -> Batch:
        """From sentences of words, with a label for each word, or None if unknown."""
        sentences = list(check_list(sentences, "sentences"))
        for sentence in sentences:
            if not is_list(sentence):
                raise DataError(f"expected a list of words for each sentence, got {sentence!r:.60}")
        offsets = offsets_of(map(len, sentences))
        flat = [word for sentence in sentences for word in sentence]
        for word in flat if not {str}.issuperset(map(type, flat)) else ():
            if not isinstance(word, Hashable):
                raise DataError(f"words must be strings, got {word!r:.60}")
        return cls(
            offsets=offsets,
            labels=_encode_labels(sentences, labels, label_names),
            weights=check_sample_weight(weights, len(sentences)),
            columns={"word": Column.of(flat, words)},
        )

    @classmethod
    def of_rows(cls, features: Any, labels: Any = None, weights: Any = None) -> Batch:
        """Instances of one slot each, described by a row of a feature matrix."""
        n = features.shape[0]
        return cls(
            offsets=np.arange(n + 1, dtype=np.int64),
            labels=np.full(n, UNKNOWN, dtype=np.int32) if labels is None else labels,
            weights=check_sample_weight(weights, n),
            features=features,
        )

    def __len__(self) -> int:
        """Number of instances."""
        return len(self.offsets) - 1

    @property
    def n_slots(self) -> int:
        return int(self.offsets[-1])

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)

    @property
    def complete(self) -> BoolArray:
        """(n_instances,): whether every label of the instance is known (an empty one has none to know)."""
        unknown = np.concatenate(([0], np.cumsum(self.labels < 0)))
        complete: BoolArray = (np.diff(unknown[self.offsets]) == 0) & (self.lengths > 0)
        return complete

    @property
    def outputs(self) -> Any:
        """What is known of the outputs, as structures take it."""
        return self.labels

    @property
    def known(self) -> bool:
        """Whether any label is known."""
        return bool(np.any(self.labels >= 0))

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of ``make``, computed once for this batch; copies and pickles of the batch compute it again."""
        memo: dict[Hashable, Any] = self.__dict__.setdefault("_memo", {})
        if key not in memo:
            memo[key] = make()
        found: T = memo[key]
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_memo"}

    def column(self, name: str) -> Column:
        check_name("column", name, self.columns)
        return self.columns[name]

    def with_labels(self, labels: LabelArray | None) -> Batch:
        """The same instances with other labels; None: none known."""
        return replace(self, labels=np.full(self.n_slots, UNKNOWN, np.int32) if labels is None else labels)

    def instances(self, start: int, stop: int) -> Batch:
        """Instances start..stop-1 as views of the same arrays."""
        low, high = int(self.offsets[start]), int(self.offsets[stop])
        return Batch(
            offsets=self.offsets[start : stop + 1] - low,
            labels=self.labels[low:high],
            weights=self.weights[start:stop],
            columns={name: Column(c.codes[low:high], c.vocabulary) for name, c in self.columns.items()},
            features=None if self.features is None else self.features[low:high],
            first=self.first + start,
            origin=self._origin_of(np.arange(start, stop)),
        )

    def take(self, numbers: IntArray) -> Batch:
        """The instances with these numbers, in this order; where they are all, the batch itself, which may be large."""
        if self.origin is None and np.array_equal(numbers, np.arange(len(self))):
            return self
        if len(numbers) and np.all(np.diff(numbers) == 1):  # views, which may be of a corpus on disk
            return replace(self.instances(int(numbers[0]), int(numbers[-1]) + 1), first=0)
        offsets, slots = take_rows(self.offsets, numbers)
        return Batch(
            offsets=offsets,
            labels=self.labels[slots],
            weights=self.weights[numbers],
            columns={name: Column(c.codes[slots], c.vocabulary) for name, c in self.columns.items()},
            features=None if self.features is None else self.features[slots],
            origin=self._origin_of(numbers),
        )

    def _origin_of(self, numbers: IntArray) -> Origin:
        if self.origin is None:
            return Origin(numbers, self.offsets[:-1][numbers], len(self), self.n_slots)
        return replace(self.origin, instances=self.origin.instances[numbers], starts=self.origin.starts[numbers])


def _encode_labels(
    sentences: Sequence[Sequence[str]], labels: Sequence[Sequence[str | None] | None] | None, names: Vocabulary | None
) -> LabelArray:
    n_slots = sum(map(len, sentences))
    coded = np.full(n_slots, UNKNOWN, dtype=np.int32)
    if labels is None:
        return coded
    if names is None:
        raise DataError("labels are given but not their vocabulary: pass label_names")
    labels = list(check_list(labels, "label lists"))
    if len(labels) != len(sentences):
        raise DataError(f"expected labels for {len(sentences)} sentences but got {len(labels)}")
    slot = 0
    for i, (sentence, known) in enumerate(zip(sentences, labels, strict=True)):
        if known is not None:
            if len(known) != len(sentence):
                raise DataError(f"sentence {i} has {len(sentence)} words but {len(known)} labels")
            for j, label in enumerate(known):
                if label is not None:
                    if label != label:
                        raise DataError(NOT_A_LABEL)
                    coded[slot + j] = names.number(label)
        slot += len(sentence)
    return coded


@dataclass(frozen=True)
class ViewBatch(Batch):
    """Instances as a :class:`Batch` has them, with the columns of all views, and their description in each view.

    members : one batch a view
    apart : whether every view has labels of its own; else they share those of the batch
    """

    members: tuple[Batch, ...] = ()
    apart: bool = False

    @classmethod
    def of(cls, members: Sequence[Batch], *, apart: bool) -> ViewBatch:
        first = members[0]
        for number, member in enumerate(members[1:], start=1):
            if not np.array_equal(member.offsets, first.offsets):
                raise DataError(
                    f"views are of the same instances, but view {number} has {len(member)} of them with "
                    f"{member.n_slots} places for labels, and view 0 has {len(first)} with {first.n_slots}"
                )
        columns = {name: column for member in reversed(members) for name, column in member.columns.items()}
        return cls(
            first.offsets, first.labels, first.weights, columns, None, first.first, first.origin, tuple(members), apart
        )

    @property
    def outputs(self) -> LabelArray | tuple[LabelArray, ...]:
        return tuple(member.labels for member in self.members) if self.apart else self.labels

    @property
    def complete(self) -> BoolArray:
        """(n_instances,): whether every label of the instance is known in every view."""
        found: BoolArray = np.all([member.complete for member in self.members], axis=0)
        return found

    @property
    def known(self) -> bool:
        return any(member.known for member in self.members)

    def with_labels(self, labels: LabelArray | None) -> ViewBatch:
        return ViewBatch.of([member.with_labels(labels) for member in self.members], apart=self.apart)

    def with_weights(self, weights: Any) -> ViewBatch:
        """The same instances with other weights."""
        return ViewBatch.of([replace(member, weights=weights) for member in self.members], apart=self.apart)

    def instances(self, start: int, stop: int) -> ViewBatch:
        return ViewBatch.of([member.instances(start, stop) for member in self.members], apart=self.apart)

    def take(self, numbers: IntArray) -> ViewBatch:
        return ViewBatch.of([member.take(numbers) for member in self.members], apart=self.apart)
