"""Graphs before elimination: what factors say once variables that they alone see are gone, and graphs that look alike.

    value(rest) = ⊕_{leaves} [ score(factor) + Σ_leaf score(leaf) ],      ⊕ a maximum, or the log of a sum

A *leaf* is a variable that one factor sees. What is left of graphs of one *shape* is eliminated together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, owners
from trellis.structures.elimination import Order, log_sum, order_of
from trellis.structures.graph_parts import GraphParts


@dataclass(frozen=True)
class GraphShape:
    """Instances whose graphs look alike once variables that one factor sees are gone.

    instances : (n,);  sizes : labels of each variable;  at : (n, n_variables) their slots in the batch's list of
    variables;  scopes : of each table that is not unary;  rows : (n, n_tables) its factor;  family : of each table
    """

    instances: IntArray
    sizes: tuple[int, ...]
    at: list[IntArray]
    kinds: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    family: tuple[int, ...]
    rows: IntArray
    order: Order


class Message:
    """What a family of factors says of the variables that others see too.

    whole : (n, labels of each position), scores with those of the leaves;  value : the leaves summed or maximised out
    """

    def __init__(self, whole: FloatArray, value: FloatArray, leaves: tuple[int, ...], slots: list[Any]) -> None:
        self.whole, self.value, self.leaves, self.slots = whole, value, leaves, slots
        self.belief = np.zeros_like(value)

    @classmethod
    def of(
        cls, parts: GraphParts, number: int, table: FloatArray, tables: list[FloatArray], leaves: tuple[int, ...], *,
        best: bool,
    ) -> Message:  # fmt: skip
        family = parts.factors[number]
        sizes = [parts.variables[kind].size for kind in family.kinds]
        whole = table.reshape(len(table), *sizes)
        owner, slots = owners(family.offsets), []
        for position, kind in enumerate(family.kinds):
            slot = parts.variables[kind].offsets[owner] + family.scope[:, position]
            slots.append((kind, slot))
            if position in leaves:
                shape = [len(table), *(size if p == position else 1 for p, size in enumerate(sizes))]
                whole = whole + tables[kind][slot].reshape(shape)
        axes = tuple(1 + p for p in leaves)
        value = whole if not axes else (whole.max(axis=axes) if best else log_sum(whole, axes))
        return cls(whole, value, leaves, slots)

    def below(self, rows: IntArray, belief: FloatArray) -> None:
        """Take probabilities of what others see."""
        self.belief[rows] = belief

    def spread(self, out: FloatArray, cut: list[FloatArray]) -> None:
        """Probabilities of all assignments, and of the leaves."""
        axes = tuple(1 + p for p in self.leaves)
        value = np.expand_dims(self.value, axes) if axes else self.value
        belief = np.expand_dims(self.belief, axes) if axes else self.belief
        possible = value > -np.inf
        share = np.exp(self.whole - np.where(possible, value, 0.0)) * possible if axes else 1.0
        whole = np.asarray(belief * share)
        out[:] = whole.reshape(out.shape)
        for position in self.leaves:
            kind, slot = self.slots[position]
            away = tuple(1 + p for p in range(whole.ndim - 1) if p != position)
            cut[kind][slot] = whole.sum(axis=away)

    def choose(self, outputs: list[LabelArray], rng: np.random.Generator | None, *, sample: bool) -> None:
        """Labels of the leaves, given those of the others."""
        if not self.leaves or not len(self.whole):
            return
        n = len(self.whole)
        others = [p for p in range(len(self.slots)) if p not in self.leaves]
        moved = np.moveaxis(self.whole, [1 + p for p in others], range(1, 1 + len(others)))
        labels = [outputs[kind][slot] for kind, slot in (self.slots[p] for p in others)]
        value = moved[(np.arange(n), *labels)]
        flat = value.reshape(n, int(np.prod(value.shape[1:])))
        if sample and rng is not None:
            flat = flat + rng.gumbel(size=flat.shape)
        elif rng is not None:
            flat = np.where(flat == flat.max(axis=1, keepdims=True), rng.random(flat.shape), -1.0)
        chosen = np.unravel_index(flat.argmax(axis=1), value.shape[1:])
        for position, label in zip(self.leaves, chosen, strict=True):
            kind, slot = self.slots[position]
            outputs[kind][slot] = label


def leaves_of(parts: GraphParts) -> list[tuple[int, ...]]:
    """Of each family the positions whose variables no other factor sees."""
    seen = [np.zeros(int(block.offsets[-1]), np.int64) for block in parts.variables]
    slots = []
    for family in parts.factors:
        owner = owners(family.offsets)
        own = [parts.variables[k].offsets[owner] + family.scope[:, p] for p, k in enumerate(family.kinds)]
        slots.append(own)
        for kind, slot in zip(family.kinds, own, strict=True):
            seen[kind] += np.bincount(slot, minlength=len(seen[kind]))
    return [
        tuple(
            p for p, (kind, slot) in enumerate(zip(family.kinds, own, strict=True)) if np.all(seen[kind][slot] == 1)
        )
        for family, own in zip(parts.factors, slots, strict=True)
    ]  # fmt: skip


def shapes_of(parts: GraphParts, leaves: list[tuple[int, ...]]) -> list[GraphShape]:
    """Instances sorted by what their graphs look like."""
    gone = [np.zeros(int(block.offsets[-1]), np.bool_) for block in parts.variables]
    for family, away in zip(parts.factors, leaves, strict=True):
        owner = owners(family.offsets)
        for p in away:
            kind = family.kinds[p]
            gone[kind][parts.variables[kind].offsets[owner] + family.scope[:, p]] = True
    alike: dict[Any, list[int]] = {}
    for i in range(parts.n_instances):
        key = [gone[k][block.offsets[i] : block.offsets[i + 1]].tobytes() for k, block in enumerate(parts.variables)]
        key += [family.scope[family.offsets[i] : family.offsets[i + 1]].tobytes() for family in parts.factors]
        alike.setdefault(tuple(key), []).append(i)
    return [_shape(parts, leaves, gone, np.array(members)) for members in alike.values()]


def _shape(parts: GraphParts, leaves: list[tuple[int, ...]], gone: list[Any], instances: IntArray) -> GraphShape:
    one = int(instances[0])
    number: dict[tuple[int, int], int] = {}
    at = []
    for kind, block in enumerate(parts.variables):
        for local in range(int(block.offsets[one + 1] - block.offsets[one])):
            if not gone[kind][block.offsets[one] + local]:
                number[kind, local] = len(number)
                at.append(block.offsets[instances] + local)
    kinds = tuple(kind for kind, _ in number)
    scopes, families, rows = [], [], []
    for f, family in enumerate(parts.factors):
        kept = [p for p in range(len(family.kinds)) if p not in leaves[f]]
        for local in range(int(family.offsets[one + 1] - family.offsets[one])):
            scope = family.scope[family.offsets[one] + local]
            scopes.append(tuple(number[family.kinds[p], int(scope[p])] for p in kept))
            families.append(f)
            rows.append(family.offsets[instances] + local)
    sizes = tuple(parts.variables[kind].size for kind in kinds)
    listed = np.stack(rows, axis=1) if rows else np.zeros((len(instances), 0), np.int64)
    return GraphShape(
        instances, sizes, at, kinds, tuple(scopes), tuple(families), listed, order_of(sizes, scopes)
    )  # fmt: skip
