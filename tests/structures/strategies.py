"""Hypothesis strategies: ragged chains and categoricals small enough to enumerate.

All scores of a batch are drawn from one small palette, so that values repeat and outputs tie often. A palette
mixes small integers, large magnitudes, -inf and, unless ``exact`` is asked for, ordinary floats. In an exact
batch every sum of scores is free of rounding, so that a tie is a tie in whatever order the parts are added.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from align.twin import Twin as AlignmentTwin
from align.twin import twins as alignment_twins
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trellis.structures import Alignment, Categorical, Chain, Joint

from .enumeration import Enumeration, of_alignments, of_labels, of_members, of_subsets
from .graph_twin import graph_cases
from .monotone_twin import monotone_cases
from .segment_twin import segment_cases
from .subsets import Subsets
from .tree_twin import tree_cases
from .twins import Twin, categorical_twin, chain_twin

MAX_LENGTH = 6
MAX_LABELS = 4
MAX_INSTANCES = 3

INTEGERS = [float(x) for x in range(-3, 4)]
LARGE = [-1000.0, -30.0, 30.0, 1000.0]


@dataclass(frozen=True)
class ChainCase:
    """A drawn chain: the constructor's arguments, and whether every sum of its scores is exact."""

    arguments: dict[str, Any]
    exact: bool

    def structure(self) -> Chain:
        return Chain(**self.arguments)

    def twin(self) -> Twin:
        return chain_twin(**self.arguments)

    def listed(self) -> Enumeration:
        return of_labels(self.twin(), edges=True)


@dataclass(frozen=True)
class CategoricalCase:
    """A drawn categorical; a single addition never rounds differently, so every draw is exact."""

    arguments: dict[str, Any]
    exact: bool = True

    def structure(self) -> Categorical:
        return Categorical(**self.arguments)

    def twin(self) -> Twin:
        return categorical_twin(**self.arguments)

    def listed(self) -> Enumeration:
        return of_labels(self.twin(), edges=False)


@st.composite
def palettes(draw: st.DrawFn, *, exact: bool) -> list[float]:
    """Scores that one batch may use; how often -inf stands in it is drawn too."""
    ordinary = st.sampled_from(INTEGERS) if exact else st.sampled_from(INTEGERS) | st.floats(-5.0, 5.0)
    palette = draw(st.lists(ordinary, min_size=1, max_size=6))
    palette += draw(st.lists(st.sampled_from(LARGE), max_size=2))
    return palette + [-math.inf] * draw(st.integers(0, 3))


def _scores(shape: tuple[int, ...], palette: list[float]) -> st.SearchStrategy[np.ndarray]:
    # Big arrays keep Hypothesis' sparse fill; small ones are drawn entry by entry.
    fill = st.nothing() if math.prod(shape) <= 80 else None
    return hnp.arrays(np.float64, shape, elements=st.sampled_from(palette), fill=fill)


@st.composite
def chains(
    draw: st.DrawFn,
    *,
    exact: bool | None = None,
    feasible: bool = True,
    lengths: list[int] | None = None,
    n_labels: int | None = None,
) -> ChainCase:
    """A ragged batch of chains, of these lengths and this number of labels where they are given.

    With ``feasible`` one drawn output an instance is made possible by lifting its -inf parts to zero; without
    it instances may or may not have a possible output, and in half the draws a row of nodes is forbidden whole.
    """
    exact = draw(st.booleans()) if exact is None else exact
    palette = draw(palettes(exact=exact))
    n_labels = draw(st.integers(1, MAX_LABELS)) if n_labels is None else n_labels
    lengths = draw(st.lists(st.integers(0, MAX_LENGTH), max_size=MAX_INSTANCES)) if lengths is None else lengths
    offsets = np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64))]).astype(np.int64)
    n_slots = int(offsets[-1])
    first_slots = offsets[:-1][np.diff(offsets) > 0]
    last_slots = offsets[1:][np.diff(offsets) > 0] - 1
    arguments: dict[str, Any] = {"offsets": offsets, "first": draw(st.sampled_from([0, 1, 7000]))}

    if draw(st.booleans()):
        n_rows = draw(st.integers(1, 4))
        arguments["node"] = draw(_scores((n_rows, n_labels), palette))
        arguments["node_index"] = draw(hnp.arrays(np.int64, n_slots, elements=st.integers(0, n_rows - 1)))
    else:
        arguments["node"] = draw(_scores((n_slots, n_labels), palette))

    kind = draw(st.sampled_from(["shared", "stacked", "per boundary"]))
    if kind == "shared":
        arguments["edge"] = draw(_scores((n_labels, n_labels), palette))
    else:
        n_matrices = draw(st.integers(1, 3)) if kind == "stacked" else n_slots
        arguments["edge"] = draw(_scores((n_matrices, n_labels, n_labels), palette))
        if kind == "stacked":
            index = draw(hnp.arrays(np.int64, n_slots, elements=st.integers(0, n_matrices - 1)))
        else:
            index = np.arange(n_slots, dtype=np.int64)
        # The entry at a first slot belongs to no boundary, whatever stands there.
        index[first_slots] = draw(st.sampled_from([0, -1, 999]))
        arguments["edge_index"] = index
    for name in ("start", "stop"):
        if draw(st.booleans()):
            arguments[name] = draw(_scores((n_labels,), palette))

    if feasible:
        planted = draw(hnp.arrays(np.int64, n_slots, elements=st.integers(0, n_labels - 1)))
        _lift(arguments, planted, first_slots, last_slots)
    elif n_slots and draw(st.booleans()):
        arguments["node"][draw(st.integers(0, len(arguments["node"]) - 1))] = -math.inf
    return ChainCase(arguments, exact)


