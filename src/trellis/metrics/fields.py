"""Scores of extracted fields, entities and relations: token accuracy, precision, recall, F1 and confusions.

token accuracy   share of the tokens with the right label, whether or not it says that a field begins
field F1         a field (a run of tokens with one label) counts as found if label, first and last token are right
confusion[a, b]  tokens whose gold label is a and whose output is b
entity           its tokens and its type are right
relation         the tokens of both mentions and the relation are right; *strict*: the types of both too
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.data.bio import runs, split_bio
from trellis.data.display import table_html
from trellis.data.document import Document
from trellis.errors import DataError, counted

Labels = Sequence[str | None]


@dataclass(frozen=True)
class FieldScore:
    """Of one label, or of all together: fields in gold, in the output, and in both."""

    n_gold: int
    n_found: int
    n_right: int

    @classmethod
    def sum(cls, scores: Iterable[FieldScore]) -> FieldScore:
        """Of all labels together."""
        counts = [(s.n_gold, s.n_found, s.n_right) for s in scores]
        return cls(*np.array(counts, np.int64).reshape(-1, 3).sum(axis=0).tolist())

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

    def _repr_html_(self) -> str:
        rows = [
            [name, *(f"{100 * share:.1f}" for share in (s.precision, s.recall, s.f1)), str(s.n_gold), str(s.n_found)]
            for name, s in (*self.fields.items(), ("all", self.total))
        ]
        accuracy = f"<p>accuracy {100 * self.accuracy:.1f} of {counted(self.n_tokens, 'token')}</p>"
        return f"<div>{table_html(['field', 'precision', 'recall', 'F1', 'gold', 'found'], rows)}{accuracy}</div>"


def score_fields(gold: Sequence[Labels], output: Sequence[Labels]) -> FieldScores:
    """Compare outputs with gold; a gold label that is None is not judged.

    >>> scores = score_fields([["A", "A", "B"], ["B"]], [["A", "B", "B"], ["B"]])
    >>> scores.accuracy, scores.total.f1, scores.labels, scores.confusion.tolist()
    (0.75, 0.3333333333333333, ('A', 'B'), [[1, 1], [0, 2]])
    """
    if len(gold) != len(output):
        raise DataError(
            f"gold has {counted(len(gold), 'text')} but the output has {len(output)}: they must contain the same texts"
        )
    for i, (truth, found) in enumerate(zip(gold, output, strict=True)):
        if len(truth) != len(found):
            raise DataError(
                f"text {i} has {counted(len(truth), 'token')} in gold but {len(found)} in the output: use the same "
                "tokenisation for both"
            )
    pairs = [
        (str(split_bio(a)[1]), split_bio(b)[1] or "_")
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
    total = FieldScore.sum(fields.values())
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


@dataclass(frozen=True)
class TypeScores:
    """Counts by type, their sum, and the mean F1 over the types that gold has."""

    types: dict[str, FieldScore]

    @property
    def total(self) -> FieldScore:
        return FieldScore.sum(self.types.values())

    @property
    def mean_f1(self) -> float:
        known = [s.f1 for s in self.types.values() if s.n_gold]
        return sum(known) / len(known) if known else 0.0


@dataclass(frozen=True)
class RelationScores:
    """Of entities, of relations between the right tokens, and of those between the right entities."""

    entities: TypeScores
    relations: TypeScores
    strict: TypeScores


def score_relations(gold: Sequence[Document], found: Sequence[Document]) -> RelationScores:
    """Scores of sentences against the same sentences in gold."""
    if len(gold) != len(found):
        raise DataError(f"gold has {counted(len(gold), 'sentence')} but the output has {len(found)}")
    for number, (one, other) in enumerate(zip(gold, found, strict=True)):
        if one.tokens != other.tokens:
            raise DataError(f"sentence {number} is not the same in both: predict from the sentences of gold itself")
    pairs = [(_items(one), _items(other)) for one, other in zip(gold, found, strict=True)]
    return RelationScores(*(_scores([(a[kind], b[kind]) for a, b in pairs]) for kind in range(3)))


def _items(text: Document) -> tuple[set[tuple[object, ...]], ...]:
    """Entities, relations and strict relations, the type of each first."""
    mentions = text.spans or ()
    entities: set[tuple[object, ...]] = {(m.label, m.first, m.last) for m in mentions if m.label is not None}
    relations: set[tuple[object, ...]] = set()
    strict: set[tuple[object, ...]] = set()
    for r in text.relations or ():
        one, two = mentions[r.first], mentions[r.second]
        relations.add((r.label, one.first, one.last, two.first, two.last))
        strict.add((r.label, one, two))
    return entities, relations, strict


def _scores(pairs: list[tuple[set[tuple[object, ...]], set[tuple[object, ...]]]]) -> TypeScores:
    counts: list[Counter[str]] = [Counter(), Counter(), Counter()]
    for truth, found in pairs:
        for count, items in zip(counts, (truth, found, truth & found), strict=True):
            count.update(str(item[0]) for item in items)
    names = sorted(counts[0] | counts[1])
    return TypeScores({name: FieldScore(counts[0][name], counts[1][name], counts[2][name]) for name in names})
