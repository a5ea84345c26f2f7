"""Prior of labelling functions: their accuracy, and which near-duplicates count as one.

Counts of votes v of function j with labels y, if each function were right as often as assumed:

    c[j, v, y] = n_jv · P₀(y | v)       P₀ = accuracy_j for the labels that v allows; of the rest four fifths are "O",
                                        one fifth is shared by the other types
    c[j, abstains, y] = N_y − Σ_v c[j, v, y]         N_y : mean accuracy · tokens on which somebody votes for y
                                                     N_O : all tokens − mean accuracy · those with votes for entities

An explicit vote for "O" is treated as abstaining is, in proportion to how often the function does either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.data.bio import split_bio
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.data.voted import OUTSIDE

NEAR_DUPLICATE = 0.6
"""Functions whose spans have at least this Jaccard index count as one."""
WRONG_TYPE = 0.2
"""Share of wrong votes for an entity that name the wrong type; the others stand on "O"."""
LEAST_SILENT = 0.05
"""Least share of the tokens of a label on which a function abstains."""


def duplicate_weights(votes: IntArray, size: FloatArray) -> FloatArray:
    """(n_functions,) weights, 1 / the number of functions in the same group of near-duplicates.

    votes : (n_patterns, n_functions), 0 where there is none;  size : (n_patterns,) how often each pattern occurs

    >>> duplicate_weights(np.array([[1, 1, 0], [2, 2, 1], [1, 0, 0]]), np.array([5.0, 5.0, 1.0]))
    array([0.5, 0.5, 1. ])
    """
    group = np.arange(votes.shape[1])
    for i in range(len(group)):
        for j in range(i):
            either = size[(votes[:, i] > 0) | (votes[:, j] > 0)].sum()
            both = size[(votes[:, i] > 0) & (votes[:, i] == votes[:, j])].sum()
            if both > 0.0 and both >= NEAR_DUPLICATE * either:
                group[group == group[j]] = group[i]
    return np.array([1.0 / np.count_nonzero(group == own) for own in group])


def assumed_counts(
    patterns: IntArray, size: FloatArray, allows: BoolArray, labels: Sequence[str], accuracy: FloatArray
) -> FloatArray:
    """(n_functions, n_votes, n_labels) counts c; each function's sum over labels is its number of votes.

    patterns : (n_patterns, n_functions) votes, 0: abstains;  size : (n_patterns,) how often each pattern occurs
    allows : (n_votes, n_labels) which labels a vote may mean;  accuracy : (n_functions,)
    """
    meant = allows / allows.sum(axis=1, keepdims=True)
    meant[0] = 0.0
    o = labels.index(OUTSIDE) if OUTSIDE in labels else None
    exact = np.where(allows.sum(axis=1, keepdims=True) == 1, meant, 0.0)
    voted, coarsely = (np.max([table[own] for own in patterns.T], axis=0) for table in (exact, meant))
    voted = np.where(voted.any(axis=1, keepdims=True), voted, coarsely)
    tokens = float(accuracy.mean()) * size @ voted
    if o is None:
        tokens *= size.sum() / max(tokens.sum(), 1e-300)
    else:
        entity = np.delete(voted, o, axis=1).any(axis=1)
        tokens[o] = max(size.sum() - float(accuracy.mean()) * size[entity].sum(), LEAST_SILENT * size.sum())
    begins = np.array([split_bio(label)[0] for label in labels])
    others = ~allows & (begins == (allows & begins).any(axis=1, keepdims=True))
    silent = np.arange(len(allows)) == 0
    if o is not None:
        silent, others[:, o] = silent | allows[:, o], False
    wrong = others / np.maximum(others.sum(axis=1, keepdims=True), 1)
    if o is not None:
        wrong *= WRONG_TYPE
        wrong[:, o] = 1.0 - wrong.sum(axis=1)
    found = np.zeros((patterns.shape[1], *allows.shape))
    for j, right in enumerate(accuracy):
        votes = np.bincount(patterns[:, j], size, minlength=len(allows))
        found[j] = votes[:, None] * (right * meant + (1.0 - right) * wrong)
        rest = np.maximum(tokens - found[j, ~silent].sum(axis=0), LEAST_SILENT * tokens)
        found[j, silent] = np.outer(votes[silent], rest / max(rest.sum(), 1e-300))
    return found
