"""The parts of chains: labels of slots, and pairs of labels at boundaries.

A batch of sequences with K labels and n slots in all, here K = 2 and two instances of 3 and 1 tokens:

    slot                 0        1        2     |   3
    label parts        [0 1]    [2 3]    [4 5]   | [6 7]             label(t, k)         = t·K + k
                         |   tr.  |   tr.  |     |
    transition parts (holes)  12..15   16..19    | (holes)           transition(t, a, b) = n·K + (t·K + a)·K + b
                      8..11                      |  20..23

A transition belongs to the boundary between slots t − 1 and t. The transition parts of an instance's first slot are
holes: no output uses them, no row may name them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, take_rows
from trellis.structures.flat import BlockParts, PlainBlock
from trellis.structures.part_set import PartSet
from trellis.structures.parts import Parts, check_change, check_labels

if TYPE_CHECKING:
    from trellis.structures.chain import Chain


@dataclass(frozen=True)
class SequenceParts(BlockParts):
    """What the first parts of every output are that gives each slot a label: labels, and then transitions.

    offsets : (n_instances + 1,)
    """

    offsets: IntArray
    n_labels: int
    has_labels = True

    @property
    def n_slots(self) -> int:
        return int(self.offsets[-1])

    @property
    def blocks(self) -> Sequence[PlainBlock]:
        """Labels, transitions, and what else there is."""
        k = self.n_labels
        return [PlainBlock(self.offsets, k), PlainBlock(self.offsets, k * k)]

    @property
    def n_node_parts(self) -> int:
        return self.n_slots * self.n_labels

    @property
    def output_offsets(self) -> IntArray:
        return self.offsets

    @property
    def label_shape(self) -> tuple[int, int]:
        return self.n_slots, self.n_labels

    def label(self, slot: Any, label: Any) -> Any:
        return slot * self.n_labels + label

    def transition(self, slot: Any, before: Any, label: Any) -> Any:
        return self.n_node_parts + (slot * self.n_labels + before) * self.n_labels + label

    def grid(self) -> IntArray:
        return np.arange(self.n_node_parts, dtype=np.int64).reshape(-1, self.n_labels)

    def transition_grid(self) -> IntArray:
        right, k = np.flatnonzero(self.has_boundary()), np.arange(self.n_labels, dtype=np.int64)
        found: IntArray = self.transition(right[:, None, None], k[:, None], k)
        return found

    def has_boundary(self) -> BoolArray:
        """(n_slots,): whether a boundary lies before the slot, that is, it is not an instance's first."""
        inner = np.ones(self.n_slots, dtype=np.bool_)
        firsts = self.offsets[:-1]
        inner[firsts[firsts < self.offsets[1:]]] = False
        return inner


