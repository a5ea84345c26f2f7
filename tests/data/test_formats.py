"""Claims that hold for every format alike: round trips, any bytes at all, line ends, gzip."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.formats import FORMATS, scratch
from trellis.data.corpus import corpus_of
from trellis.data.document import Document
from trellis.errors import DataError, TrellisError

pytestmark = pytest.mark.slow

every_format = pytest.mark.parametrize("name", FORMATS)
suffixes = st.sampled_from(["", ".gz"])


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


def written(name: str, sentences: list[Document]) -> bytes:
    with scratch("file") as path:
        FORMATS[name].write(path, sentences)
        return path.read_bytes()


def read(name: str, content: bytes) -> list[Document]:
    with scratch("file", content) as path:
        return list(FORMATS[name].read(path))


@every_format
@settings(max_examples=40)
@given(st.data(), suffixes)
def test_what_is_written_is_read_again(name: str, data: st.DataObject, suffix: str) -> None:
    sentences = data.draw(FORMATS[name].sentences)
    with scratch("file" + suffix) as path:
        FORMATS[name].write(path, sentences)
        assert list(FORMATS[name].read(path)) == sentences
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def check_bytes(name: str, content: bytes, suffix: str = "") -> None:
    """Any bytes are a corpus or one of our errors, which names the file."""
    with scratch("file" + suffix, content) as path:
        message = str(path)
        try:
            batch = corpus_of(FORMATS[name].read(path)).batch
            assert batch.n_slots == len(batch.column("word").codes)
        except TrellisError as error:
            message = str(error)
        assert str(path) in message


@every_format
@given(st.binary(max_size=200), suffixes)
def test_random_bytes_give_sentences_or_our_errors(name: str, content: bytes, suffix: str) -> None:
    check_bytes(name, content, suffix)


@every_format
@given(st.lists(st.sampled_from([*'\t\t\n\r 12-._#{}[]":,aé', "tokens", "\\ud800", "\ufeff", "null"]), max_size=60))
def test_random_text_gives_sentences_or_our_errors(name: str, pieces: list[str]) -> None:
    check_bytes(name, "".join(pieces).encode())


@every_format
@settings(max_examples=40)
@given(st.data(), suffixes)
def test_damaged_files_give_sentences_or_our_errors(name: str, data: st.DataObject, suffix: str) -> None:
    whole = written(name, data.draw(FORMATS[name].sentences))
    content = bytearray(gzip.compress(whole) if suffix else whole)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        cut = data.draw(st.integers(0, 3))
        content[at : at + cut] = data.draw(st.binary(max_size=3))
    check_bytes(name, bytes(content), suffix)


@every_format
@settings(max_examples=25)
@given(st.data())
def test_byte_order_mark_crlf_and_missing_last_end_change_nothing(name: str, data: st.DataObject) -> None:
    plain = written(name, data.draw(FORMATS[name].sentences))
    expected = read(name, plain)
    assert read(name, b"\xef\xbb\xbf" + plain) == expected
    assert read(name, plain.replace(b"\n", b"\r\n")) == expected
    assert read(name, plain + b"\n \t\n\r\n") == expected
    assert read(name, plain.rstrip(b"\n")) == expected


@every_format
def test_bytes_that_are_not_utf8_are_named_with_line_and_byte(name: str) -> None:
    lines = {
        "conllu": b"1\tdog\t_\tN\t_\t_\t0\t_\t_\t_\n",
        "jsonlines": b'{"tokens": ["dog"], "pos": ["N"]}\n',
        "columns": b"N\tdog\t_\tx\n",
        "words alone": b"dog\n",
    }
    good = lines.get(name, b"dog\tN\n")
    with scratch("file", good * 2 + good.replace(b"dog", b"d\xe9g")) as path:
        with pytest.raises(
            DataError, match=f"expected UTF-8 but byte {good.index(b'dog') + 2} of the line is 0xe9"
        ) as e:
            list(FORMATS[name].read(path))
        assert (e.value.path, e.value.line) == (str(path), 3)
        assert str(e.value).startswith(f"{path}, line 3: ")


@every_format
def test_an_empty_file_holds_no_sentences(name: str) -> None:
    assert read(name, b"") == []
    assert read(name, b"\xef\xbb\xbf") == []


@every_format
def test_lone_surrogates_are_refused_and_leave_the_old_file(name: str) -> None:
    with scratch("file", b"old") as path:
        sentence = Document(("\ud800",), columns={"pos": ("x",)} if name == "columns" else {})
        with pytest.raises(DataError, match="surrogate"):
            FORMATS[name].write(path, [sentence])
        assert path.read_bytes() == b"old"
        assert len(list(path.parent.iterdir())) == 1
