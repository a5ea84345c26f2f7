"""Penalties of KL divergences from target counts: their proximal step, optimality, and what takes or refuses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from trellis import CRF, GE, HMM, UEM
from trellis.constraints import compile_constraints, count, parse_rules, shares, together, word
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError
from trellis.projection import project
from trellis.projection.kernels.groups import prox_divergence
from trellis.search import decode
from trellis.structures import Chain

LABELS = Vocabulary(["D", "N", "V"], kind="label")
TEXT = [["the", "dog", "barks"], ["a", "dog", "sleeps"], ["the", "cat"], ["cats", "sleep"], ["the", "end"]]
TARGETS = {"D": 0.7, "N": 0.2, "V": 0.1}


def chain(spread: float = 2.0) -> Chain:
    rng, n = np.random.default_rng(1), sum(map(len, TEXT))
    ends = np.cumsum([0, *map(len, TEXT)])
    return Chain(ends, spread * rng.normal(size=(n, 3)), rng.normal(size=(3, 3)))


@pytest.mark.parametrize("amount", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("step", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("v", [-40.0, -0.3, 0.0, 0.05, 2.0, 100.0])
def test_the_proximal_step_is_the_minimum(v: float, step: float, amount: float) -> None:
    def value(theta: float) -> float:
        return step * (-amount * np.log(1.0 - theta / amount) - theta) + 0.5 * (theta - v) ** 2

    low, high = min(v, 0.0) - 1.0, amount * (1.0 - 1e-12)
    best = minimize_scalar(value, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    assert prox_divergence(v, step, amount) == pytest.approx(best, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("gamma", [0.4, 1.0])
@pytest.mark.parametrize("price", [0.3, 20.0])
def test_duals_are_the_slope_of_the_divergence(price: float, gamma: float) -> None:
    """λ = σ (1 − b / E) of every target, for targets far apart in size; and the value is the objective there."""
    text = TEXT * 40
    batch, ends = Batch.from_sentences(text), np.cumsum([0, *map(len, text)])
    rng = np.random.default_rng(3)
    scores = Chain(ends, rng.normal(size=(int(ends[-1]), 3)), rng.normal(size=(3, 3)))
    targets = [shares(TARGETS), shares({"N": 0.9}, where=word == "dog"), shares({"V": 0.05}, where=word == "end")]
    rows = compile_constraints([one.penalty(price, "kl") for one in targets], batch, LABELS, scores.parts)
    found = project(scores, rows, gamma, tolerance=1e-7, max_rounds=500)
    assert found.converged
    expected, lam = found.rows.expect(found.posterior), found.duals.row
    np.testing.assert_allclose(lam, price * (1.0 - found.rows.bound / expected), rtol=0, atol=1e-4 * price)
    b = found.rows.bound
    cost = price * np.sum(b * np.log(b / expected) - b + expected)
    tilted = scores.temper(gamma).add(found.rows.part, found.rows.pull(lam / gamma))
    entropy = gamma * float(tilted.entropy().sum())
    kept = float(scores.expected_score(found.posterior, np.ones(len(scores))))
    assert found.value == pytest.approx(-entropy - kept + cost, rel=1e-5)


def test_a_high_price_is_a_hard_target_and_a_target_of_0_costs_each_count() -> None:
    scores, batch = chain(), Batch.from_sentences(TEXT)

    def solve(constraint: Any) -> Any:
        rows = compile_constraints(constraint, batch, LABELS, scores.parts)
        return project(scores, rows, tolerance=1e-7, max_rounds=1000)

    close, hard = solve(shares(TARGETS).penalty(1e5, "kl")), solve(shares(TARGETS))
    np.testing.assert_allclose(close.posterior.node, hard.posterior.node, atol=1e-3)
    none = count("V").per("corpus") == 0
    np.testing.assert_allclose(
        solve(none.penalty(1.5, "kl")).posterior.node, solve(none.penalty(1.5)).posterior.node, atol=1e-6
    )
    each = (count("N") == 1.2).penalty(2.0, "kl")
    np.testing.assert_allclose(solve(each).posterior.node.sum(axis=1), 1.0, atol=1e-9)
    both = [solve(one).value for one in (shares(TARGETS).penalty(2, "kl"), together(shares(TARGETS)).penalty(2, "kl"))]
    assert both[0] == pytest.approx(both[1], abs=1e-6)


def test_training_rises_and_comes_nearer_to_the_target() -> None:
    text = TEXT * 5
    target = (count("D").per("corpus") == 20.0).named("determiners")
    off = {}
    for price in (0.5, 20.0):
        learner = UEM(HMM(["D", "N", "V"], min_count=1), [target.penalty(price, "kl")], max_iter=6, tol=0.0,
                      random_state=1)  # fmt: skip
        learner.fit(text)
        assert np.all(np.diff(learner.history_.objective) >= -1e-4)
        off[price] = learner.history_[-1].violation["determiners"]
    assert off[20.0] < off[0.5]


def test_ge_takes_the_same_price_and_projects_onto_it() -> None:
    targets = [shares({"D": 0.8, "N": 0.1, "V": 0.1}, where=word == "the")]
    priced = [one.penalty(5.0, "kl") for one in targets]
    by_price = GE(CRF(["D", "N", "V"], l2=0.1), priced, max_iter=3)
    by_setting = GE(CRF(["D", "N", "V"], l2=0.1), [one.penalty(5.0) for one in targets], distance="kl", max_iter=3)
    one, other = (made.fit(TEXT).predict_proba(TEXT) for made in (by_price, by_setting))
    np.testing.assert_allclose(np.concatenate(one), np.concatenate(other), atol=1e-8)
    projected = GE(CRF(["D", "N", "V"], l2=0.1), priced, method="pr", max_iter=4, tol=0.0).fit(TEXT)
    assert projected.predict([["the", "the"]]) == [["D", "D"]]


def test_a_rules_file_has_it() -> None:
    (rule,) = parse_rules('[[rule]]\nname = "a"\ncount = "D"\nexactly = 2\npenalty = 3\nnorm = "kl"\n')
    assert ".penalty(3, 'kl')" in repr(rule)
    assert "3 times the KL divergence from the target" in rule.describe()


@pytest.mark.parametrize(
    "constraint, says",
    [
        (count("V") >= 1, "equal to a number"),
        (count("V") - count("N") == 1, "equal to a number"),
        (count("V", where=word == "unseen").per("corpus") == 2, "infinite"),
    ],
)
def test_what_is_no_target_is_refused(constraint: Any, says: str) -> None:
    scores = chain()
    with pytest.raises(ConstraintError, match=says):
        compile_constraints(constraint.penalty(1, "kl"), Batch.from_sentences(TEXT), LABELS, scores.parts)


def test_single_outputs_and_linear_programs_refuse_it() -> None:
    scores, batch = chain(), Batch.from_sentences(TEXT)
    rows = compile_constraints((count("V") == 1).penalty(1, "kl"), batch, LABELS, scores.parts)
    with pytest.raises(ConstraintError, match="expected counts"):
        decode(scores, rows)
    with pytest.raises(ConstraintError, match="linear program"):
        project(scores, rows, 0.0)
    with pytest.raises(ConstraintError, match="strength 0"):
        (count("V") == 1).penalty(0, "kl")


@pytest.mark.slow
def test_hundreds_of_targets_of_rare_and_common_words_are_met_at_their_price() -> None:
    rng = np.random.default_rng(0)
    often = 1.0 / np.arange(1, 401)
    text = [[f"w{i}" for i in rng.choice(400, size=12, p=often / often.sum())] for _ in range(300)]
    scores = Chain(12 * np.arange(301), rng.normal(size=(3600, 3)), rng.normal(size=(3, 3)))
    wanted = 0.96 * rng.dirichlet([0.5] * 3, size=80).clip(0.01, 0.97)
    targets = [shares(dict(zip("DNV", own / max(own.sum(), 1.0), strict=True)), where=word == f"w{i}").penalty(5, "kl")
               for i, own in enumerate(wanted)]  # fmt: skip
    rows = compile_constraints(targets, Batch.from_sentences(text), LABELS, scores.parts)
    found = project(scores, rows)
    assert len(rows) > 200
    assert found.converged
    slope = 5.0 * (1.0 - found.rows.bound / found.rows.expect(found.posterior))
    np.testing.assert_allclose(found.duals.row, slope, atol=0.05)
