"""A chain over pairs of labels is a second-order chain: against all label sequences written out."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import brentq

from trellis import CRF, HMM, UEM, compile_constraints, project
from trellis.constraints import count
from trellis.constraints.label_pairs import LabelPairs
from trellis.errors import DataError, UnknownNameError

LABELS = ["D", "N", "V"]
TEXT = [["the", "dog", "barks", "loudly"], ["dogs", "bark"], ["yes"]]
PAIRS = LabelPairs(LABELS)


def second_order(model, sentence):
    """All label sequences of a sentence with their scores: weights of two and of three labels in a row."""
    number = model.label_names_.number
    batch = model.encode([sentence])
    node = model.scores(batch).node
    found = []
    for tags in product(LABELS, repeat=len(sentence)):
        states = [number(f"{a}>{b}") for a, b in zip(("", *tags), tags, strict=False)]
        score = model.start_[states[0]] + model.stop_[states[-1]]
        score += sum(node[t, state] for t, state in enumerate(states))
        score += sum(model.edge_[a, b] for a, b in pairwise(states))
        found.append((tags, score))
    return found


@pytest.fixture
def crf():
    model = CRF(PAIRS.names, all_pairs=True)
    model.encode(TEXT, fit=True)
    model.randomize(np.random.default_rng(0))
    return model


def test_the_best_labels_sums_and_marginals_are_those_of_all_sequences(crf):
    batch = crf.encode(TEXT)
    scores = crf.scores(batch)
    q = project(scores, compile_constraints(PAIRS.rules, batch, crf.label_names_, scores.parts)).posterior
    best = PAIRS.decode(crf.infer(TEXT, PAIRS.rules).labels)
    for i, sentence in enumerate(TEXT):
        every = second_order(crf, sentence)
        worth = np.array([score for _, score in every])
        assert q.log_partition[i] == pytest.approx(np.logaddexp.reduce(worth))
        assert tuple(best[i]) == every[int(worth.argmax())][0]
        p = np.exp(worth - np.logaddexp.reduce(worth))
        for t, name in product(range(len(sentence)), LABELS):
            own = [crf.label_names_.number(pair) for pair in PAIRS.of(name)]
            expected = sum(p[k] for k, (tags, _) in enumerate(every) if tags[t] == name)
            assert q.node[batch.offsets[i] + t, own].sum() == pytest.approx(expected)


def test_constraints_on_labels_are_constraints_on_their_pairs(crf):
    """At least 1.5 verbs in expectation, where the projection of all sequences tilts them by exp(λ · verbs)."""
    sentence = TEXT[0]
    batch = crf.encode([sentence])
    scores = crf.scores(batch)
    rules = [*PAIRS.rules, count(*PAIRS.of("V")) >= 2.5]
    rows = compile_constraints(rules, batch, crf.label_names_, scores.parts)
    q = project(scores, rows, tolerance=1e-8).posterior
    every = second_order(crf, sentence)
    verbs = np.array([tags.count("V") for tags, _ in every])
    worth = np.array([score for _, score in every])

    def tilted(dual):
        tilt = worth + dual * verbs
        return np.exp(tilt - np.logaddexp.reduce(tilt))

    assert tilted(0.0) @ verbs < 2.5
    p = tilted(brentq(lambda dual: tilted(dual) @ verbs - 2.5, 0.0, 50.0))
    for t, name in product(range(len(sentence)), LABELS):
        own = [crf.label_names_.number(pair) for pair in PAIRS.of(name)]
        expected = sum(p[k] for k, (tags, _) in enumerate(every) if tags[t] == name)
        assert q.node[t, own].sum() == pytest.approx(expected, abs=1e-5)


def test_a_second_order_hmm_learns_what_the_label_before_the_last_one_says():
    """After "a a" comes b and after "a b" comes a, whatever the words: a first-order chain cannot know."""
    y = [list("AABAABAAB"), list("ABAABAABA")]
    X = [["w"] * 9] * 2
    pairs = LabelPairs(["A", "B"], seen=y)
    assert pairs.names == [">A", "A>A", "A>B", "B>A"]
    known = [None] * 6
    partly = [[*pairs.encode([tags])[0][:3], *known] for tags in y]
    model = UEM(HMM(pairs.names, min_count=1, unknown=None), pairs.rules, start="labelled", max_iter=3, tol=0.0)
    model.fit([*X, *X], [*pairs.encode(y), *partly])
    first = HMM(["A", "B"], min_count=1, unknown=None).fit(X, y)
    assert pairs.decode(model.predict(X))[0] != first.predict(X)[0]
    assert pairs.decode(model.predict(X))[0] in y


def test_labels_become_pairs_and_come_back():
    y = [["D", "N", "V"], ["N"], []]
    assert PAIRS.decode(PAIRS.encode(y)) == y
    assert PAIRS.encode([]) == []
    assert LabelPairs(LABELS, seen=y).names == [">D", ">N", "D>N", "N>V"]
    with pytest.raises(DataError, match="stands between"):
        LabelPairs(["A>B"])
    with pytest.raises(DataError, match="no labels"):
        LabelPairs(["A"], seen=[[]])
    with pytest.raises(UnknownNameError):
        PAIRS.encode([["X"]])
    with pytest.raises(UnknownNameError):
        PAIRS.of("X")
