"""Predictions that are exported for correction do not come back as labels."""

from __future__ import annotations

import json

import pytest

from tests.hostile.command import run
from trellis import Document, Extractor, Span, read_documents, write_documents
from trellis.data.annotations import write_annotations
from trellis.data.tables import write_table
from trellis.data.text_files import read_labelled

TEXT = ("Ann", "Lee", "saw", "Bob")
LABELS = ("NAME", "NAME", "O", "NAME")
FOUND = Document(TEXT, LABELS, spans=[Span("NAME", 0, 2, probability=0.9), Span("NAME", 3, 4, probability=0.6)],
                 predicted=True)  # fmt: skip
WITHOUT = Document(("no", "one"), ("O", "O"), spans=[], predicted=True)
MARKED = {
    "prodigy": ("x.jsonl", lambda path, texts: write_annotations(path, texts, "prodigy")),
    "label-studio": ("x.json", lambda path, texts: write_annotations(path, texts, "label-studio")),
    "JSON lines": ("x.jsonl", write_documents),
    "CSV": ("x.csv", write_table),
    "Parquet": ("x.parquet", write_table),
}


@pytest.mark.parametrize("form", MARKED)
@pytest.mark.parametrize("texts", [[FOUND], [WITHOUT], [FOUND, WITHOUT]], ids=["fields", "none", "both"])
def test_predictions_are_read_as_unlabelled_texts_unless_they_are_asked_for(form, texts, tmp_path):
    if form == "Parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'trellis-learn[frames]'")
    name, write = MARKED[form]
    write(tmp_path / name, texts)
    plain = read_labelled(tmp_path / name)
    assert [(one.labels, one.spans, one.predicted) for one in plain] == [(None, None, False)] * len(texts)
    asked = read_labelled(tmp_path / name, predictions=True)
    assert [(one.text, one.labels, one.predicted) for one in asked] == [(t.text, t.labels, True) for t in texts]
    if form not in ("CSV", "Parquet"):
        assert [shares(one) for one in asked] == [shares(one) for one in texts]


def shares(document):
    return [(span.start, span.end, span.label, span.probability) for span in document.spans or ()]


@pytest.mark.parametrize("form", ["brackets", "doccano", "brat", "columns"])
def test_convert_warns_where_the_format_cannot_represent_predictions(form, tmp_path, capfd):
    write_documents(tmp_path / "x.jsonl", [FOUND])
    output = tmp_path / {"brackets": "o.txt", "brat": "o.ann", "columns": "o.tsv"}.get(form, "o.jsonl")
    convert = ["extract", "convert", tmp_path / "x.jsonl", "--to", form, "-o", output, "--force"]
    assert run(*convert) == 0
    assert f"the labels of 1 text are predictions, which {form} cannot represent" in capfd.readouterr().err
    assert [text.labels for text in read_labelled(output)] == [LABELS]
    assert run(*convert, "--accept") == 0
    assert "predictions" not in capfd.readouterr().err


@pytest.fixture
def model(tmp_path):
    few = [["Ann", "ran"], ["Bob", "sat"]]
    Extractor('labels = ["NAME", "O"]', method="supervised").fit(few, [["NAME", "O"]] * 2).save(tmp_path / "m")
    (tmp_path / "few.txt").write_text("[NAME Ann] ran\n[NAME Bob] sat\n")
    (tmp_path / "text.txt").write_text("Ann sat\nBob ran\nnobody\n")
    (tmp_path / "rules.toml").write_text('labels = ["NAME", "O"]\n')
    return tmp_path / "m"


