"""LCLR, J-LIS and latent SVMs: objectives that never rise, against programs that are written out, special cases."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.constraints import count, dictionary
from trellis.engine import SerialEngine
from trellis.errors import DataError
from trellis.learn.margin import JLIS, LCLR, SSVM, LatentSSVM, random_pairs, shuffled
from trellis.learn.margin.cutting_plane import CuttingPlane, Examples, Weights
from trellis.learn.margin.group import Group
from trellis.models import CRF, MaxEnt

from ..corpora import LABELS, WORDS, tagged_sentences
from .oracle import Oracle, least

TEXT, TAGS = tagged_sentences(60, seed=3)
GOOD = [sentence for sentence in TEXT if len(set(sentence)) > 1]
BAD = shuffled(GOOD, random_state=0)
ASKED = (GOOD + BAD, [1] * len(GOOD) + [-1] * len(BAD))


def crf() -> CRF:
    return CRF(LABELS, all_pairs=True)


def falls(learner) -> bool:
    """Whether the objective falls, or stays, from round to round: no tolerance, since w_t itself is an answer."""
    return bool(np.all(np.diff(learner.history_.objective) >= 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("inner_tol", [0.3, 1e-3])
def test_the_objective_of_jlis_never_rises_however_early_rounds_are_stopped(loss, inner_tol):
    learner = JLIS(crf(), loss=loss, inner_tol=inner_tol, inner_iter=8, max_iter=8, tol=0.0)
    learner.fit(TEXT[:4], TAGS[:4], binary=ASKED)
    assert len(learner.history_) >= 2
    assert falls(learner)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_objective_of_lclr_never_rises(loss):
    """A dictionary of all words but one tells labels apart: without it w = 0, where all are alike, is a way to stay."""
    rules = [dictionary({w: [tag] for tag in LABELS for w in WORDS[tag] if w != "walk"})]
    learner = LCLR(crf(), rules, C=2.0, loss=loss, random_ties=True, max_iter=40).fit(*ASKED)
    assert len(learner.history_) >= 2
    assert falls(learner)
    assert learner.score(*ASKED) > 0.8


def value_of(learner, S=(), B=(), C=1.0, power=2) -> float:
    """Q(w) from the learner's own scores of every output, by enumeration with the oracle's loss."""
    oracle = Oracle(LABELS)
    model = learner.model_

    def score(words, tags):
        batch = model.encode([words], [list(tags)])
        return float(model.scores(batch).score(batch.labels)[0])

    total = 0.5 * float(model.weights_ @ model.weights_) + 0.5 * learner.bias_**2
    for words, tags in S:
        hamming = [sum(a != b for a, b in zip(tags, y, strict=True)) + score(words, y) for y in oracle.outputs(words)]
        total += C * max(0.0, max(hamming) - score(words, tags)) ** power
    for words, z in B:
        best = max(score(words, y) for y in oracle.outputs(words))
        total += C * max(0.0, 1.0 - z * (best / max(len(words), 1) + learner.bias_)) ** power
    return total


def test_the_objective_told_is_that_of_the_equation():
    short = [x for x in GOOD if len(x) <= 3][:4]
    B = list(zip(short + [x[::-1] for x in short], [1] * 4 + [-1] * 4, strict=True))
    S = [(x, y) for x, y in zip(TEXT, TAGS, strict=True) if len(x) <= 3][:3]
    learner = JLIS(crf(), max_iter=3, inner_tol=1e-3, tol=1e-3)
    learner.fit([x for x, _ in S], [y for _, y in S], binary=([x for x, _ in B], [z for _, z in B]))
    assert -learner.objective_ == pytest.approx(value_of(learner, S, B), rel=1e-9)


@pytest.mark.parametrize("power", [1, 2])
def test_the_convex_problem_with_positive_structures_held_is_solved(power):
    """Given outputs, negative examples searched, positive ones held, a soft rule: all in one program (eq. 6.8)."""

    def price(words, tags):
        return 0.4 * max(0, 1 - sum(t == "V" for t in tags))

    words = [["the", "dog"], ["a", "dog", "runs"], ["runs", "a"], ["dog", "the", "runs"], ["the", "runs"], ["a", "dog"]]
    tags = [["D", "N"], ["D", "N", "V"]]
    oracle = Oracle(LABELS, price)
    oracle.learn_space(words)
    model = crf()
    batch = model.encode(words, [*tags, None, None, None, None], fit=True)
    rules = [(count("V") >= 1).penalty(0.4)]
    groups = [Group(model, batch, np.array(n), rules, SerialEngine()) for n in ([0, 1], [2, 3], [4, 5])]
    weights = Weights(model)
    solver = CuttingPlane(weights, Examples(*groups), C=0.8, C_binary=1.5, power=power, tol=1e-6)
    solver.give(*groups[0].given())
    held = groups[2].search()
    solver.hold(2, held)
    solver.solve(300, np.random.default_rng(0))
    chosen = model.decode(groups[2].batch, groups[2].outputs()[0])  # w was 0 when they were held
    model.reset()
    chosen = model.decode(groups[2].batch, groups[2].outputs()[0])
    cuts = [(0.8, oracle.cuts(x, y)) for x, y in zip(words[:2], tags, strict=True)]
    cuts += [(1.5, oracle.answers(x, -1)) for x in words[2:4]]
    for x, y in zip(words[4:], chosen, strict=True):
        place = [list(o) for o in oracle.outputs(x)].index(list(y))
        cuts.append((1.5, [oracle.answers(x, 1)[place]]))
    n = len(oracle.number) + 1
    wide = [
        (c, [(f if len(f) == n else np.append(f, 0.0), b) for f, b in some]) for c, some in cuts
    ]  # given outputs have no dummy feature
    assert solver.best == pytest.approx(least(wide, power)[0], rel=2e-6)


def test_without_answers_jlis_is_an_ssvm():
    joint = JLIS(crf(), C=0.5, inner_tol=0.02).fit(TEXT[:20], TAGS[:20])
    alone = SSVM(crf(), C=0.5, tol=0.02).fit(TEXT[:20], TAGS[:20])
    np.testing.assert_array_equal(joint.model_.weights_, alone.model_.weights_)
    assert joint.bias_ == 0.0


def test_negative_answers_alone_are_a_convex_program_in_which_numbers_weigh():
    """No structure is held, so that one round reaches the optimum; an answer of −0.5 counts half."""
    words = [["the", "dog"], ["a", "dog", "runs"], ["runs", "a"], ["dog", "the", "runs"], ["the", "runs"], ["a", "dog"]]
    tags, z = [["D", "N"], ["D", "N", "V"]], [-1.0, -0.5, -0.25, -1.0]
    learner = JLIS(crf(), C=0.8, C_binary=1.5, inner_tol=1e-6, inner_iter=300).fit(
        words[:2], tags, binary=(words[2:], z)
    )
    oracle = Oracle(LABELS)
    oracle.learn_space(words)
    cuts = [(0.8, oracle.cuts(x, y)) for x, y in zip(words[:2], tags, strict=True)]
    cuts += [(1.5 * abs(own), oracle.answers(x, -1)) for x, own in zip(words[2:], z, strict=True)]
    n = len(oracle.number) + 1
    wide = [(c, [(f if len(f) == n else np.append(f, 0.0), b) for f, b in some]) for c, some in cuts]
    assert -learner.objective_ == pytest.approx(least(wide, 2)[0], rel=1e-5)


@pytest.mark.parametrize("random_ties", [False, True])
def test_without_outputs_jlis_is_lclr(random_ties):
    settings = {"random_ties": random_ties, "max_iter": 4, "tol": 1e-3}
    joint = JLIS(crf(), C_binary=2.0, **settings).fit(binary=ASKED)
    alone = LCLR(crf(), C=2.0, **settings).fit(*ASKED)
    np.testing.assert_array_equal(joint.model_.weights_, alone.model_.weights_)
    np.testing.assert_array_equal(joint.decision_function(GOOD), alone.decision_function(GOOD))


def test_the_best_restart_is_kept():
    one = [
        LCLR(crf(), random_ties=True, max_iter=3, tol=1e-3, random_state=0, n_init=n).fit(*ASKED).objective_
        for n in (1, 4)
    ]
    assert one[1] >= one[0]
    with pytest.raises(DataError, match="random_ties"):
        LCLR(crf(), n_init=2).fit(*ASKED)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:stopped after max_iter")  # algorithm 12 need not settle
def test_approximate_and_two_stages_hold_structures():
    """Two stages: structures of the heuristic in training and prediction, a plain SVM over their features."""
    model = crf()
    model.encode(GOOD + BAD, fit=True)
    rng = np.random.default_rng(0)
    model.set_parameters({"weights": rng.standard_normal(len(model.weights_))})
    learner = LCLR(model, method="two-stage", start="model", C=1.0, inner_tol=1e-6, inner_iter=500).fit(*ASKED)
    batch = model.encode(GOOD + BAD)
    outputs = model.scores(batch).argmax().outputs
    rows = model.phi(batch, outputs).toarray() / batch.lengths[:, None]
    z = np.array(ASKED[1], float)
    cuts = [(1.0, [(s * np.append(row, 1.0), 1.0)]) for row, s in zip(rows, z, strict=True)]
    _, w = least(cuts, 2)
    np.testing.assert_allclose(learner.decision_function(GOOD + BAD), rows @ w[:-1] + w[-1], atol=2e-3)
    joint = LCLR(model, start="model", C=1.0, max_iter=20).fit(*ASKED)
    approximate = LCLR(model, method="approximate", start="model", C=1.0, max_iter=20).fit(*ASKED)
    assert falls(joint)
    assert -joint.objective_ < -approximate.objective_
    assert learner.best_structures(GOOD[:2]) == model.predict(GOOD[:2])


def test_rows_of_a_table_are_asked_about_as_well():
    """Document classification (sec. 6.4.4): B+ belongs to one of the classes, B− to none."""
    rng = np.random.default_rng(0)
    centre = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    rows, labels = centre[np.arange(40) % 2] + rng.standard_normal((40, 3)), np.arange(40) % 2
    others = np.array([0.0, 0.0, 3.0]) + rng.standard_normal((20, 3))
    asked = (np.concatenate([rows[4:], others]), [1] * 36 + [-1] * 20)
    learner = JLIS(MaxEnt(fit_intercept=False)).fit(rows[:4], labels[:4], binary=asked)
    assert falls(learner)
    assert learner.score(rows, labels) >= 0.9
    assert np.mean(np.sign(learner.decision_function(asked[0])) == asked[1]) > 0.9


def test_a_latent_svm_lowers_its_objective_and_with_all_labels_is_an_ssvm():
    some = [[t if (i + j) % 3 else None for j, t in enumerate(tags)] for i, tags in enumerate(TAGS)]
    learner = LatentSSVM(crf(), C=0.3, max_iter=15).fit(TEXT, some)
    assert falls(learner)
    assert learner.score(TEXT, TAGS) > 0.9
    full = LatentSSVM(crf(), C=0.3, inner_tol=1e-3).fit(TEXT[:15], TAGS[:15])
    alone = SSVM(crf(), C=0.3, loss="hinge", tol=1e-3).fit(TEXT[:15], TAGS[:15])
    np.testing.assert_array_equal(full.model_.weights_, alone.model_.weights_)


def test_mistakes_are_told_of():
    with pytest.raises(DataError, match="all 2 answers are"):
        LCLR(crf()).fit(GOOD[:2], [1, 1])
    with pytest.raises(DataError, match="answer 1 is"):
        LCLR(crf()).fit(GOOD[:2], [1, 7])
    with pytest.raises(DataError, match="expected an answer for each of 2"):
        LCLR(crf()).fit(GOOD[:2], [1])
    with pytest.raises(DataError, match="binary"):
        JLIS(crf()).fit(GOOD[:2], binary=ASKED)
    with pytest.raises(DataError, match="start='model'"):
        LCLR(crf(), method="two-stage").fit(*ASKED)


def test_negatives_are_not_what_they_were_made_from():
    assert all(sorted(a) == sorted(b) and a != b for a, b in zip(GOOD, BAD, strict=True))
    assert len(shuffled(GOOD, per_sentence=4, random_state=0)) == 4 * len(GOOD)
    pairs = [(a, a.upper()) for a in "abcdef"]
    made = random_pairs(pairs, 30, random_state=0)
    assert len(set(made)) == 30
    assert not set(made) & set(pairs)
    with pytest.raises(DataError, match="only 30"):
        random_pairs(pairs, 31)
