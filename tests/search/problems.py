"""Small random decoding problems, and the answer by trying every output.

Scores come from a small palette (so that outputs tie) with some −inf, rows name node and edge parts of one instance
with small coefficients, and strengths of all kinds are mixed. The twin evaluates rows and prices by itself.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from trellis.constraints import Groups, Kind, Norm, Rows
from trellis.structures import Chain
from trellis.structures.parts import ChainParts

LINEAR = (
    (Kind.HARD, Norm.LINF),
    (Kind.PENALTY, Norm.L1),
    (Kind.PENALTY, Norm.LINF),
    (Kind.SLACK, Norm.L1),
    (Kind.SLACK, Norm.LINF),
)
CURVED = ((Kind.SQUARED, Norm.L2), (Kind.PENALTY, Norm.L2), (Kind.SLACK, Norm.L2))


@dataclass(frozen=True)
class Problem:
    scores: Chain
    rows: Rows

    def best(self) -> list[float]:
        """Largest value of each instance by trying all, −inf where nothing is possible."""
        return [max((v for _, v in self.outputs(i)), default=-math.inf) for i in range(len(self.scores))]

    def outputs(self, instance: int) -> list[tuple[tuple[int, ...], float]]:
        """All outputs of an instance with their values."""
        low, high = (int(x) for x in self.scores.offsets[instance : instance + 2])
        every = itertools.product(range(self.scores.n_labels), repeat=high - low)
        return [(y, self.value(instance, y)) for y in every]

    def value(self, instance: int, y: tuple[int, ...]) -> float:
        scores, rows = self.scores, self.rows
        low, k, t = int(scores.offsets[instance]), scores.n_labels, scores.tables
        used: dict[int, float] = {}
        for s, b in enumerate(y):
            node = t.node[scores.node_index[low + s], b]
            used[(low + s) * k + b] = node + (t.start[b] if s == 0 else 0.0) + (t.stop[b] if s == len(y) - 1 else 0.0)
            if s > 0:
                a = y[s - 1]
                used[scores.n_slots * k + ((low + s) * k + a) * k + b] = t.edge[scores.edge_index[low + s], a, b]
        if any(int(p) in used for p in rows.forbidden):
            return -math.inf
        total = sum(used.values())
        excess: dict[int, list[float]] = {}
        for r in np.flatnonzero(rows.instance == instance):
            entries = range(int(rows.start[r]), int(rows.start[r + 1]))
            over = sum(rows.coefficient[e] for e in entries if int(rows.part[e]) in used) - rows.bound[r]
            excess.setdefault(int(rows.group[r]), []).append(abs(over) if rows.equality[r] else max(over, 0.0))
        for g, e in excess.items():
            total -= price(Kind(rows.groups.kind[g]), Norm(rows.groups.norm[g]), float(rows.groups.amount[g]), e)
        return total


def price(kind: Kind, norm: Norm, amount: float, excess: list[float]) -> float:
    size = {Norm.L1: sum(excess), Norm.L2: math.hypot(*excess), Norm.LINF: max(excess)}[norm]
    if kind == Kind.SQUARED:
        return amount / 2 * sum(e * e for e in excess)
    if kind == Kind.PENALTY:
        return amount * size
    return 0.0 if size <= amount + 1e-9 * (1 + amount) else math.inf


def rows_over(parts: ChainParts, groups: list[dict[str, Any]], forbidden: list[int]) -> Rows:
    """Rows from groups {instance, kind, norm, amount, rows: [(entries {part: coefficient}, bound, equality)]}."""
    flat = [(g, group["instance"], *row) for g, group in enumerate(groups) for row in group["rows"]]
    order = sorted(range(len(flat)), key=lambda i: flat[i][1])
    flat = [flat[i] for i in order]
    part = [p for row in flat for p in sorted(row[2])]
    return Rows(
        parts=parts,
        names=tuple(f"c{g}" for g in range(max(len(groups), 1))),
        start=np.concatenate(([0], np.cumsum([len(row[2]) for row in flat]))).astype(np.int64),
        part=np.array(part, dtype=np.int64),
        coefficient=np.array([row[2][p] for row in flat for p in sorted(row[2])], dtype=np.float64),
        bound=np.array([row[3] for row in flat], dtype=np.float64),
        equality=np.array([row[4] for row in flat], dtype=np.bool_),
        instance=np.array([row[1] for row in flat], dtype=np.int64),
        group=np.array([row[0] for row in flat], dtype=np.int64),
        constraint=np.array([row[0] for row in flat], dtype=np.int64),
        row_number=np.arange(len(flat)),
        groups=Groups(
            np.array([g["kind"] for g in groups], np.int8),
            np.array([g["norm"] for g in groups], np.int8),
            np.array([g["amount"] for g in groups], np.float64),
        ),
        forbidden=np.array(sorted(set(forbidden)), dtype=np.int64),
        forbidden_by=np.zeros(len(set(forbidden)), dtype=np.int64),
    )


@st.composite
def problems(
    draw: st.DrawFn, *, kinds: Any = LINEAR + CURVED, most_groups: int = 3, strict: bool = True, whole: bool = False
) -> Problem:
    """A batch of one to three instances; without ``strict`` no kind that can make an instance infeasible."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    k = draw(st.integers(1, 3))
    lengths = draw(st.lists(st.integers(0, 5 if k < 3 else 4), min_size=1, max_size=3))
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    n = int(offsets[-1])
    ties = draw(st.booleans())

    def table(*shape: int) -> np.ndarray:
        scores = rng.integers(-3, 4, shape).astype(float) if ties or whole else rng.normal(size=shape) * 2
        if strict:
            scores[rng.random(shape) < draw(st.sampled_from([0.0, 0.0, 0.0, 0.1]))] = -np.inf
        return scores

    m = draw(st.integers(1, 2))
    scores = Chain(
        offsets, table(n, k), table(m, k, k), start=table(k), stop=table(k), edge_index=rng.integers(0, m, n)
    )  # fmt: skip
    if not strict:
        kinds = tuple(pair for pair in kinds if pair[0] in (Kind.PENALTY, Kind.SQUARED))
    groups = []
    for instance, length in enumerate(lengths):
        # strict rows mostly hold for one output at least, so that most problems have an answer
        meets = rng.integers(0, k, length)
        for _ in range(draw(st.integers(0, most_groups))):
            kind, norm = draw(st.sampled_from(kinds))
            amount = {Kind.HARD: 0.0}.get(kind, float(draw(st.sampled_from([0.5, 1.0, 2.0, 5.0]))))
            size = draw(st.integers(1, 3))
            strictly = kind in (Kind.HARD, Kind.SLACK) and draw(st.sampled_from([True, True, True, False]))
            groups.append(
                {
                    "instance": instance, "kind": kind, "norm": norm, "amount": amount,
                    "rows": [_row(draw, rng, int(offsets[instance]), length, n, k, meets if strictly else None)
                        for _ in range(size)],
                }
            )  # fmt: skip
    forbidden = [int(p) for p in rng.integers(0, n * k, 1)] if n and strict and draw(st.booleans()) else []
    return Problem(scores, rows_over(ChainParts(offsets, k), groups, forbidden))


