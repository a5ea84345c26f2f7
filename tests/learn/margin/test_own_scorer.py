"""Models and losses of one's own: what the documented interface asks of them is enough."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from trellis import CRF, Vocabulary
from trellis.constraints import count
from trellis.constraints.penalties import penalty_of
from trellis.learn.margin import JLIS, LCLR, MIRA, SSVM, LatentSSVM, Perceptron
from trellis.structures import Categorical
from trellis.structures.parts import PartLoss

X = np.random.default_rng(0).normal(size=(40, 3))
Y = (X @ np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0], [-1.0, 0.0, 1.0]])).argmax(axis=1)


@dataclass(frozen=True)
class Table:
    """Rows with a class each, and nothing of the library."""

    rows: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    first: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def offsets(self) -> np.ndarray:
        return np.arange(len(self) + 1)

    @property
    def lengths(self) -> np.ndarray:
        return np.ones(len(self), int)

    @property
    def complete(self) -> np.ndarray:
        return self.labels >= 0

    @property
    def known(self) -> bool:
        return bool(np.any(self.complete))

    def take(self, numbers: Any) -> Table:
        return Table(self.rows[numbers], self.labels[numbers], self.weights[numbers])

    def with_labels(self, labels: Any) -> Table:
        return replace(self, labels=np.full(len(self), -1, np.int32) if labels is None else labels)

    def instances(self, start: int, stop: int) -> Table:
        return replace(self.take(slice(start, stop)), first=self.first + start)


class Rows:
    """Three classes by three numbers."""

    label_names_ = Vocabulary(["a", "b", "c"], kind="label")

    def __init__(self) -> None:
        self.weights_ = np.zeros(9)

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> Table:
        if fit:
            self.reset()
        labels = [-1 if one is None else one for one in ([None] * len(X) if y is None else y)]
        return Table(np.asarray(X), np.array(labels, np.int32), np.ones(len(X)) if weights is None else weights)

    def scores(self, batch: Table) -> Categorical:
        return Categorical(batch.rows @ self.weights_.reshape(3, 3), first=batch.first)

    def parts(self, batch: Table) -> Any:
        return self.scores(batch).parts

    def phi(self, batch: Table, outputs: Any) -> Any:
        return sparse.csr_matrix([np.kron(row, np.eye(3)[k]) for row, k in zip(batch.rows, outputs, strict=True)])

    def decode(self, batch: Table, outputs: Any) -> list[int]:
        return np.asarray(outputs).tolist()

    def reset(self) -> None:
        self.weights_ = np.zeros(9)

    def parameters(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights_}

    def set_parameters(self, parameters: dict[str, Any]) -> None:
        self.weights_ = parameters["weights"].copy()


@pytest.mark.parametrize("learner", [SSVM, Perceptron, MIRA, LatentSSVM, JLIS])
def test_a_scorer_of_ones_own_is_trained(learner: Any) -> None:
    y = [None if i % 5 == 0 and learner is LatentSSVM else int(k) for i, k in enumerate(Y)]
    made = learner(Rows()).fit(X, y)
    assert np.mean(np.array(made.predict(X)) == Y) > 0.8


def test_a_scorer_of_ones_own_answers_yes_and_no() -> None:
    good = np.abs(X[:, 0]) > 0.7
    made = LCLR(Rows(), C=10.0).fit(X, np.where(good, 1, -1))
    assert np.mean((made.decision_function(X) > 0) == good) > 0.8


class Costly(CRF):
    """A CRF for which a missed A is four times as bad."""

    def part_loss(self, batch: Any) -> PartLoss:
        loss = self.parts(batch).hamming(batch.labels)
        factor = np.where(batch.labels[batch.labels >= 0] == 0, 4.0, 1.0)
        owner = loss.parts.instance_of(loss.part)
        constant = np.bincount(owner, factor, minlength=len(batch)).astype(np.float64)
        return replace(loss, value=-factor, constant=constant)


TEXT = [["x", "y"], ["y", "y"], ["x", "x"]]
TAGS = [["A", "B"], ["B", "A"], ["A", "A"]]


@pytest.mark.parametrize("method", ["cutting-plane", "exponentiated-gradient"])
def test_the_objective_is_that_of_the_models_own_loss(method: str) -> None:
    """½ ‖w‖² + C Σ max_h Δ(h) + w · (Φ(h) − Φ(y)) by enumeration, at the optimum and nowhere lower around it."""
    model, settings = Costly(["A", "B"]), {"C": 1.0, "loss": "hinge", "tol": 1e-5, "max_iter": 3000}
    learner = SSVM(model, method=method, **settings).fit(TEXT, TAGS)
    batch = learner.model_.encode(TEXT, TAGS)

    def objective(w: np.ndarray) -> float:
        value = 0.5 * float(w @ w)
        for i in range(3):
            one = batch.instances(i, i + 1)
            gold = learner.model_.phi(one, one.labels)
            outputs = [np.array(h, np.int32) for h in product(range(2), repeat=2)]
            cost = np.where(one.labels == 0, 4.0, 1.0)
            delta = [float(cost @ (h != one.labels)) for h in outputs]
            gap = [((learner.model_.phi(one, h) - gold) @ w).item() for h in outputs]
            value += max(d + g for d, g in zip(delta, gap, strict=True))
        return value

    at = learner.model_.weights_
    assert learner.objective_ == pytest.approx(objective(at), rel=1e-3)
    rng = np.random.default_rng(0)
    assert objective(at) < min(objective(at + 0.02 * rng.normal(size=len(at))) for _ in range(30)) + 1e-3
    assert objective(at) < objective(SSVM(CRF(["A", "B"]), **settings).fit(TEXT, TAGS).model_.weights_) - 0.01


def test_penalties_are_learned_from_the_outputs_given(tmp_path: Any) -> None:
    rules = [(count("A") >= 1).learned().named("an A"), (count("B") <= 0).penalty(2.0).named("no B")]
    learner = SSVM(CRF(), rules).fit(TEXT, TAGS)
    [wanted] = penalty_of(np.array([3.0]), np.array([0.0]))
    assert learner.penalties_ == {"an A": pytest.approx(wanted), "no B": 0.0}
    fixed = SSVM(CRF(), [(count("A") >= 1).penalty(float(wanted)), rules[1]]).fit(TEXT, TAGS)
    np.testing.assert_array_equal(learner.model_.weights_, fixed.model_.weights_)
    np.testing.assert_array_equal(learner.decision_function([["y"]]), fixed.decision_function([["y"]]))
    learner.save(tmp_path / "m.trellis")
    assert SSVM.load(tmp_path / "m.trellis").penalties_ == learner.penalties_
    half = [["A", "B"], ["B", None], None]
    assert LatentSSVM(CRF(["A", "B"]), rules[:1]).fit(TEXT, half).penalties_["an A"] > 0
