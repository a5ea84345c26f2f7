"""Static word vectors: a table from a word2vec or fastText text file, or those of the wordllama package.

A word that the table does not have is lower-cased, then cut into pieces that it has (from the left, the longest first),
whose vectors are averaged; a word without any piece has a vector of zeros.

    text files      "word 0.1 -0.2 ...", a line for each word; a first line of two numbers is skipped
    wordllama       16 MB within the wheel, 32,000 pieces of words, 256 numbers each (pip install wordllama)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.files import FilePath, text_of
from trellis.errors import DataError

SHORTEST = 3
"""Characters of a piece inside a word; single ones and pairs say too little."""
START = "\u2581"
"""How pieces begin in wordllama's table that begin a word."""
FloatTable = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class VectorTable:
    """Vectors by word.

    matrix : (n_words, size);  marked : whether pieces that begin a word are marked

    >>> table = VectorTable(["foot", "ball"], np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> table.of(["Foot", "football", "zzz"]).tolist()
    [[1.0, 0.0], [0.5, 0.5], [0.0, 0.0]]
    """

    words: Sequence[str]
    matrix: FloatTable
    marked: bool = False
    number: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", {word: i for i, word in reversed(list(enumerate(self.words)))})

    @property
    def size(self) -> int:
        return int(self.matrix.shape[1])

    def of(self, words: Sequence[str]) -> NDArray[np.float64]:
        """(n, size): the vectors of these words."""
        found = np.zeros((len(words), self.size))
        for row, word in zip(found, words, strict=True):
            pieces = self.pieces(word)
            if pieces:
                row[:] = self.matrix[pieces].astype(np.float64).mean(axis=0)
        return found

    def pieces(self, word: str) -> list[int]:
        """The numbers of the entries whose vectors make that of a word."""
        begin = START if self.marked else ""
        for form in (word, word.lower()):
            if begin + form in self.number:
                return [self.number[begin + form]]
        found, low = [], word.lower()
        at, shortest = 0, 1 if self.marked else SHORTEST
        while at < len(low):
            for end in range(len(low), at + shortest - 1, -1):
                piece = self.number.get((begin if at == 0 else "") + low[at:end])
                if piece is None and at == 0:
                    piece = self.number.get(low[at:end])
                if piece is not None:
                    found.append(piece)
                    at = end
                    break
            else:
                at += 1
        return found


def read_vectors(path: FilePath) -> VectorTable:
    """The vectors of a text file, or "wordllama" for those of that package."""
    if path == "wordllama":
        return _wordllama()
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    size = 0
    for number, line in enumerate(text_of(path).splitlines(), 1):
        word, *numbers = line.rstrip().rsplit(" ") if size == 0 else line.rstrip().rsplit(" ", size)
        if number == 1 and len(numbers) == 1 and word.isdigit() and numbers[0].isdigit():
            continue
        try:
            row = np.array(numbers, dtype=np.float32)
        except ValueError:
            row = np.zeros(0, dtype=np.float32)
        if not len(row) or (size and len(row) != size) or not np.all(np.isfinite(row)):
            raise DataError(
                "expected a word and its vector, of the same length in every line", path=str(path), line=number
            )
        size = len(row)
        words.append(word)
        rows.append(row)
    if not words:
        raise DataError("there are no word vectors in it", path=str(path))
    return VectorTable(words, np.stack(rows))


def _wordllama() -> VectorTable:
    found = find_spec("wordllama")
    if found is None or found.origin is None:
        raise DataError("the vectors of wordllama need that package: pip install wordllama")
    folder = Path(found.origin).parent
    weights = sorted(folder.glob("weights/*_256.safetensors"))
    tokenizers = sorted(folder.glob("tokenizers/*tokenizer_config.json"))
    if not weights or not tokenizers:
        raise DataError("this version of wordllama has no vectors of 256 numbers: pip install wordllama==0.4")
    with open(weights[0], "rb") as handle:
        (n,) = struct.unpack("<Q", handle.read(8))
        ((_, info),) = [one for one in json.loads(handle.read(n)).items() if one[0] != "__metadata__"]
        matrix = np.frombuffer(handle.read(), dtype=np.float16).reshape(info["shape"])
    vocabulary = json.loads(tokenizers[0].read_text(encoding="utf-8"))["model"]["vocab"]
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    if len(words) != len(matrix):
        raise DataError(f"wordllama's tokenizer has {len(words)} pieces, but there are {len(matrix)} vectors")
    return VectorTable(words, matrix, marked=True)


@dataclass(frozen=True)
class VectorFeatures:
    """Vectors as features of a CRF: the numbers of the word at a place, by name, for ``CRF(features=...)`` and
    ``Extractor(features=...)``.

    table : the vectors;  scale : what they are multiplied by, after a division by their mean norm

    >>> VectorFeatures(VectorTable(["cat"], np.array([[3.0, 4.0]])))(["cat", "zzz"], 0)
    {'v0': 0.6, 'v1': 0.8}
    """

    table: VectorTable
    scale: float = 1.0
    memo: dict[str, dict[str, float]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __call__(self, sentence: Sequence[Any], at: int) -> dict[str, float]:
        token = sentence[at]
        word = token if isinstance(token, str) else token["word"]
        if word not in self.memo:
            vector = self.table.of([word])[0] * (self.scale / self._norm())
            self.memo[word] = {f"v{i}": value for i, value in enumerate(vector.tolist())}
        return self.memo[word]

    def _norm(self) -> float:
        if "" not in self.memo:
            norms = np.linalg.norm(self.table.matrix[:20_000].astype(np.float64), axis=1)
            self.memo[""] = {"norm": float(norms.mean()) or 1.0}
        return self.memo[""]["norm"]
