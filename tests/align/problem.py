"""A small random sentence pair whose projections can be found by listing all alignments."""

import cvxpy
import numpy as np

from tests.align.enumeration import alignments, hmm_log_prob, link_matrix
from trellis.structures.kernels import align_hmm
from trellis.structures.kernels.align_bundle import LARGEST_BUNDLE, project_linear
from trellis.structures.kernels.align_project import AGREEMENT, BIJECTIVE, HINT_LIMIT, HINTS, new_duals, project
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

    def scores(self, gamma):
        """What kernels read of both directions: (directions, works)."""
        directions, works = [], []
        for k, (n_obs, n_places) in enumerate([(N_TARGET, N_SOURCE), (N_SOURCE, N_TARGET)]):
            jump, first = self.jump[k], self.first[k]
            powered = jump ** (1 / gamma)
            sums, firsts = np.concatenate(([0], np.cumsum(jump))), np.concatenate(([0], np.cumsum(first)))
            directions.append(Direction(HMM, powered, powered[::-1].copy(), sums, first, firsts, P_NULL))
            work = new_work(n_obs, n_places)
            work.emission[:] = np.exp(self.link[k] / gamma)
            work.null_emission[:] = (P_NULL * np.exp(self.null[k])) ** (1 / gamma)
            align_hmm.set_places(n_places, directions[k], 1 / gamma, work)
            works.append(work)
        return tuple(directions), works

    def project(self, constraints, gamma=1.0, tolerance=1e-7, max_evaluations=20_000, reliability=0.9):
        directions, works = self.scores(gamma)
        duals = [new_duals(N_SOURCE, N_TARGET) for _ in range(4)]
        result = project(
            N_SOURCE, N_TARGET, constraints, reliability, 1 / gamma, 0.0, tolerance, max_evaluations,
            *duals, self.hinted, directions, *works,
        )  # fmt: skip
        return result, works[0].link.T.copy(), works[1].link.copy(), duals[0]

    def project_linear(self, constraints, tolerance=1e-8, max_evaluations=1000, reliability=0.9, most=LARGEST_BUNDLE):
        """At γ = 0: (result, works, shares)."""
        directions, works = self.scores(1.0)
        shares = new_shares(1, N_SOURCE * N_TARGET, N_SOURCE, N_TARGET, LONGEST)
        result = project_linear(
            N_SOURCE, N_TARGET, constraints, reliability, tolerance, max_evaluations, most, self.hinted, directions,
            *works, shares,
        )  # fmt: skip
        return result, works, shares

    def log_probs(self, k):
        n_obs, n_places = self.link[k].shape
        return np.array(
            [
                hmm_log_prob(y, n_places, self.link[k], self.null[k], self.jump[k], self.first[k], P_NULL)
                for y in alignments(n_obs, n_places)
            ]
        )

    def by_cvxpy(self, constraints, gamma, reliability=0.9):
        """The projection as a convex program over all alignments of both directions: (q₁, q₂, least value)."""
        log_p = [self.log_probs(k) for k in range(2)]
        q = [cvxpy.Variable(len(p), nonneg=True) for p in log_p]
        objective = -sum(log_p[k] @ q[k] for k in range(2))
        if gamma > 0:
            objective -= gamma * sum(cvxpy.sum(cvxpy.entr(q[k])) for k in range(2))
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
            held = [self.hinted[:, j] @ links[0][:, j] for j in np.flatnonzero(self.hinted.any(0))]
            held += [self.hinted[i] @ links[1][i] for i in np.flatnonzero(self.hinted.any(1))]
            shortfalls = cvxpy.Variable(len(held), nonneg=True)
            rules.append(cvxpy.hstack(held) >= reliability - shortfalls)
            objective += (gamma or 1.0) * HINT_LIMIT * cvxpy.sum(shortfalls)
        problem = cvxpy.Problem(cvxpy.Minimize(objective), rules)
        if gamma > 0:
            problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        else:
            # The simplex method: interior points stop short where optima are not unique.
            problem.solve(solver="SCIPY", scipy_options={"method": "highs-ds"})
        return links[0].value, links[1].value, problem.value
