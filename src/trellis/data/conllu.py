"""CoNLL-U: ten tab-separated columns per word, comments before a sentence, a blank line after it.

    ID  FORM  LEMMA  UPOS  XPOS  FEATS  HEAD  DEPREL  DEPS  MISC        https://universaldependencies.org/format.html

Rule for the lines that are no syntactic words. A multiword range (``1-2 du``) and an empty node (``8.1``) are left
out: the words of a sentence are the lines numbered 1, 2, ..., n, which HEAD points at. Their numbers are
checked: they must be 1..n without a gap, and HEAD must be ``_`` or a number from 0 (the root) to n. ``_`` in the column
that holds the label is a label that is not known; in other columns it is kept as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from trellis.data import text
from trellis.data.columns import (
    FILLER,
    SentenceLines,
    blocks,
    check_cell,
    known_labels,
    written_comments,
    written_labels,
)
from trellis.data.document import Document, line_numbers
from trellis.data.files import FilePath, path_text, shown, writing
from trellis.errors import DataError, check_name

NAMES = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
TREE = ("head", "deprel")
"""The columns of a dependency tree."""
ID, FORM, HEAD = NAMES.index("id"), NAMES.index("form"), NAMES.index("head")
COMMENT = "#"

_LEFT_OUT = re.compile(r"[0-9]{1,9}[-.][0-9]{1,9}")
_NUMBER = re.compile(r"[0-9]{1,9}")


def read_conllu(path: FilePath, *, label: str | None = "upos", columns: Sequence[str] = ()) -> Iterator[Document]:
    """Sentences of a CoNLL-U file, one at a time.

    label, columns : names such as "upos", "xpos", "feats", "head"; ``label=None``: read no labels
    """
    label_at = None if label is None else _place(label)
    wanted = {name: _place(name) for name in columns}
    name = shown(path)
    for block in blocks(path, separator="\t", comment=COMMENT):
        rows, numbers = _words(block, name)
        yield Document(
            tokens=tuple([cells[FORM] for cells in rows]),
            labels=None if label_at is None else known_labels((cells[label_at] for cells in rows), FILLER),
            columns={key: tuple([cells[at] for cells in rows]) for key, at in wanted.items()},
            comments=tuple(block.comments),
            path=name,
            line=numbers[0],
            rows=line_numbers(numbers),
            multiword=_multiword(block, len(rows)),
        )


def read_text(path: FilePath, *, columns: Sequence[str] = ()) -> Iterator[Document]:
    """Sentences of a CoNLL-U file (by its name, ``.conllu``), or of bare text, one per line with words apart.

    A blank line of bare text is a sentence without words.
    """
    if is_conllu(path):
        yield from read_conllu(path, columns=columns)
        return
    yield from text.read_text(path)


def is_conllu(path: FilePath) -> bool:
    """Whether a file is CoNLL-U by its name."""
    return str(path).removesuffix(".gz").endswith(".conllu")


def write_conllu(path: FilePath, sentences: Iterable[Document], *, label: str | None = "upos") -> None:
    """Write words to FORM, labels to the column named ``label``, other columns to those of their name.

    Cells of which nothing is known hold ``_``.
    """
    label_at = None if label is None else _place(label)
    if label_at in (ID, FORM, HEAD):
        raise DataError(f"labels cannot be written to {label!r}, which holds something else")
    with writing(path) as out:
        for i, sentence in enumerate(sentences):
            where = f"sentence {i} cannot be written to {path_text(path)}: "
            if not sentence.tokens:
                raise DataError(where + "it is empty, and CoNLL-U cannot hold that; write text or JSON lines")
            filler = [FILLER] * len(sentence)
            table = [filler] * len(NAMES)
            for key, given in sentence.columns.items():
                if _place(key) not in (ID, FORM, label_at):
                    table[_place(key)] = list(given)
            if label_at is not None:
                table[label_at] = written_labels(sentence, FILLER, where)
            table[ID] = [str(number) for number in range(1, len(sentence) + 1)]
            table[FORM] = list(sentence.tokens)
            lines = written_comments(sentence, COMMENT, where)
            for cells in zip(*table, strict=True):
                for cell in cells:
                    check_cell(cell, "\t", where)
                if "" in cells:
                    raise DataError(where + f"the {NAMES[cells.index('')]} of word {cells[ID]} is empty")
                if not _is_head(cells[HEAD], len(sentence)):
                    raise DataError(where + f"the head {cells[HEAD]!r} of word {cells[ID]} is not one of its words")
                lines.append("\t".join(cells))
            out.write("\n".join(lines) + "\n\n")


def heads(sentence: Document) -> tuple[int | None, ...]:
    """Heads of the words as numbers: 0 the root, k the k-th word, None where not known.

    >>> heads(Document(("dogs", "bark"), columns={"head": ("2", "0")}))
    (2, 0)
    """
    if "head" not in sentence.columns:
        raise DataError("the sentence has no column 'head': read it with columns=('head',)")
    return tuple([None if head == FILLER else int(head) for head in sentence.columns["head"]])


def _words(block: SentenceLines, name: str) -> tuple[list[list[str]], list[int]]:
    """The lines of the syntactic words and their line numbers, checked."""
    rows: list[list[str]] = []
    numbers: list[int] = []
    for line, cells in zip(block.numbers, block.rows, strict=True):
        if len(cells) != len(NAMES):
            hint = "; `trellis tag predict` converts plain text to CoNLL-U" if len(cells) == 1 else ""
            message = f"expected {len(NAMES)} tab-separated columns but found {len(cells)}{hint}"
            raise DataError(message, path=name, line=line)
        if cells[ID] == str(len(rows) + 1):
            if not cells[FORM]:
                raise DataError("expected a form but it is empty", path=name, line=line)
            rows.append(cells)
            numbers.append(line)
        elif not _LEFT_OUT.fullmatch(cells[ID]):
            raise DataError(
                f"expected the word number {len(rows) + 1}, a range or an empty node but found {cells[ID]!r}",
                path=name,
                line=line,
            )
    if not rows:
        message = "expected a word but the sentence has ranges or empty nodes only"
        raise DataError(message, path=name, line=block.numbers[0])
    for line, cells in zip(numbers, rows, strict=True):
        if not _is_head(cells[HEAD], len(rows)):
            raise DataError(
                f"expected a head from 0 to {len(rows)}, or '_', but found {cells[HEAD]!r}", path=name, line=line
            )
    return rows, numbers


def _multiword(block: SentenceLines, n_words: int) -> tuple[tuple[str, int, int], ...]:
    """The multiword tokens of a sentence."""
    found = []
    for cells in block.rows:
        first, dash, last = cells[ID].partition("-")
        if dash and 1 <= int(first) < int(last) <= n_words:
            found.append((cells[FORM], int(first) - 1, int(last)))
    return tuple(found)


def _is_head(cell: str, n_words: int) -> bool:
    return cell == FILLER or (_NUMBER.fullmatch(cell) is not None and int(cell) <= n_words)


def _place(name: str) -> int:
    check_name("CoNLL-U column", name, NAMES)
    return NAMES.index(name)
