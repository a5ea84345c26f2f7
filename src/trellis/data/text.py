"""Plain tokenised text: one sentence per line, words separated by spaces or tabs.

An empty line is an empty sentence, so that the lines of two files that are translations of each other stay side
by side. Runs of spaces and tabs part words once; other white space (a no-break space) belongs to its word, but for a
carriage return inside a line, which no line can hold.
"""

from __future__ import annotations

from collections.abc import Iterator

from trellis.data.document import Document
from trellis.data.files import FilePath, shown, whole_lines


def words_of(line: str) -> list[str]:
    """Words of a line."""
    return [word for word in line.replace("\t", " ").split(" ") if word]


def read_text(path: FilePath) -> Iterator[Document]:
    """Sentences of a text file, one at a time, without labels."""
    name = shown(path)
    for number, line in whole_lines(path):
        yield Document(tuple(words_of(line)), path=name, line=number)
