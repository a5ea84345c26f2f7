"""The models that an extractor can have, what they see of tokens, and what they learn from unlabelled text."""

from __future__ import annotations

import numpy as np
import pytest

from tests.extract.samples import citations, rules_of
from tests.extract.test_extractor import bare
from trellis.apps.extract.extractor import Extractor
from trellis.apps.extract.features import TokenFeatures
from trellis.errors import ModelFileError, UnknownNameError
from trellis.models import CRF, load_model

FEW, MANY, TEST = citations(8, 1), bare(citations(40, 2)), citations(20, 3)


def vowels(sentence, at):
    return {"vowels": sum(letter in "aeiou" for letter in sentence[at]["word"]) > 1}


@pytest.fixture(scope="module")
def made():
    return Extractor(rules_of("citations"), max_iter=2).fit(FEW, unlabelled=MANY)


def test_the_default_is_one_crf_and_beats_labels_alone(made):
    assert type(made.ccm_.model_) is CRF
    alone = Extractor(rules_of("citations"), method="supervised").fit(FEW, unlabelled=MANY)
    assert made.score(TEST) > alone.score(TEST)
    assert made.score(TEST) > 0.85


def test_labels_that_no_labelled_text_shows_are_learned_from_unlabelled_text():
    few = [t for t in citations(40, 5) if "BOOKTITLE" not in t.labels][:5]
    made = Extractor(rules_of("citations")).fit(few, unlabelled=bare(citations(100, 6)))
    gold = [t for t in TEST if "BOOKTITLE" in t.labels]
    found = [label for labels in made.predict(gold) for label in labels]
    right = [g == f for g, f in zip((g for t in gold for g in t.labels), found, strict=True) if g == "BOOKTITLE"]
    assert np.mean(right) > 0.5


@pytest.mark.parametrize("features", [None, vowels])
def test_a_file_holds_the_model(features, tmp_path):
    made = Extractor(rules_of("citations"), method="supervised", features=features).fit(FEW)
    made.save(tmp_path / "m")
    assert load_model(tmp_path / "m", features=features).predict(TEST) == made.predict(TEST)
    if features is not None:
        with pytest.raises(ModelFileError, match=r"features=\.\.\."):
            load_model(tmp_path / "m")


def test_known_labels_of_a_text_that_is_labelled_in_part_are_taught(monkeypatch):
    holes = [None if i % 2 else label for i, label in enumerate(TEST[0].labels)]
    taught = []
    fit = CRF.fit

    def seen(self, corpus, **more):
        if len(corpus.batch) > len(FEW):
            taught.append([corpus.label_names[code] for code in corpus.batch.instances(len(FEW), len(FEW) + 1).labels])
        return fit(self, corpus, **more)

    monkeypatch.setattr(CRF, "fit", seen)
    part = [list(t.labels) for t in FEW] + [holes]
    Extractor(rules_of("citations"), max_iter=1).fit([t.tokens for t in (*FEW, TEST[0])], part)
    assert len(taught[-1]) == len(holes)
    assert all(a is None or a == b for a, b in zip(holes, taught[-1], strict=True))


def test_features_of_ones_own_stand_beside_the_ready_ones():
    found = TokenFeatures(vowels)([{"word": "Queue"}, {"word": "by"}], 0)
    assert "own vowels" in found
    assert {"word+0=queue", "word+1=by", "ends=ue", "from start=0", "from end=1"} <= set(found)
    assert "own vowels" not in TokenFeatures(vowels)([{"word": "by"}], 0)


def test_features_of_ones_own_keep_their_values():
    found = TokenFeatures(lambda sentence, at: {"size": 0.25, "none": 0.0})([{"word": "ab"}], 0)
    assert found["own size"] == 0.25
    assert "own none" not in found
    usual = TokenFeatures()([{"word": "ab"}], 0)
    assert found == {"own size": 0.25, **{name: usual.count(name) for name in usual}}


def test_a_word_is_known_whatever_marks_stand_around_it():
    found = TokenFeatures()([{"word": "(1998),"}, {"word": "Fast"}], 0)
    assert {"word+0=1998", "form+0=<year>", "marks+0=(_", "marks+0=_),"} <= set(found)
    assert "mark before=," in TokenFeatures()([{"word": "Lee,"}, {"word": "Fast"}], 1)


def test_mistakes_are_named():
    for kind in ("hmmm", "both", "all"):
        with pytest.raises(UnknownNameError, match="hmm"):
            Extractor(rules_of("citations"), model_kind=kind).fit(FEW)
