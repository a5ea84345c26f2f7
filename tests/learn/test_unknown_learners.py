"""Every learner trains and predicts over a structure that src has never heard of: subsets of the elements shown.

Model: a weight for each symbol, score(y) = Σ_{chosen elements} weight of its symbol. Chosen is every "a".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from structures.subsets import Subsets

from tests.learn.test_unknown_structure import SYMBOLS, Choice, HowMany
from trellis import GE, JLIS, LCLR, MIRA, SSVM, CoDL, LatentSSVM, MultiView, Perceptron
from trellis.data.batch import Batch
from trellis.errors import DataError

TEXT = [list("abba"), list("ab"), list("ccab"), list("b"), list("acca"), list("aaab")]
CHOSEN = [[symbol == "a" for symbol in sentence] for sentence in TEXT]


class Linear(Choice):
    """A weight for each symbol."""

    discriminative = True

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> Batch:
        batch = Batch.from_sentences(X, words=SYMBOLS, weights=weights)
        if fit:
            self.reset()
        if y is None:
            return batch
        known = [one for words, own in zip(X, y, strict=True) for one in ([-1] * len(words) if own is None else own)]
        return replace(batch, labels=np.array(known))

    def scores(self, batch: Batch) -> Subsets:
        return Subsets(batch.offsets, self.weights_[batch.column("word").codes], first=batch.first)

    def phi(self, batch: Batch, outputs: Any) -> Any:
        chosen, x = np.flatnonzero(outputs), batch.column("word").codes
        row = np.searchsorted(batch.offsets, chosen, side="right") - 1
        return csr_array((np.ones(len(chosen)), (row, x[chosen])), shape=(len(batch), len(SYMBOLS)))

    def reset(self) -> None:
        self.weights_ = np.zeros(len(SYMBOLS))

    def parameters(self) -> dict[str, np.ndarray]:
        return {"weights": self.weights_}

    def set_parameters(self, parameters: dict[str, Any]) -> None:
        self.weights_ = np.array(parameters["weights"])


class Supervised(Choice):
    """The generative model, with the labels that a batch has."""

    encode = Linear.encode


class Averaged(Subsets):
    """Subsets whose scores have a mean, which agreement of views takes."""

    def mean(self, other: Any, share: float = 0.5) -> Averaged:
        return Averaged(self.offsets, share * self.value + (1.0 - share) * other.value, first=self.first)


class View(Choice):
    def scores(self, batch: Batch) -> Averaged:
        found = super().scores(batch)
        return Averaged(found.offsets, found.value, first=found.first)


LEARNERS: dict[str, Any] = {
    "perceptron": Perceptron(Linear()),
    "MIRA": MIRA(Linear()),
    "SSVM": SSVM(Linear()),
    "subgradient": SSVM(Linear(), method="subgradient"),
    "latent SSVM": LatentSSVM(Linear()),
    "J-LIS": JLIS(Linear()),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("constraints", [(), (HowMany(2.0),)], ids=["free", "constrained"])
def test_margins_are_learned_over_an_unknown_structure(name, constraints):
    learner = LEARNERS[name].set_params(constraints=constraints).fit(TEXT[:5], CHOSEN[:5])
    assert learner.predict(TEXT[:5]) == CHOSEN[:5]
    assert sum(learner.predict([TEXT[5]])[0]) == (2 if constraints else 3)


def test_yes_and_no_are_learned_over_an_unknown_structure():
    """Is there a subset that is good? There is where an "a" is."""
    start = Linear()
    start.weights_ = np.ones(len(SYMBOLS))
    answers = [1 if "a" in sentence else -1 for sentence in TEXT]
    learner = LCLR(start, start="model", C=10.0).fit(TEXT, answers)
    assert learner.predict(TEXT).tolist() == answers


def test_constraint_driven_learning_over_an_unknown_structure():
    learner = CoDL(Supervised(), [HowMany(2.0)], max_iter=2).fit(TEXT, [*CHOSEN[:4], None, None])
    found = learner.predict(TEXT)
    assert found[:5] == CHOSEN[:5]
    assert sum(found[5]) == 2


def test_views_agree_over_an_unknown_structure():
    """Two views of the same symbols agree, and each round brings them closer to the text."""
    learner = MultiView([View(), View()], max_iter=6, tol=0.0, random_state=0).fit([TEXT, TEXT])
    objective = np.array(learner.history_.objective)
    assert np.all(np.diff(objective) >= -1e-6)
    assert objective[-1] > objective[0]
    assert [len(found) for found in learner.predict([TEXT, TEXT])] == [len(sentence) for sentence in TEXT]


def test_expectations_need_a_gradient():
    with pytest.raises(DataError, match="GE is for log-linear models"):
        GE(Linear(), [HowMany(2.0)]).fit(TEXT)
