"""Subsets: a structure of a third kind, that only tests know, with no labels and no slots.

Each instance has elements with a score each; its outputs are the subsets y of these whose size lies within bounds,

    score(y) = Σ_{e ∈ y} score[e],      least ≤ |y| ≤ most.

An output of a batch is an array of bools, one for each element. A part is an element: the output has it. What
:class:`Parts` and :class:`Structure` offer by themselves is left to them, so that these subsets show whether the
general forms are right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import block_diag, csr_array

from trellis.data.ragged import check_offsets, offsets_of
from trellis.errors import DataError
from trellis.structures import Argmax, PartPosterior, Parts, Polytope, Structure
from trellis.structures.parts import check_parts
from trellis.structures.structure import check_gamma, check_scores, expect_scores, numbers_of, refuse_impossible


@dataclass(frozen=True)
class SubsetParts(Parts):
    """Elements of every instance, one instance after the other.

    offsets : (n_instances + 1,) over elements;  least, most : (n_instances,) bounds on the size of an output
    """

    offsets: np.ndarray
    least: np.ndarray
    most: np.ndarray
    outputs_are = "subsets"

    @property
    def n_instances(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_parts(self) -> int:
        return int(self.offsets[-1])

    def instance_of(self, parts: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.offsets, check_parts(parts, self.n_parts), side="right") - 1

    def of(self, outputs: Any) -> np.ndarray:
        chosen = np.asarray(outputs)
        if chosen.dtype == np.int32:  # labels of a batch: 1, 0, or −1 where nothing is known
            chosen = chosen == 1
        if chosen.dtype != np.bool_ or chosen.shape != (self.n_parts,):
            raise DataError(f"expected a bool for each of {self.n_parts} elements, got {chosen.dtype} {chosen.shape}")
        return np.flatnonzero(chosen)

    def split_outputs(self, outputs: np.ndarray) -> list[np.ndarray]:
        return np.split(outputs, self.offsets[1:-1]) if self.n_instances else []

    def join_outputs(self, pieces: Any) -> np.ndarray:
        return np.concatenate([np.zeros(0, dtype=np.bool_), *pieces])

    def shard(self, first: int, last: int) -> SubsetParts:
        offsets = self.offsets[first : last + 1]
        return SubsetParts(offsets - offsets[0], self.least[first:last], self.most[first:last])

    def within(self, parts: np.ndarray, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.offsets[first], self.offsets[last]
        kept = (parts >= low) & (parts < high)
        return kept, parts[kept] - low

    def zeros(self) -> Subsets:
        return Subsets(self.offsets, np.zeros(self.n_parts), least=self.least, most=self.most)


class Subsets(Structure):
    """Scores of elements; an element with −inf may not be chosen.

    offsets : (n_instances + 1,);  value : (n_elements,)
    least, most : sizes of outputs, one number or one for each instance; from none to all where they are not given

    >>> two_of_three = Subsets([0, 3], np.log([1.0, 2.0, 3.0]), least=2, most=2)
    >>> two_of_three.infer().at(np.arange(3)).round(3).tolist(), two_of_three.argmax().outputs.tolist()
    ([0.455, 0.727, 0.818], [False, True, True])
    """

    def __init__(self, offsets: Any, value: Any, *, least: Any = 0, most: Any = None, first: int = 0) -> None:
        self.value = check_scores("element", value, (None,))
        self.offsets = check_offsets(offsets, len(self.value))
        sizes = np.diff(self.offsets)
        self.least = np.broadcast_to(np.asarray(least, dtype=np.int64), sizes.shape)
        self.most = np.broadcast_to(sizes if most is None else np.asarray(most, dtype=np.int64), sizes.shape)
        self.first = first
        self.numbers: np.ndarray | None = None

    @property
    def parts(self) -> SubsetParts:
        return SubsetParts(self.offsets, self.least, self.most)

    def _over(self, value: np.ndarray) -> Subsets:
        changed = Subsets(self.offsets, value, least=self.least, most=self.most, first=self.first)
        changed.numbers = self.numbers
        return changed

    def _each(self) -> list[tuple[slice, int, int]]:
        """Elements, and the smallest and the largest size, of each instance."""
        return [
            (slice(int(a), int(b)), max(int(least), 0), min(int(most), int(b - a)))
            for a, b, least, most in zip(self.offsets, self.offsets[1:], self.least, self.most, strict=False)
        ]

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """The best elements down to the first that does not help; of equals the first, or with ``rng`` any."""
        chosen, score = np.zeros(len(self.value), dtype=np.bool_), np.zeros(len(self))
        for i, (elements, least, most) in enumerate(self._each()):
            value = self.value[elements]
            draw = np.zeros(len(value)) if rng is None else rng.random(len(value))
            order = np.lexsort((draw, -value))
            possible = [size for size in range(least, most + 1) if np.all(value[order[:size]] > -np.inf)]
            totals = np.array([value[order[:size]].sum() for size in possible])
            if not len(totals):
                score[i] = -np.inf
                continue
            ties = np.flatnonzero(totals == totals.max())
            best = int(ties[0] if rng is None else rng.choice(ties))
            score[i] = totals[best]
            chosen[elements.start + order[: possible[best]]] = True
        refuse_impossible(score, self.first, self.numbers)
        return Argmax(chosen, score)

    def score(self, outputs: Any) -> np.ndarray:
        used, scores = self.parts.of(outputs), np.zeros(len(self))
        np.add.at(scores, self.parts.instance_of(used), self.value[used])
        sizes = np.bincount(self.parts.instance_of(used), minlength=len(self))
        return np.where((sizes >= self.least) & (sizes <= self.most), scores, -np.inf)

    def apply(self, change: tuple[np.ndarray, np.ndarray], gamma: float = 1.0) -> Subsets:
        part, added = change
        value = self.value.copy()
        np.add.at(value, part, added)
        return self._over(value / check_gamma(gamma))

    def take(self, numbers: np.ndarray) -> Subsets:
        elements = [np.arange(self.offsets[i], self.offsets[i + 1]) for i in numbers]
        taken = Subsets(
            offsets_of(map(len, elements)),
            self.value[np.concatenate([np.zeros(0, np.int64), *elements])],
            least=self.least[numbers],
            most=self.most[numbers],
        )
        taken.numbers = numbers_of(numbers, self.first, self.numbers)
        return taken

    def flat(self) -> Subsets:
        return self._over(np.where(self.value > -np.inf, 0.0, -np.inf))

    def infer(self, *, weights: np.ndarray | None = None, at: np.ndarray | None = None) -> PartPosterior:
        """From left and right, the log of the sum over choices of each size among the elements met so far."""
        marginal, log_partition = np.zeros(len(self.value)), np.empty(len(self))
        for i, (elements, least, most) in enumerate(self._each()):
            value = self.value[elements]
            n = len(value)
            forward, backward = _sizes(value), _sizes(value[::-1])[::-1]
            log_partition[i] = np.logaddexp.reduce(forward[n, least : most + 1], initial=-np.inf)
            if log_partition[i] == -np.inf:
                continue
            for e in range(n):
                # a elements before e and b after it, and e itself
                logs = [
                    forward[e, a] + backward[e + 1, b]
                    for a in range(e + 1)
                    for b in range(n - e)
                    if least <= a + 1 + b <= most
                ]
                with_e = value[e] + np.logaddexp.reduce(logs, initial=-np.inf)
                marginal[elements.start + e] = np.exp(with_e - log_partition[i])
        refuse_impossible(log_partition, self.first, self.numbers)
        return PartPosterior(marginal, log_partition)

    def expected_score(self, q: Any, weights: np.ndarray) -> float:
        expected = expect_scores(q.at(np.arange(self.parts.n_parts)), self.value)
        return float(np.repeat(weights, np.diff(self.offsets)) @ expected)

    def polytope(self, closed: np.ndarray) -> Polytope:
        """Chosen elements and fillers that add up to the largest size: there are most − least fillers.

        An impossible instance has an equation without a solution.
        """
        n_parts, is_open = self.parts.n_parts, self.value > -np.inf
        is_open[closed] = False
        rows, bounds, scores, part, n_variables = [], [], [], [], 0
        for elements, least, most in self._each():
            mine = elements.start + np.flatnonzero(is_open[elements])
            fillers = max(most - least, 0)
            rows.append(np.ones((1, len(mine) + fillers)))
            bounds.append(most if most >= least else -1)
            scores.append(np.concatenate((self.value[mine], np.zeros(fillers))))
            part.append((mine, n_variables + np.arange(len(mine))))
            n_variables += len(mine) + fillers
        used, variable = np.concatenate([np.zeros((2, 0), np.int64), *map(np.stack, part)], axis=1)

        def outputs(x: np.ndarray) -> np.ndarray:
            chosen = np.zeros(n_parts, dtype=np.bool_)
            chosen[used] = x[variable] > 0.5
            return chosen

        return Polytope(
            matrix=block_diag([np.zeros((0, 0)), *rows], format="csr"),
            bound=np.array(bounds, dtype=np.float64),
            use=csr_array((np.ones(len(used)), (used, variable)), shape=(n_parts, n_variables)),
            score=np.concatenate([np.zeros(0), *scores]),
            whole=np.ones(n_variables, dtype=np.bool_),
            outputs=outputs,
        )


def _sizes(value: np.ndarray) -> np.ndarray:
    """(n + 1, n + 1): at (e, s) the log of the sum over choices of s among the first e elements."""
    n = len(value)
    table = np.full((n + 1, n + 1), -np.inf)
    table[0, 0] = 0.0
    for e in range(n):
        table[e + 1] = table[e]
        table[e + 1, 1:] = np.logaddexp(table[e, 1:], table[e, :-1] + value[e])
    return table
