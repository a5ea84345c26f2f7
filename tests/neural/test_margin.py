"""Margins of networks: the subgradient, enumerated violations, and the optimum of a linear network."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from trellis import JLIS, LCLR, MIRA, SSVM, LatentSSVM, Perceptron  # noqa: E402
from trellis.constraints import compile_constraints, count  # noqa: E402
from trellis.data.batch import Batch  # noqa: E402
from trellis.errors import DataError  # noqa: E402
from trellis.models import CRF, load_model  # noqa: E402
from trellis.neural import BiLSTM, NeuralCRF, NeuralParser  # noqa: E402
from trellis.neural.forms import FORMS  # noqa: E402
from trellis.neural.margin import violation  # noqa: E402
from trellis.search import Plan  # noqa: E402

from .test_crf import LABELS, NAMES, TEXT, OneHot, small  # noqa: E402
from .test_gradients import NAMES as LETTERS  # noqa: E402
from .test_gradients import WEIGHTS, batch_of, every_structure, tensors  # noqa: E402

HEADS = np.array([2, 0, 2, 0, 2, 0, 2, 3], np.int32)
GIVEN = {"chain": np.array([0, 1, 2, 2, 0, 0, 1, 1], np.int32), "categorical": np.array([1, 2, 0, 1], np.int32)}


@every_structure
@pytest.mark.parametrize("power", [1, 2])
def test_the_gradient_of_violations_is_by_finite_differences(structure, power):
    form, offsets, given = FORMS[structure], batch_of(structure).offsets, GIVEN.get(structure, HEADS)
    assert torch.autograd.gradcheck(
        lambda *t: violation(form, offsets, t, given, WEIGHTS, power=power), tensors(structure)
    )


PRICES = {
    "free": ([], lambda y: 0.0),
    "hard": ([count("B") <= 1], lambda y: np.inf if np.sum(y == 1) > 1 else 0.0),
    "paid": ([(count("A") >= 1).penalty(0.7)], lambda y: 0.0 if 0 in y else 0.7),
}


@pytest.mark.parametrize("kind", list(PRICES))
def test_a_violation_is_the_enumerated_one(kind):
    rules, price = PRICES[kind]
    batch, scores, given = Batch.from_sentences([["w"] * 3]), tensors("chain"), np.array([1, 2, 2], np.int32)
    own = [scores[0].detach()[:3], *(one.detach() for one in scores[1:])]
    structure = FORMS["chain"].structure(batch.offsets, [one.numpy() for one in own])
    rows = compile_constraints(rules, batch, LETTERS, structure.parts).canonical()
    every = [np.array(y, np.int32) for y in product(range(3), repeat=3)]
    value = [structure.score(y)[0] + np.sum(y != given) - price(y) for y in every]
    expected = max(max(value) - structure.score(given)[0] + price(given), 0.0)
    plan = Plan.of(rows) if rules else None
    found = violation(FORMS["chain"], batch.offsets, own, given, np.ones(1), plan=plan, paid=price(given))
    assert found.item() == pytest.approx(expected, abs=1e-9)
    assert expected > 0.0


def primal(learner, power):
    """½ ‖w‖² + C Σ ℓ(violation), searched for by the structure's own argmax."""
    model, weights = learner.model_, learner.model_.weights_
    batch = model.encode(TEXT, LABELS)
    scores = model.scores(batch)
    loss = scores.parts.hamming(batch.labels)
    rival = loss.add_to(scores).argmax().outputs
    over = np.maximum(scores.score(rival) + loss.of(rival) - scores.score(batch.labels), 0.0)
    return 0.5 * weights @ weights + learner.C * np.sum(over**power)


@pytest.mark.parametrize("loss, power", [("hinge", 1), ("squared_hinge", 2)])
def test_a_linear_network_comes_near_the_optimum_of_cutting_planes(loss, power):
    crf = SSVM(CRF(NAMES, all_pairs=True), C=0.5, loss=loss, tol=1e-6, max_iter=500).fit(TEXT, LABELS)
    linear = NeuralCRF(OneHot(), NAMES, weight_decay=0.0, learning_rate=0.02, batch_size=2)
    ours = SSVM(linear, C=0.5, loss=loss, method="subgradient", max_iter=120).fit(TEXT, LABELS)
    assert primal(ours, power) == pytest.approx(primal(crf, power), rel=0.02)


def test_margins_of_networks_under_rules_are_learned_and_saved(tmp_path):
    learner = SSVM(small(), [count("V") >= 1], C=10.0, method="subgradient", max_iter=15).fit(TEXT, LABELS)
    assert learner.predict([["the", "cat", "sleeps"], ["dog"]]) == [["D", "N", "V"], ["V"]]
    learner.save(tmp_path / "svm")
    assert load_model(tmp_path / "svm").predict(TEXT) == learner.predict(TEXT)
    again = SSVM(small(), [count("V") >= 1], C=10.0, method="subgradient", max_iter=15).fit(TEXT, LABELS)
    np.testing.assert_array_equal(again.model_.weights_, learner.model_.weights_)


def test_margins_of_trees():
    encoder = BiLSTM(word_size=8, char_size=0, hidden=8, layers=1, min_count=1, dropout=0.0, word_dropout=0.0)
    parser = NeuralParser(encoder, arc_size=8, relation_size=4, learning_rate=0.03, dropout=0.0)
    tagged = [[(word, tag) for word, tag in zip(*own, strict=True)] for own in zip(TEXT, LABELS, strict=True)]
    heads = [[2, 3, 0], [2, 3, 0], [2, 3, 0], [2, 3, 0], [2, 0], [0]]
    learner = SSVM(parser, C=10.0, method="subgradient", max_iter=60).fit(tagged, heads)
    assert learner.predict(tagged) == heads


def test_methods_that_need_features_refuse_networks():
    with pytest.raises(DataError, match="trained by method 'subgradient'"):
        SSVM(small()).fit(TEXT, LABELS)
    for learner in (MIRA(small()), Perceptron(small()), LatentSSVM(small()), LCLR(small()), JLIS(small())):
        with pytest.raises(DataError, match=r"is a network: use SSVM\(model, method='subgradient'\)"):
            learner.fit(TEXT, [1, -1] * (len(TEXT) // 2) if isinstance(learner, LCLR) else LABELS)
