"""Projections of both directions: KKT, cvxpy on listed alignments, hints, γ."""

import itertools

import cvxpy
import numpy as np
import pytest
from scipy.special import logsumexp

from tests.align.enumeration import alignments, hmm_log_prob, link_matrix
from trellis.structures.kernels import align_hmm
from trellis.structures.kernels.align_max import relax
from trellis.structures.kernels.align_project import AGREEMENT, BIJECTIVE, HINTS, new_duals, project
from trellis.structures.kernels.align_shard import new_shares
from trellis.structures.kernels.align_work import HMM, Direction, new_work

N_SOURCE, N_TARGET, LONGEST, P_NULL = 3, 3, 4, 0.2


class Problem:
    """Two random directions of one pair; direction 0 observes target words."""

    def __init__(self, seed, sharpness=2.0):
        rng = np.random.default_rng(seed)
        self.link = [
            sharpness * rng.standard_normal((N_TARGET, N_SOURCE)),
            sharpness * rng.standard_normal((N_SOURCE, N_TARGET)),
        ]
        self.null = [rng.standard_normal(N_TARGET), rng.standard_normal(N_SOURCE)]
        self.jump = [rng.random(2 * LONGEST + 1) + 0.1 for _ in range(2)]
        self.first = [rng.random(LONGEST + 1) + 0.1 for _ in range(2)]
        self.hinted = np.zeros((N_SOURCE, N_TARGET), np.uint8)
        self.directions, self.works = [], []

    def project(self, constraints, gamma=1.0, tolerance=1e-7, max_evaluations=20_000, reliability=0.9):
        sizes = [(N_TARGET, N_SOURCE), (N_SOURCE, N_TARGET)]
        directions, works = [], []
        for k, (n_obs, n_places) in enumerate(sizes):
            jump, first = self.jump[k], self.first[k]
            powered = jump ** (1 / gamma)
            sums, firsts = np.concatenate(([0], np.cumsum(jump))), np.concatenate(([0], np.cumsum(first)))
            directions.append(Direction(HMM, powered, powered[::-1].copy(), sums, first, firsts, P_NULL))
            work = new_work(n_obs, n_places)
            work.emission[:] = np.exp(self.link[k] / gamma)
            work.null_emission[:] = (P_NULL * np.exp(self.null[k])) ** (1 / gamma)
            align_hmm.set_places(n_places, directions[k], 1 / gamma, work)
            works.append(work)
        duals = [new_duals(N_SOURCE, N_TARGET) for _ in range(4)]
        result = project(
            N_SOURCE, N_TARGET, constraints, reliability, 1 / gamma, 0.0, tolerance, max_evaluations,
            *duals, self.hinted, tuple(directions), *works,
        )  # fmt: skip
        self.directions, self.works = directions, works
        return result, works[0].link.T.copy(), works[1].link.copy(), duals[0]

    def log_probs(self, k):
        n_obs, n_places = self.link[k].shape
        return np.array(
            [
                hmm_log_prob(y, n_places, self.link[k], self.null[k], self.jump[k], self.first[k], P_NULL)
                for y in alignments(n_obs, n_places)
            ]
        )

    def by_cvxpy(self, constraints, gamma, reliability=0.9):
        """The projection as a convex program over all alignments of both directions."""
        log_p = [self.log_probs(k) for k in range(2)]
        q = [cvxpy.Variable(len(p), nonneg=True) for p in log_p]
        objective = sum(-gamma * cvxpy.sum(cvxpy.entr(q[k])) - log_p[k] @ q[k] for k in range(2))
        links = [
            cvxpy.reshape(link_matrix(N_TARGET, N_SOURCE).T @ q[0], (N_TARGET, N_SOURCE), order="C").T,
            cvxpy.reshape(link_matrix(N_SOURCE, N_TARGET).T @ q[1], (N_SOURCE, N_TARGET), order="C"),
        ]
        rules = [cvxpy.sum(v) == 1 for v in q]
        if constraints & AGREEMENT:
            rules.append(links[0] == links[1])
        if constraints & BIJECTIVE:
            rules += [cvxpy.sum(links[0], axis=1) <= 1, cvxpy.sum(links[1], axis=0) <= 1]
        if constraints & HINTS:
            for j in np.flatnonzero(self.hinted.any(0)):
                rules.append(self.hinted[:, j] @ links[0][:, j] >= reliability)
            for i in np.flatnonzero(self.hinted.any(1)):
                rules.append(self.hinted[i] @ links[1][i] >= reliability)
        problem = cvxpy.Problem(cvxpy.Minimize(objective), rules)
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        return links[0].value, links[1].value, problem.value


