"""Graph: discrete variables of several kinds, and factors over them.

    p(y) ∝ exp( Σ_v score(v, y_v) + Σ_f score(f, y_f) )

Sums and best outputs are exact where cliques are small (:mod:`elimination`); variables that a single factor sees are
summed out inside it, all factors at once. Where cliques are too large for that, the best output is found by branch and
bound if what is left ties variables two by two, and there is no sum: then the same variables without
factors, :meth:`Graph.members`, are the tractable stand-in on which rows act in expectation
(Samdani et al. 2012, sec. 4.2 and algorithm 2), and 0/1 programs serve any of them.

Branch and bound maximises over variables that are all tied to each other, two by two:

    max_y Σ_v unary_v(y_v) + Σ_{u<v} pair_uv(y_u, y_v)

Variables are fixed one after the other. A prefix can become no better than

    bound = score of what is fixed + Σ_{u open} max_k [ unary_u(k) + Σ_{v fixed} pair_vu(y_v, k)
                                                        + ½ Σ_{w open} max_{k'} pair_uw(k, k') ]

since pair_uw(k, k') is at most either of its two maxima. Prefixes that cannot beat the best output known are dropped;
the most promising few are followed first. What is left when all are gone is proved to be the best. Where that takes
many prefixes, pairs first give to their variables what they can (block-coordinate descent on the dual of the linear
relaxation, MPLP: Globerson & Jaakkola 2007), which makes the bound tight wherever the relaxation is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, owners
from trellis.errors import DataError
from trellis.structures.elimination import Eliminated, GraphShape, Message, eliminate, leaves_of, shapes_of
from trellis.structures.flat import FlatScores, kbest_by_forbidding
from trellis.structures.graph_parts import GraphParts
from trellis.structures.polytope import Polytope, graph_polytope
from trellis.structures.results import Argmax, KBest, PartPosterior
from trellis.structures.structure import check_number_of_samples, expect_scores, numbers_of, refuse_impossible

FOLLOWED = 32
"""Prefixes that are followed together."""
MANY = 2000
"""Prefixes after which it pays to tighten the bound and begin again."""
SWEEPS = 10
"""Passes of the dual over all pairs."""


def best_assignment(unary: FloatArray, pair: FloatArray) -> tuple[IntArray, float, int]:
    """A best assignment, its score, and how many prefixes were looked at.

    unary : (n, K), −inf for labels that a variable does not have
    pair : (n, n, K, K), pair[u, v, a, b] = pair[v, u, b, a], 0 where two are not tied, 0 at [u, u]
    """
    search = _searched(unary, pair, MANY)
    if search is None:
        search = _searched(*_reparametrised(unary, pair), None)
        assert search is not None
    return search.found, search.value, search.seen


def _searched(unary: FloatArray, pair: FloatArray, most: int | None) -> _Search | None:
    """The search at its end; None if it took more than so many prefixes."""
    # the surest first: what they settle, all the others hear
    top = np.sort(unary, axis=1)
    gap = top[:, -1] - (top[:, -2] if unary.shape[1] > 1 else 0.0)
    order = np.argsort(-np.where(np.isfinite(gap), gap, np.inf), kind="stable")
    search = _Search(unary[order], pair[np.ix_(order, order)], most)
    search.follow(0, np.zeros((1, 0), np.int64), np.zeros(1), search.unary[None])
    if search.given_up:
        return None
    search.found = np.empty(len(unary), np.int64)
    search.found[order] = search.best
    return search


def _reparametrised(unary: FloatArray, pair: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same scores, with as much of the pairs in the unary terms as lowers the bound."""
    unary, pair = unary.copy(), pair.copy()
    n = len(unary)
    for _ in range(SWEEPS):
        for u in range(n):
            for v in range(u + 1, n):
                table = pair[u, v]
                if not table.any():
                    continue
                whole = table + unary[u][:, None] + unary[v][None, :]
                mine, theirs = whole.max(axis=1) / 2.0, whole.max(axis=0) / 2.0
                with np.errstate(invalid="ignore"):
                    rest = np.where(whole > -np.inf, whole - mine[:, None] - theirs[None, :], -np.inf)
                unary[u], unary[v], pair[u, v], pair[v, u] = mine, theirs, rest, rest.T
    return unary, pair


