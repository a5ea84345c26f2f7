"""VoteHMM: its posterior is the enumerated one, its M-step raises the likelihood, its files hold all of it."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from tests.aggregate.corpora import LABELS, drawn
from trellis import UEM, load_model
from trellis.data.document import Document
from trellis.errors import DataError, TrellisError, UnknownNameError
from trellis.models.vote_hmm import VoteHMM

MEANINGS = {label: [label] for label in LABELS} | {"B-*": ["B-DRUG", "B-PAIN"]}
TEXTS, GOLD = drawn(60)


@pytest.fixture
def model():
    made = VoteHMM(LABELS, ["f0", "f1", "f2"], MEANINGS)
    made.begin(made.encode(TEXTS, fit=True))
    made.weight_[:] = [1.0, 0.5, 0.5]
    made.offset_[1::2] = 0.7
    return made


def test_the_posterior_is_the_enumerated_one(model):
    text = Document(("a", "b", "c"), votes={"f0": ("B-DRUG", None, None), "f2": (None, "B-*", None)})
    number = {name: code for code, name in enumerate(model.votes_.names)}
    total = np.zeros((3, 5))
    for labels in product(range(5), repeat=3):
        score = model.start_[labels[0]] * np.prod([model.transition_[a, b] for a, b in pairwise(labels)])
        for t, k in enumerate(labels):
            for j, name in enumerate(model.functions):
                vote = (text.votes.get(name) or (None,) * 3)[t]
                score *= model.emission_[j, 0 if vote is None else number[vote], k] ** model.weight_[j]
            if t < 2:  # nobody votes on the last token
                score *= np.exp(model.offset_[k])
        for t, k in enumerate(labels):
            total[t, k] += score
    np.testing.assert_allclose(model.predict_proba([text])[0], total / total.sum(axis=1, keepdims=True), atol=1e-12)


def test_no_output_has_an_inside_label_that_continues_nothing(model):
    text = Document(("a", "b"), votes={"f0": ("I-DRUG", "I-PAIN")})
    node = model.predict_proba([text])[0]
    assert node[0, LABELS.index("I-DRUG")] == 0.0
    assert model.predict([text])[0][0][0] != "I"


def test_every_round_of_em_raises_the_objective(model):
    learner = UEM(model, start="model", max_iter=15, tol=0).fit(TEXTS)
    values = learner.history_.objective
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(values))


def test_counts_of_an_instance_of_weight_two_are_those_of_the_instance_twice(model):
    once = model.encode([TEXTS[0], TEXTS[0]])
    twice = model.encode([TEXTS[0]], weights=[2.0])
    a, b = (model.collect(x, model.scores(x).infer(weights=x.weights)) for x in (once, twice))
    for name in ("start", "transition", "emission"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=1e-12)


def test_a_file_gives_the_same_bits(model, tmp_path):
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    for a, b in zip(model.predict_proba(TEXTS), again.predict_proba(TEXTS), strict=True):
        assert np.array_equal(a, b)


def test_an_unknown_vote_is_named_with_its_function(model):
    with pytest.raises(UnknownNameError, match="B-DRGU") as error:
        model.encode([Document(("a",), votes={"f1": ("B-DRGU",)}, path="x.jsonl", line=3)])
    assert "x.jsonl" in str(error.value)
    assert "f1" in "".join(error.value.__notes__)


@pytest.mark.parametrize("functions", [["word"], ["f", "f"], []])
def test_functions_have_names_of_their_own(functions):
    with pytest.raises(DataError):
        VoteHMM(LABELS, functions, MEANINGS).encode(TEXTS, fit=True)


def test_what_is_no_text_with_votes_is_refused(model):
    with pytest.raises(TrellisError, match="Document"):
        model.encode([["a", "b"]])
