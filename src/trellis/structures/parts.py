"""The part index space: every part of every output of a batch has one number, found by arithmetic.

A batch of sequences with K labels and n slots in all, here K = 2 and two instances of 3 and 1 tokens:

    slot              0        1        2     |   3
    node parts      [0 1]    [2 3]    [4 5]   | [6 7]             node(t, k)    = t·K + k
                      |  edge  |  edge  |     |
    edge parts   (holes)  12..15   16..19     | (holes)           edge(t, a, b) = n·K + (t·K + a)·K + b
                 8..11                        |  20..23

An edge part belongs to the boundary between slots t − 1 and t. The edge parts of an instance's first slot are
holes: no output uses them, no row may name them. A categorical has node parts alone, one slot an instance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, IntArray, LabelArray
from trellis.errors import DataError


@dataclass(frozen=True)
class CategoricalParts:
    """Parts (instance, label) of a batch of instances with one label each.

    >>> CategoricalParts(n_slots=3, n_labels=4).node(2, 1)
    9
    """

    n_slots: int
    n_labels: int

    @property
    def n_instances(self) -> int:
        return self.n_slots

    @property
    def n_node_parts(self) -> int:
        return self.n_slots * self.n_labels

    @property
    def n_parts(self) -> int:
        return self.n_node_parts

    @property
    def offsets(self) -> IntArray:
        return np.arange(self.n_slots + 1, dtype=np.int64)

    def node(self, slot: Any, label: Any) -> Any:
        return slot * self.n_labels + label

    def instance_of(self, parts: IntArray) -> IntArray:
        return _check_parts(parts, self.n_parts) // self.n_labels

    def of(self, labels: LabelArray) -> IntArray:
        """Parts that an output uses, in increasing order."""
        y = check_labels(labels, self.n_slots, self.n_labels)
        return np.arange(self.n_slots, dtype=np.int64) * self.n_labels + y


@dataclass(frozen=True)
class ChainParts:
    """Parts (slot, label) and (boundary, label, label) of a batch of label sequences.

    offsets : (n_instances + 1,)

    >>> parts = ChainParts(np.array([0, 3, 4]), n_labels=2)
    >>> parts.node(2, 1), parts.edge(1, 0, 1), parts.n_parts
    (5, 13, 24)
    >>> parts.of(np.array([0, 1, 1, 0])).tolist()
    [0, 3, 5, 6, 13, 19]
    """

    offsets: IntArray
    n_labels: int

    @property
    def n_slots(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_instances(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_node_parts(self) -> int:
        return self.n_slots * self.n_labels

    @property
    def n_parts(self) -> int:
        return self.n_node_parts * (1 + self.n_labels)

    def node(self, slot: Any, label: Any) -> Any:
        return slot * self.n_labels + label

    def edge(self, slot: Any, before: Any, label: Any) -> Any:
        """The part "slot t − 1 has label ``before`` and slot t has ``label``"."""
        return self.n_node_parts + (slot * self.n_labels + before) * self.n_labels + label

    def has_boundary(self) -> BoolArray:
        """(n_slots,): whether a boundary lies before the slot, that is, it is not an instance's first."""
        inner = np.ones(self.n_slots, dtype=np.bool_)
        firsts = self.offsets[:-1]
        inner[firsts[firsts < self.offsets[1:]]] = False
        return inner

    def slot_of(self, parts: IntArray) -> IntArray:
        """The slot of a node part; the right-hand slot of an edge part."""
        numbers = _check_parts(parts, self.n_parts)
        return np.where(
            numbers < self.n_node_parts,
            numbers // self.n_labels,
            (numbers - self.n_node_parts) // self.n_labels**2,
        )

    def instance_of(self, parts: IntArray) -> IntArray:
        return np.searchsorted(self.offsets, self.slot_of(parts), side="right") - 1

    def of(self, labels: LabelArray) -> IntArray:
        """Parts that an output uses, in increasing order."""
        y = check_labels(labels, self.n_slots, self.n_labels).astype(np.int64)
        right = np.flatnonzero(self.has_boundary())
        nodes = self.node(np.arange(self.n_slots, dtype=np.int64), y)
        return np.concatenate([nodes, self.edge(right, y[right - 1], y[right])])


Parts = CategoricalParts | ChainParts


def _check_parts(parts: Any, n_parts: int) -> IntArray:
    numbers = np.asarray(parts, dtype=np.int64)
    if numbers.size and not (numbers.min() >= 0 and numbers.max() < n_parts):
        raise DataError(f"parts must lie in 0..{n_parts - 1}, got {numbers.min()}..{numbers.max()}")
    return numbers


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
