"""Views of different kinds: generative with discriminative ones, segments, and what cannot agree."""

from __future__ import annotations

import itertools
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from trellis.errors import DataError
from trellis.learn import MultiView
from trellis.models import CRF, HMM, MaxEnt, NaiveBayes, SemiCRF
from trellis.projection import agree

LABELS = ["P", "O"]
TEXT = [["a", "b", "c"], ["b", "a"], ["c", "b"], ["a", "c", "c"]]
KNOWN: list[Any] = [["P", "O", "P"], ["O", "P"], None, ["O", None, None]]
WEIGHTS = [1.0, 1.0, 3.0, 1.0]
"""The only unlabelled sentence weighs as much as the three others together."""


def hmm() -> HMM:
    return HMM(LABELS, min_count=1, unknown=None)


def classifier(labels: list[str]) -> CRF:
    """Of tokens by themselves, a MaxEnt: a structure of its own beside that of a chain."""
    return CRF(labels, transitions=False, ends=False)


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


PAIRS = [(hmm, CRF), (CRF, hmm), (CRF, CRF), (hmm, hmm), (classifier, CRF), (hmm, classifier)]


@pytest.mark.parametrize("gamma", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("kinds", PAIRS)
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


def segmentations(n: int) -> list[tuple[int, ...]]:
    """Codes of two labels: k, and 2 + k where a segment begins beside one of k."""
    every = itertools.product(range(4), repeat=n)
    return [y for y in every if y[0] < 2 and all(b < 2 or b % 2 == a % 2 for a, b in itertools.pairwise(y))]


def test_segments_and_chains_agree_on_labels_of_tokens() -> None:
    """Against cvxpy over every segmentation and every sequence; labels of the chain are in another order."""
    few = [["P", "O", "P"], ["O", "P"], ["O", "O"], ["P", "P", "O"]]
    one, other = SemiCRF(LABELS, l2=0.3).fit(TEXT, few), CRF(["O", "P"], l2=0.1).fit(TEXT, few)
    views = [model.scores(model.encode(TEXT)) for model in (one, other)]
    found = agree(*views, maps=[[0, 1], [1, 0]], tolerance=1e-7)
    total, shares = 0.0, []
    for i, words in enumerate(TEXT):
        listed = [segmentations(len(words)), list(itertools.product(range(2), repeat=len(words)))]
        q = [cp.Variable(len(some), nonneg=True) for some in listed]
        cost, rows = 0, [cp.sum(x) == 1 for x in q]
        for view, x, some in zip(views, q, listed, strict=True):
            scores = np.array([view.instances(i, i + 1).score(np.array(y, np.int32))[0] for y in some])
            cost += -cp.sum(cp.entr(x)) - scores @ x
        of_p = [np.array([[code % 2 == k for code in y] for y in some], float) for k, some in enumerate(listed)]
        rows.append(of_p[0].T @ q[0] == of_p[1].T @ q[1])
        problem = cp.Problem(cp.Minimize(cost), rows)
        problem.solve(solver=cp.CLARABEL)
        total += problem.value
        shares += (of_p[0].T @ q[0].value).tolist()
    assert found.value == pytest.approx(total, abs=1e-5)
    np.testing.assert_allclose(found.members[0].node[:, 0], shares, atol=1e-4)
    np.testing.assert_allclose(found.members[1].node[:, 1], shares, atol=1e-4)


def test_a_semi_crf_and_a_crf_are_trained_to_agree() -> None:
    X = TEXT * 3
    y = [["P", "O", "P"], ["O", "P"], *[None] * (len(X) - 2)]
    learner = MultiView([SemiCRF(LABELS), CRF(LABELS)], maps=[None, None], max_iter=5, tol=0.0).fit([X, X], [y, y])
    assert np.all(np.diff(learner.history_.objective) > -1e-3)
    segments, tokens = learner.predict_proba([X, X])
    for one, other in zip(segments, tokens, strict=True):
        np.testing.assert_allclose(one, other, atol=5e-3)
    assert learner.predict([X, X])[1][:2] == y[:2]


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
