"""Prices that factor, plain Viterbi, and integer programs beside each other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.constraints import Kind, Norm, Rows, compile_constraints, count, label, position, previous, starts, word
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, DataError
from trellis.search import Plan, decode, ilp
from trellis.search.single import rows_of, scores_of
from trellis.structures import Categorical, Chain
from trellis.structures.parts import ChainParts

from .problems import LINEAR, Problem, problems, rows_over

LABELS = Vocabulary(["A", "B", "C"])
BATCH = Batch.from_sentences([["a", ",", "b", "c"], [], ["x", "y", ",", "z", "a"]])


def random_chain(seed: int, batch: Batch = BATCH, k: int = 3) -> Chain:
    rng = np.random.default_rng(seed)
    n = int(batch.offsets[-1])
    return Chain(batch.offsets, rng.normal(size=(n, k)), rng.normal(size=(k, k)), start=rng.normal(size=k))


@settings(max_examples=100)
@given(problem=problems(most_groups=0))
def test_without_rows_the_answer_is_argmax_to_the_bit(problem: Problem) -> None:
    if -math.inf in problem.best() or len(problem.rows.forbidden):
        return
    best = problem.scores.argmax()
    for method in ("auto", "viterbi", "beam", "astar", "ilp", "relaxation"):
        found = decode(problem.scores, problem.rows, method)
        np.testing.assert_array_equal(found.labels, best.labels)
        np.testing.assert_array_equal(found.score, best.score)
        np.testing.assert_array_equal(found.value, best.score)
        assert found.proved.all()
        assert set(found.method.tolist()) == {"viterbi"}


@pytest.mark.parametrize("seed", range(5))
def test_rules_of_single_tokens_and_pairs_factor(seed: int) -> None:
    rules = [
        word.isin("a", "x").implies(label("B")).constraint().penalty(1.5),
        (previous("A") & label("C")).implies(word.isin(",")).constraint().penalty(0.7),
        position.first.implies(label("A")),
        (count("C") == 0).penalty(0.4),
    ]
    rows = compile_constraints(rules, BATCH, LABELS)
    plan = Plan.of(rows)
    assert len(plan.remaining.rows) == 0
    scores = random_chain(seed)
    found = decode(scores, rows, "viterbi")
    np.testing.assert_allclose(found.value, Problem(scores, rows).best(), rtol=1e-12)
    assert found.proved.all()
    for i in (0, 2):
        # the integer program of the rows as they are, nothing folded
        by_ilp = ilp.solve(scores_of(scores, i), rows_of(rows.canonical(), i), time_limit=10)
        assert by_ilp.labels is not None
        mine = found.labels[BATCH.offsets[i] : BATCH.offsets[i + 1]]
        np.testing.assert_array_equal(by_ilp.labels, mine)
        assert by_ilp.bound == pytest.approx(found.value[i], abs=1e-6)


def test_alike_additions_share_an_edge_matrix() -> None:
    batch = Batch.from_sentences([["a", ",", "b"] * 50])
    rule = (previous("A") & label("B")).implies(word.isin(",")).constraint().penalty(1.0)
    plan = Plan.of(compile_constraints([rule], batch, LABELS))
    assert plan.additions.patterns.shape[0] == 2
    assert plan.additions.node is None


def test_viterbi_refuses_what_does_not_factor_by_name() -> None:
    rows = compile_constraints([(starts("A") <= 1).named("A once")], BATCH, LABELS)
    with pytest.raises(ConstraintError, match="'A once' does not factor.*'beam'"):
        decode(random_chain(0), rows, "viterbi")


@settings(max_examples=60)
@given(problem=problems(kinds=LINEAR))
def test_highspy_and_scipy_agree(problem: Problem) -> None:
    rows = problem.rows.canonical()
    for i in range(len(problem.scores)):
        one = scores_of(problem.scores, i)
        if one.n_slots == 0:
            continue
        ours = [
            ilp.solve(one, rows_of(rows, i), time_limit=10, solver=solver)
            for solver in ("highspy", "scipy")
        ]  # fmt: skip
        allowed = [y for y, v in problem.outputs(i) if v > -math.inf]
        for answer in ours:
            assert (answer.labels is None) == (not allowed)
            if answer.labels is None:
                assert answer.bound == -math.inf
            else:
                best = max(v for _, v in problem.outputs(i))
                assert problem.value(i, tuple(answer.labels.tolist())) == pytest.approx(best, abs=1e-6)
                assert answer.bound == pytest.approx(best, abs=1e-4)


def test_the_relaxation_is_fractional_where_rows_make_it_so_and_the_answer_is_not() -> None:
    # at most 1 of two labels by half weights: the relaxation takes halves
    parts = ChainParts(np.array([0, 3]), 2)
    rows = [({parts.node(s, 1): 1.0, parts.node(t, 1): 1.0}, 1.0, False) for s, t in ((0, 1), (1, 2), (0, 2))]
    problem = Problem(
        Chain([0, 3], np.array([[0.0, 1.0]] * 3), np.zeros((2, 2))),
        rows_over(parts, [{"instance": 0, "kind": Kind.HARD, "norm": Norm.LINF, "amount": 0.0, "rows": rows}], []),
    )
    for solver in ("highspy", "scipy"):
        found = ilp.solve(problem.scores, problem.rows, time_limit=10, solver=solver)
        assert found.labels is not None
        assert found.labels.sum() == 1
        assert found.bound == pytest.approx(1.0, abs=1e-6)


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
    rows = compile_constraints([(count("A") >= 2).penalty(1.0, "squared").named("two A")], BATCH, LABELS)
    scores = random_chain(0).clamp(np.zeros(9, dtype=np.int32) + 1)
    with pytest.raises(ConstraintError, match="'two A' is not linear.*'beam', 'astar' or 'relaxation'"):
        decode(scores, rows, "ilp")
    assert decode(scores, rows, "auto", prove=True).proved.all()


def test_an_unknown_solver_is_refused() -> None:
    with pytest.raises(DataError, match="'highspy', 'scipy', got 'glpk'"):
        ilp.solve(random_chain(0), Rows.none(random_chain(0).parts), time_limit=1, solver="glpk")


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), price=st.sampled_from([None, 0.5, 3.0]), method=st.sampled_from(["auto", "ilp"]))
def test_a_categorical_is_decoded_as_well(seed: int, price: float | None, method: str) -> None:
    rng = np.random.default_rng(seed)
    scores = Categorical(rng.normal(size=(3, 4)))
    parts = ChainParts(np.arange(4), 4)
    kind = Kind.HARD if price is None else Kind.PENALTY
    row = ({4 + k: float(k) for k in range(4)}, 1.0, bool(seed % 2))
    group = {"instance": 1, "kind": kind, "norm": Norm.L1, "amount": price or 0.0, "rows": [row]}
    rows = rows_over(parts, [group], [0])
    twin = Problem(Chain(np.arange(4), scores.node, np.zeros((4, 4))), rows)
    found = decode(scores, replace(rows, parts=scores.parts), method)
    np.testing.assert_allclose(found.value, twin.best(), rtol=1e-12)
