"""Sums and maxima over the assignments of a graph by eliminating variable after variable (a junction tree's cliques).

    combined_v(sep, y_v) = Σ of the tables that name v,      message_v(sep) = log Σ_{y_v} exp combined_v   (or max)
    P(sep, y_v) = P(sep) · exp(combined_v − message_v),      P(sep) from the clique that took the message

Graphs of the same shape are done together: every table has their number as its first axis. Variables are eliminated in
the order that keeps tables small, greedily.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray


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
