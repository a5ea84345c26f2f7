"""The models an extractor can have: the product is what it says, files hold all of them, features are extended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.extract.samples import citations, rules_of
from tests.extract.test_extractor import bare
from trellis.errors import DataError, ModelFileError, UnknownNameError
from trellis.models import load_model
from trellis.models.views import Views
from trellis.tasks import extract
from trellis.tasks.extract import Extractor
from trellis.tasks.token_features import TokenFeatures

FEW, MANY, TEST = citations(8, 1), bare(citations(40, 2)), citations(20, 3)


def vowels(sentence, at):
    return {"vowels": sum(letter in "aeiou" for letter in sentence[at]["word"]) > 1}


@pytest.fixture(scope="module")
def both():
    return Extractor(rules_of("citations"), max_iter=2, model_kind="both").fit(FEW, unlabelled=MANY)


@pytest.mark.slow
def test_all_adds_the_scores_of_an_hmm_and_of_two_models_that_it_taught(both):
    made = Extractor(rules_of("citations"), max_iter=2, model_kind="all").fit(FEW, unlabelled=MANY)
    semi, crf, hmm = made.ccm_.model_.members
    batch = made.batch(TEST, labels=False)
    codes = made.decode(TEST, constrained=False).labels
    together, plain = made.ccm_.model_.scores(batch).score(codes), codes % len(made.label_names_)
    own = semi.scores(batch.members[0]).score(codes)
    own = own + crf.scores(batch.members[1]).score(plain) + hmm.scores(batch.members[2]).score(plain)
    np.testing.assert_allclose(together, own)
    assert made.score(TEST) > both.score(TEST) - 0.01
    # long texts are for the two that have a beam
    with pytest.MonkeyPatch.context() as patch:
        size = len(made.label_names_) ** 2
        patch.setattr(extract, "LARGEST_PROGRAM", size * int(np.median([len(t) for t in TEST])))
        mixed = made.decode(TEST)
        patch.setattr(extract, "LARGEST_PROGRAM", 0)
        short = made.decode(TEST).labels
    whole = made.decode(TEST)
    cuts = np.cumsum([len(t) for t in TEST])[:-1]
    for text, *own in zip(TEST, *(np.split(y, cuts) for y in (mixed.labels, whole.labels, short)), strict=True):
        np.testing.assert_array_equal(own[0], own[1 + (len(text) > np.median([len(t) for t in TEST]))])
    assert mixed.violations.n_slots == whole.violations.n_slots
    made.ccm_.model_ = Views([crf, hmm])
    assert made.ccm_.decode(made.batch(TEST, labels=False)).labels.tolist() == short.tolist()


def test_both_adds_the_scores_of_an_hmm_and_of_a_crf_that_it_taught(both):
    crf, hmm = both.ccm_.model_.members
    batch = both.batch(TEST, labels=False)
    labels = both.decode(TEST, constrained=False).labels
    together = both.ccm_.model_.scores(batch).score(labels)
    own = crf.scores(batch.members[0]).score(labels) + hmm.scores(batch.members[1]).score(labels)
    np.testing.assert_allclose(together, own)
    assert len(crf.feature_names_) > 500


def test_both_is_no_worse_than_the_hmm_that_taught_it(both):
    alone = Extractor(rules_of("citations"), max_iter=2, model_kind="hmm").fit(FEW, unlabelled=MANY)
    assert both.score(TEST) > alone.score(TEST) - 0.01
    assert both.score(TEST) > 0.85


@pytest.mark.parametrize("kind", ["both", "crf"])
def test_a_file_holds_every_model(kind, both, tmp_path):
    made = both
    if kind == "crf":
        made = Extractor(rules_of("citations"), method="supervised", model_kind="crf", features=vowels).fit(FEW)
    made.save(tmp_path / "m")
    again = load_model(tmp_path / "m", **({"features": vowels} if kind == "crf" else {}))
    assert again.predict(TEST) == made.predict(TEST)
    if kind == "crf":
        with pytest.raises(ModelFileError, match=r"features=\.\.\."):
            load_model(tmp_path / "m")


def test_known_labels_of_a_text_that_is_labelled_in_part_are_taught(monkeypatch):
    holes = [None if i % 2 else label for i, label in enumerate(TEST[0].sentence.labels)]
    taught = []
    whole = Extractor._corpus

    def seen(self, texts, **more):
        taught.extend(t.sentence.labels for t in texts if t.sentence.words == TEST[0].sentence.words)
        return whole(self, texts, **more)

    monkeypatch.setattr(Extractor, "_corpus", seen)
    part = [list(t.sentence.labels) for t in FEW] + [holes]
    Extractor(rules_of("citations"), max_iter=1).fit([t.sentence.words for t in (*FEW, TEST[0])], part)
    assert None not in taught[-1]
    assert all(a is None or a == b for a, b in zip(holes, taught[-1], strict=True))


def test_features_of_ones_own_stand_beside_the_ready_ones():
    found = TokenFeatures(vowels)([{"word": "Queue"}, {"word": "by"}], 0)
    assert "own vowels" in found
    assert {"word+0=queue", "word+1=by", "ends=ue", "from start=0", "from end=1"} <= set(found)
    assert "own vowels" not in TokenFeatures(vowels)([{"word": "by"}], 0)


def test_mistakes_are_named(tmp_path):
    with pytest.raises(UnknownNameError, match="hmm"):
        Extractor(rules_of("citations"), model_kind="hmmm").fit(FEW)
    with pytest.raises(DataError, match="anew"):
        Extractor(rules_of("citations")).restore({"model": {}}, {})


def test_whole_fields_are_learned_too_where_there_are_many_labels(monkeypatch, tmp_path):
    monkeypatch.setattr("trellis.tasks.extract.MANY", len(FEW))
    made = Extractor(rules_of("citations"), method="supervised").fit(FEW)
    assert made.kind_ == "all"
    made.save(tmp_path / "m")
    assert Extractor.load(tmp_path / "m").kind_ == "all"
    assert Extractor(rules_of("citations"), method="supervised").fit(FEW[1:]).kind_ == "both"


def test_long_texts_of_an_hmm_that_had_nothing_to_teach(monkeypatch):
    monkeypatch.setattr(extract, "LARGEST_PROGRAM", 0)
    partly = [replace(text, sentence=replace(text.sentence, labels=(None, *text.sentence.labels[1:]))) for text in FEW]
    made = Extractor(rules_of("citations"), model_kind="all", method="supervised", hard=True).fit(partly)
    assert [len(labels) for labels in made.predict(TEST)] == [len(text) for text in TEST]
