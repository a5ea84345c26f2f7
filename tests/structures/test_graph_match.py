"""Alignments of two graphs against brute force: every one-to-one map of words, edges looked up one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from trellis.constraints.rows import Rows
from trellis.errors import DataError, InfeasibleError
from trellis.search import ilp
from trellis.structures import GraphMatch, GraphMatchParts, GraphPair

from .agreement import assert_logs_agree
from .contract import (
    assert_malformed_changes_are_refused,
    assert_outputs_are_cut_by_instance,
    assert_parts_agree,
    assert_refuses,
    assert_shards_agree,
)
from .enumeration import Enumeration
from .strategies import choices, palettes

drawn = settings(max_examples=30, deadline=None)


@dataclass(frozen=True)
class Case:
    """Graphs as plain lists: (n, m), edges of both sides, word pairs; and a value for each part."""

    graphs: tuple[tuple[tuple[int, int], list, list, list], ...]
    value: np.ndarray

    def structure(self) -> GraphMatch:
        graphs = tuple(GraphPair.of(words, (one, two), pairs) for words, one, two, pairs in self.graphs)
        return GraphMatch(GraphMatchParts(graphs), self.value, first=7)

    def listed(self) -> Enumeration:
        use, score, listings, first = [], [], [], 0
        for words, one, two, pairs in self.graphs:
            names = part_names(words, one, two, pairs)
            maps = all_maps(words, pairs)
            rows = np.zeros((len(maps), len(self.value)), np.bool_)
            for number, mapped in enumerate(maps):
                rows[number, [first + names.index(name) for name in used_names(words, one, two, mapped)]] = True
            use.append(rows)
            score.append(np.array([sum(self.value[row].tolist()) for row in rows], dtype=float))
            listings.append([np.array([dict(mapped).get(v, -1) for v in range(words[0])], np.int64) for mapped in maps])
            first += len(names)

        def assemble(choice: Sequence[int]) -> list[np.ndarray]:
            return [listing[number] for listing, number in zip(listings, choice, strict=True)]

        return Enumeration(len(self.value), use, score, assemble, 7)


def all_maps(words: tuple[int, int], pairs: list) -> list[tuple]:
    """Sets of word pairs in which no word stands twice."""
    found = []
    for size in range(min(words) + 1):
        for some in itertools.combinations(pairs, size):
            if all(len({pair[side] for pair in some}) == size for side in (0, 1)):
                found.append(some)
    return found


def part_names(words: tuple[int, int], one: list, two: list, pairs: list) -> list[tuple]:
    """Parts in their order; edges are sorted."""
    matches = [("edges", e, f) for e in one for f in two if (e[0], f[0]) in pairs and (e[1], f[1]) in pairs]
    deleted = [("word", side, v) for side in (0, 1) for v in range(words[side])]
    gone = [("edge", side, e) for side, edges in enumerate((one, two)) for e in edges]
    return [*(("words", *pair) for pair in pairs), *deleted, *matches, *gone]


def used_names(words: tuple[int, int], one: list, two: list, mapped: tuple) -> list[tuple]:
    to = dict(mapped)
    used = [("words", *pair) for pair in mapped]
    used += [("word", 0, v) for v in range(words[0]) if v not in to]
    used += [("word", 1, v) for v in range(words[1]) if v not in to.values()]
    kept = [(e, (to[e[0]], to[e[1]])) for e in one if e[0] in to and e[1] in to]
    kept = [(e, f) for e, f in kept if f in two]
    used += [("edges", e, f) for e, f in kept]
    used += [("edge", 0, e) for e in one if e not in [k[0] for k in kept]]
    used += [("edge", 1, f) for f in two if f not in [k[1] for k in kept]]
    return used


@st.composite
def cases(draw: st.DrawFn, *, largest: int = 4, palette: list[float] | None = None) -> Case:
    graphs, n_parts = [], 0
    for _ in range(draw(st.integers(0, 3))):
        words = (draw(st.integers(0, largest)), draw(st.integers(0, largest)))
        edges = []
        for n in words:
            every = list(itertools.product(range(n), repeat=2))
            edges.append(sorted(draw(st.lists(st.sampled_from(every), unique=True, max_size=5))) if every else [])
        every = list(itertools.product(range(words[0]), range(words[1])))
        pairs = draw(st.lists(st.sampled_from(every), unique=True, max_size=9)) if every else []
        graphs.append((words, edges[0], edges[1], pairs))
        n_parts += len(part_names(*graphs[-1]))
    chosen = draw(palettes(exact=True)) if palette is None else palette
    value = np.random.default_rng(draw(st.integers(0, 2**32))).choice(chosen, n_parts)
    return Case(tuple(graphs), value)


@given(st.data())
@drawn
def test_parts_agree_with_the_names_of_what_is_mapped(data: st.DataObject) -> None:
    case = data.draw(cases())
    listed, parts = case.listed(), case.structure().parts
    choice = data.draw(choices(listed))
    assert_parts_agree(parts, listed, choice)
    assert_shards_agree(parts)
    assert_outputs_are_cut_by_instance(parts, listed, choice)
    assert_logs_agree(case.structure().score(listed.assemble(choice)), listed.score_of(choice))


@given(st.data(), st.booleans())
@drawn
def test_the_best_alignment_agrees_with_brute_force(data: st.DataObject, random: bool) -> None:
    """Also where some words may not be deleted, and nothing else is forbidden."""
    case = data.draw(cases(palette=data.draw(st.sampled_from([None, [-2.0, -0.7, 0.4, 1.0, 3.0]]))))
    if case.value.size and np.all(case.value > -math.inf):
        flat = case.structure().parts.flat
        deletions = np.concatenate((flat.one, flat.two))
        kept = np.random.default_rng(data.draw(st.integers(0, 99))).random(len(deletions)) < 0.7
        case.value[deletions[~kept]] = -math.inf
    listed, scores = case.listed(), case.structure()
    rng = np.random.default_rng(0) if random else None
    if listed.infeasible:
        with pytest.raises(InfeasibleError) as caught:
            scores.argmax(rng)
        assert set(caught.value.instances) <= set(listed.infeasible)
        return
    best = scores.argmax(rng)
    size = np.abs(case.value[case.value > -math.inf]).max(initial=1.0)
    np.testing.assert_allclose(best.score, listed.best_score, atol=1e-5 * size)
    assert_logs_agree(scores.score(best.outputs), best.score)


@given(cases(largest=3, palette=[-2.0, -0.7, 0.0, 0.4, 1.0, 3.0]))
@drawn
def test_the_program_has_the_alignments_for_its_whole_points(case: Case) -> None:
    listed, scores = case.listed(), case.structure()
    program = scores.polytope(np.zeros(0, np.int64))
    if len(program.score):
        found = milp(
            -program.score, integrality=program.whole.astype(int), bounds=Bounds(0, 1),
            constraints=LinearConstraint(program.matrix, program.bound, program.bound),
        )  # fmt: skip
        assert found.status == 0
        assert abs(-found.fun - listed.best_score.sum()) < 1e-6
        np.testing.assert_allclose(scores.score(program.outputs(found.x)).sum(), listed.best_score.sum(), atol=1e-6)


def test_equal_edges_are_decided_by_search_where_the_relaxation_is_fractional() -> None:
    """Three words in a triangle against three in a line: half-and-half maps are worth 1.3, whole ones 1.1."""
    triangle, line = [(0, 2), (1, 0), (1, 2)], [(1, 0), (2, 1)]
    pairs = list(itertools.product(range(3), range(3)))
    names = part_names((3, 3), triangle, line, pairs)
    value = np.array([{"edges": 1.0, "words": -0.3}.get(name[0], 0.0) for name in names])
    case = Case((((3, 3), triangle, line, pairs),), value)
    scores = case.structure()
    program = ilp.program_of(scores, Rows.none(scores.parts))
    relaxed = ilp.integer.relax(program, 10.0)
    assert not ilp.integer.is_whole(relaxed, program.whole)
    np.testing.assert_allclose(relaxed.bound, 1.3, atol=1e-6)
    np.testing.assert_allclose(scores.argmax().score, case.listed().best_score, atol=1e-9)


def test_what_is_forbidden_is_not_used() -> None:
    case = Case((((2, 2), [], [], [(0, 0), (1, 1), (0, 1)]),), np.array([1.0, 1.0, 3.0, 0, 0, 0, 0]))
    scores = case.structure()
    assert scores.argmax().outputs[0].tolist() == [1, -1]
    assert scores.forbid(np.array([2])).argmax().outputs[0].tolist() == [0, 1]
    assert scores.forbid(np.array([4])).argmax().outputs[0].tolist() == [0, 1]  # word 1 must be mapped
    with pytest.raises(InfeasibleError, match="instance 7"):
        scores.forbid(np.array([1, 4])).argmax()


def test_an_output_that_maps_two_words_to_one_is_impossible() -> None:
    scores = Case((((2, 1), [], [], [(0, 0), (1, 0)]),), np.zeros(5)).structure()
    assert scores.score([np.array([0, 0])]).tolist() == [-math.inf]


def test_mistakes_are_named() -> None:
    scores = Case((((2, 2), [(0, 1)], [(0, 1)], [(0, 0), (1, 1)]),), np.zeros(9)).structure()
    assert_malformed_changes_are_refused(scores)
    assert_refuses(scores.infer, "sums over alignments of two graphs are intractable")
    with pytest.raises(DataError, match="may not be mapped"):
        scores.score([np.array([1, -1])])
    with pytest.raises(DataError, match="outside"):
        GraphPair.of((1, 1), ([(0, 1)], []), [(0, 0)])
    with pytest.raises(DataError, match="twice"):
        GraphPair.of((1, 1), ([], []), [(0, 0), (0, 0)])
