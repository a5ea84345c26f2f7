"""Parts: every part of every output of a batch has one number, found by arithmetic and never stored.

    score(y) = Σ_{parts of y} score(part),        E_q[φ] = Σ coefficient · q(part is used)

Outside this layer, and the models that build structures, part numbers are all that is known of an output. What a
constraint means by "the label V at token 7" or "word 3 is linked to word 5" it asks the parts for, by family: labels,
transitions, links, arcs, variables of several kinds. Parts that have none of the family refuse.

Rows over parts come in compressed form: entries start[r] .. start[r + 1] − 1 of ``part`` and ``coefficient``,
parts increasing inside a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray
from trellis.errors import ConstraintError, DataError
from trellis.structures.extremes import parts_never_least, row_extremes
from trellis.structures.part_set import PartSet

if TYPE_CHECKING:
    from trellis.structures.structure import Structure


@dataclass(frozen=True)
class PartLoss:
    """Hamming loss against given outputs: see :meth:`Parts.hamming`. A sum over parts is maximised with the scores.

    Δ(y, h) = constant(y) + Σ_{parts of h} value(part)

    part : (m,) different parts;  value : (m,) what each adds where it is used
    constant : (n_instances,) the loss of an output that uses none of them
    """

    parts: Parts
    part: IntArray
    value: FloatArray
    constant: FloatArray

    def add_to(self, scores: Structure, scale: float = 1.0) -> Structure:
        """Scores plus the loss (times ``scale``), less its constant."""
        return scores.add(self.part, scale * self.value)

    def of(self, outputs: Any) -> FloatArray:
        """Δ (n_instances,) of outputs."""
        used = np.append(self.parts.of(outputs), -1)
        return self._sum(used[np.searchsorted(used[:-1], self.part)] == self.part)

    def expect(self, marginals: FloatArray) -> FloatArray:
        """E[Δ] (n_instances,); marginals : (m,) of ``part``."""
        return self._sum(marginals)

    def _sum(self, used: Any) -> FloatArray:
        instance = self.parts.instance_of(self.part)
        return self.constant + np.bincount(instance, self.value * used, minlength=len(self.constant))


def missed(parts: Parts, part: IntArray) -> PartLoss:
    """1 for each of these parts that an output does not use."""
    constant = np.bincount(parts.instance_of(part), minlength=parts.n_instances).astype(np.float64)
    return PartLoss(parts, part, np.full(len(part), -1.0), constant)


class Parts(ABC):
    """The parts of a batch. A new structure brings the abstract ones; the others have slow forms that always serve."""

    kind: str = ""
    """Under which fast paths are registered; none for the empty one."""
    outputs_are = "outputs"
    """What they are called in messages."""
    has_labels = False
    """Whether there are parts (slot, label)."""
    has_again = False
    """Whether there are parts that say of a slot that a field begins there beside another one of its label."""
    segment_lengths = 0
    """Segments of 1, 2, ... up to so many tokens have parts of their own; the last one is also that of longer ones."""
    exact_extremes = True
    """Whether `extremes` finds the least and the largest value of a row; otherwise it gives bounds of them."""
    has_many_links = False
    """Whether the first parts are links, one of every two words: so many that rows about them are not written out."""
    has_variables = False
    """Whether slots are variables of several kinds, each with labels of its own."""

    @property
    @abstractmethod
    def n_instances(self) -> int: ...

    @property
    @abstractmethod
    def n_parts(self) -> int: ...

    @abstractmethod
    def instance_of(self, parts: IntArray) -> IntArray:
        """The instance of each part, counted inside this batch."""

    @abstractmethod
    def of(self, outputs: Any) -> IntArray:
        """Parts that one output of every instance uses, increasing."""

    @abstractmethod
    def shard(self, first: int, last: int) -> Parts:
        """The parts of instances first..last−1 alone, numbered anew."""

    @abstractmethod
    def within(self, parts: IntArray, first: int, last: int) -> tuple[BoolArray, IntArray]:
        """Which of the parts belong to instances first..last−1, and the numbers of those in ``shard(first, last)``."""

    @abstractmethod
    def zeros(self) -> Structure:
        """Scores of 0 for every part: all outputs alike."""

    def split(self, parts: IntArray) -> tuple[IntArray, IntArray]:
        """The instance of each part, and its number among the parts of that instance alone."""
        instance, local = self.instance_of(parts), np.empty(len(parts), dtype=np.int64)
        for i in np.unique(instance).tolist():
            local[instance == i] = self.within(parts[instance == i], i, i + 1)[1]
        return instance, local

    def join(self, instance: IntArray, local: IntArray) -> IntArray:
        """The parts with these numbers among the parts of their instances alone: undoes :meth:`split`."""
        everything, parts = np.arange(self.n_parts, dtype=np.int64), np.empty(len(local), dtype=np.int64)
        for i in np.unique(instance).tolist():
            kept, numbers = self.within(everything, i, i + 1)
            parts[instance == i] = everything[kept][np.argsort(numbers)][local[instance == i]]
        return parts

    def sizes(self) -> IntArray:
        """(n_instances,): how many parts each instance has."""
        return np.bincount(self.instance_of(np.arange(self.n_parts)), minlength=self.n_instances)

    @property
    def output_offsets(self) -> IntArray | None:
        """(n_instances + 1,): where the outputs of a batch are one int32 array, which of its entries are whose.

        None: they are an array or a list with one entry per instance.
        """
        return None

    def split_outputs(self, outputs: Any) -> list[Any]:
        """The output of each instance by itself, in the form that a batch of this one instance has."""
        offsets = self.output_offsets
        if offsets is None:
            offsets = np.arange(self.n_instances + 1)
        if len(outputs) != offsets[-1]:
            what = "instances" if self.output_offsets is None else "places"
            raise DataError(f"{len(outputs)} {self.outputs_are} are not one for each of {offsets[-1]} {what}")
        return [outputs[low:high] for low, high in pairwise(offsets.tolist())]

    def join_outputs(self, pieces: Sequence[Any]) -> Any:
        """Outputs of batches that follow each other, as outputs of one batch: undoes :meth:`split_outputs`."""
        if self.output_offsets is not None:
            return np.concatenate([np.zeros(0, np.int32), *pieces])
        if all(isinstance(piece, list) for piece in pieces):
            return [output for piece in pieces for output in piece]
        return np.concatenate(pieces)

    def place_of(self, parts: IntArray) -> IntArray:
        """The place of each part, in 0..n_parts−1: an output uses at most one part of a place (the slot, say).

        Parts of one place exclude each other, which makes a good first guess of how rows vary together.
        """
        return parts

    def change(self, part: IntArray, value: FloatArray) -> Any:
        """What :meth:`Structure.apply` adds to scores: ``value`` at ``part`` (repeated ones add up, −inf forbids).

        Made once where the same change meets many scores.
        """
        return check_change(part, value, self.n_parts)

    def closing(self, sets: Sequence[PartSet]) -> Any:
        """The change that forbids the parts of these sets."""
        part = np.concatenate([np.zeros(0, np.int64), *(some.listed() for some in sets)])
        return self.change(part, np.full(len(part), -np.inf))

    def extremes(self, start: IntArray, part: IntArray, coefficient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n_rows,) each: the least and the largest value of every row over all outputs, or bounds of them."""
        return row_extremes(self.zeros(), start, part, coefficient)

    def never_least(
        self, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
    ) -> tuple[PartSet, BoolArray]:
        """Parts that no output with the least value of a row uses; and for which rows that says it all.

        margin : (n_rows,) by how much two sums may differ and yet count as equal
        Where the second answer is yes (n_rows,), a row is at its least exactly if none of these parts is used. Where it
        is no, being at the least takes more: that some part *is* used, say.
        """
        never, settled = parts_never_least(self.zeros(), start, part, coefficient, margin)
        return PartSet.of(never), settled

    def hamming(self, outputs: Any) -> PartLoss:
        """The Hamming loss against given outputs: their labels, or parts where there are no labels, that are missed.

        A label that is not known (−1) costs nothing.
        """
        if not self.has_labels:
            return missed(self, self.of(outputs))
        slot = np.flatnonzero(outputs >= 0)
        return missed(self, np.asarray(self.label(slot, outputs[slot].astype(np.int64))))

    # families

    @property
    def label_shape(self) -> tuple[int, int]:
        """How many slots have labels, and how many labels each of them may have."""
        self._refuse("labels")

    def label(self, slot: Any, label: Any) -> Any:
        """The part "the slot has the label"."""
        self._refuse("labels")

    def transition(self, slot: Any, before: Any, label: Any) -> Any:
        """The part "the slot before has label ``before`` and the slot has ``label``"."""
        self._refuse("transitions between labels")

    def again(self, slot: Any, label: Any) -> Any:
        """The part "a field of the label ends before the slot, and another one of it begins there"."""
        self._refuse("adjacent fields of one label")

    def segment(self, slot: Any, length: Any, label: Any) -> Any:
        """The part "a segment of the label and this many tokens ends with the slot"."""
        self._refuse("segments")

    def grid(self) -> IntArray:
        """Parts of all labels (n_slots, n_labels)."""
        self._refuse("labels")

    def transition_grid(self) -> IntArray:
        """Parts of all transitions (n_boundaries, n_labels, n_labels): a large array."""
        self._refuse("transitions between labels")

    def link(self, source: Any, target: Any) -> Any:
        """The part "source word i is linked to target word j" for places in the flat texts of the batch."""
        self._refuse("links between words")

    def link_within(self, instance: int, source: int, target: int) -> int:
        """The same for places in the two sentences of one instance."""
        self._refuse("links between words")

    def linked_words(self) -> tuple[IntArray, IntArray, IntArray]:
        """Links, each by its part, source and target word: places in the flat texts. A part may stand for several."""
        self._refuse("links between words")

    def arc_within(self, instance: int, head: int, child: int) -> int:
        """The part "word ``child`` hangs on word ``head``" for numbers in one sentence: words from 1, the root is 0."""
        self._refuse("arcs between words")

    def arc_words(self) -> tuple[IntArray, IntArray]:
        """Of each arc part, which are the first parts, head and child: places in the flat text, −1 for the root."""
        self._refuse("arcs between words")

    def variable_kind(self, name: str) -> Any:
        """The variables of a kind: ``labels``, ``offsets``, and ``arguments`` where they are about others."""
        self._refuse("entities and relations")

    def variable_slots(self, kind: str) -> IntArray:
        """The slot of every variable of a kind."""
        self._refuse("entities and relations")

    def variable(self, kind: str, number: Any, label: Any) -> Any:
        """The part "the variable has the label"; variables of a kind are counted through the batch."""
        self._refuse("entities and relations")

    def assignments(self, kind: str) -> IntArray:
        """Of every variable of a kind the first part of a factor that sees its arguments and then it; −1: none does."""
        self._refuse("entities and relations")

    def together(self, kind: str) -> tuple[IntArray, IntArray]:
        """Of factors that see two variables of a kind the first part, and (n, 2) the variables."""
        self._refuse("entities and relations")

    def member(self, number: int) -> tuple[Parts, int]:
        """One of several structures side by side, and the number of its first part."""
        self._refuse("one of several structures")

    def _refuse(self, family: str) -> NoReturn:
        raise ConstraintError(f"this constraint refers to {family}, but these {self.outputs_are} have none")


