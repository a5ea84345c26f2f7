"""Where constraints apply in labelled texts, and where labels break them.

kind of rule            a place                             broken by
inside a text           a row: a token, a pair, a text      how far the labels are beyond its bound
over the whole corpus   the corpus                          1 where the bound does not hold
few_labels_per          a token whose word is counted       1 for each label of a word beyond its first
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from trellis.constraints import Constraint
from trellis.constraints.few_labels import FewLabels
from trellis.constraints.penalties import loosened
from trellis.constraints.rows import COUPLING, Rows
from trellis.constraints.sparsity import Sparsity
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.data.vocabulary import Vocabulary

NO_SLOT = -1
HOLDS = 1e-9
"""A bound holds up to this much."""


@dataclass(frozen=True)
class Breach:
    """One place where labels break a rule; instance, slot : None where it is not about a single one."""

    instance: int | None
    slot: int | None
    amount: float


class RulePlaces:
    """The places of constraints in a batch.

    names : of the constraints;  n : (n_constraints,) how many places each has
    """

    def __init__(self, constraints: Sequence[Constraint], batch: Batch, labels: Vocabulary, parts: Any) -> None:
        rows = loosened(constraints, batch, labels, parts).canonical()
        self.names, self.batch = tuple(one.name for one in constraints), batch
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

    def broken(self, labels: LabelArray) -> FloatArray:
        """(n_constraints,): how often labels of all slots break each constraint."""
        found = np.bincount(self.rows.constraint, self._over(labels), minlength=len(self.names)).astype(np.float64)
        for number, block in self.blocks.items():
            found[number] = sum(1.0 for _ in self._extra(block, labels))
        return found

    def breaches(self, number: int, labels: LabelArray) -> Iterator[Breach]:
        """The places where labels break a constraint, in the order of the texts."""
        if number in self.blocks:
            for slot in self._extra(self.blocks[number], labels):
                yield Breach(int(np.searchsorted(self.batch.offsets, slot, side="right")) - 1, slot, 1.0)
            return
        over = self._over(labels)
        for row in np.flatnonzero((self.rows.constraint == number) & (over > HOLDS)).tolist():
            instance, slot = int(self.rows.instance[row]), int(self.slots[row])
            yield Breach(
                None if instance == COUPLING else instance, None if slot == NO_SLOT else slot, float(over[row])
            )

    def _over(self, labels: LabelArray) -> FloatArray:
        """(n_rows,): how far labels are beyond the bound of each row; 1 at most over the corpus."""
        if not len(self.rows):
            return np.zeros(0)
        over = self.rows.excess(self.rows.evaluate(self.batch.with_labels(labels).labels))
        tying = self.rows.instance == COUPLING
        return np.where(tying, (over > HOLDS).astype(np.float64), over)

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
