"""One norm over the violations of several constraints in all sentences, against cvxpy over every output."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from trellis import HMM, UEM
from trellis.constraints import compile_constraints, count, few_labels_per, label, parse_rules, together, word
from trellis.constraints.expression import read_constraint
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError
from trellis.projection import project
from trellis.structures import Chain

LABELS = Vocabulary(["N", "V"], kind="label")
LENGTHS, WEIGHTS = [3, 2, 1], np.array([1.0, 2.0, 1.0])
MEMBERS = (count("V") >= 1.2, count("N") <= 0.4)


def scores() -> Chain:
    rng = np.random.default_rng(0)
    return Chain(np.cumsum([0, *LENGTHS]), 2 * rng.normal(size=(6, 2)) + [2.0, 0.0], rng.normal(size=(2, 2)))


def solved(strength: Any, weights: np.ndarray, gamma: float) -> tuple[float, list[np.ndarray]]:
    """The problem of one price, or bound, on all violations: its value, and the distributions over all outputs."""
    chain, excess, objective, rows, qs = scores(), [], 0, [], []
    for i, n in enumerate(LENGTHS):
        own = chain.instances(i, i + 1)
        every = np.array(list(itertools.product(range(2), repeat=n)))
        s = np.array([own.score(y.astype(np.int32))[0] for y in every])
        q = cp.Variable(len(every), nonneg=True)
        qs.append(q)
        rows.append(cp.sum(q) == 1)
        objective += weights[i] * (-gamma * cp.sum(cp.entr(q)) - s @ q)
        verbs = q @ every.sum(axis=1)
        excess += [weights[i] * cp.pos(1.2 - verbs), weights[i] * cp.pos(n - verbs - 0.4)]
    kind, amount, norm = strength
    xi = cp.hstack(excess)
    size = cp.sum_squares(xi) / 2 if norm == "squared" else cp.norm(xi, {"l1": 1, "l2": 2, "linf": "inf"}[norm])
    if kind == "slack":
        rows.append(size <= amount)
    else:
        objective = objective + amount * size
    problem = cp.Problem(cp.Minimize(objective), rows)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return float(problem.value), [q.value for q in qs]


@pytest.mark.parametrize("weights", [np.ones(3), WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("gamma", [1.0, 0.5])
@pytest.mark.parametrize(
    "strength",
    [("slack", 1.5, "l1"), ("slack", 1.2, "l2"), ("slack", 0.8, "linf")]
    + [("penalty", 0.7, norm) for norm in ("l1", "l2", "linf", "squared")],
    ids=lambda s: f"{s[0]}-{s[2]}",
)
def test_one_norm_for_all_violations_is_what_cvxpy_has(strength: Any, gamma: float, weights: np.ndarray) -> None:
    chain = scores()
    kind, amount, norm = strength
    constraint = getattr(together(*MEMBERS), kind)(amount, norm)
    batch = Batch.from_sentences([["w"] * n for n in LENGTHS])
    batch = replace(batch, weights=weights)
    rows = compile_constraints(constraint, batch, LABELS, chain.parts)
    assert len(rows.groups) == 1
    found = project(chain, rows, gamma, weights=weights, tolerance=1e-8, max_rounds=2000)
    value, qs = solved(strength, weights, gamma)
    assert found.value == pytest.approx(value, abs=1e-5)
    verbs = [
        float(q @ np.array(list(itertools.product(range(2), repeat=n))).sum(axis=1))
        for q, n in zip(qs, LENGTHS, strict=True)
    ]
    ends = np.cumsum([0, *LENGTHS])
    assert [found.posterior.node[a:b, 1].sum() for a, b in itertools.pairwise(ends)] == pytest.approx(verbs, abs=1e-3)


def test_an_l1_penalty_together_is_the_same_as_one_for_each() -> None:
    chain, batch = scores(), replace(Batch.from_sentences([["w"] * n for n in LENGTHS]), weights=WEIGHTS)
    each = compile_constraints([one.penalty(0.7) for one in MEMBERS], batch, LABELS, chain.parts)
    joint = compile_constraints(together(*MEMBERS).penalty(0.7), batch, LABELS, chain.parts)
    one, two = (project(chain, rows, weights=WEIGHTS, tolerance=1e-8, max_rounds=2000) for rows in (each, joint))
    assert one.value == pytest.approx(two.value, abs=1e-6)


def test_training_rises_and_shares_one_slack() -> None:
    text = [["the", "dog", "barks"], ["a", "dog", "sleeps"], ["the", "cat"], ["cats", "sleep"]]
    verb = (count("V") >= 1).named("verbs")
    learner = UEM(HMM(["N", "V"], min_count=1), [together(verb).slack(0.5, "l1")], max_iter=8, tol=0.0, random_state=1)
    learner.fit(text)
    assert np.all(np.diff(learner.history_.objective) >= -1e-4)
    found = learner.infer(text, transductive=True).marginals
    assert sum(max(1 - own[:, 1].sum(), 0) for own in found) <= 0.5 + 2e-3


def test_a_rules_file_asks_for_one_norm_over_the_corpus() -> None:
    text = '[[rule]]\nname = "verbs"\ncount = "V"\nat_least = 1\nslack = 3\nnorm = "l1"\nnorm_over = "corpus"\n'
    (rule,) = parse_rules(text)
    assert repr(rule) == "together(count('V') >= 1).slack(3, 'l1').named('verbs')"
    assert "all violations in one norm" in rule.describe()


def test_what_cannot_be_together_is_told() -> None:
    with pytest.raises(ConstraintError, match="at least one"):
        together()
    with pytest.raises(ConstraintError, match="takes constraints"):
        together("V")  # type: ignore[arg-type]
    with pytest.raises(ConstraintError, match="strength of its own"):
        together((count("V") >= 1).penalty(2))
    batch = Batch.from_sentences([["w"]])
    with pytest.raises(ConstraintError, match="of (its|their) own"):
        compile_constraints(together(few_labels_per(word, strength=2)), batch, LABELS, scores().instances(2, 3).parts)
    code = "together(count('V') >= 1, label('N').implies(~previous('N')))"
    assert read_constraint(code).code() == code
    assert together(label("N")).code() == "together(label('N'))"
