"""Dependency trees by enumeration: every assignment of heads is tried, and kept if it is a tree of the kind asked for.

Shares nothing with the structures: a tree is found by walking up from every word, crossing arcs by looking at all
pairs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trellis.structures import SpanningTrees, Trees

from .enumeration import Enumeration


def is_tree(heads: Sequence[int], *, projective: bool, single_root: bool) -> bool:
    """heads[c − 1] is the head of word c, 0 the root."""
    n = len(heads)
    for c in range(1, n + 1):
        at = c
        for _ in range(n):
            at = heads[at - 1] if at else 0
        if at != 0:
            return False
    if single_root and n and list(heads).count(0) != 1:
        return False
    spans = [tuple(sorted((heads[c - 1], c))) for c in range(1, n + 1)]
    crossing = any(a < b < c < d for (a, c), (b, d) in itertools.permutations(spans, 2))
    return not (projective and crossing)


def all_trees(n: int, *, projective: bool, single_root: bool) -> list[tuple[int, ...]]:
    each = [[h for h in range(n + 1) if h != c] for c in range(1, n + 1)]
    found = itertools.product(*each)
    return [heads for heads in found if is_tree(heads, projective=projective, single_root=single_root)]


def nearest_arcs(heads: Sequence[int]) -> list[tuple[int, int]]:
    """Arcs (head, child) whose child is the nearest dependent of its head on that side; not those of the root."""
    found = []
    for h in range(1, len(heads) + 1):
        left = [c for c in range(1, h) if heads[c - 1] == h]
        right = [c for c in range(h + 1, len(heads) + 1) if heads[c - 1] == h]
        found += [(h, c) for c in (left[-1:] + right[:1])]
    return found


@dataclass(frozen=True)
class TreeCase:
    """A drawn batch; ``lengths`` of sentences, and the constructor's arguments.

    arguments : arc, single_root, first, and for projective trees nearest and base
    """

    lengths: tuple[int, ...]
    projective: bool
    arguments: dict[str, Any] = field(default_factory=dict)

    def structure(self) -> Trees | SpanningTrees:
        made = Trees if self.projective else SpanningTrees
        return made(np.cumsum([0, *self.lengths]), **self.arguments)

    def trees(self, i: int) -> list[tuple[int, ...]]:
        single = self.arguments.get("single_root", True)
        return all_trees(self.lengths[i], projective=self.projective, single_root=single)

    def part(self, i: int, head: int, child: int) -> int:
        n = self.lengths[i]
        first = sum(m * m for m in self.lengths[:i])
        return first + (child - 1) * n + (head - 1 if head else child - 1)

    def listed(self) -> Enumeration:
        arc = np.asarray(self.arguments["arc"], dtype=float)
        nearest, base = self.arguments.get("nearest"), self.arguments.get("base")
        use, score, listings = [], [], []
        for i in range(len(self.lengths)):
            trees = self.trees(i)
            rows, totals = np.zeros((len(trees), len(arc)), dtype=np.bool_), np.zeros(len(trees))
            for number, heads in enumerate(trees):
                own = [self.part(i, h, c) for c, h in enumerate(heads, start=1)]
                rows[number, own] = True
                total = sum((float(arc[p]) for p in own), 0.0)
                if nearest is not None:
                    total += sum(float(nearest[self.part(i, h, c)]) for h, c in nearest_arcs(heads))
                totals[number] = total + (0.0 if base is None else float(base[i]))
            use.append(rows)
            score.append(totals)
            listings.append(trees)

        def assemble(choice: Sequence[int]) -> np.ndarray:
            heads = [listings[i][number] for i, number in enumerate(choice)]
            return np.array([h for own in heads for h in own], dtype=np.int32)

        return Enumeration(len(arc), use, score, assemble, self.arguments.get("first", 0))


@st.composite
def tree_cases(
    draw: st.DrawFn,
    palette: list[float],
    *,
    projective: bool,
    lengths: Sequence[int],
    feasible: bool = True,
    valence: bool | None = None,
) -> TreeCase:
    """With ``feasible`` a drawn tree of every sentence is made possible by lifting its −inf arcs to zero."""
    single = draw(st.booleans())
    n_arcs = sum(n * n for n in lengths)
    scores = hnp.arrays(np.float64, n_arcs, elements=st.sampled_from(palette), fill=st.nothing())
    case = TreeCase(tuple(lengths), projective, {"arc": draw(scores), "single_root": single})
    if projective and (draw(st.booleans()) if valence is None else valence):
        finite = [x for x in palette if x > -math.inf]
        case.arguments["nearest"] = draw(hnp.arrays(np.float64, n_arcs, elements=st.sampled_from(finite)))
        case.arguments["base"] = draw(hnp.arrays(np.float64, len(lengths), elements=st.sampled_from(finite)))
    if feasible:
        for i in range(len(lengths)):
            for c, h in enumerate(draw(st.sampled_from(case.trees(i))), start=1):
                at = case.part(i, h, c)
                case.arguments["arc"][at] = max(case.arguments["arc"][at], -1e9)
                if case.arguments["arc"][at] == -1e9:
                    case.arguments["arc"][at] = 0.0
    return case
