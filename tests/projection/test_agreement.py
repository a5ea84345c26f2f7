"""Agreement of two members against enumeration and cvxpy."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest
from structures.tree_twin import all_trees

from trellis.errors import DataError
from trellis.projection import agree
from trellis.structures import Categorical, Chain, Trees


def random_chain(rng: np.random.Generator, length: int, n_labels: int) -> Chain:
    return Chain(
        [0, length],
        rng.normal(size=(length, n_labels)),
        rng.normal(size=(n_labels, n_labels)),
        start=rng.normal(size=n_labels),
        stop=rng.normal(size=n_labels),
    )


def enumerate_scores(chain: Chain) -> tuple[np.ndarray, np.ndarray]:
    outputs = np.array(list(itertools.product(range(chain.n_labels), repeat=chain.n_slots)), dtype=np.int32)
    return outputs, np.array([chain.score(y)[0] for y in outputs])


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
def test_full_agreement_is_the_geometric_mean(gamma: float) -> None:
    rng = np.random.default_rng(0)
    first, second = random_chain(rng, 3, 3), random_chain(rng, 3, 3)
    outputs, s1 = enumerate_scores(first)
    _, s2 = enumerate_scores(second)
    log_q = (s1 + s2) / (2 * gamma)
    q = np.exp(log_q - log_q.max())
    q /= q.sum()
    found = agree(first, second, gamma=gamma)
    node = np.array([[q[outputs[:, t] == k].sum() for k in range(3)] for t in range(3)])
    np.testing.assert_allclose(found.members[0].node, node, atol=1e-12)
    np.testing.assert_allclose(found.members[1].node, node, atol=1e-12)
    primal = 2 * gamma * (q @ np.log(q)) - q @ (s1 + s2)
    assert found.value == pytest.approx(primal, rel=1e-10)


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_parsers_agree_on_the_geometric_mean_of_their_trees(gamma: float) -> None:
    """One of them is a grammar with valence, whose scores are not of single arcs alone."""
    rng = np.random.default_rng(3)
    first = Trees([0, 3], rng.normal(size=9), nearest=rng.normal(size=9))
    second = Trees([0, 3], rng.normal(size=9))
    trees = np.array(all_trees(3, projective=True, single_root=True), np.int32)
    scores = np.array([[one.score(tree)[0] for tree in trees] for one in (first, second)])
    q = np.exp(scores.sum(axis=0) / (2 * gamma))
    q /= q.sum()
    wanted = np.zeros(9)
    for share, tree in zip(q, trees, strict=True):
        wanted[first.parts.of(tree)] += share
    found = agree(first, second, gamma=gamma)
    for member in found.members:
        np.testing.assert_allclose(member.at(np.arange(9)), wanted, atol=1e-12)
    assert found.value == pytest.approx(2 * gamma * (q @ np.log(q)) - q @ scores.sum(axis=0))
    with pytest.raises(DataError, match="leave out maps"):
        agree(first, second, maps=[[0], [0]])


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("edges", [False, True])
def test_agreement_through_a_map_agrees_with_cvxpy(gamma: float, edges: bool) -> None:
    rng = np.random.default_rng(1)
    first, second = random_chain(rng, 3, 3), random_chain(rng, 3, 2)
    maps = (np.array([0, 1, 1]), np.array([0, 1]))
    spaces = [enumerate_scores(first), enumerate_scores(second)]
    q = [cp.Variable(len(s)) for _, s in spaces]
    cost = sum(-gamma * cp.sum(cp.entr(x)) - s @ x for x, (_, s) in zip(q, spaces, strict=True))
    rows = [cp.sum(x) == 1 for x in q]
    for t, z in itertools.product(range(3), range(2)):
        a, b = (x @ (m[y[:, t]] == z).astype(float) for x, (y, _), m in zip(q, spaces, maps, strict=True))
        rows.append(a == b)
        for z2 in range(2) if edges and t else ():
            a, b = (
                x @ ((m[y[:, t - 1]] == z2) & (m[y[:, t]] == z)).astype(float)
                for x, (y, _), m in zip(q, spaces, maps, strict=True)
            )
            rows.append(a == b)
    problem = cp.Problem(cp.Minimize(cost), rows)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    found = agree(first, second, gamma=gamma, maps=maps, edges=edges, tolerance=1e-8)
    assert found.kkt_residual <= 1e-8
    assert found.value == pytest.approx(problem.value, rel=1e-6)
    for posterior, x, (y, _), k in zip(found.members, q, spaces, (3, 2), strict=True):
        node = np.array([[x.value[y[:, t] == j].sum() for j in range(k)] for t in range(3)])
        np.testing.assert_allclose(posterior.node, node, atol=1e-5)


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
def test_categorical_agreement_through_a_map_has_the_closed_form_of_proposition_6_3(gamma: float) -> None:
    rng = np.random.default_rng(2)
    first, second = Categorical(rng.normal(size=(4, 3))), Categorical(rng.normal(size=(4, 4)))
    maps = (np.array([0, 1, 1]), np.array([1, 0, 0, 1]))
    found = agree(first, second, gamma=gamma, maps=maps)
    value = 0.0
    for i in range(4):
        q = [cp.Variable(3), cp.Variable(4)]
        scores = [first.node[i], second.node[i]]
        cost = sum(-gamma * cp.sum(cp.entr(x)) - s @ x for x, s in zip(q, scores, strict=True))
        rows = [cp.sum(x) == 1 for x in q]
        rows += [q[0] @ (maps[0] == z) == q[1] @ (maps[1] == z) for z in range(2)]
        problem = cp.Problem(cp.Minimize(cost), rows)
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
        value += problem.value
        np.testing.assert_allclose(found.members[0].node[i], q[0].value, atol=1e-5)
        np.testing.assert_allclose(found.members[1].node[i], q[1].value, atol=1e-5)
    assert found.value == pytest.approx(value, rel=1e-6)


def test_what_either_model_forbids_neither_does() -> None:
    first = Categorical(np.array([[0.0, 0.0, -np.inf]]))
    second = Categorical(np.array([[-np.inf, 0.0, 0.0]]))
    np.testing.assert_array_equal(agree(first, second).members[0].node, [[0.0, 1.0, 0.0]])


def test_models_over_different_instances_cannot_agree() -> None:
    rng = np.random.default_rng(3)
    with pytest.raises(DataError, match="lengths"):
        agree(random_chain(rng, 3, 2), random_chain(rng, 4, 2))
    with pytest.raises(DataError, match="give maps"):
        agree(random_chain(rng, 3, 2), random_chain(rng, 3, 3))
