"""Graph: discrete variables of several kinds, and factors over them.

    p(y) ∝ exp( Σ_v score(v, y_v) + Σ_f score(f, y_f) )

Sums and best outputs are exact where cliques are small (:mod:`elimination`); variables that a single factor sees are
summed out inside it, all factors at once. Where cliques are too large for that, the best output is found by branch and
bound (:mod:`branching`) if what is left ties variables two by two, and there is no sum: then the same variables without
factors, :meth:`Graph.members`, are the tractable stand-in on which rows act in expectation
(Samdani et al. 2012, sec. 4.2 and algorithm 2), and 0/1 programs serve any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, owners
from trellis.errors import DataError, InfeasibleError
from trellis.structures.branching import best_assignment, relaxed_bound
from trellis.structures.elimination import Eliminated, Order, eliminate, log_sum, order_of
from trellis.structures.graph_parts import GraphParts
from trellis.structures.graph_polytope import graph_polytope
from trellis.structures.polytope import Polytope
from trellis.structures.results import Argmax, KBest, PartPosterior
from trellis.structures.structure import (
    Structure,
    check_gamma,
    check_number_of_samples,
    check_scores,
    expect_scores,
    numbers_of,
    refuse_impossible,
)

LARGEST_SUM = 4**9
"""Entries of a clique up to which sums are taken."""
LARGEST_MAX = 4**6
"""Entries of a clique up to which variables are eliminated for an argmax; beyond, branch and bound is faster."""
TOGETHER = 2**22
"""Entries of the largest table of graphs that are done together."""


@dataclass(frozen=True)
class Shape:
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


class Graph(Structure):
    """Scores of the parts of small graphs.

    flat_scores : (n_parts,), −inf where something is forbidden

    >>> from trellis.structures.graph_parts import Variables, factors_over
    >>> kinds = (Variables("type", ("A", "B"), np.array([0, 2])),)
    >>> tied = factors_over(kinds, ("type", "type"), np.array([[0, 1]]), np.array([0, 1]))
    >>> differ = Graph(GraphParts(kinds, (tied,)), [1.0, 0.0, 0.5, 0.0, -np.inf, 0.0, 0.0, -np.inf])
    >>> differ.argmax().outputs.tolist(), differ.infer().at(np.arange(4)).round(2).tolist()
    ([0, 1], [0.62, 0.38, 0.38, 0.62])
    """

    def __init__(self, parts: GraphParts, flat_scores: Any, first: int = 0, numbers: IntArray | None = None) -> None:
        self._parts, self.first, self.numbers = parts, first, numbers
        self.flat_scores: FloatArray = check_scores("part", flat_scores, (parts.n_parts,))

    @property
    def parts(self) -> GraphParts:
        return self._parts

    @property
    def tables(self) -> list[FloatArray]:
        """Of each kind of variables and family of factors (n, size), as views."""
        return self._cut(self.flat_scores)

    def _cut(self, flat: FloatArray) -> list[FloatArray]:
        starts = self._parts.starts
        return [flat[starts[n] : starts[n + 1]].reshape(-1, b.size) for n, b in enumerate(self._parts.blocks)]

    def members(self) -> Graph:
        """The variables alone, independent of each other."""
        parts = GraphParts(self._parts.variables)
        return Graph(parts, self.flat_scores[: parts.n_parts], self.first, self.numbers)

    # scores

    def apply(self, change: FloatArray | None, gamma: float = 1.0) -> Graph:
        check_gamma(gamma)
        return self._with((self.flat_scores if change is None else self.flat_scores + change) / gamma)

    def _with(self, flat: FloatArray) -> Graph:
        return Graph(self._parts, flat, self.first, self.numbers)

    def take(self, numbers: IntArray) -> Graph:
        parts, own = self._parts.take(numbers)
        return Graph(parts, self.flat_scores[own], self.first, numbers_of(numbers, self.first, self.numbers))

    def flat(self) -> Graph:
        return self._with(np.where(self.flat_scores > -np.inf, 0.0, -np.inf))

    def clamp(self, known: LabelArray) -> Graph:
        """Scores in which only the given labels are possible where they are known (≥ 0)."""
        flat = self.flat_scores.copy()
        for block, table, y in zip(
            self._parts.variables, self._cut(flat), self._parts.by_kind(known, unknown=True), strict=False
        ):
            table[(y[:, None] >= 0) & (np.arange(block.size) != y[:, None])] = -np.inf
        return self._with(flat)

    def mean(self, other: Graph, share: float = 0.5) -> Graph:
        if other.parts.n_parts != self._parts.n_parts:
            raise DataError(f"graphs of {self._parts.n_parts} and {other.parts.n_parts} parts have no mean")
        return self._with(share * self.flat_scores + (1.0 - share) * other.flat_scores)

    def score(self, outputs: LabelArray) -> FloatArray:
        used = self._parts.of(outputs)
        return np.bincount(self._parts.instance_of(used), self.flat_scores[used], minlength=len(self)).astype(float)

    def log_prob(self, outputs: LabelArray) -> FloatArray:
        return np.minimum(self.score(outputs) - self.infer().log_partition, 0.0)

    # sums

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> PartPosterior:
        if not self._parts.factors:
            return self._infer_members()
        if not any(table.any() for table in self.tables[len(self._parts.variables) :]):
            return self._infer_untied()
        marginal, total = np.zeros(self._parts.n_parts), np.zeros(len(self))
        cut, messages = self._cut(marginal), self._messages(best=False)
        for shape in self.shapes:
            self._refuse_wide(shape)
            for some, found in self._eliminated(shape, messages, best=False):
                total[shape.instances[some]] = found.total
                for table, value in enumerate(found.marginals()):
                    if table < len(shape.at):
                        cut[shape.kinds[table]][shape.at[table][some]] = value
                    else:
                        number = table - len(shape.at)
                        messages[shape.family[number]].below(shape.rows[some, number], value)
        refuse_impossible(total, self.first, self.numbers)
        for number, message in enumerate(messages):
            message.spread(cut[len(self._parts.variables) + number], cut)
        return PartPosterior(marginal, total)

    def _infer_members(self) -> PartPosterior:
        marginal, total = np.empty(self._parts.n_parts), np.zeros(len(self))
        for block, table, out in zip(self._parts.variables, self.tables, self._cut(marginal), strict=True):
            top = table.max(axis=1)
            mass = np.exp(table - np.where(top > -np.inf, top, 0.0)[:, None])
            summed = mass.sum(axis=1)
            with np.errstate(divide="ignore"):
                value = top + np.log(summed)
            total += np.bincount(owners(block.offsets), value, minlength=len(self))
            np.divide(mass, np.where(summed > 0, summed, 1.0)[:, None], out=out)
        refuse_impossible(total, self.first, self.numbers)
        return PartPosterior(marginal, total)

    def _infer_untied(self) -> PartPosterior:
        """Where no factor says anything its variables are independent, however many there are."""
        members = self.members().infer()
        marginal = np.concatenate([members.marginal, np.empty(self._parts.n_parts - len(members.marginal))])
        cut, n = self._cut(marginal), len(self._parts.variables)
        for number, family in enumerate(self._parts.factors):
            owner, share = owners(family.offsets), np.ones((len(family.scope), 1))
            for position, kind in enumerate(family.kinds):
                own = cut[kind][self._parts.variables[kind].offsets[owner] + family.scope[:, position]]
                share = (share[:, :, None] * own[:, None, :]).reshape(len(share), share.shape[1] * own.shape[1])
            cut[n + number][:] = share
        return PartPosterior(marginal, members.log_partition)

    def entropy(self) -> FloatArray:
        """−Σ_y p log p of each instance, in nats."""
        q = self.infer()
        part = np.arange(self._parts.n_parts)
        expected = np.bincount(
            self._parts.instance_of(part), expect_scores(q.marginal, self.flat_scores), minlength=len(self)
        )
        return q.log_partition - expected

    def expected_score(self, q: PartPosterior, weights: FloatArray) -> float:
        instance = self._parts.instance_of(np.arange(self._parts.n_parts))
        return float(weights[instance] @ expect_scores(q.marginal, self.flat_scores))

    def sample(self, n: int, rng: np.random.Generator) -> LabelArray:
        """Independent samples (n, n_slots)."""
        check_number_of_samples(n)
        self.infer()  # refuses what is impossible
        drawn = [self._chosen(rng, sample=True)[0] for _ in range(n)]
        return np.array(drawn, np.int32).reshape(n, int(self._parts.offsets[-1]))

    def likeliest(self, q: PartPosterior) -> LabelArray:
        tables = self._cut(q.marginal)[: len(self._parts.variables)]
        return self._parts.in_slots([table.argmax(axis=1) for table in tables])

    # best outputs

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """Best outputs, proved: by elimination, or by branch and bound where cliques are large."""
        outputs, best = self._chosen(rng, sample=False)
        refuse_impossible(best, self.first, self.numbers)
        return Argmax(outputs, best)

    def _chosen(self, rng: np.random.Generator | None, *, sample: bool) -> tuple[LabelArray, FloatArray]:
        total = np.zeros(len(self))
        outputs = [np.zeros(len(t), np.int32) for t in self.tables[: len(self._parts.variables)]]
        messages = self._messages(best=not sample)
        for shape in self.shapes:
            if sample or shape.order.largest <= LARGEST_MAX:
                for some, found in self._eliminated(shape, messages, best=not sample):
                    total[shape.instances[some]] = found.total
                    chosen = found.choose(len(shape.sizes), rng, sample=sample)
                    for v, kind in enumerate(shape.kinds):
                        outputs[kind][shape.at[v][some]] = chosen[:, v]
            else:
                for row, instance in enumerate(shape.instances.tolist()):
                    labels, total[instance], _ = best_assignment(*self._dense(shape, row, messages))
                    for v, kind in enumerate(shape.kinds):
                        outputs[kind][shape.at[v][row]] = labels[v]
        for message in messages:
            message.choose(outputs, rng, sample=sample)
        return self._parts.in_slots(outputs), total

    def relaxation(self) -> FloatArray:
        """(n_instances,): a bound on every output's score, from the dual of the linear relaxation where branch and
        bound is what finds the best one, else the best score itself."""
        bound, messages = self.argmax().score, self._messages(best=True)
        for shape in self.shapes:
            if shape.order.largest > LARGEST_MAX:
                for row, instance in enumerate(shape.instances.tolist()):
                    bound[instance] = relaxed_bound(*self._dense(shape, row, messages))
        return bound

    def _dense(self, shape: Shape, row: int, messages: list[_Message]) -> tuple[FloatArray, FloatArray]:
        """Unary and pairwise scores of one graph, for branch and bound."""
        n, k = len(shape.sizes), max(shape.sizes)
        unary, pair, tables = np.full((n, k), -np.inf), np.zeros((n, n, k, k)), self.tables
        for v, kind in enumerate(shape.kinds):
            unary[v, : shape.sizes[v]] = tables[kind][shape.at[v][row]]
        for number, scope in enumerate(shape.scopes):
            table = messages[shape.family[number]].value[shape.rows[row, number]]
            if len(scope) == 1:
                unary[scope[0], : len(table)] += table
            elif len(scope) == 2:
                u, v = scope
                pair[u, v, : table.shape[0], : table.shape[1]] += table
                pair[v, u, : table.shape[1], : table.shape[0]] += table.T
            else:
                raise DataError(
                    f"instance {numbers_of(shape.instances[row : row + 1], self.first, self.numbers)[0]} ties "
                    f"{len(scope)} variables in one factor and too many in all to be eliminated: decode it as a 0/1 "
                    "program, search.decode(scores, rows, 'ilp')"
                )
        return unary, pair

    def kbest(self, k: int) -> KBest:
        """The k best outputs of each instance: after the best, the best of what differs from it, and so on."""
        if k < 1:
            raise DataError(f"k must be at least 1, got {k}")
        labels = np.full((k, int(self._parts.offsets[-1])), -1, np.int32)
        score = np.full((k, len(self)), -np.inf)
        for i in range(len(self)):
            span = slice(int(self._parts.offsets[i]), int(self._parts.offsets[i + 1]))
            for place, (value, output) in enumerate(self.instances(i, i + 1)._listed(k)):
                score[place, i], labels[place, span] = value, output
        return KBest(labels, score)

    def _listed(self, k: int) -> list[tuple[float, LabelArray]]:
        """Of one instance: every output but the best differs from it first at some variable (Lawler 1972)."""
        first = self.argmax()
        waiting = [(float(first.score[0]), first.outputs, self, 0)]
        found: list[tuple[float, LabelArray]] = []
        place = self._parts.place_of(np.arange(self._parts.starts[len(self._parts.variables)]))
        while waiting and len(found) < k:
            waiting.sort(key=lambda entry: entry[0])
            value, outputs, scores, fixed = waiting.pop()
            found.append((value, outputs))
            used = self._parts.of(outputs)[: len(outputs)]
            for at in range(fixed, len(used)):
                others = scores.forbid(used[at : at + 1])
                with suppress(InfeasibleError):  # no other output is possible there
                    best = others.argmax()
                    waiting.append((float(best.score[0]), best.outputs, others, at))
                same = np.flatnonzero(place == place[used[at]])
                scores = scores.forbid(same[same != used[at]])
        return found

    def max_marginals(self) -> FloatArray | None:
        if self._parts.factors:
            return None
        best = self.argmax().score
        made = []
        for block, table in zip(self._parts.variables, self.tables, strict=True):
            made.append((table - table.max(axis=1, keepdims=True) + best[owners(block.offsets)][:, None]).reshape(-1))
        return np.concatenate(made)

    def polytope(self, closed: IntArray) -> Polytope:
        return graph_polytope(self._parts, self.flat_scores, closed)

    # elimination, graphs of one shape together

    def _messages(self, *, best: bool) -> list[_Message]:
        tables, n = self.tables, len(self._parts.variables)
        return [
            _Message.of(self._parts, number, tables[n + number], tables, self.leaves[number], best=best)
            for number in range(len(self._parts.factors))
        ]

    @property
    def leaves(self) -> list[tuple[int, ...]]:
        """Of each family the positions whose variables no other factor sees."""
        return self._parts.remembered("leaves", lambda: _leaves(self._parts))

    @property
    def shapes(self) -> list[Shape]:
        return self._parts.remembered("shapes", lambda: _shapes(self._parts, self.leaves))

    def _eliminated(self, shape: Shape, messages: list[_Message], *, best: bool) -> Iterator[tuple[slice, Eliminated]]:
        """The graphs of a shape, as many at a time as memory allows."""
        size = max(1, TOGETHER // shape.order.largest)
        tables = self.tables
        unary = tuple((v,) for v in range(len(shape.sizes)))
        for first in range(0, len(shape.instances), size):
            some = slice(first, first + size)
            held = [tables[kind][shape.at[v][some]] for v, kind in enumerate(shape.kinds)]
            held += [messages[f].value[shape.rows[some, number]] for number, f in enumerate(shape.family)]
            n = len(shape.instances[some])
            yield some, eliminate(n, shape.order, (*unary, *shape.scopes), held, best=best)

    def _refuse_wide(self, shape: Shape) -> None:
        if shape.order.largest > LARGEST_SUM:
            number = numbers_of(shape.instances[:1], self.first, self.numbers)[0]
            raise DataError(
                f"a sum over the outputs of instance {number} needs tables of {shape.order.largest} entries, and at "
                f"most {LARGEST_SUM} are allowed: {len(shape.sizes)} variables are tied too closely. Let rows tie the "
                "variables instead (members), or use γ = 0 or an argmax"
            )


class _Message:
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
    ) -> _Message:  # fmt: skip
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


def _leaves(parts: GraphParts) -> list[tuple[int, ...]]:
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


def _shapes(parts: GraphParts, leaves: list[tuple[int, ...]]) -> list[Shape]:
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


def _shape(parts: GraphParts, leaves: list[tuple[int, ...]], gone: list[Any], instances: IntArray) -> Shape:
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
    return Shape(
        instances, sizes, at, kinds, tuple(scopes), tuple(families), listed, order_of(sizes, scopes)
    )  # fmt: skip
