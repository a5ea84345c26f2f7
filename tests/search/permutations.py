"""A structure that the library does not know: permutations, with a score for each thing at each place.

It brings what a newcomer must bring and no more: parts, an argmax (by trying all), scores, and a polytope.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from trellis.structures import Argmax, Parts, Polytope, Structure
from trellis.structures.structure import refuse_impossible


@dataclass(frozen=True)
class PermutationParts(Parts):
    """Part (i·n + p)·n + x: instance i has thing x at place p."""

    n: int
    size: int
    outputs_are = "permutations"

    @property
    def n_instances(self) -> int:
        return self.n

    @property
    def n_parts(self) -> int:
        return self.n * self.size**2

    def instance_of(self, parts: Any) -> Any:
        return np.asarray(parts) // self.size**2

    def of(self, outputs: list[tuple[int, ...]]) -> Any:
        used = [(i * self.size + p) * self.size + x for i, y in enumerate(outputs) for p, x in enumerate(y)]
        return np.array(used, dtype=np.int64)

    def shard(self, first: int, last: int) -> PermutationParts:
        return PermutationParts(last - first, self.size)

    def within(self, parts: Any, first: int, last: int) -> Any:
        kept = (self.instance_of(parts) >= first) & (self.instance_of(parts) < last)
        return kept, parts[kept] - first * self.size**2

    def zeros(self) -> Permutations:
        return Permutations(np.zeros((self.n, self.size, self.size)))


class Permutations(Structure):
    """table : (n_instances, size, size)."""

    def __init__(self, table: np.ndarray, first: int = 0) -> None:
        self.table, self.first = table, first

    @property
    def parts(self) -> PermutationParts:
        return PermutationParts(len(self.table), self.table.shape[1])

    def every(self, i: int) -> list[tuple[tuple[int, ...], float]]:
        size = self.table.shape[1]
        every = itertools.permutations(range(size))
        return [(y, float(sum(self.table[i, p, x] for p, x in enumerate(y)))) for y in every]

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        best = [max(self.every(i), key=lambda pair: pair[1]) for i in range(len(self.table))]
        score = np.array([value for _, value in best])
        refuse_impossible(score, self.first)
        return Argmax([y for y, _ in best], score)

    def score(self, outputs: list[tuple[int, ...]]) -> Any:
        return np.array([dict(self.every(i))[tuple(y)] for i, y in enumerate(outputs)])

    def apply(self, change: Any, gamma: float = 1.0) -> Permutations:
        part, value = change
        added = np.bincount(part, value, minlength=self.table.size).reshape(self.table.shape)
        return Permutations((self.table + added) / gamma, self.first)

    def take(self, numbers: Any) -> Permutations:
        first = self.first + int(numbers[0]) if len(numbers) else self.first
        return Permutations(self.table[numbers], first)

    def flat(self) -> Permutations:
        return Permutations(np.where(self.table > -np.inf, 0.0, -np.inf), self.first)

    def polytope(self, closed: Any) -> Polytope:
        """Each place has one thing and each thing one place."""
        n, size = len(self.table), self.table.shape[1]
        open_ = np.ones(self.table.size, dtype=bool)
        open_[closed] = False
        used = np.flatnonzero(open_)
        instance, place, thing = np.unravel_index(used, self.table.shape)
        row = np.concatenate((instance * size + place, (n + instance) * size + thing))
        column = np.tile(np.arange(len(used)), 2)

        def outputs(x: np.ndarray) -> list[tuple[int, ...]]:
            full = np.zeros(self.table.size)
            full[used] = x
            return [tuple(int(a) for a in one.argmax(axis=1)) for one in full.reshape(self.table.shape)]

        return Polytope(
            matrix=csr_array((np.ones(len(row)), (row, column)), shape=(2 * n * size, len(used))),
            bound=np.ones(2 * n * size),
            use=csr_array((np.ones(len(used)), (used, np.arange(len(used)))), shape=(self.table.size, len(used))),
            # a score of −inf stays: whoever solves the program must not let it spoil the others
            score=self.table.reshape(-1)[used],
            whole=np.ones(len(used), dtype=bool),
            outputs=outputs,
        )
