"""Climbing the objective by its gradient: central differences, EM's own surface, threads, labels, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.apps.induce.inducer import Inducer
from trellis.constraints import count
from trellis.engine import engine_for, threads_for
from trellis.errors import DataError, UnknownNameError
from trellis.learn import UEM
from trellis.learn.expectation import DirectStep, ProjectedStep, SolverSettings
from trellis.learn.training import Training
from trellis.models import HMM

WORDS = ["walks", "talks", "walked", "talked", "dog", "dogs", "Anna", "-", "the", "12"]
LABELS = ["A", "B", "C"]


def sentences(n: int = 60):
    rng = np.random.default_rng(5)
    return [[WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(1, 8))] for _ in range(n)]


def started(y=None, **settings) -> Training:
    model = HMM(LABELS, **{"emissions": "features", "min_count": 1, "transition_prior": 1.2, "l2": 0.5} | settings)
    batch = model.encode(sentences(), y, fit=True)
    model.randomize(np.random.default_rng(1))
    return Training(model, batch, threads_for(1))


def some_labels():
    rng = np.random.default_rng(2)
    known = [[str(label) for label in rng.choice(LABELS, len(words))] for words in sentences()[:5]]
    known[4][-1] = None  # in part
    return known + [None] * 55


@pytest.mark.parametrize("gamma", [1.0, 0.5])
@pytest.mark.parametrize("kind", ["free", "rule", "labels and rule", "dictionary"])
def test_statistics_give_the_gradient_of_the_objective(gamma, kind):
    rules = [(count("A") >= 1).penalty(2.0, "squared").named("an A")] if "rule" in kind else []
    tags = {"the": ["A"], "dog": ["B", "C"]} if kind == "dictionary" else None
    training = started(some_labels() if "labels" in kind else None, tag_dictionary=tags)
    step, model = ProjectedStep(training, rules, SolverSettings(1e-11, 5000)), training.model
    at, along = model.vector(), np.random.default_rng(0).normal(size=len(model.vector()))

    def value(vector):
        model.set_vector(vector)
        return step.run(gamma).objective + model.log_prior()

    h = 1e-5
    numerical = (value(at + h * along) - value(at - h * along)) / (2 * h)
    model.set_vector(at)
    assert model.gradient(step.run(gamma).statistics) @ along == pytest.approx(numerical, rel=1e-6)


def test_a_vector_is_the_parameters():
    model = started().model
    before = model.parameters()
    model.set_vector(
        model.vector() + np.repeat([0.0, 0.7], [model.weights_.size, 12])
    )  # of logarithms a constant is nothing
    for name, table in model.parameters().items():
        np.testing.assert_allclose(table, before[name], rtol=1e-12)


def climb(training: Training, rounds: int = 300) -> UEM:
    step = DirectStep(ProjectedStep(training, ()))
    return UEM(None, start="model", max_iter=rounds, tol=0.0).train(training, step)


@pytest.mark.slow
def test_it_rises_every_round_and_ends_where_em_has_nothing_to_gain():
    training = started()
    learner = climb(training)
    objective = learner.history_.objective
    assert np.all(np.diff(objective) >= 0.0)
    assert objective[-1] > objective[0] + 10.0
    assert learner.converged_
    assert learner.history_[-1].evaluations >= len(objective)
    model = training.model
    step = ProjectedStep(training, ())
    assert np.abs(model.gradient(step.run(1.0).statistics)).max() < 1e-4
    after = UEM(None, start="model", max_iter=20, tol=0.0).train(training, step)
    assert after.history_.objective[-1] == pytest.approx(objective[-1], rel=1e-8)


def test_what_the_history_says_is_the_objective_of_the_parameters():
    training = started()
    learner = climb(training, rounds=5)
    assert learner.history_.objective[-1] == pytest.approx(
        ProjectedStep(training, ()).run(1.0).objective + training.log_prior(), rel=1e-12
    )


def test_a_model_without_a_gradient_is_refused_and_so_is_a_schedule():
    with pytest.raises(DataError, match="HMM\\(..., emissions='features'\\)"):
        climb(started(emissions="table"))
    training = started()
    with pytest.raises(DataError, match="fixed γ"):
        UEM(None, start="model", gamma=[2.0, 1.0], max_iter=3, tol=0.0).train(
            training, DirectStep(ProjectedStep(training, ()))
        )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "sparse"])
def test_induction_climbs_by_default_and_threads_do_not_matter(method):
    def states(**more):
        made = Inducer(3, method=method, frequent=3, max_iter=12, random_state=0, **more).fit(sentences())
        return made, made.posterior_states.tolist()

    one, found = states(n_jobs=1)
    assert one.ascent_ == "gradient"
    assert states(n_jobs=2)[1] == found
    assert states(engine=engine_for(1))[1] == found
    assert [entry.number for entry in one.history_] == list(range(len(one.history_)))


def test_labelled_sentences_are_where_the_climb_begins():
    y = [["A" if w[0].isupper() else "B" if w[-1] == "s" else "C" for w in words] for words in sentences(10)]
    inducer = Inducer(LABELS, method="em", max_iter=3, random_state=0).fit(sentences(), y + [None] * 50)
    assert inducer.states()[0] == y[0]


def test_what_does_not_go_together_is_said():
    with pytest.raises(UnknownNameError, match="ascent"):
        Inducer(3, ascent="gradients").fit(sentences())
    with pytest.raises(DataError, match="emissions='features'"):
        Inducer(3, ascent="gradient", emissions="table").fit(sentences())
    with pytest.raises(DataError, match="gamma=0"):
        Inducer(3, ascent="gradient", gamma=0.0).fit(sentences())
    assert Inducer(3, method="em", gamma=0.0, max_iter=2).fit(sentences()).ascent_ == "em"


@pytest.mark.parametrize("text", [[["a"]], [["a", "a"], []], [["the", "dog"], ["the"]]])
@pytest.mark.parametrize("n_states", [1, 3])
def test_where_nothing_leads_up_the_climb_ends_at_once(text, n_states):
    inducer = Inducer(n_states, method="em", start_scale=0.0, max_iter=5, min_count=1, random_state=0).fit(text)
    assert [len(states) for states in inducer.states()] == [len(words) for words in text]
