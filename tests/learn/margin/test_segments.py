"""Margin learners over segments: the loss that is searched for is the loss that is measured."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from trellis.constraints import count
from trellis.learn.margin import JLIS, MIRA, SSVM, LatentSSVM, Perceptron
from trellis.models import SemiCRF
from trellis.models.semi_crf import codes_of
from trellis.structures import SegmentParts, Segments

from .oracle import least

POWER = {"hinge": 1, "squared_hinge": 2}
NAMES = ["P", "O"]
CODES = codes_of(NAMES)


def segmentations(n: int) -> list[tuple[str, ...]]:
    """All outputs by name: a B- label stands only beside another one of its label."""
    found = []
    for codes in product(CODES, repeat=n):
        before = [None, *(code.removeprefix("B-") for code in codes)]
        if all(not code.startswith("B-") or code[2:] == before[t] for t, code in enumerate(codes)):
            found.append(codes)
    return found


def problem(seed: int) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    X = [[str(w) for w in rng.choice(["a", "b", "c"], rng.integers(1, 4))] for _ in range(4)]
    Y = [list(every[rng.integers(len(every))]) for every in (segmentations(len(x)) for x in X)]
    return X, Y


def phi(model: Any, words: list[str], codes: Any) -> np.ndarray:
    batch = model.encode([words], [list(codes)])
    return model.phi(batch, batch.labels).toarray()[0]


def cuts(model: Any, words: list[str], gold: list[str], price=lambda codes: 0.0) -> list[tuple[np.ndarray, float]]:
    """(f, b) of every output, with the codes that differ as the loss."""
    own, found = phi(model, words, gold), []
    for codes in segmentations(len(words)):
        wrong = sum(a != b for a, b in zip(gold, codes, strict=True))
        found.append((own - phi(model, words, codes), wrong + price(gold) - price(codes)))
    return found


def check_optimum(learner: Any, best: float, rel: float = 1e-6) -> None:
    last = learner.history_[-1]
    assert last.gap >= -1e-9 * best
    assert last.objective <= best * (1 + rel) <= (last.objective + last.gap) * (1 + 2 * rel)


@pytest.mark.parametrize("loss", POWER)
@pytest.mark.parametrize("seed", range(6))
def test_cutting_planes_reach_the_optimum_of_the_whole_program(seed: int, loss: str) -> None:
    X, Y = problem(seed)
    model = SemiCRF(NAMES, longest=2)
    learner = SSVM(model, C=0.7, loss=loss, tol=1e-6, max_iter=300).fit(X, Y)
    best, _ = least([(0.7, cuts(learner.model_, x, y)) for x, y in zip(X, Y, strict=True)], POWER[loss])
    assert learner.converged_
    check_optimum(learner, best)
    assert learner.history_[-1].gap <= 2e-6 * best


def test_exponentiated_gradient_approaches_the_same_optimum() -> None:
    X, Y = problem(1)
    settings = {"C": 0.7, "loss": "hinge", "method": "exponentiated-gradient", "tol": 0.005, "max_iter": 400}
    learner = SSVM(SemiCRF(NAMES, longest=2), **settings).fit(X, Y)
    best, _ = least([(0.7, cuts(learner.model_, x, y)) for x, y in zip(X, Y, strict=True)], 1)
    check_optimum(learner, best)


def test_prices_of_constraints_are_part_of_the_program() -> None:
    X, Y = problem(2)
    rules = [(count("P") >= 1).penalty(0.6)]
    learner = SSVM(SemiCRF(NAMES, longest=2), rules, C=0.7, tol=1e-6, max_iter=300).fit(X, Y)

    def price(codes: Any) -> float:
        return 0.6 * (not any(code.endswith("P") for code in codes))

    best, _ = least([(0.7, cuts(learner.model_, x, y, price)) for x, y in zip(X, Y, strict=True)], 2)
    check_optimum(learner, best, rel=1e-5)


@pytest.mark.parametrize("learner", [JLIS, LatentSSVM])
def test_learners_of_held_structures_reach_the_same_optimum_where_all_is_known(learner: Any) -> None:
    X, Y = problem(3)
    found = learner(SemiCRF(NAMES, longest=2), C=0.7, loss="hinge", inner_tol=1e-6, inner_iter=300).fit(X, Y)
    best, _ = least([(0.7, cuts(found.model_, x, y)) for x, y in zip(X, Y, strict=True)], 1)
    assert -found.objective_ == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("learner", [Perceptron, MIRA])
def test_a_boundary_that_is_missed_is_a_mistake(learner: Any) -> None:
    """The two sentences differ in a boundary alone."""
    X, Y = [["a", "b"], ["b", "a"]], [["P", "B-P"], ["P", "P"]]
    found = learner(SemiCRF(NAMES), max_iter=50, average=False).fit(X, Y)
    assert found.predict(X) == Y


def test_the_objective_of_labels_known_in_part_counts_what_is_known() -> None:
    """Q(w) by enumeration: outputs that agree with what is known cost nothing."""
    X = [["a", "b", "a"], ["b", "a"], ["a", "a", "b"]]
    Y = [["P", None, "O"], [None, "P"], ["P", "B-P", None]]
    found = LatentSSVM(SemiCRF(NAMES, longest=2), C=0.7, random_ties=True).fit(X, Y)
    model = found.model_
    value = 0.5 * float(model.weights_ @ model.weights_)
    for words, known in zip(X, Y, strict=True):
        every = segmentations(len(words))
        score = [phi(model, words, codes) @ model.weights_ for codes in every]
        missed = [differences(known, codes) for codes in every]
        given = max(s for s, d in zip(score, missed, strict=True) if d == 0)
        value += 0.7 * max(0.0, max(s + d for s, d in zip(score, missed, strict=True)) - given)
    assert -found.objective_ == pytest.approx(value, rel=1e-8)


def differences(known: list[str | None], codes: tuple[str, ...]) -> int:
    """Known codes that are missed; after an unknown one it is enough that the label is right and a B- begins."""
    missed = 0
    for t, code in enumerate(known):
        if code is None:
            continue
        if t > 0 and known[t - 1] is None:
            label, begins = code.removeprefix("B-"), codes[t].startswith("B-") or codes[t] != codes[t - 1][-1]
            missed += codes[t][-1] != label or (code.startswith("B-") and not begins)
        else:
            missed += codes[t] != code
    return missed


def test_the_loss_is_the_codes_that_differ_for_every_two_segmentations() -> None:
    parts = SegmentParts(np.array([0, 3, 3, 5]), 2, 2)
    one, other = segmentations(3), segmentations(2)
    number = {name: code for code, name in enumerate(CODES)}
    every = [np.array([number[c] for c in (*a, *b)], np.int32) for a in one[::3] for b in other]
    for gold in every[::5]:
        loss = parts.hamming(gold)
        for y in every[::7]:
            wrong = y != gold
            assert loss.of(y).tolist() == [wrong[:3].sum(), 0, wrong[3:].sum()]


def test_what_costs_nothing_is_what_clamping_leaves() -> None:
    rng = np.random.default_rng(0)
    scores = Segments([0, 4], rng.standard_normal((4, 2)), rng.standard_normal((2, 2)), length=np.zeros((2, 2)))
    number = {name: code for code, name in enumerate(CODES)}
    every = [np.array([number[c] for c in codes], np.int32) for codes in segmentations(4)]
    for gold in every[::3]:
        known = np.where(rng.random(4) < 0.5, gold, -1).astype(np.int32)
        known[~np.isin(known, (-1, 0, 1)) & (np.roll(known, 1) == -1) & (rng.random(4) < 0.3)] = -1
        clamped, loss = scores.clamp(known), scores.parts.hamming(known)
        for y in every:
            assert (loss.of(y)[0] == 0) == np.isfinite(clamped.score(y)[0]), (known, y)
