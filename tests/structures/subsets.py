"""A third kind of structure, written in the tests alone: unordered subsets of at most ``limit`` elements per instance.

    score(S) = Σ_{e ∈ S} element[e],      |S| ≤ limit

Everything is enumerated. Only what the contract asks for is here, so whatever goes through with it knows parts alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.structures import Argmax, PartPosterior, Parts, Polytope, Structure
from trellis.structures.structure import refuse_impossible


@dataclass(frozen=True)
class SubsetParts(Parts):
    """Part e: element e of the batch is in its instance's subset."""

    offsets: np.ndarray
    limit: int
    outputs_are = "subsets"

    @property
    def n_instances(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_parts(self) -> int:
        return int(self.offsets[-1])

    def instance_of(self, parts: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.offsets, parts, side="right") - 1

    def of(self, outputs: list[tuple[int, ...]]) -> np.ndarray:
        found = [low + e for low, chosen in zip(self.offsets[:-1], outputs, strict=True) for e in chosen]
        return np.sort(np.array(found, dtype=np.int64))

    def shard(self, first: int, last: int) -> SubsetParts:
        return SubsetParts(self.offsets[first : last + 1] - self.offsets[first], self.limit)

    def within(self, parts: np.ndarray, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        kept = (parts >= self.offsets[first]) & (parts < self.offsets[last])
        return kept, parts[kept] - self.offsets[first]

    def zeros(self) -> Subsets:
        return Subsets(self.offsets, np.zeros(self.n_parts), limit=self.limit)


class Subsets(Structure):
    """element : (n_elements,) scores, −inf where an element may not be chosen."""

    def __init__(self, offsets: Any, element: Any, *, limit: int, first: int = 0) -> None:
        self.offsets, self.element = np.asarray(offsets, np.int64), np.asarray(element, np.float64)
        self.limit, self.first = limit, first

    @property
    def parts(self) -> SubsetParts:
        return SubsetParts(self.offsets, self.limit)

    def listed(self, i: int) -> list[tuple[tuple[int, ...], float]]:
        """Every possible subset of instance i, and its score."""
        own = self.element[self.offsets[i] : self.offsets[i + 1]]
        sets = [s for n in range(min(len(own), self.limit) + 1) for s in itertools.combinations(range(len(own)), n)]
        return [(s, float(sum(own[list(s)]))) for s in sets if not np.any(own[list(s)] == -np.inf)]

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        best = [max(self.listed(i), key=lambda pair: pair[1]) for i in range(len(self))]
        return Argmax([chosen for chosen, _ in best], np.array([score for _, score in best]))

    def score(self, outputs: list[tuple[int, ...]]) -> np.ndarray:
        return np.array([self.element[low + list(s)].sum() if s else 0.0 for low, s in zip(self.offsets, outputs)])  # noqa: B905

    def apply(self, change: Any, gamma: float = 1.0) -> Subsets:
        part, value = change
        element = self.element + np.bincount(part, value, minlength=len(self.element))
        return Subsets(self.offsets, element / gamma, limit=self.limit, first=self.first)

    def take(self, numbers: np.ndarray) -> Subsets:
        pieces = [self.element[self.offsets[i] : self.offsets[i + 1]] for i in numbers]
        offsets = np.concatenate(([0], np.cumsum([len(p) for p in pieces])))
        element = np.concatenate([np.zeros(0), *pieces])
        first = self.first + int(numbers[0]) if len(numbers) else self.first
        return Subsets(offsets, element, limit=self.limit, first=first)

    def flat(self) -> Subsets:
        return Subsets(self.offsets, np.where(self.element > -np.inf, 0.0, -np.inf), limit=self.limit, first=self.first)

    def infer(self, *, weights: Any = None, at: Any = None) -> PartPosterior:
        marginal, log_partition = np.zeros(len(self.element)), np.zeros(len(self))
        for i in range(len(self)):
            listed = self.listed(i)
            scores = np.array([score for _, score in listed])
            log_partition[i] = scores.max() + np.log(np.exp(scores - scores.max()).sum())
            for (chosen, _), p in zip(listed, np.exp(scores - log_partition[i]), strict=True):
                marginal[self.offsets[i] + np.array(chosen, dtype=np.int64)] += p
        refuse_impossible(log_partition, self.first)
        return PartPosterior(marginal, log_partition)

    def expected_score(self, q: PartPosterior, weights: np.ndarray) -> float:
        weight = np.repeat(weights, np.diff(self.offsets))
        used = q.marginal > 0
        return float((weight * q.marginal)[used] @ self.element[used])

    def likeliest(self, q: PartPosterior) -> list[tuple[int, ...]]:
        return [tuple(np.flatnonzero(q.marginal[a:b] > 0.5)) for a, b in itertools.pairwise(self.offsets)]

    def polytope(self, closed: np.ndarray) -> Polytope:
        """A 0/1 variable per open element, and one per instance and place left empty up to the limit."""
        from scipy.sparse import csr_array

        is_open = self.element > -np.inf
        is_open[closed] = False
        used, n = np.flatnonzero(is_open), len(self)
        columns = len(used) + n * self.limit
        rows = np.concatenate((self.parts.instance_of(used), np.repeat(np.arange(n), self.limit)))
        matrix = csr_array((np.ones(columns), (rows, np.arange(columns))), shape=(n, columns))
        use = csr_array((np.ones(len(used)), (used, np.arange(len(used)))), shape=(len(self.element), columns))

        def outputs(x: np.ndarray) -> list[tuple[int, ...]]:
            chosen = used[x[: len(used)] > 0.5]
            return [tuple(chosen[(chosen >= a) & (chosen < b)] - a) for a, b in itertools.pairwise(self.offsets)]

        score = np.concatenate((self.element[used], np.zeros(n * self.limit)))
        return Polytope(matrix, np.full(n, float(self.limit)), use, score, np.ones(columns, np.bool_), outputs)
