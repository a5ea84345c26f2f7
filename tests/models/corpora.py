"""Small made-up corpora and the EM loop that the tests of models share."""

from __future__ import annotations

import numpy as np

from trellis.engine import Piece, Placed, shards_of, summed, threads_for


def random_sentences(rng, n, n_words, longest=12, shortest=0):
    """n sentences over the words w0 .. w{n_words-1}, each word seen at least once where there is room."""
    lengths = rng.integers(shortest, longest + 1, n)
    return [[f"w{i}" for i in rng.integers(0, n_words, length)] for length in lengths]


def random_labels(rng, sentences, names, known=1.0):
    return [[str(rng.choice(names)) if rng.random() < known else None for _ in sentence] for sentence in sentences]


def expectation(model, batch, *, clamp=False, n_jobs=1):
    """Statistics of one E-step and the sum of the weighted log-partitions."""
    shards = shards_of(batch)

    def of_shard(shard):
        part = shard.of(batch)
        scores = model.scores(part)
        if clamp:
            scores = scores.clamp(part.labels)
        q = scores.infer(weights=part.weights)
        return Sum(model.collect(part, q), float(part.weights @ q.log_partition))

    total = summed(threads_for(n_jobs).map(of_shard, shards))
    return total.statistics, total.value


class Sum:
    def __init__(self, statistics, value):
        self.statistics, self.value = statistics, value

    def __add__(self, other):
        return Sum(self.statistics + other.statistics, self.value + other.value)


def em(model, batch, rounds, *, clamp=False, n_jobs=1):
    """Objectives Σ log-partition + log_prior before each of ``rounds`` M-steps and after the last."""
    trace = []
    for _ in range(rounds):
        statistics, value = expectation(model, batch, clamp=clamp, n_jobs=n_jobs)
        trace.append(value + model.log_prior())
        model.update(statistics)
    trace.append(expectation(model, batch, clamp=clamp)[1] + model.log_prior())
    return np.array(trace)


def assert_never_falls(trace, relative=1e-10):
    steps = np.diff(trace)
    assert np.all(steps >= -relative * np.abs(trace[:-1])), steps.min()


def placed(batches, n_jobs=1) -> Placed:
    """Batches where they will be worked on."""
    return threads_for(n_jobs).place([Piece(batch) for batch in batches])


def known(model, batch):
    """The posterior of labels that are all known."""
    return model.uniform(batch).certain(batch.labels, weights=batch.weights)


def assert_phi_is_the_feature_map(model, batch, outputs):
    """score(outputs) = phi · w, and counts of known labels are those of collect."""
    phi = model.phi(batch, outputs)
    assert phi.shape == (len(batch), len(model.weights_))
    np.testing.assert_allclose(phi @ model.weights_, model.scores(batch).score(outputs), atol=1e-10)
    q = model.uniform(batch).certain(outputs, weights=batch.weights)
    np.testing.assert_allclose(phi.T @ batch.weights, model._vector(model.collect(batch, q)), atol=1e-12)
