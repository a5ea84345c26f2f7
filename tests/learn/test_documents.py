"""UEM over categorical models: documents with a few labels and constraints on classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from trellis.constraints import count, share
from trellis.learn import UEM
from trellis.models import MaxEnt, NaiveBayes

CLASSES = ["garden", "kitchen", "street"]


def documents(n: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Counts of 30 words, ten of which each class prefers; classes are not equally frequent."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    rates = np.full((3, 30), 0.25)
    for k in range(3):
        rates[k, 10 * k : 10 * k + 10] = 0.6
    return sparse.csr_matrix(rng.poisson(rates[labels]).astype(float)), np.array(CLASSES)[labels]


def partly(labels: np.ndarray, known: int) -> list[str | None]:
    return [str(y) if i < known else None for i, y in enumerate(labels)]


CONSTRAINTS: dict[str, list[Any]] = {
    "none": [],
    "shares": [
        share(name).per("corpus").between(low, low + 0.1) for name, low in zip(CLASSES, (0.45, 0.25, 0.15), strict=True)
    ],
    "penalty": [(count("street").per("corpus") <= 0.2 * count().per("corpus")).penalty(3.0, "l1")],
}


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.3, 0.7, 1.0, 1.5])
@pytest.mark.parametrize("kind", list(CONSTRAINTS))
@pytest.mark.parametrize("model", [NaiveBayes, MaxEnt])
def test_objective_never_falls(model: Any, kind: str, gamma: float) -> None:
    X, y = documents(80)
    learner = UEM(
        model(labels=CLASSES),
        CONSTRAINTS[kind],
        gamma=gamma,
        max_iter=6,
        tol=0.0,
        projection_tol=1e-8,
        max_evaluations=2_000,
    )
    learner.fit(X, partly(y, 9))
    values = np.array(learner.history_.objective)
    limit = 1e-10 if kind == "none" else 1e-7
    assert np.all(values[:-1] - values[1:] <= limit * np.abs(values[1:]))


def test_known_shares_of_classes_help_a_classifier_with_few_labels() -> None:
    X, y = documents(400, seed=3)
    scores = {}
    for name in ("none", "shares"):
        learner = UEM(NaiveBayes(labels=CLASSES), CONSTRAINTS[name], max_iter=20, tol=0.0, projection_tol=1e-4)
        learner.fit(X, partly(y, 6))
        scores[name] = learner.score(X, list(y))
        predicted = learner.predict(X)
        assert len(predicted) == 400
        assert set(predicted) <= set(CLASSES)
        proba = learner.predict_proba(X, constrained=True)
        np.testing.assert_allclose(np.asarray(proba).sum(axis=1), 1.0, atol=1e-9)
    assert scores["shares"] >= scores["none"]


def test_projected_shares_lie_in_their_bands() -> None:
    X, y = documents(200, seed=5)
    learner = UEM(NaiveBayes(labels=CLASSES), CONSTRAINTS["shares"], max_iter=5, tol=0.0, projection_tol=1e-6)
    learner.fit(X, partly(y, 6))
    shares = np.asarray(learner.predict_proba(X, constrained=True)).mean(axis=0)
    assert np.all(shares >= np.array([0.45, 0.25, 0.15]) - 1e-5)
    assert np.all(shares <= np.array([0.55, 0.35, 0.25]) + 1e-5)
