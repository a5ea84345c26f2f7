"""Projections of both directions at γ > 0: KKT, cvxpy on listed alignments, hints."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.align.problem import N_SOURCE, N_TARGET, Problem
from tests.align.toy import WORD, toy_text
from trellis.data.bitext import code_pairs
from trellis.engine import engine_for
from trellis.models.alignment import AlignmentConstraints
from trellis.structures.kernels.align_project import AGREEMENT, BIJECTIVE, HINTS
from trellis.tasks.align import Aligner


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


@pytest.mark.parametrize("kind", ["agreement", "bijective", "both"])
def test_a_projection_stopped_at_any_point_is_no_worse_than_one_stopped_before(kind):
    # Words that the table does not have make steps too long.
    aligner = Aligner("none", threads=1).fit(toy_text(300)[0])
    new = [("the old cat sees quetzal", f"la {WORD['cat']} {WORD['old']} {WORD['sees']} zanzibaro")]
    bitext = code_pairs([tuple(side.split() for side in new[0])], aligner.source_codes_, aligner.target_codes_)
    pairs = aligner.model_.look_up(bitext)
    values = []
    for evaluations in range(1, 8):
        constraints = AlignmentConstraints(kind, max_evaluations=evaluations, tolerance=1e-3)
        ((_, shares),) = aligner.model_.project(pairs, constraints, engine_for(1))
        values.append(float(shares.value[0]))
        assert shares.evaluations[0] <= evaluations + 1
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(values))


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
