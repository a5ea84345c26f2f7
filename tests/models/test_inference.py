"""One inference answers every question, and each is computed once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tests.models.corpora import random_sentences
from trellis import CCM, CRF, HMM, SSVM, UEM, CoDL, count
from trellis.models.inference import LOG_PARTITION, OUTPUTS, PLACES, POSTERIORS, Inference
from trellis.structures import Chain

TEXT = random_sentences(np.random.default_rng(0), 12, 6, shortest=6)
TAGS = [["AB"[word in ("w0", "w1", "w2")] for word in sentence] for sentence in TEXT]
LABELS = ["A", "B"]
PER_TEXT = (count("A") >= 1).named("an A")
FEW_A = (count("A").per("corpus") <= 0.2 * count().per("corpus")).named("few A")


def hmm():
    return HMM(LABELS, min_count=1, transition_prior=1.1, emission_prior=1.1)


@pytest.fixture(scope="module")
def learners():
    some = [*TAGS[:6], *[None] * 6]
    made = {
        "model": hmm(),
        "UEM": UEM(hmm(), [PER_TEXT, FEW_A], max_iter=2, tol=0.0),
        "CoDL": CoDL(hmm(), [PER_TEXT, FEW_A], max_iter=2),
        "CCM": CCM(hmm(), [PER_TEXT.learned()], method="pr", max_iter=2),
        "SSVM": SSVM(CRF(LABELS), [PER_TEXT], max_iter=3, tol=1.0),
    }
    return {name: one.fit(TEXT, TAGS if name in ("model", "SSVM") else some) for name, one in made.items()}


@pytest.mark.parametrize("name", ["model", "UEM", "CoDL", "CCM", "SSVM"])
def test_predictions_are_views_of_one_inference(learners, name):
    made = learners[name]
    found = made.infer(TEXT)
    assert isinstance(found, Inference)
    assert found.labels == made.predict(TEXT)
    assert len(found.outputs) == sum(map(len, TEXT))
    assert found.certificate.shape == found.values.shape == found.log_partition.shape == (len(TEXT),)
    sums = [node.sum(axis=1) for node in found.marginals]
    np.testing.assert_allclose(np.concatenate(sums), 1.0)
    if hasattr(made, "predict_proba"):
        for one, other in zip(found.marginals, made.predict_proba(TEXT), strict=True):
            np.testing.assert_array_equal(one, other)
    again = made.infer(found.batch)  # what is encoded already is not encoded again
    np.testing.assert_array_equal(again.outputs, found.outputs)


def test_values_and_log_partitions_are_those_of_the_model(learners):
    model = learners["model"]
    found = model.infer(TEXT)
    scores = model.scores(found.batch)
    np.testing.assert_allclose(found.values, scores.score(found.outputs))
    assert found.log_partition.sum() == pytest.approx(model.log_likelihood(TEXT))
    assert np.all(found.values <= found.log_partition)
    assert np.all(found.certificate)
    assert found.violations == {}


def test_several_results_are_computed_in_one_pass_and_none_twice(learners, monkeypatch):
    calls: Counter[str] = Counter()
    for name in ("argmax", "infer"):
        plain = getattr(Chain, name)

        def counted(self, *arguments, plain=plain, name=name, **named):
            calls[name] += 1
            return plain(self, *arguments, **named)

        monkeypatch.setattr(Chain, name, counted)
    found = learners["model"].infer(TEXT)
    assert not calls
    found.compute(OUTPUTS, POSTERIORS, PLACES, LOG_PARTITION)
    assert calls == {"argmax": 1, "infer": 1}
    assert (found.labels, found.marginal_labels, len(found.marginals)) == (found.labels, found.marginal_labels, 12)
    assert found.log_partition is found.log_partition
    assert calls == {"argmax": 1, "infer": 1}


@pytest.mark.parametrize("name", ["UEM", "CoDL"])
def test_constraints_over_a_corpus_hold_at_prediction_where_they_are_asked_to(learners, name):
    made = learners[name]
    plain, held = made.infer(TEXT), made.infer(TEXT, transductive=True)
    if name == "UEM":
        assert plain.violations["few A"] == 1.0
        assert held.violations["few A"] == 0.0
        share = np.concatenate(held.marginals)[:, 0].mean()
    else:
        share = float(np.mean(held.outputs == 0))
        assert np.mean(plain.outputs == 0) > 0.2 + 1e-9
        assert not np.any(held.certificate)
    assert share <= 0.2 + 1e-3
    assert all("A" in labels for labels in held.labels if name == "CoDL")
    assert made.predict(TEXT, transductive=True) == held.labels
    assert held.labels != plain.labels


def test_without_constraints_nothing_is_projected(learners):
    made = learners["UEM"]
    own = made.model_.infer(TEXT)
    plain = made.infer(TEXT, constrained=False)
    np.testing.assert_array_equal(plain.outputs, own.outputs)
    for one, other in zip(plain.marginals, own.marginals, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