@pytest.mark.parametrize("command", ["suggest", "predict"])
@pytest.mark.parametrize("form", ["prodigy", "label-studio", "--json"])
def test_predicted_texts_train_nothing_until_they_are_accepted(command, form, model, tmp_path, capfd):
    found, tasks = tmp_path / "found.jsonl", tmp_path / ("t.json" if form == "label-studio" else "t.jsonl")
    assert run("extract", command, "-m", model, tmp_path / "text.txt", "-o", found) == 0
    to = ["--json"] if form == "--json" else ["--to", form]
    assert run("extract", "convert", found, *to, "-o", tasks) == 0
    train = ["extract", "train", tmp_path / "rules.toml", "--save", tmp_path / "again", "-l"]
    capfd.readouterr()
    assert run(*train, tasks) == 2
    err = capfd.readouterr().err
    assert f"Warning: the labels of 3 texts in {tasks} are predictions" in err
    assert "no label is filled in" in err
    assert run(*train, tmp_path / "few.txt", "-l", tasks) == 0
    assert "2 labelled texts, 3 other texts" in capfd.readouterr().err
    accepted = tmp_path / f"accepted{tasks.suffix}"
    assert run("extract", "convert", tasks, *to, "-o", accepted, "--accept") == 0
    assert run(*train, accepted) == 0
    assert "3 labelled texts" in capfd.readouterr().err


def test_prodigy_accepts_or_rejects_a_prediction(tmp_path):
    write_annotations(tmp_path / "x.jsonl", [FOUND], "prodigy")
    task = json.loads((tmp_path / "x.jsonl").read_text())
    for answer, labels in (("accept", LABELS), ("reject", None), ("ignore", None)):
        (tmp_path / "y.jsonl").write_text(json.dumps({**task, "answer": answer}))
        [text] = read_labelled(tmp_path / "y.jsonl", predictions=True)
        assert (text.labels, text.predicted) == (labels, False)


def test_an_annotation_of_label_studio_counts_before_its_prediction(tmp_path):
    write_annotations(tmp_path / "x.json", [FOUND], "label-studio")
    [task] = json.loads((tmp_path / "x.json").read_text())
    assert (task["predictions"][0]["score"], "annotations" in task) == (0.6, False)
    value = {"start": 0, "end": 3, "text": "Ann", "labels": ["NAME"]}
    for cancelled, labels, predicted in ((False, ("NAME", "O", "O", "O"), False), (True, LABELS, True)):
        task["annotations"] = [{"was_cancelled": cancelled, "result": [{"value": value}]}]
        (tmp_path / "y.json").write_text(json.dumps([task]))
        [text] = read_labelled(tmp_path / "y.json", predictions=True)
        assert (text.labels, text.predicted) == (labels, predicted)


def test_evaluation_reads_predictions_where_they_belong(model, tmp_path, capfd):
    found, gold = tmp_path / "found.jsonl", tmp_path / "gold.tsv"
    gold.write_text("Ann\tNAME\nsat\tO\n\nBob\tNAME\nran\tO\n\nnobody\tO\n")
    assert run("extract", "predict", "-m", model, tmp_path / "text.txt", "-o", found) == 0
    assert run("evaluate", gold, found) == 0
    assert "of 5 tokens" in capfd.readouterr().out
    assert run("evaluate", found, gold) == 2
    assert f"{found}: has predictions and no labels: give the file with gold labels first" in capfd.readouterr().err


def test_frames_and_docs_know_predictions(tmp_path):
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'trellis-learn[spacy]'")
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'trellis-learn[frames]'")
    from trellis.interop.frames import from_frame, to_frame
    from trellis.interop.spacy import from_doc, from_docbin, to_doc, to_docbin

    given = Document(("by", "hand"), ("O", "O"))
    for library in ("pandas", "polars", "pyarrow"):
        assert [one.predicted for one in from_frame(to_frame([FOUND, given], library))] == [True, False]
    assert from_doc(to_doc(FOUND, spacy.Vocab())).predicted
    to_docbin([FOUND, given]).to_disk(tmp_path / "x.spacy")
    assert [one.predicted for one in from_docbin(tmp_path / "x.spacy")] == [True, False]
    write_documents(tmp_path / "x.jsonl", [FOUND, given])
    assert [one.predicted for one in read_documents(tmp_path / "x.jsonl")] == [True, False]


def test_a_pipeline_marks_its_entities_as_predictions(model):
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'trellis-learn[spacy]'")
    from trellis.interop.spacy import from_doc

    nlp = spacy.blank("en")
    nlp.add_pipe("trellis_extract", config={"path": str(model)})
    assert from_doc(nlp("Ann sat")).predicted
    assert not from_doc(nlp.make_doc("Ann sat")).predicted
