"""All outputs of small sentences written out, with features of their own: shares nothing with what it checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

import cvxpy as cp
import numpy as np

Words, Tags = Sequence[str], Sequence[str]


def named_features(words: Words, tags: Tags) -> Counter[tuple[str, ...]]:
    """Words with labels, label pairs, first and last labels."""
    found: Counter[tuple[str, ...]] = Counter(("word", w, t) for w, t in zip(words, tags, strict=True))
    found.update(("edge", a, b) for a, b in pairwise(tags))
    if words:
        found.update([("start", tags[0]), ("stop", tags[-1])])
    return found


def hamming(one: Tags, other: Tags) -> float:
    return float(sum(a != b for a, b in zip(one, other, strict=True)))


@dataclass
class Oracle:
    """Problems over the labels given; ``price`` of an output under constraints, inf where it is forbidden."""

    labels: Sequence[str]
    price: Callable[[Words, Tags], float] = lambda words, tags: 0.0
    number: dict[tuple[str, ...], int] = field(default_factory=dict)

    def phi(self, words: Words, tags: Tags) -> dict[int, float]:
        return {self.number.setdefault(f, len(self.number)): v for f, v in named_features(words, tags).items()}

    def outputs(self, words: Words) -> list[Tags]:
        every = product(self.labels, repeat=len(words))
        return [tags for tags in every if np.isfinite(self.price(words, tags))]

    def learn_space(self, X: Sequence[Words]) -> None:
        """Number the features of all outputs."""
        for words in X:
            for tags in product(self.labels, repeat=len(words)):
                self.phi(words, tags)

    def vector(self, words: Words, tags: Tags) -> np.ndarray:
        row = np.zeros(len(self.number))
        for f, v in self.phi(words, tags).items():
            row[f] = v
        return row

    def gold_price(self, words: Words, tags: Tags) -> float:
        found = self.price(words, tags)
        return found if np.isfinite(found) else 0.0

    def cuts(self, words: Words, tags: Tags) -> list[tuple[np.ndarray, float]]:
        """(f, b) with ξ ≥ b − w · f of every output of a given example."""
        gold, paid = self.vector(words, tags), self.gold_price(words, tags)
        return [
            (gold - self.vector(words, y), hamming(tags, y) + paid - self.price(words, y))
            for y in self.outputs(words)
        ]  # fmt: skip

    def answers(self, words: Words, z: int) -> list[tuple[np.ndarray, float]]:
        """(f, b) of every output of a yes/no example, with the dummy feature last."""
        size = max(len(words), 1)
        return [
            (z * np.append(self.vector(words, y) / size, 1.0), 1.0 + z * self.price(words, y) / size)
            for y in self.outputs(words)
        ]


def least(
    groups: Sequence[tuple[float, Sequence[tuple[np.ndarray, float]]]],
    power: int,
    bounds: tuple[Any, Any] = (-np.inf, np.inf),
) -> tuple[float, np.ndarray]:
    """The optimum of ½ ‖w‖² + Σ_i C_i max(0, max over cuts of b − w · f)^d over w within bounds, and w."""
    n = max(len(f) for _, cuts in groups for f, _ in cuts)
    w = cp.Variable(n)
    slack = cp.Variable(len(groups), nonneg=True)
    rows: list[Any] = []
    for i, (_, cuts) in enumerate(groups):
        F = np.array([np.pad(f, (0, n - len(f))) for f, _ in cuts])
        rows.append(slack[i] >= np.array([b for _, b in cuts]) - F @ w)
    low, high = (np.broadcast_to(side, n) for side in bounds)
    rows += [w[j] >= low[j] for j in np.flatnonzero(np.isfinite(low))]
    rows += [w[j] <= high[j] for j in np.flatnonzero(np.isfinite(high))]
    costs = np.array([c for c, _ in groups])
    losses = cp.sum(cp.multiply(costs, slack if power == 1 else cp.square(slack)))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + losses), rows)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value), np.asarray(w.value)
