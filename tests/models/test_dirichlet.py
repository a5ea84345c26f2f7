"""M-steps under Dirichlet priors against closed forms, numerical maximisation and integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from trellis.errors import DataError
from trellis.models import dirichlet


@pytest.fixture
def counts():
    table = np.random.default_rng(0).gamma(0.7, 3.0, (4, 3))
    table[1, 2] = 0.0
    return table


def test_maximum_likelihood_is_relative_frequency(counts):
    np.testing.assert_allclose(dirichlet.mode(counts), counts / counts.sum(axis=0), rtol=1e-15)


@pytest.mark.parametrize("prior", [1.0, 1.3, 4.0])
def test_mode_maximises_expected_log_likelihood_plus_log_density(counts, prior):
    def objective(logits, column):
        theta = special.softmax(logits)
        return -(counts[:, column] @ np.log(theta)) - dirichlet.log_density(theta[:, None], prior)

    found = dirichlet.mode(counts, prior)
    for column in range(2):
        best = optimize.minimize(objective, np.zeros(4), args=(column,), method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(special.softmax(best.x), found[:, column], atol=1e-6)


def test_log_density_differs_from_scipys_by_a_constant():
    rng = np.random.default_rng(1)
    one, other = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
    ours = dirichlet.log_density(one[:, None], 2.5) - dirichlet.log_density(other[:, None], 2.5)
    theirs = stats.dirichlet.logpdf(one, [2.5] * 5) - stats.dirichlet.logpdf(other, [2.5] * 5)
    assert ours == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("prior", [0.05, 1.0, 3.0])
def test_variational_terms_agree_with_integration(prior):
    counts = np.array([[2.5], [0.7]])
    concentration = dirichlet.concentration(counts, prior)
    q = stats.beta(concentration[0, 0], concentration[1, 0])
    p = stats.beta(prior, prior)
    expected = q.expect(lambda x: np.log(x), epsabs=1e-12)
    assert dirichlet.expected_log(concentration)[0, 0] == pytest.approx(expected, abs=1e-8)
    divergence = integrate.quad(lambda x: q.pdf(x) * (q.logpdf(x) - p.logpdf(x)), 0, 1, epsabs=1e-12, limit=200)[0]
    assert dirichlet.divergence(concentration, prior) == pytest.approx(divergence, abs=1e-6)


def test_variational_update_maximises_the_bound(counts):
    prior = 0.3

    def bound(log_concentration):
        c = np.exp(log_concentration.reshape(counts.shape))
        return (counts * dirichlet.expected_log(c)).sum() - dirichlet.divergence(c, prior)

    best = dirichlet.concentration(counts, prior)
    at = bound(np.log(best).ravel())
    gradient = optimize.approx_fprime(np.log(best).ravel(), bound, 1e-6)
    assert np.abs(gradient).max() < 1e-4
    rng = np.random.default_rng(2)
    for _ in range(20):
        assert bound(np.log(best).ravel() + 0.1 * rng.standard_normal(counts.size)) < at


def test_divergence_from_the_prior_itself_is_zero():
    assert dirichlet.divergence(np.full((7, 3), 0.2), 0.2) == pytest.approx(0.0, abs=1e-12)


def test_forbidden_outcomes_are_no_part_of_the_simplex(counts):
    allowed = np.array([[1, 1, 0], [1, 1, 0], [0, 1, 0], [1, 1, 0]], dtype=bool)
    masked = np.where(allowed, counts, 0.0)
    probabilities = dirichlet.mode(masked, 1.5, allowed)
    assert not probabilities[~allowed].any()
    np.testing.assert_allclose(probabilities.sum(axis=0), [1.0, 1.0, 0.0], atol=1e-15)
    within = dirichlet.concentration(masked, 0.5, allowed)
    rows = allowed[:, 0]
    np.testing.assert_allclose(
        dirichlet.expected_log(within)[rows, 0], dirichlet.expected_log(within[rows, :1])[:, 0], rtol=1e-14
    )
    assert np.all(dirichlet.expected_log(within)[~allowed] == -np.inf)
    apart = dirichlet.divergence(within[rows, :1], 0.5) + dirichlet.divergence(within[:, 1:2], 0.5)
    assert dirichlet.divergence(within, 0.5) == pytest.approx(apart, rel=1e-13)


def test_without_counts_outcomes_are_uniform():
    np.testing.assert_array_equal(dirichlet.mode(np.zeros((4, 2))), np.full((4, 2), 0.25))


@pytest.mark.parametrize("size", [1e-320, 1e-305, 1e300, 1e308])
def test_extreme_counts_are_normalised(size):
    np.testing.assert_allclose(dirichlet.mode(np.full((4, 1), size)), 0.25, rtol=1e-3)


def test_counts_that_are_no_numbers_are_refused():
    with pytest.raises(DataError, match="not finite"):
        dirichlet.mode(np.array([[np.nan], [1.0]]))


@pytest.mark.parametrize("prior, variational", [(0.5, False), (0.0, True), (-1, True), (np.nan, True), ("1", True)])
def test_impossible_priors_are_refused(prior, variational):
    with pytest.raises(DataError, match="emission_prior"):
        dirichlet.check_prior("emission_prior", prior, variational=variational)
