"""Sentence pairs: reading them from one file or two, and coding their words as numbers.

Words are coded by their first ``prefix`` letters in lower case: the tables of an alignment model learn about
*Parlement* and *parlementaires* together, which rare words need (docs/alignment.md gives the figures). Words with a
digit in them stay whole.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from trellis.data.checks import check_list, is_list, is_whole, sides_of
from trellis.data.files import FilePath, numbered_lines, shown
from trellis.data.ragged import IntArray, LabelArray
from trellis.data.storage import UNBOUNDED, Storage
from trellis.data.tables import is_table, table_rows
from trellis.data.text import words_of
from trellis.errors import DataError

Pair = tuple[list[str], list[str]]

SEPARATOR = "|||"
LONGEST = 256
"""No side of a pair that is aligned as a whole has more words; longer pairs are cut (see ``cut_long_pairs``)."""

MOST_REMEMBERED = 1_000_000
"""Whole words of new text whose number is remembered."""


def read_two_files(source: FilePath, target: FilePath) -> Iterator[Pair]:
    """Pairs of lines with the same number; files of unequal length are a DataError that gives both lengths."""
    number = 0
    ended = object()
    lines = zip_longest(numbered_lines(source), numbered_lines(target), fillvalue=ended)
    for number, (left, right) in enumerate(lines, 1):
        if left is ended or right is ended:
            short, long = (source, target) if left is ended else (target, source)
            n_long = number + sum(1 for _ in lines)
            raise DataError(
                f"{shown(short)} has {number - 1} lines but {shown(long)} has {n_long}; each line of one file must "
                "correspond to the same line of the other"
            )
        yield words_of(left[1]), words_of(right[1])  # type: ignore[index]


def read_joined_file(path: FilePath) -> Iterator[Pair]:
    """Pairs ``source ||| target`` or ``source TAB target``, or a table with these columns."""
    if is_table(path):
        for number, row in table_rows(path):
            if not {"source", "target"} <= row.keys():
                message = f"expected the columns 'source' and 'target' but found {list(row)}"
                raise DataError(message, path=shown(path), line=number)
            yield words_of(row["source"] or ""), words_of(row["target"] or "")
        return
    for number, line in numbered_lines(path):
        try:
            pair = joined_pair(line)
        except DataError as error:
            raise DataError(str(error), path=shown(path), line=number) from None
        yield pair


def joined_pair(line: str) -> Pair:
    """The words of a line ``source ||| target`` or ``source TAB target``; an empty line is an empty pair."""
    if f" {SEPARATOR} " in f" {line} ":
        parts = f" {line} ".split(f" {SEPARATOR} ")
    elif "\t" in line:
        parts = line.split("\t")
    elif not line.strip():
        parts = ["", ""]
    else:
        raise DataError(f"no ' {SEPARATOR} ' and no tab between source and target")
    if len(parts) != 2:
        raise DataError(f"{len(parts)} parts where source and target are expected")
    return words_of(parts[0]), words_of(parts[1])


def check_links(links: Any) -> list[list[tuple[int, int]]]:
    """Links of each sentence pair, (i, j) from 0."""
    made = []
    for number, own in enumerate(check_list(links, "lists of links, one for each sentence pair")):
        pairs = list(check_list(own, f"links (i, j) for pair {number}"))
        for link in pairs:
            if not (is_list(link) and len(link) == 2 and is_whole(link[0]) and is_whole(link[1])):
                raise DataError(f"pair {number} has the link {link!r:.80}: expected two whole numbers, (i, j) from 0")
        made.append([(int(i), int(j)) for i, j in pairs])
    return made


class WordCodes(dict[str, int]):
    """Numbers of words by their first letters in lower case; ``names`` are the beginnings that have a number.

    stems : numbers by fewer letters; once frozen, a new word has the number −2 − s where its stem s has one

    >>> codes = WordCodes(5)
    >>> [codes[word] for word in ["Parlement", "le", "parlementaires", "1998-1999", "1998-1997"]]
    [0, 1, 0, 2, 3]
    >>> codes.freeze()
    >>> codes["inconnu"]
    -1
    """

    def __init__(self, prefix: int | None, names: Iterable[str] = (), stems: WordCodes | None = None) -> None:
        super().__init__()
        self.prefix = prefix
        self.stems = stems
        self.frozen = False
        self.names: list[str] = []
        self._number: dict[str, int] = {}
        for name in names:
            self._number[name] = len(self.names)
            self.names.append(name)

    def freeze(self) -> None:
        """Give out no new number from now on, and forget the whole words of the text that gave the old ones."""
        self.frozen = True
        self.clear()

    def find(self, word: str) -> int:
        """The number of a word, −1 if it has none; gives out no new one."""
        return self._number.get(self._start(word), -1)

    def _start(self, word: str) -> str:
        if self.prefix is None:
            return word
        word = word.lower()
        return word if any(c.isdigit() for c in word) else word[: self.prefix]

    def __missing__(self, word: str) -> int:
        start = self._start(word)
        number = self._number.get(start)
        if number is None:
            if self.frozen:
                return -1 if self.stems is None else _beyond(self.stems.find(word))
            number = len(self.names)
            self._number[start] = number
            self.names.append(start)
        if self.frozen and len(self) >= MOST_REMEMBERED:
            self.clear()  # of a text without end
        self[word] = number
        return number


def _beyond(stem: int) -> int:
    return -1 if stem < 0 else -2 - stem


@dataclass(frozen=True)
class Bitext:
    """Coded sentence pairs, cut into pieces where they are too long.

    source, target : (n_tokens,) codes, below 0 for a word without one (:class:`WordCodes`)
    source_offsets, target_offsets : (n_pieces + 1,)
    pieces : (n_pairs + 1,) first piece of each pair
    """

    source: LabelArray
    source_offsets: IntArray
    target: LabelArray
    target_offsets: IntArray
    pieces: IntArray

    def __len__(self) -> int:
        return len(self.pieces) - 1

    @property
    def n_empty(self) -> int:
        """Pairs with no words on at least one side: they get no links."""
        lengths = [np.diff(offsets[self.pieces]) for offsets in (self.source_offsets, self.target_offsets)]
        return int(np.count_nonzero((lengths[0] == 0) | (lengths[1] == 0)))


def code_pairs(
    pairs: Iterable[Pair | Sequence[Sequence[str]]],
    source: WordCodes,
    target: WordCodes,
    storage: Storage | None = None,
) -> Bitext:
    """Code the words of pairs and cut pairs that are too long; storage : where the codes are kept, None: in memory.

    >>> bitext = code_pairs([(["a", "b"], ["x"]), ([], ["x"])], WordCodes(None), WordCodes(None))
    >>> bitext.source.tolist(), bitext.source_offsets.tolist(), bitext.target.tolist(), bitext.n_empty
    ([0, 1], [0, 2, 2], [0, 0], 1)
    """
    place = Storage(UNBOUNDED) if storage is None else storage
    sides = place.growing("i"), place.growing("i")
    ends = array("q", [0]), array("q", [0])
    for number, (left, right) in enumerate(pairs):
        sides[0].extend(map(source.__getitem__, left))
        sides[1].extend(map(target.__getitem__, right))
        ends[0].append(len(sides[0]))
        ends[1].append(len(sides[1]))
        if number % 1_000 == 0:
            place.settle()
    place.settle()
    cut = cut_long_pairs(np.frombuffer(ends[0], np.int64), np.frombuffer(ends[1], np.int64))
    return Bitext(sides[0].finished(), cut[0], sides[1].finished(), cut[1], cut[2])


def cut_long_pairs(source: IntArray, target: IntArray, longest: int = LONGEST) -> tuple[IntArray, IntArray, IntArray]:
    """Offsets of pieces: a pair with a side of more than ``longest`` words is cut on both sides at equal shares.

    The number of pieces is the least that brings both sides down to ``longest``; words of different pieces are never
    linked. Time and memory of a pair then grow with its length and not with the square or the cube of it.

    >>> [a.tolist() for a in cut_long_pairs(np.array([0, 3, 13]), np.array([0, 2, 7]), longest=4)]
    [[0, 3, 6, 9, 13], [0, 2, 3, 5, 7], [0, 1, 4]]
    """
    lengths = np.maximum(np.diff(source), np.diff(target))
    counts = np.maximum(1, -(-lengths // longest))
    pieces = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    if int(pieces[-1]) == len(lengths):
        return source, target, pieces
    pair = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(pair)) - pieces[pair]
    new = []
    for offsets in (source, target):
        starts = offsets[pair] + number * (offsets[pair + 1] - offsets[pair]) // counts[pair]
        new.append(np.concatenate((starts, offsets[-1:])).astype(np.int64))
    return new[0], new[1], pieces


def each_pair(pairs: Any) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """The words of both sentences of each pair, given as strings or as lists of words."""
    for number, pair in enumerate(check_list(pairs, "sentence pairs")):
        sides = sides_of(pair)
        if len(sides) != 2:
            raise DataError(f"pair {number} is {pair!r:.80}: expected two sentences, (source, target)")
        yield _words(sides[0], number), _words(sides[1], number)


def _words(text: Any, number: int) -> Sequence[str]:
    if isinstance(text, str):
        return words_of(text)
    if not is_list(text) or not (set(map(type, text)) <= {str} or all(isinstance(word, str) for word in text)):
        raise DataError(f"pair {number} has {text!r:.80}: expected a sentence as a string or a list of words")
    return text  # type: ignore[no-any-return]
