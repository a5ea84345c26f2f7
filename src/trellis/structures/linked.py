"""What rows over links may be worth at most: bounds found without a search.

Of the links of a *place*, such as those of one word, an alignment uses one at most, so that

    Σ_places min(0, least coefficient of the place)  ≤  φ(y)  ≤  Σ_places max(0, largest coefficient of the place)

Of several ways to divide links into places, the narrowest counts. Where rows are many and each is about a few links,
the exact values of :mod:`trellis.structures.extremes` would take as many searches as there are rows.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, owners
from trellis.structures.flat import FlatParts
from trellis.structures.part_loss import PartLoss, missed
from trellis.structures.part_set import PartSet


class LinkedParts(FlatParts):
    """Parts some of which are links, each of which an output may do without."""

    exact_extremes = False

    @abstractmethod
    def is_link(self, parts: IntArray) -> BoolArray:
        """(n,): whether parts are links that an output can use."""

    @abstractmethod
    def link_places(self, parts: IntArray) -> tuple[IntArray, ...]:
        """Ways to divide parts into places, each as the place (n,) of every part: an output uses one of a place at
        most, and parts that are no links have places of their own."""

    def hamming(self, outputs: Any) -> PartLoss:
        """The parts of given alignments that are missed; None: one that is not given costs nothing."""
        known = np.array([i for i, output in enumerate(outputs) if output is not None], np.int64)
        some = self.take(known)
        instance, local = some.split(some.of([outputs[i] for i in known.tolist()]))
        return missed(self, self.join(known[instance], local))

    def extremes(self, start: IntArray, part: IntArray, coefficient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds of the least and the largest value of every row."""
        n, row = len(start) - 1, owners(start)
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        for place in self.link_places(part):
            cell, at = np.unique(np.stack((row, place)), axis=1, return_inverse=True)
            for sign, end in ((1.0, high), (-1.0, low)):
                most = np.zeros(cell.shape[1])
                np.maximum.at(most, at.ravel(), sign * coefficient)
                total = sign * np.bincount(cell[0], most, minlength=n)
                end[:] = np.minimum(end, total) if sign > 0 else np.maximum(end, total)
        return low, high

    def never_least(
        self, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
    ) -> tuple[PartSet, BoolArray]:
        """Rows that count links with a positive sign are least where none is used; of others nothing is said."""
        row = owners(start)
        counts = (coefficient == 0) | ((coefficient > 0) & self.is_link(part))
        settled = np.bincount(row, ~counts, minlength=len(start) - 1) == 0
        return PartSet.of(np.unique(part[settled[row] & (coefficient > margin[row])])), settled
