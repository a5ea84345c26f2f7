"""Graphs against a list of all their outputs: what the contract of every structure does not ask."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.constraints.rows import Rows
from trellis.errors import DataError
from trellis.search import decode
from trellis.structures import Graph, GraphParts, Variables, factors_over
from trellis.structures import graph as module
from trellis.structures.graph import best_assignment

from .graph_twin import graph_of, listed
from .strategies import cases

drawn = settings(max_examples=25, deadline=None)


@given(st.data())
@drawn
def test_entropy_clamps_and_best_lists_agree_with_enumeration(data):
    case = data.draw(cases("graph"))
    graph, twin = case.structure(), case.listed()
    entropy = [
        -sum(p * math.log(p) for p in np.exp(score - top) if p > 0)
        for score, top in zip(twin.score, twin.log_partition, strict=True)
    ]
    np.testing.assert_allclose(graph.entropy(), entropy, atol=1e-6)
    found = graph.kbest(3)
    for i, score in enumerate(twin.score):
        best = np.sort(score[score > -math.inf])[::-1][:3]
        np.testing.assert_allclose(found.score[: len(best), i], best, atol=1e-9)
        assert np.all(found.score[len(best) :, i] == -math.inf)
    np.testing.assert_allclose(graph.score(found.labels[0]), found.score[0], atol=1e-9)
    best = graph.argmax().outputs
    known = np.where(np.arange(len(best)) % 2 == 0, best, -1)
    clamped = listed(case.parts, graph.clamp(known).value)
    np.testing.assert_allclose(graph.clamp(known).infer().log_partition, clamped.log_partition, atol=1e-9)


def test_ties_are_broken_by_chance_only_when_asked_for():
    graph = Graph(graph_of([2], (2, 2), ["arguments"]), np.zeros(4 + 4 + 16))
    assert np.all(graph.argmax().outputs == 0)
    rng = np.random.default_rng(0)
    seen = {tuple(graph.argmax(rng).outputs.tolist()) for _ in range(200)}
    assert len(seen) == 16


@pytest.mark.slow
def test_samples_come_as_often_as_their_probability():
    rng = np.random.default_rng(1)
    parts = graph_of([2], (2, 2), ["arguments", "both ways"])
    graph = Graph(parts, rng.normal(size=parts.n_parts))
    drawn_outputs = graph.sample(4000, np.random.default_rng(2))
    marginal = np.mean([np.bincount(parts.of(y), minlength=parts.n_parts) for y in drawn_outputs], axis=0)
    np.testing.assert_allclose(marginal, graph.infer().marginal, atol=0.04)


@pytest.mark.parametrize("seed", range(6))
def test_branch_and_bound_finds_the_best(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    n, k = 5, 3
    unary, pair = rng.normal(size=(n, k)), np.zeros((n, n, k, k))
    unary[0, 2] = -np.inf
    for u, v in itertools.combinations(range(n), 2):
        table = 2.0 * rng.normal(size=(k, k))
        table[rng.random((k, k)) < 0.1] = -np.inf
        pair[u, v], pair[v, u] = table, table.T
    found, value, _ = best_assignment(unary, pair)

    def score(y):
        return sum(unary[v, a] for v, a in enumerate(y)) + sum(
            pair[u, v, y[u], y[v]] for u, v in itertools.combinations(range(n), 2)
        )

    best = max(map(score, itertools.product(range(k), repeat=n)))
    assert value == pytest.approx(best, abs=1e-9)
    assert score(found.tolist()) == pytest.approx(best, abs=1e-9)
    # with a bound that is tightened at once it finds the same
    monkeypatch.setattr("trellis.structures.graph.MANY", 1)
    assert best_assignment(unary, pair)[1] == pytest.approx(best, abs=1e-9)


def test_wide_graphs_have_an_argmax_by_branch_and_bound_that_a_program_confirms(monkeypatch):
    rng = np.random.default_rng(3)
    m = 5
    pairs = [(i, j) for i in range(m) for j in range(m) if i != j]
    variables = (
        Variables("entity", tuple("abc"), np.array([0, m])),
        Variables("relation", tuple("uvw"), np.array([0, len(pairs)]), ("entity", "entity"), np.array(pairs)),
    )
    scope = np.column_stack((pairs, np.arange(len(pairs))))
    parts = GraphParts(
        variables, (factors_over(variables, ("entity", "entity", "relation"), scope, np.array([0, 20])),)
    )
    graph = Graph(parts, rng.normal(size=parts.n_parts))
    exact = graph.argmax()
    monkeypatch.setattr(module, "LARGEST_MAX", 9)
    branched = graph.argmax()
    assert branched.score == pytest.approx(exact.score, abs=1e-9)
    assert graph.score(branched.outputs) == pytest.approx(exact.score, abs=1e-9)
    program = decode(graph, Rows.none(parts), "ilp")
    assert program.value == pytest.approx(exact.score, abs=1e-6)
    monkeypatch.setattr(module, "LARGEST_SUM", 9)
    with pytest.raises(DataError, match=r"instance 0 needs tables of 243 entries"):
        graph.infer()
    # the variables alone always have a sum, and it is never smaller where factors only take away
    assert graph.members().infer().log_partition.shape == (1,)


def test_factors_that_say_nothing_leave_variables_independent_however_many_they_tie(monkeypatch):
    parts = graph_of([3, 2], (2, 3), ["arguments", "both ways"])
    flat = np.zeros(parts.n_parts)
    flat[: parts.starts[2]] = np.random.default_rng(5).normal(size=parts.starts[2])
    flat[1] = -np.inf
    twin = listed(parts, flat)
    monkeypatch.setattr(module, "LARGEST_SUM", 1)
    found = Graph(parts, flat).infer()
    np.testing.assert_allclose(found.log_partition, twin.log_partition, atol=1e-12)
    np.testing.assert_allclose(found.marginal, twin.marginals, atol=1e-12)


def test_a_factor_that_sees_what_is_not_there_is_refused():
    variables = (Variables("type", ("a", "b"), np.array([0, 2])),)
    with pytest.raises(DataError, match="sees type 2, but there are 2"):
        factors_over(variables, ("type", "type"), np.array([[0, 2]]), np.array([0, 1]))
