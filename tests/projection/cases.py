"""Small batches of every kind of structure, and rows over their parts, drawn so that a feasible q is known."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from align.twin import SPAN, Twin
from hypothesis import strategies as st
from structures.segment_twin import SegmentCase
from structures.subsets import Subsets
from structures.tree_twin import TreeCase

from trellis.constraints.implicit import Forbidden, Sparsity
from trellis.constraints.rows import COUPLING, Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.structures import Categorical, CategoricalParts, Chain, ChainParts, Joint, JointParts

HARD = (Kind.HARD, Norm.LINF)
STRENGTHS = [
    HARD,
    *((kind, norm) for kind in (Kind.SLACK, Kind.PENALTY) for norm in Norm),
    (Kind.SQUARED, Norm.L2),
    (Kind.KL, Norm.L1),
]


def name_of(strength: tuple[Kind, Norm]) -> str:
    kind, norm = strength
    return (
        kind.name.lower() if kind in (Kind.HARD, Kind.SQUARED, Kind.KL) else f"{kind.name.lower()}-{norm.name.lower()}"
    )


@dataclass(frozen=True)
class Batch:
    """Arrays of a batch; a categorical is chains of one slot whose edges nobody reads.

    edge : (m, K, K);  edge_index : (n_slots,);  weight : (n_instances,)
    """

    offsets: np.ndarray
    node: np.ndarray
    edge: np.ndarray
    edge_index: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    weight: np.ndarray
    categorical: bool

    @property
    def n_parts(self) -> int:
        return int(self.parts.n_parts)

    @property
    def n_instances(self) -> int:
        return len(self.offsets) - 1

    @property
    def parts(self) -> CategoricalParts | ChainParts:
        n_slots, k = self.node.shape
        return CategoricalParts(n_slots, k) if self.categorical else ChainParts(self.offsets, k)

    def structure(self, first: int = 0, last: int | None = None) -> Categorical | Chain:
        """Instances first..last−1 as scores."""
        last = self.n_instances if last is None else last
        low, high = int(self.offsets[first]), int(self.offsets[last])
        if self.categorical:
            return Categorical(self.node[low:high], first=first)
        return Chain(
            self.offsets[first : last + 1] - low, self.node[low:high], self.edge, start=self.start, stop=self.stop,
            edge_index=self.edge_index[low:high], first=first,
        )  # fmt: skip

    def listing(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Every output of instance i with a finite score: parts used (n_outputs, n_parts) 0/1, and scores."""
        n_slots, k = self.node.shape
        low, high = int(self.offsets[i]), int(self.offsets[i + 1])
        uses, scores = [], []
        for y in itertools.product(range(k), repeat=high - low):
            use, score = np.zeros(self.n_parts), 0.0
            for t, label in enumerate(y):
                use[(low + t) * k + label] = 1.0
                score += self.node[low + t, label]
                if t and not self.categorical:
                    use[n_slots * k + ((low + t) * k + y[t - 1]) * k + label] = 1.0
                    score += self.edge[self.edge_index[low + t], y[t - 1], label]
            if y and not self.categorical:
                score += self.start[y[0]] + self.stop[y[-1]]
            if score > -np.inf:
                uses.append(use)
                scores.append(score)
        return np.array(uses).reshape(len(uses), self.n_parts), np.array(scores)

    def weighing(self, weight: np.ndarray) -> Batch:
        return replace(self, weight=weight)

    def runs(self) -> tuple[np.ndarray, int]:
        """First parts of the runs that an l1/linf block can be about, and how long they are."""
        n_slots, k = self.node.shape
        return np.arange(n_slots, dtype=np.int64) * k, k

    def take(self, numbers: list[int]) -> Batch:
        """The instances with these numbers, repeats allowed, each with weight 1."""
        slots = np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in numbers]).astype(np.int64)
        lengths = np.diff(self.offsets)[numbers]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return replace(
            self,
            offsets=offsets,
            node=self.node[slots],
            edge_index=self.edge_index[slots],
            weight=np.ones(len(numbers)),
        )


