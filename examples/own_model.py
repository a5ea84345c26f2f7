"""A model of your own: the number of visitors per hour, where it is unknown which hours are busy.

    p(y) = share_y,   p(x | y) = Poisson(x; rate_y)

Four methods: scores, collect (expected statistics, which can be added), update (the M-step) and log_prior. Every
learner then works with the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from trellis import UEM, Categorical, share
from trellis.engine import Additive
from trellis.models.tabular import TabularModel


@dataclass(frozen=True)
class Counts(Additive):
    """Expected number of hours of each kind, and of visitors in them, of shape (K,)."""

    hours: Any
    people: Any


class Visitors(TabularModel):
    """A mixture of Poisson distributions, a row of one number each. Learned: ``share_``, ``rate_``."""

    discriminative = False

    def __init__(self, labels: Any = None) -> None:
        self.labels = labels

    def reset(self) -> None:
        self.set_parameters({"share": np.full(len(self.classes_), 0.5), "rate": 1.0 + np.arange(len(self.classes_))})

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        self.rate_ = self.rate_ * (1.0 + 0.1 * scale * rng.random(len(self.rate_)))

    def scores(self, batch: Any) -> Categorical:
        x = batch.features.toarray()
        return Categorical(np.log(self.share_) + x * np.log(self.rate_) - self.rate_ - gammaln(x + 1.0), batch.first)

    def collect(self, batch: Any, q: Any) -> Counts:
        weighted = batch.weights[:, None] * q.node
        return Counts(weighted.sum(axis=0), (weighted * batch.features.toarray()).sum(axis=0))

    def update(self, statistics: Counts, *, shards: Any = None, engine: Any = None) -> None:
        self.share_ = statistics.hours / statistics.hours.sum()
        self.rate_ = (statistics.people + 0.01) / (statistics.hours + 0.01)

    def log_prior(self) -> float:
        return float(0.01 * (np.log(self.rate_) - self.rate_).sum())

    def parameters(self) -> dict[str, Any]:
        return {"share": self.share_.copy(), "rate": self.rate_.copy()}

    def set_parameters(self, parameters: dict[str, Any]) -> None:
        self.share_, self.rate_ = parameters["share"], parameters["rate"]


def main() -> list[str]:
    people = np.array([[2], [3], [14], [1], [2], [17], [4], [3], [2], [15]])
    learner = UEM(Visitors(["quiet", "busy"]), [share("busy").per("corpus") <= 0.3], random_state=0).fit(people)
    return [str(y) for y in learner.predict(people)]


if __name__ == "__main__":
    print(*main())
