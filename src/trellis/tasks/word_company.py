"""Classes of words that keep the same company, from text alone.

A word is described by how much more often than by chance each common word stands at each of four places around it
(positive pointwise mutual information), reduced to a few dimensions and cut into classes by k-means, coarse to fine. A
word that the labelling functions do not know then shares a class with those they do.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np

from trellis.data.ragged import FloatArray

PLACES = (-2, -1, 1, 2)
NEIGHBOURS = 2000
DIMENSIONS = 50
CLASSES = (30, 100, 300)
LEAST_COUNT = 2
WORDS_PER_CLASS = 5


def word_company(texts: Sequence[Sequence[str]], *, random_state: int | None = 0) -> dict[str, tuple[int, ...]]:
    """Word in lower case -> its class among 30, 100 and 300; rare words, and all of little text, have none."""
    counts = Counter(token.lower() for tokens in texts for token in tokens)
    words = [word for word, n in counts.most_common() if n >= LEAST_COUNT]
    if len(words) < WORDS_PER_CLASS * CLASSES[0]:
        return {}
    from scipy.cluster.vq import kmeans2

    vectors = _vectors(texts, words, [word for word, _ in counts.most_common(NEIGHBOURS)])
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of an empty class
        for k in CLASSES:
            k = min(k, len(words) // WORDS_PER_CLASS)
            seed = np.random.default_rng(random_state)
            found.append(kmeans2(vectors, k, iter=15, minit="points", seed=seed)[1].tolist())
    return dict(zip(words, zip(*found, strict=True), strict=True))


def _vectors(texts: Sequence[Sequence[str]], words: list[str], neighbours: list[str]) -> FloatArray:
    """(n_words, DIMENSIONS), of length 1 each."""
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import svds

    row, near = {w: i for i, w in enumerate(words)}, {w: i for i, w in enumerate(neighbours, 1)}
    edge = len(near) + 1
    n_columns = edge + 1
    rows: list[int] = []
    columns: list[int] = []
    for tokens in texts:
        lower = [token.lower() for token in tokens]
        mine, codes = [row.get(w, -1) for w in lower], [near.get(w, 0) for w in lower]
        for at, number in enumerate(mine):
            if number < 0:
                continue
            for place, step in enumerate(PLACES):
                inside = 0 <= at + step < len(lower)
                rows.append(number)
                columns.append(place * n_columns + (codes[at + step] if inside else edge))
    shape = (len(words), len(PLACES) * n_columns)
    table = csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    table.sum_duplicates()
    found = table.tocoo()
    by_row, by_column = table.sum(axis=1), table.sum(axis=0)
    information = np.log(found.data * table.sum() / (by_row[found.row] * by_column[found.col]))
    kept = information > 0
    positive = csr_array((information[kept], (found.row[kept], found.col[kept])), shape=shape)
    k = min(DIMENSIONS, min(shape) - 1)
    left, size, _ = svds(positive, k=k, v0=np.ones(min(shape)))
    order = np.argsort(-size)
    # The sign of a singular vector is anybody's choice: the largest entry is made positive.
    left = left[:, order] * np.sign(left[np.abs(left[:, order]).argmax(axis=0), order])
    vectors = left * np.sqrt(size[order])
    return np.asarray(vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9))
