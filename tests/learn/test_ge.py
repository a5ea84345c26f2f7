"""Generalized expectation: exact gradients, targets that are met, and the same targets run by every method."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from trellis import load_model
from trellis.constraints import (
    arcs,
    column,
    compile_constraints,
    count,
    feature,
    few_labels_per,
    label,
    root,
    shares,
    transitions,
    word,
)
from trellis.constraints.expression import read_constraint
from trellis.constraints.strength import Kind
from trellis.constraints.violations import group_prices
from trellis.data.batch import Column
from trellis.engine import SerialEngine
from trellis.errors import ConstraintError, DataError, UnknownNameError
from trellis.learn import GE
from trellis.learn.ge import ExpectationStep
from trellis.learn.measured import sweep
from trellis.learn.training import Training
from trellis.models import CRF, HMM, ArcParser, MaxEnt, SemiCRF
from trellis.structures import Chain

from .corpora import LABELS, tagged_sentences

TEXT, TAGS = tagged_sentences(30)
PARTLY = [tags if i < 5 else [None, *tags[1:]] if i == 6 else None for i, tags in enumerate(TAGS)]
RNG = np.random.default_rng(0)
ROWS = (RNG.random((60, 5)) < 0.4).astype(float)
KINDS = ["a", "b", "c"]
SOME: Any = [str(RNG.choice(KINDS)) if i < 12 else None for i in range(60)]


def word_targets() -> list[Any]:
    return [
        shares({"D": 0.8, "N": 0.1, "V": 0.1}, where=word == "the"),
        shares({"N": 0.7, "V": 0.2}, where=word.isin("walk", "dog")),
        shares({"D": 0.3, "N": 0.4, "V": 0.3}),
    ]


def row_targets() -> list[Any]:
    return [shares({"a": 0.7, "b": 0.2, "c": 0.1}, where=feature(1)), shares({"a": 0.2, "b": 0.2, "c": 0.6})]


def objective_of(model: Any, constraints: list[Any], distance: str | None) -> tuple[Any, Any]:
    """The objective over labelled, partly labelled and weighted instances, and a place to look at it."""
    rows = isinstance(model, MaxEnt)
    X, y = (ROWS, SOME) if rows else (TEXT, PARTLY)
    weights = np.random.default_rng(1).random(len(X)) + 0.5
    batch = model.encode(X, y, weights, fit=True)
    step = ExpectationStep(Training(model, batch, SerialEngine()), constraints, distance)
    return step.objective, np.random.default_rng(2).normal(size=len(model.weights_)) * 0.5


@pytest.mark.parametrize("kind", ["maxent", "crf"])
@pytest.mark.parametrize("distance", ["l1", "l2", "squared", "kl"])
def test_the_gradient_is_that_of_central_differences(kind: str, distance: str) -> None:
    model = MaxEnt(KINDS) if kind == "maxent" else CRF(LABELS)
    targets = [
        one.penalty(3.0 + i, "l2") for i, one in enumerate(row_targets() if kind == "maxent" else word_targets())
    ]
    objective, at = objective_of(model, targets, distance)
    check_gradient(objective, at)


@pytest.mark.parametrize("norm", ["l1", "l2", "squared"])
@pytest.mark.parametrize("model", [CRF, SemiCRF])
def test_targets_inside_instances_and_on_transitions_have_gradients_too(model: Any, norm: str) -> None:
    targets = [
        (count("V") >= 1.3).penalty(2.0, norm),
        (transitions(from_="N", to="V") <= 0.3).penalty(3.0, norm),
        (transitions(from_="D", to="N").per("corpus") >= 25).penalty(0.5, norm),
        ((word == "walk") & label("V")).implies(label("V")).constraint().penalty(1.0, norm),
    ]
    check_gradient(*objective_of(model(LABELS), targets, None))


def at_multipliers(objective: Any) -> Any:
    """The same objective with multipliers of hard targets as after some rounds."""
    objective.multiplier = (
        np.where(objective.rows.equality, -0.4, 0.3) * (objective.rows.groups.kind == Kind.HARD)[objective.rows.group]
    )
    return objective


def test_hard_targets_and_trees_have_gradients_too() -> None:
    hard = [*word_targets(), (transitions(from_="N", to="V") <= 4).penalty(1.0), count("D").per("corpus") >= 20]
    objective, at = objective_of(CRF(LABELS), hard, None)
    check_gradient(at_multipliers(objective), at)
    parser = ArcParser(solver="lbfgs", bits=8, min_count=1)
    tag = column("upos")
    rules = [
        arcs(head=root, child=tag == "V", share=True).per("corpus") == 0.4,
        (arcs(child=tag == "D", direction="left") >= 0.9).penalty(2.0, "l2"),
        (arcs(head=tag == "V", child=tag == "N", distance=(1, 2)).per("corpus") == 20).penalty(0.5, "squared"),
    ]
    text = [list(zip(words, tags, strict=True)) for words, tags in zip(TEXT, TAGS, strict=True)]
    heads: Any = [[0] * i + [None] * (len(words) - i) if i < 2 else None for i, words in enumerate(text)]
    batch = parser.encode(text, heads, np.random.default_rng(1).random(len(text)) + 0.5, fit=True)
    objective = ExpectationStep(Training(parser, batch, SerialEngine()), rules, None).objective
    check_gradient(at_multipliers(objective), np.random.default_rng(2).normal(size=len(parser.weights_)) * 0.3)


def test_a_generative_model_adds_the_likelihood_of_the_words() -> None:
    """The gradient in its free numbers, and the objective: log p(x) − distances, from probabilities."""
    model = HMM(LABELS, emissions="features", min_count=1)
    targets = [one.penalty(2.0, "l2") for one in word_targets()[:2]] + [shares({"V": 0.4})]
    weights = np.random.default_rng(1).random(len(TEXT)) + 0.5
    batch = model.encode(TEXT, PARTLY, weights, fit=True)
    objective = ExpectationStep(Training(model, batch, SerialEngine()), targets, None).objective
    check_gradient(at_multipliers(objective), np.random.default_rng(2).normal(size=len(model.vector())) * 0.5)
    (target,) = [shares({"D": 0.8, "N": 0.2}, where=word == "the").penalty(3.0, "squared")]
    learner = GE(model, [target], max_iter=2, tol=0.0).fit(TEXT)
    found = learner.model_
    the = np.concatenate(found.predict_proba(TEXT))[[w == "the" for words in TEXT for w in words]]
    labels = list(found.label_names_)
    miss = [the[:, labels.index(name)].sum() - share * len(the) for name, share in (("D", 0.8), ("N", 0.2))]
    wanted = found.log_likelihood(TEXT) - 1.5 * float(np.square(miss).sum())
    assert learner.history_[-1].objective == pytest.approx(wanted + found.log_prior(), rel=1e-9)
    assert np.all(np.diff(learner.history_.objective) >= 0)


def test_hard_targets_are_met_at_the_least_loss() -> None:
    """Against a solver that knows the model's expectations as equalities."""
    target = {"a": 0.2, "b": 0.3, "c": 0.5}
    model = MaxEnt(KINDS, l2=0.5)
    learner = GE(model, [shares(target)], tol=1e-12, max_iter=30).fit(ROWS, SOME)
    trained = learner.model_
    batch = trained.encode(ROWS, SOME, None)
    plain = ExpectationStep(Training(trained, batch, SerialEngine()), [shares(target).penalty(1.0)], None).objective
    weights = trained.weights_.copy()
    assert plain.expect(trained.at(weights)) == pytest.approx(plain.rows.bound, abs=2e-3)
    free = slice(trained._free().start, trained._free().stop)

    def loss(w: np.ndarray) -> float:
        prior = w.copy()
        prior[free] = 0.0
        return float(plain.loss(w)[0]) + 0.25 * float(prior @ prior)

    solved = minimize(
        loss, np.zeros(len(weights)), method="SLSQP", options={"maxiter": 500, "ftol": 1e-12},
        constraints={"type": "eq", "fun": lambda w: (plain.expect(trained.at(w)) - plain.rows.bound)[:2]},
    )  # fmt: skip
    assert loss(weights) == pytest.approx(solved.fun, abs=2e-3)


