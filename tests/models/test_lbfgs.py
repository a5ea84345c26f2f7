"""L-BFGS: minima of convex functions, monotone rounds, hard shapes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from trellis.models.lbfgs import AdaGrad, GaussianPrior, minimise


def quadratic(seed, n, condition):
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    matrix = (q * np.geomspace(1.0, condition, n)) @ q.T
    solution = rng.standard_normal(n)
    return (lambda w: (0.5 * (w - solution) @ matrix @ (w - solution), matrix @ (w - solution))), solution


@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from([1.0, 1e2, 1e4]))
def test_quadratics_are_minimised(seed, n, condition):
    objective, solution = quadratic(seed, n, condition)
    found = minimise(objective, np.zeros(n), max_iter=3000, tol=0.0)
    np.testing.assert_allclose(found.weights, solution, atol=1e-6)
    assert found.converged


def test_rosenbrock_is_minimised_as_well_as_by_scipy():
    def objective(w):
        return float(optimize.rosen(w)), optimize.rosen_der(w)

    found = minimise(objective, np.array([-1.2, 1.0]), max_iter=500, tol=1e-14)
    np.testing.assert_allclose(found.weights, 1.0, atol=1e-5)
    theirs = optimize.minimize(objective, [-1.2, 1.0], jac=True, method="L-BFGS-B")
    assert found.evaluations <= 2 * theirs.nfev


@pytest.mark.parametrize("seed", range(5))
def test_every_round_goes_down(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((40, 8)) * 3.0, rng.integers(0, 2, 40) * 2.0 - 1.0

    def objective(w):
        margin = b * (a @ w)
        return float(np.logaddexp(0.0, -margin).sum()), -(a.T @ (b / (1.0 + np.exp(margin))))

    values = [objective(np.zeros(8))[0] + 0.0]

    def watch(w):
        values.append(objective(w)[0] + 0.05 * float(w @ w))

    found = minimise(objective, np.zeros(8), prior=GaussianPrior(0.1), max_iter=200, tol=1e-13, callback=watch)
    assert np.all(np.diff(values) <= 0.0)
    gradient = objective(found.weights)[1] + 0.1 * found.weights
    assert np.abs(gradient).max() < 1e-4
    assert found.rounds == len(values) - 1


def test_a_step_into_infinity_is_taken_back():
    def objective(w):  # −log w + w: +inf from 0 on to the left
        if w[0] <= 0:
            return np.inf, np.array([np.nan])
        return float(w[0] - np.log(w[0])), np.array([1.0 - 1.0 / w[0]])

    found = minimise(objective, np.array([50.0]), max_iter=200, tol=1e-14)
    assert found.weights[0] == pytest.approx(1.0, abs=1e-5)


def test_the_rounds_end_where_they_were_told_to():
    objective, _ = quadratic(0, 10, 1e4)
    found = minimise(objective, np.zeros(10), max_iter=3, tol=0.0)
    assert (found.rounds, found.converged) == (3, False)


def test_free_weights_have_no_penalty():
    def objective(w):
        return float(0.5 * ((w - 2.0) ** 2).sum()), w - 2.0

    found = minimise(objective, np.zeros(3), prior=GaussianPrior(1.0, slice(2, None)), max_iter=100, tol=1e-14)
    np.testing.assert_allclose(found.weights, [1.0, 1.0, 2.0], atol=1e-6)


def test_adagrad_reaches_a_minimum():
    objective, solution = quadratic(1, 5, 10.0)
    weights, steps = np.zeros(5), AdaGrad(np.zeros(5), 0.5)
    for _ in range(3000):
        weights = steps.step(weights, objective(weights)[1])
    np.testing.assert_allclose(weights, solution, atol=1e-3)
