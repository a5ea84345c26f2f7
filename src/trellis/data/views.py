"""A batch with several views: one batch for each view, over the same instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.data.batch import Batch
from trellis.data.ragged import BoolArray, IntArray, LabelArray
from trellis.errors import DataError


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
