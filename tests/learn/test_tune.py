"""Choice of γ and strength, with and without labels."""

from __future__ import annotations

import pytest

from trellis.constraints import count, hard, penalty
from trellis.errors import DataError
from trellis.learn import CCM, UEM, CoDL, MultiView, tune
from trellis.learn.margin import SSVM
from trellis.models import CRF, HMM

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


@pytest.mark.parametrize("kind", [CoDL, CCM, SSVM])
def test_strengths_of_any_learner_with_constraints_are_chosen(kind):
    text, tags = tagged_sentences(30, 1)
    learner = kind(HMM(LABELS, min_count=1) if kind is not SSVM else CRF(LABELS), [count("V") >= 1])
    tuned = tune(learner, text[:20], tags[:20], strengths=[penalty(0.1), penalty(5.0)], dev=(text[20:], tags[20:]))
    assert isinstance(tuned.learner, kind)
    assert [trial.strength.amount for trial in tuned.trials] == [0.1, 5.0]


def test_learners_that_cannot_be_tuned_are_refused_with_a_reason():
    text, tags = tagged_sentences(10, 1)
    rules = [count("V") >= 1]
    with pytest.raises(DataError, match="CoDL has no gamma"):
        tune(CoDL(HMM(LABELS), rules), text, tags, gammas=[1.0])
    with pytest.raises(DataError, match="give dev"):
        tune(SSVM(CRF(LABELS)), text, tags, strengths=[penalty(1.0)])
    for wrong in (HMM(LABELS), UEM, MultiView([CRF(LABELS), CRF(LABELS)])):
        with pytest.raises(DataError, match="tune takes a learner"):
            tune(wrong, text, tags)
