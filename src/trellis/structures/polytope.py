"""The outputs of a structure as a 0/1 program, for integer search.

    outputs = { x : matrix · x = bound,  x ∈ {0, 1} },      part p is used by x if  (use · x)_p = 1

Variables may be finer than parts (the anchors of an alignment HMM, say): ``use`` says which variables use a part, and
scores are those of variables.

    chain         a slot uses one label, and edges carry the labels at both ends
    segmentation  a unit of flow through states (token, label, length so far): what comes into a state goes on or
                  ends, and at an inner boundary goes into a transition or another segment of the same label
    graph         the local polytope: a variable takes one label, a factor's assignments carry those of its scope

The vertices of the first two are outputs, so that a linear relaxation is fractional only where further rows make it
so; those of a graph are outputs where it has no cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, owners

if TYPE_CHECKING:
    from trellis.structures.chain_parts import ChainParts
    from trellis.structures.graph_parts import GraphParts
    from trellis.structures.segment_parts import SegmentParts


@dataclass(frozen=True)
class Polytope:
    """Equations and scores.

    matrix : scipy sparse (n_equations, n_variables);  bound : (n_equations,)
    use : scipy sparse CSR (n_parts, n_variables)
    score : (n_variables,)
    whole : (n_variables,) bool: where these are 0 or 1, so are the others
    outputs : a 0/1 vector (or one near to it) -> outputs in the structure's own form
    """

    matrix: Any
    bound: FloatArray
    use: Any
    score: FloatArray
    whole: BoolArray
    outputs: Callable[[FloatArray], Any]


def side_by_side(members: Sequence[Polytope]) -> Polytope:
    """Several polytopes over variables of their own, as one; its outputs are one of each."""
    from scipy.sparse import block_diag

    cuts = np.cumsum([0, *(len(member.score) for member in members)])
    nothing, empty = np.zeros((0, 0)), np.zeros(0)  # of no members at all

    def outputs(x: FloatArray) -> tuple[Any, ...]:
        return tuple(m.outputs(x[a:b]) for m, a, b in zip(members, cuts[:-1], cuts[1:], strict=True))

    return Polytope(
        matrix=block_diag([nothing, *(member.matrix for member in members)], format="csr"),
        bound=np.concatenate([empty, *(member.bound for member in members)]),
        use=block_diag([nothing, *(member.use for member in members)], format="csr"),
        score=np.concatenate([empty, *(member.score for member in members)]),
        whole=np.concatenate([empty.astype(np.bool_), *(member.whole for member in members)]),
        outputs=outputs,
    )


def chain_polytope(parts: ChainParts, node: FloatArray, edge: FloatArray, closed: IntArray, n_parts: int) -> Polytope:
    """Without variables for closed parts, for holes and for parts whose score is −inf.

    node : (n_slots, K) scores, those of the ends included;  edge : (n_slots, K, K)
    n_parts : parts with numbers from here on are left out (a categorical has none but labels)
    """
    from scipy.sparse import csr_array

    k, n_node = parts.n_labels, parts.n_node_parts
    score = np.concatenate((node.reshape(-1), edge.reshape(-1)))[:n_parts]
    is_open = score > -np.inf
    if n_parts > n_node:
        is_open[n_node:].reshape(parts.n_slots, -1)[~parts.has_boundary()] = False
    is_open[closed] = False
    used = np.flatnonzero(is_open)
    variable = np.full(n_parts, -1, dtype=np.int64)
    variable[used] = np.arange(len(used))
    matrix, bound = _equations(parts, used, variable, n_parts)
    whole = used < n_node

    def outputs(x: FloatArray) -> LabelArray:
        """The label of each slot with the largest variable."""
        share = np.full(n_node, -1.0)
        share[used[whole]] = x[whole]
        return np.asarray(share.reshape(-1, k).argmax(axis=1), dtype=np.int32)

    use = csr_array((np.ones(len(used)), (used, np.arange(len(used)))), shape=(n_parts, len(used)))
    # where the labels are whole, so are the edges between them
    return Polytope(matrix, bound, use, score[used], whole, outputs)


def _equations(parts: ChainParts, used: IntArray, variable: IntArray, n_parts: int) -> tuple[Any, FloatArray]:
    from scipy.sparse import csr_array

    k, n_node = parts.n_labels, parts.n_node_parts
    nodes = used[used < n_node]
    rows, columns, values = [nodes // k], [variable[nodes]], [np.ones(len(nodes))]
    n = parts.n_slots
    bound = [np.ones(n)]
    slots = np.flatnonzero(parts.has_boundary()) if n_parts > n_node else np.zeros(0, np.int64)
    place = np.zeros(parts.n_slots, dtype=np.int64)
    place[slots] = np.arange(len(slots))
    edges = used[used >= n_node] - n_node
    slot, before, label = edges // (k * k), edges // k % k, edges % k
    every = np.repeat(slots, k), np.tile(np.arange(k), len(slots))
    for end, at in ((label, every[0]), (before, every[0] - 1)):
        there = variable[at * k + every[1]]
        rows += [n + place[slot] * k + end, n + np.flatnonzero(there >= 0)]
        columns += [variable[edges + n_node], there[there >= 0]]
        values += [np.ones(len(edges)), -np.ones(np.count_nonzero(there >= 0))]
        n += len(slots) * k
        bound.append(np.zeros(len(slots) * k))
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return csr_array(entries, shape=(n, len(used))), np.concatenate(bound)


def segment_polytope(parts: SegmentParts, score: FloatArray, closed: IntArray) -> Polytope:
    """Without variables that use closed parts, or parts whose score (n_parts,) is −inf."""
    from scipy.sparse import csr_array

    n, k, longest = parts.n_slots, parts.n_labels, parts.longest
    inner, labels = parts.has_boundary(), np.arange(k, dtype=np.int64)
    first, right = np.flatnonzero(~inner), np.flatnonzero(inner)
    place = np.arange(n) - np.repeat(parts.offsets[:-1], np.diff(parts.offsets))

    # way into a segment: slot, label before (−1: none), label
    at = np.concatenate([np.repeat(first, k), np.repeat(right, k * k)])
    before = np.concatenate([np.full(len(first) * k, -1), np.tile(np.repeat(labels, k), len(right))])
    label = np.concatenate([np.tile(labels, len(first)), np.tile(np.tile(labels, k), len(right))])
    # steps (slot, label, length before the slot) and ends (slot, label, length)
    t, own, size = (one.ravel() for one in np.meshgrid(np.arange(n), labels, np.arange(longest), indexing="ij"))
    steps = inner[t] & (size < place[t])
    ends = size <= place[t]

    def state(slot: IntArray, of: IntArray, length: IntArray) -> IntArray:
        return (slot * k + of) * longest + length

    n_ways, n_steps, n_ends = len(at), int(steps.sum()), int(ends.sum())
    variable = np.arange(n_ways + n_steps + n_ends)
    way, step, end = variable[:n_ways], variable[n_ways : n_ways + n_steps], variable[n_ways + n_steps :]
    hub, start = n * k * longest, n * k * longest + n * k
    last = np.ones(n, dtype=np.bool_)
    last[:-1] = ~inner[1:]
    goes_on = ~last[t[ends]]
    has_before = before >= 0
    flow = [  # equation, variable, sign
        (state(at, label, 0 * label), way, 1.0),
        (hub + (at[has_before] - 1) * k + before[has_before], way[has_before], -1.0),
        (start + np.searchsorted(first, at[~has_before]), way[~has_before], 1.0),
        (state(t[steps], own[steps], np.minimum(size[steps] + 1, longest - 1)), step, 1.0),
        (state(t[steps] - 1, own[steps], size[steps]), step, -1.0),
        (state(t[ends], own[ends], size[ends]), end, -1.0),
        (hub + t[ends][goes_on] * k + own[ends][goes_on], end[goes_on], 1.0),
    ]
    other = has_before & (before != label)
    same = has_before & (before == label)
    use = [  # part, variable
        (parts.label(at, label), way),
        (parts.transition(at[other], before[other], label[other]), way[other]),
        (parts.again(at[same], label[same]), way[same]),
        (parts.label(t[steps], own[steps]), step),
        (parts.transition(t[steps], own[steps], own[steps]), step),
        (parts.segment(t[ends], size[ends] + 1, own[ends]), end),
    ]
    part, user = (np.concatenate(side) for side in zip(*use, strict=True))
    shut = ~(score > -np.inf)
    shut[closed] = True
    is_open = np.bincount(user, shut[part], minlength=len(variable)) == 0
    kept = np.flatnonzero(is_open)
    value = np.bincount(user, np.where(shut[part], 0.0, score[part]), minlength=len(variable))[kept].astype(np.float64)
    rows, columns = (np.concatenate([one[i] for one in flow]) for i in (0, 1))
    signs = np.concatenate([np.full(len(row), sign) for row, _, sign in flow])
    bound = np.zeros(start + len(first))
    bound[start:] = 1.0
    matrix = csr_array((signs, (rows, columns)), shape=(len(bound), len(variable)))[:, kept]
    used = csr_array((np.ones(len(part)), (part, user)), shape=(parts.n_parts, len(variable)))[:, kept]
    n_label, again = n * k, parts.again(np.arange(n)[:, None], labels)

    def outputs(x: FloatArray) -> LabelArray:
        """The label of each slot that is used most, and whether a segment begins beside its like."""
        share = used @ x
        y = share[:n_label].reshape(n, k).argmax(axis=1)
        begun = share[again][np.arange(n), y] > 0.5
        return np.asarray(y + k * begun, dtype=np.int32)

    return Polytope(matrix, bound, csr_array(used), value, np.ones(len(kept), np.bool_), outputs)


def graph_polytope(parts: GraphParts, score: FloatArray, closed: IntArray) -> Polytope:
    """Without variables for closed parts and parts whose score is −inf."""
    from scipy.sparse import csr_array

    is_open = score > -np.inf
    is_open[closed] = False
    used = np.flatnonzero(is_open)
    column = np.full(parts.n_parts, -1, np.int64)
    column[used] = np.arange(len(used))
    n_variables = int(parts.starts[len(parts.variables)])
    rows, columns, values, bound, n = [], [], [], [], 0

    def entries(row: IntArray, part: IntArray, value: float) -> None:
        here = column[part] >= 0
        rows.append(row[here])
        columns.append(column[part[here]])
        values.append(np.full(int(here.sum()), value))

    for block, start in zip(parts.variables, parts.starts, strict=False):
        slots = int(block.offsets[-1])
        part = start + np.arange(slots * block.size)
        entries(n + np.repeat(np.arange(slots), block.size), part, 1.0)
        bound.append(np.ones(slots))
        n += slots
    for number, family in enumerate(parts.factors):
        start = parts.starts[len(parts.variables) + number]
        sizes = tuple(parts.variables[kind].size for kind in family.kinds)
        slots = len(family.scope)
        owner = owners(family.offsets)
        labels = np.unravel_index(np.arange(family.size), sizes)
        part = (start + np.arange(slots)[:, None] * family.size + np.arange(family.size)).reshape(-1)
        for position, kind in enumerate(family.kinds):
            k, own = sizes[position], parts.variables[kind]
            row = n + (np.arange(slots)[:, None] * k + labels[position]).reshape(-1)
            entries(row, part, 1.0)
            slot = own.offsets[owner] + family.scope[:, position]
            there = (parts.starts[kind] + slot[:, None] * k + np.arange(k)).reshape(-1)
            entries(n + np.arange(slots * k), there, -1.0)
            bound.append(np.zeros(slots * k))
            n += slots * k
    matrix = csr_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(n, len(used))
    )  # fmt: skip
    whole = used < n_variables

    def outputs(x: FloatArray) -> LabelArray:
        """The label of each variable with the largest share."""
        share = np.full(n_variables, -1.0)
        share[used[whole]] = x[whole]
        made = []
        for block, a, b in zip(parts.variables, parts.starts[:-1], parts.starts[1:], strict=False):
            made.append(share[a:b].reshape(-1, block.size).argmax(axis=1))
        return parts.in_slots(made)

    use = csr_array((np.ones(len(used)), (used, np.arange(len(used)))), shape=(parts.n_parts, len(used)))
    # where the labels are whole, so are the assignments that they make up
    return Polytope(matrix, np.concatenate(bound), use, score[used], whole, outputs)
