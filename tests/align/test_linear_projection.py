"""Projections of both directions at γ = 0: the linear program over listed alignments, its certificates, early stops."""

import itertools

import numpy as np
import pytest
from scipy.optimize import nnls

from tests.align.enumeration import alignments
from tests.align.problem import LONGEST, N_SOURCE, N_TARGET, Problem
from trellis.structures.kernels.align_columns import drop_columns, new_bundle
from trellis.structures.kernels.align_max import best_alignment
from trellis.structures.kernels.align_project import AGREEMENT, BIJECTIVE, HINT_LIMIT, HINTS

BOTH = AGREEMENT | BIJECTIVE
KINDS = [AGREEMENT, BIJECTIVE, BOTH, HINTS, HINTS | AGREEMENT]
SEEDS = [1, 10, 21, 25, 53]
"""With agreement, the optimum of 10, 21 and 25 is fractional."""


def hinted_problem(seed, sharpness=3.0):
    problem = Problem(seed, sharpness)
    problem.hinted[0, 2] = problem.hinted[2, 1] = 1
    return problem


def broken(problem, constraints, q1, q2, reliability=0.9):
    """(the largest violation of agreement and fertility, the shortfalls of hints summed)."""
    violation, shortfall = 0.0, 0.0
    if constraints & AGREEMENT:
        violation = np.abs(q1 - q2).max()
    if constraints & BIJECTIVE:
        violation = max(violation, q1.sum(1).max() - 1, q2.sum(0).max() - 1)
    if constraints & HINTS:
        for hinted, held in ((problem.hinted.any(0), (problem.hinted * q1).sum(0)),
                             (problem.hinted.any(1), (problem.hinted * q2).sum(1))):  # fmt: skip
            shortfall += np.maximum(reliability - held[hinted], 0.0).sum()
    return violation, shortfall


def statistics_of(y, n_places, jump, first):
    """Links, null links, jumps, first places and the M-step's denominators of one alignment, in one row."""
    middle = len(jump) // 2
    links, nulls = np.zeros((len(y), n_places)), np.zeros(len(y))
    ends, weight = np.zeros(2 * LONGEST + 1), np.zeros(2 * LONGEST + 2)
    firsts, first_weight = np.zeros(LONGEST + 1), np.zeros(LONGEST + 2)
    anchor = None
    for t, i in enumerate((*y, n_places)):
        if i < 0:
            nulls[t] = 1
            continue
        if t < len(y):
            links[t, i] = 1
        if anchor is None:
            firsts[i] += 1
            first_weight[[0, n_places + 1]] += np.array([1, -1]) / first[: n_places + 1].sum()
        else:
            ends[middle + i - anchor] += 1
            possible = [middle + k - anchor for k in range(n_places + 1)]
            weight[[possible[0], possible[-1] + 1]] += np.array([1, -1]) / jump[possible].sum()
        anchor = i
    return np.concatenate((links.ravel(), nulls, ends, weight, firsts, first_weight))


def alignment_weights(problem, k, work, shares):
    """Weights (n_alignments,) that give the links and statistics of direction k, and how far they are from doing so."""
    n_obs, n_places = problem.link[k].shape
    rows = [statistics_of(y, n_places, problem.jump[k], problem.first[k]) for y in alignments(n_obs, n_places)]
    found = (work.link.ravel(), work.null_link, shares.ends[k], shares.jump_weight[k], shares.firsts[k],
             shares.first_weight[k])  # fmt: skip
    return nnls(np.array(rows).T, np.concatenate(found))


