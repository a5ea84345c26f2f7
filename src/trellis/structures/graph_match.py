"""GraphMatch: one-to-one alignments of the words and edges of two graphs (Chang 2011, eq. 5.6-5.10).

    score(h) = Σ_{word pairs, edge pairs} h · value  +  Σ_{deleted words and edges} value

    Σ_{v2} h(v1, v2) + h(v1, deleted) = 1       every word of either side is mapped once, or deleted    (5.6)
    Σ_{e2} h(e1, e2) + h(e1, deleted) = 1       and so is every edge                                    (5.7)
    h(e1, e2) = 1  exactly if both ends of the one are mapped to those of the other                     (5.8)

The best alignment is a 0/1 program. What is plain is settled first (:mod:`kernels.graph_match`), the rest by the linear
relaxation of many pairs of graphs at once, and by 0/1 search where that is fractional. Sums over all alignments cannot
be had.

A pair of graphs has words 0..n−1 and 0..m−1, directed edges between words on each side, and a list of word pairs that
may be mapped. Two edges may be mapped where both their ends may; they are mapped exactly if both are. The parts of a
pair of graphs are, one after the other,

    word pairs | deleted words of the first | of the second | edge pairs | deleted edges of the first | of the second

An output is a list with an array (n,) for each pair of graphs: the word that each word of the first is mapped to, or
−1. All else follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.errors import DataError, TrellisError
from trellis.structures.flat import FlatScores, LinkedParts
from trellis.structures.integer import WHOLE, ZeroOneProgram, relax, solve
from trellis.structures.kernels import graph_match as kernel
from trellis.structures.polytope import Polytope
from trellis.structures.results import Argmax
from trellis.structures.structure import refuse_impossible


@dataclass(frozen=True)
class GraphPair:
    """Two graphs, and what may be mapped.

    words : how many there are on each side;  edges : of each side (n_edges, 2) words, no edge twice
    pairs : (n_pairs, 2) words that may be mapped, no pair twice
    edge_pairs : (n_edge_pairs, 2) numbers of edges that may be;  ends : (n_edge_pairs, 2) the pairs of their ends
    """

    words: tuple[int, int]
    edges: tuple[IntArray, IntArray]
    pairs: IntArray
    edge_pairs: IntArray
    ends: IntArray

    @classmethod
    def of(cls, words: tuple[int, int], edges: Sequence[Any], pairs: Any) -> GraphPair:
        """The edge pairs are found from the word pairs."""
        mapped = _rows(pairs)
        one, two = (np.unique(_rows(side), axis=0) for side in edges)
        n, m = words
        for what, rows, high in (("pair", mapped, (n, m)), ("edge", one, (n, n)), ("edge", two, (m, m))):
            if len(rows) and (rows.min() < 0 or np.any(rows >= np.array(high))):
                raise DataError(f"a {what} of words lies outside 0..{high[0] - 1} and 0..{high[1] - 1}")
        number = np.full((words[0], words[1]), -1, np.int64)
        number[mapped[:, 0], mapped[:, 1]] = np.arange(len(mapped))
        if np.count_nonzero(number >= 0) != len(mapped):
            raise DataError("a pair of words is listed twice among those that may be mapped")
        heads = number[np.ix_(one[:, 0], two[:, 0])]
        children = number[np.ix_(one[:, 1], two[:, 1])]
        both = np.argwhere((heads >= 0) & (children >= 0))
        at = both[:, 0], both[:, 1]
        return cls(words, (one, two), mapped, both, np.stack((heads[at], children[at]), axis=1))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many parts of each kind there are."""
        one, two = self.edges
        return len(self.pairs), *self.words, len(self.edge_pairs), len(one), len(two)


class Flat(NamedTuple):
    """Numbers of all parts by kind, and what they join, over a whole batch.

    pair, one, two : parts of word pairs and of deleted words;  words : (n_pairs, 2) words of each pair
    edge_pair, edge_one, edge_two : parts of edge pairs and of deleted edges
    edges : (n_edge_pairs, 2) edges of each edge pair;  ends : (n_edge_pairs, 2) its word pairs
    pair_offsets, edge_pair_offsets : (n_instances + 1,)
    """

    pair: IntArray
    one: IntArray
    two: IntArray
    edge_pair: IntArray
    edge_one: IntArray
    edge_two: IntArray
    words: IntArray
    edges: IntArray
    ends: IntArray
    pair_offsets: IntArray
    edge_pair_offsets: IntArray


