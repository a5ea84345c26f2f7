"""sample_weight of every estimator: an instance of weight 2 is the instance twice, and wrong weights are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trellis.constraints import count, feature, shares, word
from trellis.errors import DataError
from trellis.learn import CCM, GE, UEM, CoDL, MultiView
from trellis.learn.margin import JLIS, LCLR, MIRA, SSVM, LatentSSVM, Perceptron
from trellis.models import CRF, DMV, HMM, ArcParser, MaxEnt, NaiveBayes, SemiCRF
from trellis.models.alignment import AlignmentModel

TEXT = [["a", "dog", "runs"], ["the", "dog"], ["a", "cat", "runs"], ["the", "cat"], ["dogs", "run"]]
TAGS = [["D", "N", "V"], ["D", "N"], ["D", "N", "V"], None, None]
WHOLE = [["D", "N", "V"], ["D", "N"], ["D", "N", "V"], ["D", "N"], ["N", "V"]]
PARTLY = [*TAGS[:3], ["D", None], [None, "V"]]
PAIRS = [(" ".join(words), "x y") for words in TEXT]
LABELS = ["D", "N", "V"]
ROWS = np.array([[1.0, 0, 2], [0, 1, 1], [1, 1, 0], [0, 2, 1], [2, 0, 1]])
CLASSES = ["x", "y", "x", None, None]
ALL_CLASSES = ["x", "y", "x", "y", "y"]
TREES = [[("a", "D"), ("dog", "N")], [("dogs", "N"), ("run", "V")], [("a", "D"), ("cat", "N")]] * 2
HEADS = [[2, 0], [2, 0], [2, 0], [0, 1], [2, 0], [2, 0]]
WEIGHTS = [2.0, 1.0, 0.0, 3.0, 1.0, 1.0]


def hmm() -> HMM:
    return HMM(LABELS, min_count=1, unknown=None)


def both(*models: Any, **settings: Any) -> Any:
    return lambda: MultiView(list(models), max_iter=20, tol=1e-10, **settings)


TARGETS = [shares({"D": 0.8, "N": 0.1, "V": 0.1}, where=word == "a").penalty(2.0, "squared")]
ROW_TARGETS = [shares({"x": 0.8, "y": 0.2}, where=feature(0)).penalty(2.0, "squared")]
VERB = [(count("V") >= 1).penalty(1.0), (count("N").per("corpus") <= 4).penalty(1.0)]
LEARNED = [(count("V") >= 1).learned()]

CASES: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "hmm": (hmm, TEXT, TAGS),
    "crf": (lambda: CRF(LABELS, tol=1e-9), TEXT, TAGS),
    "semi-crf": (lambda: SemiCRF(LABELS, tol=1e-9), TEXT, TAGS),
    "maxent": (lambda: MaxEnt(tol=1e-9), ROWS, ALL_CLASSES),
    "naive bayes": (NaiveBayes, ROWS, ALL_CLASSES),
    "arc parser": (lambda: ArcParser(bits=8), TREES, HEADS),
    "dmv": (DMV, TREES, HEADS),
    "em": (lambda: UEM(hmm(), max_iter=5, tol=0), TEXT, TAGS),
    "pr": (lambda: UEM(hmm(), VERB, max_iter=5, tol=0, projection_tol=1e-7), TEXT, TAGS),
    "uem of a crf": (lambda: UEM(CRF(LABELS, tol=1e-9), VERB[:1], gamma=0.5, max_iter=3, tol=0), TEXT, TAGS),
    "uem of rows": (lambda: UEM(MaxEnt(tol=1e-9), max_iter=3, tol=0), ROWS, CLASSES),
    "beta": (lambda: UEM(hmm(), VERB[:1], beta=0.3, max_iter=3, tol=0), TEXT, TAGS),
    "codl": (lambda: CoDL(hmm(), LEARNED, max_iter=3), TEXT, TAGS),
    "ccm by pr": (lambda: CCM(hmm(), LEARNED, method="pr", max_iter=3, projection_tol=1e-7), TEXT, TAGS),
    "ge": (lambda: GE(CRF(LABELS), TARGETS, tol=1e-10), TEXT, TAGS),
    "ge of rows": (lambda: GE(MaxEnt(), ROW_TARGETS, tol=1e-10), ROWS, CLASSES),
    "views": (both(MaxEnt(tol=1e-9), MaxEnt(tol=1e-9, l2=0.3), projection_tol=1e-7), [ROWS, ROWS[:, :2]], CLASSES),
    "views of text": (both(hmm(), CRF(LABELS, tol=1e-9), projection_tol=1e-7), [TEXT, TEXT], TAGS),
    "views, plain": (both(hmm(), CRF(LABELS, tol=1e-9), shares=None), [TEXT, TEXT], TAGS),
    "alignment": (lambda: UEM(AlignmentModel(prefix=None), max_iter=3, tol=0, start="uniform"), PAIRS, None),
    "ssvm": (lambda: SSVM(CRF(LABELS), tol=1e-7, max_iter=300), TEXT, WHOLE),
    "ssvm of rows": (lambda: SSVM(MaxEnt(), tol=1e-7, max_iter=300), ROWS, ALL_CLASSES),
    "latent": (lambda: LatentSSVM(CRF(LABELS), inner_tol=1e-7, inner_iter=300), TEXT, PARTLY),
    "jlis": (lambda: JLIS(CRF(LABELS), inner_tol=1e-7, inner_iter=300), TEXT, WHOLE),
    "lclr": (lambda: LCLR(MaxEnt(LABELS), inner_tol=1e-7, inner_iter=300, tol=1e-9), ROWS, [1, -1, 1, 1, -1]),
    "perceptron": (lambda: Perceptron(CRF(LABELS)), TEXT, WHOLE),
    "mira": (lambda: MIRA(CRF(LABELS)), TEXT, WHOLE),
}  # fmt: skip
STEP_BY_STEP = ("perceptron", "mira", "arc parser")
"""Two steps on an example are not one step of twice the size."""


def chosen(X: Any, numbers: list[int]) -> Any:
    if isinstance(X, np.ndarray):
        return X[numbers]
    if isinstance(X[0], np.ndarray) or X[0] is TEXT:
        return [chosen(view, numbers) for view in X]
    return [X[i] for i in numbers]


def size(X: Any) -> int:
    return len(X[0]) if (isinstance(X[0], np.ndarray) and X[0].ndim == 2) or X[0] is TEXT else len(X)


def parameters(learner: Any) -> list[np.ndarray]:
    model = getattr(learner, "model_", learner)
    return list(model.parameters().values())


@pytest.mark.parametrize("name", [name for name in CASES if name not in STEP_BY_STEP])
def test_an_instance_of_weight_two_is_the_instance_twice(name: str) -> None:
    make, X, y = CASES[name]
    n = size(X)
    weights = [w if w > 0 else 1.0 for w in WEIGHTS[:n]]  # all words are seen, so parameters have one shape
    twice = [i for i in range(n) for _ in range(int(weights[i]))]
    one = make().fit(X, y, sample_weight=weights) if y is not None else make().fit(X, sample_weight=weights)
    other = make().fit(chosen(X, twice), *([] if y is None else [[y[i] for i in twice]]))
    for a, b in zip(parameters(one), parameters(other), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3 if "svm" in name or name in ("latent", "jlis", "lclr") else 1e-5)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda n: np.ones(n + 1), "one number for each"),
        (lambda n: np.ones(n - 1), "one number for each"),
        (lambda n: np.ones((n, 1)), "1D"),
        (lambda n: [-1.0] + [1.0] * (n - 1), "not negative"),
        (lambda n: [np.nan] * n, "finite"),
        (lambda n: ["much"] * n, "numbers"),
        (lambda n: [[1.0]] + [1.0] * (n - 1), "numbers"),
    ],
)
def test_weights_that_do_not_fit_are_refused(name: str, wrong: Any, message: str) -> None:
    make, X, y = CASES[name]
    weights = wrong(size(X))
    with pytest.raises(DataError, match="sample_weight") as caught:
        make().fit(X, y, sample_weight=weights) if y is not None else make().fit(X, sample_weight=weights)
    assert message in str(caught.value)


@pytest.mark.parametrize("start", ["auto", "random", "uniform", "labelled"])
@pytest.mark.parametrize("free", ["none", "of weight 0"])
def test_beta_without_unlabelled_weight_gives_the_supervised_model(start: str, free: str) -> None:
    wanted = hmm().fit(TEXT[:3], TAGS[:3]) if free == "none" else hmm().fit(TEXT, TAGS, sample_weight=[1, 1, 1, 0, 0])
    X, y, weights = (TEXT[:3], TAGS[:3], None) if free == "none" else (TEXT, TAGS, [1, 1, 1, 0, 0])
    learner = UEM(hmm(), beta=0.4, start=start, max_iter=3, random_state=0).fit(X, y, sample_weight=weights)
    for name, table in wanted.parameters().items():
        np.testing.assert_allclose(learner.model_.parameters()[name], table, atol=1e-12)


@pytest.mark.parametrize("make", [lambda: CoDL(hmm(), beta=0.4), lambda: CCM(hmm(), method="em", beta=0.4)])
def test_beta_of_constrained_learners_without_unlabelled_weight_too(make: Any) -> None:
    wanted = hmm().fit(TEXT, TAGS, sample_weight=[1, 1, 1, 0, 0]).parameters()
    learner = make().fit(TEXT, TAGS, sample_weight=[1, 1, 1, 0, 0])
    for name, table in wanted.items():
        np.testing.assert_allclose(learner.model_.parameters()[name], table, atol=1e-12)


def test_labels_of_weight_zero_are_no_labels() -> None:
    """With β there is then nothing to mix in, as without labels."""
    y: Any = [WHOLE[0], None, None, None, None]
    weights = [0, 1, 1, 1, 1]
    with pytest.raises(DataError, match="fully labelled"):
        UEM(hmm(), beta=0.5).fit(TEXT, y, sample_weight=weights)
    one = CoDL(hmm(), beta=0.5, random_state=0).fit(TEXT, y, sample_weight=weights)
    other = CoDL(hmm(), beta=None, random_state=0).fit(TEXT, [None] * 5, sample_weight=weights)
    for a, b in zip(parameters(one), parameters(other), strict=True):
        np.testing.assert_allclose(a, b)


def test_weights_that_are_all_zero_are_refused() -> None:
    with pytest.raises(DataError, match="sample_weight of 0"):
        UEM(hmm()).fit(TEXT, TAGS, sample_weight=[0] * 5)


def test_starting_uniformly_with_every_instance_labelled_is_supervised_learning() -> None:
    wanted = hmm().fit(TEXT, WHOLE).parameters()
    found = UEM(hmm(), start="uniform", max_iter=2, tol=0).fit(TEXT, WHOLE).model_.parameters()
    for name, table in wanted.items():
        np.testing.assert_allclose(found[name], table, atol=1e-12)


@pytest.mark.parametrize("model", [hmm(), CRF(LABELS, tol=1e-9)])
@pytest.mark.parametrize("weight", [0.0, 0.3, 2.0])
def test_the_weight_of_unlabelled_instances_is_a_weight_of_each(model, weight):
    settings = {"gamma": 0.5, "max_iter": 3, "tol": 0.0, "start": "labelled"}
    one = UEM(model, VERB[:1], unlabelled_weight=weight, **settings).fit(TEXT, TAGS)
    other = UEM(model, VERB[:1], **settings).fit(TEXT, TAGS, sample_weight=[1, 1, 1, weight, weight])
    for name, found in one.model_.parameters().items():
        assert found == pytest.approx(other.model_.parameters()[name], abs=1e-12)


def test_a_proportion_and_a_weight_are_not_given_together():
    with pytest.raises(DataError, match="leave out unlabelled_weight"):
        UEM(hmm(), beta=0.5, unlabelled_weight=2.0).fit(TEXT, TAGS)