def _lift(arguments: dict[str, Any], planted: np.ndarray, first_slots: np.ndarray, last_slots: np.ndarray) -> None:
    """Set the -inf parts of the planted output to zero, in place."""
    n_labels = arguments["node"].shape[1]
    rows = arguments.get("node_index", np.arange(len(planted)))
    stack = arguments["edge"].reshape(-1, n_labels, n_labels)
    matrices = arguments.get("edge_index", np.zeros(len(planted), dtype=np.int64))
    at = [(arguments["node"], (rows[t], planted[t])) for t in range(len(planted))]
    at += [(stack, (matrices[t], planted[t - 1], planted[t])) for t in range(len(planted)) if t not in set(first_slots)]
    at += [(arguments["start"], (planted[t],)) for t in first_slots if "start" in arguments]
    at += [(arguments["stop"], (planted[t],)) for t in last_slots if "stop" in arguments]
    for array, where in at:
        if array[where] == -math.inf:
            array[where] = 0.0


@st.composite
def categoricals(
    draw: st.DrawFn, *, feasible: bool = True, n_instances: int | None = None, n_labels: int | None = None
) -> CategoricalCase:
    """A batch of 0 to 5 categoricals of 1 to 6 labels; with ``feasible`` each has a possible label."""
    palette = draw(palettes(exact=False))
    n = draw(st.integers(0, 5)) if n_instances is None else n_instances
    n_labels = draw(st.integers(1, 6)) if n_labels is None else n_labels
    node = draw(_scores((n, n_labels), palette))
    if feasible:
        planted = draw(hnp.arrays(np.int64, n, elements=st.integers(0, n_labels - 1)))
        rows = np.arange(n)
        node[rows, planted] = np.where(node[rows, planted] == -math.inf, 0.0, node[rows, planted])
    elif n and draw(st.booleans()):
        node[draw(st.integers(0, n - 1))] = -math.inf
    return CategoricalCase({"node": node, "first": draw(st.sampled_from([0, 3, 7000]))})


def outputs(twin: Twin) -> st.SearchStrategy[np.ndarray]:
    """Any output of the batch, possible or not, (n_slots,)."""
    return hnp.arrays(np.int64, twin.n_slots, elements=st.integers(0, twin.n_labels - 1))


def partial_labels(twin: Twin) -> st.SearchStrategy[np.ndarray]:
    """Labels with -1 for unknown, (n_slots,)."""
    return hnp.arrays(np.int64, twin.n_slots, elements=st.integers(-1, twin.n_labels - 1))


