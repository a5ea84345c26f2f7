"""Special cases are equal to the algorithms they are named after, bit for bit where the arithmetic is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis.constraints import count, label, word
from trellis.data.batch import Batch
from trellis.learn import UEM, Anneal
from trellis.models import HMM

from .corpora import LABELS, tagged_sentences


def new_model(**settings: Any) -> HMM:
    return HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1, **settings)


def started(text: list[list[str]], seed: int = 0) -> tuple[HMM, Batch]:
    model = new_model()
    batch = model.encode(text, fit=True)
    model.randomize(np.random.default_rng([seed, 0]))
    return model, batch


def assert_same_parameters(one: HMM, other: HMM) -> None:
    for name, value in one.parameters().items():
        np.testing.assert_array_equal(value, other.parameters()[name])


def test_gamma_one_without_constraints_is_em() -> None:
    text, _ = tagged_sentences(50)
    model, batch = started(text)
    for _ in range(5):
        model.update(model.collect(batch, model.scores(batch).infer(weights=batch.weights)))
    learner = UEM(new_model(), max_iter=5, tol=0.0, random_state=0).fit(text)
    assert_same_parameters(model, learner.model_)


def test_gamma_zero_without_constraints_is_hard_em() -> None:
    text, _ = tagged_sentences(50)
    model, batch = started(text)
    for _ in range(5):
        labels = model.scores(batch).argmax().outputs
        model.update(model.collect(batch, model.scores(batch).clamp(labels).infer(weights=batch.weights)))
    learner = UEM(new_model(), gamma=0.0, max_iter=5, tol=0.0, random_state=0).fit(text)
    for name, value in model.parameters().items():
        np.testing.assert_allclose(learner.model_.parameters()[name], value, rtol=1e-13, atol=0)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_penalties_of_nothing_change_nothing(norm: str) -> None:
    text, _ = tagged_sentences(50)
    plain = UEM(new_model(), max_iter=5, tol=0.0, random_state=0).fit(text)
    priced = UEM(new_model(), [(count("V") >= 1).penalty(0.0, norm)], max_iter=5, tol=0.0, random_state=0).fit(text)
    for name, value in plain.model_.parameters().items():
        np.testing.assert_allclose(priced.model_.parameters()[name], value, rtol=1e-12, atol=1e-300)


def test_all_labels_given_is_supervised_training() -> None:
    text, tags = tagged_sentences(50)
    learner = UEM(new_model(), [count("V") >= 1], max_iter=2, tol=0.0).fit(text, tags)
    assert_same_parameters(new_model().fit(text, tags), learner.model_)


def test_constraints_with_one_feasible_output_are_supervised_training_on_it() -> None:
    text = [["the", "dog", "sees"], ["a", "cat", "runs"], ["the", "tree"]]
    lexicon = {"the": "D", "a": "D", "dog": "N", "cat": "N", "tree": "N", "sees": "V", "runs": "V"}
    rules = [word.isin(*(w for w, k in lexicon.items() if k == tag)).implies(label(tag)) for tag in LABELS]
    learner = UEM(new_model(), rules, max_iter=3, tol=0.0, random_state=0).fit(text)
    supervised = new_model().fit(text, [[lexicon[w] for w in sentence] for sentence in text])
    for name, value in supervised.parameters().items():
        np.testing.assert_allclose(learner.model_.parameters()[name], value, rtol=1e-12, atol=1e-300)


def test_labelled_partly_labelled_and_unlabelled_instances_train_together() -> None:
    """The statistics of a mixed corpus are those of its parts, clamped."""
    text, tags = tagged_sentences(30)
    mixed: list[Any] = [tags[i] if i < 10 else None for i in range(30)]
    mixed[15] = [tags[15][0]] + [None] * (len(tags[15]) - 1)
    model, _ = started(text)
    batch = model.encode(text, mixed)
    model.update(model.collect(batch, model.scores(batch).clamp(batch.labels).infer(weights=batch.weights)))
    learner = UEM(new_model(), max_iter=1, tol=0.0, random_state=0, start="random").fit(text, mixed)
    for name, value in model.parameters().items():
        np.testing.assert_allclose(learner.model_.parameters()[name], value, rtol=1e-12, atol=1e-300)


def test_a_weight_of_two_is_an_instance_seen_twice() -> None:
    text, _ = tagged_sentences(20)
    twice = UEM(new_model(), [count("V") >= 1], max_iter=3, tol=0.0, random_state=0).fit(text + text[:5])
    weights = [2.0 if i < 5 else 1.0 for i in range(20)]
    weighted = UEM(new_model(), [count("V") >= 1], max_iter=3, tol=0.0, random_state=0).fit(text, sample_weight=weights)
    for name, value in twice.model_.parameters().items():
        np.testing.assert_allclose(weighted.model_.parameters()[name], value, rtol=1e-9, atol=1e-12)


def test_beta_one_stays_with_the_supervised_model() -> None:
    text, tags = tagged_sentences(30)
    known = [y if i < 10 else None for i, y in enumerate(tags)]
    learner = UEM(new_model(), gamma=0.0, beta=1.0, max_iter=3, tol=0.0).fit(text, known)
    model = new_model()
    batch = model.encode(text, known, fit=True).take(np.arange(10))
    model.update(model.collect(batch, model.scores(batch).clamp(batch.labels).infer(weights=batch.weights)))
    for name, value in model.parameters().items():
        np.testing.assert_allclose(learner.model_.parameters()[name], value, rtol=1e-12, atol=1e-300)


def test_annealing_ends_where_its_schedule_ends() -> None:
    text, _ = tagged_sentences(30)
    learner = UEM(new_model(), gamma=Anneal(4.0, 1.0, 4), max_iter=8, tol=0.0, random_state=0).fit(text)
    assert [entry.gamma for entry in learner.history_][:5] == pytest.approx([4.0, 2.0**1.5, 2.0, 2.0**0.5, 1.0])
    values = learner.history_.objective[4:]
    assert values == sorted(values)


def test_constrained_prediction_obeys_what_unconstrained_prediction_violates() -> None:
    text, _ = tagged_sentences(60)
    must = [(count("V") >= 1).named("a verb")]
    learner = UEM(new_model(), must, max_iter=3, tol=0.0, random_state=3).fit(text)
    assert learner.violations(text, constrained=False)["a verb"] > 0.0
    assert learner.violations(text)["a verb"] == 0.0
    proba = learner.predict_proba(text, constrained=True)
    verb = LABELS.index("V")
    assert min(p[:, verb].sum() for p in proba) >= 1.0 - 2e-3


def test_the_best_of_several_starts_is_kept() -> None:
    text, _ = tagged_sentences(40)
    first = UEM(new_model(), max_iter=20, tol=0.0, random_state=5).fit(text)
    several = UEM(new_model(), max_iter=20, tol=0.0, n_init=4, random_state=5).fit(text)
    assert several.objective_ > first.objective_
    assert several.history_.objective[-1] == several.objective_


def test_a_development_set_chooses_the_round() -> None:
    text, _ = tagged_sentences(60)
    dev_text, dev_tags = tagged_sentences(20, seed=9)
    learner = UEM(new_model(), max_iter=30, tol=0.0, patience=5, random_state=2)
    learner.fit(text, dev=(dev_text, dev_tags))
    metrics = [entry.dev for entry in learner.history_]
    assert None not in metrics
    assert learner.score(dev_text, dev_tags) == max(m for m in metrics if m is not None)


def test_stepwise_em_comes_near_batch_em() -> None:
    text, _ = tagged_sentences(200)
    batch = UEM(new_model(), max_iter=40, tol=0.0, random_state=1).fit(text)
    online = UEM(new_model(), max_iter=20, tol=0.0, random_state=1, online=10, step_power=0.6).fit(text)
    reached = online.model_.log_likelihood(text)
    first = batch.history_[0].log_likelihood
    last = batch.model_.log_likelihood(text)
    assert first is not None
    assert reached > first + 0.9 * (last - first)
