"""Column files: one word per line with its label and further columns, and a blank line between sentences.

    The     DET
    dog     NOUN
    <blank>
    barks   _

Rules. Columns count from 0. A line of spaces and tabs alone is blank, and any number of blank lines is one
separator, so a column file holds no empty sentences. The first word line fixes how many columns all lines
must have, unless ``n_columns`` does. With ``separator=None`` columns are parted by runs of spaces and tabs
(other white space, a no-break space for instance, belongs to the word). An empty label cell, or the
``unknown`` marker, is a label that is not known. A line that begins with ``comment`` belongs to the sentence that
follows, and ends the one before it as a blank line would (some corpora have a ``#doc`` line and no blank ones);
there are no comments unless asked for, for ``#`` is a word too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from trellis.data.document import Document, line_numbers
from trellis.data.files import FilePath, path_text, shown, whole_lines, writing
from trellis.errors import DataError, counted

BLANK = " \t\r"
FILLER = "_"
"""Stands in cells that nothing is known about."""


@dataclass(slots=True)
class SentenceLines:
    """The lines of one sentence, cut at the separator."""

    comments: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)


def read_columns(
    path: FilePath,
    *,
    word: int = 0,
    label: int | None = 1,
    columns: Mapping[str, int] | None = None,
    separator: str | None = "\t",
    unknown: str | None = FILLER,
    comment: str | None = None,
    n_columns: int | None = None,
) -> Iterator[Document]:
    """Sentences of a column file, one at a time.

    word, label : which columns hold them; ``label=None``: the file has no labels
    columns : name -> number of further columns to keep
    """
    wanted = dict(columns or {})
    _check_layout(word, label, wanted, separator, comment)
    name = shown(path)
    width: int | None = None
    for block in blocks(path, separator=separator, comment=comment):
        for line, cells in zip(block.numbers, block.rows, strict=True):
            if width is None:
                width = len(cells) if n_columns is None else n_columns
                _check_wanted(word, label, wanted, width, name, line)
            if len(cells) != width:
                raise DataError(f"expected {width} columns but found {len(cells)}", path=name, line=line)
            if not cells[word]:
                raise DataError(f"expected a word in column {word} but it is empty", path=name, line=line)
        yield Document(
            tokens=tuple([cells[word] for cells in block.rows]),
            labels=None if label is None else known_labels((cells[label] for cells in block.rows), unknown),
            columns={key: tuple([cells[at] for cells in block.rows]) for key, at in wanted.items()},
            comments=tuple(block.comments),
            path=name,
            line=block.numbers[0],
            rows=line_numbers(block.numbers),
        )


def write_columns(
    path: FilePath,
    sentences: Iterable[Document],
    *,
    word: int = 0,
    label: int | None = 1,
    columns: Mapping[str, int] | None = None,
    separator: str | None = "\t",
    unknown: str | None = FILLER,
    comment: str | None = None,
    keep_empty: bool = False,
) -> None:
    """Write sentences so that ``read_columns`` with the same arguments gives them again.

    What the format cannot hold (an empty sentence, a tab in a word, a label that looks like the unknown marker)
    is an error and nothing is written. Columns that nobody fills hold "_". Comments are written when
    ``comment`` is given. ``unknown=None`` leaves the cell of an unknown label empty. With ``keep_empty`` an empty
    sentence is a blank line more, which shows its place to people and is nothing to readers.
    """
    wanted = dict(columns or {})
    _check_layout(word, label, wanted, separator, comment)
    used = [word, *([] if label is None else [label]), *wanted.values()]
    if len(set(used)) != len(used):
        raise DataError(f"two things cannot be written to one column: word {word}, label {label}, {wanted}")
    with writing(path) as out:
        for i, sentence in enumerate(sentences):
            where = f"sentence {i} cannot be written to {path_text(path)}: "
            if not sentence.tokens and keep_empty:
                out.write("\n")
                continue
            if not sentence.tokens:
                raise DataError(where + "it is empty, and a column file cannot hold that; write text or JSON lines")
            table = {word: list(sentence.tokens)}
            if label is not None:
                table[label] = written_labels(sentence, unknown, where)
            for key, at in wanted.items():
                if key not in sentence.columns:
                    raise DataError(where + f"it has no column {key!r}; it has {sorted(sentence.columns)}")
                table[at] = list(sentence.columns[key])
            filler = [FILLER] * len(sentence)
            filled = [table.get(at, filler) for at in range(max(used) + 1)]
            lines = [] if comment is None else written_comments(sentence, comment, where)
            for cells in zip(*filled, strict=True):
                lines.append(_joined(cells, word, separator, comment, where))
            out.write("\n".join(lines) + "\n\n")


def blocks(path: FilePath, *, separator: str | None, comment: str | None) -> Iterator[SentenceLines]:
    """The sentences of a file as rows of cells, with the comments before them."""
    block = SentenceLines()
    for number, line in whole_lines(path):
        is_comment = comment is not None and line.startswith(comment)
        if block.rows and (is_comment or not line.strip(BLANK)):
            yield block
            block = SentenceLines()
        if is_comment:
            block.comments.append(line)
        elif line.strip(BLANK):
            block.rows.append(_cells(line, separator))
            block.numbers.append(number)
    if block.rows:
        yield block


def known_labels(cells: Iterable[str], unknown: str | None) -> tuple[str | None, ...]:
    """Label cells with None for those that say that the label is not known."""
    return tuple([None if not cell or cell == unknown else cell for cell in cells])


def written_labels(sentence: Document, unknown: str | None, where: str) -> list[str]:
    """Label cells of a sentence, the inverse of ``known_labels``."""
    marker = unknown or ""
    if sentence.labels is None:
        return [marker] * len(sentence)
    for given in sentence.labels:
        if given is not None and (given == unknown or not given):
            raise DataError(where + f"its label {given!r} would be read as an unknown one; choose another marker")
    return [marker if given is None else given for given in sentence.labels]


def written_comments(sentence: Document, comment: str, where: str) -> list[str]:
    """Comment lines of a sentence, checked to be read as such again."""
    for line in sentence.comments:
        if not line.startswith(comment) or "\n" in line or line.endswith("\r"):
            raise DataError(where + f"comment {line!r} must be one line that begins with {comment!r}")
    return list(sentence.comments)


def check_cell(cell: str, separator: str | None, where: str) -> None:
    """Refuse a string that would not be read again as one cell."""
    for sign in ("\n", "\r", *((" ", "\t") if separator is None else (separator,))):
        if sign in cell:
            raise DataError(where + f"{cell!r} contains {sign!r}, which separates columns or lines")
    if separator is None and not cell:
        raise DataError(where + "an empty cell needs a separator: choose one, or a marker for unknown labels")


def _cells(line: str, separator: str | None) -> list[str]:
    if separator is not None:
        return line.split(separator)
    return [cell for cell in line.replace("\t", " ").split(" ") if cell]


def _joined(cells: tuple[str, ...], word: int, separator: str | None, comment: str | None, where: str) -> str:
    for cell in cells:
        check_cell(cell, separator, where)
    line = (separator or " ").join(cells)
    if not cells[word] or not line.strip(BLANK):
        raise DataError(where + f"its word {cells[word]!r} would be read as a missing word")
    if comment is not None and line.startswith(comment):
        raise DataError(where + f"the line {line!r} would be read as a comment, since it begins with {comment!r}")
    return line


def _check_layout(
    word: int, label: int | None, columns: Mapping[str, int], separator: str | None, comment: str | None
) -> None:
    for what, at in [("word", word), ("label", label), *columns.items()]:
        if at is not None and at < 0:
            raise DataError(f"columns are counted from 0, but {what!r} is set to column {at}")
    if separator == "" or (separator is not None and ("\n" in separator or "\r" in separator)):
        raise DataError(f"{separator!r} cannot separate columns; use '\\t', or None for runs of spaces and tabs")
    if comment == "":
        raise DataError("an empty comment marker makes every line a comment; use None for a file without comments")


def _check_wanted(word: int, label: int | None, columns: Mapping[str, int], n: int, name: str, line: int) -> None:
    for what, at in [("the word", word), ("the label", label), *((repr(key), at) for key, at in columns.items())]:
        if at is not None and at >= n:
            hint = " (in Python, label=None reads a file without labels)" if what == "the label" else ""
            raise DataError(
                f"expected at least {counted(at + 1, 'column')}, since {what} is column {at} counted "
                f"from 0, but found {n}{hint}",
                path=name,
                line=line,
            )


def read_word_tags(path: str) -> dict[str, list[str]]:
    """A tag dictionary from lines of word TAB tag."""
    found: dict[str, list[str]] = {}
    for number, line in whole_lines(path):
        cells = line.split("\t")
        if not line.strip():
            continue
        if len(cells) != 2 or not cells[0] or not cells[1].strip():
            raise DataError("expected a word, a tab and its tag", path=path, line=number)
        tag = cells[1].strip()
        if tag not in found.setdefault(cells[0], []):
            found[cells[0]].append(tag)
    if not found:
        raise DataError(f"{path} contains no words")
    return found
