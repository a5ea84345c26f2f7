from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import HMM, UEM, DataError, Document, Relation, Span
from trellis.data.records import document_record
from trellis.data.tokens import Tokeniser, as_documents

TEXTS = ["a\u0301 b", "👩‍👩‍👧 and 🇳🇱", "שלום עולם", "a  b\t c", "مرحبا 12", "e\u0301e e\u0301"]


@given(st.lists(st.sampled_from(TEXTS) | st.text(min_size=1), max_size=5), st.text(" \t\u00a0", min_size=1))
def test_tokens_are_pieces_of_the_text_in_order(tokens, gap):
    document = Document(tuple(tokens), text=gap.join(tokens) if tokens else "")
    assert [document.text[start:end] for start, end in document.offsets] == tokens
    assert all(a[1] <= b[0] for a, b in zip(document.offsets, document.offsets[1:], strict=False))


def test_a_span_knows_its_characters_and_text():
    document = Document(("Ann", "Lee", "left"), text="Ann \n Lee left", spans=[Span("NAME", 0, 2, probability=0.5)])
    [span] = document.spans
    assert (span.text, span.start, span.end, span.probability) == ("Ann \n Lee", 0, 9, 0.5)
    assert replace(document, labels=("A", "A", "O")).spans == (span,)
    assert document == pickle.loads(pickle.dumps(document))


def test_layers_must_fit_the_tokens():
    for layers, message in (
        ({"labels": ("A",)}, "found 2 tokens but 1 labels"),
        ({"votes": {"f": ("A",)}}, "1 votes of function 'f'"),
        ({"columns": {"pos": ()}}, "0 entries in column 'pos'"),
        ({"probabilities": (1.0,)}, "1 probabilities"),
        ({"spans": [Span("A", 1, 3)]}, "span 0 covers tokens 1..2"),
        ({"relations": [Relation(0, 1, "R")]}, "there are 0 spans"),
        ({"text": "b a"}, "token 'b' is not in the text in its order"),
    ):
        with pytest.raises(DataError, match=message):
            Document(("a", "b"), **layers)
    spans = [Span("A", 0, 1), Span("B", 0, 2)]
    with pytest.raises(DataError, match="twice"):
        Document(("a", "b"), spans=spans, relations=[Relation(0, 1, "R"), Relation(0, 1, "R")])


def test_documents_are_sentences_of_sequence_models():
    text = [["a", "b"], ["b"]]
    documents = [Document(tuple(words)) for words in text]
    one, other = (UEM(HMM(2, min_count=1), max_iter=2, tol=0, random_state=0).fit(X) for X in (text, documents))
    assert one.predict(text) == other.predict(documents)


def test_documents_are_texts_wherever_texts_are_taken():
    document = Document(["Ann", "left"], ["NAME", None])
    assert as_documents([document]) == [document]
    assert document.heads is None
    assert Document(("a", "b"), columns={"head": ("_", "1")}).heads == (None, 1)


def test_layers_are_kept_as_tuples_whatever_they_are_given_in():
    given = Document(["a"], ["X"], {"pos": ["N"]}, probabilities=[1], votes={"f": [None]})
    assert given == Document(("a",), ("X",), {"pos": ("N",)}, probabilities=(1.0,), votes={"f": (None,)})
    array = Document(np.array(["a"]), np.array(["X"]), probabilities=np.array([1.0], np.float32))
    assert array.tokens == ("a",)
    assert json.loads(json.dumps(array.probabilities)) == [1.0]
    assert json.dumps(document_record(Document(("a", "b"), spans=[Span("X", np.int64(0), np.int64(1))])))


@pytest.mark.parametrize("layer", ["labels", "columns", "votes"])
def test_a_string_is_no_list_of_one_letter(layer):
    with pytest.raises(DataError, match="must be a list with a string for each token"):
        Document(("a",), **{layer: "X" if layer == "labels" else {"f": "X"}})


@pytest.mark.parametrize("kind", [{"kind": "treebank"}, {"kind": "pattern"}, {"kind": "words", "pattern": "a"}])
def test_tokenisers_that_do_not_exist_are_refused(kind):
    with pytest.raises(DataError):
        Tokeniser(**kind)
