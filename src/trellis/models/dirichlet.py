"""M-steps of multinomials under a Dirichlet prior: maximum likelihood, posterior mode, variational Bayes.

Counts c (n_outcomes, n_distributions) hold one distribution a column; α is the prior of every allowed outcome.

    mode                θ_j ∝ c_j + α − 1                                  (α = 1: maximum likelihood)
    variational Bayes   q(θ) = Dir(c + α),   E_q[log θ_j] = ψ(c_j + α) − ψ(Σ_j' c_j' + α)

(Graça et al. 2009, sec. 4.) The E-step after a variational M-step uses exp E[log θ] where it used θ. The objective
of EM is then  Σ log-partition + log p(θ)  for a mode and  Σ log-partition − KL(q(θ) ‖ p(θ))  for variational Bayes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray
from trellis.errors import DataError
from trellis.models.kernels import counting
from trellis.structures.kernels.lanes import with_slack


def check_prior(name: str, prior: object, *, variational: bool) -> float:
    """A Dirichlet parameter; below 1 a density has no mode inside the simplex, so only variational Bayes takes it."""
    if isinstance(prior, bool) or not isinstance(prior, int | float) or not np.isfinite(prior) or prior <= 0:
        raise DataError(f"{name} must be a positive number, got {prior!r}")
    if not variational and prior < 1:
        raise DataError(
            f"{name} is {prior}, but a Dirichlet with α < 1 has no mode: use α ≥ 1 (1 is maximum likelihood) or "
            "variational=True"
        )
    return float(prior)


def check_sums(name: str, columns: FloatArray, *, may_be_empty: bool = False) -> FloatArray:
    """Columns of probabilities, each of which must sum to 1; or to 0 where they may be empty."""
    sums = columns.sum(axis=0)
    wrong = ~(np.abs(sums - 1.0) <= 1e-6) & ~(may_be_empty & (sums == 0.0))
    if np.any(wrong):
        raise DataError(f"{name} must sum to 1 (got {np.ravel(sums)[np.ravel(wrong)][0]:.6g})")
    return columns


def mode(counts: FloatArray, prior: float = 1.0, allowed: BoolArray | None = None) -> FloatArray:
    """Columns θ_j ∝ c_j + α − 1 over the allowed outcomes; uniform where that sums to nothing.

    >>> mode(np.array([[3.0, 0.0], [1.0, 0.0]])).tolist()
    [[0.75, 0.5], [0.25, 0.5]]
    """
    raised = counts
    if prior != 1.0:
        raised = counts + (prior - 1.0)
    if allowed is not None:
        raised = np.where(allowed, raised, 0.0)
    probabilities: FloatArray = with_slack(counts.shape)
    total = counting.normalise_columns(np.ascontiguousarray(raised), probabilities)
    # Counts so large or so small that 1 / total is no number are scaled first.
    odd = ~(np.isfinite(total) & (total > 1e-300))
    if np.any(odd):
        for j in np.flatnonzero(odd):
            probabilities[:, j] = _normalised(raised[:, j], None if allowed is None else allowed[:, j])
    return probabilities


def _normalised(column: FloatArray, allowed: BoolArray | None) -> FloatArray:
    if not np.all(np.isfinite(column)):
        raise DataError("expected counts are not finite: check the weights and scores that they come from")
    top = column.max(initial=0.0)
    scaled = column / top if top > 0 else (np.ones_like(column) if allowed is None else allowed.astype(np.float64))
    total = scaled.sum()
    return np.asarray(scaled / total if total > 0 else scaled)


def log_density(probabilities: FloatArray, prior: float, allowed: BoolArray | None = None) -> float:
    """Σ (α − 1) log θ over allowed outcomes: the log-density of the prior up to a constant."""
    if prior == 1.0:
        return 0.0
    within = probabilities if allowed is None else probabilities[allowed]
    with np.errstate(divide="ignore"):
        return float((prior - 1.0) * np.log(within).sum())


def concentration(counts: FloatArray, prior: float, allowed: BoolArray | None = None) -> FloatArray:
    """c + α, the parameters of q(θ); 0 for an outcome that is not allowed."""
    raised = counts + prior
    return raised if allowed is None else np.where(allowed, raised, 0.0)


def fitted(counts: FloatArray, prior: float, allowed: BoolArray | None = None, *, variational: bool) -> FloatArray:
    """The M-step: the mode, or the parameters of q(θ)."""
    return (concentration if variational else mode)(counts, prior, allowed)


def means_and_logs(tables: Sequence[FloatArray], *, variational: bool) -> tuple[list[FloatArray], list[FloatArray]]:
    """Of what was fitted the probabilities, and the logarithms that scores are made of."""
    if variational:
        return [mean(table) for table in tables], [expected_log(table) for table in tables]
    with np.errstate(divide="ignore"):
        return list(tables), [np.log(table) for table in tables]


def log_prior(tables: Sequence[FloatArray], priors: Sequence[float], *, variational: bool) -> float:
    """Of what was fitted the log-density of the priors, up to a constant; or −KL(q(θ) ‖ p(θ))."""
    pairs = list(zip(tables, priors, strict=True))
    if variational:
        return -sum(divergence(table, prior) for table, prior in pairs)
    return sum(log_density(table, prior) for table, prior in pairs)


def expected_log(concentration: FloatArray) -> FloatArray:
    """E[log θ] under Dir(concentration), column by column; −inf for an outcome that is not allowed."""
    from scipy.special import digamma

    with np.errstate(divide="ignore", invalid="ignore"):
        logs: FloatArray = digamma(concentration) - digamma(concentration.sum(axis=0))
    logs[concentration == 0.0] = -np.inf
    return logs


def mean(concentration: FloatArray) -> FloatArray:
    """E[θ] under Dir(concentration), column by column."""
    return mode(concentration)


def divergence(concentration: FloatArray, prior: float) -> float:
    """Σ over columns of KL(Dir(concentration) ‖ Dir(α, .., α)) over the outcomes that are allowed (not 0)."""
    from scipy.special import gammaln

    own = concentration[:, (concentration > 0.0).any(axis=0)]
    allowed = own > 0.0
    n_allowed = allowed.sum(axis=0)
    of_own = gammaln(own.sum(axis=0)) - gammaln(np.where(allowed, own, 1.0)).sum(axis=0)
    of_prior = gammaln(n_allowed * prior) - n_allowed * gammaln(prior)
    expected = np.where(allowed, (own - prior) * np.where(allowed, expected_log(own), 0.0), 0.0).sum(axis=0)
    return float((of_own - of_prior + expected).sum())
