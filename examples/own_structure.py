"""A structure of your own: each day has one of several allowed duty rosters, the rows of a table of 0 and 1.

    score(y) = Σ_{person ∈ roster y} score[day, person]

It numbers its parts (a person is on duty on a day) and implements ``argmax``, ``score``, ``apply``, ``take`` and
``flat``; with ``infer`` it can be projected at every γ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.structures import Argmax, PartPosterior, Parts, Structure


@dataclass(frozen=True)
class RosterParts(Parts):
    """Part day · n_people + person: that person is on duty on that day."""

    days: int
    table: Any
    outputs_are = "rosters"
    n_instances = property(lambda self: self.days)  # type: ignore[assignment]
    n_parts = property(lambda self: self.days * self.table.shape[1])  # type: ignore[assignment]

    def instance_of(self, parts: Any) -> Any:
        return parts // self.table.shape[1]

    def of(self, outputs: Any) -> Any:
        return np.flatnonzero(self.table[outputs])

    def shard(self, first: int, last: int) -> RosterParts:
        return RosterParts(last - first, self.table)

    def within(self, parts: Any, first: int, last: int) -> Any:
        kept = (self.instance_of(parts) >= first) & (self.instance_of(parts) < last)
        return kept, parts[kept] - first * self.table.shape[1]

    def zeros(self) -> Rosters:
        return Rosters(self.table, np.zeros((self.days, self.table.shape[1])))


class Rosters(Structure):
    """table : (n_rosters, n_people) of bools;  value : (n_days, n_people) scores, −inf for impossible duties."""

    def __init__(self, table: Any, value: Any) -> None:
        self.table, self.value, self.first = table, value, 0

    parts = property(lambda self: RosterParts(len(self.value), self.table))  # type: ignore[assignment]

    def totals(self) -> Any:
        return np.where(self.table, self.value[:, None, :], 0.0).sum(axis=2)

    def argmax(self, rng: Any = None) -> Argmax:
        return Argmax(self.totals().argmax(axis=1), self.totals().max(axis=1))

    def score(self, outputs: Any) -> Any:
        return self.totals()[np.arange(len(self.value)), outputs]

    def apply(self, change: Any, gamma: float = 1.0) -> Rosters:
        value = self.value.copy()
        np.add.at(value.reshape(-1), *change)
        return Rosters(self.table, value / gamma)

    def take(self, numbers: Any) -> Rosters:
        return Rosters(self.table, self.value[numbers])

    def flat(self) -> Rosters:
        return Rosters(self.table, np.where(np.isneginf(self.value), -np.inf, 0.0))

    def infer(self, *, weights: Any = None, at: Any = None) -> PartPosterior:
        totals = self.totals()
        chance = np.exp(totals - np.logaddexp.reduce(totals, axis=1)[:, None])
        return PartPosterior((chance @ self.table).reshape(-1), np.logaddexp.reduce(totals, axis=1))