@dataclass(frozen=True)
class Row:
    """One row as (part, coefficient) pairs; ``instance`` COUPLING or a number."""

    entries: dict[int, float]
    bound: float
    equality: bool
    instance: int
    group: int


def integers(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), dtype=np.int64)


def compile_rows(
    batch: Any,
    rows: list[Row],
    strengths: list[tuple[Kind, Norm, float]],
    *,
    forbidden: Sequence[int] = (),
    sparsity: tuple[Sparsity, ...] = (),
) -> Rows:
    """Rows in canonical order; group g has strength ``strengths[g]`` and name "g<g>"."""
    rows = sorted(rows, key=lambda r: (r.instance == COUPLING, r.instance, r.group))
    parts = [sorted(r.entries) for r in rows]
    return Rows(
        parts=batch.parts,
        names=tuple(f"g{g}" for g in range(len(strengths))) + ("forbidden",),
        start=np.concatenate([[0], np.cumsum([len(p) for p in parts])]).astype(np.int64),
        part=integers(p for row in parts for p in row),
        coefficient=np.array([r.entries[p] for r, row in zip(rows, parts, strict=True) for p in row], dtype=np.float64),
        bound=np.array([r.bound for r in rows], dtype=np.float64),
        equality=np.array([r.equality for r in rows], dtype=np.bool_),
        instance=integers(r.instance for r in rows),
        group=integers(r.group for r in rows),
        constraint=integers(r.group for r in rows),
        row_number=np.arange(len(rows), dtype=np.int64),
        groups=Groups(
            np.array([s[0] for s in strengths], dtype=np.int8),
            np.array([s[1] for s in strengths], dtype=np.int8),
            np.array([s[2] for s in strengths], dtype=np.float64),
        ),
        forbidden=Forbidden.of(integers(sorted(forbidden)), np.full(len(forbidden), len(strengths), dtype=np.int64)),
        sparsity=sparsity,
    )


def random_batch(
    rng: np.random.Generator,
    *,
    categorical: bool,
    lengths: tuple[int, ...] = (3, 2, 0, 1),
    k: int = 3,
    spread: float = 1.0,
) -> Batch:
    lengths = (1,) * len(lengths) if categorical else lengths
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n_slots, n_matrices = int(offsets[-1]), 2
    scale = 0.0 if categorical else spread
    return Batch(
        offsets=offsets,
        node=spread * rng.normal(size=(n_slots, k)),
        edge=scale * rng.normal(size=(n_matrices, k, k)),
        edge_index=rng.integers(n_matrices, size=n_slots),
        start=scale * rng.normal(size=k),
        stop=scale * rng.normal(size=k),
        weight=np.ones(len(lengths)),
        categorical=categorical,
    )


