"""Texts with votes from files: WRENCH, JSON lines, columns; mistakes with file, line and what to do."""

from __future__ import annotations

import json

import pytest

from trellis.data.voted import spans_of_labels, votes_of_spans
from trellis.data.voted_files import read_voted
from trellis.errors import DataError, UnknownNameError

META = {"lf": ["a", "b", "c"], "lf_rec": ["a", "c"], "entity_types": ["X"]}
RECORD = {"label": [], "data": {"text": ["u", "v"]}, "weak_labels": [[[0, 1, "X"]], [], [[0, 2, "X"]]]}


def wrench(folder, records, meta=META, name="train.json"):
    if meta is not None:
        (folder / "meta.json").write_text(json.dumps(meta))
    (folder / name).write_text(json.dumps(records))
    return folder / name


def test_wrench_gives_the_recommended_functions_unless_told_otherwise(tmp_path):
    path = wrench(tmp_path, {"0": RECORD})
    (text,) = read_voted(path)
    assert text.tokens == ("u", "v")
    assert text.votes == {"a": ("B-X", None), "c": ("B-X", "I-X")}
    assert set(next(read_voted(path, all_functions=True)).votes) == {"a", "b", "c"}


def test_a_wrench_folder_is_its_files_in_order(tmp_path):
    for name in ("test.json", "train.json"):
        wrench(tmp_path, {"0": {**RECORD, "data": {"text": [name, "v"]}}}, name=name)
    assert [text.tokens[0] for text in read_voted(tmp_path)] == ["train.json", "test.json"]


def test_without_meta_functions_have_numbers(tmp_path):
    (text,) = read_voted(wrench(tmp_path, {"0": RECORD}, meta=None))
    assert list(text.votes) == ["0", "1", "2"]


def test_wrench_texts_with_one_label(tmp_path):
    (tmp_path / "label.json").write_text(json.dumps({"0": "NEG", "1": "POS"}))
    path = wrench(tmp_path, {"0": {"data": {"text": "good film"}, "weak_labels": [1, -1, 0]}}, {"lf": ["a", "b", "c"]})
    (text,) = read_voted(path)
    assert (text.tokens, text.votes) == (("good film",), {"a": ("POS",), "b": (None,), "c": ("NEG",)})


@pytest.mark.parametrize(
    "record, message",
    [
        ({"data": {"text": ["u"]}}, "record '0': expected the key 'weak_labels'"),
        ({"weak_labels": []}, "record '0': expected the key 'data'"),
        ({"data": {}, "weak_labels": []}, "expected the text"),
        ({"data": {"text": ["u"]}, "weak_labels": [[]]}, "votes of 1 functions, but meta.json names 3"),
        ({"data": {"text": ["u"]}, "weak_labels": [[[0, 5, "X"]], [], []]}, "does not lie in a text of 1 token"),
        (7, "expected an object but found"),
    ],
)  # fmt: skip
def test_mistakes_in_wrench_files_name_the_record(tmp_path, record, message):
    with pytest.raises(DataError, match=message) as error:
        list(read_voted(wrench(tmp_path, {"0": record})))
    assert "train.json" in str(error.value)


def test_a_recommended_function_that_does_not_exist(tmp_path):
    with pytest.raises(UnknownNameError, match="meta.json"):
        list(read_voted(wrench(tmp_path, {"0": RECORD}, {"lf": ["a"], "lf_rec": ["z"]})))


def test_json_lines_with_spans_and_votes(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"tokens": ["u", "v"], "spans": {"a": [[1, 2, "X"]]}, "votes": {"b": [null, "O"]}}\n'
        '\n{"tokens": [], "votes": {}}\n'
    )
    one, two = read_voted(path)
    assert one.votes == {"a": (None, "B-X"), "b": (None, "O")}
    assert (len(two), two.line) == (0, 3)


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"tokens": ["a"]}', "line 2: expected the key 'votes' or 'spans'"),
        ('{"token": ["a"], "votes": {}}', "line 2: expected the key 'tokens'.*did you mean"),
        ("{broken", "line 2: not JSON"),
        ("[]", "line 2: expected an object"),
        ('{"tokens": "a b", "votes": {}}', "line 2: expected strings in 'tokens'"),
        ('{"tokens": ["a"], "votes": {"f": [3]}}', "line 2: function 'f' votes 3"),
        ('{"tokens": ["a"], "votes": {"f": "X"}}', "line 2: expected a list of labels and nulls"),
        ('{"tokens": ["a"], "votes": {"f": []}}', "line 2: found 1 token but 0 votes"),
        ('{"tokens": ["a"], "votes": []}', None),
        ('{"tokens": ["a"], "votes": 3}', "line 2: expected functions by name"),
    ],
)  # fmt: skip
def test_mistakes_in_json_lines_name_the_line(tmp_path, line, message):
    path = tmp_path / "t.jsonl"
    path.write_text('{"tokens": ["a"], "votes": {"f": ["X"]}}\n' + line + "\n")
    if message is None:  # an empty list is no function
        assert len(list(read_voted(path))) == 2
        return
    with pytest.raises(DataError, match=message):
        list(read_voted(path))


def test_columns_with_and_without_names(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("# token\tdict\trule\nu\tB-X\t_\nv\t\tO\n\nw\t_\t_\n")
    one, two = read_voted(path)
    assert one.votes == {"dict": ("B-X", None), "rule": (None, "O")}
    assert (two.tokens, two.line) == (("w",), 5)
    path.write_text("u\tB-X\n")
    assert list(next(read_voted(path)).votes) == ["function 1"]
    path.write_text("u\tB-X\nv\n")
    with pytest.raises(DataError, match="line 2: expected 2 columns"):
        list(read_voted(path))
    path.write_text("u\n")
    with pytest.raises(DataError, match="a vote for each function"):
        list(read_voted(path))


def test_a_folder_without_files(tmp_path):
    with pytest.raises(DataError, match="is a folder without train.json"):
        list(read_voted(tmp_path))


def test_spans_become_labels_and_spans_again():
    spans = [(0, 2, "A"), (2, 3, "A"), (4, 5, "B")]
    labels = [vote or "O" for vote in votes_of_spans(6, spans)]
    assert labels == ["B-A", "I-A", "B-A", "O", "B-B", "O"]
    assert spans_of_labels(labels) == spans
    assert votes_of_spans(3, [(0, 2, "A"), (1, 3, "B")]) == ("B-A", "I-A", None)  # the first of overlapping ones stands
