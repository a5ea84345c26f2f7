"""Plain tokenised text: one sentence a line, words parted by spaces or tabs.

An empty line is an empty sentence, so that the lines of two files that are translations of each other stay side
by side. Runs of spaces and tabs part words once; other white space (a no-break space) belongs to its word, but for a
carriage return inside a line, which no line can hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trellis.data.files import FilePath, path_text, shown, whole_lines, writing
from trellis.data.sentence import Sentence
from trellis.errors import DataError


def read_text(path: FilePath) -> Iterator[Sentence]:
    """Sentences of a text file, one at a time, without labels."""
    name = shown(path)
    for number, line in whole_lines(path):
        words = tuple([word for word in line.replace("\t", " ").split(" ") if word])
        yield Sentence(words, path=name, line=number)


def write_text(path: FilePath, sentences: Iterable[Sentence]) -> None:
    """Write the words of sentences, one sentence a line; labels and columns have no place in this format."""
    with writing(path) as out:
        for i, sentence in enumerate(sentences):
            for word in sentence.words:
                if not word or any(sign in word for sign in " \t\r\n"):
                    raise DataError(
                        f"sentence {i} cannot be written to {path_text(path)}: the word {word!r} "
                        f"is empty or contains white space that parts words or lines"
                    )
            out.write(" ".join(sentence.words) + "\n")
