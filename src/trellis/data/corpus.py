"""From sentences of a file to a batch of arrays, with the way back from an instance to its line.

Sentences stream through: only codes are kept, four bytes a word and column (on disk, where a storage says so), and
one line number a sentence.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from trellis.data.batch import UNKNOWN, Batch, Column
from trellis.data.document import Document
from trellis.data.ragged import IntArray, LabelArray, offsets_of
from trellis.data.storage import UNBOUNDED, Storage
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, UnknownNameError

AT_ONCE = 2**20
"""Words that are looked at together where a column is made of another."""


@dataclass(frozen=True)
class Corpus:
    """A batch, the names of its labels, and where its instances were read.

    batch : the sentences; the words are the column "word"
    label_names : vocabulary of ``batch.labels``
    paths : the files read, in order
    path_of : (n_instances,) int32 into ``paths``, −1 where a sentence was not read from a file
    lines : (n_instances,) line of the first word, 0 where not known
    """

    batch: Batch
    label_names: Vocabulary
    paths: tuple[str, ...]
    path_of: LabelArray
    lines: IntArray

    def sentence(self, instance: int) -> Document:
        """The words of an instance and where they stood."""
        words, batch = self.batch.column("word"), self.batch
        codes = words.codes[batch.offsets[instance] : batch.offsets[instance + 1]]
        path, line = self.place(instance)
        return Document(tuple(words.vocabulary.decode(codes.tolist())), path=path, line=line)

    def with_columns(self, made: Mapping[str, Callable[[str], str]], storage: Storage) -> Corpus:
        """The same with more columns, each of which is a function of the word; they are kept in a storage.

        >>> corpus = corpus_of([Document(("a", "B", "A"))]).with_columns({"low": str.lower}, Storage(0))
        >>> corpus.batch.column("low").strings()
        ['a', 'b', 'a']
        """
        words, columns = self.batch.column("word"), dict(self.batch.columns)
        for name, function in made.items():
            numbers: dict[str, int] = {}
            of_word = [numbers.setdefault(function(one), len(numbers)) for one in words.vocabulary.names]
            table, codes = np.array(of_word, np.int32), storage.growing("i")
            for start in range(0, len(words.codes), AT_ONCE):
                codes.held.frombytes(table[words.codes[start : start + AT_ONCE]].tobytes())
                storage.settle()
            columns[name] = Column(codes.finished(), Vocabulary(numbers, kind=name))
        return replace(self, batch=replace(self.batch, columns=columns))

    def place(self, instance: int) -> tuple[str | None, int | None]:
        """File and line of an instance, as errors take them."""
        source, line = int(self.path_of[instance]), int(self.lines[instance])
        return (None if source < 0 else self.paths[source]), (line or None)


def corpus_of(
    sentences: Iterable[Document],
    *,
    label_names: Vocabulary | None = None,
    words: Vocabulary | None = None,
    storage: Storage | None = None,
) -> Corpus:
    """Code sentences as a batch, which is kept in a storage or, without one, in memory.

    With ``label_names`` a label outside it is an error that names file, line and the nearest labels; without, the
    labels found become the vocabulary, in order of first appearance. The same holds for ``words``. Every further
    column of the sentences becomes a column of the batch.

    >>> corpus = corpus_of([Document(("time", "flies"), ("NOUN", None)), Document(("stop",), ("VERB",))])
    >>> corpus.label_names.names, corpus.batch.labels.tolist(), corpus.batch.offsets.tolist()
    (('NOUN', 'VERB'), [0, -1, 1], [0, 2, 3])
    """
    place = Storage(UNBOUNDED) if storage is None else storage
    labels = _Coder("label", label_names, place)
    columns: dict[str, _Coder] = {}
    lengths, lines, path_of = array("q"), array("q"), array("i")
    paths: dict[str, int] = {}
    word = _Coder("word", words, place)
    for i, sentence in enumerate(sentences):
        if i == 0:
            columns = {name: _Coder(name, None, place) for name in sentence.columns}
            if "word" in columns:
                raise DataError("a column cannot be named 'word': that is the name of the words themselves")
        if sentence.columns.keys() != columns.keys():
            raise DataError(
                f"expected the columns {sorted(columns)} of the first sentence but found {sorted(sentence.columns)}",
                path=sentence.path,
                line=sentence.line,
            )
        word.add(sentence.tokens, sentence)
        labels.add(sentence.labels if sentence.labels is not None else (None,) * len(sentence), sentence)
        for name, coder in columns.items():
            coder.add(sentence.columns[name], sentence)
        lengths.append(len(sentence))
        lines.append(sentence.line or 0)
        path_of.append(-1 if sentence.path is None else paths.setdefault(sentence.path, len(paths)))
        if i % 1_000 == 0:
            place.settle()
    place.settle()
    batch = Batch(
        offsets=offsets_of(lengths),
        labels=labels.codes(),
        weights=np.ones(len(lengths)),
        columns={"word": word.column(), **{name: coder.column() for name, coder in columns.items()}},
    )
    return Corpus(
        batch=batch,
        label_names=labels.vocabulary(),
        paths=tuple(paths),
        path_of=np.frombuffer(path_of, dtype=np.int32) if path_of else np.empty(0, np.int32),
        lines=np.frombuffer(lines, dtype=np.int64) if lines else np.empty(0, np.int64),
    )


class _Coder:
    """Codes strings as they come, by a vocabulary given or one that grows."""

    def __init__(self, kind: str, given: Vocabulary | None, place: Storage) -> None:
        self.kind = kind
        self.given = given
        self._numbers: dict[str, int] = {}
        self._codes = place.growing("i")

    def add(self, strings: Iterable[str | None], sentence: Document) -> None:
        numbers, codes, given = self._numbers, self._codes, self.given
        if given is None:
            for string in strings:
                codes.append(UNKNOWN if string is None else numbers.setdefault(string, len(numbers)))
            return
        for slot, string in enumerate(strings):
            try:
                codes.append(UNKNOWN if string is None else given.number(string))
            except UnknownNameError as error:
                raise UnknownNameError(
                    error.kind, string, given.names, path=sentence.path, line=sentence.line_of(slot)
                ) from None

    def codes(self) -> LabelArray:
        return self._codes.finished()

    def vocabulary(self) -> Vocabulary:
        return self.given if self.given is not None else Vocabulary(self._numbers, kind=self.kind)

    def column(self) -> Column:
        return Column(self.codes(), self.vocabulary())