class _Search:
    """Depth first, a few prefixes at a time, the most promising first."""

    found: IntArray

    def __init__(self, unary: FloatArray, pair: FloatArray, most: int | None) -> None:
        self.unary, self.pair, self.n, self.most = unary, pair, len(unary), most
        self.best = np.zeros(len(unary), np.int64)
        self.value, self.seen = -np.inf, 0
        half = pair.max(axis=3) / 2.0  # (u, w, k): what u may hope for from w
        half[np.arange(self.n), np.arange(self.n)] = 0.0
        # (level, u, k): from all that are open when ``level`` variables are fixed
        self.hope = np.cumsum(half[:, ::-1], axis=1)[:, ::-1].transpose(1, 0, 2)

    @property
    def given_up(self) -> bool:
        return self.most is not None and self.seen > self.most

    def follow(self, level: int, prefix: IntArray, score: FloatArray, unary: FloatArray) -> None:
        """prefix : (P, level);  unary : (P, n − level, K) unary scores and pairs with what is fixed."""
        if level == self.n:
            at = int(np.argmax(score))
            if score[at] > self.value:
                self.value, self.best = float(score[at]), prefix[at]
            return
        p, k = unary.shape[0], unary.shape[2]
        self.seen += p * k
        if self.given_up:
            return
        parent, label = np.repeat(np.arange(p), k), np.tile(np.arange(k), p)
        new = score[parent] + unary[parent, 0, label]
        further = unary[parent, 1:] + self.pair[level, level + 1 :].transpose(1, 0, 2)[label]
        hope = further + self.hope[level + 1, level + 1 :] if level + 1 < self.n else further
        bound = new + hope.max(axis=2, initial=-np.inf).sum(axis=1) if level + 1 < self.n else new
        order = np.argsort(-bound, kind="stable")
        order = order[bound[order] > -np.inf]
        for first in range(0, len(order), FOLLOWED):
            some = order[first : first + FOLLOWED]
            some = some[bound[some] > self.value]
            if not len(some):
                return
            longer = np.column_stack((prefix[parent[some]], label[some]))
            self.follow(level + 1, longer, new[some], further[some])


LARGEST_SUM = 4**9
"""Entries of a clique up to which sums are taken."""
LARGEST_MAX = 4**6
"""Entries of a clique up to which variables are eliminated for an argmax; beyond, branch and bound is faster."""
TOGETHER = 2**22
"""Entries of the largest table of graphs that are done together."""


