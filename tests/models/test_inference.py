"""One inference answers every question, and each is computed once."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from tests.models.corpora import random_sentences
from trellis import CCM, CRF, HMM, SSVM, UEM, CoDL, MaxEnt, count, feature, label
from trellis.errors import DataError
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


RULES = [PER_TEXT, (count("A") <= 2).penalty(1.5).named("few"), (count("B") >= 3).penalty(0.8).named("some")]


def best_of_all(model, sentence):
    """The best labels under RULES, of all that there are, and their value."""
    batch, values = model.encode([sentence]), {}
    for codes in product(range(2), repeat=len(sentence)):
        n_a = codes.count(0)
        price = 1.5 * max(n_a - 2, 0) + 0.8 * max(3 - (len(codes) - n_a), 0)
        if n_a >= 1:
            values[codes] = float(model.scores(batch).score(np.array(codes))[0]) - price
    codes = max(values, key=values.__getitem__)
    return [LABELS[k] for k in codes], values[codes]


@pytest.mark.parametrize("search", ["auto", "beam", "astar", "ilp", "exact"])
def test_a_trained_model_obeys_rules_that_it_was_not_trained_with(search):
    model = HMM(LABELS, min_count=1, transition_prior=3.0, emission_prior=5.0).fit(TEXT, TAGS)
    found = model.infer(TEXT, RULES, search=search)
    wanted = [best_of_all(model, sentence) for sentence in TEXT]
    assert found.labels == [labels for labels, _ in wanted] != model.predict(TEXT)
    np.testing.assert_allclose(found.values, [value for _, value in wanted])
    assert found.violations["an A"] == 0.0
    if search != "beam":
        assert found.certificate.all()
    ccm = CCM(model, RULES, method="supervised", search=search).fit(TEXT, TAGS)
    assert ccm.predict(TEXT) == found.labels


def test_rules_of_prediction_are_checked():
    model = hmm().fit(TEXT, TAGS)
    assert model.infer(TEXT, []).labels == model.predict(TEXT)
    assert model.infer([], RULES).labels == []
    with pytest.raises(DataError, match="still to be learned"):
        model.infer(TEXT, [PER_TEXT.learned()])
    with pytest.raises(DataError, match="list of constraints"):
        model.infer(TEXT, PER_TEXT)
    with pytest.raises(DataError, match="unknown search"):
        model.infer(TEXT, RULES, search="exhaustive")
    with pytest.raises(DataError, match="unknown search"):
        CoDL(hmm(), RULES, search="exhaustive").fit(TEXT, TAGS)


def test_rows_of_a_classifier_obey_rules():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    model = MaxEnt(l2=0.1).fit(X, ["A", "B", "A"])
    assert model.infer(X, [feature(1).implies(label("B"))]).labels.tolist() == ["A", "B", "B"]
