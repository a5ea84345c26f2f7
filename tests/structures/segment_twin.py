"""Segmentations by enumeration: every way to cut a sequence, every label of every piece, scored by its formula.

Shares nothing with the structure: pieces are lists of (label, tokens), and parts are numbered by counting.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from trellis.structures import Segments

from .enumeration import Enumeration

Piece = tuple[int, int]
"""A label, and how many tokens."""


def all_cuts(n: int) -> Iterator[tuple[int, ...]]:
    """Lengths of pieces that fill n tokens."""
    if n == 0:
        yield ()
    for size in range(1, n + 1):
        for rest in all_cuts(n - size):
            yield (size, *rest)


def all_segmentations(n: int, k: int) -> list[tuple[Piece, ...]]:
    return [
        tuple(zip(labels, sizes, strict=True))
        for sizes in all_cuts(n)
        for labels in itertools.product(range(k), repeat=len(sizes))
    ]


@dataclass(frozen=True)
class SegmentCase:
    """A drawn batch; ``arguments`` are those of the constructor but ``offsets``."""

    lengths: tuple[int, ...]
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def offsets(self) -> np.ndarray:
        return np.cumsum([0, *self.lengths])

    @property
    def n_labels(self) -> int:
        return int(self.arguments["edge"].shape[1])

    def structure(self) -> Segments:
        return Segments(self.offsets, **self.arguments)

    def told(self, i: int, pieces: Sequence[Piece]) -> tuple[list[int], float, list[int]]:
        """Parts that a segmentation of instance i uses, its score, and its codes."""
        k, n, lo = self.n_labels, int(self.offsets[-1]), int(self.offsets[i])
        given = self.arguments
        length = np.asarray(given["length"])
        longest = len(length)

        def at(name: str, *place: int) -> float:
            return float(given[name][place]) if given.get(name) is not None else 0.0

        used, codes, score, t, before = [], [], 0.0, lo, -1
        for label, size in pieces:
            if before >= 0:
                if before == label:
                    used.append(n * k + n * k * k + t * k + label)
                    score += at("again", label)
                else:
                    used.append(n * k + (t * k + before) * k + label)
                    score += at("edge", before, label)
            score += at("begin", t, label)
            for inside in range(size):
                used.append((t + inside) * k + label)
                score += at("node", t + inside, label)
                codes.append(label + k * (inside == 0 and before == label))
                if inside:
                    used.append(n * k + ((t + inside) * k + label) * k + label)
                    score += at("edge", label, label)
            t += size
            bucket = min(size, longest) - 1
            used.append(n * k + n * k * k + n * k + ((t - 1) * longest + bucket) * k + label)
            score += at("end", t - 1, label) + float(length[bucket, label]) + at("extra", t - 1, bucket, label)
            before = label
        if pieces:
            score += at("start", pieces[0][0]) + at("stop", pieces[-1][0])
        return used, score, codes

    def listed(self) -> Enumeration:
        k, n, longest = self.n_labels, int(self.offsets[-1]), len(self.arguments["length"])
        n_parts = n * (k + k * k + k + longest * k)
        use, score, codes = [], [], []
        for i, size in enumerate(self.lengths):
            told = [self.told(i, pieces) for pieces in all_segmentations(size, k)]
            rows = np.zeros((len(told), n_parts), dtype=np.bool_)
            for row, (used, _, _) in zip(rows, told, strict=True):
                row[used] = True
            use.append(rows)
            score.append(np.array([value for _, value, _ in told]))
            codes.append([own for _, _, own in told])

        def assemble(choice: Sequence[int]) -> np.ndarray:
            return np.array([c for i, number in enumerate(choice) for c in codes[i][number]], dtype=np.int32)

        return Enumeration(n_parts, use, score, assemble, self.arguments.get("first", 0))


@st.composite
def segment_cases(
    draw: st.DrawFn, palette: list[float], lengths: Sequence[int], *, feasible: bool, n_labels: int | None = None
) -> SegmentCase:
    """With ``feasible`` a drawn segmentation of every instance is made possible."""
    k = draw(st.integers(1, 3)) if n_labels is None else n_labels
    n, longest = sum(lengths), draw(st.integers(1, 3))
    # Hypothesis draws a seed, not hundreds of numbers of which most are never used.
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    shapes = {
        "node": (n, k), "edge": (k, k), "length": (longest, k), "again": (k,), "begin": (n, k), "end": (n, k),
        "extra": (n, longest, k), "start": (k,), "stop": (k,),
    }  # fmt: skip
    left_out = draw(st.sets(st.sampled_from(sorted(shapes)[:2] + ["end", "extra", "start", "stop"])))
    arguments: dict[str, Any] = {
        name: rng.choice(palette, shape) for name, shape in shapes.items() if name not in left_out
    }
    arguments.setdefault("again", None)
    case = SegmentCase(tuple(lengths), arguments)
    if feasible:
        for i, size in enumerate(lengths):
            pieces = draw(st.sampled_from(all_segmentations(size, k)))
            if case.told(i, pieces)[1] == -math.inf:
                for name in arguments:
                    if arguments[name] is not None:
                        arguments[name][arguments[name] == -math.inf] = 0.0
    return case