@dataclass(frozen=True)
class GraphMatchParts(LinkedParts):
    """Parts of the alignments of a batch of :class:`GraphPair`.

    >>> edge = np.array([[0, 1]])
    >>> parts = GraphMatchParts((GraphPair.of((2, 2), (edge, edge), [[0, 0], [1, 1]]),))
    >>> parts.n_parts, parts.of([np.array([0, 1])]).tolist(), parts.of([np.array([0, -1])]).tolist()
    (9, [0, 1, 6], [0, 3, 5, 7, 8])
    """

    graphs: tuple[GraphPair, ...]
    kind = "graph-match"
    outputs_are = "alignments of two graphs"

    @cached_property
    def part_offsets(self) -> IntArray:  # type: ignore[override]
        return offsets_of(sum(graph.sizes) for graph in self.graphs)

    def take(self, numbers: IntArray) -> GraphMatchParts:
        return GraphMatchParts(tuple(self.graphs[i] for i in numbers.tolist()))

    @cached_property
    def flat(self) -> Flat:
        """Parts by kind, numbered over the batch."""
        sizes = np.array([graph.sizes for graph in self.graphs], np.int64).reshape(-1, 6)
        begins = self.part_offsets[:-1, None] + np.cumsum(sizes, axis=1) - sizes
        firsts = np.cumsum(sizes, axis=0) - sizes

        def joined(lists: list[IntArray], first: IntArray, many: IntArray) -> IntArray:
            rows = np.concatenate([np.zeros((0, 2), np.int64), *lists])
            return rows + np.repeat(first, many, axis=0)

        return Flat(
            *(_runs(begins[:, kind], sizes[:, kind]) for kind in range(6)),  # type: ignore[call-arg]
            joined([g.pairs for g in self.graphs], firsts[:, 1:3], sizes[:, 0]),
            joined([g.edge_pairs for g in self.graphs], firsts[:, 4:6], sizes[:, 3]),
            joined([g.ends for g in self.graphs], firsts[:, [0, 0]], sizes[:, 3]),
            offsets_of(sizes[:, 0]),
            offsets_of(sizes[:, 3]),
        )

    def linked_words(self) -> tuple[IntArray, IntArray, IntArray]:
        return self.flat.pair, *self.flat.words.T

    def is_link(self, parts: IntArray) -> BoolArray:
        return np.isin(parts, self.flat.pair)

    def link_places(self, parts: IntArray) -> tuple[IntArray, ...]:
        """The word on either side."""
        places = []
        for words, deleted in zip(self.flat.words.T, (self.flat.one, self.flat.two), strict=True):
            place = np.arange(self.n_parts)
            place[self.flat.pair] = deleted[words]
            places.append(place[parts])
        return tuple(places)

    def of(self, outputs: Any) -> IntArray:
        return self.of_pairs(self.pairs_of(outputs))

    def pairs_of(self, outputs: Any) -> BoolArray:
        """(n_pairs of the batch,) bools: which word pairs an output maps."""
        if len(outputs) != self.n_instances:
            raise DataError(f"{len(outputs)} alignments are not one for each of {self.n_instances} pairs of graphs")
        used = np.zeros(len(self.flat.pair), np.bool_)
        for i, (graph, output) in enumerate(zip(self.graphs, outputs, strict=True)):
            to = np.asarray(output, np.int64)
            if to.shape != (graph.words[0],):
                raise DataError(f"graphs {i}: expected a word for each of {graph.words[0]}, got shape {to.shape}")
            hit = to[graph.pairs[:, 0]] == graph.pairs[:, 1]
            if np.count_nonzero(hit) != np.count_nonzero(to != -1):
                raise DataError(f"graphs {i}: a word is mapped to one that it may not be mapped to")
            used[self.flat.pair_offsets[i] : self.flat.pair_offsets[i + 1]] = hit
        return used

    def of_pairs(self, used: Any) -> IntArray:
        """The parts that go with mapped word pairs (n_pairs,) bools."""
        f = self.flat
        matched = used[f.ends[:, 0]] & used[f.ends[:, 1]] if len(f.ends) else np.zeros(0, np.bool_)
        parts = [f.pair[used], f.edge_pair[matched]]
        for deleted, taken in (
            (f.one, f.words[used, 0]), (f.two, f.words[used, 1]), (f.edge_one, f.edges[matched, 0]),
            (f.edge_two, f.edges[matched, 1]),
        ):  # fmt: skip
            left = np.ones(len(deleted), np.bool_)
            left[taken] = False
            parts.append(deleted[left])
        return np.sort(np.concatenate(parts))

    def outputs_of(self, used: Any) -> list[IntArray]:
        """The output that maps these word pairs (n_pairs,) bools."""
        made = []
        for i, graph in enumerate(self.graphs):
            mapped = graph.pairs[used[self.flat.pair_offsets[i] : self.flat.pair_offsets[i + 1]]]
            to = np.full(graph.words[0], -1, np.int64)
            to[mapped[:, 0]] = mapped[:, 1]
            made.append(to)
        return made

    def zeros(self) -> GraphMatch:

        return GraphMatch(self, np.zeros(self.n_parts))


