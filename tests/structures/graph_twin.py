"""Small graphs with all their outputs listed: variables of two kinds, relations with arguments, and factors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from trellis.structures import Graph, GraphParts, Variables, factors_over

from .enumeration import Enumeration


def graph_of(counts: Sequence[int], sizes: tuple[int, int], ties: Sequence[str]) -> GraphParts:
    """Mentions, and a relation from every mention to the next one and back; ``ties`` names the factors there are."""
    pairs = [[(i, j) for i in range(m) for j in range(m) if abs(i - j) == 1] for m in counts]
    offsets = [np.cumsum([0, *counts]), np.cumsum([0, *map(len, pairs)])]
    arguments = np.array([pair for own in pairs for pair in own], np.int64).reshape(-1, 2)
    variables = (
        Variables("entity", tuple("abcd"[: sizes[0]]), offsets[0].astype(np.int64)),
        Variables("relation", tuple("uvwx"[: sizes[1]]), offsets[1].astype(np.int64), ("entity", "entity"), arguments),
    )
    factors = []
    if "arguments" in ties:
        numbers = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(own)) for own in pairs)])
        scope = np.column_stack((arguments, numbers))
        factors.append(factors_over(variables, ("entity", "entity", "relation"), scope, variables[1].offsets))
    if "both ways" in ties:
        # the relations of neighbours stand one after the other
        twice = [[(2 * i, 2 * i + 1) for i in range(len(own) // 2)] for own in pairs]
        scope = np.array([pair for own in twice for pair in own], np.int64).reshape(-1, 2)
        cuts = np.cumsum([0, *map(len, twice)]).astype(np.int64)
        factors.append(factors_over(variables, ("relation", "relation"), scope, cuts))
    return GraphParts(variables, tuple(factors))


def listed(parts: GraphParts, flat: np.ndarray, first: int = 0) -> Enumeration:
    """All outputs of every instance."""
    use, score, outputs = [], [], []
    starts = [0]
    for block in parts.blocks:
        starts.append(starts[-1] + int(block.offsets[-1]) * block.size)
    for i in range(parts.n_instances):
        spans = [range(int(v.offsets[i]), int(v.offsets[i + 1])) for v in parts.variables]
        domains = [range(v.size) for v, span in zip(parts.variables, spans, strict=True) for _ in span]
        rows, scores, labels = [], [], []
        for y in itertools.product(*domains):
            cut = len(spans[0])
            own = (y[:cut], y[cut:])
            row = np.zeros(starts[-1], np.bool_)
            for kind, span in enumerate(spans):
                for slot, label in zip(span, own[kind], strict=True):
                    row[starts[kind] + slot * parts.variables[kind].size + label] = True
            for f, family in enumerate(parts.factors):
                for slot in range(int(family.offsets[i]), int(family.offsets[i + 1])):
                    seen = [own[kind][v] for kind, v in zip(family.kinds, family.scope[slot].tolist(), strict=True)]
                    code = 0
                    for kind, label in zip(family.kinds, seen, strict=True):
                        code = code * parts.variables[kind].size + label
                    row[starts[2 + f] + slot * family.size + code] = True
            rows.append(row)
            scores.append(sum(flat[row].tolist()))
            labels.append(own)
        use.append(np.array(rows).reshape(len(rows), starts[-1]))
        score.append(np.array(scores, float))
        outputs.append(labels)

    def assemble(choice: Sequence[int]) -> np.ndarray:
        picked = [own[number] for own, number in zip(outputs, choice, strict=True)]
        return np.array([label for one in picked for kind in one for label in kind], np.int32).reshape(-1)

    return Enumeration(starts[-1], use, score, assemble, first)


@dataclass(frozen=True)
class GraphCase:
    """A drawn batch of graphs; ``arguments`` has the number of the first."""

    parts: GraphParts
    flat: np.ndarray
    arguments: dict[str, Any]

    def structure(self) -> Graph:
        return Graph(self.parts, self.flat, self.arguments["first"])

    def listed(self) -> Enumeration:
        return listed(self.parts, self.flat, self.arguments["first"])


@st.composite
def graph_cases(
    draw: st.DrawFn, palette: list[float], *, counts: list[int], tied: bool, feasible: bool, sizes: tuple[int, int]
) -> GraphCase:
    ties = draw(st.sampled_from([["arguments"], ["both ways"], ["arguments", "both ways"]])) if tied else []
    parts = graph_of(counts, sizes, ties)
    flat = np.array(draw(st.lists(st.sampled_from(palette), min_size=parts.n_parts, max_size=parts.n_parts)), float)
    if feasible:
        planted = [[draw(st.integers(0, v.size - 1)) for _ in range(int(v.offsets[-1]))] for v in parts.variables]
        used = parts.of(parts.in_slots(planted))
        flat[used] = np.where(flat[used] == -math.inf, 0.0, flat[used])
    return GraphCase(parts, flat, {"first": 0})
