"""Plain text and JSON lines: what is a sentence, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trellis.data.document import Document
from trellis.data.jsonlines import read_jsonlines, write_jsonlines
from trellis.data.text import read_text
from trellis.errors import DataError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a"


def test_empty_lines_of_text_are_empty_sentences(file: Path) -> None:
    file.write_text("the  dog\t barks \n\n  \nno\u00a0break")
    sentences = list(read_text(file))
    assert [s.tokens for s in sentences] == [("the", "dog", "barks"), (), (), ("no\u00a0break",)]
    assert [(s.line, s.labels) for s in sentences] == [(1, None), (2, None), (3, None), (4, None)]
    assert sentences[0].line_of(2) == 1


def test_missing_and_null_labels_are_unknown(file: Path) -> None:
    file.write_text(
        '{"tokens": ["a", "b"], "labels": ["X", null], "id": 7}\n\n{"tokens": ["c"], "labels": null}\n{"tokens": []}\n'
    )
    assert list(read_jsonlines(file)) == [Document(("a", "b"), ("X", None)), Document(("c",)), Document(())]
    assert [s.line for s in read_jsonlines(file)] == [1, 3, 4]
    assert next(read_jsonlines(file, labels=None)).labels is None


def test_keys_are_the_callers_choice(file: Path) -> None:
    file.write_text('{"w": ["a"], "t": ["X"], "shape": ["x"]}')
    [sentence] = read_jsonlines(file, tokens="w", labels="t", columns=("shape",))
    assert sentence == Document(("a",), ("X",), {"shape": ("x",)})
    write_jsonlines(file, [sentence], tokens="w", labels="t")
    assert json.loads(file.read_text()) == {"w": ["a"], "t": ["X"], "shape": ["x"]}
    with pytest.raises(DataError, match="the column 'shape' has the name of the words or labels"):
        write_jsonlines(file, [sentence], tokens="shape")


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"tokens": ["a"]', "not JSON: Expecting ',' delimiter at character 17"),
        ("tokens", "not JSON: Expecting value at character 1"),
        ('{"tokens": ["a"]} {}', "not JSON: Extra data"),
        ("[" * 200_000, "not JSON that can be read"),
        ('{"tokens": ["a"], "n": ' + "1" * 5_000 + "}", "not JSON that can be read"),
        ('["a"]', "expected a JSON object but found a list"),
        ("3", "expected a JSON object but found a number"),
        ("{}", "expected the key 'tokens'; none are defined"),
        ('{"token": []}', "expected the key 'tokens'; did you mean 'token'?"),
        ('{"tokens": "a b"}', "expected a list of strings in 'tokens' but found a string"),
        ('{"tokens": null}', "expected a list of strings in 'tokens' but found null"),
        ('{"tokens": ["a", 1]}', "expected a string in 'tokens'[1] but found a number"),
        ('{"tokens": ["a", null]}', "expected a string in 'tokens'[1] but found null"),
        ('{"tokens": ["a"], "labels": [true]}', "expected a string in 'labels'[0] but found a truth value"),
        ('{"tokens": ["a"], "labels": {}}', "expected a list of labels in 'labels' but found an object"),
        ('{"tokens": ["a", "b"], "labels": [null, {}]}', "expected a string in 'labels'[1] but found an object"),
        ('{"tokens": ["a"], "labels": []}', "found 1 token but 0 labels"),
        ('{"tokens": ["\\ud800"]}', "'tokens'[0] contains an unpaired surrogate"),
    ],
)
def test_malformed_records_are_named(file: Path, line: str, message: str) -> None:
    file.write_text('{"tokens": []}\n' + line + "\n")
    with pytest.raises(DataError) as e:
        list(read_jsonlines(file))
    assert message in str(e.value)
    assert (e.value.path, e.value.line) == (str(file), 2)


def test_asked_for_columns_must_be_there_and_fit(file: Path) -> None:
    file.write_text('{"tokens": ["a"], "shape": []}')
    with pytest.raises(DataError, match="line 1: found 1 token but 0 entries in column 'shape'"):
        list(read_jsonlines(file, columns=("shape",)))
    with pytest.raises(DataError, match="line 1: expected the key 'shap'; did you mean 'shape'"):
        list(read_jsonlines(file, columns=("shap",)))
