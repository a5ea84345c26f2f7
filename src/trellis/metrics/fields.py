"""How good extracted fields are: token accuracy, precision, recall and F1 of whole fields, and what is taken for what.

token accuracy   share of the tokens with the right label, whether or not it says that a field begins
field F1         a field (a run of tokens with one label) counts as found if label, first and last token are right
confusion[a, b]  tokens whose gold label is a and whose output is b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.data.bio import runs, told
from trellis.errors import DataError

Labels = Sequence[str | None]


@dataclass(frozen=True)
class FieldScore:
    """Of one label, or of all together: fields in gold, in the output, and in both."""

    n_gold: int
    n_found: int
    n_right: int

    @property
    def precision(self) -> float:
        return self.n_right / self.n_found if self.n_found else 0.0

    @property
    def recall(self) -> float:
        return self.n_right / self.n_gold if self.n_gold else 0.0

    @property
    def f1(self) -> float:
        total = self.n_gold + self.n_found
        return 2 * self.n_right / total if total else 0.0


@dataclass(frozen=True)
class FieldScores:
    """All figures of an output beside gold.

    accuracy : of tokens with a known gold label;  n_tokens : how many those are
    fields : label -> score;  total : of all labels
    labels, confusion : (n_labels,), (n_labels, n_labels) tokens by gold and output
    """

    accuracy: float
    n_tokens: int
    fields: dict[str, FieldScore]
    total: FieldScore
    labels: tuple[str, ...]
    confusion: NDArray[np.int64]


def score_fields(gold: Sequence[Labels], output: Sequence[Labels]) -> FieldScores:
    """Compare outputs with gold; a gold label that is None is not judged.

    >>> scores = score_fields([["A", "A", "B"], ["B"]], [["A", "B", "B"], ["B"]])
    >>> scores.accuracy, scores.total.f1, scores.labels, scores.confusion.tolist()
    (0.75, 0.3333333333333333, ('A', 'B'), [[1, 1], [0, 2]])
    """
    if len(gold) != len(output):
        raise DataError(f"gold has {len(gold)} texts but the output has {len(output)}: they must be of the same texts")
    for i, (truth, found) in enumerate(zip(gold, output, strict=True)):
        if len(truth) != len(found):
            raise DataError(
                f"text {i} has {len(truth)} tokens in gold but {len(found)} in the output: tokenise both equally"
            )
    pairs = [
        (str(told(a)[1]), told(b)[1] or "_")
        for truth, found in zip(gold, output, strict=True)
        for a, b in zip(truth, found, strict=True)
        if a is not None
    ]
    if not pairs:
        raise DataError("no gold label is known, so there is nothing to compare with")
    labels = tuple(sorted({name for pair in pairs for name in pair}))
    number = {name: i for i, name in enumerate(labels)}
    confusion = np.zeros((len(labels), len(labels)), dtype=np.int64)
    for a, b in pairs:
        confusion[number[a], number[b]] += 1
    fields = _field_scores(gold, output)
    every = list(fields.values())
    total = FieldScore(
        sum(s.n_gold for s in every), sum(s.n_found for s in every), sum(s.n_right for s in every)
    )  # fmt: skip
    return FieldScores(float(np.trace(confusion)) / len(pairs), len(pairs), fields, total, labels, confusion)


def _field_scores(gold: Sequence[Labels], output: Sequence[Labels]) -> dict[str, FieldScore]:
    """By label, of the texts whose every gold label is known: fields at the edge of unknown tokens have no ends."""
    counts: dict[str, list[int]] = {}
    for truth, found in zip(gold, output, strict=True):
        if any(label is None for label in truth):
            continue
        wanted, got = set(runs(truth)), set(runs(found))
        for place, fields in enumerate((wanted, got, wanted & got)):
            for label, _, _ in fields:
                counts.setdefault(label, [0, 0, 0])[place] += 1
    return {label: FieldScore(*counts[label]) for label in sorted(counts)}
