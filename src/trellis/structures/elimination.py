"""Sums and maxima over the assignments of a graph by eliminating variable after variable (a junction tree's cliques).

    combined_v(sep, y_v) = Σ of the tables that name v,      message_v(sep) = log Σ_{y_v} exp combined_v   (or max)
    P(sep, y_v) = P(sep) · exp(combined_v − message_v),      P(sep) from the clique that took the message

Graphs of the same shape are done together: every table has their number as its first axis. Variables are eliminated in
the order that keeps tables small, greedily. Before that, *leaves*, variables that one factor alone sees, are gone:

    value(rest) = ⊕_{leaves} [ score(factor) + Σ_leaf score(leaf) ],      ⊕ a maximum, or the log of a sum
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, owners
from trellis.structures.graph_parts import GraphParts


@dataclass(frozen=True)
class Order:
    """An order of elimination.

    scopes : of each step the variables of its clique, the one eliminated last
    largest : entries of the largest clique
    """

    scopes: tuple[tuple[int, ...], ...]
    largest: int


def order_of(sizes: Sequence[int], scopes: Sequence[tuple[int, ...]]) -> Order:
    """Eliminate next whose clique is smallest; sizes : labels of each variable."""
    near: dict[int, set[int]] = {v: set() for v in range(len(sizes))}
    for scope in scopes:
        for v in scope:
            near[v] |= set(scope) - {v}
    made, largest = [], 1
    while near:
        cost, v = min((prod(sizes[u] for u in near[v]) * sizes[v], v) for v in near)
        around = near.pop(v)
        made.append((*sorted(around), v))
        largest = max(largest, cost)
        for u in around:
            near[u] = (near[u] | around) - {u, v}
    return Order(tuple(made), largest)


@dataclass
class Eliminated:
    """What a pass over the cliques left: tables and messages of every step, and which tables each step took.

    total : (n,) log-partition, or best score
    """

    order: Order
    combined: list[FloatArray]
    message: list[FloatArray]
    taken: list[list[int]]
    total: FloatArray
    n_given: int
    scopes: list[tuple[int, ...]]

    def marginals(self) -> list[FloatArray]:
        """Of each given table the probability of every assignment, after a sum."""
        # a table that names no variable is a constant
        found: list[Any] = [None if scope else np.ones(len(self.total)) for scope in self.scopes]
        for step in range(len(self.combined) - 1, -1, -1):
            scope = self.order.scopes[step]
            belief = found[self.n_given + step][..., None] * _share(self.combined[step], self.message[step])
            for table in self.taken[step]:
                found[table] = _onto(belief, scope, self.scopes[table])
        return found[: self.n_given]

    def choose(self, n_variables: int, rng: np.random.Generator | None, *, sample: bool) -> IntArray:
        """(n, n_variables): best assignments after a maximum (with ``rng`` a random one of equals), samples after a
        sum."""
        n = len(self.total)
        chosen, each = np.zeros((n, n_variables), np.int64), np.arange(n)
        for step in range(len(self.combined) - 1, -1, -1):
            scope = self.order.scopes[step]
            value = self.combined[step][(each, *(chosen[:, v] for v in scope[:-1]))]
            if sample and rng is not None:
                value = value + rng.gumbel(size=value.shape)
            elif rng is not None:
                value = np.where(value == value.max(axis=1, keepdims=True), rng.random(value.shape), -1.0)
            chosen[:, scope[-1]] = value.argmax(axis=1)
        return chosen


def eliminate(
    n: int, order: Order, scopes: Sequence[tuple[int, ...]], tables: Sequence[FloatArray], *, best: bool
) -> Eliminated:
    """Eliminate all variables of n graphs of one shape.

    scopes : variables of each table, increasing;  tables : (n, labels of the first, labels of the second, ...)
    """
    known, held = [tuple(scope) for scope in scopes], list(tables)
    waiting = set(range(len(held)))
    combined, messages, taken = [], [], []
    for clique in order.scopes:
        v = clique[-1]
        mine = sorted(t for t in waiting if v in known[t])
        waiting -= set(mine)
        total: Any = 0.0
        for t in mine:
            total = total + _spread(held[t], known[t], clique)
        message = total.max(axis=-1) if best else _log_sum(total)
        combined.append(total)
        messages.append(message)
        taken.append(mine)
        known.append(clique[:-1])
        held.append(message)
        waiting.add(len(held) - 1)
    last = np.asarray(sum((held[t] for t in sorted(waiting)), np.zeros(n)))
    return Eliminated(order, combined, messages, taken, last, len(tables), known)


def log_sum(values: FloatArray, axes: tuple[int, ...]) -> FloatArray:
    """log Σ exp over axes, −inf where all is."""
    top = values.max(axis=axes, keepdims=True)
    top = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(values - top).sum(axis=axes)) + top.squeeze(axes))


def _log_sum(values: FloatArray) -> FloatArray:
    return log_sum(values, (values.ndim - 1,))


def _share(combined: FloatArray, message: FloatArray) -> FloatArray:
    """exp(combined − message), 0 where nothing is possible."""
    possible = message > -np.inf
    return np.asarray(np.exp(combined - np.where(possible, message, 0.0)[..., None]) * possible[..., None])


def _spread(table: FloatArray, scope: tuple[int, ...], clique: tuple[int, ...]) -> FloatArray:
    """A table with an axis for every variable of a clique."""
    order = np.argsort([clique.index(v) for v in scope])
    moved = np.transpose(table, (0, *(1 + order)))
    shape = iter(moved.shape[1:])
    return moved.reshape(len(table), *(next(shape) if v in scope else 1 for v in clique))


def _onto(belief: FloatArray, clique: tuple[int, ...], scope: tuple[int, ...]) -> FloatArray:
    """A clique's probabilities, those of the variables of ``scope`` alone, in their order."""
    away = tuple(1 + i for i, v in enumerate(clique) if v not in scope)
    kept = [v for v in clique if v in scope]
    small = belief.sum(axis=away) if away else belief
    return np.transpose(small, (0, *(1 + kept.index(v) for v in scope)))


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
