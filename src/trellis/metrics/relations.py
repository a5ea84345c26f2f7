"""Entities and relations against gold: precision, recall and F1, by type, over all, and as a mean over types.

entity      its tokens and its type are right
relation    the tokens of both mentions and the relation are right; *strict*: the types of both too
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trellis.data.document import Document
from trellis.errors import DataError
from trellis.metrics.fields import FieldScore


@dataclass(frozen=True)
class TypeScores:
    """Counts by type, their sum, and the mean F1 over the types that gold has."""

    types: dict[str, FieldScore]

    @property
    def total(self) -> FieldScore:
        every = list(self.types.values())
        return FieldScore(
            sum(s.n_gold for s in every), sum(s.n_found for s in every), sum(s.n_right for s in every)
        )  # fmt: skip

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
        raise DataError(f"gold has {len(gold)} sentences but the output has {len(found)}")
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
