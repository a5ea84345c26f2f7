"""Documents come back exactly from everything that keeps them: overlapping white space, emoji, combining characters,
right-to-left text (``tests/interop/texts.py``).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.interop.texts import documents, probabilities
from trellis.data.annotations import write_annotations
from trellis.data.bio import everywhere, where_needed
from trellis.data.columns import write_columns
from trellis.data.records import read_documents, write_documents
from trellis.data.tables import write_table
from trellis.data.text_files import read_labelled


def frame(library):
    def back(given, _):
        pytest.importorskip(library, reason=f"{library} is not installed: pip install 'trellis-learn[frames]'")
        from trellis.interop.frames import from_frame, to_frame

        return from_frame(to_frame(given, library))

    return back


def spacy_of(given, folder, binary):
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'trellis-learn[spacy]'")
    from trellis.interop.spacy import from_doc, from_docbin, to_doc, to_docbin

    if not binary:
        vocab = spacy.Vocab()
        made = [to_doc(one, vocab) for one in given]
        assert [doc.text for doc in made] == [one.text for one in given]
        return [from_doc(doc, votes=True) for doc in made]
    to_docbin(given).to_disk(folder / "x.spacy")
    return from_docbin(folder / "x.spacy", votes=True)


def json_lines(given, folder):
    write_documents(folder / "x.jsonl", given)
    return read_documents(folder / "x.jsonl")


WHOLE = {
    "JSON lines": json_lines, "pandas": frame("pandas"), "polars": frame("polars"), "Arrow": frame("pyarrow"),
    "spaCy": lambda given, folder: spacy_of(given, folder, False),
    "DocBin": lambda given, folder: spacy_of(given, folder, True),
}  # fmt: skip


@pytest.mark.parametrize("form", WHOLE)
@given(documents(), documents())
@settings(max_examples=80)
def test_all_layers_come_back(form, tmp_path_factory, one, other):
    found = WHOLE[form]([replace(one, predicted=True), other], tmp_path_factory.getbasetemp())
    assert found == [one, other]
    assert [again.predicted for again in found] == [True, False]
    assert [probabilities(again) for again in found] == [probabilities(one), probabilities(other)]


def table(ending):
    def back(document, folder):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'trellis-learn[frames]'")
        write_table(folder / f"x.{ending}", [document])
        return read_labelled(folder / f"x.{ending}")

    return back


def columns(bio):
    def back(document, folder):
        labels = document.labels and (everywhere(document.labels) if bio else document.labels)
        write_columns(folder / "x.tsv", [replace(document, labels=labels)])
        [again] = read_labelled(folder / "x.tsv")
        return [replace(again, text=document.text, offsets=document.offsets, columns={})]

    return back


@pytest.mark.parametrize("form", {"columns": columns(False), "BIO columns": columns(True), "CSV": table("csv"),
                                  "Parquet": table("parquet")}.items(), ids=lambda one: one[0])  # fmt: skip
@given(documents(spans=False, votes=False))
@settings(max_examples=80)
def test_tokens_and_labels_come_back(form, tmp_path_factory, document):
    if document.labels is None:
        return
    [again] = form[1](document, tmp_path_factory.getbasetemp())
    assert (again.text, again.tokens, again.offsets) == (document.text, document.tokens, document.offsets)
    assert where_needed(again.labels) == where_needed(document.labels)


TOOLS = {"brackets": "x.txt", "prodigy": "x.jsonl", "doccano": "x.jsonl", "label-studio": "x.json", "brat": "x.ann"}


@pytest.mark.parametrize("form", TOOLS)
@given(documents(labelled=False, votes=False))
@settings(max_examples=80)
def test_texts_and_spans_come_back_from_annotation_tools(form, tmp_path_factory, document):
    spans, end = [], 0
    for span in sorted(document.spans or (), key=lambda one: (one.start, one.end)):
        if span.label is not None and (form != "brackets" or span.start >= end):  # brackets hold no overlaps
            spans.append(replace(span, probability=None))
            end = span.end
    if not spans and form == "brackets":
        return  # a file without any is raw text
    path = tmp_path_factory.getbasetemp() / TOOLS[form]
    write_annotations(path, [replace(document, spans=spans, relations=None)], form)
    [again] = read_labelled(path)
    assert again.text == document.text
    assert characters(again.spans) == characters(spans)
    if form == "prodigy":
        assert (again.tokens, again.offsets) == (document.tokens, document.offsets)


def characters(spans):
    return sorted((span.start, span.end, span.label) for span in spans)