@st.composite
def tilts(draw: st.DrawFn, twin: Twin, *, edges: bool = True) -> dict[str, Any]:
    """Arguments of ``tilted``: any of node deltas, edge deltas and gamma. Deltas may be -inf."""
    palette = draw(palettes(exact=False))
    arguments: dict[str, Any] = {}
    if draw(st.booleans()):
        arguments["node"] = draw(_scores((twin.n_slots, twin.n_labels), palette))
    if edges and draw(st.booleans()):
        arguments["edge"] = draw(_scores((twin.n_slots, twin.n_labels, twin.n_labels), palette))
    if draw(st.booleans()):
        arguments["gamma"] = draw(st.sampled_from([0.25, 0.5, 2.0, 3.0]))
    return arguments


def tilted(structure: Any, node: np.ndarray | None = None, edge: np.ndarray | None = None, gamma: float = 1.0) -> Any:
    """(scores + deltas of all labels and of all pairs of labels) / gamma, as a change at parts.

    node : (n_slots, K);  edge : (n_slots, K, K), not looked at where no boundary lies before the slot
    """
    labels, pairs = structure.parts.grid(), structure.parts.transition_grid()
    part, value = [np.zeros(0, np.int64)], [np.zeros(0)]
    if node is not None:
        part.append(labels.ravel())
        value.append(node.ravel())
    if edge is not None:
        part.append(pairs.ravel())
        value.append(edge[structure.parts.has_boundary()].ravel())
    return structure.add(np.concatenate(part), np.concatenate(value), gamma)


@dataclass(frozen=True)
class SubsetCase:
    """A drawn batch of subsets."""

    arguments: dict[str, Any]

    def structure(self) -> Subsets:
        return Subsets(**self.arguments)

    def listed(self) -> Enumeration:
        return of_subsets(**self.arguments)


@st.composite
def subsets(draw: st.DrawFn, *, feasible: bool = True, n_instances: int | None = None) -> SubsetCase:
    """Up to three instances of up to four elements, with and without bounds on sizes."""
    palette = draw(palettes(exact=True))
    n = draw(st.integers(0, 3)) if n_instances is None else n_instances
    sizes = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    offsets = np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))]).astype(np.int64)
    arguments: dict[str, Any] = {"offsets": offsets, "first": draw(st.sampled_from([0, 7000]))}
    arguments["value"] = draw(_scores((int(offsets[-1]),), palette))
    if draw(st.booleans()):
        arguments["least"] = np.array([draw(st.integers(0, size)) for size in sizes], dtype=np.int64)
        arguments["most"] = np.array(
            [draw(st.integers(int(least), size)) for least, size in zip(arguments["least"], sizes, strict=True)],
            dtype=np.int64,
        )
        if feasible:
            for a, least in zip(offsets.tolist(), arguments["least"].tolist(), strict=False):
                planted = arguments["value"][a : a + least]
                planted[planted == -math.inf] = 0.0
    return SubsetCase(arguments)


@dataclass(frozen=True)
class AlignmentCase:
    """A drawn batch of word alignments; ``arguments`` has the number of the first."""

    twin: AlignmentTwin
    arguments: dict[str, Any]

    def structure(self) -> Alignment:
        structure = self.twin.structure()
        structure.first = self.arguments["first"]
        return structure

    def listed(self) -> Enumeration:
        return of_alignments(self.twin, self.arguments["first"])


@st.composite
def alignments(draw: st.DrawFn, n: int, longest: int, *, feasible: bool) -> AlignmentCase:
    """n sentence pairs, some with an empty side; with ``feasible`` no word needs a link."""
    size = st.integers(0, longest)
    twin = draw(alignment_twins(shapes=draw(st.lists(st.tuples(size, size), min_size=n, max_size=n))))
    if feasible:
        twin.null = np.where(twin.null > -math.inf, twin.null, 0.0)
    return AlignmentCase(twin, {})


@dataclass(frozen=True)
class JointCase:
    """Cases side by side."""

    members: tuple[Any, ...]

    def structure(self) -> Joint:
        return Joint(*(member.structure() for member in self.members))

    def listed(self) -> Enumeration:
        return of_members([member.listed() for member in self.members])


KINDS = [
    "chain", "categorical", "alignment", "subsets", "chain+chain", "chain+categorical", "categorical+subsets",
    "alignment+alignment", "tree", "spanning", "tree+chain", "monotone", "graph", "members", "segments",
    "(chain)", "(chain+categorical)+chain",
]  # fmt: skip


