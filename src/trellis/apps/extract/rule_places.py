"""Where constraints apply in texts, and where labels test and violate them.

A constraint applies in a row: a token, a pair, a text, the corpus, or for few_labels_per a token whose word is counted.
Labels test it at the places of :mod:`trellis.constraints.reduction`; these two kinds are counted here:

kind of rule            a place                             broken by
over the whole corpus   the corpus                          1 where the bound does not hold
few_labels_per          a token whose word is counted       1 for each label of a word beyond its first
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from trellis.constraints import Constraint
from trellis.constraints.context import Context
from trellis.constraints.each_label import FewLabels
from trellis.constraints.implicit import Sparsity
from trellis.constraints.penalties import loosened
from trellis.constraints.reduction import NO_SLOT, Outputs, TestedPlaces
from trellis.constraints.rows import COUPLING, Rows
from trellis.data.batch import Batch
from trellis.data.ragged import IntArray, LabelArray
from trellis.data.vocabulary import Vocabulary


class RulePlaces:
    """The places of constraints in a batch.

    names : of the constraints;  n : (n_constraints,) in how many places each applies
    """

    def __init__(self, constraints: Sequence[Constraint], batch: Batch, labels: Vocabulary, parts: Any) -> None:
        rows = loosened(constraints, batch, labels, parts).canonical()
        self.constraints, self.batch, self.context = constraints, batch, Context(batch, labels, parts)
        self.names = tuple(one.name for one in constraints)
        few = [number for number, one in enumerate(constraints) if isinstance(one, FewLabels)]
        self.blocks: dict[int, Sparsity] = dict(zip(few, rows.sparsity, strict=True))
        self.rows = replace(rows, sparsity=())
        self.n = np.bincount(self.rows.constraint, minlength=len(self.names))
        for number, block in self.blocks.items():
            self.n[number] = len(block)

    @cached_property
    def slots(self) -> IntArray:
        """(n_rows,): the slot that a row is about, where that is a single one."""
        return _slots(self.rows)

    def instances(self, number: int) -> IntArray:
        """The instances in which a constraint has a place, rising."""
        if number in self.blocks:
            touched: IntArray = np.unique(self.rows.parts.instance_of(self.blocks[number].first))
            return touched
        mine = np.flatnonzero(self.rows.constraint == number)
        local = mine[self.rows.instance[mine] != COUPLING]
        tied = [self.rows.part[self.rows.start[r] : self.rows.start[r + 1]] for r in mine[len(local) :].tolist()]
        others = self.rows.parts.instance_of(np.concatenate(tied)) if tied else np.zeros(0, np.int64)
        found: IntArray = np.unique(np.concatenate((self.rows.instance[local], others)))
        return found

    def about(self, number: int) -> IntArray:
        """The slots that the places of a constraint are about, where each is about one."""
        if number in self.blocks:
            return self._block_slots(self.blocks[number])
        mine = self.slots[self.rows.constraint == number]
        about: IntArray = mine[mine != NO_SLOT]
        return about

    def tested(self, labels: LabelArray) -> list[TestedPlaces]:
        """Where labels of all slots test each constraint, and where they break it."""
        outputs = Outputs(self.context, self.context.parts.of(self.batch.with_labels(labels).labels))
        return [
            self._few(self.blocks[number], labels) if number in self.blocks else _once_per_corpus(one.tested(outputs))
            for number, one in enumerate(self.constraints)
        ]

    def _few(self, block: Sparsity, labels: LabelArray) -> TestedPlaces:
        """Every counted token is a place; one where its word gets a label beside its first breaks the rule."""
        slots = self._block_slots(block)
        broken = np.isin(slots, list(self._extra(block, labels))).astype(np.float64)
        return TestedPlaces(np.ones(len(slots)), broken, self.context.instance[slots], slots)

    def _block_slots(self, block: Sparsity) -> IntArray:
        first = self.rows.parts.label(np.arange(self.batch.n_slots), 0)
        found: IntArray = np.searchsorted(first, block.first)
        return found

    def _extra(self, block: Sparsity, labels: LabelArray) -> Iterator[int]:
        """The slots at which a word gets a label that it has not had before, but for its first."""
        seen: dict[int, set[int]] = {}
        for slot, key in zip(self._block_slots(block).tolist(), block.key.tolist(), strict=True):
            own, label = seen.setdefault(key, set()), int(labels[slot]) % block.width
            if own and label not in own:
                yield slot
            own.add(label)


def _once_per_corpus(found: TestedPlaces) -> TestedPlaces:
    """A row over several texts is one place, however many tokens it counts."""
    tying = found.instance == COUPLING
    places, broken = (np.where(tying, np.minimum(one, 1.0), one) for one in (found.places, found.broken))
    return replace(found, places=places, broken=broken)


def _slots(rows: Rows) -> IntArray:
    """(n_rows,): the slot of the labels that a row is about, where that is a single one."""
    grid = rows.parts.grid()
    found = np.full(len(rows), NO_SLOT, dtype=np.int64)
    for row, (low, high) in enumerate(zip(rows.start[:-1].tolist(), rows.start[1:].tolist(), strict=True)):
        parts = rows.part[low:high]
        if len(parts) and grid.size and parts.min() >= grid[0, 0] and parts.max() <= grid[-1, -1]:
            ends = np.searchsorted(grid[:, 0], [parts.min(), parts.max()], side="right") - 1
            if ends[0] == ends[1]:
                found[row] = ends[0]
    return found
