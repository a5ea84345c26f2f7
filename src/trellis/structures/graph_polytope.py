"""Graphs as a 0/1 program: the local polytope.

    a variable takes one label                       Σ_k x(v, k) = 1
    a factor's assignments carry the labels          Σ_{a: a_v = k} x(f, a) = x(v, k)      for every v in its scope

Its vertices are outputs where the graph has no cycle; elsewhere it is the linear relaxation of them.
"""

from __future__ import annotations

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, owners
from trellis.structures.graph_parts import GraphParts
from trellis.structures.polytope import Polytope


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
