"""The objective a setting claims never falls: PR's for γ = 1, T(θ; γ) for others, with every kind of constraint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis.constraints import count, few_labels_per, label, starts, transitions, word
from trellis.errors import ConvergenceWarning
from trellis.learn import UEM
from trellis.learn.expectation import ProjectedStep
from trellis.models import CRF, HMM

from .corpora import LABELS, tagged_sentences

pytestmark = pytest.mark.slow

CONSTRAINTS: dict[str, list[Any]] = {
    "none": [],
    "hard": [count("V") + count("N") >= 1],
    "two hard in a sentence": [count("N") >= 0.6, count("D") <= 1.5],
    "slack l1": [(count("V") >= 1).slack(0.3, "l1")],
    "slack l2": [(count("V") >= 1).slack(0.3, "l2")],
    "slack linf": [(count("V") >= 1).slack(0.3, "linf")],
    "penalty l1": [(count("V") >= 1).penalty(2.0, "l1")],
    "penalty l2": [(count("V") >= 1).penalty(2.0, "l2")],
    "penalty linf": [(count("V") >= 1).penalty(2.0, "linf")],
    "squared": [(count("V") >= 1).penalty(2.0, "squared")],
    "kl": [(count("V") == 1).penalty(2.0, "kl")],
    "edges": [starts("N") <= 1.0],
    "token rule": [word.isin("the", "a").implies(label("D"))],
    "corpus": [(count("V").per("corpus") <= 0.25 * count().per("corpus"))],
    "corpus and instance": [(count("V").per("corpus") <= 0.25 * count().per("corpus")), (count("N") >= 0.5)],
    "a word type": [(count("N").per(word) <= 0.5 * count().per(word)).penalty(3.0, "l2")],
    "sparsity": [few_labels_per(word, strength=3.0)],
    "forbidden transitions": [transitions(from_="D", to="V") == 0],
}


def assert_rises(history: Any, relative: float) -> None:
    values = np.array(history.objective)
    falls = values[:-1] - values[1:]
    assert np.all(falls <= relative * np.abs(values[1:])), falls.max()
    assert values[-1] > values[0]


@pytest.mark.filterwarnings("ignore:the projection was not solved")  # l1/linf ends above 1e-8, and says so
@pytest.mark.parametrize("gamma", [0.3, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_generative_objective_never_falls(kind: str, gamma: float) -> None:
    text, _ = tagged_sentences(25)
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    learner = UEM(
        model,
        CONSTRAINTS[kind],
        gamma=gamma,
        max_iter=3 if kind == "sparsity" else 8,  # a projection to 1e-8 takes thousands of passes
        tol=0.0,
        projection_tol=1e-8,
        max_evaluations=5_000,
        random_state=1,
    )
    learner.fit(text)
    assert_rises(learner.history_, 1e-10 if kind == "none" else 1e-7)


@pytest.mark.parametrize("gamma", [0.3, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("kind", ["none", "hard", "penalty l2", "edges", "corpus", "sparsity"])
def test_discriminative_objective_never_falls(kind: str, gamma: float) -> None:
    text, tags = tagged_sentences(10 if kind == "sparsity" else 20)  # a projection to 1e-8 takes thousands of passes
    known = [y if i < 5 else None for i, y in enumerate(tags)]
    learner = UEM(
        CRF(LABELS), CONSTRAINTS[kind], gamma=gamma, max_iter=5, tol=0.0, projection_tol=1e-8, max_evaluations=5_000
    )
    learner.fit(text, known)
    assert_rises(learner.history_, 1e-10 if kind == "none" else 1e-7)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_hard_em_and_em_rise_with_partial_labels_and_weights(gamma: float) -> None:
    text, tags = tagged_sentences(40)
    rng = np.random.default_rng(0)
    partly = [[t if rng.random() < 0.3 else None for t in y] if i % 2 else None for i, y in enumerate(tags)]
    partly[0] = tags[0]
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    learner = UEM(model, gamma=gamma, max_iter=10, tol=0.0, random_state=2, start="random")
    learner.fit(text, partly, sample_weight=rng.random(len(text)) * 2)
    assert_rises(learner.history_, 1e-10)


LINEAR = [kind for kind in CONSTRAINTS if kind not in ("slack l2", "penalty l2", "squared", "kl", "a word type")]


@pytest.mark.parametrize("kind", LINEAR)
def test_constrained_hard_em_rises(kind: str) -> None:
    """LP-EM: the E-step is solved to the end, so nothing but rounding may fall."""
    text, tags = tagged_sentences(25)
    known = [y if i < 3 else None for i, y in enumerate(tags)]
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    learner = UEM(model, CONSTRAINTS[kind], gamma=0.0, max_iter=6, tol=0.0, random_state=1, start="random")
    learner.fit(text, known)
    assert_rises(learner.history_, 1e-9)


def test_alpha_scales_the_strength_of_posterior_regularization() -> None:
    text, _ = tagged_sentences(30)
    ends = []
    for alpha in (0.0, 0.5, 1.0):
        model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
        learner = UEM(
            model, [count("V") >= 1], alpha=alpha, max_iter=10, tol=0.0, projection_tol=1e-8, random_state=1
        ).fit(text)
        assert_rises(learner.history_, 1e-7)
        ends.append(learner.model_.parameters()["emission"])
    plain = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    plain = UEM(plain, max_iter=10, tol=0.0, random_state=1).fit(text).model_
    np.testing.assert_allclose(ends[0], plain.parameters()["emission"], atol=1e-12)
    assert np.abs(ends[1] - ends[0]).max() > 1e-3
    assert np.abs(ends[1] - ends[2]).max() > 1e-3


def test_variational_bound_rises_under_constraints() -> None:
    text, _ = tagged_sentences(30)
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=0.1, transition_prior=0.1, variational=True)
    learner = UEM(model, [count("V") >= 1], max_iter=10, tol=0.0, projection_tol=1e-8, random_state=1).fit(text)
    assert_rises(learner.history_, 1e-7)


def test_kl_in_the_history_is_the_distance_of_q_from_p() -> None:
    text, _ = tagged_sentences(30)
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    learner = UEM(model, [count("V") >= 1], max_iter=3, tol=0.0, projection_tol=1e-9, random_state=1).fit(text)
    for entry in learner.history_:
        assert entry.kl is not None
        assert entry.log_likelihood is not None
        assert entry.kl > 0
    # For γ = 1 and hard constraints the objective is likelihood − KL + prior: the prior is what is left over.
    start = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.0, transition_prior=1.0)
    flat = UEM(start, [count("V") >= 1], max_iter=3, tol=0.0, projection_tol=1e-9, random_state=1).fit(text)
    for entry in flat.history_:
        assert entry.log_likelihood is not None
        assert entry.kl is not None
        assert entry.objective == pytest.approx(entry.log_likelihood - entry.kl, rel=1e-7)


def test_a_fall_that_the_projection_does_not_explain_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    text, _ = tagged_sentences(30)
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    run, calls = ProjectedStep.run, []

    def spoiled(self: ProjectedStep, *arguments: Any, **options: Any) -> Any:
        """In round 3 everything that was learned is thrown away before the E-step."""
        calls.append(1)
        if len(calls) == 4:
            self.training.model.reset()
        return run(self, *arguments, **options)

    monkeypatch.setattr(ProjectedStep, "run", spoiled)
    with pytest.warns(ConvergenceWarning, match=r"the objective fell by .* in round 3"):
        UEM(model, [count("V") >= 1], max_iter=5, tol=0.0, random_state=1).fit(text)
