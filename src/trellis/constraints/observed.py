"""Bounds of a count taken from labelled texts.

    (1 − w) r · tokens  ≤  E_q[ count ]  ≤  (1 + w) r · tokens

over the corpus, with r the count per token in labelled texts; of a share itself. By default w = max(0.2, 1/√n) for n
occurrences: a count of few is known no better (the 0.2 of Samdani et al. 2012, sec. 5.3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.constraints.amounts import is_number
from trellis.constraints.comparison import Comparison, band
from trellis.constraints.context import Context
from trellis.constraints.count import count
from trellis.constraints.linear_count import Count
from trellis.constraints.relations import WITHIN
from trellis.data.corpus import corpus_of
from trellis.data.tokens import as_documents
from trellis.errors import ConstraintError
from trellis.structures.chain_parts import parts_of_labels


def like_labelled(counted: Count, X: Any, y: Any = None, within: float | None = None) -> Comparison:
    """See :meth:`trellis.constraints.linear_count.Count.like`."""
    if within is not None and not (is_number(within) and 0 <= within <= 1):
        raise ConstraintError(f"within must be between 0 and 1, got {within!r:.80}")
    if counted.scope not in (None, "corpus"):
        raise ConstraintError(f"{counted.code()}.like(...) is taken over the corpus: leave out per(...)")
    known = [one for one in as_documents(X, y) if one.labels is not None and None not in one.labels]
    corpus = corpus_of(known)
    parts = parts_of_labels(corpus.batch.offsets, max(len(corpus.label_names), 1))
    names, total = corpus.label_names, counted.per("corpus")
    if not corpus.batch.n_slots:
        raise ConstraintError(f"{counted.code()}.like(...) needs fully labelled texts, but there are none")
    linear = total.linear(Context(corpus.batch, names, parts))
    used = np.isin(linear.part, parts.of(corpus.batch.labels))
    value = float(linear.coefficient @ used + linear.constant[0])
    share = all(term.over is not None for term in counted.terms)
    if not value > 0.0 or not linear.defined[0]:
        raise ConstraintError(f"{counted.english()} is {value:g} in the labelled texts: there is no count to match")
    unit = np.unique(np.abs(linear.coefficient[used]))
    n = float(np.count_nonzero(used)) if share and len(unit) == 1 else value
    width = min(max(WITHIN, n**-0.5), 1.0) if within is None else float(within)
    low, high = (1.0 - width) * value, (1.0 + width) * value
    if share:
        return band(total, low, min(high, 1.0))
    tokens = count().per("corpus") * (1.0 / corpus.batch.n_slots)
    return band(total, tokens * low, tokens * high)
