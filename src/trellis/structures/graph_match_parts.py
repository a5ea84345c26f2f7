"""The parts of alignments of two graphs: words and edges of the one that are mapped to those of the other, or deleted.

A pair of graphs has words 0..n−1 and 0..m−1, directed edges between words on each side, and a list of word pairs that
may be mapped. Two edges may be mapped where both their ends may; they are mapped exactly if both are (Chang 2011, eq.
5.8). The parts of a pair of graphs are, one after the other,

    word pairs | deleted words of the first | of the second | edge pairs | deleted edges of the first | of the second

An output is a list with an array (n,) for each pair of graphs: the word that each word of the first is mapped to, or
−1. All else follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from trellis.data.ragged import BoolArray, IntArray, offsets_of
from trellis.errors import DataError
from trellis.structures.linked import LinkedParts

if TYPE_CHECKING:
    from trellis.structures.graph_match import GraphMatch


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
        from trellis.structures.graph_match import GraphMatch

        return GraphMatch(self, np.zeros(self.n_parts))


def _rows(pairs: Any) -> IntArray:
    return np.asarray(pairs, np.int64).reshape(-1, 2)


def _runs(begin: IntArray, length: IntArray) -> IntArray:
    """begin[i], begin[i] + 1, .. of each length, one run after the other."""
    offsets = offsets_of(length)
    return np.arange(offsets[-1]) + np.repeat(begin - offsets[:-1], length)