def check_gradient(objective: Any, at: np.ndarray) -> None:
    value, gradient = objective(at)
    assert value > 0.0
    eps = 1e-5
    for i in np.random.default_rng(3).choice(len(at), size=min(len(at), 25), replace=False):
        move = np.zeros(len(at))
        move[i] = eps
        slope = (objective(at + move)[0] - objective(at - move)[0]) / (2 * eps)
        assert gradient[i] == pytest.approx(slope, abs=2e-7 * max(1.0, np.abs(gradient).max()))


@pytest.mark.slow
@pytest.mark.parametrize("distance", ["l2", "squared", "kl"])
def test_label_regularisation_meets_its_targets(distance: str) -> None:
    target = {"a": 0.2, "b": 0.3, "c": 0.5}
    learner = GE(MaxEnt(KINDS, l2=0.01), [shares(target).penalty(20.0, "l2")], distance=distance, tol=1e-4)
    learner.fit(ROWS, SOME)
    found = learner.predict_proba(ROWS[12:]).mean(axis=0)
    np.testing.assert_allclose(found, list(target.values()), atol=5e-3)
    assert max(learner.history_[-1].violation.values()) < 0.1  # tokens, of 48


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ge", "pr", "uem", "codl", "measurements"])
@pytest.mark.parametrize("kind", ["maxent", "crf"])
def test_the_same_targets_run_by_every_method(method: str, kind: str) -> None:
    if kind == "crf":
        targets = [
            shares({"D": 0.9, "N": 0.05, "V": 0.05}, where=word.isin("the", "a")),
            shares({"D": 0.05, "N": 0.9, "V": 0.05}, where=word.isin("dog", "cat", "tree")),
            shares({"D": 0.05, "N": 0.05, "V": 0.9}, where=word.isin("sees", "runs")),
        ]
        learner = GE(CRF(LABELS, l2=0.1), [t.penalty(5.0, "l2") for t in targets], method=method, max_iter=3, tol=0.0,
                     random_state=0)  # fmt: skip
        # Hard assignments need a start that tells labels apart: a few known ones.
        assert learner.fit(TEXT, PARTLY if method == "codl" else None).score(TEXT, TAGS) > 0.8
        return
    rng = np.random.default_rng(4)
    hidden = rng.integers(2, size=200)
    X = (rng.random((200, 6)) < np.where(hidden[:, None] == 1, 0.8, 0.2)).astype(float)
    y = np.array(["no", "yes"])[hidden]
    targets = [shares({"yes": 0.8, "no": 0.2}, where=feature(f)).penalty(5.0, "l2") for f in (0, 1)]
    targets += [shares({"yes": 0.2, "no": 0.8}, where=~feature(f)).penalty(5.0, "l2") for f in (0, 1)]
    learner = GE(MaxEnt(["no", "yes"], l2=0.5), targets, method=method, max_iter=5, tol=0.0, random_state=0)
    known: Any = [label if i < 10 else None for i, label in enumerate(y)] if method == "codl" else None
    learner.fit(X, known)
    assert learner.score(X, y) > 0.8