@pytest.mark.parametrize("constraints", [AGREEMENT, BIJECTIVE, AGREEMENT | BIJECTIVE])
@pytest.mark.parametrize("gamma", [1.0, 0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_projection_agrees_with_cvxpy(constraints, gamma, seed):
    problem = Problem(seed)
    (value, *_, residual, _), q1, q2, _ = problem.project(constraints, gamma)
    want1, want2, least = problem.by_cvxpy(constraints, gamma)
    assert residual <= 1e-7
    np.testing.assert_allclose(q1, want1, atol=2e-5)
    np.testing.assert_allclose(q2, want2, atol=2e-5)
    np.testing.assert_allclose(gamma * value, -least, rtol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_agreement_makes_directions_equal_and_therefore_bijective(seed):
    (_, _, _, residual, _), q1, q2, _ = Problem(seed, sharpness=4.0).project(AGREEMENT, tolerance=1e-6)
    assert residual <= 1e-6
    np.testing.assert_allclose(q1, q2, atol=1e-6)
    assert q1.sum(0).max() <= 1 + 1e-6
    assert q1.sum(1).max() <= 1 + 1e-5


@pytest.mark.parametrize("seed", range(6))
def test_bijective_rows_cap_expected_fertility_with_complementary_duals(seed):
    _, q1, q2, (_, rows) = Problem(seed, sharpness=3.0).project(BIJECTIVE)
    for mu, fertility in ((rows[0, :N_SOURCE], q1.sum(1)), (rows[1, :N_TARGET], q2.sum(0))):
        assert fertility.max() <= 1 + 1e-6
        assert mu.min() >= 0.0
        # complementarity: a dual variable is positive only where its row is tight
        np.testing.assert_allclose(np.minimum(mu, 1 - fertility), 0.0, atol=1e-6)


def test_dual_value_of_an_unfinished_projection_bounds_the_finished_one():
    problem = Problem(3, sharpness=4.0)
    values = [problem.project(AGREEMENT, max_evaluations=n)[0][0] for n in (1, 2, 4, 8, 16, 1000)]
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(values))
    free = sum(logsumexp(problem.log_probs(k)) for k in range(2))
    np.testing.assert_allclose(values[0], free, rtol=1e-12)


@pytest.mark.parametrize("constraints", [HINTS, HINTS | AGREEMENT])
def test_hints_hold_with_their_reliability(constraints):
    problem = Problem(4)
    problem.hinted[0, 2] = problem.hinted[2, 1] = 1
    _, q1, q2, _ = problem.project(constraints, reliability=0.8)
    assert min(q1[0, 2], q1[2, 1], q2[0, 2], q2[2, 1]) >= 0.8 - 1e-6
    want1, want2, _ = problem.by_cvxpy(constraints, 1.0, reliability=0.8)
    np.testing.assert_allclose(q1, want1, atol=2e-5)
    np.testing.assert_allclose(q2, want2, atol=2e-5)


def test_contradicting_hints_are_weighed_and_not_an_error():
    problem = Problem(5)
    problem.hinted[0, 1] = problem.hinted[1, 1] = 1
    (value, *_), q1, _, _ = problem.project(HINTS | AGREEMENT, reliability=0.9, max_evaluations=300)
    assert np.isfinite(value)
    assert q1[:, 1].sum() > 0.8


def test_relaxation_at_gamma_zero_solves_the_linear_program():
    problem = Problem(6, sharpness=3.0)
    problem.project(AGREEMENT, max_evaluations=1)  # sets directions and works
    out = new_shares(1, N_SOURCE * N_TARGET, N_SOURCE, N_TARGET, LONGEST)
    value, _, _, violation, _ = relax(
        N_SOURCE, N_TARGET, AGREEMENT, 0.9, 4000, new_duals(N_SOURCE, N_TARGET), problem.hinted,
        tuple(problem.directions), *problem.works, out,
    )  # fmt: skip
    want1, _, least = problem.by_cvxpy(AGREEMENT, 0.0)
    np.testing.assert_allclose(value, -least, atol=2e-2)
    assert violation < 0.1
    np.testing.assert_allclose(problem.works[0].link.T, want1, atol=0.1)
