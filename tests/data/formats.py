"""The three formats with labels as reader and writer pairs, and sentences that each can hold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from trellis.data.columns import read_columns, write_columns
from trellis.data.conllu import NAMES, read_conllu, write_conllu
from trellis.data.document import Document
from trellis.data.jsonlines import read_jsonlines, write_jsonlines

Reader = Callable[[Any], Iterator[Document]]
Writer = Callable[[Any, Iterable[Document]], None]


@dataclass(frozen=True)
class Format:
    read: Reader
    write: Writer
    sentences: st.SearchStrategy[list[Document]]


@contextmanager
def scratch(name: str, content: bytes = b"") -> Iterator[Path]:
    """A file in a folder of its own; Hypothesis wants a fresh one an example."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        yield path


def _text(banned: str) -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8", exclude_characters=banned), min_size=1, max_size=6)


def _sentence(
    cells: st.SearchStrategy[str], *, labelled: bool, columns: tuple[str, ...] = (), empty: bool = False
) -> st.SearchStrategy[Document]:
    def of_length(n: int) -> st.SearchStrategy[Document]:
        def row(entries: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
            return st.lists(entries, min_size=n, max_size=n).map(tuple)

        labels = row(st.none() | cells.filter(lambda cell: cell != "_")) if labelled else st.none()
        return st.builds(Document, row(cells), labels, st.fixed_dictionaries({name: row(cells) for name in columns}))

    return st.integers(0 if empty else 1, 4).flatmap(of_length)


def _headed(sentence: Document) -> Document:
    """With heads that go round: CoNLL-U checks that they are words of the sentence."""
    heads = tuple(str(i) for i in range(len(sentence)))
    return Document(sentence.tokens, sentence.labels, {**sentence.columns, "head": heads}, comments=("# a comment",))


_tabbed = _text("\t\n\r").filter(lambda cell: cell.strip(" ") != "")
_spaced = _text(" \t\n\r")
_conllu_columns = tuple(name for name in NAMES if name not in ("id", "form", "upos", "head"))

FORMATS: dict[str, Format] = {
    "columns": Format(
        partial(read_columns, word=1, label=0, columns={"pos": 3}),
        partial(write_columns, word=1, label=0, columns={"pos": 3}),
        st.lists(_sentence(_tabbed, labelled=True, columns=("pos",)), max_size=4),
    ),
    "columns by white space": Format(
        partial(read_columns, separator=None, unknown="?"),
        partial(write_columns, separator=None, unknown="?"),
        st.lists(_sentence(_spaced.filter(lambda cell: cell != "?"), labelled=True), max_size=4),
    ),
    "columns with empty cells": Format(
        partial(read_columns, unknown=None),
        partial(write_columns, unknown=None),
        st.lists(_sentence(_tabbed, labelled=True), max_size=4),
    ),
    "words alone": Format(
        partial(read_columns, label=None),
        partial(write_columns, label=None),
        st.lists(_sentence(_tabbed, labelled=False), max_size=4),
    ),
    "conllu": Format(
        partial(read_conllu, columns=(*_conllu_columns, "head")),
        write_conllu,
        st.lists(_sentence(_tabbed, labelled=True, columns=_conllu_columns).map(_headed), max_size=3),
    ),
    "jsonlines": Format(
        partial(read_jsonlines, columns=("pos",)),
        write_jsonlines,
        st.lists(
            _sentence(st.text(st.characters(codec="utf-8"), max_size=6), labelled=True, columns=("pos",), empty=True),
            max_size=4,
        ),
    ),
}