def _row(draw: st.DrawFn, rng: np.random.Generator, low: int, length: int, n: int, k: int, meets: Any) -> Any:
    """A row that the labels ``meets`` satisfy, if they are given."""
    shape = draw(st.sampled_from(["count", "nodes", "edges", "both", "slot"]))
    nodes = [(low + t) * k + b for t in range(length) for b in range(k)]
    edges = [n * k + ((low + t) * k + a) * k + b for t in range(1, length) for a in range(k) for b in range(k)]
    if shape == "count":
        label, sign = int(rng.integers(k)), float(rng.choice([-1, 1]))
        entries = {p: sign for p in nodes if p % k == label}
    elif shape == "slot":
        at = int(rng.integers(length)) if length else 0
        entries = {p: float(rng.integers(-1, 3)) for p in nodes if p // k == low + at}
    else:
        pool = {"nodes": nodes, "edges": edges, "both": nodes + edges}[shape]
        chosen = [p for p in pool if rng.random() < 0.5]
        entries = {p: float(rng.choice([-2, -1, 1, 1, 2, 0.5])) for p in chosen}
    entries = {p: c for p, c in entries.items() if c != 0}
    equality = draw(st.sampled_from([False, False, True]))
    bound = float(draw(st.sampled_from([-2, -1, 0, 0, 1, 1, 2])))
    if meets is not None:
        used = {(low + t) * k + int(b) for t, b in enumerate(meets)}
        used |= {n * k + ((low + t) * k + int(meets[t - 1])) * k + int(meets[t]) for t in range(1, length)}
        value = sum(c for p, c in entries.items() if p in used)
        bound = value if equality else max(value, bound)
    return entries, bound, equality
