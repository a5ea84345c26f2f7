"""Monotone alignments by enumeration: every way to cut two strings into segments side by side.

Shares nothing with the structure: segments are cut off the left end, one pair after the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from trellis.structures import Monotone, MonotoneParts

from .enumeration import Enumeration

Step = tuple[int, int]


@cache
def all_alignments(n: int, m: int, longest: int) -> list[tuple[Step, ...]]:
    """Lengths of the segments side by side; where two without a partner meet, the source's is the first."""
    if n == m == 0:
        return [()]
    found = []
    sizes = range(longest + 1)
    for a, b in itertools.product(sizes, sizes):
        if (a or b) and a <= n and b <= m:
            for rest in all_alignments(n - a, m - b, longest):
                if not (a == 0 and rest and rest[0][1] == 0):
                    found.append(((a, b), *rest))
    return found


@dataclass(frozen=True)
class MonotoneCase:
    """A drawn batch; ``shapes``: how many characters the two sides of each pair have."""

    shapes: tuple[tuple[int, int], ...]
    longest: int
    arguments: dict[str, Any] = field(default_factory=dict)

    def structure(self) -> Monotone:
        sides = np.array(self.shapes, np.int64).reshape(-1, 2)
        return Monotone(MonotoneParts(sides[:, 0].copy(), sides[:, 1].copy(), self.longest), **self.arguments)

    def numbers(self, i: int, steps: Sequence[Step]) -> list[int]:
        """Part numbers of the steps of pair i."""
        kinds = (self.longest + 1) ** 2 - 1
        first = sum((n + 1) * (m + 1) * kinds for n, m in self.shapes[:i])
        found, x, y = [], 0, 0
        for a, b in steps:
            x, y = x + a, y + b
            found.append(first + (x * (self.shapes[i][1] + 1) + y) * kinds + a * (self.longest + 1) + b - 1)
        return found

    def listed(self) -> Enumeration:
        value = np.asarray(self.arguments["value"], dtype=float)
        listings = [all_alignments(n, m, self.longest) for n, m in self.shapes]
        use, score = [], []
        for i, listing in enumerate(listings):
            rows, totals = np.zeros((len(listing), len(value)), np.bool_), np.zeros(len(listing))
            for number, steps in enumerate(listing):
                own = self.numbers(i, steps)
                rows[number, own] = True
                totals[number] = sum((float(value[p]) for p in own), 0.0)
            use.append(rows)
            score.append(totals)

        def assemble(choice: Sequence[int]) -> list[np.ndarray]:
            chosen = [listings[i][number] for i, number in enumerate(choice)]
            return [np.cumsum(np.array(steps, np.int64).reshape(-1, 2), axis=0) for steps in chosen]

        return Enumeration(len(value), use, score, assemble, self.arguments.get("first", 0))


@st.composite
def monotone_cases(draw: st.DrawFn, palette: list[float], n: int, largest: int, *, feasible: bool) -> MonotoneCase:
    """With ``feasible`` a drawn alignment of every pair is made possible."""
    size = st.integers(0, largest)
    shapes, longest = draw(st.lists(st.tuples(size, size), min_size=n, max_size=n)), draw(st.integers(1, 3))
    n_parts = sum((a + 1) * (b + 1) for a, b in shapes) * ((longest + 1) ** 2 - 1)
    # Hypothesis draws a seed, not hundreds of numbers of which most are never used.
    value = np.random.default_rng(draw(st.integers(0, 2**32))).choice(palette, n_parts)
    case = MonotoneCase(tuple(shapes), longest, {"value": value})
    for i, shape in enumerate(shapes if feasible else ()):
        steps = draw(st.sampled_from(all_alignments(*shape, longest)))
        for p in case.numbers(i, steps):
            value[p] = 0.0 if value[p] == -math.inf else value[p]
    return case
