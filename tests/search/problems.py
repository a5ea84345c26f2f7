"""Small random decoding problems over structures of several kinds, and the answer by trying every output.

Scores come from a small palette (so that outputs tie) with some −inf, rows name parts of one instance with small
coefficients, and strengths of all kinds are mixed. The twin lists outputs, their parts, rows and prices by itself.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from structures.subsets import Subsets

from trellis.constraints.implicit import Forbidden
from trellis.constraints.rows import Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.structures import Alignment, Categorical, Chain, Joint, Parts, Structure

from .permutations import Permutations

LINEAR = (
    (Kind.HARD, Norm.LINF),
    (Kind.PENALTY, Norm.L1),
    (Kind.PENALTY, Norm.LINF),
    (Kind.SLACK, Norm.L1),
    (Kind.SLACK, Norm.LINF),
)
CURVED = ((Kind.SQUARED, Norm.L2), (Kind.PENALTY, Norm.L2), (Kind.SLACK, Norm.L2))
KINDS = (
    "chain", "categorical", "chain+chain", "chain+categorical", "alignment", "alignment+alignment", "subsets",
    "permutations", "permutations+chain",
)  # fmt: skip

Key = tuple[Any, ...]
"""An output of one instance as something to compare."""


def key_of(output: Any) -> Key:
    """Of an output of a batch of one instance."""
    if isinstance(output, tuple):
        return tuple(key_of(one) for one in output)
    if isinstance(output, list):
        return tuple(output)
    return tuple(np.asarray(output).tolist())


def listing(scores: Structure, i: int) -> list[tuple[Key, dict[int, float]]]:
    """All outputs of instance i, each with the parts it uses and their scores; those of ends are part of a label's."""
    if isinstance(scores, Joint):
        starts = np.cumsum([0, *(member.parts.n_parts for member in scores.members)]).tolist()
        joined = []
        for chosen in itertools.product(*(listing(member, i) for member in scores.members)):
            used = {p + start: s for (_, one), start in zip(chosen, starts, strict=False) for p, s in one.items()}
            joined.append((tuple(key for key, _ in chosen), used))
        return joined
    if isinstance(scores, Categorical):
        k = scores.n_labels
        return [((b,), {i * k + b: float(scores.node[i, b])}) for b in range(k)]
    if isinstance(scores, Subsets):
        elements = range(int(scores.offsets[i]), int(scores.offsets[i + 1]))
        return [
            (y, {e: float(scores.value[e]) for e, chosen in zip(elements, y, strict=True) if chosen})
            for y in itertools.product((False, True), repeat=len(elements))
            if scores.least[i] <= sum(y) <= scores.most[i]
        ]
    if isinstance(scores, Alignment):
        return _alignments(scores, i)
    if isinstance(scores, Permutations):
        size = scores.table.shape[1]
        return [
            ((y,), {(i * size + p) * size + x: float(scores.table[i, p, x]) for p, x in enumerate(y)})
            for y in itertools.permutations(range(size))
        ]
    assert isinstance(scores, Chain)
    low, high = (int(x) for x in scores.offsets[i : i + 2])
    return [(y, _used(scores, low, y)) for y in itertools.product(range(scores.n_labels), repeat=high - low)]


def _alignments(scores: Alignment, i: int) -> list[tuple[Key, dict[int, float]]]:
    """Of words alone: every observed word has a place in the other sentence, or none."""
    parts, (link, null) = scores.parts, scores.log_scores()
    sizes = np.diff(parts.source_offsets), np.diff(parts.target_offsets)
    first = int((sizes[0][:i] * sizes[1][:i]).sum())
    n_source, n_target = int(sizes[0][i]), int(sizes[1][i])
    n, n_places = (n_target, n_source) if parts.forward else (n_source, n_target)
    before = int((sizes[1] if parts.forward else sizes[0])[:i].sum())
    listed = []
    for y in itertools.product(range(-1, n_places), repeat=n):
        used = {}
        for t, place in enumerate(y):
            if place < 0:
                used[len(link) + before + t] = float(null[before + t])
            else:
                part = first + (place * n_target + t if parts.forward else t * n_target + place)
                used[part] = float(link[part])
        listed.append((y, used))
    return listed


