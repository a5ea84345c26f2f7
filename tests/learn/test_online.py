"""Stepwise learning: duals of constraints over the corpus, discriminative models, and what it is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis import CRF, HMM, UEM, MaxEnt, feature
from trellis.constraints import Constraint, count, few_labels_per, share, together, word
from trellis.errors import ConstraintError, DataError
from trellis.models.model import rows_of
from trellis.projection import project

from .corpora import LABELS, tagged_sentences

TEXT, TAGS = tagged_sentences(60)
FEW: Any = [tags if i % 6 == 0 else None for i, tags in enumerate(TAGS)]
FREE = [words for words, known in zip(TEXT, FEW, strict=True) if known is None]


def rules() -> list[Constraint]:
    return [
        share("V").per("corpus") <= 0.2,
        (share("D").per("corpus") >= 0.4).penalty(30.0),
        (share("N").per("corpus") == 0.45).penalty(60.0, "squared"),
        (count("N") >= 1).penalty(2.0),
        together(count("D") <= 1).slack(3.0, "l2"),
    ]


@pytest.mark.parametrize("gamma", [1.0, 0.7])
def test_duals_of_corpus_rows_approach_those_of_a_projection(gamma: float) -> None:
    """With weights that stay where they are, all that moves are duals."""
    model = CRF(LABELS, l2=1.0, learning_rate=1e-300).fit(TEXT[::6], TAGS[::6])
    weights = model.weights_.copy()
    learner = UEM(
        model, rules(), gamma=gamma, online=9, max_iter=100, tol=0.0, start="model", step_power=0.55, random_state=0
    ).fit(TEXT[:30], FEW[:30])  # fmt: skip
    np.testing.assert_array_equal(learner.model_.weights_, weights)
    batch = model.encode(FREE[:25], None, None)
    rows = rows_of(model, batch, rules()).canonical()
    solved = project(model.scores(batch), rows, gamma, tolerance=1e-6, max_rounds=1000)
    scale = [
        1.0 if name.startswith("together") else 1.0 / batch.n_slots
        for name in np.array(rows.names)[rows.constraint[rows.n_local :]]
    ]
    wanted = solved.duals.row[rows.n_local :] * scale / gamma
    assert np.count_nonzero(wanted) >= 3
    np.testing.assert_allclose(learner.duals_.theta, wanted, atol=0.02 * np.abs(wanted).max())
    last = learner.history_[-1]
    log_z = float(model.scores(batch).infer().log_partition.sum())
    assert last.objective == pytest.approx(
        -solved.value - log_z + model.log_prior(), abs=0.02 * abs(solved.value + log_z) + 0.05
    )


@pytest.mark.parametrize("model", [HMM(LABELS, min_count=1), CRF(LABELS, l2=1.0)], ids=["hmm", "crf"])
def test_constraints_over_the_corpus_hold_in_the_end(model: Any) -> None:
    rule = share("V").per("corpus").between(0.4, 0.45)
    learner = UEM(model, [rule], online=10, max_iter=20, tol=0.0, random_state=0).fit(TEXT, FEW)
    # in proportions of tokens
    assert learner.history_[-1].violation[rule.code()] < 0.01
    free = UEM(model, [], online=10, max_iter=20, tol=0.0, random_state=0).fit(TEXT, FEW)
    unconstrained = np.concatenate(free.infer(FREE).marginals)[:, LABELS.index("V")].mean()
    assert not 0.4 <= unconstrained <= 0.45


def test_a_crf_under_rules_comes_near_the_objective_of_batch_rounds() -> None:
    rule = [(count("N") >= 1).penalty(4.0), (count("V") >= 1).penalty(4.0)]
    whole = UEM(CRF(LABELS, l2=1.0), rule, max_iter=60, tol=0.0).fit(TEXT, FEW)
    steps = UEM(CRF(LABELS, l2=1.0, learning_rate=0.2), rule, online=10, max_iter=40, tol=0.0, random_state=0)
    steps.fit(TEXT, FEW)

    def objective(weights: np.ndarray) -> float:
        model = CRF(LABELS, l2=1.0)
        model.encode(TEXT, FEW, fit=True)
        model.weights_ = weights
        return float(UEM(model, rule, start="model", max_iter=1, tol=0.0).fit(TEXT, FEW).history_[0].objective)

    start, ours, theirs = whole.history_[0].objective, objective(steps.model_.weights_), whole.history_[-1].objective
    assert objective(whole.model_.weights_) == pytest.approx(theirs, rel=1e-3)
    assert ours > start + 0.9 * (theirs - start)


def test_a_classifier_learns_from_targets_of_features_in_mini_batches() -> None:
    rng = np.random.default_rng(4)
    hidden = rng.integers(2, size=200)
    X = (rng.random((200, 6)) < np.where(hidden[:, None] == 1, 0.8, 0.2)).astype(float)
    targets = [share("yes", where=feature(f)).per("corpus") >= 0.8 for f in (0, 1)]
    targets += [share("no", where=~feature(f)).per("corpus") >= 0.8 for f in (0, 1)]
    learner = UEM(
        MaxEnt(["no", "yes"], l2=0.5), targets, start="uniform", online=20, max_iter=20, tol=0.0, random_state=0
    )
    learner.fit(X)
    assert learner.score(X, np.array(["no", "yes"])[hidden], constrained=False) > 0.8


@pytest.mark.parametrize("model", [HMM(LABELS, min_count=1), CRF(LABELS, l2=1.0)], ids=["hmm", "crf"])
def test_duals_and_squares_are_resumed_to_the_same_bits(model: Any, tmp_path: Path) -> None:
    def fit(rounds: int, path: Any = None) -> Any:
        made = UEM(model, rules(), online=7, max_iter=rounds, tol=0.0, random_state=1, checkpoint=path)
        return made.fit(TEXT, FEW, resume=path is not None)

    fit(2, tmp_path / "run")
    again, whole = fit(4, tmp_path / "run"), fit(4)
    for name, table in whole.model_.parameters().items():
        np.testing.assert_array_equal(table, again.model_.parameters()[name])
    np.testing.assert_array_equal(again.duals_.theta, whole.duals_.theta)


def test_what_cannot_be_learned_in_mini_batches_is_told() -> None:
    with pytest.raises(ConstraintError, match="few_labels_per.*leave out online"):
        UEM(HMM(LABELS, min_count=1), [few_labels_per(word, strength=2)], online=5).fit(TEXT)
    with pytest.raises(DataError, match="γ > 0"):
        UEM(HMM(LABELS, min_count=1), [share("V").per("corpus") <= 0.2], gamma=0.0, online=5).fit(TEXT)
