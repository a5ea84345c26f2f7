"""WordVectors: static vectors of words as an encoder, with a small network over them or none."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.batch import Batch
from trellis.data.word_vectors import VectorTable, read_vectors
from trellis.errors import DataError
from trellis.neural.encoders import Encoder


class _VectorsHeader(TypedDict):
    """What a file keeps beside the arrays."""

    words: list[str]
    marked: bool


@dataclass(eq=False, repr=False)
class WordVectors(Encoder):
    """Static word vectors, from a word2vec or fastText text file or from the wordllama package.

    Words without a vector get the mean of the pieces that have one. The vectors are not trained.

    Parameters
    ----------
    path : path
        Text file of vectors, or "wordllama".
    window : int, default=1
        Neighbours on each side whose vectors are seen as well.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "vectors.txt")
    ...     _ = path.write_text("\\n".join(["dogs 1.0 0.0", "bark 0.0 1.0"]))
    ...     encoder = WordVectors(path, window=0).learned_from(None)
    >>> encoder.build()(Batch.from_sentences([["dogs", "bark"]])).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    path: Any
    _: KW_ONLY
    window: int = 1

    learned_names = _VectorsHeader
    not_saved = (*Encoder.not_saved, "path")

    @property
    def width(self) -> int:
        return self.table_.size * (2 * self.window + 1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "table_")

    def learn(self, batch: Batch) -> None:
        table = read_vectors(self.path)
        self.table_ = VectorTable(table.words, table.matrix.astype(np.float16), table.marked)

    def learned_from(self, batch: Batch) -> Self:
        if self.path is None:  # it comes from a file, which holds the table
            return copy.copy(self)
        return super().learned_from(batch)

    def plain(self) -> Self:
        return copy.copy(self)

    def build(self) -> Any:
        return Vectors(self.table_, self.window)

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        return {"words": list(self.table_.words), "marked": self.table_.marked}, {"vectors": self.table_.matrix}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.path = None
        self._check_settings()
        table = {"vectors": ArrayOf(np.float16, ("words", "size"))}
        checked = check_arrays(table, arrays, words=len(names["words"]))["vectors"]
        if not checked.size:
            raise DataError("it has no word vectors")
        self.table_ = VectorTable(names["words"], checked, bool(names["marked"]))

    def _check_settings(self) -> None:
        self._check_whole(window=0)
        self._check_within(window=(0, 10))


class Vectors(nn.Module):
    """The network of :class:`WordVectors`: it has no parameters of its own but a place."""

    pretrained = True

    def __init__(self, table: VectorTable, window: int) -> None:
        super().__init__()
        self.table, self.window = table, window
        self.known: tuple[Any, Any] | None = None
        self.register_buffer("place", torch.zeros(()), persistent=False)

    def __deepcopy__(self, memo: Any) -> Vectors:
        made = Vectors(self.table, self.window)
        made.known = self.known
        return made.to(self.place.device)

    def forward(self, batch: Batch) -> Any:
        column = batch.column("word")
        if self.known is None or self.known[0] is not column.vocabulary:
            vectors = torch.from_numpy(self.table.of(column.vocabulary.names).astype(np.float32))
            self.known = column.vocabulary, vectors
        own = self.known[1][torch.from_numpy(column.codes.astype(np.int64))].to(self.place.device, non_blocking=True)
        if not self.window:
            return own
        sentence = torch.from_numpy(np.repeat(np.arange(len(batch)), batch.lengths)).to(own.device)
        return torch.cat([_moved(own, sentence, step) for step in range(-self.window, self.window + 1)], dim=1)


def _moved(rows: Any, sentence: Any, step: int) -> Any:
    """The row ``step`` places on in the same sentence, zeros outside of it."""
    found = torch.roll(rows, -step, 0)
    same = torch.roll(sentence, -step, 0) == sentence
    if step:
        ends = torch.arange(len(rows), device=rows.device)
        same &= (ends + step >= 0) & (ends + step < len(rows))
    return torch.where(same[:, None], found, torch.zeros_like(found))
