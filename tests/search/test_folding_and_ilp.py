"""Prices that factor, plain argmax, and integer programs beside each other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.constraints import compile_constraints, count, label, position, previous, starts, word
from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, DataError
from trellis.search import Plan, decode, ilp
from trellis.structures import Chain, ChainParts, Joint

from .problems import KINDS, LINEAR, Problem, key_of, problems, rows_over

pytestmark = pytest.mark.slow

LABELS = Vocabulary(["A", "B", "C"])
BATCH = Batch.from_sentences([["a", ",", "b", "c"], [], ["x", "y", ",", "z", "a"]])


def random_chain(seed: int, batch: Batch = BATCH, k: int = 3) -> Chain:
    rng = np.random.default_rng(seed)
    n = int(batch.offsets[-1])
    return Chain(batch.offsets, rng.normal(size=(n, k)), rng.normal(size=(k, k)), start=rng.normal(size=k))


def integer_program(problem: Problem, i: int, solver: str | None = None) -> tuple[Any, float]:
    """The best output of instance i by the program of its rows as they are, nothing folded, and the bound."""
    program = ilp.program_of(problem.scores.instances(i, i + 1), problem.rows.canonical().shard(i, i + 1))
    found = ilp.solve(program, 10.0, solver)
    return None if found.variables is None else program.outputs(found.variables), found.bound


@settings(max_examples=30)
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_without_rows_the_answer_is_argmax_to_the_bit(kind: str, data: st.DataObject) -> None:
    problem = data.draw(problems(kind, most_groups=0))
    if -math.inf in problem.best() or len(problem.rows.forbidden):
        return
    best = problem.scores.argmax()
    served = ("beam", "astar") if kind in ("chain", "categorical") else ()
    for method in ("auto", "argmax", "ilp", *served):
        found = decode(problem.scores, problem.rows, method)
        np.testing.assert_array_equal(problem.scores.parts.of(found.outputs), problem.scores.parts.of(best.outputs))
        np.testing.assert_array_equal(found.score, problem.scores.score(best.outputs))
        np.testing.assert_array_equal(found.value, found.score)
        assert found.proved.all()
        assert set(found.method.tolist()) == {"argmax"}


@pytest.mark.parametrize("seed", range(5))
def test_rules_of_single_tokens_and_pairs_factor(seed: int) -> None:
    rules = [
        word.isin("a", "x").implies(label("B")).constraint().penalty(1.5),
        (previous("A") & label("C")).implies(word.isin(",")).constraint().penalty(0.7),
        position.first.implies(label("A")),
        (count("C") == 0).penalty(0.4),
    ]
    rows = compile_constraints(rules, BATCH, LABELS, ChainParts(BATCH.offsets, 3))
    plan = Plan.of(rows)
    assert len(plan.remaining.rows) == 0
    scores = random_chain(seed)
    found = decode(scores, rows, "argmax")
    np.testing.assert_allclose(found.value, Problem(scores, rows).best(), rtol=1e-12)
    assert found.proved.all()
    for i in range(3):
        output, bound = integer_program(Problem(scores, rows), i)
        np.testing.assert_array_equal(output, found.outputs[BATCH.offsets[i] : BATCH.offsets[i + 1]])
        assert bound == pytest.approx(found.value[i], abs=1e-6)


@pytest.mark.parametrize("strength", ["squared", "slack"])
def test_prices_of_single_places_factor_however_they_are_priced(strength: str) -> None:
    """One row per token, priced by itself: an output uses at most one of the parts that a row names."""
    rules = [word.isin("a", "x").implies(label("B")), (previous("A") & label("C")).implies(word.isin(","))]
    made = [
        r.constraint().penalty(1.5, "squared") if strength == "squared" else r.constraint().slack(0.5) for r in rules
    ]
    rows = compile_constraints(made, BATCH, LABELS, ChainParts(BATCH.offsets, 3))
    assert len(rows) > 4
    assert len(Plan.of(rows).remaining.rows) == 0
    for seed in range(5):
        scores = random_chain(seed)
        np.testing.assert_allclose(decode(scores, rows, "argmax").value, Problem(scores, rows).best(), rtol=1e-12)


@settings(max_examples=50)
@given(problem=problems("categorical"))
def test_all_rows_of_a_categorical_factor_that_allow_to_use_none_of_their_parts(problem: Problem) -> None:
    left = Plan.of(problem.rows).remaining.rows
    none = left.excess(np.zeros(len(left)))
    strict = (left.groups.kind == Kind.HARD) | (left.groups.kind == Kind.SLACK)
    assert strict[left.group].all()
    assert all(none[left.group == g].sum() > left.groups.amount[g] for g in range(len(left.groups)))


def test_alike_additions_share_an_edge_matrix() -> None:
    batch = Batch.from_sentences([["a", ",", "b"] * 50])
    rule = (previous("A") & label("B")).implies(word.isin(",")).constraint().penalty(1.0)
    plan = Plan.of(compile_constraints([rule], batch, LABELS, ChainParts(batch.offsets, 3)))
    assert plan.change.patterns.shape[0] == 2
    assert plan.change.node is None


def test_argmax_refuses_what_does_not_factor_by_name() -> None:
    rows = compile_constraints([(starts("A") <= 1).named("A once")], BATCH, LABELS, ChainParts(BATCH.offsets, 3))
    with pytest.raises(ConstraintError, match="'A once' does not factor.*'beam'"):
        decode(random_chain(0), rows, "argmax")


@settings(max_examples=20)
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_highspy_and_scipy_agree(kind: str, data: st.DataObject) -> None:
    problem = data.draw(problems(kind, kinds=LINEAR))
    for i in range(len(problem.scores)):
        values = problem.outputs(i)
        best = max(values.values())
        for solver in ("highspy", "scipy"):
            output, bound = integer_program(problem, i, solver)
            assert (output is None) == (best == -math.inf)
            if output is None:
                assert bound == -math.inf
            else:
                assert values[key_of(output)] == pytest.approx(best, abs=1e-6)
                assert bound == pytest.approx(best, abs=1e-4)


def test_the_relaxation_is_fractional_where_rows_make_it_so_and_the_answer_is_not() -> None:
    # at most 1 of two labels by half weights: the relaxation takes halves
    parts = ChainParts(np.array([0, 3]), 2)
    rows = [({parts.label(s, 1): 1.0, parts.label(t, 1): 1.0}, 1.0, False) for s, t in ((0, 1), (1, 2), (0, 2))]
    problem = Problem(
        Chain([0, 3], np.array([[0.0, 1.0]] * 3), np.zeros((2, 2))),
        rows_over(parts, [{"instance": 0, "kind": Kind.HARD, "norm": Norm.LINF, "amount": 0.0, "rows": rows}], []),
    )
    for solver in ("highspy", "scipy"):
        output, bound = integer_program(problem, 0, solver)
        assert output.sum() == 1
        assert bound == pytest.approx(1.0, abs=1e-6)


def test_an_integer_program_out_of_time_leaves_a_true_bound() -> None:
    rng = np.random.default_rng(0)
    n, k = 30, 5
    parts = ChainParts(np.array([0, n]), k)
    groups = [
        {
            "instance": 0, "kind": Kind.PENALTY, "norm": Norm.L1, "amount": 1.0,
            "rows": [({p: float(rng.normal()) for p in range(n * k)}, 0.3, True)],
        }
        for _ in range(4)
    ]  # fmt: skip
    scores, rows = Chain([0, n], rng.normal(size=(n, k)), rng.normal(size=(k, k))), rows_over(parts, groups, [])
    found = decode(scores, rows, "ilp", beam=5, time_limit=1e-3)
    better = decode(scores, rows, "beam", beam=500)
    assert not found.proved[0]
    assert 0 < found.gap[0] < math.inf
    assert found.bound[0] >= better.value[0] - 1e-9


def test_integer_programs_refuse_curved_prices_and_name_what_takes_them() -> None:
    rules = [(count("A") >= 2).penalty(1.0, "squared").named("two A")]
    rows = compile_constraints(rules, BATCH, LABELS, ChainParts(BATCH.offsets, 3))
    scores = random_chain(0).clamp(np.zeros(9, dtype=np.int32) + 1)
    with pytest.raises(ConstraintError, match="'two A' is not linear.*'beam' or 'astar'"):
        decode(scores, rows, "ilp")
    assert decode(scores, rows, "auto", prove=True).proved.all()
    # two members, of which only integer programs know
    both = Joint(scores, scores)
    twice = replace(rows, parts=both.parts)
    with pytest.raises(ConstraintError, match="'two A' is not linear.*in the norm 'l1' or 'linf'"):
        decode(both, twice)


def test_an_unknown_solver_is_refused() -> None:
    scores = random_chain(0).instances(0, 1)
    with pytest.raises(DataError, match="'highspy', 'scipy', got 'glpk'"):
        ilp.solve(ilp.program_of(scores, Rows.none(scores.parts)), 1.0, "glpk")


def test_parts_that_no_better_output_uses_have_no_variable() -> None:
    scores = random_chain(0).instances(2, 3)
    best, rows = float(scores.argmax().score[0]), Rows.none(scores.parts)
    every = ilp.program_of(scores, rows)
    few = ilp.program_of(scores, rows, least=best)
    assert len(few.cost) < len(every.cost) / 2
    for program in (every, few):
        found = ilp.solve(program, 10.0)
        assert found.variables is not None
        assert found.bound == pytest.approx(best)
        np.testing.assert_array_equal(program.outputs(found.variables), scores.argmax().outputs)