class Graph(FlatScores):
    """Scores of the parts of small graphs.

    value : (n_parts,), −inf where something is forbidden

    >>> from trellis.structures.graph_parts import Variables, factors_over
    >>> kinds = (Variables("type", ("A", "B"), np.array([0, 2])),)
    >>> tied = factors_over(kinds, ("type", "type"), np.array([[0, 1]]), np.array([0, 1]))
    >>> differ = Graph(GraphParts(kinds, (tied,)), [1.0, 0.0, 0.5, 0.0, -np.inf, 0.0, 0.0, -np.inf])
    >>> differ.argmax().outputs.tolist(), differ.infer().at(np.arange(4)).round(2).tolist()
    ([0, 1], [0.62, 0.38, 0.38, 0.62])
    """

    _parts: GraphParts

    def __init__(self, parts: GraphParts, value: Any, first: int = 0, numbers: IntArray | None = None) -> None:
        super().__init__(parts, value, first=first)
        self.numbers = numbers

    @property
    def tables(self) -> list[FloatArray]:
        """Of each kind of variables and family of factors (n, size), as views."""
        return self._cut(self.value)

    def _cut(self, flat: FloatArray) -> list[FloatArray]:
        starts = self._parts.starts
        return [flat[starts[n] : starts[n + 1]].reshape(-1, b.size) for n, b in enumerate(self._parts.blocks)]

    def members(self) -> Graph:
        """The variables alone, independent of each other."""
        parts = GraphParts(self._parts.variables)
        return Graph(parts, self.value[: parts.n_parts], self.first, self.numbers)

    # scores

    def take(self, numbers: IntArray) -> Graph:
        parts, own = self._parts.take(numbers)
        return Graph(parts, self.value[own], self.first, numbers_of(numbers, self.first, self.numbers))

    def clamp(self, known: LabelArray) -> Graph:
        """Scores in which only the given labels are possible where they are known (≥ 0)."""
        flat = self.value.copy()
        for block, table, y in zip(
            self._parts.variables, self._cut(flat), self._parts.by_kind(known, unknown=True), strict=False
        ):
            table[(y[:, None] >= 0) & (np.arange(block.size) != y[:, None])] = -np.inf
        return self._over(flat)

    def score(self, outputs: LabelArray) -> FloatArray:
        return self._sums(self._parts.of(outputs))

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

    def _by_instance(self, values: FloatArray) -> FloatArray:
        owner = self._parts.instance_of(np.arange(len(values)))
        return np.bincount(owner, values, minlength=len(self)).astype(np.float64, copy=False)

    def expected_score(self, q: PartPosterior, weights: FloatArray) -> float:
        instance = self._parts.instance_of(np.arange(self._parts.n_parts))
        return float(weights[instance] @ expect_scores(q.marginal, self.value))

    def sample(self, n: int, rng: np.random.Generator) -> LabelArray:
        """Independent samples (n, n_slots)."""
        check_number_of_samples(n)
        self.infer()  # refuses what is impossible
        drawn = [self._chosen(rng, sample=True)[0] for _ in range(n)]
        return np.array(drawn, np.int32).reshape(n, int(self._parts.offsets[-1]))

    def marginal_argmax(self, q: PartPosterior) -> LabelArray:
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

    def _dense(self, shape: GraphShape, row: int, messages: list[Message]) -> tuple[FloatArray, FloatArray]:
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
        """The k best outputs of each instance, best first."""
        return kbest_by_forbidding(self, k)

    def max_marginals(self) -> FloatArray | None:
        if self._parts.factors:
            return None
        best = self.argmax().score
        made = []
        for block, table in zip(self._parts.variables, self.tables, strict=True):
            made.append((table - table.max(axis=1, keepdims=True) + best[owners(block.offsets)][:, None]).reshape(-1))
        return np.concatenate(made)

    def polytope(self, closed: IntArray) -> Polytope:
        return graph_polytope(self._parts, self.value, closed)

    # elimination, graphs of one shape together

    def _messages(self, *, best: bool) -> list[Message]:
        tables, n = self.tables, len(self._parts.variables)
        return [
            Message.of(self._parts, number, tables[n + number], tables, self.leaves[number], best=best)
            for number in range(len(self._parts.factors))
        ]

    @property
    def leaves(self) -> list[tuple[int, ...]]:
        """Of each family the positions whose variables no other factor sees."""
        return self._parts.remembered("leaves", lambda: leaves_of(self._parts))

    @property
    def shapes(self) -> list[GraphShape]:
        return self._parts.remembered("shapes", lambda: shapes_of(self._parts, self.leaves))

    def _eliminated(
        self, shape: GraphShape, messages: list[Message], *, best: bool
    ) -> Iterator[tuple[slice, Eliminated]]:
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

    def _refuse_wide(self, shape: GraphShape) -> None:
        if shape.order.largest > LARGEST_SUM:
            number = numbers_of(shape.instances[:1], self.first, self.numbers)[0]
            raise DataError(
                f"a sum over the outputs of instance {number} needs tables of {shape.order.largest} entries, and at "
                f"most {LARGEST_SUM} are allowed: {len(shape.sizes)} variables are tied too closely. Let rows tie the "
                "variables instead (members), or use γ = 0 or an argmax"
            )
