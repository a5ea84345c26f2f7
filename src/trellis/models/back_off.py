"""Emissions that fall back on the form of a word, where a label has seldom or never been seen with the word itself.

    p(w | y) ∝ c(w, y) + α − 1 + κ p(form of w | y) p(w | its form)

the mode under a Dirichlet prior of weight κ whose mean is the model of forms, learned from the same counts c. With five
labelled texts most words have no label: then p(form | y) tells a name from a number, and κ = 1 is soon outweighed.
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