@st.composite
def cases(draw: st.DrawFn, kind: str, *, feasible: bool = True, small: bool = False) -> Any:
    """A batch of some kind with few enough outputs to list those of all its parts together.

    small : few enough to list the points of its 0/1 program
    """
    n = draw(st.integers(0, 2 if small or "+" in kind else 3))
    longest = 3 - small - ("+" in kind)
    return draw(_members(kind, n, feasible, longest, first=draw(st.sampled_from([0, 7000]))))


@st.composite
def _members(draw: st.DrawFn, kind: str, n: int, feasible: bool, longest: int, first: int) -> Any:
    names = re.findall(r"\([^)]*\)|[a-z]+", kind)
    if len(names) > 1 or kind.startswith("("):
        inner = names if len(names) > 1 else [kind[1:-1]]
        return JointCase(tuple(draw(_members(name, n, feasible, longest, first)) for name in inner))
    if kind == "subsets":
        case: Any = draw(subsets(feasible=feasible, n_instances=n))
    elif kind in ("tree", "spanning"):
        lengths = draw(st.lists(st.integers(0, longest), min_size=n, max_size=n))
        palette = draw(palettes(exact=draw(st.booleans())))
        case = draw(tree_cases(palette, projective=kind == "tree", lengths=lengths, feasible=feasible))
    elif kind == "monotone":
        palette = draw(palettes(exact=draw(st.booleans())))
        case = draw(monotone_cases(palette, n, longest, feasible=feasible))
    elif kind == "segments":
        lengths = draw(st.lists(st.integers(0, longest + 1), min_size=n, max_size=n))
        palette = draw(palettes(exact=draw(st.booleans())))
        case = draw(segment_cases(palette, lengths, feasible=feasible, n_labels=draw(st.integers(1, min(longest, 2)))))
    elif kind in ("graph", "members"):
        counts = draw(st.lists(st.integers(0, min(longest, 3)), min_size=n, max_size=n))
        sizes = (2, draw(st.integers(1, 2)))
        palette = draw(palettes(exact=draw(st.booleans())))
        case = draw(graph_cases(palette, counts=counts, tied=kind == "graph", feasible=feasible, sizes=sizes))
    elif kind == "alignment":
        case = draw(alignments(n, longest, feasible=feasible))
    elif kind == "categorical":
        case = draw(categoricals(feasible=feasible, n_instances=n, n_labels=draw(st.integers(1, longest))))
    else:
        lengths = draw(st.lists(st.integers(0, longest), min_size=n, max_size=n))
        case = draw(chains(feasible=feasible, lengths=lengths, n_labels=draw(st.integers(1, longest))))
    case.arguments["first"] = first
    return case


# what the contract of every structure is asked about


def choices(listed: Enumeration) -> st.SearchStrategy[tuple[int, ...]]:
    """An output of the batch, possible or not: the number of one for each instance."""
    return st.tuples(*(st.integers(0, len(score) - 1) for score in listed.score))


def some_instances(listed: Enumeration) -> st.SearchStrategy[list[int]]:
    """Numbers of instances in any order, some of them twice."""
    return st.lists(st.sampled_from(range(len(listed))), max_size=4) if len(listed) else st.just([])


@st.composite
def changes(draw: st.DrawFn, listed: Enumeration, *, exact: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Parts that outputs use, some of them more than once and in any order, and what is added there."""
    usable = np.flatnonzero(listed.usable)
    if not len(usable):
        return np.zeros(0, np.int64), np.zeros(0)
    part = draw(st.lists(st.sampled_from(usable.tolist()), max_size=6))
    value = draw(st.lists(st.sampled_from(draw(palettes(exact=exact))), min_size=len(part), max_size=len(part)))
    return np.array(part, dtype=np.int64), np.array(value)


@st.composite
def rows(draw: st.DrawFn, listed: Enumeration) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Up to four rows over the parts of one instance or of several, parts increasing; sums are exact."""
    usable = np.flatnonzero(listed.usable)
    each = [
        np.sort(draw(st.lists(st.sampled_from(usable.tolist()), max_size=6, unique=True))).astype(np.int64)
        for _ in range(draw(st.integers(0, 4)) if len(usable) else 0)
    ]
    part = np.concatenate([np.zeros(0, np.int64), *each])
    value = draw(hnp.arrays(np.float64, len(part), elements=st.sampled_from(INTEGERS)))
    return np.cumsum([0, *map(len, each)]).astype(np.int64), part, value


GAMMAS = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0])
