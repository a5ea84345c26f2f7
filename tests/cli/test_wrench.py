"""WRENCH data sets on the command line: every layout is read by ``aggregate``, and its gold by ``evaluate``."""

from __future__ import annotations

import json

import pytest

from tests.hostile.command import run
from trellis.data.voted import votes_of_spans
from trellis.data.wrench import read_wrench, read_wrench_gold

META = {"lf": ["list", "shape", "third"], "lf_rec": ["list", "shape"]}
TEXTS = [
    (["take", "old", "aspirin", "now"], [[2, 3, "DRUG"]], [[[2, 3, "DRUG"]], [[1, 3, "DRUG"]], []]),
    (["no", "pain"], [[1, 2, "PAIN"]], [[], [[1, 2, "PAIN"]], [[0, 1, "PAIN"]]]),
    (["aspirin", "ibuprofen"], [[0, 1, "DRUG"], [1, 2, "DRUG"]], [[[0, 1, "DRUG"], [1, 2, "DRUG"]], [], []]),
    ([], [], [[], [], []]),
] * 3


def bio(n, spans):
    return [label or "O" for label in votes_of_spans(n, map(tuple, spans))]


def spans_layout(tokens, gold, functions):
    return {"data": {"text": tokens}, "label": gold, "weak_labels": functions}


def tokens_layout(tokens, gold, functions):
    n = len(tokens)
    votes = [list(column) for column in zip(*(bio(n, spans) for spans in functions), strict=True)]
    return {"data": {"text": tokens}, "label": bio(n, gold), "weak_labels": votes}


def written(folder, layout, meta=META):
    folder.mkdir()
    if meta is not None:
        (folder / "meta.json").write_text(json.dumps(meta))
    for split, part in (("valid", TEXTS[:8]), ("test", TEXTS[8:])):
        records = {str(n): layout(*text) for n, text in enumerate(part)}
        (folder / f"{split}.json").write_text(json.dumps(records))
    return folder


@pytest.mark.slow
def test_both_layouts_of_sequences_give_the_same_output_and_the_same_scores(tmp_path, capfd):
    outputs, scores = [], []
    for layout in (spans_layout, tokens_layout):
        folder = written(tmp_path / layout.__name__, layout)
        out = tmp_path / f"{layout.__name__}.jsonl"
        assert run("aggregate", folder, "-o", out, "-q", "--threads", 1) == 0
        outputs.append(out.read_bytes())
        capfd.readouterr()
        assert run("evaluate", folder, out) == 0
        scores.append(capfd.readouterr().out)
    assert outputs[0] == outputs[1]
    assert scores[0] == scores[1]
    assert scores[0].splitlines()[1].endswith("of 12 fields")


@pytest.mark.parametrize("meta", [META, None])
def test_both_layouts_are_the_same_votes_and_gold(tmp_path, meta):
    one, other = (written(tmp_path / layout.__name__, layout, meta) for layout in (spans_layout, tokens_layout))
    if meta is None:  # a text without tokens then names no functions
        assert [t.votes for t in read_wrench(one) if len(t)] == [t.votes for t in read_wrench(other) if len(t)]
    else:
        assert list(read_wrench(one)) == list(read_wrench(other))
    assert [s.labels for s in read_wrench_gold(one)] == [s.labels for s in read_wrench_gold(other)]


def test_evaluate_reads_the_gold_of_texts_with_one_label(tmp_path, capfd):
    (tmp_path / "label.json").write_text(json.dumps({"0": "NEG", "1": "POS"}))
    records = {
        "0": {"data": {"text": "good film"}, "label": 1, "weak_labels": [1, -1]},
        "1": {"data": {"text": "long film"}, "label": 0, "weak_labels": [-1, 1]},
    }
    (tmp_path / "test.json").write_text(json.dumps(records))
    (tmp_path / "out.jsonl").write_text(
        '{"tokens": ["good film"], "labels": ["POS"]}\n{"tokens": ["long film"], "labels": ["POS"]}\n'
    )
    assert run("evaluate", tmp_path / "test.json", tmp_path / "out.jsonl", "--json") == 0
    assert json.loads(capfd.readouterr().out)["accuracy"] == 0.5


MIXED = {
    "a token too few": ([["O", "O", "O"]], "1 lists of labels for 2 tokens"),
    "a function too few": ([["O", "O"], ["O", "O"]], "token 0 has the labels of 2 functions, but meta.json names 3"),
    "both layouts": ([[[0, 1, "X"]], ["O"], []], "mixes spans and labels"),
    "numbers": ([[0, 1, 0], [0, 0, 0]], "token 0 has the vote 0"),
    "a label for a list": (["O", "O"], "expected a list in 'weak_labels'[0] but found a string"),
    "no list": ("O", "expected a list in 'weak_labels' but found a string"),
    "no span": ([[[0, "X"]], [], []], "gives [0, 'X']: a span is [first token, end, type]"),
}


@pytest.mark.parametrize("case", MIXED)
def test_votes_in_neither_layout_are_refused_with_the_record(case, tmp_path, capfd):
    votes, told = MIXED[case]
    (tmp_path / "meta.json").write_text(json.dumps(META))
    (tmp_path / "test.json").write_text(json.dumps({"7": {"data": {"text": ["u", "v"]}, "weak_labels": votes}}))
    assert run("aggregate", tmp_path / "test.json", "-q") == 2
    message = capfd.readouterr().err
    assert told in message
    assert "test.json: record '7'" in message


@pytest.mark.parametrize(
    "label, told",
    [
        (["O"], "'label' has 1 entries for 2 tokens"),
        (["O", 3], "expected one label per token"),
        ([[0, 9, "X"]], "does not lie in a text of 2 tokens"),
        ("O", "expected a list in 'label'"),
    ],
)
def test_gold_in_neither_layout_is_refused_with_the_record(label, told, tmp_path, capfd):
    (tmp_path / "test.json").write_text(json.dumps({"7": {"data": {"text": ["u", "v"]}, "label": label}}))
    (tmp_path / "out.tsv").write_text("u\tO\nv\tO\n")
    assert run("evaluate", tmp_path / "test.json", tmp_path / "out.tsv") == 2
    message = capfd.readouterr().err
    assert told in message
    assert "test.json: record '7'" in message