def _rows(pairs: Any) -> IntArray:
    return np.asarray(pairs, np.int64).reshape(-1, 2)


def _runs(begin: IntArray, length: IntArray) -> IntArray:
    """begin[i], begin[i] + 1, .. of each length, one run after the other."""
    offsets = offsets_of(length)
    return np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], length)


AT_ONCE = 16
"""Pairs of graphs in one linear program."""
TIME_LIMIT = 600.0
"""Seconds for one program."""
TIE = 1e-7
"""By how much random numbers move scores, relative to the largest, to choose among equals."""


class GraphMatch(FlatScores):
    """Scores of the parts of :class:`GraphMatchParts`, (n_parts,).

    >>> from trellis.structures import GraphMatchParts, GraphPair
    >>> edge = np.array([[0, 1]])
    >>> parts = GraphMatchParts((GraphPair.of((2, 2), (edge, edge), [[0, 0], [1, 1], [0, 1], [1, 0]]),))
    >>> worth = np.array([1.0, -0.5, 0.8, 0.8, 0, 0, 0, 0, 1.0, 0, 0])  # the pairs, deletions, the edge, deletions
    >>> GraphMatch(parts, worth).argmax().outputs[0].tolist()  # straight ones are worth 1.5
    [1, 0]
    """

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """A best alignment of each pair of graphs, proved to be one up to the solver's tolerance."""
        scores = self
        if rng is not None:
            finite = self.value[self.value > -np.inf]
            size = TIE * max(1.0, float(np.abs(finite).max(initial=0.0)))
            scores = self._over(self.value + size * rng.random(len(self.value)))
        state = scores._settled()
        offsets = self._parts.flat.pair_offsets
        left = np.flatnonzero(np.add.reduceat(np.append(state == 0, False), offsets[:-1]) * (np.diff(offsets) > 0))
        impossible = np.zeros(len(self))
        for start in range(0, len(left), AT_ONCE):
            some = left[start : start + AT_ONCE]
            impossible[scores._decide(some, state)] = -np.inf
        refuse_impossible(impossible, self.first, self.numbers)
        used = state == 1
        outputs = self._parts.outputs_of(used)
        best = self._sums(self._parts.of_pairs(used))
        refuse_impossible(best, self.first, self.numbers)
        return Argmax(outputs, best)

    def _settled(self) -> IntArray:
        """(n_pairs,): 1 for word pairs that are plainly mapped, −1 for those that plainly are not, 0 for the others."""
        f, value = self._parts.flat, self.value
        state = np.zeros(len(f.pair), np.int64)
        closed = value == -np.inf
        must = closed[f.one], closed[f.two]
        closed[f.one], closed[f.two] = False, False
        finite = np.bincount(self._parts.instance_of(np.flatnonzero(closed)), minlength=len(self)) == 0
        known = np.where(value > -np.inf, value, 0.0)
        gain = known[f.pair] - known[f.one[f.words[:, 0]]] - known[f.two[f.words[:, 1]]]
        edge_gain = known[f.edge_pair] - known[f.edge_one[f.edges[:, 0]]] - known[f.edge_two[f.edges[:, 1]]]
        wanted = np.zeros(len(f.one), np.int64), np.zeros(len(f.two), np.int64)
        kernel.settle(f.pair_offsets, f.edge_pair_offsets, f.words, f.ends, gain, edge_gain, *must, state, *wanted)
        # Where more is forbidden than deletions, what is worth most need not be allowed: the program answers there.
        state[np.repeat(~finite, np.diff(f.pair_offsets))] = 0
        return state

    def _decide(self, some: IntArray, state: IntArray) -> IntArray:
        """Settle the open word pairs of some instances, in place; the numbers of those without any alignment."""
        offsets = self._parts.flat.pair_offsets
        batch = self.take(some)
        spans = [slice(int(offsets[i]), int(offsets[i + 1])) for i in some.tolist()]
        known = np.concatenate([np.zeros(0, np.int64), *(state[span] for span in spans)])
        x, ok = batch._point(known, relax)
        own = batch._parts.flat.pair_offsets
        if not ok and len(some) == 1:
            return some
        for number, (i, span) in enumerate(zip(some.tolist(), spans, strict=True)):
            mine = x[own[number] : own[number + 1]]
            if ok and np.all(np.minimum(np.abs(mine), np.abs(mine - 1.0)) <= WHOLE):
                state[span] = np.where(mine > 0.5, 1, -1)
                continue
            exact, found = batch.instances(number, number + 1)._point(known[own[number] : own[number + 1]], None)
            if not found:
                return np.array([i])
            state[span] = np.where(exact > 0.5, 1, -1)
        return some[:0]

    def _point(self, known: IntArray, relaxed: Any) -> tuple[FloatArray, bool]:
        """Values of the word pairs at the best point of the relaxation or, without one, of the program itself."""
        p = self._parts
        polytope = self.polytope(p.flat.pair[known == -1])
        program = ZeroOneProgram(
            polytope.matrix, polytope.bound, polytope.bound, -polytope.score, np.ones(len(polytope.score))
        )
        found = solve(program, polytope.whole, TIME_LIMIT) if relaxed is None else relaxed(program, TIME_LIMIT)
        if found.variables is None:
            if found.bound == np.inf and relaxed is None:
                raise TrellisError(f"no best alignment of two graphs was found in {TIME_LIMIT:g} seconds")
            return np.zeros(len(p.flat.pair)), False
        return np.asarray((polytope.use @ found.variables)[p.flat.pair]), True

    def score(self, outputs: Any) -> FloatArray:
        used = self._parts.pairs_of(outputs)
        f = self._parts.flat
        scores = self._sums(self._parts.of_pairs(used))
        for side, words in ((0, f.one), (1, f.two)):
            often = np.bincount(f.words[used, side], minlength=len(words))
            scores[self._parts.instance_of(words[often > 1])] = -np.inf
        return scores

    def polytope(self, closed: IntArray) -> Polytope:
        """Eq. 5.6-5.8, with a variable of slack for each row of 5.8."""
        from scipy.sparse import csr_array

        f, n = self._parts.flat, self._parts.n_parts
        n_pairs, n_ends = len(f.pair), len(f.ends)
        row, column, sign, bound = _once(
            (f.one, f.pair, f.words[:, 0]), (f.two, f.pair, f.words[:, 1]),
            (f.edge_one, f.edge_pair, f.edges[:, 0]), (f.edge_two, f.edge_pair, f.edges[:, 1]),
        )  # fmt: skip
        first, second = (f.pair[f.ends[:, k]] if n_pairs else f.ends[:, k] for k in range(2))
        start, slack, one = len(bound), n + np.arange(3 * n_ends), np.ones(n_ends)
        rows = start + np.arange(3 * n_ends)
        both, either, other = rows[:n_ends], rows[n_ends : 2 * n_ends], rows[2 * n_ends :]
        for r, c, s in (
            (both, first, one), (both, second, one), (both, f.edge_pair, -one), (either, first, one),
            (either, f.edge_pair, -one), (other, second, one), (other, f.edge_pair, -one),
            (rows, slack, np.concatenate((one, -one, -one))),
        ):  # fmt: skip
            row.append(r)
            column.append(c)
            sign.append(s)
        bound = np.concatenate((bound, one, np.zeros(2 * n_ends)))
        is_open = np.append(self.value > -np.inf, np.ones(3 * n_ends, np.bool_))
        is_open[closed] = False
        kept = np.flatnonzero(is_open)
        entries = np.concatenate(sign), (np.concatenate(row), np.concatenate(column))
        whole = np.zeros(n + 3 * n_ends, np.bool_)
        whole[f.pair] = True
        n_used = int(np.count_nonzero(kept < n))
        use = csr_array((np.ones(n_used), (kept[:n_used], np.arange(n_used))), shape=(n, len(kept)))

        def outputs(x: FloatArray) -> list[IntArray]:
            made: list[IntArray] = self._parts.outputs_of(np.asarray(use @ x)[f.pair] > 0.5)
            return made

        return Polytope(
            matrix=csr_array(entries, shape=(len(bound), n + 3 * n_ends))[:, kept],
            bound=bound,
            use=use,
            score=np.concatenate((self.value, np.zeros(3 * n_ends)))[kept],
            whole=whole[kept],
            outputs=outputs,
        )


def _once(*kinds: tuple[IntArray, IntArray, IntArray]) -> tuple[list[IntArray], list[IntArray], list[Any], FloatArray]:
    """Equations  Σ pairs of a thing + its deletion = 1  as rows, columns and signs, and their bounds.

    kinds : parts of deletions (n,), parts of pairs, and the thing of each pair
    """
    row: list[IntArray] = []
    column: list[IntArray] = []
    start = 0
    for deleted, pair, thing in kinds:
        row += [start + np.arange(len(deleted)), start + thing]
        column += [deleted, pair]
        start += len(deleted)
    return row, column, [np.ones(len(r)) for r in row], np.ones(start)
