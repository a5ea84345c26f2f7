"""Texts reach an extractor as strings, tokens, sentences or texts: every method treats them alike."""

import numpy as np
import pytest

from trellis import DataError, Extractor, Span
from trellis.apps.extract.confidence import field_probabilities
from trellis.apps.extract.explain import explain, utility
from trellis.apps.extract.relaxed import predict_relaxed
from trellis.data.document import Document
from trellis.data.tokens import tokenise

RULES = """
labels = ["AUTHOR", "TITLE", "DATE"]
[[rule]]
name = "years"
if_word_matches = '^(19|20)\\d\\d$'
then_label = "DATE"
strength = "hard"
"""
FEW = ["Ann Lee . Old roses . 2001 .", "Cy Fox . Trees . 1987 ."]
LABELS = [["AUTHOR"] * 3 + ["TITLE"] * 3 + ["DATE"] * 2, ["AUTHOR"] * 3 + ["TITLE"] * 2 + ["DATE"] * 2]
NEW = ["Ann Lee . Old roses . 2001 .", "Bo Day . Walls . 1999 .", "", "Cy Day . Old trees ."]
FORMS = {
    "tokens": lambda texts: [text.split() for text in texts],
    "tuples": lambda texts: [tuple(text.split()) for text in texts],
    "arrays of tokens": lambda texts: [np.array(text.split(), dtype=object) for text in texts],
    "an array of strings": lambda texts: np.array(texts, dtype=object),
    "texts": lambda texts: [tokenise(text) for text in texts],
    "sentences": lambda texts: [Document(tuple(text.split())) for text in texts],
    "an iterator": iter,
    "a mixture": lambda texts: [text if i % 2 else text.split() for i, text in enumerate(texts)],
}


@pytest.fixture(scope="module", params=["hmm", "crf", "semi-crf"])
def extractor(request):
    return Extractor(RULES, max_iter=1, model_kind=request.param).fit(FEW, LABELS)


def test_each_string_gets_the_labels_of_its_own_tokens(extractor):
    found = extractor.predict(NEW)
    assert [len(labels) for labels in found] == [8, 7, 0, 6]
    assert found == [extractor.predict([text])[0] for text in NEW]


@pytest.mark.parametrize("form", FORMS)
def test_the_form_of_the_texts_changes_nothing(extractor, form):
    make = FORMS[form]
    assert extractor.predict(make(NEW)) == extractor.predict(NEW)
    assert extractor.infer(make(NEW)).outputs.tolist() == extractor.infer(NEW).outputs.tolist()
    plain = [[(f.label, f.first, f.last) for f in own.spans] for own in extractor.extract(NEW)]
    assert [[(f.label, f.first, f.last) for f in own.spans] for own in extractor.extract(make(NEW))] == plain
    assert extractor.score(make(FEW), LABELS) == extractor.score(FEW, LABELS)
    assert len(extractor.batch(make(NEW))) == len(extractor.corpus(make(NEW)).batch) == len(NEW)
    assert predict_relaxed(extractor, make(NEW)).labels == predict_relaxed(extractor, NEW).labels
    assert explain(extractor, make(NEW)) == explain(extractor, NEW)
    labels = extractor.predict(NEW)
    assert field_probabilities(extractor, make(NEW), labels) == field_probabilities(extractor, NEW, labels)


def test_labelled_sentences_are_measured_in_any_form(extractor):
    gold = [Document(tuple(t.split()), tuple(y)) for t, y in zip(FEW, LABELS, strict=True)]
    assert extractor.score(gold) == extractor.score(FEW, LABELS)
    assert utility(extractor, gold) == utility(extractor, extractor.texts(FEW, LABELS))


@pytest.mark.parametrize("texts", [[], [""], ["", ""], (), np.array([], dtype=object)], ids=repr)
def test_no_text_and_empty_texts_have_no_labels(extractor, texts):
    assert extractor.predict(texts) == [[] for _ in texts]
    assert [found.spans for found in extractor.extract(texts)] == [() for _ in texts]


def test_it_learns_from_any_form():
    made = {name: Extractor(RULES, max_iter=1, model_kind="hmm").fit(make(FEW), LABELS) for name, make in FORMS.items()}
    assert all(one.predict(NEW) == made["tokens"].predict(NEW) for one in made.values())


def test_spans_are_labels_where_these_are_not_given():
    words, labels = ["Ann", "Lee", "ran"], ["NAME", "NAME", "O"]
    spanned = Document(tuple(words), spans=[Span("NAME", 0, 2)])
    new = Extractor('labels = ["NAME", "O"]', method="supervised", max_iter=1)
    found = [
        new.fit(*data).infer([["Ann", "ran"]]).marginals[0].tolist() for data in (([spanned],), ([words], [labels]))
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["tokens", "labels"])
def test_a_string_in_the_place_of_a_list_is_refused(name):
    with pytest.raises(DataError, match=f"{name} must be a list with a string for each token, got 'Ann ran'"):
        Document(**{"tokens": ("a",), name: "Ann ran"})
