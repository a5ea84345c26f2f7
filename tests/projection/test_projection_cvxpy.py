"""The projection is the minimiser that cvxpy finds over enumerated outputs, to 1e-5 in q."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from trellis.projection import Projection, project

from .cases import KINDS, STRENGTHS, EachKind, Problem, build_problem, name_of, problems, random_case
from .oracle import enumerate_outputs, solve_primal

pytestmark = pytest.mark.slow

# A smaller failing problem is not worth the minutes of cvxpy that shrinking to it takes.
DRAWN = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.explicit, Phase.reuse, Phase.generate]
)

SCOPES = {
    "local": ["local", "local"],
    "coupling": ["coupling", "coupling"],
    "both": ["local", "coupling", "local"],
}


def solve(problem: Problem, tolerance: float = 1e-8) -> Projection:
    return project(
        problem.batch.structure(), problem.rows, problem.gamma, weights=problem.batch.weight, tolerance=tolerance,
        max_evaluations=500, max_rounds=2000, at=np.arange(problem.batch.n_parts),
    )  # fmt: skip


def assert_agrees_with_cvxpy(problem: Problem, tolerance: float = 1e-8) -> None:
    found = solve(problem, tolerance)
    assert found.converged
    listing = enumerate_outputs(problem.batch, problem.rows)
    q, optimum = solve_primal(listing, problem.gamma)
    np.testing.assert_allclose(found.posterior.at(listing.used), listing.marginals(q)[listing.used], rtol=0, atol=1e-5)
    assert found.value == pytest.approx(optimum, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("strength", STRENGTHS, ids=name_of)
@EachKind
def test_projection_agrees_with_cvxpy(kind, strength, gamma):
    """Every kind with every strength at every γ; scopes take turns, so that each pair of them meets all three."""
    turn = KINDS.index(kind) + STRENGTHS.index(strength) + [0.3, 1.0, 2.0].index(gamma)
    scope = list(SCOPES)[turn % len(SCOPES)]
    rng = np.random.default_rng([KINDS.index(kind), len(scope), STRENGTHS.index(strength), int(10 * gamma)])
    batch = random_case(rng, kind)
    batch = batch.weighing(rng.choice([0.5, 1.0, 2.0], size=batch.n_instances))
    groups = [(where, strength, n) for where, n in zip(SCOPES[scope], (3, 1, 2), strict=False)]
    assert_agrees_with_cvxpy(build_problem(rng, batch, gamma, groups))


@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("scope", ["", "local", "coupling", "both"])
@EachKind
def test_sparsity_agrees_with_cvxpy(kind, scope, gamma):
    rng = np.random.default_rng([KINDS.index(kind), len(scope), int(10 * gamma), 5])
    batch = random_case(rng, kind)
    groups = [(where, strength, 2) for where in SCOPES.get(scope, []) for strength in (STRENGTHS[0], STRENGTHS[2])]
    assert_agrees_with_cvxpy(build_problem(rng, batch, gamma, groups, blocks=2))


@settings(DRAWN, max_examples=80)
@given(problems())
def test_drawn_projection_agrees_with_cvxpy(problem):
    assert_agrees_with_cvxpy(problem)


@settings(DRAWN, max_examples=20)
@given(problems(blocks=1, weighted=False))
def test_drawn_projection_with_sparsity_agrees_with_cvxpy(problem):
    # Proximal steps on a norm that is not smooth may end near 1e-7; q is compared to 1e-5 as everywhere.
    assert_agrees_with_cvxpy(problem, 1e-6)
