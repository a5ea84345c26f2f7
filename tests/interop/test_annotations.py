from __future__ import annotations

import json

import pytest

from tests.hostile.command import run
from trellis import DataError, Document, Extractor, Relation, Span, write_documents
from trellis.apps.extract.suggest import suggest
from trellis.data.annotations import annotated, from_brackets, to_brackets, write_annotations
from trellis.data.brat import read_brat
from trellis.data.text_files import read_labelled


def characters(document):
    return document.text, sorted((s.start, s.end, s.label) for s in document.spans or ())


def test_brackets_mark_fields_and_escapes_are_literal():
    found = from_brackets(r"[QTY 2] [UNIT cups] flour \[NOT a field\] a\\b [see] \[")
    assert found.text == r"2 cups flour [NOT a field] a\b [see] ["
    assert characters(found)[1] == [(0, 1, "QTY"), (2, 6, "UNIT")]
    assert from_brackets(to_brackets(found)) == found
    with pytest.raises(DataError, match="overlaps another"):
        to_brackets(Document(("a", "b"), spans=[Span("X", 0, 2), Span("Y", 1, 2)]))


def test_spans_cut_tokens_that_are_not_given():
    found = from_brackets("[QTY 12]kg 我在[PLACE 北京]")
    assert (found.tokens, found.labels) == (("12", "kg", "我在", "北京"), ("QTY", "O", "O", "PLACE"))
    tokens = [{"text": "12kg", "start": 0, "end": 4, "id": 0}]
    given = annotated({"text": "12kg", "tokens": tokens, "spans": [{"start": 0, "end": 2, "label": "QTY"}]})
    assert (given.tokens, given.labels) == (("12kg",), ("QTY",))


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


@pytest.mark.parametrize("start, end", [(6, 9), (5, 8)], ids=["UTF-16", "characters"])
def test_offsets_of_label_studio_count_utf_16_units_or_characters(start, end, tmp_path):
    value = {"start": start, "end": end, "text": "Bob", "labels": ["NAME"]}
    task = {"data": {"text": "hi 👍 Bob 👍 left"}, "annotations": [{"result": [{"value": value}]}]}
    (tmp_path / "x.json").write_text(json.dumps([task]))
    [found] = read_labelled(tmp_path / "x.json")
    assert [(span.text, span.label) for span in found.spans] == [("Bob", "NAME")]
    write_annotations(tmp_path / "y.json", [found], "label-studio")
    [task] = json.loads((tmp_path / "y.json").read_text())
    assert task["annotations"][0]["result"][0]["value"] == {**value, "start": 6, "end": 9}


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
    with pytest.raises(DataError, match=r"x.jsonl, line 1: the span \[0\] is malformed"):
        read_labelled(tmp_path / "x.jsonl")
    (tmp_path / "x.json").write_text('[{"text": "a"}]')
    with pytest.raises(DataError, match="task 0 is not one of Label Studio's"):
        read_labelled(tmp_path / "x.json")


