"""The dual's gradient is b − E_q[φ]: central differences agree on every structure."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from trellis.errors import ConvergenceWarning
from trellis.projection import Duals, project
from trellis.projection.shard import LocalState, ShardRows
from trellis.structures import Chain

from .cases import HARD, STRENGTHS, Problem, build_problem, name_of, random_batch
from .oracle import enumerate_outputs

STEP = 1e-5
CLOSE = 1e-7
STRUCTURES = pytest.mark.parametrize("categorical", [True, False], ids=["categorical", "chain"])
GAMMAS = pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])


def central_differences(function, point: np.ndarray) -> np.ndarray:
    slopes = np.empty(point.size)
    for i in range(point.size):
        step = np.zeros(point.size)
        step[i] = STEP
        step = step.reshape(point.shape)
        slopes[i] = (function(point + step) - function(point - step)) / (2 * STEP)
    return slopes.reshape(point.shape)


def drawn(categorical: bool, gamma: float, groups: list, *, blocks: int = 0, seed: int = 0) -> Problem:
    rng = np.random.default_rng([categorical, int(10 * gamma), seed])
    batch = random_batch(rng, categorical=categorical)
    batch = replace(batch, weight=rng.choice([0.5, 1.0, 2.0], size=batch.n_instances))
    return build_problem(rng, batch, gamma, groups, blocks=blocks, forbid=True)


@GAMMAS
@STRUCTURES
@pytest.mark.parametrize("with_local", [False, True], ids=["coupling alone", "local rows solved inside"])
def test_gradient_over_coupling_rows_and_blocks(with_local, categorical, gamma):
    local = [("local", HARD, 2), ("local", STRENGTHS[-1], 1)] if with_local else []
    problem = drawn(categorical, gamma, [*local, ("coupling", HARD, 3)], blocks=1)
    rows = ShardRows(problem.rows)
    rng = np.random.default_rng(1)
    theta = rng.normal(size=len(rows.coupling))
    dual = rng.uniform(0.0, 0.5, size=(len(problem.rows.sparsity[0].slots), problem.batch.node.shape[1]))

    def evaluate(theta: np.ndarray, dual: np.ndarray):
        return rows.evaluate(
            problem.batch.structure(), gamma, theta, (dual,), LocalState(np.zeros(len(rows.local))),
            weights=problem.batch.weight, tolerance=1e-9, most_evaluations=500,
        )  # fmt: skip

    answer = evaluate(theta, dual)
    slopes = central_differences(lambda at: evaluate(at, dual).value, theta)
    np.testing.assert_allclose(-answer.coupling, slopes, rtol=CLOSE, atol=CLOSE)
    slopes = central_differences(lambda at: evaluate(theta, at).value, dual)
    np.testing.assert_allclose(-answer.sparsity[0], slopes, rtol=CLOSE, atol=CLOSE)


@GAMMAS
@STRUCTURES
@pytest.mark.parametrize("strength", STRENGTHS, ids=name_of)
def test_gradient_over_local_rows(strength, categorical, gamma):
    """The value after one evaluation is the dual at the start, −b·λ − γ log Z(λ) − g(λ)."""
    problem = drawn(categorical, gamma, [("local", strength, 2), ("local", strength, 2)], seed=3)
    listing = enumerate_outputs(problem.batch, problem.rows)
    # Inside the set where g is finite and smooth.
    lam = 0.3 * problem.rows.groups.amount[problem.rows.group] * np.array([0.5, 0.2, 0.3, 0.6])
    lam = np.where(lam > 0, lam, 0.4)

    def evaluate(at: np.ndarray):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return project(
                problem.batch.structure(), problem.rows, gamma, weights=problem.batch.weight,
                duals=Duals(at, (), (None,)), most_evaluations=1, tolerance=1e-15, edge_marginals=True,
            )  # fmt: skip

    found = evaluate(lam)
    np.testing.assert_array_equal(found.duals.row, lam)
    edge = np.zeros((*problem.batch.node.shape, problem.batch.node.shape[1]))
    edge = edge if found.posterior.edge is None else found.posterior.edge
    weight = problem.batch.weight[problem.rows.instance]
    by_sums = central_differences(lambda at: listing.dual_value(at, [], gamma), lam)
    by_projection = central_differences(lambda at: evaluate(at).value, lam)
    np.testing.assert_allclose(by_projection, by_sums, rtol=CLOSE, atol=CLOSE)
    if name_of(strength) in ("hard", "penalty-l1", "penalty-l2", "penalty-linf"):
        expected = problem.rows.expect(found.posterior.node, edge)
        np.testing.assert_allclose(weight * (expected - problem.rows.bound), by_sums, rtol=CLOSE, atol=CLOSE)


@GAMMAS
@STRUCTURES
def test_gradient_of_the_log_partition_of_tilted_scores(categorical, gamma):
    """∂/∂λ γ log Σ_y exp((score − λ·φ)/γ) = −E_q[φ], through ``tilt`` and ``infer`` alone."""
    problem = drawn(categorical, gamma, [("local", HARD, 3), ("coupling", HARD, 2)], seed=4)
    rows, structure = problem.rows, problem.batch.structure()
    n_slots, k = problem.batch.node.shape

    def infer(lam: np.ndarray):
        change = np.zeros(problem.batch.n_parts)
        np.add.at(change, rows.part, -lam[rows.entry_row] * rows.coefficient)
        node = change[: n_slots * k].reshape(n_slots, k)
        if isinstance(structure, Chain):
            edge = change[n_slots * k :].reshape(n_slots, k, k)
            return structure.tilt(node, edge, gamma=gamma).infer(edge_marginals=True)
        return structure.tilt(node, gamma=gamma).infer()

    lam = np.random.default_rng(5).normal(size=len(rows))
    posterior = infer(lam)
    expected = rows.expect(posterior.node, posterior.edge)
    slopes = central_differences(lambda at: gamma * float(infer(at).log_partition.sum()), lam)
    np.testing.assert_allclose(-expected, slopes, rtol=CLOSE, atol=CLOSE)
