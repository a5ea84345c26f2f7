"""Every method against trying all outputs."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structures.subsets import Subsets

from trellis.constraints.strength import Kind, Norm
from trellis.errors import ConvergenceWarning, InfeasibleError
from trellis.search import Plan, decode, decode_kbest, penalised_value
from trellis.structures import Alignment, Categorical, Chain, ChainParts, Joint, Structure

from .permutations import Permutations
from .problems import KINDS, LINEAR, Problem, key_of, listing, problems, rows_over

pytestmark = pytest.mark.slow


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
    np.testing.assert_allclose(problem.values(found.outputs), found.value, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.score, problem.scores.score(found.outputs))


@settings(max_examples=75)
@given(data=st.data())
@pytest.mark.parametrize("method", ["auto", "beam", "astar"])
@pytest.mark.parametrize("kind", ["chain", "categorical"])
def test_answers_are_those_of_enumeration_for_all_kinds_of_prices(kind: str, method: str, data: st.DataObject) -> None:
    check_exact(data.draw(problems(kind)), method, beam=1000)


@settings(max_examples=40)
@given(data=st.data())
@pytest.mark.parametrize("method", ["auto", "ilp"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_structure_is_decoded_with_proof(kind: str, method: str, data: st.DataObject) -> None:
    check_exact(data.draw(problems(kind, kinds=LINEAR)), method, beam=2, prove=True)


@pytest.mark.parametrize("strength, norm", LINEAR)
@pytest.mark.parametrize("kind", KINDS)
def test_every_strength_that_has_a_linear_program_is_searched(kind: str, strength: Kind, norm: Norm) -> None:
    """Two rows over half of all parts, which no part of a structure can price by itself: little is folded here."""
    searched = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        made = {
            "chain": Chain([0, 3], rng.normal(size=(3, 2)), rng.normal(size=(2, 2))),
            "categorical": Categorical(rng.normal(size=(1, 4))),
            "alignment": Alignment([2], [2], rng.normal(size=4), rng.normal(size=2), forward=bool(seed % 2)),
            "subsets": Subsets([0, 4], rng.normal(size=4), least=1),
            "permutations": Permutations(rng.normal(size=(1, 3, 3))),
        }
        members = [made[name] for name in kind.split("+")]
        scores: Structure = members[0] if len(members) == 1 else Joint(*members)
        outputs = [used for _, used in listing(scores, 0)]
        pool = sorted(set().union(*outputs))
        meets = outputs[int(rng.integers(len(outputs)))]
        rows = []
        for equality in (False, True):
            entries = {p: float(rng.choice([-2, -1, 1, 2])) for p in pool if rng.random() < 0.5}
            rows.append((entries, sum(c for p, c in entries.items() if p in meets), equality))
        amount = 0.0 if strength == Kind.HARD else 1.0
        group = {"instance": 0, "kind": strength, "norm": norm, "amount": amount, "rows": rows}
        problem = Problem(scores, rows_over(scores.parts, [group], []))
        check_exact(problem, "ilp", beam=1)
        searched += decode(scores, problem.rows, "ilp", beam=1).method[0] == "ilp"
    assert searched >= (0 if kind == "categorical" else 2)  # all parts of a categorical are of one place


@settings(max_examples=50)
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


@settings(max_examples=50)
@given(problem=problems(), width=st.integers(1, 4))
def test_astar_is_never_worse_than_beam(problem: Problem, width: int) -> None:
    if -math.inf in problem.best():
        return
    by_beam = decode(problem.scores, problem.rows, "beam", beam=width)
    by_astar = decode(problem.scores, problem.rows, "astar", beam=width)
    assert (by_astar.value >= by_beam.value - 1e-9).all()


@settings(max_examples=50)
@given(problem=problems(kinds=LINEAR), width=st.integers(1, 2))
def test_asking_for_proof_gets_it(problem: Problem, width: int) -> None:
    check_exact(problem, "auto", beam=width, prove=True, max_nodes=20)


@settings(max_examples=50)
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


@settings(max_examples=30)
@given(data=st.data(), k=st.integers(1, 6))
@pytest.mark.parametrize("kind", KINDS)
def test_kbest_are_the_best_in_order(kind: str, data: st.DataObject, k: int) -> None:
    problem = data.draw(problems(kind) if kind in ("chain", "categorical") else problems(kind, kinds=LINEAR))
    if -math.inf in problem.best():
        return
    found = decode_kbest(problem.scores, problem.rows, k, beam=2000)
    assert found.proved.all()
    assert len(found.outputs) == k
    by_place = [[key_of(y) for y in problem.scores.parts.split_outputs(outputs)] for outputs in found.outputs]
    for i in range(len(problem.scores)):
        of_outputs = problem.outputs(i)
        values = sorted((v for v in of_outputs.values() if v > -math.inf), reverse=True)[:k]
        padded = values + [-math.inf] * (k - len(values))
        np.testing.assert_allclose(found.value[:, i], padded, rtol=1e-9, atol=1e-9)
        there = [by_place[j][i] for j in range(len(values))]
        assert len(set(there)) == len(there)
        np.testing.assert_allclose([of_outputs[key] for key in there], values, rtol=1e-9, atol=1e-9)
        assert all(by_place[j][i] == there[0] for j in range(len(values), k))
        assert (found.score[len(values) :, i] == -np.inf).all()


@settings(max_examples=30)
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_penalised_value_is_the_objective(kind: str, data: st.DataObject) -> None:
    problem = data.draw(problems(kind))
    # outputs that have nothing to do with the problem: the best of other scores
    part = np.arange(problem.scores.parts.n_parts)
    outputs = problem.scores.parts.zeros().add(part, np.random.default_rng(0).normal(size=len(part))).argmax().outputs
    found = penalised_value(problem.scores, problem.rows, outputs)
    np.testing.assert_allclose(found, problem.values(outputs), rtol=1e-12, atol=1e-12)


@settings(max_examples=30)
@given(problem=problems())
def test_a_plan_is_the_same_as_its_rows(problem: Problem) -> None:
    if -math.inf in problem.best():
        return
    plan = Plan.of(problem.rows)
    ours, theirs = decode(problem.scores, plan), decode(problem.scores, problem.rows)
    np.testing.assert_array_equal(ours.outputs, theirs.outputs)
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
