"""What a model falls back on where it has seen little: the form of a word, and what labels do in general.

    p(w | y) ∝ c(w, y) + α − 1 + κ p(form of w | y) p(w | its form)

the mode under a Dirichlet prior of weight κ whose mean is the model of forms, learned from the same counts c. With five
labelled texts most words have no label: then p(form | y) tells a name from a number, and κ = 1 is soon outweighed.

Likewise transitions after one thing c fall back on all of the label's, and these on what labels do after it:

    n(c, a, b) + κ share(c, a, b),    share(c, a, ·) ∝ n(a, ·) + α − 1 + κ tied(c, a, ·)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.data.batch import Column
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary

UNSEEN = 0.01
"""Pseudo-count of a form with a label."""


@dataclass(frozen=True)
class Forms:
    """The form of every symbol (n_symbols,), and how often it is this one of its form: p(w | form)."""

    form: IntArray
    share: FloatArray

    @classmethod
    def learn(cls, symbols: Column, forms: Column, vocabulary: Vocabulary) -> Forms:
        """From two columns of the same text. A symbol has the form that it was last seen with; one that was not seen
        has a form of its own."""
        n, n_forms = len(vocabulary), len(forms.vocabulary)
        form = n_forms + np.arange(n, dtype=np.int64)
        form[symbols.codes] = forms.codes
        often = np.bincount(symbols.codes, minlength=n) + 0.1
        return cls(form, often / np.bincount(form, often)[form])

    def base(self, counts: FloatArray) -> FloatArray:
        """(n_symbols, K): p(form | y) p(w | form), by the counts (n_symbols, K) of symbols with labels."""
        by_form = np.zeros((int(self.form.max(initial=-1)) + 1, counts.shape[1]))
        np.add.at(by_form, self.form, counts)
        by_form[np.unique(self.form)] += UNSEEN
        found: FloatArray = (by_form / by_form.sum(axis=0))[self.form] * self.share[:, None]
        return found


def transitions_after(counts: FloatArray, kappa: float, prior: float) -> FloatArray:
    """(n_contexts, K, K): counts of label pairs in each context with what they fall back on; the first context is
    anything, and has all of them."""
    every, tied = counts.sum(axis=0), kappa * _tied(counts)
    shares = every + tied + (prior - 1.0)
    found: FloatArray = counts + kappa * shares / shares.sum(axis=-1, keepdims=True)
    found[0] = every + tied[0]
    return found


def _tied(transition: FloatArray) -> FloatArray:
    """(n_contexts, K, K): tied(c, a, a) = P(a label goes on | c), tied(c, a, b) = P(it changes | c) P(it becomes b).

    Of a label that was seldom seen this is all that is known: that it goes on for a while, as labels do.
    """
    n, k = len(transition), transition.shape[-1]
    counts = np.concatenate([transition.sum(axis=0)[None], transition[1:]])
    stay = (np.trace(counts, axis1=1, axis2=2) + 0.5) / (counts.sum(axis=(1, 2)) + 1.0)
    same = np.eye(k, dtype=np.bool_)
    to = np.where(same, 0.0, counts[0].sum(axis=0) - np.diag(counts[0]) + 0.5)
    to /= np.maximum(to.sum(axis=1, keepdims=True), 1e-300)
    found: FloatArray = np.where(same, stay[:, None, None], (1.0 - stay)[:, None, None] * to).reshape(n, k, k)
    return found
