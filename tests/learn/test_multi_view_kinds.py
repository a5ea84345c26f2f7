"""Views of different kinds: generative with discriminative ones, segments, and what cannot agree."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from trellis.errors import DataError
from trellis.learn import MultiView
from trellis.models import CRF, HMM, MaxEnt, NaiveBayes, SemiCRF

LABELS = ["P", "O"]
TEXT = [["a", "b", "c"], ["b", "a"], ["c", "b"], ["a", "c", "c"]]
KNOWN: list[Any] = [["P", "O", "P"], ["O", "P"], None, ["O", None, None]]
WEIGHTS = [1.0, 1.0, 3.0, 1.0]
"""The only unlabelled sentence weighs as much as the three others together."""


def hmm() -> HMM:
    return HMM(LABELS, min_count=1, unknown=None)


def by_enumeration(models: list[Any], gamma: float) -> tuple[float, float]:
    """Σ_i w max_q [Σ_views E_q[log p] + nγ H(q)] + log prior, and Σ_i w Σ_views KL(q ‖ p), from all outputs."""
    temperature = gamma * len(models)
    total, distance = sum(model.log_prior() for model in models), 0.0
    for words, known, weight in zip(TEXT, KNOWN, WEIGHTS, strict=True):
        every = list(itertools.product(LABELS, repeat=len(words)))
        fits = [y for y in every if known is None or all(k in (None, a) for a, k in zip(y, known, strict=True))]
        log_p = np.array([[model.log_likelihood([words], [list(y)]) for y in fits] for model in models])
        score = log_p.sum(axis=0) / temperature
        log_z = np.logaddexp.reduce(score)
        total += weight * temperature * log_z
        q = np.exp(score - log_z)
        own = log_p - np.logaddexp.reduce(log_p, axis=1)[:, None]
        distance += weight * float((q * (score - log_z - own)).sum())
    return total, distance


@pytest.mark.parametrize("gamma", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("kinds", [(hmm, CRF), (CRF, hmm), (CRF, CRF), (hmm, hmm)])
def test_objective_and_distance_are_those_of_all_outputs_written_out(kinds: Any, gamma: float) -> None:
    def fitted(rounds: int) -> MultiView:
        models = [kind() if kind is hmm else kind(LABELS) for kind in kinds]
        return MultiView(models, shares=None, gamma=gamma, max_iter=rounds, tol=0.0).fit([TEXT, TEXT], KNOWN)

    seen = fitted(4).history_
    objective, distance = by_enumeration(fitted(3).models_, gamma)
    assert seen[3].objective == pytest.approx(objective, abs=1e-8)
    assert seen[3].kl == pytest.approx(distance, abs=1e-8)
    assert np.all(np.diff(seen.objective) >= -1e-6), seen.objective


def test_segments_agree_with_segments() -> None:
    X = [["ann", "lee", "bob", "ran"], ["bob", "ann", "ran"], ["lee", "ran", "far"], ["ann", "bob", "ran"]]
    y = [["P", "P", "B-P", "O"], ["P", "B-P", "O"], None, None]
    learner = MultiView([SemiCRF(LABELS), SemiCRF(LABELS, l2=0.5)]).fit([X, X], y)
    assert learner.predict([X, X])[:2] == y[:2]
    assert all(row.shape == (len(words), 2) for row, words in zip(learner.predict_proba([X, X]), X, strict=True))


ROWS = np.eye(4)


@pytest.mark.parametrize(
    "models, X, y",
    [
        ([MaxEnt(), CRF()], [ROWS, TEXT], ["a", "b", None, None]),
        ([CRF(), MaxEnt()], [TEXT, ROWS], KNOWN),
        ([HMM(), NaiveBayes()], [TEXT, ROWS], KNOWN),
        ([SemiCRF(LABELS), CRF(LABELS)], [TEXT, TEXT], KNOWN),
        ([HMM(LABELS), SemiCRF(LABELS)], [TEXT, TEXT], KNOWN),
    ],
)
def test_views_of_different_outputs_are_refused(models: Any, X: Any, y: Any) -> None:
    with pytest.raises(DataError, match="same kind of output"):
        MultiView(models).fit(X, y)


def test_weight_is_the_papers_c_over_the_number_of_views() -> None:
    """−objective / (labelled instances) is eq. 47 with means in both terms and c = n · weight."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(30, 3)) for _ in range(3)]
    y = [str(int(x > 0)) if i < 10 else None for i, x in enumerate(X[0][:, 0])]
    settings: Any = {"weight": 0.7, "shares": None, "gamma": 1.0, "tol": 0.0}
    learner = MultiView([MaxEnt() for _ in X], max_iter=2, **settings).fit(X, y)
    last = MultiView([MaxEnt() for _ in X], max_iter=3, **settings).fit(X, y).history_[2]
    p = [model.predict_proba(own) for model, own in zip(learner.models_, X, strict=True)]
    loss = -sum(np.log(own[np.arange(10), [int(label or 0) for label in y[:10]]]).mean() for own in p)
    distance = -np.log(np.prod(p, axis=0)[10:] ** (1 / 3) @ np.ones(2)).mean()
    prior = sum(model.log_prior() for model in learner.models_) / 10
    assert -last.objective / 10 == pytest.approx(loss + 3 * 0.7 * distance - prior, abs=1e-9)