@pytest.mark.parametrize("norm", ["l1", "l2", "squared"])
def test_measured_labels_are_drawn_from_the_posterior_of_all_labels_together(norm: str) -> None:
    """Marginals over many sweeps beside those of every labelling of the corpus."""
    rng = np.random.default_rng(3)
    text = [["a", "b"], ["b"], ["a", "a"]]
    batch = (crf := CRF(["N", "V"])).encode(text, fit=True)
    chain = Chain(batch.offsets, rng.normal(size=(5, 2)), rng.normal(size=(2, 2)))
    batch = replace(batch, columns={"word": Column.of([w for own in text for w in own])})
    rules = [
        shares({"N": 0.7, "V": 0.3}, where=word == "a").penalty(1.5, norm),
        (count("V") >= 1).penalty(1.0, norm),
        (transitions().per("corpus") <= 0.5).penalty(0.8, norm),
    ]
    rows = compile_constraints(rules, batch, crf.label_names_, chain.parts).canonical()
    wanted, total = np.zeros((5, 2)), 0.0
    for labels in product(range(2), repeat=5):
        y = np.array(labels, np.int32)
        price = group_prices(rows.groups, rows.group, rows.excess(rows.evaluate(y))).sum()
        share = np.exp(chain.score(y).sum() - price)
        total += share
        wanted[np.arange(5), y] += share
    outputs, seen = np.full(5, -1, np.int32), np.zeros((5, 2))
    for _ in range(4000):
        outputs = sweep(chain, rows.local(), rows.coupling(), outputs, rng)
        seen[np.arange(5), outputs] += 1
    assert np.abs(wanted / total - chain.infer().node).max() > 0.05
    np.testing.assert_allclose(seen / 4000, wanted / total, atol=0.035)


