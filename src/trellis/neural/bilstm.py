"""BiLSTM: words and their characters, trained from scratch.

x_t = [word embedding; character CNN of the word; tag embedding; given vector],     h = BiLSTM(x)
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from trellis.data.batch import Batch, Column
from trellis.errors import DataError
from trellis.models.saving import members_from_archive, members_to_archive
from trellis.models.state import InnerHeader
from trellis.neural.encoders import Encoder
from trellis.neural.vectors import WordVectors

UNKNOWN, FIRST = 0, 1
"""The number of words and characters that training has not seen, and that of the first which it has."""
LONGEST = 24
"""Characters of a word that are looked at: of longer words the first and the last ones."""


class _BiLSTMHeader(TypedDict):
    """What a file keeps beside the arrays."""

    words: list[str]
    chars: str
    tags: list[str]
    vectors: InnerHeader | None


@dataclass(eq=False, repr=False, kw_only=True)
class BiLSTM(Encoder):
    """Bidirectional LSTM over embeddings of words and their characters, trained from scratch.

    Parameters
    ----------
    word_size : int, default=100
        Size of word embeddings. 0: none.
    char_size : int, default=50
        Number of filters of the convolution over characters. 0: none.
    tag_size : int, default=0
        Size of embeddings of tags. 0: none.
    tag_column : str, default="upos"
        Column of the tags.
    hidden : int, default=200
        Size of each direction of the LSTM.
    layers : int, default=2
        Number of layers.
    dropout : float, default=0.33
        Dropout of embeddings and between layers; the same units for a whole sentence.
    word_dropout : float, default=0.05
        Share of the words that training replaces by the unknown word.
    min_count : int, default=2
        Words that occur less often are unknown; their characters are looked at all the same.
    vectors : WordVectors or None, default=None
        Static vectors that are added to the embeddings, and are not trained.

    Examples
    --------
    >>> from trellis.data.batch import Batch
    >>> batch = Batch.from_sentences([["dogs", "bark"]])
    >>> encoder = BiLSTM(hidden=4, layers=1, min_count=1).learned_from(batch)
    >>> tuple(encoder.build()(batch).shape)
    (2, 8)
    """

    word_size: int = 100
    char_size: int = 50
    tag_size: int = 0
    tag_column: str = "upos"
    hidden: int = 200
    layers: int = 2
    dropout: float = 0.33
    word_dropout: float = 0.05
    min_count: int = 2
    vectors: Any = None

    learned_names = _BiLSTMHeader
    not_saved = (*Encoder.not_saved, "vectors")

    @property
    def width(self) -> int:
        return 2 * self.hidden

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "words_")

    def learn(self, batch: Batch) -> None:
        counts = Counter(word.lower() for word in batch.column("word").strings())
        self.words_ = sorted(word for word, n in counts.items() if n >= self.min_count)
        characters = Counter(c for word in set(batch.column("word").strings()) for c in word)
        self.chars_ = "".join(sorted(c for c, n in characters.items() if n >= min(self.min_count, 2)))
        self.tags_ = sorted(set(batch.column(self.tag_column).strings())) if self.tag_size else []
        self.vectors_ = None
        if self.vectors is not None:
            self.vectors_ = self.vectors.learned_from(batch)

    def build(self) -> Any:
        return WordLSTM(self)

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        header, arrays = members_to_archive({"vectors": self.vectors_})
        names = {"words": self.words_, "chars": self.chars_, "tags": self.tags_}
        return {**names, "vectors": header.get("vectors")}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        self.words_, self.chars_, self.tags_ = list(names["words"]), str(names["chars"]), list(names["tags"])
        self.vectors_ = members_from_archive(names, arrays, {"vectors": WordVectors})["vectors"]
        self.vectors = None if self.vectors_ is None else self.vectors_.plain()
        for what, known in (("words", self.words_), ("characters", self.chars_), ("tags", self.tags_)):
            if len(set(known)) != len(known):
                raise DataError(f"it names {what} twice")

    def _check_settings(self) -> None:
        self._check_whole(word_size=0, char_size=0, tag_size=0, hidden=1, layers=1, min_count=1)
        self._check_within(layers=(1, 32), dropout=(0.0, 0.9), word_dropout=(0.0, 0.9))
        if self.vectors is not None and not isinstance(self.vectors, WordVectors):
            raise DataError(f"vectors must be a WordVectors, got {self.vectors!r:.80}")
        if not (self.word_size or self.char_size or self.tag_size or self.vectors is not None):
            raise DataError("an encoder needs word_size, char_size, tag_size or vectors as input")


class WordLSTM(nn.Module):
    """The network of a :class:`BiLSTM`."""

    def __init__(self, encoder: BiLSTM) -> None:
        super().__init__()
        self.word_number = {word: FIRST + i for i, word in enumerate(encoder.words_)}
        self.char_number = {c: FIRST + i for i, c in enumerate(encoder.chars_)}
        self.tag_number = {tag: FIRST + i for i, tag in enumerate(encoder.tags_)}
        self.tag_column = encoder.tag_column
        self.dropout, self.word_dropout = encoder.dropout, encoder.word_dropout
        size = 0
        self.word: Any = None
        self.char: Any = None
        self.tag: Any = None
        if encoder.word_size:
            self.word, size = Lookup(FIRST + len(self.word_number), encoder.word_size), size + encoder.word_size
        if encoder.char_size:
            # the last number is the blank around a word
            self.char, size = (
                CharacterCNN(FIRST + 1 + len(self.char_number), encoder.char_size),
                size + encoder.char_size,
            )
        if encoder.tag_size:
            self.tag, size = Lookup(FIRST + len(self.tag_number), encoder.tag_size), size + encoder.tag_size
        self.fixed: Any = None
        if encoder.vectors_ is not None:
            self.fixed = encoder.vectors_.build()
            size += encoder.vectors_.width
        sizes = [size, *[2 * encoder.hidden] * (encoder.layers - 1)]
        self.lstm = nn.ModuleList(nn.LSTM(n, encoder.hidden, bidirectional=True, batch_first=True) for n in sizes)
        self.tables: dict[str, tuple[Any, Any]] = {}

    def __deepcopy__(self, memo: Any) -> WordLSTM:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update({k: copy.deepcopy(v, memo) for k, v in self.__dict__.items() if k not in SHARED})
        made.__dict__.update({k: self.__dict__[k] for k in SHARED})
        made.tables = {}
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "tables": {}}

    def forward(self, batch: Batch) -> Any:
        device = self.lstm[0].weight_ih_l0.device
        lengths = batch.lengths
        found = []
        if self.word is not None:
            words = self._numbers("word", batch.column("word"), self._word_numbers)
            if self.training and self.word_dropout:
                lost = torch.rand(len(words)) < self.word_dropout
                words = torch.where(lost, UNKNOWN, words)
            found.append(self.word(words.to(device, non_blocking=True)))
        if self.char is not None:
            # Words are spelt once each.
            column = batch.column("word")
            distinct, place = np.unique(column.codes, return_inverse=True)
            spelt = self._numbers("char", Column(distinct, column.vocabulary), self._char_numbers)
            vectors = self.char(spelt.to(device, non_blocking=True))
            found.append(vectors[torch.from_numpy(place).to(device, non_blocking=True)])
        if self.tag is not None:
            tags = self._numbers("tag", batch.column(self.tag_column), self._tag_numbers)
            found.append(self.tag(tags.to(device, non_blocking=True)))
        if self.fixed is not None:
            found.append(self.fixed(batch))
        return self._recur(torch.cat(found, dim=1), lengths, device)

    def _recur(self, rows: Any, lengths: Any, device: Any) -> Any:
        """(n_slots, width) through all layers, padded on the way."""
        filled = lengths[lengths > 0]
        n, longest = len(filled), int(filled.max())
        place = np.repeat(np.arange(n) * longest - (np.cumsum(filled) - filled), filled) + np.arange(len(rows))
        at = torch.from_numpy(place).to(device, non_blocking=True)
        padded = rows.new_zeros(n * longest, rows.shape[1]).index_copy(0, at, rows).reshape(n, longest, -1)
        sizes = torch.from_numpy(filled)
        for layer in self.lstm:
            packed = pack_padded_sequence(self._drop(padded), sizes, batch_first=True, enforce_sorted=False)
            padded = pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=longest)[0]
        return self._drop(padded).reshape(n * longest, -1)[at]

    def _drop(self, padded: Any) -> Any:
        """Dropout of the same units in all words of a sentence."""
        if not self.training or not self.dropout:
            return padded
        kept = torch.bernoulli(padded.new_full((padded.shape[0], 1, padded.shape[2]), 1.0 - self.dropout))
        return padded * kept / (1.0 - self.dropout)

    def _numbers(self, name: str, column: Column, make: Any) -> Any:
        """Numbers of the slots, through a table of the column's vocabulary that is made once."""
        known = self.tables.get(name)
        if known is None or known[0] is not column.vocabulary:
            known = column.vocabulary, torch.from_numpy(make(column.vocabulary.names))
            self.tables[name] = known
        return known[1][torch.from_numpy(column.codes.astype(np.int64))]

    def _word_numbers(self, words: Any) -> NDArray[Any]:
        return np.array([self.word_number.get(word.lower(), UNKNOWN) for word in words], dtype=np.int64)

    def _tag_numbers(self, tags: Any) -> NDArray[Any]:
        return np.array([self.tag_number.get(tag, UNKNOWN) for tag in tags], dtype=np.int64)

    def _char_numbers(self, words: Any) -> NDArray[Any]:
        blank = FIRST + len(self.char_number)
        found = np.full((len(words), LONGEST), blank, dtype=np.int64)
        for row, word in zip(found, words, strict=True):
            short = word if len(word) <= LONGEST else word[: LONGEST // 2] + word[-LONGEST // 2 :]
            row[: len(short)] = [self.char_number.get(c, UNKNOWN) for c in short]
        return found


SHARED = ("word_number", "char_number", "tag_number")
"""Attributes of a :class:`WordLSTM` that never change, and that its copies share."""


class Lookup(nn.Embedding):
    """Embeddings that begin small."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.1)


class CharacterCNN(nn.Module):
    """(n, LONGEST) characters -> (n, size): the largest of each filter over windows of three characters."""

    def __init__(self, n_characters: int, size: int) -> None:
        super().__init__()
        self.embedding = Lookup(n_characters, 32)
        self.filters = nn.Conv1d(32, size, 3, padding=1)

    def forward(self, characters: Any) -> Any:
        return torch.relu(self.filters(self.embedding(characters).transpose(1, 2)).amax(dim=2))
