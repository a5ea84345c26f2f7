"""A batch of sentence pairs: coded words of both sides, and the place of every two of them in the model's table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.bitext import Bitext
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, offsets_of
from trellis.data.shards import shard_bounds
from trellis.errors import DataError
from trellis.models.alignment.kernels import table as kernel
from trellis.structures import AlignmentParts, JointParts


@dataclass(frozen=True)
class Runs:
    """Cells numbered within runs of pairs, so that work on a run looks at a small table of its own.

    bounds : (n_runs + 1,) first pairs;  offsets : (n_runs + 1,);  entries : (n,) of the table, by run and number
    """

    bounds: IntArray
    offsets: IntArray
    entries: NDArray[np.int32]

    def of(self, start: int, stop: int) -> NDArray[np.int32] | None:
        """Entries of the run of these pairs, None if they are not one."""
        run = int(np.searchsorted(self.bounds, start))
        if run + 1 >= len(self.bounds) or self.bounds[run] != start or self.bounds[run + 1] != stop:
            return None
        return self.entries[self.offsets[run] : self.offsets[run + 1]]


@dataclass(frozen=True)
class SentencePairs:
    """What a learner asks of a batch; its slots are *cells*, every two words of a pair, in the order of links.

    source, target : (n_words,) codes, −1 for a word without one;  source_offsets, target_offsets : (n + 1,)
    cells : (n_cells,) entry of the table, below 0 where it has none;  offsets : (n + 1,) cells of each pair
    entries : where given, cells are numbers of these entries of the table;  runs : the same run by run
    weights : (n,);  first : number of the first pair in the corpus
    """

    source: LabelArray
    source_offsets: IntArray
    target: LabelArray
    target_offsets: IntArray
    cells: NDArray[np.int32]
    offsets: IntArray
    weights: FloatArray
    first: int = 0
    entries: NDArray[np.int32] | None = None
    runs: Runs | None = None

    @classmethod
    def of(cls, bitext: Bitext, cells: NDArray[np.int32], weights: FloatArray | None = None) -> SentencePairs:
        """The pieces of a text as instances."""
        n = len(bitext.source_offsets) - 1
        weight = np.ones(n) if weights is None else np.asarray(weights, np.float64)
        if weight.shape != (n,) or not np.all(np.isfinite(weight)) or np.any(weight < 0):
            raise DataError(f"expected a finite weight, not negative, for each of {n} pairs, got shape {weight.shape}")
        return cls(
            bitext.source, bitext.source_offsets, bitext.target, bitext.target_offsets, cells, cell_offsets(bitext),
            weight,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_slots(self) -> int:
        return int(self.offsets[-1])

    @property
    def complete(self) -> BoolArray:
        """(n,): whether everything is known of a pair, which it never is: links that are known are a constraint."""
        return np.zeros(len(self), np.bool_)

    @property
    def known(self) -> bool:
        """Whether anything is known of any pair."""
        return False

    @property
    def is_empty(self) -> BoolArray:
        """(n,): whether a side of the pair has no words."""
        return np.asarray(np.diff(self.offsets) == 0)

    @cached_property
    def parts(self) -> JointParts:
        """Links and null links of both directions."""
        both = (AlignmentParts(self.source_offsets, self.target_offsets, forward) for forward in (True, False))
        return JointParts(tuple(both))

    def in_runs(self, n_entries: int) -> SentencePairs:
        """The same pairs with cells numbered run by run, a run per shard; the cells are rewritten in place."""
        bounds, stamp, found = shard_bounds(self.offsets), np.full(n_entries, -1, np.int32), [np.zeros(0, np.int32)]
        for start, stop in pairwise(self.offsets[bounds].tolist()):
            entries = np.empty(stop - start, np.int32)
            n = kernel.number_within(self.cells[start:stop], stamp, entries)
            found.append(entries[:n].copy())
        return replace(self, runs=Runs(bounds, offsets_of(map(len, found[1:])), np.concatenate(found)))

    def moved(self, places: NDArray[np.int32]) -> SentencePairs:
        """The same pairs where each entry of the table has another place, −1: none."""
        one = self.as_one()
        if one.entries is None:
            return replace(one, cells=np.append(places, np.int32(-1))[one.cells])
        entries = places[one.entries]
        kept = entries >= 0
        # One number more, the last, for cells that have none: −1 stays −1.
        numbers = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1).astype(np.int32)
        return replace(one, cells=numbers[one.cells], entries=entries[kept])

    def table_cells(self, start: int, stop: int) -> NDArray[np.int32]:
        """The table's entry of every cell of pairs start..stop−1."""
        low, high = self.offsets[[start, stop]].tolist()
        cells, runs = self.cells[low:high], self.runs
        if self.entries is not None:
            return np.append(self.entries, -1).astype(np.int32)[cells]
        if runs is None:
            return cells
        run = np.repeat(np.arange(len(runs.bounds) - 1), np.diff(self.offsets[runs.bounds]))[low:high]
        found = np.append(runs.entries, -1)[np.where(cells >= 0, runs.offsets[run] + cells, -1)]
        return np.asarray(found, np.int32)

    def as_one(self) -> SentencePairs:
        """Itself, or where cells are numbered run by run the same pairs with cells of the whole table."""
        return self if self.runs is None else self.instances(0, len(self))

    def instances(self, start: int, stop: int) -> SentencePairs:
        """Pairs start..stop−1, as views where they are a run or there are no runs."""
        entries = None if self.runs is None else self.runs.of(start, stop)
        low = [int(o[start]) for o in (self.source_offsets, self.target_offsets, self.offsets)]
        high = [int(o[stop]) for o in (self.source_offsets, self.target_offsets, self.offsets)]
        return SentencePairs(
            self.source[low[0] : high[0]],
            self.source_offsets[start : stop + 1] - low[0],
            self.target[low[1] : high[1]],
            self.target_offsets[start : stop + 1] - low[1],
            self.table_cells(start, stop) if entries is None else self.cells[low[2] : high[2]],
            self.offsets[start : stop + 1] - low[2],
            self.weights[start:stop],
            self.first + start,
            entries,
        )

    def take(self, numbers: IntArray) -> SentencePairs:
        """The pairs with these numbers; itself where they are all, in order, since cells are the largest array."""
        if np.array_equal(numbers, np.arange(len(self))):
            return self
        one = [self.instances(int(n), int(n) + 1) for n in numbers]
        joined: dict[str, Any] = {
            name: np.concatenate([np.zeros(0, np.int32), *(getattr(part, name) for part in one)])
            for name in ("source", "target", "cells")
        }
        lengths: dict[str, Any] = {
            name: offsets_of(np.diff(getattr(self, name))[numbers])
            for name in ("source_offsets", "target_offsets", "offsets")
        }
        return replace(self, **joined, **lengths, weights=self.weights[numbers], entries=None, runs=None)


def cell_offsets(bitext: Bitext) -> IntArray:
    """(n_pieces + 1,): the first cell of each piece of a text."""
    sizes = np.diff(bitext.source_offsets) * np.diff(bitext.target_offsets)
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
