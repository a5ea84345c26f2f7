"""A projection that is not solved is told of, once per fit, with the worst constraint; one that stalls does not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from trellis.constraints import count
from trellis.errors import ConvergenceWarning
from trellis.learn import UEM
from trellis.models import HMM

from .corpora import LABELS, tagged_sentences


@pytest.mark.parametrize("settings", [{"max_evaluations": 1}, {"gamma": 1e-8, "max_evaluations": 20}])
def test_one_warning_per_fit_names_the_worst_constraint(settings):
    text, _ = tagged_sentences(30)
    rules = [(count("V") >= 0.9).named("verbs"), (count("N") <= 9.0).named("harmless")]
    learner = UEM(HMM(LABELS, min_count=1), rules, start="random", random_state=0, max_iter=3, tol=0.0, **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner.fit(text)
    said = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    told = [message for message in said if "was not solved" in message]
    assert len(told) == 1
    assert "'verbs'" in told[0]
    assert "3 of 3 rounds" in told[0] or "2 of 3 rounds" in told[0] or "1 of 3 rounds" in told[0]


def test_a_solved_projection_says_nothing():
    text, _ = tagged_sentences(30)
    learner = UEM(HMM(LABELS, min_count=1), [count("V") >= 1], start="random", random_state=0, max_iter=3, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner.fit(text)
    assert max(entry.kkt_residual for entry in learner.history_) <= 1e-3
    assert np.isfinite(learner.objective_)
