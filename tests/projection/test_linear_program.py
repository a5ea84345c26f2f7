"""γ = 0 is a linear program: compared with linprog over all enumerated outputs, and with the limit γ → 0."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from trellis.constraints import compile_constraints, count, few_labels_per, label, starts, word
from trellis.constraints.rows import Groups, Rows
from trellis.constraints.strength import Kind
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, InfeasibleError
from trellis.projection import Projector, columns, project
from trellis.structures import Categorical, CategoricalParts, Chain, ChainParts

LABELS = Vocabulary(["A", "B", "C"], kind="label")
TEXT = [["x", "y", "x"], ["y", "y"], ["x"]]


def problem(seed: int, constraints: list[Any]) -> tuple[Chain, Any, Batch]:
    rng = np.random.default_rng(seed)
    batch = Batch.from_sentences(TEXT)
    chain = Chain(
        batch.offsets,
        rng.normal(size=(batch.n_slots, 3)) * 2,
        rng.normal(size=(3, 3)),
        start=rng.normal(size=3),
        stop=rng.normal(size=3),
    )
    return chain, compile_constraints(constraints, batch, LABELS, ChainParts(batch.offsets, len(LABELS))), batch


def by_enumeration(chain: Chain, constraints: list[tuple[Any, float, float | None]]) -> float:
    """The optimum of the program over q_i(y): hard rows, and rows with an L1 price, as functions of an output."""
    outputs = [
        np.array(list(itertools.product(range(3), repeat=int(n))), dtype=np.int32) for n in np.diff(chain.offsets)
    ]
    cost, convex, owner = [], [], []
    for i, space in enumerate(outputs):
        one = chain.instances(i, i + 1)
        cost += [-one.score(y)[0] for y in space]
        owner += [i] * len(space)
    n = len(cost)
    for i in range(len(outputs)):
        convex.append([1.0 if o == i else 0.0 for o in owner])
    upper, bound, prices = [], [], []
    everything = [(i, y) for i, space in enumerate(outputs) for y in space]
    for phi, b, price in constraints:
        rows = phi(everything)
        for row in rows:
            upper.append(row)
            bound.append(b)
            prices.append(price)
    slack = [j for j, price in enumerate(prices) if price is not None]
    matrix = np.zeros((len(upper), n + len(slack)))
    matrix[:, :n] = np.array(upper)
    for column, j in enumerate(slack):
        matrix[j, n + column] = -1.0
    costs = np.concatenate([cost, [prices[j] for j in slack]])
    equal = np.hstack([np.array(convex), np.zeros((len(convex), len(slack)))])
    solved = linprog(costs, matrix, bound, equal, np.ones(len(convex)), bounds=(0, None), method="highs")
    assert solved.status == 0
    return float(solved.fun)


def counts_of(label_number: int, sign: float, per_instance: bool) -> Any:
    def phi(everything: list[tuple[int, Any]]) -> list[list[float]]:
        values = [sign * float(np.sum(y == label_number)) for _, y in everything]
        if not per_instance:
            return [values]
        owners = sorted({i for i, _ in everything})
        return [[v if i == o else 0.0 for v, (i, _) in zip(values, everything, strict=True)] for o in owners]

    return phi


@pytest.mark.slow
@given(st.integers(0, 10_000), st.floats(0.1, 0.9), st.floats(0.5, 2.5))
def test_linear_program_agrees_with_linprog_over_all_outputs(seed: int, at_least: float, corpus: float) -> None:
    constraints = [
        count("A") >= at_least,
        (count("B") <= 0.5).penalty(1.5, "l1"),
        count("C").per("corpus") <= corpus,
    ]
    chain, rows, _ = problem(seed, constraints)
    found = project(chain, rows, 0.0)
    wanted = by_enumeration(
        chain,
        [
            (counts_of(0, -1.0, True), -at_least, None),
            (counts_of(1, 1.0, True), 0.5, 1.5),
            (counts_of(2, 1.0, False), corpus, None),
        ],
    )
    assert found.value == pytest.approx(wanted, rel=1e-7, abs=1e-7)
    assert found.kkt_residual <= 1e-7 * (1 + abs(wanted))
    node = found.posterior.node
    np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-9)
    assert node[:, 2].sum() <= corpus + 1e-7
    for a, b in itertools.pairwise(chain.offsets):
        assert node[a:b, 0].sum() >= at_least - 1e-7


@pytest.mark.parametrize("seed", range(5))
def test_small_gamma_converges_to_gamma_zero(seed: int) -> None:
    constraints = [count("A") >= 0.7, (starts("B") <= 0.5).penalty(1.0), (count("C").per("corpus") <= 1.2)]
    chain, rows, _ = problem(seed, constraints)
    limit = project(chain, rows, 0.0).value
    distance = []
    for gamma in (0.4, 0.1, 0.025):
        q = project(chain, rows, gamma, tolerance=1e-6, max_evaluations=2_000, max_rounds=2_000)
        distance.append(limit - q.value)
    entropy = chain.n_slots * np.log(3)
    assert all(-1e-6 <= d <= gamma * entropy for d, gamma in zip(distance, (0.4, 0.1, 0.025), strict=True))
    assert distance[0] > distance[1] > distance[2]


def test_without_constraints_it_is_viterbi() -> None:
    chain, rows, _ = problem(0, [])
    found = project(chain, rows, 0.0)
    best = chain.argmax()
    assert found.integral is not None
    assert found.integral.all()
    np.testing.assert_array_equal(found.posterior.node.argmax(axis=1), best.outputs)
    assert found.posterior.node.max(axis=1).tolist() == [1.0] * chain.n_slots
    assert found.value == pytest.approx(-best.score.sum())
    counts = chain.clamp(best.outputs).infer().edge_counts
    np.testing.assert_allclose(found.posterior.edge_counts, counts, atol=1e-12)


def test_an_answer_that_averages_outputs_is_not_called_integral() -> None:
    batch = Batch.from_sentences([["x"]])
    chain = Chain(batch.offsets, [[1.0, 0.0]], np.zeros((2, 2)))
    rows = compile_constraints([count("B") >= 0.25], batch, Vocabulary(["A", "B"], kind="label"), chain.parts)
    found = project(chain, rows, 0.0)
    np.testing.assert_allclose(found.posterior.node, [[0.75, 0.25]], atol=1e-9)
    assert found.integral is not None
    assert not found.integral[0]
    assert found.duals_by_name()[rows.names[0]] == pytest.approx([1.0])


def test_sparsity_at_gamma_zero_uses_few_labels_a_word() -> None:
    chain, rows, _ = problem(3, [few_labels_per(word, strength=50.0)])
    node = project(chain, rows, 0.0).posterior.node
    x = [0, 2, 5]
    assert node[x].max(axis=0).sum() == pytest.approx(1.0, abs=1e-7)


def test_shards_share_a_coupling_row() -> None:
    constraints = [count("A").per("corpus") <= 0.8, word.isin("x").implies(~label("B"))]
    chain, rows, _ = problem(1, constraints)
    whole = project(chain, rows, 0.0)
    projector = Projector(rows, np.array([0, 1, 3]))
    outcome = projector.run(
        lambda number: chain.instances(*((0, 1), (1, 3))[number]), 0.0, then=lambda _, answer: answer.posterior
    )
    assert outcome.value == pytest.approx(whole.value, rel=1e-9)
    node = np.concatenate([q.node for q in outcome.results])
    assert node[:, 0].sum() <= 0.8 + 1e-9
    counts = sum(q.edge_counts for q in outcome.results)
    assert counts.sum() == pytest.approx(3.0)


def test_a_round_strength_is_refused() -> None:
    chain, rows, _ = problem(0, [(count("A") >= 1).penalty(1.0, "l2").named("round")])
    with pytest.raises(ConstraintError, match="'round' has an L2 or KL strength"):
        project(chain, rows, 0.0)


def test_infeasible_rows_are_named() -> None:
    chain, rows, _ = problem(0, [(count("A") >= 0.8).named("a"), (count("B") >= 0.8).named("b")])
    with pytest.raises(InfeasibleError) as caught:
        project(chain, rows, 0.0)
    assert caught.value.constraints == ("a", "b")
    assert caught.value.instances == (2,)
    assert caught.value.slack == pytest.approx(0.3, abs=1e-6)


@pytest.mark.slow
@given(st.integers(0, 10_000), st.floats(1.0, 4.0))
def test_weights_count_instances_as_often_as_copies_do(seed: int, most: float) -> None:
    """Columns of the first, feasible answer once came with their weights in them, and were weighed again."""
    rules = [count("C").per("corpus") <= most, (count("A").per("corpus") >= 3).penalty(0.7), count("B") <= 1.5]
    chain, rows, _ = problem(seed, rules)
    twice = Batch.from_sentences([TEXT[0], TEXT[0], TEXT[0], TEXT[1], TEXT[2], TEXT[2]])
    copies = chain.take(np.array([0, 0, 0, 1, 2, 2]))
    found = project(chain, rows, 0.0, weights=np.array([3.0, 1.0, 2.0]))
    listed = project(copies, compile_constraints(rules, twice, LABELS, copies.parts), 0.0)
    assert found.value == pytest.approx(listed.value, rel=1e-7, abs=1e-7)
    assert found.kkt_residual <= 1e-7 * (1 + abs(found.value))


def test_a_row_in_each_of_many_instances_is_each_ones_own_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """One categorical under one row averages at most two labels: all pairs of them are looked at."""
    monkeypatch.setattr(columns, "LARGEST", 0)  # as in a corpus too large for the program over marginals
    rng = np.random.default_rng(0)
    n, k = 1000, 4
    score, coefficient = rng.normal(size=(n, k)), rng.normal(size=(n, k))
    share = rng.dirichlet(np.ones(k), size=n)
    bound = (share * coefficient).sum(axis=1) - 0.3 * rng.random(n) * (share * coefficient - coefficient.min()).sum(1)
    bound = np.maximum(bound, 0.9 * coefficient.min(axis=1) + 0.1 * coefficient.max(axis=1))
    number, none = np.arange(n), Rows.none(CategoricalParts(n, k))
    rows = replace(
        none, names=("row",), start=k * np.arange(n + 1), part=np.arange(n * k), coefficient=coefficient.reshape(-1),
        bound=bound, equality=np.zeros(n, np.bool_), instance=number, group=number, constraint=np.zeros(n, np.int64),
        row_number=number, groups=Groups(np.full(n, Kind.HARD, np.int8), np.zeros(n, np.int8), np.zeros(n)),
    )  # fmt: skip
    found = project(Categorical(score), rows, 0.0)
    best = np.where(coefficient <= bound[:, None], score, -np.inf).max(axis=1)
    for a, b in itertools.permutations(range(k), 2):
        low, high = coefficient[:, a], coefficient[:, b]
        with np.errstate(divide="ignore", invalid="ignore"):
            u = (bound - low) / (high - low)
        mixed = np.where((low <= bound) & (high > bound), (1 - u) * score[:, a] + u * score[:, b], -np.inf)
        best = np.maximum(best, mixed)
    assert found.value == pytest.approx(-best.sum(), rel=1e-9)
    assert np.all((found.posterior.node * coefficient).sum(axis=1) <= bound + 1e-7)
    assert found.converged


def test_of_many_instances_the_one_that_cannot_hold_is_named() -> None:
    n = 700
    batch = Batch.from_sentences([["x", "y"]] * n)
    parts = ChainParts(batch.offsets, 3)
    rows = compile_constraints([(count("A") >= 1.5).named("many"), count("C") >= 0.1], batch, LABELS, parts)
    node = np.zeros((2 * n, 3))
    node[2 * 412, 0] = -np.inf
    with pytest.raises(InfeasibleError, match="instance 412: constraint 'many' cannot hold"):
        project(Chain(batch.offsets, node, np.zeros((3, 3))), rows, 0.0)


@pytest.mark.parametrize("scope", ["instance", "corpus"])
def test_marginals_of_transitions_are_given_where_they_are_asked_for(scope: str) -> None:
    rule = count("A") >= 1 if scope == "instance" else count("A").per("corpus") >= 1.5
    chain, rows, _ = problem(0, [rule])
    parts = np.arange(chain.parts.n_parts)
    found = project(chain, rows, 0, at=parts).posterior.at(parts)
    nodes = chain.n_slots * chain.n_labels
    assert found[:nodes].sum() == pytest.approx(chain.n_slots)
    assert found[nodes:].sum() == pytest.approx(chain.n_slots - len(chain))


def test_messages_have_no_minus_sign_before_zero() -> None:
    with pytest.raises(InfeasibleError, match="it is at most 0 "):
        problem(0, [count("A", where=word.isin("never seen")) >= 1])
