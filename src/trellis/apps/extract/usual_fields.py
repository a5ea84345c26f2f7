"""Implicit rules: fields that occur in every labelled text are expected in all texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.data.bio import NO_FIELD, unmarked
from trellis.data.document import Document
from trellis.data.vocabulary import Vocabulary

NEVER = 1e-6
"""Smallest share of texts without a field, used where penalties are not smoothed."""


def usual_fields(texts: Sequence[Document], names: Vocabulary, smoothing: float) -> dict[str, float]:
    """The fields that every labelled text has, each with the penalty of a text without it.

        ρ = −log(P / (1 − P)),   P = s / (texts + 2 s)        as eq. 3.10, by texts, none of which breaks the rule

    With few labels, a rare field easily takes the words of a usual one. How often an optional field is missing is
    already part of the model's transitions, so such fields get no penalty.

    >>> from trellis.data.tokens import as_documents
    >>> given = as_documents([["Ann", "7"], ["Bob"]], [["NAME", "DATE"], ["NAME"]])
    >>> found = usual_fields(given, Vocabulary(["DATE", "NAME"]), smoothing=0.5)
    >>> {label: round(price, 2) for label, price in found.items()}
    {'NAME': 1.61}
    """
    whole = [t.labels for t in texts if t.labels and None not in t.labels]
    has = [set(unmarked(labels, names)) for labels in whole]
    missing = max(smoothing / (len(has) + 2.0 * smoothing), NEVER) if has else 1.0
    price = float(np.log1p(-missing) - np.log(missing)) if missing < 0.5 else 0.0
    return {name: price for name in names if price and name != NO_FIELD and all(name in own for own in has)}
