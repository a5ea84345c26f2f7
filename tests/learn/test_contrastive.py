"""Contrastive estimation: the objective is that of all outputs written out, and its gradient is the derivative."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from trellis import CRF, HMM, SSVM, MaxEnt, load_model
from trellis.constraints import count, dictionary
from trellis.engine import SerialEngine
from trellis.errors import ConstraintError, DataError
from trellis.learn.contrastive import ContrastiveEstimation, ContrastiveObjective, transposed
from trellis.learn.margin import shuffled
from trellis.learn.training import Training

LABELS = ["D", "N", "V"]
TEXT = [s.split() for s in ("the dog barks", "a dog sleeps", "the cat runs", "a cat barks", "dogs")]
KNOWN = {"the": ["D"], "a": ["D"], "dog": ["N"], "cat": ["N"], "sleeps": ["V"], "dogs": ["N", "V"]}
PARTLY: list[Any] = [None, ["D", None, None], None, ["D", "N", "V"], None]
WEIGHT = [1.0, 2.0, 0.5, 1.5, 1.0]


def log_sum(model: CRF, sentence: list[str], given: list[str | None] | None = None) -> float:
    """log Σ_h exp(w·Φ(x, h)) over all label sequences that the dictionary and the known labels allow."""
    allowed = [KNOWN.get(word, LABELS) for word in sentence]
    if given is not None:
        allowed = [own if tag is None else [tag] for own, tag in zip(allowed, given, strict=True)]
    every = [list(tags) for tags in product(*allowed)]
    batch = model.encode([sentence] * len(every), every)
    return float(np.logaddexp.reduce(np.asarray(model.phi(batch, batch.labels) @ model.weights_)))


def written_out(model: CRF, weights: np.ndarray) -> float:
    """−Σ w (log Σ_h of the sentence − log Σ of its neighbourhood), and −log p(y | x) of the labelled one."""
    model.weights_, value = weights, 0.0
    for sentence, given, weight in zip(TEXT, PARTLY, WEIGHT, strict=True):
        if given is not None and None not in given:
            batch = model.encode([sentence], [given])
            own = float((model.phi(batch, batch.labels) @ weights)[0])
            value -= weight * (own - model.scores(batch).infer().log_partition[0])
            continue
        around = [log_sum(model, one) for one in [sentence, *transposed(sentence)]]
        value -= weight * (log_sum(model, sentence, given) - float(np.logaddexp.reduce(around)))
    return value


def objective() -> tuple[CRF, ContrastiveObjective]:
    model = CRF(LABELS, all_pairs=True)
    training = Training(model, model.encode(TEXT, PARTLY, WEIGHT, fit=True), SerialEngine())
    lists = [[TEXT[i], *transposed(TEXT[i])] for i in training.free.tolist()]
    around = model.encode([one for own in lists for one in own])
    return model, ContrastiveObjective(training, around, np.array([len(own) for own in lists]), [dictionary(KNOWN)])


def test_the_objective_is_that_of_all_outputs_written_out() -> None:
    model, found = objective()
    for seed in range(3):
        weights = np.random.default_rng(seed).standard_normal(model._n_weights())
        assert found(weights)[0] == pytest.approx(written_out(model, weights), rel=1e-10)


def test_the_gradient_is_the_derivative() -> None:
    model, found = objective()
    weights = np.random.default_rng(3).standard_normal(model._n_weights())
    gradient = found(weights)[1]
    for i in range(len(weights)):
        step = 1e-5 * np.eye(len(weights))[i]
        assert (found(weights + step)[0] - found(weights - step)[0]) / 2e-5 == pytest.approx(gradient[i], abs=1e-7)


def test_sentences_are_more_probable_than_their_neighbours_and_the_dictionary_holds() -> None:
    learner = ContrastiveEstimation(CRF(LABELS, l2=0.1), [dictionary(KNOWN)]).fit(TEXT)
    model = learner.model_
    assert learner.converged_
    for sentence in TEXT[:4]:
        assert all(log_sum(model, sentence) > log_sum(model, other) for other in transposed(sentence))
    tags = learner.predict(TEXT)
    allowed = [[KNOWN.get(word, LABELS) for word in sentence] for sentence in TEXT]
    assert all(
        tag in own for some, which in zip(tags, allowed, strict=True) for tag, own in zip(some, which, strict=True)
    )


def test_labels_are_used_too() -> None:
    """With all sentences labelled nothing is contrasted: it is the CRF of the labels."""
    y = [["D", "N", "V"]] * 4 + [["N"]]
    learner = ContrastiveEstimation(CRF(LABELS)).fit(TEXT, y)
    plain = CRF(LABELS).fit(TEXT, y)
    assert np.allclose(learner.model_.weights_, plain.weights_, atol=1e-3)


def test_other_neighbours_and_restarts() -> None:
    def both(sentence: list[str]) -> list[list[str]]:
        return [*transposed(sentence), *shuffled([sentence], per_sentence=2, random_state=0)]

    learner = ContrastiveEstimation(
        CRF(LABELS), [dictionary(KNOWN)], neighbours=both, start="random", n_init=2, random_state=0, max_iter=2
    )
    assert learner.fit(TEXT).objective_ < 0.0
    assert transposed([]) == transposed(["a"]) == transposed(["a", "a"]) == []


def test_without_neighbours_there_is_nothing_to_learn() -> None:
    learner = ContrastiveEstimation(CRF(LABELS), neighbours=lambda sentence: []).fit(TEXT)
    assert learner.objective_ == pytest.approx(0.0, abs=1e-9)
    assert not learner.model_.weights_.any()


def test_a_saved_learner_is_the_same(tmp_path: Any) -> None:
    learner = ContrastiveEstimation(CRF(LABELS), [dictionary(KNOWN)], max_iter=2).fit(TEXT)
    learner.save(tmp_path / "m.trellis")
    again = load_model(tmp_path / "m.trellis")
    assert again.predict(TEXT) == learner.predict(TEXT)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConstraintError, match="does not forbid labels"):
        ContrastiveEstimation(CRF(LABELS), [count("V") >= 1]).fit(TEXT)
    for model in (HMM(LABELS), SSVM(CRF(LABELS))):
        with pytest.raises(DataError, match="log-linear models|must be a model"):
            ContrastiveEstimation(model).fit(TEXT)
    with pytest.raises(DataError, match="neighbours must be"):
        ContrastiveEstimation(CRF(LABELS), neighbours="deleted").fit(TEXT)
    with pytest.raises(DataError, match="no instances"):
        ContrastiveEstimation(CRF(LABELS)).fit([])


def test_rows_are_contrasted_by_a_function() -> None:
    """A classifier of vectors: a row against the same with its values in another order."""
    X = np.array([[3.0, 1.0, 0.0], [2.0, 1.0, 0.0], [4.0, 0.0, 1.0]])
    learner = ContrastiveEstimation(
        MaxEnt(["a", "b"]), neighbours=lambda row: [row[::-1]], start="random", random_state=0
    )
    model = learner.fit(list(X)).model_
    sums = [model.infer(list(rows)).log_partition for rows in (X, X[:, ::-1])]
    assert np.all(sums[0] > sums[1])
