"""What every model promises a learner of its parts, of statistics from a posterior, and of probabilities."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from trellis.models import CRF, HMM, MaxEnt, NaiveBayes

from .corpora import random_labels, random_sentences

NAMES = ["A", "B", "C"]


def case(name):
    """A model with random parameters, data with labels for it, and the batch of the data."""
    rng = np.random.default_rng(4)
    if name in ("hmm", "crf"):
        X = random_sentences(rng, 12, 5, longest=4)
        y = random_labels(rng, X, NAMES)
        model = HMM(NAMES) if name == "hmm" else CRF(NAMES)
    else:
        X = rng.integers(0, 3, (12, 4)).astype(float)
        y = rng.choice(NAMES, 12)
        model = (MaxEnt if name == "maxent" else NaiveBayes)(labels=NAMES)
    batch = model.encode(X, y, weights=rng.integers(0, 3, 12).astype(float), fit=True)
    model.randomize(rng)
    return model, X, batch


every_model = pytest.mark.parametrize("name", ["hmm", "crf", "maxent", "naive bayes"])


def arrays(statistics):
    """Everything in statistics, as dense arrays."""
    found = []
    for field in dataclasses.fields(statistics):
        value = getattr(statistics, field.name)
        found.append(np.asarray(value.table() if hasattr(value, "table") else value))
    return found


def assert_alike(one, other):
    for a, b in zip(arrays(one), arrays(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@every_model
def test_the_parts_of_a_batch_are_those_of_its_scores(name):
    model, _, batch = case(name)
    for part in (batch, batch.instances(3, 8), batch.instances(0, 0)):
        parts, scored = model.parts(part), model.scores(part).parts
        assert parts.kind == scored.kind == model.uniform(part).parts.kind
        assert parts.n_parts == scored.n_parts == model.uniform(part).parts.n_parts
        everything = np.arange(parts.n_parts)
        np.testing.assert_array_equal(parts.instance_of(everything), scored.instance_of(everything))
        np.testing.assert_array_equal(parts.grid(), scored.grid())


@every_model
def test_statistics_of_a_change_of_scores_are_expectations_over_outputs(name):
    """Statistics are linear in the posterior: those of q are a sum over outputs, as many times each as q says."""
    model, _, batch = case(name)
    scores = model.scores(batch)
    rng = np.random.default_rng(7)
    both = scores.parts.grid(), scores.parts.transition_grid()
    part = np.concatenate([numbers.ravel()[::3] for numbers in both])
    changed = scores.add(part, rng.normal(size=len(part)), 2.0)
    best = changed.kbest(3**4)
    total = None
    q = changed.infer(weights=batch.weights)
    probability = np.exp(best.score - q.log_partition)
    for labels, share in zip(best.labels, probability, strict=True):
        # an instance with fewer outputs has −1 there, and probability 0
        y = np.maximum(labels, 0)
        weighted = dataclasses.replace(batch, weights=batch.weights * share)
        here = model.collect(weighted, scores.certain(y, weights=weighted.weights))
        total = here if total is None else total + here
    expected, found = arrays(total), arrays(model.collect(batch, q))
    n = len(expected) - model.discriminative  # a discriminative model also keeps Σ log Z, which is no expectation
    for a, b in zip(found[:n], expected[:n], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@every_model
def test_statistics_of_shards_add_up(name):
    model, _, batch = case(name)
    pieces = [batch.instances(0, 5), batch.instances(5, 12)]
    each = [model.collect(b, model.scores(b).infer(weights=b.weights)) for b in pieces]
    assert_alike(each[0] + each[1], model.collect(batch, model.scores(batch).infer(weights=batch.weights)))


@every_model
def test_probabilities_of_posteriors_are_those_that_predict_proba_gives(name):
    model, X, batch = case(name)
    pieces = [batch.instances(0, 5), batch.instances(5, 12)]
    found = model.probabilities(batch, [model.scores(piece).infer() for piece in pieces])
    expected = model.predict_proba(X)
    assert len(found) == len(expected) == 12
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("name", ["maxent", "naive bayes"])
def test_rows_of_tables_have_one_label(name):
    model, _, batch = case(name)
    _, _, longer = case("hmm")
    with pytest.raises(ValueError, match="a row has one label, but instance"):
        model.parts(longer)
    assert model.parts(batch).n_instances == 12