def _used(scores: Chain, low: int, y: tuple[int, ...]) -> dict[int, float]:
    k, t, used = scores.n_labels, scores.tables, {}
    for s, b in enumerate(y):
        node = t.node[scores.node_index[low + s], b]
        used[(low + s) * k + b] = node + (t.start[b] if s == 0 else 0.0) + (t.stop[b] if s == len(y) - 1 else 0.0)
        if s > 0:
            a = y[s - 1]
            used[scores.n_slots * k + ((low + s) * k + a) * k + b] = t.edge[scores.edge_index[low + s], a, b]
    return used


@dataclass(frozen=True)
class Problem:
    scores: Structure
    rows: Rows

    def best(self) -> list[float]:
        """Largest value of each instance by trying all, −inf where nothing is possible."""
        return [max(self.outputs(i).values(), default=-math.inf) for i in range(len(self.scores))]

    def outputs(self, instance: int) -> dict[Key, float]:
        """All outputs of an instance with their values."""
        return {key: self._value(instance, used) for key, used in listing(self.scores, instance)}

    def values(self, outputs: Any) -> list[float]:
        """The value of one output of every instance."""
        pieces = self.scores.parts.split_outputs(outputs)
        return [self.outputs(i)[key_of(piece)] for i, piece in enumerate(pieces)]

    def _value(self, instance: int, used: dict[int, float]) -> float:
        rows = self.rows
        if any(int(p) in used for p in rows.forbidden.listed()[0]):
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


def rows_over(parts: Parts, groups: list[dict[str, Any]], forbidden: list[int]) -> Rows:
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
        forbidden=Forbidden.of(np.array(sorted(set(forbidden)), np.int64), np.zeros(len(set(forbidden)), np.int64)),
    )


