"""Probabilities of fields: against an enumeration, and what the rules do to them."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from tests.hostile.command import RULES, run
from tests.hostile.command import train as trained
from trellis.apps.extract.confidence import field_probabilities
from trellis.apps.extract.extractor import Extractor
from trellis.data.document import fields_of
from trellis.data.tokens import as_documents
from trellis.metrics.ranking import calibration
from trellis.structures import Chain

FREE = 'labels = ["A", "B", "O"]\n'
WORDS = [["x", "y", "x"], ["y"], ["x", "x", "z", "y"]]
LABELS = [["A", "B", "A"], ["B"], ["A", "A", "O", "B"]]


@pytest.mark.parametrize("kind", ["hmm", "crf"])
def test_a_field_is_as_likely_as_all_outputs_that_have_it_together(kind):
    made = Extractor(FREE, model_kind=kind, method="supervised", emission_prior=1.5, transition_prior=1.5)
    made.fit(as_documents(WORDS, LABELS))
    text = as_documents([["y", "x", "z", "x"]])[0]
    model = made.ccm_.model_
    names = list(made.label_names_)
    outputs = np.array(list(product(range(3), repeat=4)), dtype=np.int32)
    batch = made.batch([text] * len(outputs), labels=False)
    score = model.scores(batch).score(outputs.ravel())
    weight = np.exp(score - score.max())
    weight /= weight.sum()
    for y in outputs[::7]:
        labels = [names[k] for k in y]
        mine = fields_of(text, labels)
        want = [
            sum(w for w, other in zip(weight, outputs, strict=True) if f in fields_of(text, [names[k] for k in other]))
            for f in mine
        ]
        np.testing.assert_allclose(field_probabilities(made, [text], [labels])[0], want, atol=1e-9)


def test_the_fields_of_a_long_text_take_as_much_inference_as_one(monkeypatch):
    made = Extractor(FREE, method="supervised").fit(as_documents(WORDS, LABELS))
    [text], inferred, infer = as_documents([["x", "y"] * 100]), [], Chain.infer

    def counted(self, **asked):
        inferred.append(self.n_slots)
        return infer(self, **asked)

    monkeypatch.setattr(Chain, "infer", counted)
    found = field_probabilities(made, [text], [["A", "B"] * 100])
    assert len(found[0]) == 200
    assert sum(inferred) <= 3 * 200


def test_rules_change_how_sure_it_is():
    rule = FREE + '[[rule]]\nname = "r"\nif_word = "z"\nthen_label = "A"\n'
    made = Extractor(rule, model_kind="hmm", method="supervised").fit(as_documents(WORDS[:2], LABELS[:2]))
    texts = as_documents([["y", "z"]])
    [(_, z)] = field_probabilities(made, texts, [["B", "A"]])
    [(_, alone)] = field_probabilities(made, texts, [["B", "A"]], constrained=False)
    assert z > alone + 0.1
    assert field_probabilities(made, as_documents([""]), [[]]) == [[]]


def test_predict_writes_them(tmp_path, capfd):
    model = trained(tmp_path, RULES)
    (tmp_path / "new.txt").write_text("Eve Poe 1999\n\n")
    capfd.readouterr()
    assert run("extract", "predict", "-m", model, tmp_path / "new.txt", "--json", "-q") == 0
    first, blank = map(json.loads, capfd.readouterr().out.splitlines())
    assert all(0.0 <= field["probability"] <= 1.0 for field in first["fields"])
    assert blank["fields"] == []
    assert run("extract", "predict", "-m", model, tmp_path / "new.txt", "--format", "view", "-q") == 0
    assert " %" in capfd.readouterr().out


def test_what_is_right_as_often_as_it_says_has_no_error():
    assert calibration([0.75] * 4, [True, True, True, False]).error == 0.0
