"""Every method against trying all outputs."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.constraints import Kind, Norm
from trellis.errors import ConvergenceWarning, InfeasibleError
from trellis.search import Plan, decode, decode_kbest, penalised_value
from trellis.structures import Chain
from trellis.structures.parts import ChainParts

from .problems import LINEAR, Problem, problems, rows_over


def check_exact(problem: Problem, method: str, **options: object) -> None:
    best = problem.best()
    if -math.inf in best:
        with pytest.raises(InfeasibleError) as raised:
            decode(problem.scores, problem.rows, method, **options)
        assert best[raised.value.instances[0]] == -math.inf
        return
    found = decode(problem.scores, problem.rows, method, **options)
    np.testing.assert_allclose(found.value, best, rtol=1e-9, atol=1e-9)
    assert found.proved.all()
    assert (found.gap == 0).all()
    for i, y in enumerate(np.split(found.labels, problem.scores.offsets[1:-1])):
        assert problem.value(i, tuple(y.tolist())) == pytest.approx(found.value[i], rel=1e-12, abs=1e-12)
    np.testing.assert_array_equal(found.score, problem.scores.score(found.labels))


@settings(max_examples=150)
@given(problem=problems())
@pytest.mark.parametrize("method", ["auto", "beam", "astar", "relaxation"])
def test_answers_are_those_of_enumeration_for_all_kinds_of_prices(method: str, problem: Problem) -> None:
    check_exact(problem, method, beam=1000)


@settings(max_examples=80)
@given(problem=problems(kinds=LINEAR))
def test_integer_programs_give_the_answer_of_enumeration(problem: Problem) -> None:
    check_exact(problem, "ilp", beam=2)


@settings(max_examples=100)
@given(problem=problems(), width=st.integers(1, 3))
def test_what_a_narrow_beam_claims_is_true(problem: Problem, width: int) -> None:
    best = problem.best()
    if -math.inf in best:
        return
    found = decode(problem.scores, problem.rows, "beam", beam=width)
    assert (found.value <= np.array(best) + 1e-9).all()
    assert (found.bound >= np.array(best) - 1e-9).all()
    np.testing.assert_allclose(found.value[found.proved], np.array(best)[found.proved], rtol=1e-9, atol=1e-9)
    assert (found.gap[~found.proved] > 0).all()


@settings(max_examples=100)
@given(problem=problems(), width=st.integers(1, 4))
def test_astar_is_never_worse_than_beam(problem: Problem, width: int) -> None:
    if -math.inf in problem.best():
        return
    by_beam = decode(problem.scores, problem.rows, "beam", beam=width)
    by_astar = decode(problem.scores, problem.rows, "astar", beam=width)
    assert (by_astar.value >= by_beam.value - 1e-9).all()


@settings(max_examples=100)
@given(problem=problems(kinds=LINEAR), width=st.integers(1, 2))
def test_asking_for_proof_gets_it(problem: Problem, width: int) -> None:
    check_exact(problem, "auto", beam=width, prove=True, max_nodes=20)


@settings(max_examples=100)
@given(problem=problems(strict=False), width=st.integers(1, 3), nodes=st.integers(1, 8))
def test_beyond_its_cap_astar_gives_the_beam_and_says_so(problem: Problem, width: int, nodes: int) -> None:
    best = np.array(problem.best())
    by_beam = decode(problem.scores, problem.rows, "beam", beam=width)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = decode(problem.scores, problem.rows, "astar", beam=width, max_nodes=nodes)
    said = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    capped = found.method == "beam"
    assert bool(said) == bool(capped.any())
    assert (found.value[capped] >= by_beam.value[capped] - 1e-9).all()
    assert (found.bound >= best - 1e-9).all()
    np.testing.assert_allclose(found.value[found.proved], best[found.proved], rtol=1e-9, atol=1e-9)


@settings(max_examples=60)
@given(problem=problems(), k=st.integers(1, 6))
def test_kbest_are_the_best_in_order(problem: Problem, k: int) -> None:
    if -math.inf in problem.best():
        return
    found = decode_kbest(problem.scores, problem.rows, k, beam=2000)
    assert found.proved.all()
    for i in range(len(problem.scores)):
        values = sorted((v for _, v in problem.outputs(i) if v > -math.inf), reverse=True)[:k]
        padded = values + [-math.inf] * (k - len(values))
        np.testing.assert_allclose(found.value[:, i], padded, rtol=1e-9, atol=1e-9)
        low, high = problem.scores.offsets[i : i + 2]
        there = [tuple(found.labels[j, low:high].tolist()) for j in range(len(values))]
        assert len(set(there)) == len(there)
        assert (found.labels[len(values) :, low:high] == -1).all()


@settings(max_examples=100)
@given(problem=problems())
def test_penalised_value_is_the_objective(problem: Problem) -> None:
    labels = np.random.default_rng(0).integers(0, problem.scores.n_labels, problem.scores.n_slots)
    expected = [
        problem.value(i, tuple(y.tolist())) for i, y in enumerate(np.split(labels, problem.scores.offsets[1:-1]))
    ]
    np.testing.assert_allclose(penalised_value(problem.scores, problem.rows, labels), expected, rtol=1e-12)


@settings(max_examples=60)
@given(problem=problems())
def test_a_plan_is_the_same_as_its_rows(problem: Problem) -> None:
    if -math.inf in problem.best():
        return
    plan = Plan.of(problem.rows)
    ours, theirs = decode(problem.scores, plan), decode(problem.scores, problem.rows)
    np.testing.assert_array_equal(ours.labels, theirs.labels)
    np.testing.assert_array_equal(ours.value, theirs.value)


def test_a_wide_beam_loses_nothing_on_a_longer_problem() -> None:
    n, rng = 9, np.random.default_rng(0)
    scores = Chain([0, n], rng.normal(size=(n, 3)), rng.normal(size=(3, 3)))
    count = [({t * 3 + b: 1.0 for t in range(n)}, 2.0, True) for b in range(3)]
    groups = [{"instance": 0, "kind": Kind.PENALTY, "norm": Norm.L1, "amount": 1.5, "rows": [row]} for row in count]
    problem = Problem(scores, rows_over(ChainParts(np.array([0, n]), 3), groups, []))
    by_width = [decode(scores, problem.rows, "beam", beam=width) for width in (1, 3, 200)]
    assert not by_width[0].proved.any()
    assert by_width[-1].proved.all()
    assert by_width[-1].value[0] == pytest.approx(problem.best()[0], rel=1e-12)
    assert by_width[0].value[0] < by_width[-1].value[0]