@dataclass(frozen=True)
class ChainParts(SequenceParts):
    """Parts (slot, label) and (boundary, label, label) of a batch of label sequences.

    >>> parts = ChainParts(np.array([0, 3, 4]), n_labels=2)
    >>> parts.label(2, 1), parts.transition(1, 0, 1), parts.n_parts
    (5, 13, 24)
    >>> parts.of(np.array([0, 1, 1, 0])).tolist()
    [0, 3, 5, 6, 13, 19]
    """

    kind = "chain"
    outputs_are = "label sequences"

    def place_of(self, parts: IntArray) -> IntArray:
        """The slot of a label; n_slots + the right-hand slot of a transition."""
        n, k = self.n_node_parts, self.n_labels
        if parts.size == 0 or int(parts.max()) < n:
            return parts // k
        return np.where(parts < n, parts // k, self.n_slots + (parts - n) // (k * k))

    def of(self, outputs: LabelArray) -> IntArray:
        y = check_labels(outputs, self.n_slots, self.n_labels).astype(np.int64)
        right = np.flatnonzero(self.has_boundary())
        labels = self.label(np.arange(self.n_slots, dtype=np.int64), y)
        return np.concatenate([labels, self.transition(right, y[right - 1], y[right])])

    def shard(self, first: int, last: int) -> ChainParts:
        return ChainParts(self.offsets[first : last + 1] - self.offsets[first], self.n_labels)

    def zeros(self) -> Chain:
        from trellis.structures.chain import Chain

        k = self.n_labels
        index = np.zeros(self.n_slots, dtype=np.int32)
        return Chain(self.offsets, np.zeros((1, k)), np.zeros((k, k)), node_index=index)

    def change(self, part: IntArray, value: FloatArray) -> ChainChange:
        part, value = check_change(part, value, self.n_parts)
        n, k = self.n_node_parts, self.n_labels
        if not len(part):
            return ChainChange(None, None, np.zeros((1, k, k)))
        if int(part.max()) < n:
            return ChainChange(_sum_at(part, value, n).reshape(-1, k), None, np.zeros((1, k, k)))
        here = part < n
        node = _sum_at(part[here], value[here], n).reshape(-1, k) if here.any() else None
        cell, added = part[~here] - n, value[~here]
        if np.any(cell[1:] <= cell[:-1]):
            cell, place = np.unique(cell, return_inverse=True)
            added = _sum_at(place, added, len(cell))
        return ChainChange(node, *_patterns(cell, added, self.n_slots, k))

    def closing(self, sets: Sequence[PartSet]) -> ChainChange:
        """Patterns of boundaries stay patterns."""
        n, cells = self.n_node_parts, self.n_labels**2
        listed, whole = [np.zeros(0, np.int64)], []
        for some in sets:
            # patterns that are cells of one boundary; those of a single cell may be many, and are as well listed
            fits = (np.diff(some.start) > 1) & (some.offset[some.start[1:] - 1] < cells)
            is_boundary = fits[some.which] & (some.at >= n) & ((some.at - n) % cells == 0)
            listed.append(some.some(~is_boundary).listed())
            if np.any(is_boundary):
                whole.append(some.some(is_boundary).moved(-n))
        single = np.concatenate(listed)
        change = self.change(single, np.full(len(single), -np.inf))
        for boundaries in whole:
            change = change.closed(boundaries, self.n_slots)
        return change

    def extremes(self, start: IntArray, part: IntArray, coefficient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Least and largest values of chains over the slots that a row names."""
        from trellis.structures.chain_extremes import row_extremes

        return row_extremes(self, start, part, coefficient)

    def never_least(
        self, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
    ) -> tuple[PartSet, BoolArray]:
        """Along a path of parts that all lie on shortest paths every step adds what a shortest path adds: so an output
        is of least value exactly if all its parts lie on shortest paths."""
        from trellis.structures.chain_extremes import parts_never_least

        never = parts_never_least(self, start, part, coefficient, margin)
        return never, np.ones(len(margin), dtype=np.bool_)


@dataclass(frozen=True)
class ChainChange:
    """What is added to the scores of chains, with as few matrices as there are different additions.

    node : (n_slots, K), or None
    pattern : (n_slots,) which of ``patterns`` (n_patterns, K, K) is added before each slot, or None
    """

    node: FloatArray | None
    pattern: IntArray | None
    patterns: FloatArray

    def closed(self, boundaries: PartSet, n_slots: int) -> ChainChange:
        """The same, with transitions forbidden, counted from the first of all; each piece begins with a boundary."""
        k = self.patterns.shape[1]
        used, of_piece = np.unique(boundaries.which, return_inverse=True)
        masks = np.zeros((len(used) + 1, k, k))
        for number, pattern in enumerate(used.tolist(), start=1):
            cell = boundaries.offset[boundaries.start[pattern] : boundaries.start[pattern + 1]]
            masks[number].reshape(-1)[cell] = -np.inf
        mask = np.zeros(n_slots, dtype=np.int64)
        mask[boundaries.at // (k * k)] = of_piece + 1
        if self.pattern is None:
            return ChainChange(self.node, mask, masks)
        own, of_masks, pattern = pair_up(self.pattern, mask, len(masks))
        return ChainChange(self.node, pattern, self.patterns[own] + masks[of_masks])


def parts_of_labels(offsets: IntArray, n_labels: int) -> Parts:
    """The parts of label sequences as texts are annotated with them."""
    return ChainParts(offsets, n_labels)


def pair_up(one: Any, other: Any, n_other: int) -> tuple[IntArray, IntArray, IntArray]:
    """The distinct pairs of two indexes (n_slots,): of each pair both its members; and the pair of each slot."""
    pair, index = np.unique(one * np.int64(n_other) + other, return_inverse=True)
    return pair // n_other, pair % n_other, index


def first_transitions(start: IntArray, part: IntArray, n_node: int) -> IntArray:
    """(n_rows,): the first entry of each row that names a transition, or the row's end."""
    nodes = np.concatenate(([0], np.cumsum(part < n_node)))
    return np.asarray(start[:-1] + nodes[start[1:]] - nodes[start[:-1]], dtype=np.int64)


def _sum_at(places: IntArray, values: FloatArray, size: int) -> FloatArray:
    """(size,): the sum of the values at each place."""
    return np.bincount(places, values, minlength=size).astype(np.float64, copy=False)


def patterns_of(
    slot: IntArray, within: IntArray, value: FloatArray, n_slots: int
) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """The pattern of each slot (n_slots,), 0: no entries; first entry of each pattern, and their ``within`` and values.

    slot, within : (n_entries,) in any order, no pair twice
    """
    order = np.lexsort((within, slot))
    slot, within, value = slot[order], within[order], value[order]
    pattern = np.zeros(n_slots, dtype=np.int64)
    if not len(slot):
        return pattern, np.zeros(2, np.int64), within, value
    first, which, example = alike(slot, within, value)
    pattern[slot[first]] = which + 1
    start, chosen = take_rows(np.append(first, len(slot)), example)
    return pattern, np.append(0, start), within[chosen], value[chosen]


def _patterns(cell: IntArray, value: FloatArray, n_slots: int, k: int) -> tuple[IntArray, FloatArray]:
    """The pattern of each slot, and the distinct patterns, the first of which adds nothing.

    cell : (n_cells,) (slot · K + a) · K + b, increasing, each once
    """
    slot, within = cell // (k * k), cell % (k * k)
    first, which, example = alike(slot, within, value)
    end = np.append(first[1:], len(cell))
    patterns = np.zeros((len(example) + 1, k, k))
    flat = patterns.reshape(len(patterns), -1)
    for number, one in enumerate(example, start=1):
        chosen = slice(first[one], end[one])
        flat[number, within[chosen]] = value[chosen]
    pattern = np.zeros(n_slots, dtype=np.int64)
    pattern[slot[first]] = which + 1
    return pattern, patterns


def alike(slot: IntArray, within: IntArray, value: FloatArray) -> tuple[IntArray, IntArray, IntArray]:
    """Which slots have the same entries: of each that has any its first entry and its pattern, and an example of each.

    slot : (n_entries,) increasing;  within : (n_entries,) increasing inside a slot;  example : (n_patterns,) numbers
    among the slots that have entries
    """
    first = np.flatnonzero(np.concatenate(([True], np.diff(slot) > 0)))
    length = np.diff(np.append(first, len(slot)))
    digest = np.add.reduceat(_scatter(within, value), first)
    _, example, which = np.unique(digest, return_index=True, return_inverse=True)
    # two different patterns with one digest would be a wonder, but then every slot has a pattern of its own
    twin = example[which]
    same = np.array_equal(length[twin], length)
    if same:
        source = np.arange(len(slot)) + np.repeat(first[twin] - first, length)
        same = np.array_equal(within[source], within) and np.array_equal(value[source], value)
    return (first, which, example) if same else (first, np.arange(len(first)), np.arange(len(first)))


def _scatter(within: IntArray, value: FloatArray) -> NDArray[np.uint64]:
    """A well mixed number of each (place, value), so that sums of them tell sets of pairs apart."""
    mixed = (within.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ value.view(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)
