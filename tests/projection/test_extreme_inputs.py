"""Scores hundreds of nats apart, labels of probability 1e-200, coefficients of 1e3 and 1e-3, γ from 0.05 to 100."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trellis.constraints.rows import COUPLING
from trellis.projection import Projection, project

from .cases import HARD, STRENGTHS, Batch, Row, build_problem, compile_rows, name_of, random_batch
from .oracle import enumerate_outputs

STRUCTURES = pytest.mark.parametrize("categorical", [True, False], ids=["categorical", "chain"])
SCOPES = pytest.mark.parametrize("scope", ["local", "coupling"])
GAMMAS = pytest.mark.parametrize("gamma", [0.05, 0.3, 1.0, 10.0, 100.0])


def assert_sound(found: Projection) -> None:
    assert np.all(np.isfinite(found.posterior.node))
    assert np.all(np.isfinite(found.duals.row))
    assert np.isfinite(found.value)
    assert found.converged
    np.testing.assert_allclose(found.posterior.node.sum(axis=1), 1.0, rtol=0, atol=1e-9)


@pytest.mark.slow
@GAMMAS
@STRUCTURES
@SCOPES
@pytest.mark.parametrize("strength", STRENGTHS, ids=name_of)
def test_every_gamma_converges(strength, scope, categorical, gamma):
    rng = np.random.default_rng([STRENGTHS.index(strength), len(scope), categorical])
    batch = random_batch(rng, categorical=categorical, k=2)
    problem = build_problem(rng, batch, gamma, [(scope, strength, 2)])
    found = project(batch.structure(), problem.rows, gamma, max_evaluations=500, max_rounds=500)
    assert_sound(found)
    listing = enumerate_outputs(batch, problem.rows)
    q, _ = listing.tilted(found.duals.row, [], gamma)
    np.testing.assert_allclose(found.posterior.node, listing.node_marginals(q), rtol=0, atol=1e-8)


def spread_batch(categorical: bool, spread: float) -> Batch:
    """Two instances whose labels are ``spread`` nats apart, in both directions."""
    batch = random_batch(np.random.default_rng(1), categorical=categorical, lengths=(3, 2), k=2)
    node = batch.node.copy()
    node[:, 1] -= spread
    node[-1] = node[-1, ::-1]
    return replace(batch, node=node)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.05, 1.0, 100.0])
@pytest.mark.parametrize("spread", [50.0, 200.0, 460.0, 800.0])
@STRUCTURES
@SCOPES
@pytest.mark.parametrize("equality", [True, False], ids=["equality", "inequality"])
def test_a_very_unlikely_label_reaches_its_share(equality, scope, categorical, spread, gamma):
    """E[label 1 of slot 0] ≥ 0.75 where p = exp(−spread): 1e-200 at 460 nats."""
    batch = spread_batch(categorical, spread)
    rows = [Row({1: -1.0}, -0.75, equality, COUPLING if scope == "coupling" else 0, 0)]
    found = project(batch.structure(), compile_rows(batch, rows, [(*HARD, 0.0)]), gamma, tolerance=1e-6)
    assert_sound(found)
    expected = max(0.75, float(batch.structure().temper(gamma).infer().node[0, 1])) if not equality else 0.75
    assert found.posterior.node[0, 1] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("gamma", [0.05, 1.0, 100.0])
@pytest.mark.parametrize("spread", [5.0, 460.0, 800.0])
@STRUCTURES
@SCOPES
def test_a_very_unlikely_label_reaches_certainty_to_the_tolerance(scope, categorical, spread, gamma):
    """E[label 1 of slot 0] = 1 holds in the limit of λ only; within the tolerance it must be reached."""
    batch = spread_batch(categorical, spread)
    rows = [Row({1: -1.0}, -1.0, False, COUPLING if scope == "coupling" else 0, 0)]
    found = project(batch.structure(), compile_rows(batch, rows, [(*HARD, 0.0)]), gamma, tolerance=1e-3)
    assert_sound(found)
    assert found.posterior.node[0, 1] >= 1.0 - 2e-3


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
@STRUCTURES
@SCOPES
@pytest.mark.parametrize("strength", STRENGTHS, ids=name_of)
def test_coefficients_large_and_small_converge(strength, scope, categorical, scale, gamma):
    rng = np.random.default_rng([STRENGTHS.index(strength), len(scope), categorical, int(scale > 1)])
    batch = random_batch(rng, categorical=categorical, k=2)
    problem = build_problem(rng, batch, gamma, [(scope, strength, 2)], scale=scale)
    found = project(
        batch.structure(), problem.rows, gamma, tolerance=1e-5 * scale, max_evaluations=500, max_rounds=500
    )  # fmt: skip
    assert_sound(found)


@STRUCTURES
@SCOPES
def test_the_scale_of_a_row_does_not_change_the_solution(scope, categorical):
    rng = np.random.default_rng(14)
    batch = random_batch(rng, categorical=categorical, k=2)
    problem = build_problem(rng, batch, 1.0, [(scope, HARD, 2)])
    rows = problem.rows
    plain = project(batch.structure(), rows, tolerance=1e-9)
    for scale in (1e-3, 1e3):
        scaled = replace(rows, coefficient=rows.coefficient * scale, bound=rows.bound * scale)
        found = project(batch.structure(), scaled, tolerance=1e-9 * min(scale, 1.0), max_evaluations=500)
        np.testing.assert_allclose(found.posterior.node, plain.posterior.node, rtol=0, atol=1e-6)
        np.testing.assert_allclose(found.duals.row * scale, plain.duals.row, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.05, 1.0, 100.0])
def test_many_rows_pull_apart_and_stay_finite(gamma):
    """Expectations near the edge of what is possible, on a long chain of strong preferences."""
    rng = np.random.default_rng(15)
    batch = random_batch(rng, categorical=False, lengths=(4, 4), k=3, spread=100.0)
    rows = [Row({t * 3 + label: 1.0}, 0.34, False, t // 4, t // 4) for t in range(8) for label in range(3)]
    compiled = compile_rows(batch, rows, [(*HARD, 0.0), (*HARD, 0.0)])
    found = project(batch.structure(), compiled, gamma, max_evaluations=1000)
    assert_sound(found)
    assert found.posterior.node.max() <= 0.34 + 2e-3