def test_measurements_resume_to_the_same_bits_and_refuse_hard_targets(tmp_path: Path) -> None:
    targets = [one.penalty(1.0, "squared") for one in word_targets()]
    settings: dict[str, Any] = {"method": "measurements", "tol": 0.0, "random_state": 1}
    whole = GE(CRF(LABELS), targets, max_iter=4, **settings).fit(TEXT, PARTLY)
    path = tmp_path / "run"
    GE(CRF(LABELS), targets, max_iter=2, checkpoint=path, **settings).fit(TEXT, PARTLY)
    resumed = GE(CRF(LABELS), targets, max_iter=4, checkpoint=path, **settings).fit(TEXT, PARTLY, resume=True)
    np.testing.assert_array_equal(whole.model_.weights_, resumed.model_.weights_)
    with pytest.raises(ConstraintError, match="noise"):
        GE(CRF(LABELS), word_targets(), **settings).fit(TEXT)


def test_multipliers_of_hard_targets_are_resumed_to_the_same_bits(tmp_path: Path) -> None:
    def fit(rounds: int, path: Any = None) -> Any:
        made = GE(CRF(LABELS), word_targets(), max_iter=rounds, tol=0.0, checkpoint=path)
        return made.fit(TEXT, PARTLY, resume=path is not None).model_.weights_

    fit(2, tmp_path / "run")
    np.testing.assert_array_equal(fit(4, tmp_path / "run"), fit(4))


def test_the_objective_never_falls_and_resumes_to_the_same_bits(tmp_path: Path) -> None:
    def fit(rounds: int, path: Any = None) -> GE:
        made = GE(CRF(LABELS), [t.penalty(20.0, "squared") for t in word_targets()], max_iter=rounds, tol=0.0,
                  checkpoint=path)  # fmt: skip
        return made.fit(TEXT, PARTLY, resume=path is not None)

    whole = fit(3)
    assert np.all(np.diff(whole.history_.objective) >= 0)
    fit(2, tmp_path / "run")
    np.testing.assert_array_equal(fit(3, tmp_path / "run").model_.weights_, whole.model_.weights_)
    whole.save(tmp_path / "ge.trellis")
    assert load_model(tmp_path / "ge.trellis").predict(TEXT) == whole.predict(TEXT)


@pytest.mark.parametrize(
    "constraint, distance, message",
    [
        (shares({"D": 0.5}).slack(1.0), None, "has no price"),
        (shares({"D": 0.5}).penalty(1.0, "linf"), None, "corners"),
        ((count("D").per("corpus") <= 4).penalty(1.0, "l2"), "kl", "no target share"),
        (few_labels_per(word, strength=1.0), None, "few_labels_per"),
        (count("D") <= 0, None, "impossible"),
    ],
)
def test_what_is_no_target_is_told(constraint: Any, distance: str | None, message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        GE(CRF(LABELS), [constraint], distance=distance).fit(TEXT)


def test_settings_that_cannot_be_are_told() -> None:
    with pytest.raises(DataError, match="log-linear"):
        GE(HMM(LABELS), []).fit(TEXT)
    with pytest.raises(DataError, match="requires method 'ge'"):
        GE(CRF(LABELS), [], method="pr", distance="kl").fit(TEXT)
    with pytest.raises(UnknownNameError, match="pr"):
        GE(CRF(LABELS), [], method="prr").fit(TEXT)


@pytest.mark.parametrize("wrong", [{}, {"A": 1.5}, {"A": 0.6, "B": 0.6}, {1: 0.5}, ["A"]])
def test_shares_that_are_none_are_told(wrong: Any) -> None:
    with pytest.raises(ConstraintError):
        shares(wrong)


def test_targets_are_written_and_read() -> None:
    one = shares({"A": 0.25, "B": 1 / 3}, where=feature(3) & ~feature(0))
    assert read_constraint(one.code()).code() == one.code()
    with pytest.raises(ConstraintError, match="no feature 9"):
        GE(MaxEnt(KINDS), [shares({"a": 0.5}, where=feature(9)).penalty(1.0, "l2")]).fit(ROWS)
