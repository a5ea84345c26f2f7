"""The E-step by a few compiled dual steps: the general solver's answer in the limit, bounded by its gap before it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st

from trellis.constraints.implicit import Sparsity
from trellis.constraints.rows import Rows
from trellis.engine import ThreadEngine
from trellis.errors import ConvergenceWarning, DataError
from trellis.projection import project
from trellis.projection.kernels.few_steps import FewStepsProjector
from trellis.projection.kernels.sparse_step import FLOOR
from trellis.structures import Chain

from .cases import build_problem, random_batch
from .oracle import enumerate_outputs, solve_primal

pytestmark = pytest.mark.slow


def posterior_of(batch, rows, gamma, steps, *, tolerance=1e-9, duals=None, bounds=None, engine=None, memory=None):
    """Outcome, node marginals (n_slots, K) and edge counts of a projection by steps."""
    bounds = np.array([0, batch.n_instances]) if bounds is None else bounds
    projector = FewStepsProjector(
        rows, bounds, most_steps=steps, tolerance=tolerance, weights=batch.weight, engine=engine, memory=memory
    )
    found = projector.run(
        lambda number: batch.structure(int(bounds[number]), int(bounds[number + 1])), gamma,
        then=lambda number, answer: (answer.posterior.node.copy(), answer.posterior.edge_counts),
        duals=duals,
    )  # fmt: skip
    return found, np.concatenate([q for q, _ in found.results]), sum(counts for _, counts in found.results)


def problem_of(seed, gamma, *, weighted=False):
    rng = np.random.default_rng(seed)
    batch = random_batch(rng, categorical=False)
    if weighted:
        batch = replace(batch, weight=rng.choice([0.5, 1.0, 2.0], size=batch.n_instances))
    return build_problem(rng, batch, gamma, [], blocks=1)


def in_double(duals):
    """The same dual variables in double precision: single ends near 1e-6."""
    return replace(duals, theta=duals.theta.astype(np.float64), level=duals.level.astype(np.float64))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_steps_to_convergence_agree_with_cvxpy(seed, gamma, weighted):
    problem = problem_of(seed, gamma, weighted=weighted)
    projector = FewStepsProjector(problem.rows, np.array([0, 1]), most_steps=1)
    duals = in_double(projector.no_duals(gamma))
    found, node, _ = posterior_of(problem.batch, problem.rows, gamma, 20_000, tolerance=1e-6, duals=duals)
    assert found.converged
    listing = enumerate_outputs(problem.batch, problem.rows)
    q, optimum = solve_primal(listing, gamma)
    np.testing.assert_allclose(node, listing.node_marginals(q), rtol=0, atol=1e-5)
    assert found.value == pytest.approx(optimum, rel=1e-6, abs=1e-6)


DRAWN = settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
drawn = given(st.integers(0, 2**32), st.sampled_from([0.3, 0.7, 1.0, 2.0]), st.booleans())


@DRAWN
@drawn
def test_at_a_tight_tolerance_steps_and_the_general_solver_have_one_optimum(seed, gamma, weighted):
    """From λ = 0 where few steps converge; and from the general solver's optimum always, where steps must stay.

    Steps are slow where a label is all but certain: they are as short as q asks, and the dual bends by q(1 − q) only.
    """
    problem = problem_of(seed, gamma, weighted=weighted)
    block, weights = problem.rows.sparsity[0], problem.batch.weight
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # proximal steps may end a little above it
        general = project(
            problem.batch.structure(), problem.rows, gamma, weights=weights, tolerance=1e-9, max_rounds=5_000
        )
    assume(general.kkt_residual <= 1e-8)
    none = FewStepsProjector(problem.rows, np.array([0, 1]), most_steps=1).no_duals(gamma)
    found, node, counts = posterior_of(problem.batch, problem.rows, gamma, 400, duals=in_double(none))
    if found.converged:
        np.testing.assert_allclose(node, general.posterior.node, rtol=0, atol=1e-6)
        np.testing.assert_allclose(counts, general.posterior.edge_counts, rtol=0, atol=1e-6)
        assert found.value == pytest.approx(general.value, rel=1e-6, abs=1e-6)
    at_optimum = general.duals.sparsity[0] / gamma  # a single task: as in the text
    start = replace(none, theta=at_optimum, gamma=gamma, level=none.level.astype(np.float64))
    first, *_ = posterior_of(problem.batch, problem.rows, gamma, 1, duals=start)
    # The step that measures it is up to 1 / FLOOR longer, and of many slots.
    assert first.kkt_residual <= 1e-9 + general.kkt_residual / FLOOR * np.sqrt(len(block))
    stayed, node, counts = posterior_of(problem.batch, problem.rows, gamma, 20, tolerance=1e-12, duals=start)
    np.testing.assert_allclose(node, general.posterior.node, rtol=0, atol=1e-6)
    np.testing.assert_allclose(counts, general.posterior.edge_counts, rtol=0, atol=1e-6)
    assert stayed.value == pytest.approx(general.value, rel=1e-7, abs=1e-7)


@DRAWN
@drawn
@example(seed=4000, gamma=0.3, weighted=False)  # a step from within the tolerance leads out of it
def test_at_a_loose_tolerance_steps_and_the_general_solver_end_with_residuals_of_one_order(seed, gamma, weighted):
    problem = problem_of(seed, gamma, weighted=weighted)
    general = project(problem.batch.structure(), problem.rows, gamma, weights=problem.batch.weight, tolerance=1e-3)
    found, node, _ = posterior_of(problem.batch, problem.rows, gamma, 4_000, tolerance=1e-3)
    assert found.converged
    assert found.kkt_residual <= 1e-3
    assert general.kkt_residual <= 1e-3
    np.testing.assert_allclose(node, general.posterior.node, rtol=0, atol=0.02)


@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_single_precision_duals_agree_with_the_general_solver(gamma):
    problem = problem_of(7, gamma)
    _, node, counts = posterior_of(problem.batch, problem.rows, gamma, 3_000)
    other = project(problem.batch.structure(), problem.rows, gamma, tolerance=1e-8, max_rounds=5_000)
    np.testing.assert_allclose(node, other.posterior.node, rtol=0, atol=1e-5)
    np.testing.assert_allclose(counts, other.posterior.edge_counts, rtol=0, atol=1e-5)


@pytest.mark.parametrize("steps", [1, 2, 5, 30])
def test_gap_bounds_what_a_better_posterior_would_gain(steps):
    problem = problem_of(4, 1.0)
    found, *_ = posterior_of(problem.batch, problem.rows, 1.0, steps)
    _, optimum = solve_primal(enumerate_outputs(problem.batch, problem.rows), 1.0)
    assert optimum - 1e-6 <= found.value <= optimum + found.gap + 1e-6


def test_gap_shrinks_to_nothing_over_warm_started_rounds():
    problem = problem_of(5, 1.0)
    found, *_ = posterior_of(problem.batch, problem.rows, 1.0, 1)
    first = found.gap
    for _ in range(400):
        found, *_ = posterior_of(problem.batch, problem.rows, 1.0, 1, duals=found.duals)
    assert first > 0.01
    assert found.gap < 1e-4


def test_without_strength_it_is_the_plain_posterior_bit_for_bit():
    problem = problem_of(6, 1.0)
    rows = replace(problem.rows, sparsity=(replace(problem.rows.sparsity[0], strength=0.0),))
    found, node, counts = posterior_of(problem.batch, rows, 1.0, 3)
    plain = problem.batch.structure().infer(weights=problem.batch.weight)
    np.testing.assert_array_equal(node, plain.node)
    np.testing.assert_array_equal(counts, plain.edge_counts)
    assert found.value == -float(problem.batch.weight @ plain.log_partition)
    assert found.evaluations == 1


def one_word_chain(n_instances, k, seed=0):
    """Chains in which one word stands first and last, and others between."""
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, 4 * n_instances + 1, 4)
    node = rng.normal(size=(4 * n_instances, k))
    chain = Chain(offsets, node, rng.normal(size=(k, k)))
    slots = np.sort(np.concatenate([offsets[:-1], offsets[1:] - 1]))
    return chain, slots


def test_boundless_strength_gives_all_occurrences_of_a_word_one_posterior():
    chain, slots = one_word_chain(5, 3)
    block = Sparsity("few", slots * 3, 3, np.zeros(len(slots), np.int64), 1, 1e4)
    rows = replace(Rows.none(chain.parts), sparsity=(block,))
    projector = FewStepsProjector(rows, np.array([0, 5]), most_steps=20_000, tolerance=1e-9)
    found = projector.run(lambda _: chain, then=lambda _, answer: answer.posterior.node.copy())
    q = found.results[0][slots]
    np.testing.assert_allclose(q, np.broadcast_to(q[0], q.shape), rtol=0, atol=1e-5)
    free = chain.infer().node[slots]
    assert np.ptp(free, axis=0).max() > 0.3


def test_an_instance_that_needs_log_space_is_inferred_in_it():
    rng = np.random.default_rng(3)
    # Label 1 is worth nothing until the last slot, where it is all there is.
    node = np.zeros((40, 2))
    node[:, 1] = -60.0
    node[-1] = [-np.inf, 0.0]
    edge = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    chain = Chain(np.array([0, 40]), node, edge)
    block = Sparsity("few", 2 * np.arange(40), 2, rng.integers(3, size=40), 3, 1.0)
    rows = replace(Rows.none(chain.parts), sparsity=(block,))
    found = FewStepsProjector(rows, np.array([0, 1]), most_steps=5).run(
        lambda _: chain, then=lambda _, answer: answer.posterior.node.copy()
    )
    np.testing.assert_allclose(found.results[0][:, 1], 1.0)


def test_shards_and_threads_leave_the_bits_alone():
    problem = problem_of(8, 1.0)
    bounds = np.arange(problem.batch.n_instances + 1)
    outcomes = [
        posterior_of(problem.batch, problem.rows, 1.0, 7, bounds=bounds, engine=engine)
        for engine in (None, ThreadEngine(2), ThreadEngine(4))
    ]
    for found, node, counts in outcomes[1:]:
        np.testing.assert_array_equal(node, outcomes[0][1])
        np.testing.assert_array_equal(counts, outcomes[0][2])
        assert found.value == outcomes[0][0].value
        np.testing.assert_array_equal(found.duals.theta, outcomes[0][0].duals.theta)


@pytest.mark.parametrize("rows_a_task", [3, 16_384])
def test_how_keys_are_cut_and_where_duals_are_kept_leaves_the_posterior_alone(rows_a_task, monkeypatch):
    problem = problem_of(8, 1.0)
    bounds = np.arange(problem.batch.n_instances + 1)
    expected = posterior_of(problem.batch, problem.rows, 1.0, 7, bounds=bounds)
    monkeypatch.setattr("trellis.projection.kernels.few_steps.ROWS_A_TASK", rows_a_task)
    for memory in (0, "1G"):
        found, node, counts = posterior_of(problem.batch, problem.rows, 1.0, 7, bounds=bounds, memory=memory)
        np.testing.assert_array_equal(node, expected[1])
        np.testing.assert_array_equal(counts, expected[2])
        assert found.value == pytest.approx(expected[0].value, rel=1e-12)
        assert np.sort(found.duals.theta.sum(axis=1)) == pytest.approx(
            np.sort(expected[0].duals.theta.sum(axis=1)), abs=0
        )


def test_duals_stay_in_their_set():
    problem = problem_of(9, 0.5)
    block = problem.rows.sparsity[0]
    found, *_ = posterior_of(problem.batch, problem.rows, 0.5, 4)
    theta = found.duals.theta
    sums = np.zeros((block.n_keys, theta.shape[1]))
    np.add.at(sums, block.key, theta)  # a single task: as in the text
    assert theta.min() >= 0
    assert sums.max() <= block.strength / 0.5 * (1 + 1e-6)


def test_other_constraints_are_refused_by_name():
    rng = np.random.default_rng(0)
    batch = random_batch(rng, categorical=False)
    problem = build_problem(rng, batch, 1.0, [], blocks=2)
    with pytest.raises(DataError, match="also: .*s1"):
        FewStepsProjector(problem.rows, np.array([0, batch.n_instances]), most_steps=2)
    none = Rows.none(batch.parts)
    with pytest.raises(DataError, match="there is none"):
        FewStepsProjector(none, np.array([0, batch.n_instances]), most_steps=2)
