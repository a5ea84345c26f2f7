"""Constraints from data: discriminative features with target expectations, to be reviewed before use.

What is known are a few labelled instances, or lists of words that usually have a label, and much unlabelled text that
says which features are worth a target. Of feature f, seen n_f times in all text and n_fk times with label k,

    target_k = (n_fk + s p_k) / (n_f· + s)        p_k: the share of k among labelled tokens;  s: ``smoothing``
    worth of f = n_f KL(target ‖ p)               how much is said, of how many tokens

and each label gets the features of most worth among those that point to it most. A word that is listed for a label has
``listed`` of its target there, as users of such constraints have found to do (Druck et al. 2008; Schapire et al. 2002).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from trellis.constraints.shares import FEATURE, WORD, Target
from trellis.data.checks import check_label_lists, check_list
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.tokens import check_text
from trellis.errors import DataError, check_name
from trellis.models.sequence import check_sentences
from trellis.models.tabular import check_matrix

LISTED = 0.9


def propose_targets(
    texts: Sequence[Sequence[str]],
    labels: Sequence[Sequence[str | None] | None] | None = None,
    *,
    words: Mapping[str, str | Sequence[str]] | None = None,
    names: Sequence[str] | None = None,
    per_label: int = 10,
    min_count: int = 5,
    smoothing: float = 1.0,
    listed: float = LISTED,
) -> list[Target]:
    """Propose discriminative words and their target expectations.

    Parameters
    ----------
    texts : list
        All texts, each a list of tokens.
    labels : list or None, default=None
        Labels of the texts, None where unknown.
    words : dict or None, default=None
        Usual label, or labels, of words.
    names : list of str or None, default=None
        All labels, if some do not occur.
    per_label : int, default=10
        Number of words per label.
    min_count : int, default=5
        Minimum number of occurrences of a word.
    smoothing : float, default=1.0
        Pseudo-count of each label.
    listed : float, default=0.9
        Expected proportion of the usual label of a word in ``words``.

    Returns
    -------
    list of Target
        Targets, to be written with :func:`write_targets` or used as constraints.

    Examples
    --------
    >>> texts = [["the", "dog"], ["the", "cat"], ["a", "dog"], ["the", "dog"]]
    >>> found = propose_targets(texts, [["D", "N"], None, None, None], words={"a": "D"}, min_count=1, per_label=2)
    >>> [(one.name, one.count, max(one.shares, key=one.shares.get)) for one in found]
    [('a', 1, 'D'), ('the', 3, 'D'), ('dog', 3, 'N')]
    """
    texts, labels = check_sentences(texts), check_label_lists(labels)
    tokens = [token for text in texts for token in text]
    for token in tokens:
        check_text(token)
    known: list[str | None] = [None] * len(tokens)
    if labels is not None:
        if len(labels) != len(texts):
            raise DataError(f"there are {len(texts)} texts but labels for {len(labels)}")
        known = [k for t, y in zip(texts, labels, strict=True) for k in (y if y is not None else [None] * len(t))]
        if len(known) != len(tokens):
            raise DataError(
                f"there are {len(tokens)} tokens but {len(known)} labels: give one for each, None if unknown"
            )
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    codes = np.array([vocabulary[token] for token in tokens], dtype=np.int64)
    matrix = sparse.csr_array((np.ones(len(codes)), (np.arange(len(codes)), codes)), (len(codes), len(vocabulary)))
    seeds = {word: [given] if isinstance(given, str) else list(given) for word, given in (words or {}).items()}
    said = {vocabulary[word]: given for word, given in seeds.items() if word in vocabulary}
    found = _proposed(
        matrix, known, said, names, per_label=per_label, min_count=min_count, smoothing=smoothing, listed=listed
    )
    spelt = list(vocabulary)
    return [Target(WORD, spelt[number], n, shares) for number, n, shares in found]


def propose_features(
    X: Any, y: Sequence[Any] | None = None, *, per_label: int = 10, min_count: int = 5, smoothing: float = 1.0
) -> list[Target]:
    """Propose discriminative features of a matrix and their target expectations.

    Parameters
    ----------
    X : array or sparse matrix
        Feature vectors.
    y : list or None, default=None
        Labels, None where unknown.
    per_label : int, default=10
        Number of features per label.
    min_count : int, default=5
        Minimum number of rows in which a feature is not 0.
    smoothing : float, default=1.0
        Pseudo-count of each label.

    Returns
    -------
    list of Target
        Targets, to be used as constraints.
    """
    matrix = sparse.csr_array(check_matrix(X, not_negative=False, name="propose_features"))
    matrix = sparse.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), matrix.shape)
    known = [None] * matrix.shape[0] if y is None else [None if k is None else str(k) for k in check_list(y, "labels")]
    if len(known) != matrix.shape[0]:
        raise DataError(f"there are {matrix.shape[0]} rows but {len(known)} labels")
    found = _proposed(
        matrix, known, {}, None, per_label=per_label, min_count=min_count, smoothing=smoothing, listed=LISTED
    )
    return [Target(FEATURE, str(number), n, shares) for number, n, shares in found]


def _proposed(
    matrix: Any,
    known: Sequence[str | None],
    said: Mapping[int, Sequence[str]],
    names: Sequence[str] | None,
    *,
    per_label: int,
    min_count: int,
    smoothing: float,
    listed: float,
) -> list[tuple[int, int, dict[str, float]]]:
    """Feature, count and shares, label by label and the most worth first."""
    seen = [k for k in known if k is not None]
    if not seen and not said:
        raise DataError("the text contains no labelled word: give labelled texts, or words that occur in it")
    every = list(names or sorted({*seen, *(k for given in said.values() for k in given)}))
    if len(every) < 2:
        raise DataError("targets need at least two labels: give labelled texts, or words with labels")
    for k in (*seen, *(k for given in said.values() for k in given)):
        check_name("label", k, every)
    code = {name: number for number, name in enumerate(every)}
    rows = np.array([i for i, k in enumerate(known) if k is not None], dtype=np.int64)
    of_row: IntArray = np.array([code[k] for k in seen], dtype=np.int64)
    indicator = sparse.csr_array((np.ones(len(rows)), (of_row, np.arange(len(rows)))), (len(every), len(rows)))
    with_label = (
        np.asarray((indicator @ matrix[rows]).todense()) if len(rows) else np.zeros((len(every), matrix.shape[1]))
    )
    total = np.asarray(matrix.sum(axis=0)).ravel()
    prior = (np.bincount(of_row, minlength=len(every)) + 1.0) / (len(rows) + len(every))
    target: FloatArray = (with_label.T + smoothing * prior) / (with_label.sum(axis=0) + smoothing)[:, None]
    for number, given in said.items():
        mine = np.isin(np.arange(len(every)), [code[k] for k in given])
        rest = prior[~mine].sum()
        target[number] = np.where(mine, listed / mine.sum(), (1.0 - listed) * prior / max(rest, 1e-12))
        if not rest:
            target[number] /= target[number].sum()
    worth = total * (target * np.log(np.maximum(target, 1e-12) / prior)).sum(axis=1)
    candidate = (total >= min_count) & (with_label.sum(axis=0) > 0)
    candidate[list(said)] = True
    worth[list(said)] += worth.max(initial=0.0)  # what a person has listed comes first
    points_to, found = target.argmax(axis=1), []
    for label in range(len(every)):
        own = np.flatnonzero(candidate & (points_to == label))
        for number in own[np.argsort(-worth[own], kind="stable")][:per_label].tolist():
            shares = dict(zip(every, target[number].round(4).tolist(), strict=True))
            found.append((number, int(total[number]), shares))
    return found
