"""Words as vectors: words that keep the same company in unlabelled text lie close together.

    n[w, (d, c)]   how often c, one of the most common words, stands d words after w,  d = −2, −1, 1, 2
    M[w, (d, c)] = max(0, log n[w, (d, c)] n / (n[w] m[(d, c)])),   m ∝ n[(d, c)]^¾, Σ m = n
    M ≈ U S Vᵀ,    vector of w = row w of U S^½, made of length 1

(positive pointwise mutual information, smoothed, and its first singular vectors: Levy, Goldberg and Dagan 2015).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from trellis.data.ragged import FloatArray
from trellis.engine.blas import blas_at_one_thread

SIZE = 100
CONTEXTS = 4000
WINDOW = (-2, -1, 1, 2)
SMOOTHING = 0.75


def word_vectors(
    texts: Iterable[Sequence[str]], *, min_count: int = 1, always: Iterable[str] = ()
) -> tuple[list[str], FloatArray]:
    """The words that occur so often, or are named, in lower case, and their vectors, (n_words, size); 0: no company.

    >>> texts = [["a", "cat", "sat"], ["a", "dog", "sat"], ["the", "cat", "ran"], ["the", "dog", "ran"]] * 2
    >>> words, vectors = word_vectors(texts)
    >>> alike = vectors @ vectors[words.index("cat")]
    >>> sorted(words, key=lambda w: -round(alike[words.index(w)], 9))[:2]
    ['cat', 'dog']
    """
    number: dict[str, int] = {}
    codes: list[int] = []
    for text in texts:
        codes.extend([number.setdefault(word.lower(), len(number)) for word in text])
        codes.extend([-1, -1])  # no window reaches from one text into the next
    flat = np.array(codes, np.int64)
    times = np.bincount(flat[flat >= 0], minlength=len(number))
    common = np.argsort(-times, kind="stable")[:CONTEXTS]
    context = np.full(len(number) + 1, -1)
    context[common] = np.arange(len(common))
    wanted = times >= min_count
    wanted[[number[word] for word in always if word in number]] = True
    kept = np.flatnonzero(wanted)
    row = np.full(len(number) + 1, -1)
    row[kept] = np.arange(len(kept))
    blocks = []
    for step in WINDOW:
        near, here = (flat[step:], flat[:-step]) if step > 0 else (flat[:step], flat[-step:])
        pairs = np.stack([row[here], context[near]])
        pairs = pairs[:, (pairs >= 0).all(axis=0)]
        shape = (len(kept), len(common))
        blocks.append(sparse.coo_array((np.ones(pairs.shape[1]), tuple(pairs)), shape).tocsr())
    counts = sparse.hstack(blocks).tocoo()
    names = list(number)
    return [names[i] for i in kept], _singular(_information(counts))


def _information(counts: sparse.coo_array) -> sparse.csr_array:
    of_word, of_context = counts.sum(axis=1), counts.sum(axis=0) ** SMOOTHING
    usual = of_word[counts.row] * (of_context / max(of_context.sum(), 1e-300))[counts.col]
    return sparse.csr_array((np.maximum(np.log(counts.data / usual), 0.0), (counts.row, counts.col)), counts.shape)


def _singular(matrix: sparse.csr_array) -> FloatArray:
    size = min(SIZE, min(matrix.shape) - 1)
    if size < 1 or matrix.nnz == 0:
        return np.zeros((matrix.shape[0], max(size, 1)))
    with blas_at_one_thread():  # else bits depend on the number of cores
        left, values, _ = svds(matrix, k=size, v0=np.random.default_rng(0).random(min(matrix.shape)))
    vectors = left * np.sqrt(np.maximum(values, 0.0))
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: FloatArray = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 1e-9)
    return found