@pytest.mark.parametrize("constraints", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_linear_program_is_solved_exactly(constraints, seed):
    problem = hinted_problem(seed)
    (value, *_, residual, evaluations), works, _ = problem.project_linear(constraints)
    *_, least = problem.by_cvxpy(constraints, 0.0)
    np.testing.assert_allclose(value, -least, atol=1e-6)
    assert residual <= 1e-8
    assert evaluations < 100
    violation, shortfall = broken(problem, constraints, works[0].link.T, works[1].link)
    assert violation <= 1e-6
    assert shortfall <= 1e-6


@pytest.mark.parametrize("constraints", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_links_and_jumps_are_those_of_averaged_alignments_that_attain_the_value(constraints, seed):
    problem = hinted_problem(seed)
    (value, *_), works, shares = problem.project_linear(constraints)
    attained = 0.0
    for k in range(2):
        weights, misfit = alignment_weights(problem, k, works[k], shares)
        assert misfit <= 1e-10
        np.testing.assert_allclose(weights.sum(), 1.0, atol=1e-10)
        attained += weights @ problem.log_probs(k)
    np.testing.assert_allclose(attained, value, atol=1e-6)


def test_a_fractional_optimum_exceeds_every_pair_of_agreeing_alignments():
    problem = Problem(21, sharpness=3.0)
    (value, *_), works, _ = problem.project_linear(AGREEMENT)
    link_sets = [{}, {}]
    for k in range(2):
        for y, log_prob in zip(alignments(3, 3), problem.log_probs(k), strict=True):
            links = frozenset((t, i) if k else (i, t) for t, i in enumerate(y) if i >= 0)
            link_sets[k][links] = log_prob
    best = max(link_sets[0][links] + link_sets[1][links] for links in link_sets[0].keys() & link_sets[1].keys())
    assert value > best + 0.1
    want1, want2, least = problem.by_cvxpy(AGREEMENT, 0.0)
    assert np.any((want1 > 0.1) & (want1 < 0.9))
    np.testing.assert_allclose(value, -least, atol=1e-6)
    np.testing.assert_allclose(works[0].link.T, want1, atol=1e-6)
    np.testing.assert_allclose(works[1].link, want2, atol=1e-6)


@pytest.mark.parametrize("constraints", KINDS)
def test_ties_between_all_alignments_without_null_end_in_a_solution(constraints):
    problem = hinted_problem(0)
    for k in range(2):
        problem.link[k][:] = 0.0
        problem.null[k][:] = -5.0
        problem.jump[k][:] = 1.0
        problem.first[k][:] = 1.0
    (value, *_, residual, evaluations), works, _ = problem.project_linear(constraints)
    assert residual <= 1e-8
    assert 1 < evaluations < 100
    np.testing.assert_allclose(value, -problem.by_cvxpy(constraints, 0.0)[2], atol=1e-6)
    assert broken(problem, constraints, works[0].link.T, works[1].link)[0] <= 1e-6


@pytest.mark.parametrize("constraints", KINDS)
def test_an_early_stop_bounds_the_value_from_above_ever_closer(constraints):
    problem = hinted_problem(53)
    runs = [problem.project_linear(constraints, max_evaluations=n)[0] for n in (1, 2, 3, 4, 6, 8, 12, 100)]
    values = [run[0] for run in runs]
    assert all(later <= earlier for earlier, later in itertools.pairwise(values))
    assert values[0] > values[-1] + 0.1
    assert min(values) >= -problem.by_cvxpy(constraints, 0.0)[2] - 1e-6
    np.testing.assert_allclose(values[0], sum(problem.log_probs(k).max() for k in range(2)), rtol=1e-12)
    assert [run[4] for run in runs[:5]] == [1, 2, 3, 4, 6]


@pytest.mark.parametrize("constraints", KINDS)
@pytest.mark.parametrize("evaluations", [1, 2, 4])
def test_the_residual_of_an_early_stop_is_what_the_average_breaks_and_misses(constraints, evaluations):
    problem = hinted_problem(53)
    (value, *_, residual, _), works, shares = problem.project_linear(constraints, max_evaluations=evaluations)
    violation, shortfall = broken(problem, constraints, works[0].link.T, works[1].link)
    attained = -HINT_LIMIT * shortfall
    for k in range(2):
        weights, _ = alignment_weights(problem, k, works[k], shares)
        attained += weights @ problem.log_probs(k)
    gap = abs(value - attained) / (N_SOURCE + N_TARGET)
    assert residual > 1e-3
    np.testing.assert_allclose(residual, max(violation, gap), rtol=1e-6)


def test_it_stops_as_soon_as_the_residual_is_small_enough():
    problem = Problem(21, sharpness=3.0)
    (_, *_, residual, few), *_ = problem.project_linear(AGREEMENT, tolerance=0.3)
    (_, *_, exact, many), *_ = problem.project_linear(AGREEMENT)
    assert exact <= 1e-8 < residual <= 0.3
    assert few < many


@pytest.mark.parametrize("seed", SEEDS)
def test_scores_are_left_under_the_multipliers_of_the_bound(seed):
    problem = Problem(seed, sharpness=3.0)
    for evaluations in (2, 3, 4, 5, 6, 7, 1000):
        (value, s1, s2, *_), works, _ = problem.project_linear(AGREEMENT, max_evaluations=evaluations)
        directions, _ = problem.scores(1.0)
        best = [best_alignment(3, 3, works[k].tilted, directions[k], works[k], np.zeros(3, np.int32)) for k in range(2)]
        np.testing.assert_allclose(best, [s1, s2], rtol=1e-12)
        np.testing.assert_allclose(sum(best), value, rtol=1e-12)


def test_contradicting_hints_are_paid_for_at_their_price():
    problem = Problem(5)
    problem.hinted[0, 1] = problem.hinted[1, 1] = 1
    (value, *_, residual, _), works, _ = problem.project_linear(HINTS | AGREEMENT)
    assert residual <= 1e-8
    np.testing.assert_allclose(value, -problem.by_cvxpy(HINTS | AGREEMENT, 0.0)[2], atol=1e-6)
    assert broken(problem, HINTS, works[0].link.T, works[1].link)[1] > 0.5


@pytest.mark.parametrize("constraints", [AGREEMENT, BOTH])
def test_a_full_bundle_drops_what_has_no_weight_and_stays_exact(constraints):
    problem = Problem(21, sharpness=3.0)
    (value, *_, residual, evaluations), *_ = problem.project_linear(constraints, most=10)
    assert evaluations > 5  # so that the bundle was full
    assert residual <= 1e-8
    np.testing.assert_allclose(value, -problem.by_cvxpy(constraints, 0.0)[2], atol=1e-6)


def test_a_bundle_too_small_for_the_solution_still_bounds_it_with_averages_of_alignments():
    problem = Problem(21, sharpness=3.0)
    (value, *_, residual, evaluations), works, shares = problem.project_linear(AGREEMENT, max_evaluations=50, most=6)
    assert evaluations == 50
    assert residual > 1e-8
    assert value >= -problem.by_cvxpy(AGREEMENT, 0.0)[2] - 1e-6
    for k in range(2):
        weights, misfit = alignment_weights(problem, k, works[k], shares)
        assert misfit <= 1e-10
        np.testing.assert_allclose(weights.sum(), 1.0, atol=1e-10)


@pytest.mark.parametrize("most, kept", [(6, [0, 2, 3, 5]), (3, [0, 2, 5])])
def test_dropping_columns_keeps_the_rest_whole(most, kept):
    bundle = new_bundle(8, 3, 2)
    rng = np.random.default_rng(0)
    for k, (side, weight) in enumerate([(0, 0.7), (1, 0.0), (1, 0.8), (1, 0.2), (0, 0.0), (0, 0.3)]):
        bundle.side[k], bundle.weight[k] = side, weight
        bundle.path[k] = rng.integers(-1, 3, 3)
        bundle.score[k], bundle.base[k] = rng.random(2)
        bundle.uses[k] = rng.random(2)
    bundle.overlap[:] = rng.random((8, 8))
    want = {name: getattr(bundle, name)[kept].copy() for name in ("side", "path", "score", "base", "uses")}
    overlap = bundle.overlap[np.ix_(kept, kept)].copy()
    n = drop_columns(6, most, bundle)
    assert n == len(kept)
    for name, values in want.items():
        np.testing.assert_array_equal(getattr(bundle, name)[:n], values)
    np.testing.assert_array_equal(bundle.overlap[:n, :n], overlap)
    for side in range(2):
        np.testing.assert_allclose(bundle.weight[:n][bundle.side[:n] == side].sum(), 1.0, rtol=1e-12)


def test_without_constraints_the_best_alignments_are_the_answer():
    problem = Problem(1)
    (value, s1, s2, residual, evaluations), works, _ = problem.project_linear(0)
    assert (residual, evaluations) == (0.0, 1)
    np.testing.assert_allclose([s1, s2], [problem.log_probs(k).max() for k in range(2)], rtol=1e-12)
    np.testing.assert_allclose(value, s1 + s2, rtol=1e-12)
    for k in range(2):
        best = np.array(alignments(3, 3)[problem.log_probs(k).argmax()])
        np.testing.assert_array_equal(works[k].link, best[:, None] == np.arange(3))
        np.testing.assert_array_equal(works[k].null_link, best < 0)


def test_a_direction_without_any_alignment_has_an_infinite_value():
    problem = Problem(0)
    problem.link[1][:] = -np.inf
    problem.null[1][:] = -np.inf
    (value, *_), *_ = problem.project_linear(AGREEMENT)
    assert value == np.inf
