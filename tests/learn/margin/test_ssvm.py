"""Structural SVMs against the quadratic program with every output written out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import sparse

from trellis.constraints import count
from trellis.errors import DataError
from trellis.learn.margin import SSVM
from trellis.learn.margin.working_set import WorkingSet
from trellis.models import CRF, ArcParser, MaxEnt
from trellis.structures import Chain

from .oracle import Oracle, least

X = [["the", "dog"], ["a", "dog", "runs"], ["dogs", "run"], ["the", "run", "the"], ["run"]]
Y = [["D", "N"], ["D", "N", "V"], ["N", "V"], ["D", "N", "D"], ["V"]]
LABELS = ["D", "N", "V"]
POWER = {"hinge": 1, "squared_hinge": 2}


def crf() -> CRF:
    return CRF(LABELS, all_pairs=True)


def optimum(loss: str, C: float, oracle: Oracle | None = None, weights=None) -> float:
    oracle = Oracle(LABELS) if oracle is None else oracle
    oracle.learn_space(X)
    weights = np.ones(len(X)) if weights is None else weights
    cuts = [(C * w, oracle.cuts(x, y)) for x, y, w in zip(X, Y, weights, strict=True)]
    return least(cuts, POWER[loss])[0]


@pytest.mark.parametrize("loss", POWER)
@pytest.mark.parametrize("C", [0.05, 2.0])
def test_cutting_planes_reach_the_optimum_of_the_whole_program(loss, C):
    learner = SSVM(crf(), C=C, loss=loss, tol=1e-6, max_iter=200).fit(X, Y)
    last, best = learner.history_[-1], optimum(loss, C)
    assert learner.converged_
    assert last.objective <= best * (1 + 1e-7) <= (last.objective + last.gap) * (1 + 2e-7)
    assert last.gap <= 1e-6 * (last.objective + last.gap)
    assert np.all(np.diff(learner.history_.objective) >= -1e-12)


def test_the_gap_asked_for_is_the_gap_reached():
    for tol in (0.3, 0.01):
        last = SSVM(crf(), C=1.0, tol=tol).fit(X, Y).history_[-1]
        assert last.gap <= tol * (last.objective + last.gap)


def test_an_instance_of_weight_two_is_the_instance_twice():
    weights = np.array([2.0, 1.0, 0.0, 3.0, 1.0])
    twice = [i for i, w in enumerate(weights) for _ in range(int(w))]
    one = SSVM(crf(), C=0.3, tol=1e-7, max_iter=300).fit(X, Y, sample_weight=weights)
    other = SSVM(crf(), C=0.3, tol=1e-7, max_iter=300).fit([X[i] for i in twice], [Y[i] for i in twice])
    # features that only the left-out sentence has weigh nothing
    assert one.history_[-1].objective == pytest.approx(other.history_[-1].objective, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", POWER)
def test_subgradient_approaches_the_same_value(loss):
    learner = SSVM(crf(), C=0.3, loss=loss, method="subgradient", max_iter=200).fit(X, Y)
    assert -learner.objective_ == pytest.approx(optimum(loss, 0.3), rel=0.01)


def test_exponentiated_gradient_approaches_the_same_value_and_its_dual_rises():
    learner = SSVM(crf(), C=0.3, loss="hinge", method="exponentiated-gradient", tol=0.005, max_iter=400).fit(X, Y)
    last, best = learner.history_[-1], optimum("hinge", 0.3)
    assert learner.converged_
    assert last.objective <= best * (1 + 1e-7) <= (last.objective + last.gap) * (1 + 2e-7)
    assert np.all(np.diff(learner.history_.objective) >= -1e-12)


def price_of_no_verb(words, tags):
    return 0.7 * max(0, 1 - sum(t == "V" for t in tags)) + (np.inf if sum(t == "D" for t in tags) > 1 else 0.0)


@pytest.mark.parametrize("loss", POWER)
def test_hard_and_soft_constraints_are_part_of_the_program(loss):
    """The fourth sentence breaks the hard rule: it pays nothing for it and is not searched for."""
    rules = [(count("V") >= 1).penalty(0.7), count("D") <= 1]
    learner = SSVM(crf(), rules, C=0.5, loss=loss, tol=1e-6, max_iter=200).fit(X, Y)
    last, best = learner.history_[-1], optimum(loss, 0.5, Oracle(LABELS, price_of_no_verb))
    assert last.objective <= best * (1 + 1e-6)
    assert best <= (last.objective + last.gap) * (1 + 1e-6)
    assert all(labels.count("D") <= 1 for labels in learner.predict(X))


def test_a_classifier_is_a_structure_too():
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((30, 4)), rng.integers(3, size=30)
    learner = SSVM(MaxEnt(fit_intercept=False), C=0.2, loss="hinge", tol=1e-6, max_iter=300).fit(rows, labels)

    def vector(x, k):
        made = np.zeros((4, 3))
        made[:, k] = x
        return made.ravel()

    cuts = [
        (0.2, [(vector(x, y) - vector(x, k), float(k != y)) for k in range(3)])
        for x, y in zip(rows, labels, strict=True)
    ]
    last = learner.history_[-1]
    assert last.objective <= least(cuts, 1)[0] * (1 + 1e-6) <= (last.objective + last.gap) * (1 + 2e-6)


def test_loss_augmented_search_finds_what_enumeration_finds():
    rng = np.random.default_rng(1)
    for _ in range(30):
        n = int(rng.integers(1, 5))
        scores = Chain([0, n], rng.standard_normal((n, 3)), rng.standard_normal((3, 3)))
        gold = rng.integers(-1, 3, n).astype(np.int32)
        every = np.array(np.meshgrid(*[range(3)] * n, indexing="ij")).reshape(n, -1).T.astype(np.int32)
        value = [scores.score(y)[0] + np.sum((gold >= 0) & (y != gold)) for y in every]
        loss = scores.parts.hamming(gold)
        found = loss.add_to(scores).argmax().outputs
        assert scores.score(found)[0] + loss.of(found)[0] == pytest.approx(max(value))


def test_loss_augmented_search_finds_the_tree_that_enumeration_finds():
    """A structure without labels: the loss is the arcs that are missed."""
    rng, parser = np.random.default_rng(2), ArcParser(bits=8)
    batch = parser.encode([[("a", "X"), ("b", "Y"), ("c", "X")]], fit=True)
    flat = parser.uniform(batch)
    trees = []
    for heads in product(range(4), repeat=3):
        try:
            flat.parts.of(np.array(heads, np.int32))
        except DataError:
            continue
        trees.append(np.array(heads, np.int32))
    for gold in trees:
        scores = flat.add(np.arange(flat.parts.n_parts), 2.0 * rng.standard_normal(flat.parts.n_parts))
        value = [scores.score(y)[0] + np.sum(y != gold) for y in trees]
        loss = flat.parts.hamming(gold)
        found = loss.add_to(scores).argmax().outputs
        assert loss.of(found)[0] == np.sum(found != gold)
        assert scores.score(found)[0] + np.sum(found != gold) == pytest.approx(max(value))


# dual coordinate descent


def random_set(power: int, seed: int, *, bounded: bool = False) -> WorkingSet:
    """With bounds: a third of the weights at 0 or above, a third within ±0.1, the others free."""
    rng = np.random.default_rng(seed)
    bounds = np.repeat([0.0, -0.1, -np.inf], 5), np.repeat([np.inf, 0.1, np.inf], 5)
    made = WorkingSet(rng.uniform(0.1, 3.0, 12), 15, power, bounds if bounded else None)
    rows = sparse.random(60, 15, 0.3, format="csr", random_state=seed)
    made.add(rng.integers(12, size=60), rows, rng.uniform(0.0, 3.0, 60))
    return made


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_a_sweep_never_lowers_the_dual_and_sweeps_close_the_gap(power, seed):
    made, rng = random_set(power, seed), np.random.default_rng(seed)
    values = [made.dual()]
    for _ in range(300 if power == 2 else 3000):
        made.descend(rng)
        values.append(made.dual())
    assert np.all(np.diff(values) >= -1e-12 * abs(values[-1]))
    np.testing.assert_allclose(made.weights, made.rows.T @ made.alpha, atol=1e-10)
    assert made.primal(made.slacks()) - made.dual() <= 1e-4 * made.dual()
    held = np.bincount(made.example, made.alpha, minlength=12)
    assert made.alpha.min() >= 0.0
    assert power == 2 or np.all(held <= made.cost * (1 + 1e-12))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_weights_with_bounds_reach_the_best_within_them_and_the_dual_never_falls(power, seed):
    made, rng = random_set(power, seed, bounded=True), np.random.default_rng(seed)
    rows, groups = made.rows.toarray() * rng.choice([-1.0, 1.0], 15), []
    made.drop(np.ones(60, np.bool_))
    made.add(np.arange(60) % 12, sparse.csr_matrix(rows), rng.uniform(0.0, 3.0, 60))
    values = [made.dual()]
    for _ in range(300 if power == 2 else 3000):
        made.descend(rng)
        values.append(made.dual())
    assert np.all(np.diff(values) >= -1e-12 * abs(values[-1]))
    total = made.rows.T @ made.alpha
    np.testing.assert_allclose(made.weights, np.clip(total, *made.bounds), atol=1e-10)
    assert np.count_nonzero(np.abs(made.weights - total) > 1e-3) >= 3
    for i, cost in enumerate(made.cost):
        groups.append((cost, [(rows[c], made.bound[c]) for c in np.flatnonzero(made.example == i)]))
    best = least(groups, power, made.bounds)[0]
    assert made.dual() <= best * (1 + 1e-7) <= made.primal(made.slacks()) * (1 + 2e-7)
    assert made.primal(made.slacks()) - made.dual() <= 1e-4 * best


class Bounded(CRF):
    """A CRF whose weights are never negative, nor large."""

    def weight_bounds(self):
        return np.zeros(len(self.weights_)), np.full(len(self.weights_), 0.4)


@pytest.mark.parametrize("loss", POWER)
def test_bounds_that_a_model_knows_are_part_of_the_program(loss):
    learner = SSVM(Bounded(LABELS, all_pairs=True), C=2.0, loss=loss, tol=1e-6, max_iter=200).fit(X, Y)
    oracle = Oracle(LABELS)
    oracle.learn_space(X)
    best = least([(2.0, oracle.cuts(x, y)) for x, y in zip(X, Y, strict=True)], POWER[loss], (0.0, 0.4))[0]
    last, w = learner.history_[-1], learner.model_.weights_
    assert learner.converged_
    assert (w.min(), w.max()) == (0.0, 0.4)
    assert last.objective <= best * (1 + 1e-7) <= (last.objective + last.gap) * (1 + 2e-7)


@pytest.mark.parametrize("method", ["subgradient", "exponentiated-gradient"])
def test_methods_that_do_not_keep_to_bounds_say_so(method):
    with pytest.raises(DataError, match="use cutting planes"):
        SSVM(Bounded(LABELS), method=method, loss="hinge").fit(X, Y)


def test_the_step_of_equation_6_9_is_the_best_one_and_that_of_algorithm_15_is_not():
    """One cut with α > 0: the printed plus before Σα / 2C overshoots."""
    made = WorkingSet(np.array([0.5]), 2, 2)
    made.add(np.array([0]), sparse.csr_matrix([[1.0, 2.0]]), np.array([3.0]), np.array([0.4]))

    def dual_at(alpha: float) -> float:
        other = WorkingSet(np.array([0.5]), 2, 2)
        other.add(np.array([0]), sparse.csr_matrix([[1.0, 2.0]]), np.array([3.0]), np.array([alpha]))
        return other.dual()

    half, square, slope = 1.0, 5.0, 3.0 - 0.4 * 5.0
    printed = 0.4 + (slope + half * 0.4) / (square + half)
    made.descend(np.random.default_rng(0))
    best = max(np.linspace(0.0, 1.0, 401), key=dual_at)
    assert made.alpha[0] == pytest.approx(best, abs=1.3e-3)
    assert dual_at(printed) < dual_at(made.alpha[0]) - 1e-3


def test_labels_that_are_missing_are_told_of():
    with pytest.raises(DataError, match="instance 1.*LatentSSVM"):
        SSVM(crf()).fit(X[:2], [["D", "N"], None])
    with pytest.raises(DataError, match="hinge"):
        SSVM(crf(), method="exponentiated-gradient").fit(X, Y)
