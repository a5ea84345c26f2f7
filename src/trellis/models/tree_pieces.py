"""Sentences too long for exact parsing: cut into pieces, whose trees are joined.

Scores of arcs take n² memory and the best tree n³ time. A sentence of more than :data:`LONGEST` words is cut into
pieces of at most :data:`PIECE` words, after punctuation where there is any. The root of the first piece is the root of
the sentence; the roots of the other pieces are its dependents. If the trees of the pieces are projective, so is the
whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from trellis.data.batch import Batch
from trellis.data.ragged import IntArray, LabelArray

LONGEST = 500
"""Words of a sentence that is parsed as a whole: some seconds for the slowest model."""
PIECE = 100
"""Words of the pieces of longer sentences."""


def cut_long(batch: Batch) -> IntArray:
    """(n_pieces + 1,): the offsets of the batch, and those of the pieces of long sentences."""
    long = np.flatnonzero(batch.lengths > LONGEST)
    if not len(long):
        return batch.offsets
    word = batch.column("word")
    is_punctuation = np.array([not any(map(str.isalnum, text)) for text in word.vocabulary], dtype=np.bool_)
    cuts: list[int] = []
    for i in long.tolist():
        at, end = int(batch.offsets[i]), int(batch.offsets[i + 1])
        while end - at > PIECE:
            ends = np.flatnonzero(is_punctuation[word.codes[at + PIECE // 2 : at + PIECE]])
            at += PIECE // 2 + int(ends[-1]) + 1 if len(ends) else PIECE
            cuts.append(at)
    return np.sort(np.concatenate((batch.offsets, np.array(cuts, dtype=np.int64))))


def join_heads(heads: LabelArray, pieces: IntArray, offsets: IntArray) -> LabelArray:
    """Heads of sentences from heads of their pieces, (n_words,) each."""
    if len(pieces) == len(offsets):
        return heads
    joined = heads.copy()
    for i in np.flatnonzero(np.diff(np.searchsorted(pieces, offsets)) > 1).tolist():
        begin, end = int(offsets[i]), int(offsets[i + 1])
        own = pieces[(pieces >= begin) & (pieces <= end)]
        first_of_piece = np.repeat(own[:-1] - begin, np.diff(own))
        # the last of several roots: arcs from it to later pieces cross no other arc
        root = int(np.flatnonzero(heads[begin : own[1]] == 0)[-1]) + 1
        is_root = heads[begin:end] == 0
        joined[begin:end] += np.where(is_root, 0, first_of_piece).astype(joined.dtype)
        joined[begin:end][is_root & (first_of_piece > 0)] = root
    return joined


def warn_of_long(lengths: IntArray, places: Sequence[tuple[str | None, int | None]] | None = None) -> None:
    """Warn, once for all sentences, that long ones are parsed in pieces; ``places`` : file and line of each."""
    long = np.flatnonzero(lengths > LONGEST).tolist()
    if not long:
        return
    path, line = (None, None) if places is None else places[long[0]]
    where = f"sentence {long[0]}" if path is None else path if line is None else f"line {line} of {path}"
    others = f" (and {len(long) - 1} more sentences)" if len(long) > 1 else ""
    warnings.warn(
        f"{where} has {int(lengths[long[0]])} words{others}: sentences of more than {LONGEST} words are parsed in "
        f"pieces of at most {PIECE} words; split the text into sentences",
        UserWarning,
        stacklevel=3,
    )
