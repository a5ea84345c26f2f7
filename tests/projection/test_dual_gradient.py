"""The dual's gradient is b − E_q[φ]: central differences agree on every structure."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from trellis.errors import ConvergenceWarning
from trellis.projection import Duals, project
from trellis.projection.local import LocalState, SolverOptions
from trellis.projection.shard import ShardRows

from .cases import HARD, KINDS, STRENGTHS, EachKind, Problem, build_problem, name_of, random_case
from .oracle import enumerate_outputs

STEP = 1e-5
CLOSE = 1e-7
GAMMAS = pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])


def central_differences(function, point: np.ndarray) -> np.ndarray:
    slopes = np.empty(point.size)
    for i in range(point.size):
        step = np.zeros(point.size)
        step[i] = STEP
        step = step.reshape(point.shape)
        slopes[i] = (function(point + step) - function(point - step)) / (2 * STEP)
    return slopes.reshape(point.shape)


def drawn(kind: str, gamma: float, groups: list, *, blocks: int = 0, seed: int = 0) -> Problem:
    rng = np.random.default_rng([KINDS.index(kind), int(10 * gamma), seed])
    batch = random_case(rng, kind)
    batch = batch.weighing(rng.choice([0.5, 1.0, 2.0], size=batch.n_instances))
    return build_problem(rng, batch, gamma, groups, blocks=blocks, forbid=True)


@pytest.mark.slow
@GAMMAS
@EachKind
@pytest.mark.parametrize("with_local", [False, True], ids=["coupling alone", "local rows solved inside"])
def test_gradient_over_coupling_rows_and_blocks(with_local, kind, gamma):
    local = [("local", HARD, 2), ("local", STRENGTHS[-1], 1)] if with_local else []
    problem = drawn(kind, gamma, [*local, ("coupling", HARD, 3)], blocks=1)
    rows = ShardRows(problem.rows)
    rng = np.random.default_rng(1)
    theta = rng.normal(size=len(rows.coupling))
    dual = rng.uniform(0.0, 0.5, size=problem.rows.sparsity[0].parts.shape)

    def evaluate(theta: np.ndarray, dual: np.ndarray):
        asked = SolverOptions(gamma, problem.batch.weight, tolerance=1e-9, most_evaluations=500)
        state = LocalState(np.zeros(len(rows.local)))
        return rows.evaluate(problem.batch.structure(), theta, (dual,), state, asked)

    answer = evaluate(theta, dual)
    slopes = central_differences(lambda at: evaluate(at, dual).value, theta)
    np.testing.assert_allclose(-answer.coupling, slopes, rtol=CLOSE, atol=CLOSE)
    slopes = central_differences(lambda at: evaluate(theta, at).value, dual)
    np.testing.assert_allclose(-answer.sparsity[0], slopes, rtol=CLOSE, atol=CLOSE)


@pytest.mark.slow
@GAMMAS
@EachKind
@pytest.mark.parametrize("strength", STRENGTHS, ids=name_of)
def test_gradient_over_local_rows(strength, kind, gamma):
    """The value after one evaluation is the dual at the start, −b·λ − γ log Z(λ) − g(λ)."""
    problem = drawn(kind, gamma, [("local", strength, 2), ("local", strength, 2)], seed=3)
    listing = enumerate_outputs(problem.batch, problem.rows)
    # Inside the set where g is finite and smooth.
    lam = 0.3 * problem.rows.groups.amount[problem.rows.group] * np.array([0.5, 0.2, 0.3, 0.6])
    lam = np.where(lam > 0, lam, 0.4)

    def evaluate(at: np.ndarray):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return project(
                problem.batch.structure(), problem.rows, gamma, weights=problem.batch.weight,
                duals=Duals(at, (), (None,)), max_evaluations=1, tolerance=1e-15,
            )  # fmt: skip

    found = evaluate(lam)
    np.testing.assert_allclose(found.duals.row, lam, rtol=1e-14, atol=0)
    weight = problem.batch.weight[problem.rows.instance]
    by_sums = central_differences(lambda at: listing.dual_value(at, [], gamma), lam)
    by_projection = central_differences(lambda at: evaluate(at).value, lam)
    np.testing.assert_allclose(by_projection, by_sums, rtol=CLOSE, atol=CLOSE)
    if name_of(strength) in ("hard", "penalty-l1", "penalty-l2", "penalty-linf"):
        expected = problem.rows.expect(found.posterior)
        np.testing.assert_allclose(weight * (expected - problem.rows.bound), by_sums, rtol=CLOSE, atol=CLOSE)


@GAMMAS
@EachKind
def test_gradient_of_the_log_partition_of_tilted_scores(kind, gamma):
    """∂/∂λ γ log Σ_y exp((score − λ·φ)/γ) = −E_q[φ], through ``add`` and ``infer`` alone."""
    problem = drawn(kind, gamma, [("local", HARD, 3), ("coupling", HARD, 2)], seed=4)
    rows, structure = problem.rows, problem.batch.structure()

    def infer(lam: np.ndarray):
        return structure.add(rows.part, -lam[rows.entry_row] * rows.coefficient, gamma).infer(at=rows.part)

    lam = np.random.default_rng(5).normal(size=len(rows))
    posterior = infer(lam)
    expected = rows.expect(posterior)
    slopes = central_differences(lambda at: gamma * float(infer(at).log_partition.sum()), lam)
    np.testing.assert_allclose(-expected, slopes, rtol=CLOSE, atol=CLOSE)