@st.composite
def problems(
    draw: st.DrawFn,
    kind: str = "chain",
    *,
    kinds: Any = LINEAR + CURVED,
    most_groups: int = 3,
    strict: bool = True,
) -> Problem:
    """A batch of one to three instances; without ``strict`` no kind that can make an instance infeasible."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = draw(structures(kind, rng, holes=strict))
    if not strict:
        kinds = tuple(pair for pair in kinds if pair[0] in (Kind.PENALTY, Kind.SQUARED))
    groups = []
    for instance in range(len(scores)):
        outputs = [used for _, used in listing(scores, instance)]
        # strict rows mostly hold for one output at least, so that most problems have an answer
        meets = outputs[int(rng.integers(len(outputs)))]
        for _ in range(draw(st.integers(0, most_groups))):
            strength, norm = draw(st.sampled_from(kinds))
            amount = {Kind.HARD: 0.0}.get(strength, float(draw(st.sampled_from([0.5, 1.0, 2.0, 5.0]))))
            strictly = strength in (Kind.HARD, Kind.SLACK) and draw(st.sampled_from([True, True, True, False]))
            made = [
                _row(draw, rng, pools(scores, instance), meets if strictly else None)
                for _ in range(draw(st.integers(1, 3)))
            ]
            groups.append({"instance": instance, "kind": strength, "norm": norm, "amount": amount, "rows": made})
    every = sorted({p for i in range(len(scores)) for _, used in listing(scores, i) for p in used})
    forbidden = [int(rng.choice(every))] if every and strict and draw(st.booleans()) else []
    return Problem(scores, rows_over(scores.parts, groups, forbidden))


@st.composite
def structures(draw: st.DrawFn, kind: str, rng: np.random.Generator, *, holes: bool) -> Structure:
    """Scores of one to three instances; with ``holes`` some are −inf."""
    ties = draw(st.booleans())
    share = draw(st.sampled_from([0.0, 0.0, 0.0, 0.1])) if holes else 0.0
    n = draw(st.integers(1, 3))

    def table(*shape: int) -> np.ndarray:
        scores = rng.integers(-3, 4, shape).astype(float) if ties else rng.normal(size=shape) * 2
        scores[rng.random(shape) < share] = -np.inf
        return scores

    def chain(longest: int) -> Chain:
        k, m = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        lengths = [draw(st.integers(0, longest if k < 3 else longest - 1)) for _ in range(n)]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        slots = int(offsets[-1])
        index = rng.integers(0, m, slots)
        return Chain(offsets, table(slots, k), table(m, k, k), start=table(k), stop=table(k), edge_index=index)

    def subsets() -> Subsets:
        sizes = [draw(st.integers(0, 4)) for _ in range(n)]
        least = [draw(st.integers(0, size)) for size in sizes]
        most = [draw(st.integers(low, size)) for low, size in zip(least, sizes, strict=True)]
        return Subsets(np.concatenate(([0], np.cumsum(sizes))), table(sum(sizes)), least=least, most=most)

    def alignment() -> Alignment:
        source, target = ([draw(st.integers(0, 2)) for _ in range(n)] for _ in range(2))
        forward = draw(st.booleans())
        n_links = sum(a * b for a, b in zip(source, target, strict=True))
        return Alignment(source, target, table(n_links), table(sum(target if forward else source)), forward=forward)

    makers = {
        "chain": lambda: chain(5 if kind == "chain" else 3),
        "categorical": lambda: Categorical(table(n, draw(st.integers(1, 4)))),
        "alignment": alignment,
        "subsets": subsets,
        "permutations": lambda: Permutations(table(n, *[draw(st.integers(1, 4 if kind == "permutations" else 3))] * 2)),
    }
    members = [makers[name]() for name in kind.split("+")]
    return members[0] if len(members) == 1 else Joint(*members)


def pools(scores: Structure, i: int) -> list[list[int]]:
    """Sets of parts of instance i that rows are made of: those of one place, of one label, of one member, all."""
    every = sorted({p for _, used in listing(scores, i) for p in used})
    if isinstance(scores, Joint):
        starts = np.cumsum([0, *(member.parts.n_parts for member in scores.members)]).tolist()
        of_members = [
            [p + start for p in pool]
            for member, start in zip(scores.members, starts, strict=False)
            for pool in pools(member, i)
        ]
        return [*of_members, every, every]
    if isinstance(scores, Permutations):
        size = scores.table.shape[1]
        return [every, [p for p in every if p % size == 0], [p for p in every if p // size % size == 0]]
    if isinstance(scores, Subsets | Alignment):
        return [every, every[:2], every[::2]]
    k = scores.n_labels  # type: ignore[attr-defined]
    nodes = [p for p in every if p < scores.parts.n_slots * k]  # type: ignore[attr-defined]
    edges = [p for p in every if p not in set(nodes)]
    slots = sorted({p // k for p in nodes})
    return [
        every, nodes, edges,
        *([p for p in nodes if p % k == b] for b in range(k)),
        *([p for p in nodes if p // k == slot] for slot in slots[:2]),
        *([p for p in nodes if p // k in (slot, slot + 1)] for slot in slots[:1]),
    ]  # fmt: skip


def _row(draw: st.DrawFn, rng: np.random.Generator, pools: list[list[int]], meets: dict[int, float] | None) -> Any:
    """A row that the output with the parts ``meets`` satisfies, if it is given."""
    pool, shape = draw(st.sampled_from(pools)), draw(st.sampled_from(["count", "all", "some"]))
    if shape == "count":
        sign = float(rng.choice([-1, 1]))
        entries = dict.fromkeys(pool, sign)
    elif shape == "all":
        entries = {p: float(rng.integers(-1, 3)) for p in pool}
    else:
        entries = {p: float(rng.choice([-2, -1, 1, 1, 2, 0.5])) for p in pool if rng.random() < 0.5}
    entries = {p: c for p, c in entries.items() if c != 0}
    equality = draw(st.sampled_from([False, False, True]))
    bound = float(draw(st.sampled_from([-2, -1, 0, 0, 1, 1, 2])))
    if meets is not None:
        value = sum(c for p, c in entries.items() if p in meets)
        bound = value if equality else max(value, bound)
    return entries, bound, equality
