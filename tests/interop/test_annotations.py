from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from tests.hostile.command import run
from tests.interop.texts import documents
from trellis import DataError, Document, Extractor, Relation, Span
from trellis.apps.extract.suggest import suggest
from trellis.data.annotations import annotated, from_brackets, read_brat, to_brackets, to_prodigy, write_annotations
from trellis.data.text_files import read_labelled


def characters(document):
    return document.text, sorted((s.start, s.end, s.label) for s in document.spans or ())


@given(documents(labelled=False, votes=False))
@settings(max_examples=150)
def test_brackets_and_prodigy_keep_text_and_spans(document):
    spans, end = [], 0
    for span in sorted(document.spans or (), key=lambda s: (s.start, s.end)):
        if span.start >= end:  # brackets hold no overlaps
            spans.append(Span(span.label or "X", span.first, span.last))
            end = span.end
    document = Document(document.tokens, text=document.text, offsets=document.offsets, spans=spans)
    line = to_brackets(document)
    assert "\n" not in line
    assert from_brackets(line).text == document.text
    task = json.loads(json.dumps(to_prodigy(document)))
    again = annotated(task)
    assert (again.tokens, again.offsets) == (document.tokens, document.offsets)
    assert characters(again) == characters(document)


def test_brackets_mark_fields_and_escapes_are_literal():
    found = from_brackets(r"[QTY 2] [UNIT cups] flour \[NOT a field\] a\\b [see] \[")
    assert found.text == r"2 cups flour [NOT a field] a\b [see] ["
    assert characters(found)[1] == [(0, 1, "QTY"), (2, 6, "UNIT")]
    assert from_brackets(to_brackets(found)) == found
    with pytest.raises(DataError, match="overlaps another"):
        to_brackets(Document(("a", "b"), spans=[Span("X", 0, 2), Span("Y", 1, 2)]))


TEXT = "Ann Lee saw Bob Ray"
SPANS = [(0, 7, "NAME"), (12, 19, "NAME")]
LABELS = ("NAME", "NAME", "O", "NAME", "NAME")
EXPORTS = {
    "prodigy.jsonl": {
        "text": TEXT, "spans": [{"start": a, "end": b, "label": c} for a, b, c in SPANS], "answer": "accept"
    },
    "doccano.jsonl": {"id": 1, "text": TEXT, "label": SPANS},
    "newer.jsonl": {"text": TEXT, "entities": [{"label": c, "start_offset": a, "end_offset": b} for a, b, c in SPANS]},
    "studio.json": [{"data": {"text": TEXT}, "annotations": [
        {"result": [{"value": {"start": a, "end": b, "labels": [c]}} for a, b, c in SPANS]}]}],
}  # fmt: skip


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_are_labelled_texts_of_the_commands(name, tmp_path):
    (tmp_path / name).write_text(json.dumps(EXPORTS[name]) + "\n")
    [text] = read_labelled(tmp_path / name)
    assert (text.text, text.labels) == (TEXT, LABELS)
    (tmp_path / "rules.toml").write_text('labels = ["NAME", "O"]\n')
    assert run("extract", "train", tmp_path / "rules.toml", "-l", tmp_path / name, "--save", tmp_path / "m") == 0


@pytest.mark.parametrize("form", ["brackets", "prodigy", "doccano", "label-studio", "columns", "json"])
def test_converted_texts_are_read_again(form, tmp_path):
    (tmp_path / "few.txt").write_text("[NAME Ann Lee] saw [NAME Bob Ray] .\nno one\n")
    name = tmp_path / {"brackets": "o.txt", "columns": "o.tsv", "label-studio": "o.json"}.get(form, "o.jsonl")
    to = ["--json"] if form == "json" else ["--to", form]
    assert run("extract", "convert", tmp_path / "few.txt", *to, "-o", name) == 0
    assert [text.labels for text in read_labelled(name)] == [(*LABELS, "O"), ("O", "O")]


def test_brat_has_relations(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "a.ann").write_text(
        "T1\tNAME 0 7\tAnn Lee\nT2\tNAME 12 19\tBob Ray\nR1\tSaw Arg1:T1 Arg2:T2\n#1\tNote T1\tx\n"
    )
    found = read_brat(tmp_path / "a.ann")
    assert (found.labels, found.relations) == (LABELS, (Relation(0, 1, "Saw"),))
    write_annotations(tmp_path / "b.ann", [found], "brat")
    assert read_brat(tmp_path / "b.ann") == found
    assert read_labelled(tmp_path / "b.ann") == [found]


def test_rejected_and_malformed_annotations(tmp_path):
    assert annotated({"text": "a", "spans": [{"start": 0, "end": 1, "label": "X"}], "answer": "reject"}).labels is None
    (tmp_path / "x.jsonl").write_text('{"text": "a", "label": [[0]]}\n')
    with pytest.raises(DataError, match=r"x.jsonl, line 1: a span or token is malformed"):
        read_labelled(tmp_path / "x.jsonl")
    (tmp_path / "x.json").write_text('[{"text": "a"}]')
    with pytest.raises(DataError, match="task 0 is not one of Label Studio's"):
        read_labelled(tmp_path / "x.json")


def test_texts_to_label_next_are_uncertain_ones_with_reasons(tmp_path, capfd):
    few = ["Ann ran .", "Bob sat .", "then Ann left"], [["NAME", "O", "O"], ["NAME", "O", "O"], ["O", "NAME", "O"]]
    extractor = Extractor('labels = ["NAME", "O"]', method="supervised").fit(*few)
    texts = ["Ann ran .", "perhaps Zoe ran maybe", "Bob sat .", "Bob sat ."]
    found = suggest(extractor, texts, 3)
    assert len({one.document.tokens for one in found}) == 3
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert all(one.reasons for one in found if one.score > 0)
    extractor.save(tmp_path / "m")
    (tmp_path / "t.txt").write_text("\n".join(texts) + "\n")
    assert run("extract", "suggest", "-m", tmp_path / "m", tmp_path / "t.txt", "--texts", "2", "--json") == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["text"] for line in lines] == [one.document.text for one in found[:2]]
    assert lines[0]["reasons"] == found[0].reasons
