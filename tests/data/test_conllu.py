"""CoNLL-U: what counts as a word, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from trellis.data.conllu import heads, read_conllu, write_conllu
from trellis.data.document import Document
from trellis.errors import DataError, UnknownNameError

EXAMPLE = """\
# sent_id = 1
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\tP\t_\t3\tcase\t_\t_
2\tle\tle\tDET\tD\tGender=Masc\t3\tdet\t_\t_
2.1\tvu\tvoir\tVERB\t_\t_\t_\t_\t3:x\t_
3\tchien noir\tchien\t_\tN\t_\t0\troot\t_\tSpaceAfter=No

# sent_id = 2
1\toui\toui\tINTJ\t_\t_\t_\t_\t_\t_
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.conllu"
    path.write_text(EXAMPLE)
    return path


def test_ranges_and_empty_nodes_are_left_out(file: Path) -> None:
    first, second = read_conllu(file)
    assert first == Document(("de", "le", "chien noir"), ("ADP", "DET", None), comments=("# sent_id = 1",))
    assert [first.line_of(i) for i in range(3)] == [3, 4, 6]
    assert second == Document(("oui",), ("INTJ",), comments=("# sent_id = 2",))
    assert (second.line, second.rows) == (9, range(9, 10))


def test_every_column_is_available_by_name(file: Path) -> None:
    first, second = read_conllu(file, label="deprel", columns=("form", "upos", "xpos", "feats", "head"))
    assert first.labels == ("case", "det", "root")
    assert first.columns["xpos"] == ("P", "D", "N")
    assert first.columns["feats"] == ("_", "Gender=Masc", "_")
    assert heads(first) == (3, 3, 0)
    assert heads(second) == (None,)
    with pytest.raises(DataError, match="columns=\\('head',\\)"):
        heads(next(read_conllu(file)))


def test_a_mistyped_column_gets_a_suggestion(file: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown CoNLL-U column 'upso'; did you mean 'upos'"):
        list(read_conllu(file, label="upso"))


def row(number: str = "1", form: str = "a", head: str = "_") -> str:
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\t_\t_\t_\n"


@pytest.mark.parametrize(
    "text, line, message",
    [
        ("1\ta\t_\n", 1, "expected 10 tab-separated columns but found 3"),
        (row() + "2 a _ _ _ _ _ _ _ _\n", 2, "expected 10 tab-separated columns but found 1"),
        (row() + row("3"), 2, "expected the word number 2, a range or an empty node but found '3'"),
        (row() + "# a comment within\n" + row("2"), 3, "expected the word number 1, .* found '2'"),
        (row("one"), 1, "found 'one'"),
        (row("٣"), 1, "found '٣'"),
        (row("9" * 5_000), 1, "expected the word number 1"),
        (row(head="2"), 1, "expected a head from 0 to 1, or '_', but found '2'"),
        (row(head="x"), 1, "but found 'x'"),
        (row(head="-1"), 1, "but found '-1'"),
        (row(head="9" * 5_000), 1, "expected a head"),
        (row(form=""), 1, "expected a form but it is empty"),
        ("\n" + row("1-2"), 2, "ranges or empty nodes only"),
    ],
)
def test_malformed_lines_are_named(file: Path, text: str, line: int, message: str) -> None:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as e:
        list(read_conllu(file))
    assert (e.value.path, e.value.line) == (str(file), line)


@pytest.mark.parametrize(
    "sentence, message",
    [
        (Document(()), "it is empty"),
        (Document(("",)), "form of word 1 is empty"),
        (Document(("a\tb",)), "contains"),
        (Document(("a",), columns={"head": ("2",)}), "head '2' of word 1 is not one of its words"),
        (Document(("a",), columns={"had": ("2",)}), "unknown CoNLL-U column 'had'; did you mean 'head'"),
        (Document(("a",), ("_",)), "would be read as an unknown one"),
        (Document(("a",), comments=("no",)), "begins with '#'"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(file: Path, sentence: Document, message: str) -> None:
    with pytest.raises(DataError, match=message):
        write_conllu(file, [sentence])
    assert file.read_text() == EXAMPLE


def test_labels_are_not_written_over_words_or_heads(file: Path) -> None:
    with pytest.raises(DataError, match="labels cannot be written to 'form'"):
        write_conllu(file, [], label="form")
