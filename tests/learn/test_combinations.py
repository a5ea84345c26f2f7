"""Every learner with every model and kind of constraint: it works, or is refused with a sentence that says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trellis.constraints import arcs, count, few_labels_per, label, previous, root, word
from trellis.errors import ConstraintError, ShardError, TrellisError
from trellis.learn import CCM, GE, UEM, CoDL, MultiView
from trellis.learn.margin import JLIS, LCLR, MIRA, SSVM, LatentSSVM, Perceptron
from trellis.models import CRF, DMV, HMM, ArcParser, MaxEnt, NaiveBayes, SemiCRF
from trellis.models.alignment import AlignmentModel

LABELS = ["D", "N", "V"]
TEXT = [["a", "dog", "runs"], ["the", "dog"], ["a", "cat"], ["dogs", "run"]]
TAGS = [["D", "N", "V"], None, ["D", "N"], None]
ROWS = np.array([[1.0, 0, 2], [0, 1, 1], [1, 1, 0], [0, 2, 1]])
CLASSES = ["D", None, "N", None]
TREES = [[("a", "D"), ("dog", "N"), ("runs", "V")], [("dogs", "N"), ("run", "V")], [("a", "D"), ("cat", "N")]]
HEADS = [[2, 3, 0], None, [2, 0]]
PAIRS = [("a b c", "x y z"), ("a b", "x y"), ("c", "z"), ("b c", "y z")]

MODELS: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "HMM": (lambda: HMM(LABELS, min_count=1), TEXT, TAGS),
    "CRF": (lambda: CRF(LABELS), TEXT, TAGS),
    "SemiCRF": (lambda: SemiCRF(LABELS), TEXT, TAGS),
    "MaxEnt": (lambda: MaxEnt(LABELS), ROWS, CLASSES),
    "NaiveBayes": (lambda: NaiveBayes(LABELS), ROWS, CLASSES),
    "DMV": (DMV, TREES, HEADS),
    "ArcParser": (lambda: ArcParser(bits=8), TREES, HEADS),
    "AlignmentModel": (AlignmentModel, PAIRS, None),
}
LEARNERS: dict[str, Callable[[Any, Any], Any]] = {
    "UEM": lambda m, c: UEM(m, c, max_iter=2, tol=0, random_state=0),
    "UEM, uniform": lambda m, c: UEM(m, c, max_iter=2, tol=0, start="uniform"),
    "UEM, β": lambda m, c: UEM(m, c, beta=0.5, max_iter=2, tol=0, random_state=0),
    "UEM, γ = 0": lambda m, c: UEM(m, c, gamma=0.0, max_iter=2, tol=0, random_state=0),
    "UEM, online": lambda m, c: UEM(m, c, online=2, max_iter=2, tol=0, random_state=0),
    "CoDL": lambda m, c: CoDL(m, c, max_iter=2, random_state=0),
    "CCM": lambda m, c: CCM(m, c, method="pr", max_iter=2, random_state=0),
    "GE": lambda m, c: GE(m, c, max_iter=2),
    "SSVM": lambda m, c: SSVM(m, c, max_iter=2),
    "LatentSSVM": lambda m, c: LatentSSVM(m, c, max_iter=2),
    "LCLR": lambda m, c: LCLR(m, c, max_iter=2),
    "LCLR, model": lambda m, c: LCLR(m, c, max_iter=2, start="model"),
    "JLIS": lambda m, c: JLIS(m, c, max_iter=2),
    "Perceptron": lambda m, c: Perceptron(m, c, max_iter=2),
    "MIRA": lambda m, c: MIRA(m, c, max_iter=2, k_best=2),
    "MultiView": lambda m, c: MultiView([m, m], c, max_iter=2),
}
CONSTRAINTS: dict[str, Callable[[], Any]] = {
    "learned": lambda: [previous("D").implies(label("N")).learned()],
    "words": lambda: [(word == "a").implies(label("D")).penalty(1.0)],
    "few": lambda: [few_labels_per(word, strength=1.0)],
    "arcs": lambda: [(arcs(head=root) >= 1).penalty(1.0)],
}
METHODS = ("predict", "predict_proba", "score", "violations", "decision_function", "best_structures")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("model", MODELS)
def test_it_works_or_is_refused_with_a_sentence(learner: str, model: str) -> None:
    make, X, known = MODELS[model]
    y: Any = [1, -1, 1, -1][: len(X)] if learner.startswith("LCLR") else known
    X = [X, X] if learner == "MultiView" else X
    for constraints in (list, *CONSTRAINTS.values()):
        try:
            made = LEARNERS[learner](make(), constraints())
            made.fit(X) if y is None else made.fit(X, y)
        except TrellisError as refused:
            check_sentence(refused)
            continue
        for name in METHODS:
            try:
                if hasattr(made, name):
                    getattr(made, name)(X, y) if name == "score" else getattr(made, name)(X)
            except TrellisError as refused:
                check_sentence(refused)


def check_sentence(error: TrellisError) -> None:
    """A failure of the machinery that is wrapped in an error of ours is no sentence."""
    assert not (isinstance(error, ShardError) and not isinstance(error.__cause__, TrellisError)), error
    assert len(str(error)) > 20, error


@pytest.mark.parametrize("wrong", [previous("A"), label("A"), 3, None, count("A")])
def test_previous_of_anything_but_labels_is_refused(wrong: Any) -> None:
    for atom in (previous, label):
        with pytest.raises(ConstraintError, match="takes names of labels"):
            atom(wrong)
