"""Choice of γ and strength, with and without labels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from trellis.apps.align.aligner import Aligner
from trellis.apps.induce.inducer import Inducer
from trellis.constraints import count, hard, penalty
from trellis.errors import DataError
from trellis.learn import CCM, UEM, CoDL, MultiView, tune
from trellis.learn.margin import SSVM
from trellis.metrics.alignment import GoldLinks
from trellis.models import CRF, HMM, MaxEnt

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
    with pytest.raises(DataError, match="no constraints whose strength"):
        tune(SSVM(CRF(LABELS)), text, tags, strengths=[penalty(1.0)])
    with pytest.raises(DataError, match="give dev"):
        tune(HMM(LABELS), text, tags, parameters={"min_count": [1, 2]})
    for wrong in (UEM, "UEM", None):
        with pytest.raises(DataError, match="tune takes an estimator"):
            tune(wrong, text, tags, gammas=[1.0])
    with pytest.raises(DataError, match="nothing to choose from"):
        tune(HMM(LABELS), text, tags, dev=(text, tags))
    with pytest.raises(DataError, match="two ways"):
        tune(UEM(HMM(LABELS), rules), text, tags, gammas=[1.0], dev=(text, tags), halves=True)
    with pytest.raises(DataError, match="halves=True needs at least 2"):
        tune(UEM(HMM(LABELS), rules), text, [tags[0], *[None] * 9], gammas=[1.0], halves=True)
    with pytest.raises(DataError, match="unknown parameter of HMM"):
        tune(HMM(LABELS), text, tags, parameters={"min_cuont": [1]}, dev=(text, tags))


def test_halves_teach_and_judge_in_turn():
    """By hand: the labelled sentences in two, each half with all the others."""
    text, tags = tagged_sentences(40, 3)
    some = [tags[i] if i % 4 == 0 else None for i in range(40)]
    rules = [count("V") >= 1]
    tuned = tune(learner(rules), text, some, gammas=[0.2, 1.0], halves=True, random_state=5)
    labelled = list(range(0, 40, 4))
    order = np.random.default_rng(5).permutation(labelled)
    halves = [sorted(order[:5].tolist()), sorted(order[5:].tolist())]
    for trial in tuned.trials:
        scores = []
        for teach, judge in (halves, halves[::-1]):
            own = [*teach, *(i for i in range(40) if i % 4)]
            made = learner(rules).set_params(gamma=trial.gamma)
            made.fit([text[i] for i in own], [some[i] for i in own])
            scores.append(made.score([text[i] for i in judge], [tags[i] for i in judge]))
        assert trial.score == pytest.approx(np.mean(scores))
    best = learner(rules).set_params(gamma=tuned.best.gamma).fit(text, some)
    assert tuned.learner.predict(text) == best.predict(text)


def test_bounds_inner_settings_and_a_given_start_are_tried():
    text, tags = tagged_sentences(30, 1)
    taught = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1).fit(text, tags)
    start = UEM(taught, [count("V") >= 1], start="model", max_iter=1, tol=0.0)
    bounds = [[count("V") >= b] for b in (0.5, 1.0)]
    grid = {"constraints": bounds, "model__emission_prior": [1.1, 2.0]}
    tuned = tune(start, text[:20], parameters=grid, gammas=[1.0, 0.5], dev=(text[20:], tags[20:]))
    assert [len(trial.settings) for trial in tuned.trials] == [3] * 8
    assert taught.emission_prior == 1.1
    # all begin with what the model was taught: one round of EM keeps the names of its labels
    assert min(trial.score for trial in tuned.trials) > 0.5


@pytest.mark.parametrize(
    "estimator",
    [
        Inducer(LABELS, method="em", emissions="table", max_iter=3, min_count=1, random_state=0),
        MultiView([CRF(LABELS), HMM(LABELS, min_count=1)], max_iter=3, tol=0.0),
        CCM(HMM(LABELS, min_count=1), [count("V") >= 1], method="uem", max_iter=2),
    ],
)
def test_gamma_of_every_kind_of_estimator_is_chosen(estimator):
    text, tags = tagged_sentences(20, 2)
    views = isinstance(estimator, MultiView)
    X, dev = ([text[:15]] * 2, [text[15:]] * 2) if views else (text[:15], text[15:])
    y = [*tags[:5], *[None] * 10]
    tuned = tune(estimator, X, y, gammas=[0.5, 1.0], dev=(dev, tags[15:]))
    assert [trial.gamma for trial in tuned.trials] == [0.5, 1.0]
    assert tuned.learner.score(dev, tags[15:]) == max(trial.score for trial in tuned.trials)


def test_thresholds_of_an_aligner_are_chosen():
    pairs = [
        ("the house", "la maison"),
        ("the flower", "la fleur"),
        ("a house", "une maison"),
        ("a flower", "une fleur"),
    ]
    gold = [GoldLinks(frozenset(links), frozenset(links)) for links in [{(0, 0), (1, 1)}] * 4]
    tuned = tune(Aligner(n_jobs=1), pairs, parameters={"threshold": [0.999, 0.2]}, dev=(pairs, gold))
    assert tuned.best.settings["threshold"] == 0.2


def test_a_measure_of_ones_own_decides():
    text, tags = tagged_sentences(20, 2)
    tuned = tune(
        learner([count("V") >= 1]), text, tags, gammas=[1.0, 0.5, 0.2], dev=(text, tags),
        measure=lambda made, X, y: -abs(made.gamma - 0.5),
    )  # fmt: skip
    assert tuned.best.gamma == 0.5


FORMS = {
    "iterators": lambda X, y: (iter(X), iter(y)),
    "rows with their labels": lambda X, y: ([{"tokens": x, "labels": k} for x, k in zip(X, y, strict=True)], None),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("halves", [True, False])
def test_every_setting_is_trained_on_all_instances_whatever_holds_them(form, halves) -> None:
    X, y = tagged_sentences(20)
    dev = tagged_sentences(10, seed=7)
    settings = {"gammas": [1.0, 0.5], "halves": halves}
    wanted = tune(learner([]), X, y, dev=None if halves else dev, **settings)
    found = tune(learner([]), *FORMS[form](X, y), dev=None if halves else FORMS[form](*dev), **settings)
    assert [one.score for one in found.trials] == [one.score for one in wanted.trials]


def test_weights_are_split_as_their_instances_are() -> None:
    X, y = tagged_sentences(20)
    ones = tune(learner([]), X, y, gammas=[1.0], halves=True, sample_weight=iter([1.0] * 20))
    assert ones.best.score == tune(learner([]), X, y, gammas=[1.0], halves=True).best.score
    with pytest.raises(DataError, match="no labelled text|no instance|nothing"):
        tune(learner([]), X, y, gammas=[1.0], halves=True, sample_weight=[0.0] * 20)


def test_rows_of_a_sparse_matrix_are_split() -> None:
    rows, labels = np.tile(np.eye(3), (6, 1)), ["a", "b", "c"] * 6
    found = [tune(MaxEnt(), X, labels, parameters={"l2": [0.1]}, halves=True) for X in (rows, csr_array(rows))]
    assert found[0].best.score == found[1].best.score == 1.0


def test_what_cannot_be_tuned_on_is_refused_with_a_reason() -> None:
    X, y = tagged_sentences(8)
    views = MultiView([learner([]).model, learner([]).model])
    for message, call in (
        ("labels for 8 instances but got 3", lambda: tune(learner([]), X, y[:3], gammas=[1.0], halves=True)),
        ("views of a MultiView", lambda: tune(views, [X, X], y, parameters={"max_iter": [1]}, halves=True)),
        ("unknown parameter of UEM 'modl'; did you mean 'model'",
         lambda: tune(learner([]), X, y, parameters={"modl__l2": [1.0]}, dev=(X, y))),
        ("list of values of gamma", lambda: tune(learner([]), X, y, gammas="0.5", dev=(X, y))),
        ("not a number", lambda: tune(learner([]), X, y, gammas=[1.0], dev=(X, y), measure=lambda *_: float("nan"))),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            call()
