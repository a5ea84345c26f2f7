"""Dependency trees as 0/1 programs whose relaxations are exact.

Projective. A variable is a step of the parse of :mod:`kernels.tree_sum`: an item and what it is made of. An item is
made as often as it is used (the flow of a hypergraph, Martin et al. 1990), and the whole sentence once.

Not projective. A variable x is an arc; every word has one. To make a tree of them, the root sends one unit to every
word k along the arcs, fᵏ ≤ x (Wong 1984); s = x − fᵏ is what is left of an arc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray
from trellis.structures.polytope import Polytope


@dataclass
class TreeProgram:
    """Variables and equations as they are found, over all sentences.

    score, part, whole : a variable's score, the part that it uses (−1: none) and whether it must be told to be 0 or 1
    """

    score: list[float] = field(default_factory=list)
    part: list[int] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    equation: dict[Any, int] = field(default_factory=dict)
    bound: list[float] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)

    def variable(self, score: float = 0.0, part: int = -1, *, whole: bool = False) -> int:
        self.score.append(score)
        self.part.append(part)
        self.whole.append(whole)
        return len(self.score) - 1

    def row(self, key: Any, bound: float = 0.0) -> int:
        """The equation of this name, which begins with a bound and no variables."""
        if key not in self.equation:
            self.equation[key] = len(self.bound)
            self.bound.append(bound)
        return self.equation[key]

    def put(self, key: Any, variable: int, coefficient: float) -> None:
        self.entries.append((self.row(key), variable, coefficient))

    def polytope(self, n_parts: int, outputs: Callable[[IntArray], LabelArray]) -> Polytope:
        """``outputs`` makes heads of the parts that are used."""
        from scipy.sparse import coo_array, csr_array

        n, part = len(self.score), np.array(self.part, dtype=np.int64)
        rows, columns, values = (np.array(x) for x in zip(*self.entries, strict=True)) if self.entries else ([], [], [])
        used = np.flatnonzero(part >= 0)
        use = csr_array((np.ones(len(used)), (part[used], used)), shape=(n_parts, n))

        def read(x: FloatArray) -> LabelArray:
            return outputs(np.flatnonzero(use @ x > 0.5))

        return Polytope(
            matrix=coo_array((values, (rows, columns)), shape=(len(self.bound), n)).tocsr(),
            bound=np.array(self.bound, dtype=np.float64),
            use=use,
            score=np.array(self.score, dtype=np.float64),
            whole=np.array(self.whole, dtype=np.bool_),
            outputs=read,
        )


@dataclass(frozen=True)
class Sentence:
    """What a program reads of one sentence: arc[child, head], the diagonal the root; ``first``, its first part."""

    number: int
    first: int
    arc: FloatArray
    is_open: BoolArray
    single_root: bool

    @property
    def n(self) -> int:
        return len(self.arc)


def constant(program: TreeProgram, number: int, score: float) -> None:
    """What every tree of a sentence is worth: a variable that is 1."""
    program.row(("constant", number), 1.0)
    program.put(("constant", number), program.variable(score), 1.0)


def projective(program: TreeProgram, sentence: Sentence, nearest: FloatArray | None) -> None:
    """Add the steps of a sentence's parse."""
    n, name, s = sentence.n, sentence.number, 0 if sentence.single_root else 1
    m = n + s

    def made(item: tuple[Any, ...], of: Sequence[tuple[str, int, int]], score: float, part: int) -> None:
        x = program.variable(score, part, whole=part >= 0)
        program.put((name, *item), x, 1.0)
        for kind, h, e in of:
            if kind == "arc" or h != e:
                program.put((name, kind, h, e), x, -1.0)

    top = ("top",) if sentence.single_root else ("half", 0, n)
    program.row((name, *top), 1.0)
    if sentence.single_root:
        for c in range(n):
            if sentence.is_open[c, c]:
                of = [("half", c, 0), ("half", c, n - 1)]
                made(top, of, float(sentence.arc[c, c]), sentence.first + c * n + c)
    for h in range(m):
        for e in range(m):
            if h == e or (s and e == 0):
                continue
            i, j, c = min(h, e), max(h, e), e - s
            column = c if s and h == 0 else h - s
            for k in range(i, j) if sentence.is_open[c, column] else ():
                score = float(sentence.arc[c, column])
                if nearest is not None and column != c and k == (i if h == i else j - 1):
                    score += float(nearest[c, column])
                of = [("half", i, k), ("half", j, k + 1)]
                made(("arc", h, e), of, score, sentence.first + c * n + column)
            for k in range(i, j + 1):
                if k != h:
                    made(("half", h, e), [("arc", h, k), ("half", k, e)], 0.0, -1)


def spanning(program: TreeProgram, sentence: Sentence) -> None:
    """Add the arcs of a sentence, and the flows that make a tree of them."""
    n, name = sentence.n, sentence.number
    arcs: list[tuple[int, int, int]] = []
    for c in range(n):
        program.row((name, "head", c), 1.0)
        for h in range(n):
            if sentence.is_open[c, h]:
                x = program.variable(float(sentence.arc[c, h]), sentence.first + c * n + h, whole=True)
                arcs.append((-1 if h == c else h, c, x))
                program.put((name, "head", c), x, 1.0)
                if sentence.single_root and h == c:
                    program.row((name, "root"), 1.0)
                    program.put((name, "root"), x, 1.0)
    if sentence.single_root and n:
        program.row((name, "root"), 1.0)
    for k in range(n):
        for c in range(n):
            program.row((name, "flow", k, c), 1.0 if c == k else 0.0)
        for h, c, x in arcs:
            if h == k:
                continue
            flow, left = program.variable(), program.variable()
            program.put((name, "flow", k, c), flow, 1.0)
            if h >= 0:
                program.put((name, "flow", k, h), flow, -1.0)
            for variable, sign in ((x, 1.0), (flow, -1.0), (left, -1.0)):
                program.put((name, "under", k, h, c), variable, sign)
