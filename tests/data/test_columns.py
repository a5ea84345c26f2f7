"""Column files: which column is what, what is refused, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trellis.data.columns import read_columns, write_columns
from trellis.data.document import Document
from trellis.errors import DataError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.tsv"


def read(file: Path, text: str, **options: Any) -> list[Document]:
    file.write_text(text, encoding="utf-8", newline="")
    return list(read_columns(file, **options))


def test_blank_lines_part_sentences_however_many_there_are(file: Path) -> None:
    sentences = read(file, "\n \nthe\tDET\ndog\tNOUN\n\t\n\n\nbarks\tVERB\n\n\n")
    assert [s.tokens for s in sentences] == [("the", "dog"), ("barks",)]
    assert [s.labels for s in sentences] == [("DET", "NOUN"), ("VERB",)]
    assert [(s.path, s.line) for s in sentences] == [(str(file), 3), (str(file), 8)]
    assert sentences[0].rows == range(3, 5)


def test_the_caller_chooses_the_columns(file: Path) -> None:
    text = "B-NP DT\t the\nI-NP NN dog\n"
    [sentence] = read(file, text, word=2, label=0, columns={"pos": 1}, separator=None)
    assert sentence == Document(("the", "dog"), ("B-NP", "I-NP"), {"pos": ("DT", "NN")})
    [sentence] = read(file, text, word=2, label=None, separator=None)
    assert sentence.labels is None


def test_white_space_within_words_parts_them_only_where_asked(file: Path) -> None:
    [sentence] = read(file, "New York\tCITY\n1\u00a0000\tNUM\n")
    assert sentence.tokens == ("New York", "1\u00a0000")
    [sentence] = read(file, "1\u00a0000  \t NUM \n", separator=None)
    assert sentence == Document(("1\u00a0000",), ("NUM",))


def test_empty_and_marked_labels_are_unknown(file: Path) -> None:
    [sentence] = read(file, "a\tX\nb\t_\nc\t\n")
    assert sentence.labels == ("X", None, None)
    [sentence] = read(file, "a\tX\nb\t_\nc\t\n", unknown="X")
    assert sentence.labels == (None, "_", None)
    [sentence] = read(file, "a\t_\n", unknown=None)
    assert sentence.labels == ("_",)


def test_comments_belong_to_the_next_sentence_and_end_the_one_before(file: Path) -> None:
    text = "#doc 1\na\tX\n# \tY\n#doc 2\n#doc 2b\n\nb\tZ\n#doc 3\n"
    assert read(file, text, comment="#doc") == [
        Document(("a", "# "), ("X", "Y"), comments=("#doc 1",)),
        Document(("b",), ("Z",), comments=("#doc 2", "#doc 2b")),
    ]


def test_hash_is_a_word_unless_comments_are_asked_for(file: Path) -> None:
    [sentence] = read(file, "#\t#\n")
    assert sentence == Document(("#",), ("#",))


@pytest.mark.parametrize(
    "text, options, line, message",
    [
        ("a\tX\nb\n", {}, 2, "expected 2 columns but found 1"),
        ("a\tX\n\nb\tX\tY\n", {}, 3, "expected 2 columns but found 3"),
        ("a\tX\n", {"n_columns": 3}, 1, "expected 3 columns but found 2"),
        (
            "\n\na\n",
            {},
            3,
            "at least 2 columns, since the label is column 1 counted from 0, but found 1 (in Python, label=None",
        ),
        ("a\tX\n", {"columns": {"pos": 4}}, 1, "at least 5 columns, since 'pos' is column 4 counted from 0"),
        ("a X\nb X Y\n", {"separator": None}, 2, "expected 2 columns but found 3"),
        ("a\tX\n\tX\n", {}, 2, "expected a word in column 0 but it is empty"),
    ],
)
def test_malformed_lines_are_named(file: Path, text: str, options: dict[str, Any], line: int, message: str) -> None:
    with pytest.raises(DataError) as e:
        read(file, text, **options)
    assert str(e.value).startswith(f"{file}, line {line}: ")
    assert message in str(e.value)
    assert (e.value.path, e.value.line) == (str(file), line)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"word": -1}, "'word' is set to column -1"),
        ({"columns": {"pos": -2}}, "'pos' is set to column -2"),
        ({"separator": ""}, "cannot separate columns"),
        ({"separator": "\n"}, "cannot separate columns"),
        ({"comment": ""}, "every line a comment"),
    ],
)
def test_impossible_layouts_are_refused(file: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(file, "a\tX\n", **options)
    with pytest.raises(DataError, match=message):
        write_columns(file, [], **options)


@pytest.mark.parametrize(
    "sentence, options, message",
    [
        (Document(()), {}, "sentence 1 cannot be written to .*: it is empty"),
        (Document(("a\tb",)), {}, "contains '\\\\t'"),
        (Document(("a\nb",)), {}, "contains '\\\\n'"),
        (Document(("a\r",)), {}, "contains '\\\\r'"),
        (Document(("a b",)), {"separator": None}, "contains ' '"),
        (Document(("a",)), {"separator": None, "unknown": None}, "an empty cell needs a separator"),
        (Document(("",)), {}, "would be read as a missing word"),
        (Document((" ",)), {"label": None}, "would be read as a missing word"),
        (Document(("a",), ("_",)), {}, "label '_' would be read as an unknown one"),
        (Document(("a",), ("",)), {}, "label '' would be read as an unknown one"),
        (Document(("#a",)), {"comment": "#"}, "would be read as a comment"),
        (Document(("a",), comments=("no",)), {"comment": "#"}, "one line that begins with '#'"),
        (Document(("a",)), {"columns": {"pos": 2}}, "has no column 'pos'"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(
    file: Path, sentence: Document, options: dict[str, Any], message: str
) -> None:
    file.write_text("old")
    fine = Document(("fine",), ("X",), dict.fromkeys(options.get("columns", {}), ("x",)))
    with pytest.raises(DataError, match=message):
        write_columns(file, [fine, sentence], **options)
    assert file.read_text() == "old"


def test_two_things_do_not_share_a_column_in_writing(file: Path) -> None:
    with pytest.raises(DataError, match="two things cannot be written to one column"):
        write_columns(file, [], word=0, label=0)


def test_columns_that_nobody_fills_hold_a_filler(file: Path) -> None:
    write_columns(file, [Document(("a", "b"), ("X", None))], word=2, label=0)
    assert file.read_text() == "X\t_\ta\n_\t_\tb\n\n"


@pytest.mark.realdata
@pytest.mark.parametrize(
    "path, options, n_sentences, n_tokens, n_labels",
    [
        ("pos/ptb-sample.tsv", {}, 3_914, 94_084, 45),
        ("fields/citations/train.tsv", {}, 300, 10_803, 13),
        ("fields/citations/unlabelled.tsv", {"label": None}, 1_000, 34_767, 0),
        ("relations/conll04/train.txt", {"word": 1, "label": 2, "comment": "#doc"}, 910, 26_804, 9),
    ],
)
def test_real_files_have_the_size_they_are_known_to_have(
    data_dir: Path, path: str, options: dict[str, Any], n_sentences: int, n_tokens: int, n_labels: int
) -> None:
    sentences = list(read_columns(data_dir / path, **options))
    assert len(sentences) == n_sentences
    assert sum(map(len, sentences)) == n_tokens
    assert len({label for s in sentences for label in s.labels or ()}) == n_labels