@dataclass(frozen=True)
class Pair:
    """Two batches over the same instances: a joint structure."""

    first: Batch
    second: Batch

    @property
    def weight(self) -> np.ndarray:
        return self.first.weight

    @property
    def n_instances(self) -> int:
        return self.first.n_instances

    @property
    def n_parts(self) -> int:
        return self.first.n_parts + self.second.n_parts

    @property
    def parts(self) -> JointParts:
        return JointParts((self.first.parts, self.second.parts))

    def structure(self, first: int = 0, last: int | None = None) -> Joint:
        return Joint(self.first.structure(first, last), self.second.structure(first, last))

    def weighing(self, weight: np.ndarray) -> Pair:
        return replace(self, first=self.first.weighing(weight))

    def runs(self) -> tuple[np.ndarray, int]:
        return self.first.runs()

    def listing(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        (one, score), (other, more) = self.first.listing(i), self.second.listing(i)
        both = [np.concatenate((a, b)) for a in one for b in other]
        return np.array(both).reshape(-1, self.n_parts), np.add.outer(score, more).reshape(-1)


@dataclass(frozen=True)
class Bags:
    """Unordered subsets of a few elements each (tests/structures/subsets.py): a kind that src has never heard of."""

    scores: Any
    weight: np.ndarray

    @property
    def n_instances(self) -> int:
        return len(self.scores)

    @property
    def n_parts(self) -> int:
        return int(self.scores.parts.n_parts)

    @property
    def parts(self) -> Any:
        return self.scores.parts

    def structure(self, first: int = 0, last: int | None = None) -> Any:
        return self.scores.instances(first, self.n_instances if last is None else last)

    def weighing(self, weight: np.ndarray) -> Bags:
        return replace(self, weight=weight)

    def runs(self) -> tuple[np.ndarray, int]:
        return np.arange(self.n_parts, dtype=np.int64), 1

    def listing(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        offsets, limit = self.scores.offsets, int(self.scores.most[i])
        own = range(int(offsets[i]), int(offsets[i + 1]))
        uses, scores = [], []
        for size in range(min(len(own), limit) + 1):
            for chosen in itertools.combinations(own, size):
                use = np.zeros(self.n_parts)
                use[list(chosen)] = 1.0
                score = float(sum(self.scores.value[list(chosen)]))
                if score > -np.inf:
                    uses.append(use)
                    scores.append(score)
        return np.array(uses).reshape(len(uses), self.n_parts), np.array(scores)


@dataclass(frozen=True)
class Links:
    """Word alignments in one direction, by an HMM (tests/align/twin.py)."""

    twin: Twin
    weight: np.ndarray

    @property
    def n_instances(self) -> int:
        return len(self.twin)

    @property
    def n_parts(self) -> int:
        return len(self.twin.link) + len(self.twin.null)

    @property
    def parts(self) -> Any:
        return self.twin.structure().parts

    def structure(self, first: int = 0, last: int | None = None) -> Any:
        return self.twin.structure().instances(first, self.n_instances if last is None else last)

    def weighing(self, weight: np.ndarray) -> Links:
        return replace(self, weight=weight)

    def runs(self) -> tuple[np.ndarray, int]:
        return np.arange(len(self.twin.link), dtype=np.int64), 1

    def listing(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        outputs = self.twin.outputs(i)
        use = np.zeros((len(outputs), self.n_parts))
        for row, y in enumerate(outputs):
            use[row, self.twin.parts_of(i, y)] = 1.0
        return use, self.twin.scores(i)


@dataclass(frozen=True)
class Twinned:
    """Dependency trees, projective with valence or spanning, or segmentations (tests/structures/*_twin.py)."""

    case: TreeCase | SegmentCase
    weight: np.ndarray

    @property
    def n_instances(self) -> int:
        return len(self.case.lengths)

    @property
    def n_parts(self) -> int:
        return int(self.parts.n_parts)

    @property
    def parts(self) -> Any:
        return self.case.structure().parts

    def structure(self, first: int = 0, last: int | None = None) -> Any:
        return self.case.structure().instances(first, self.n_instances if last is None else last)

    def weighing(self, weight: np.ndarray) -> Twinned:
        return replace(self, weight=weight)

    def runs(self) -> tuple[np.ndarray, int]:
        return np.arange(self.n_parts, dtype=np.int64), 1

    def listing(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        listed = self.case.listed()
        return listed.use[i].astype(np.float64), listed.score[i]


KINDS = ("categorical", "chain", "joint", "subsets", "alignment", "tree", "spanning", "segments")
EachKind = pytest.mark.parametrize("kind", KINDS)


def random_case(
    rng: np.random.Generator, kind: str, *, lengths: tuple[int, ...] = (3, 2, 0, 1), k: int = 3, spread: float = 1.0
) -> Any:
    """A batch of the kind; of a joint the second member is smaller."""
    if kind == "joint":
        short = tuple(min(n, 2) for n in lengths)
        one = random_batch(rng, categorical=False, lengths=short, k=2, spread=spread)
        return Pair(one, random_batch(rng, categorical=False, lengths=(1,) * len(lengths), k=k, spread=spread))
    if kind == "alignment":
        shapes = [(min(n, 2), min(n, 3)) for n in lengths]
        n_source, n_target = [list(side) for side in zip(*shapes, strict=True)]
        n_links = sum(a * b for a, b in shapes)
        twin = Twin(
            n_source, n_target, spread * rng.normal(size=n_links), spread * rng.normal(size=sum(n_target)),
            rng.random(2 * SPAN + 1) + 0.1, rng.random(SPAN + 1) + 0.1,
        )  # fmt: skip
        return Links(twin, np.ones(len(lengths)))
    if kind in ("tree", "spanning"):
        n_arcs = sum(n * n for n in lengths)
        case = TreeCase(lengths, kind == "tree", {"arc": spread * rng.normal(size=n_arcs)})
        if kind == "tree":
            case.arguments["nearest"] = spread * rng.normal(size=n_arcs)
        return Twinned(case, np.ones(len(lengths)))
    if kind == "segments":
        n, k, longest = sum(lengths), 2, 2
        shapes = {"node": (n, k), "edge": (k, k), "length": (longest, k), "again": (k,), "begin": (n, k), "end": (n, k)}
        arguments = {name: spread * rng.normal(size=shape) for name, shape in shapes.items()}
        return Twinned(SegmentCase(lengths, arguments), np.ones(len(lengths)))
    if kind == "subsets":
        offsets = np.concatenate([[0], np.cumsum([n + 1 for n in lengths])]).astype(np.int64)
        return Bags(Subsets(offsets, spread * rng.normal(size=offsets[-1]), most=2), np.ones(len(lengths)))
    return random_batch(rng, categorical=kind == "categorical", lengths=lengths, k=k, spread=spread)


def parts_of_instance(batch: Any, i: int) -> list[int]:
    """Parts that some output of instance i uses."""
    return np.flatnonzero(batch.listing(i)[0].any(axis=0)).tolist()


@dataclass(frozen=True)
class Problem:
    """A batch, rows over it, γ, and a q (of each instance, over its enumerated outputs) known to be feasible."""

    batch: Any
    rows: Rows
    gamma: float
    reference: list[np.ndarray]


def build_problem(
    rng: np.random.Generator,
    batch: Any,
    gamma: float,
    groups: list[tuple[str, tuple[Kind, Norm], int]],
    *,
    equality: float = 0.3,
    forbid: bool = False,
    blocks: int = 0,
    scale: float = 1.0,
) -> Problem:
    """Rows with random entries, whose bounds a random q of full support meets with a margin.

    groups : (scope "local" or "coupling", strength, number of rows); ``equality`` is the share of equalities
    """
    from .oracle import enumerate_outputs

    filled = [i for i in range(batch.n_instances) if len(parts_of_instance(batch, i))]
    drafts: list[Row] = []
    strengths: list[tuple[Kind, Norm, float]] = []
    alone = [[(scope, one, 1)] * n if one[0] == Kind.KL else [(scope, one, n)] for scope, one, n in groups]
    for where, (kind, norm), n_rows in itertools.chain.from_iterable(alone):
        i = COUPLING if where == "coupling" else int(rng.choice(filled))
        own = parts_of_instance(batch, i) if i != COUPLING else [p for j in filled for p in parts_of_instance(batch, j)]
        for _ in range(n_rows):
            chosen = rng.choice(own, size=min(len(own), int(rng.integers(1, 7))), replace=False)
            signs = rng.choice([-1, 0.5, 1, 1, 2], len(chosen))
            signs = np.abs(signs) if kind == Kind.KL else signs
            entries = {int(p): scale * float(c) for p, c in zip(chosen, signs, strict=True)}
            equal = bool(rng.random() < equality) or kind == Kind.KL
            drafts.append(Row(entries, 0.0, equal, i, len(strengths)))
        amount = {Kind.HARD: 0.0, Kind.SLACK: rng.uniform(0.02, 0.2)}.get(kind, rng.uniform(0.2, 3.0))
        strengths.append((kind, norm, float(amount)))
    forbidden: list[int] = []
    if forbid:
        listed = [batch.listing(i)[0] for i in range(batch.n_instances)]
        planted = sum(use[rng.integers(len(use))] for use in listed)
        used = set(np.flatnonzero(planted).tolist())
        free = [p for j in filled for p in parts_of_instance(batch, j) if p not in used]
        forbidden = [int(p) for p in rng.choice(free, size=min(len(free), 2), replace=False)]
    sparsity = tuple(random_block(rng, batch, f"s{b}") for b in range(blocks))
    rows = compile_rows(batch, drafts, strengths, forbidden=forbidden, sparsity=sparsity)
    listing = enumerate_outputs(batch, rows)
    reference = [rng.dirichlet(np.full(len(o.score), 2.0)) for o in listing.outputs]
    bound = listing.excess(reference)  # the bounds are zero so far
    for members, _ in listing.groups():
        kind, norm, amount = listing.strength(members)
        equal = rows.equality[members]
        if kind == Kind.HARD:
            bound[members] += np.where(equal, 0.0, scale * rng.uniform(0.01, 0.1, len(members)))
        elif kind == Kind.KL:
            bound[members] *= rng.uniform(0.3, 3.0, len(members))
        else:
            # The reference misses the bounds: by half of what slack allows, by any amount where it only costs.
            missed = rng.uniform(0.1, 1.0, len(members)) * np.where(equal, rng.choice([-1.0, 1.0], len(members)), 1.0)
            size = np.linalg.norm(missed, {Norm.L1: 1, Norm.L2: 2, Norm.LINF: np.inf}[norm])
            bound[members] -= missed * (0.5 * amount / size if kind == Kind.SLACK else 0.5 * scale)
    return Problem(batch, replace(rows, bound=bound), gamma, reference)


def random_block(rng: np.random.Generator, batch: Any, name: str) -> Sparsity:
    """An l1/linf block over most runs of parts with two keys."""
    first, width = batch.runs()
    chosen = np.sort(rng.choice(first, size=max(1, len(first) - 1), replace=False)).astype(np.int64)
    return Sparsity(name, chosen, width, rng.integers(2, size=len(chosen)), 2, float(rng.uniform(0.3, 2.0)))


@st.composite
def problems(draw: st.DrawFn, *, weighted: bool = True, kinds: tuple[str, ...] = KINDS, **options: Any) -> Problem:
    """Structure, sizes, scopes, strengths and shape of rows are drawn; scores and coefficients from a drawn seed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(kinds))
    k = draw(st.integers(2, 4 if kind == "categorical" else 3))
    lengths = tuple(draw(st.lists(st.integers(0, 4 if k == 2 else 3), min_size=1, max_size=3).filter(any)))
    batch = random_case(rng, kind, lengths=lengths, k=k, spread=draw(st.sampled_from([0.5, 2.0])))
    if weighted and draw(st.booleans()):
        batch = batch.weighing(rng.choice([0.5, 1.0, 3.0], size=batch.n_instances))
    group = st.tuples(st.sampled_from(["local", "coupling"]), st.sampled_from(STRENGTHS), st.integers(1, 3))
    return build_problem(
        rng, batch, draw(st.sampled_from([0.3, 1.0, 2.0])), draw(st.lists(group, min_size=1, max_size=3)),
        equality=draw(st.sampled_from([0.0, 0.3, 1.0])), forbid=draw(st.booleans()), **options,
    )  # fmt: skip
