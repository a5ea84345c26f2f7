"""Instances with more rows than a Hessian matrix is kept for."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.constraints.strength import Kind
from trellis.projection import project
from trellis.projection.kernels import limited, solver
from trellis.projection.local import GroupTable

from .cases import HARD, STRENGTHS, Row, build_problem, compile_rows, name_of, random_batch
from .oracle import enumerate_outputs, solve_primal

MANY = solver.MOST_ROWS_WITH_HESSIAN + 10


def solve_dual(problem, *, limited_memory: bool, tolerance: float) -> tuple[np.ndarray, int]:
    """θ of the first instance's rows by the solver alone, its evaluations by plain sums."""
    listing = enumerate_outputs(problem.batch, problem.rows)
    rows, table = problem.rows, GroupTable.of(problem.rows, 1.0)
    n = len(rows)
    trial, integers, floats = np.zeros(n), np.zeros(solver.N_INTEGERS, np.int64), np.zeros(solver.N_FLOATS)
    vectors, recent = np.zeros((solver.N_VECTORS, n)), np.zeros(solver.MEMORY)
    vectors[solver.REACH] = vectors[solver.SCALE] = 1.0
    groups = (table.equality, table.start, table.kind, table.norm, table.amount)
    solver.begin(trial, *groups, integers, floats, vectors, recent)
    floats[solver.LIMIT] = 1e3
    integers[solver.LIMITED] = int(limited_memory)
    hessian = np.zeros((limited.MODEL_ROWS if limited_memory else n, n))
    solver.set_diagonal(hessian, np.full(n, 0.25), integers, vectors)
    action = solver.EVALUATE
    while action == solver.EVALUATE:
        q, log_partition = listing.tilted(trial, [], 1.0)
        value, gradient = log_partition[0] + rows.bound @ trial, rows.bound - q[0] @ listing.phi[0]
        action = solver.advance(
            trial, value, gradient, *groups, hessian, integers, floats, vectors, recent, tolerance, 500
        )
    assert action == solver.CONVERGED
    return vectors[solver.X].copy(), int(integers[solver.N_EVALUATIONS])


@pytest.mark.parametrize("strength", STRENGTHS, ids=name_of)
@pytest.mark.parametrize("seed", range(2))
def test_limited_memory_and_a_matrix_reach_the_same_optimum(strength, seed):
    rng = np.random.default_rng([seed, STRENGTHS.index(strength)])
    batch = random_batch(rng, categorical=False, lengths=(4,), k=3)
    problem = build_problem(rng, batch, 1.0, [("local", strength, 4), ("local", HARD, 2)], equality=0.3)
    listing = enumerate_outputs(problem.batch, problem.rows)
    dense, _ = solve_dual(problem, limited_memory=False, tolerance=1e-8)
    sparse, evaluations = solve_dual(problem, limited_memory=True, tolerance=1e-8)
    values = [listing.dual_value(theta, [], 1.0) for theta in (dense, sparse)]
    assert values[1] == pytest.approx(values[0], abs=1e-7)
    one, other = (listing.marginals(listing.tilted(theta, [], 1.0)[0]) for theta in (dense, sparse))
    np.testing.assert_allclose(one, other, atol=1e-5)
    assert evaluations <= 200


@pytest.mark.parametrize("generic", [False, True], ids=["fast path", "generic"])
@pytest.mark.parametrize("strength", STRENGTHS, ids=name_of)
def test_hundreds_of_rows_in_one_instance_agree_with_cvxpy(strength, generic):
    rng = np.random.default_rng([STRENGTHS.index(strength), 5])
    batch = random_batch(rng, categorical=False, lengths=(4,), k=3)
    listing = enumerate_outputs(batch, compile_rows(batch, [], []))
    possible = rng.dirichlet(np.ones(len(listing.outputs[0].score)))
    rows, used, diverges = [], listing.used, strength[0] == Kind.KL
    for r in range(MANY):
        entries = {int(p): float(rng.normal()) for p in rng.choice(used, 2, replace=False)}
        if diverges:
            entries = {p: abs(c) for p, c in entries.items()}
        met = sum(c * float(possible @ listing.outputs[0].use[:, p]) for p, c in entries.items())
        rows.append(Row(entries, met + 0.1 * rng.random(), diverges, 0, r if diverges else r // 70))
    amount = {"hard": 0.0, "slack": 0.05, "penalty": 0.5, "squared": 0.5, "kl": 0.5}[name_of(strength).split("-")[0]]
    compiled = compile_rows(batch, rows, [(*strength, amount)] * (MANY if diverges else MANY // 70 + 1))
    parts = np.arange(batch.n_parts)
    found = project(
        batch.structure(), compiled, 1.0, tolerance=1e-7, max_evaluations=2000, at=parts, generic=generic
    )  # fmt: skip
    assert found.converged
    listing = enumerate_outputs(batch, compiled)
    q, value = solve_primal(listing, 1.0)
    assert found.value == pytest.approx(value, abs=1e-5)
    np.testing.assert_allclose(found.posterior.at(parts)[used], listing.marginals(q)[used], atol=1e-3)