def check_parts(parts: Any, n_parts: int) -> IntArray:
    """Part numbers as int64, each in 0..n_parts−1."""
    numbers = np.asarray(parts, dtype=np.int64)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < n_parts):
        raise DataError(f"parts must lie in 0..{n_parts - 1}, got {numbers.min()}..{numbers.max()}")
    return numbers


def check_change(part: Any, value: Any, n_parts: int) -> tuple[IntArray, FloatArray]:
    """Parts, and as many values that are finite or −inf."""
    numbers, added = check_parts(part, n_parts), np.asarray(value, dtype=np.float64)
    if numbers.ndim != 1 or numbers.shape != added.shape:
        raise DataError(
            f"a change is one value for each part, but there are {numbers.shape} parts, {added.shape} values"
        )
    wrong = np.flatnonzero(~(added < np.inf))
    if len(wrong):
        at = int(wrong[0])
        raise DataError(f"what is added must be finite or −inf, but at part {numbers[at]} it is {added[at]}")
    return numbers, added


def dense_change(part: Any, value: Any, n_parts: int) -> FloatArray | None:
    """(n_parts,): what is added to each part, values of a part that is named again summed; None for nothing."""
    part, value = check_change(part, value, n_parts)
    if not len(part):
        return None
    return np.bincount(part, value, minlength=n_parts).astype(np.float64, copy=False)


def check_labels(labels: Any, n_slots: int, n_labels: int, *, unknown: bool = False) -> LabelArray:
    """Labels (n_slots,) as int32, each in 0..n_labels-1 (or −1 where ``unknown`` is allowed)."""
    checked = np.ascontiguousarray(labels, dtype=np.int32)
    if checked.shape != (n_slots,):
        raise DataError(f"expected one label for each of {n_slots} slots but got shape {checked.shape}")
    wrong = np.flatnonzero((checked < (-1 if unknown else 0)) | (checked >= n_labels))
    if len(wrong):
        slot = int(wrong[0])
        raise DataError(f"label {checked[slot]} of slot {slot} is not one of 0..{n_labels - 1}")
    return checked
