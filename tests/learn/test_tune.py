"""Choice of γ and strength, with and without labels."""

from __future__ import annotations

import pytest

from trellis.constraints import count, hard, penalty
from trellis.errors import DataError
from trellis.learn import UEM, tune
from trellis.models import HMM

from .corpora import LABELS, tagged_sentences


def learner(constraints: list) -> UEM:
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    return UEM(model, constraints, max_iter=5, tol=0.0, random_state=0)


def test_the_best_setting_on_labels_is_taken() -> None:
    text, _ = tagged_sentences(60)
    dev = tagged_sentences(20, seed=7)
    tuned = tune(learner([count("V") >= 0.8]), text, gammas=[1.0, 0.5, 0.1], dev=dev)
    assert [trial.gamma for trial in tuned.trials] == [1.0, 0.5, 0.1]
    assert tuned.learner.gamma == tuned.best.gamma
    assert tuned.learner.score(*dev) == max(trial.score for trial in tuned.trials)


def test_without_labels_the_setting_that_teaches_the_constraints_is_taken() -> None:
    text, _ = tagged_sentences(80)
    tuned = tune(learner([count("V") >= 1]), text, strengths=[penalty(0.0), penalty(0.5), hard()])
    weak, middle, strict = (trial.score for trial in tuned.trials)
    assert weak <= middle <= strict
    assert weak < strict
    assert tuned.learner.constraints[0].strength == tuned.best.strength


def test_tuning_by_constraints_needs_constraints() -> None:
    text, _ = tagged_sentences(10)
    with pytest.raises(DataError, match="dev"):
        tune(learner([]), text, gammas=[1.0, 0.5])
    with pytest.raises(DataError, match="holding out"):
        tune(learner([count("V") >= 1]), text[:2], gammas=[1.0, 0.5])
