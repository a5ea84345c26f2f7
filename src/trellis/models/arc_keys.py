"""Words and tags as random 64-bit keys, the same in every run and on every machine: what hashed features are made
of."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

import numpy as np

from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.models.kernels.arc_features import ArcText
from trellis.structures import TreeParts

LETTERS = 3
"""A rare word is known by so many letters at its end."""


def text_of(batch: Batch, parts: TreeParts, frequent: Vocabulary, bits: int, *, lexical: bool = True) -> ArcText:
    """What kernels read of a batch."""
    words, tags = batch.column("word"), batch.column("upos")
    return ArcText(
        batch.offsets, parts.arc_offsets, words.codes, tags.codes, word_keys(words.vocabulary, frequent),
        tag_keys(tags.vocabulary), bool(lexical), np.uint64(64 - bits),
    )  # fmt: skip


@lru_cache(maxsize=16)
def word_keys(words: Vocabulary, frequent: Vocabulary) -> np.ndarray:
    """A key for every word of a vocabulary: frequent words by themselves, others by how they end; case is ignored."""
    folded = (word.lower() for word in words)
    return np.array([key_of(f"w{w}" if w in frequent else f"s{w[-LETTERS:]}") for w in folded], dtype=np.uint64)


@lru_cache(maxsize=16)
def tag_keys(tags: Vocabulary) -> np.ndarray:
    """A key for every tag."""
    return np.array([key_of(f"t{tag}") for tag in tags], dtype=np.uint64)


def key_of(text: str) -> int:
    """A random-looking number of 64 bits."""
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
