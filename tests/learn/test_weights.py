"""An instance of weight n is the instance n times, for every constraint; without constraints α does not matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trellis.constraints import count, few_labels_per, label, share, starts, transitions, trusted, word
from trellis.engine import engine_for
from trellis.errors import InfeasibleError
from trellis.learn import UEM
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.training import Training
from trellis.models import CRF, HMM, MaxEnt, NaiveBayes

LABELS = ["N", "V", "D"]
CONSTRAINTS: dict[str, Any] = {
    "corpus count at most": lambda: count("V").per("corpus") <= 5.5,
    "corpus count at least": lambda: count("V").per("corpus") >= 9.0,
    "corpus share": lambda: share("V").per("corpus") <= 0.2,
    "corpus share where": lambda: share("V", where=word.isin("a", "b")).per("corpus") >= 0.6,
    "share of every word": lambda: share("N").per(word).between(0.2, 0.7),
    "trusted": lambda: trusted(GUESSES, at_least=0.8),
    "trusted in every sentence": lambda: trusted(GUESSES, at_least=0.8, per="instance"),
    "corpus segments": lambda: (starts("D").per("corpus") <= 3.0).slack(0.5),
    "corpus changes": lambda: (transitions().per("corpus") <= 4.0).penalty(2.0),
    "compared counts": lambda: count("V").per("corpus") <= 0.4 * count("N").per("corpus"),
    "squared": lambda: (count("D").per("corpus") == 4.0).penalty(1.0, "squared"),
    "sentence count": lambda: (count("V") >= 1).penalty(3.0),
    "rule": lambda: word.isin("c").implies(label("D")),
    "few labels": lambda: few_labels_per(word, strength=2.0, min_count=3),
}
TEXT = [["a", "b", "a"], ["c", "b"], ["a"], ["b", "c", "a", "b"]]
GUESSES = [["V", None, "N"], [None, "V"], None, ["D", None, None, "V"]]


def step_of(constraint: Any, weights: list[int], numbers: list[int]) -> ProjectedStep:
    model = HMM(LABELS, min_count=1, unknown=None)
    batch = model.encode([TEXT[i] for i in numbers], weights=np.array(weights, dtype=float), fit=True)
    model.randomize(np.random.default_rng(0), 3.0)
    return ProjectedStep(Training(model, batch, engine_for(1)), (constraint,), SolverSettings(1e-8, 4000))


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("gamma", [0.5, 1.0])
def test_a_weight_of_n_is_the_instance_n_times(name, gamma, monkeypatch):
    weights = [2, 1, 3, 1]
    repeated = [i for i, w in enumerate(weights) for _ in range(w)]
    whole = dict(zip(["TEXT", "GUESSES"], (TEXT, GUESSES), strict=True))
    weighted = step_of(CONSTRAINTS[name](), weights, [0, 1, 2, 3]).run(gamma)
    monkeypatch.setitem(globals(), "GUESSES", [whole["GUESSES"][i] for i in repeated])
    plain = step_of(CONSTRAINTS[name](), [1] * len(repeated), repeated).run(gamma)
    assert weighted.objective == pytest.approx(plain.objective, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(weighted.statistics.transition, plain.statistics.transition, rtol=0, atol=1e-4)
    np.testing.assert_allclose(weighted.statistics.start, plain.statistics.start, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["corpus count at least", "corpus count at most"])
def test_what_the_weighted_corpus_can_hold_is_not_called_impossible(name):
    """Ten tokens weigh sixteen: a count of nine to twelve is possible, one of five and a half says something."""
    found = step_of(CONSTRAINTS[name](), [2, 1, 3, 1], [0, 1, 2, 3])
    assert len(found.rows) == 1


def test_more_than_the_weighted_corpus_has_is_refused():
    with pytest.raises(InfeasibleError, match="at most 15"):
        step_of(count("V").per("corpus") >= 15.5, [2, 1, 3, 1], [0, 1, 2, 3])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(lambda w: sum(w) > 1),
    st.sampled_from(["V", "N"]),
    st.floats(0.1, 0.6),
)
def test_any_whole_weights_are_repetitions(weights, which, at_most):
    repeated = [i for i, w in enumerate(weights) for _ in range(w)]
    # the vocabularies must be equal: the model is learned from the whole text both times
    rule = share(which).per("corpus") <= at_most
    model = HMM(LABELS, min_count=1, unknown=None)
    whole = model.encode(TEXT, fit=True)
    model.randomize(np.random.default_rng(0), 3.0)
    from dataclasses import replace

    weighted = replace(whole, weights=np.array(weights, dtype=float))
    steps = [
        ProjectedStep(Training(model, batch, engine_for(1)), (rule,), SolverSettings(1e-8, 500))
        for batch in (weighted, whole.take(np.array(repeated)))
    ]
    found = [step.run(1.0) for step in steps]
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(found[0].statistics.start, found[1].statistics.start, rtol=0, atol=1e-4)


PARTLY = [["N", None, "N"], [None, "V"], None, ["D", None, None, "V"]]


def models() -> dict[str, Any]:
    return {
        "HMM": (HMM(LABELS, min_count=1, transition_prior=1.1, emission_prior=1.1), TEXT, PARTLY),
        "CRF": (CRF(LABELS, max_iter=30), TEXT, PARTLY),
        "NaiveBayes": (NaiveBayes([0, 1, 2]), np.eye(4) + 1, [0, None, 2, None]),
        "MaxEnt": (MaxEnt([0, 1, 2], max_iter=30), np.eye(4), [0, None, 2, 1]),
    }


@pytest.mark.parametrize("name", models())
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_without_constraints_alpha_does_not_matter(name, alpha):
    histories = []
    for value in (1.0, alpha):
        model, X, y = models()[name]
        y = np.array(y, dtype=object) if isinstance(X, np.ndarray) else y
        learner = UEM(model, alpha=value, start="random", random_state=1, max_iter=4, tol=0.0).fit(X, y)
        histories.append(learner.history_.objective)
    np.testing.assert_allclose(histories[0], histories[1], rtol=1e-9)


def test_likelihood_and_kl_of_a_crf_with_partial_labels_are_those_of_the_known_ones():
    """Without constraints q is the posterior given what is known: KL = 0, and the likelihood is log p(known | x)."""
    crf = CRF(LABELS, max_iter=20)
    learner = UEM(crf, start="random", random_state=0, max_iter=2, tol=0.0).fit(TEXT, PARTLY)
    start = CRF(LABELS)
    start.encode(TEXT, PARTLY, fit=True)
    start.randomize(np.random.default_rng([0, 0]))
    assert learner.history_[0].log_likelihood == pytest.approx(start.log_likelihood(TEXT, PARTLY), rel=1e-9)
    assert learner.history_[0].kl == pytest.approx(0.0, abs=1e-9)
    constrained = UEM(
        CRF(LABELS, max_iter=20), [count("D") >= 0.5], start="random", random_state=0, max_iter=1, tol=0.0
    ).fit(TEXT, PARTLY)
    assert constrained.history_[0].kl > 0.01
    assert constrained.history_[0].log_likelihood == pytest.approx(learner.history_[0].log_likelihood, rel=1e-9)


def test_few_labels_where_no_word_is_frequent_enough_is_plain_em():
    rule = few_labels_per(word, strength=8.0, min_count=100)
    for extra in ({}, {"few_dual_steps": 3}):
        plain, rare = (
            UEM(HMM(LABELS, min_count=1), rules, start="random", random_state=0, max_iter=3, tol=0.0, **more)
            for rules, more in (((), {}), ([rule], extra))
        )
        np.testing.assert_allclose(plain.fit(TEXT).history_.objective, rare.fit(TEXT).history_.objective, rtol=1e-9)
        assert rare.predict([["a"]], constrained=True)
