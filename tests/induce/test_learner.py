"""few_dual_steps inside the learner: the general solver's path, checkpoints, restarts, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.constraints import count, few_labels_per, word
from trellis.errors import DataError
from trellis.learn import UEM
from trellis.models import HMM

from .toy import sentences

TEXT, TAGS = sentences(60)
SPARSE = few_labels_per(word, strength=3.0, min_count=4)


EXACT = {"min_count": 1, "unknown": None, "transition_prior": 1.0, "emission_prior": 1.0}


def hmm():
    return HMM(list("DANV"), **EXACT)


def learner(constraints=(SPARSE,), **settings):
    settings = {"max_iter": 4, "tol": 0.0, "random_state": 0, **settings}
    return UEM(HMM(4, **EXACT), list(constraints), **settings)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the projection was not solved")  # at γ = 0.5 the general solver ends near 1e-5
@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_steps_to_convergence_learn_what_the_general_solver_learns(gamma):
    few = learner(few_dual_steps=3_000, projection_tol=1e-5, gamma=gamma).fit(TEXT)
    general = learner(projection_tol=1e-6, max_evaluations=3_000, gamma=gamma).fit(TEXT)
    np.testing.assert_allclose(few.history_.objective, general.history_.objective, rtol=1e-6)
    np.testing.assert_allclose(few.model_.transition_, general.model_.transition_, atol=1e-4)
    for one, other in zip(few.history_, general.history_, strict=True):
        assert one.kl == pytest.approx(other.kl, rel=1e-3)
        assert one.violation[SPARSE.name] == pytest.approx(other.violation[SPARSE.name], rel=1e-3)


def test_labelled_and_partly_labelled_sentences_go_along():
    y = [TAGS[0], [TAGS[1][0], *([None] * (len(TEXT[1]) - 1))], *([None] * (len(TEXT) - 2))]
    settings = {"start": "random", "max_iter": 3, "tol": 0.0, "random_state": 0}
    few = UEM(hmm(), [SPARSE], few_dual_steps=3_000, projection_tol=1e-5, **settings)
    general = UEM(hmm(), [SPARSE], projection_tol=1e-6, max_evaluations=3_000, **settings)
    few.fit(TEXT, y), general.fit(TEXT, y)
    np.testing.assert_allclose(few.history_.objective, general.history_.objective, rtol=1e-6)


def test_a_resumed_run_has_the_bits_of_one_that_was_not_interrupted(tmp_path):
    path = tmp_path / "run"
    whole = learner(few_dual_steps=2, max_iter=9).fit(TEXT)
    learner(few_dual_steps=2, max_iter=5, checkpoint=path).fit(TEXT)
    resumed = learner(few_dual_steps=2, max_iter=9, checkpoint=path).fit(TEXT, resume=True)
    assert resumed.history_.objective == whole.history_.objective
    np.testing.assert_array_equal(resumed.model_.emission_, whole.model_.emission_)


def test_restarts_do_not_share_duals():
    both = learner(few_dual_steps=1, n_init=2).fit(TEXT)
    alone = learner(few_dual_steps=1).fit(TEXT)
    assert both.objective_ >= alone.objective_
    if both.objective_ == alone.objective_:
        np.testing.assert_array_equal(both.duals_.theta, alone.duals_.theta)


def test_a_schedule_of_gammas_carries_the_duals_along():
    falling = learner(few_dual_steps=2, gamma=[2.0, 1.0, 0.5, 0.5], max_iter=4).fit(TEXT)
    assert np.all(np.isfinite(falling.history_.objective))
    assert falling.duals_.theta.max() > 0


def test_what_it_cannot_do_is_refused():
    with pytest.raises(DataError, match="single few_labels_per"):
        learner([SPARSE, count("0") >= 1], few_dual_steps=1).fit(TEXT)
    with pytest.raises(DataError, match="single few_labels_per"):
        learner([], few_dual_steps=1).fit(TEXT)
    with pytest.raises(DataError, match="1 or more"):
        learner(few_dual_steps=0).fit(TEXT)
    with pytest.raises(DataError, match="online"):
        learner(few_dual_steps=1, online=10).fit(TEXT)
