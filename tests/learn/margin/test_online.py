"""Perceptron and MIRA against a plain program over named features, and MIRA's step against a quadratic program."""

from __future__ import annotations

from collections import Counter
from itertools import product

import cvxpy as cp
import numpy as np
import pytest

from trellis.errors import DataError
from trellis.learn.margin import MIRA, Perceptron
from trellis.learn.margin.perceptron import hildreth
from trellis.models import CRF, HMM, ArcParser

from ..corpora import LABELS, tagged_sentences
from .oracle import named_features

TEXT, TAGS = tagged_sentences(25, seed=1)
TEXT, TAGS = zip(*[(x, y) for x, y in zip(TEXT, TAGS, strict=True) if len(x) <= 4], strict=True)


def crf() -> CRF:
    return CRF(LABELS, all_pairs=True)


def weights_by_name(model) -> dict:
    made = {}
    for word in model.feature_names_:
        for tag in LABELS:
            made["word", word.removeprefix("word="), tag] = model.feature_weight(word, tag)
    for i, a in enumerate(LABELS):
        made["start", a], made["stop", a] = model.start_[i], model.stop_[i]
        for j, b in enumerate(LABELS):
            made["edge", a, b] = model.edge_[i, j]
    return made


def plain_program(k: int | None, passes: int) -> dict:
    """Algorithms 2 (k None) and 3 with dictionaries, sentence by sentence; ties as the chain breaks them."""
    w, total, steps = Counter(), Counter(), 0
    for _ in range(passes):
        for words, tags in zip(TEXT, TAGS, strict=True):

            def score(y, words=words):
                return sum(w[f] * v for f, v in named_features(words, y).items())

            every = sorted(product(LABELS, repeat=len(words)), key=lambda y: (-round(score(y), 9), y[::-1]))
            gold = named_features(words, tags)
            rows = []
            for y in every[: k or 1]:
                f = Counter(gold)
                f.subtract(named_features(words, y))
                rows.append((f, sum(a != b for a, b in zip(tags, y, strict=True))))
            if k is None:
                alpha = [1.0]
            else:
                gram = np.array([[sum(f[n] * g[n] for n in f) for g, _ in rows] for f, _ in rows])
                alpha = exact(gram, np.array([b - sum(w[n] * f[n] for n in f) for f, b in rows]))
            for a, (f, _) in zip(alpha, rows, strict=True):
                for name, v in f.items():
                    w[name] += a * v
            steps += 1
            for name, v in w.items():
                total[name] += v
    return {name: v / steps for name, v in total.items()}


def exact(gram: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """The best α ≥ 0 of those where some are 0 and the others have no slope: all cases, one by one."""
    best, value = np.zeros(len(missing)), 0.0
    for chosen in product([False, True], repeat=len(missing)):
        some = np.flatnonzero(chosen)
        if len(some) and np.linalg.matrix_rank(gram[np.ix_(some, some)]) == len(some):
            alpha = np.zeros(len(missing))
            alpha[some] = np.linalg.solve(gram[np.ix_(some, some)], missing[some])
            reached = missing @ alpha - 0.5 * alpha @ gram @ alpha
            if alpha.min() >= 0 and reached > value:
                best, value = alpha, reached
    return best


def program(gram: np.ndarray, missing: np.ndarray, most: float) -> np.ndarray:
    """max missing · α − ½ αᵀ gram α over 0..most."""
    root = np.linalg.cholesky(gram + 1e-12 * np.eye(len(gram)))
    alpha = cp.Variable(len(missing), nonneg=True)
    inside = [] if most == np.inf else [alpha <= most]
    cp.Problem(cp.Maximize(missing @ alpha - 0.5 * cp.sum_squares(root.T @ alpha)), inside).solve(solver=cp.CLARABEL)
    return np.asarray(alpha.value)


@pytest.mark.parametrize("k, learner", [(None, Perceptron(crf())), (1, MIRA(crf())), (2, MIRA(crf(), k_best=2))])
def test_averaged_weights_are_those_of_the_plain_program(k, learner):
    learner.set_params(max_iter=3 if k != 2 else 1, shuffle=False).fit(TEXT, TAGS)
    passes = 3 if k != 2 else 1
    wanted, found = plain_program(k, min(passes, len(learner.history_))), weights_by_name(learner.model_)
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, abs=1e-7), name


@pytest.mark.parametrize("most", [0.2, np.inf])
def test_hildreth_solves_the_dual(most):
    rng = np.random.default_rng(0)
    for _ in range(10):
        rows, missing = rng.standard_normal((4, 6)), rng.standard_normal(4) + 0.5
        alpha = hildreth(rows @ rows.T, missing, most)
        np.testing.assert_allclose(alpha, program(rows @ rows.T, missing, most), atol=1e-5)


def test_one_best_is_the_closed_form():
    """η = (Δ − w · f) / ‖f‖² after one step (Chang 2011, after algorithm 3)."""
    assert hildreth(np.array([[4.0]]), np.array([3.0]), np.inf).tolist() == [0.75]
    assert hildreth(np.array([[4.0]]), np.array([-3.0]), np.inf).tolist() == [0.0]


def test_a_pass_without_mistakes_is_the_last():
    learner = Perceptron(crf(), max_iter=200).fit(TEXT[:6], TAGS[:6])
    assert learner.converged_
    assert len(learner.history_) < 200
    assert learner.history_[-1].objective == 0.0


def test_trees_are_learned_too():
    text = [[("dogs", "N"), ("bark", "V")], [("the", "D"), ("dog", "N"), ("barks", "V")]]
    heads = [[2, 0], [2, 3, 0]]
    for learner in (Perceptron(ArcParser(bits=10, min_count=1)), MIRA(ArcParser(bits=10, min_count=1), k_best=2)):
        assert learner.fit(text, heads).predict(text) == heads


def test_a_model_without_features_is_refused():
    with pytest.raises(DataError, match="HMM has no feature map"):
        Perceptron(HMM(LABELS)).fit(TEXT, TAGS)