OUTSIDE = {
    "doccano.jsonl": {"text": "ab cd", "label": [[3, 9, "X"]]},
    "reversed.jsonl": {"text": "ab cd", "label": [[2, 1, "X"]]},
    "negative.jsonl": {"text": "ab cd", "spans": [{"start": -2, "end": 1, "label": "X"}]},
    "empty.jsonl": {"text": "ab cd", "entities": [{"start_offset": 1, "end_offset": 1, "label": "X"}]},
    "fields.jsonl": {"text": "ab cd", "fields": [{"start": 3, "end": 9, "label": "X"}]},
    "tokens.jsonl": {"tokens": ["ab", "cd"], "spans": [{"start": 3, "end": 9, "label": "X"}]},
    "studio.json": [{"data": {"text": "ab cd"}, "annotations": [
        {"result": [{"value": {"start": 0, "end": 99, "labels": ["X"]}}]}]}],
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_spans_outside_of_their_text_are_refused(name, tmp_path):
    (tmp_path / name).write_text(json.dumps(OUTSIDE[name]) + "\n")
    with pytest.raises(DataError, match=f"{name}.* does not lie in its text of 5 characters"):
        read_labelled(tmp_path / name)


def test_spans_beside_tokens_are_labels_where_there_are_none(tmp_path):
    document = Document(("Ann", "Lee", "ran"), spans=[Span("NAME", 0, 2)])
    records = [{"tokens": ["Ann", "Lee", "ran"], "spans": [{"start": 0, "end": 7, "label": "NAME"}]}]
    (tmp_path / "plain.jsonl").write_text(json.dumps(records[0]))
    write_documents(tmp_path / "whole.jsonl", [document])
    for name in ("plain.jsonl", "whole.jsonl"):
        [found] = read_labelled(tmp_path / name)
        assert (found.tokens, found.labels) == (("Ann", "Lee", "ran"), ("NAME", "NAME", "O"))


def test_brat_is_written_beside_its_text_and_replaces_nothing_unasked(tmp_path, capfd):
    few, ann, text = tmp_path / "few.jsonl", tmp_path / "a.ann", tmp_path / "a.txt"
    few.write_text(json.dumps({"text": "Ann Lee ran", "label": [[0, 7, "NAME"]]}) + "\n")
    convert = ["extract", "convert", few, "--to", "brat", "-o"]
    text.write_text("precious")
    assert run(*convert, ann) == 2
    assert (ann.exists(), text.read_text()) == (False, "precious")
    assert f"{text} already exists" in capfd.readouterr().err
    for wrong in ("-", text, tmp_path / "a"):
        assert run(*convert, wrong) == 2
        assert "brat keeps annotations in NAME.ann and their text in NAME.txt" in capfd.readouterr().err
    assert run(*convert, ann, "--force") == 0
    assert text.read_text() == "Ann Lee ran"
    text.unlink()
    assert run("extract", "convert", ann) == 2
    assert f"Error: {ann}: its text {text} cannot be read: No such file" in capfd.readouterr().err
    few.write_text(json.dumps({"text": "Ann Lee ran", "label": [[0, 7, "FIRST NAME"]]}) + "\n")
    assert run(*convert, ann, "--force") == 2
    assert "brat has labels of one word, but found 'FIRST NAME'" in capfd.readouterr().err


@pytest.mark.parametrize("form", ["prodigy", "doccano", "label-studio"])
def test_texts_without_labels_stay_without_them(form, tmp_path, capfd):
    (tmp_path / "few.tsv").write_text("Ann\t_\nran\t_\n\nBob\tO\n\nCy\tNAME\nran\t_\n")
    name = tmp_path / ("o.json" if form == "label-studio" else "o.jsonl")
    assert run("extract", "convert", tmp_path / "few.tsv", "--to", form, "-o", name) == 0
    assert "Warning: 1 text with some labels missing" in capfd.readouterr().err
    assert [text.labels for text in read_labelled(name)] == [None, ("O",), ("NAME", "O")]


def test_brackets_leave_out_texts_without_labels(tmp_path, capfd):
    few, output = tmp_path / "few.tsv", tmp_path / "o.txt"
    few.write_text("Ann\t_\nran\t_\n\nBob\tO\n\nCy\tNAME\nran\tO\n")
    assert run("extract", "convert", few, "--to", "brackets", "-o", output) == 0
    assert "Warning: 1 unlabelled text left out" in capfd.readouterr().err
    assert [text.labels for text in read_labelled(output)] == [("O",), ("NAME", "O")]
    few.write_text("Ann\t_\n")
    assert run("extract", "convert", few, "--to", "brackets", "-o", output, "--force") == 2
    assert "no text is labelled, and brackets cannot represent unlabelled texts" in capfd.readouterr().err
    assert "Cy" in output.read_text()
    with pytest.raises(DataError, match="brackets cannot represent unlabelled texts"):
        write_annotations(output, [Document(("Ann",))], "brackets")


def test_the_name_of_a_file_is_not_a_text(tmp_path):
    for name, reader in (("few.tsv", "read_columns"), ("few.jsonl", "read_documents"), ("few.txt", "read_texts")):
        (tmp_path / name).write_text("")
        with pytest.raises(DataError, match=f"read it with [a-z_.]*{reader}\\('.*{name}'\\)"):
            Extractor('labels = ["NAME", "O"]').fit(str(tmp_path / name))


def test_json_is_not_combined_with_another_format(tmp_path, capfd):
    (tmp_path / "few.tsv").write_text("Ann\tNAME\n")
    assert run("extract", "convert", tmp_path / "few.tsv", "--to", "brackets", "--json") == 2
    assert "--to brackets cannot be combined with it" in capfd.readouterr().err


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


def test_relations_of_a_discontinuous_span_of_brat_refer_to_its_first_part(tmp_path):
    (tmp_path / "a.txt").write_text("Ann Lee met Bob")
    (tmp_path / "a.ann").write_text("T1\tNAME 0 3;4 7\tAnn Lee\nT2\tNAME 12 15\tBob\nR1\tmet Arg1:T1 Arg2:T2\n")
    found = read_brat(tmp_path / "a.ann")
    assert [span.text for span in found.spans] == ["Ann", "Lee", "Bob"]
    assert found.relations == (Relation(0, 2, "met"),)
