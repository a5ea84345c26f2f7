"""Results of a trained extractor: texts with labels, probabilities of fields, and texts that had problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trellis.apps.extract.confidence import field_probabilities
from trellis.apps.extract.extractor import Extractor
from trellis.apps.extract.relaxed import predict_relaxed
from trellis.data.document import Document
from trellis.data.text_files import Extracted, emptied


@dataclass(frozen=True)
class Results:
    """One result for every text.

    relaxed : number of a text -> which rules were relaxed, in words
    lost : number of a text -> why it has no output; its result is empty
    """

    results: list[Extracted]
    relaxed: dict[int, str] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)


def extracted(
    extractor: Extractor, texts: Sequence[Document], *, constrained: bool = True, probabilities: bool = True
) -> Results:
    """Labels of texts with the probabilities of their fields; none for a text whose rules had to be relaxed."""
    found = predict_relaxed(extractor, texts, constrained=constrained)
    texts = [emptied(text) if number in found.lost else text for number, text in enumerate(texts)]
    relaxed = {**found.broken, **{number: [reason] for number, reason in found.unruled.items()}}
    sure: dict[int, list[float]] = {}
    if probabilities:
        fine = [number for number in range(len(texts)) if len(texts[number]) and number not in relaxed]
        some = [texts[number] for number in fine], [found.labels[number] for number in fine]
        inference = found.inference if len(fine) == len(texts) else None
        shares = field_probabilities(extractor, *some, constrained=constrained, inference=inference)
        sure = dict(zip(fine, shares, strict=True))
    results = []
    for number, text in enumerate(texts):
        remarks: dict[str, Any] = {"invalid": found.lost[number]} if number in found.lost else {}
        if number in relaxed:
            remarks = {"relaxed": list(relaxed[number])}
        results.append(Extracted(text, found.labels[number], remarks, sure.get(number)))
    why = {**{number: ", ".join(map(repr, names)) for number, names in found.broken.items()}, **found.unruled}
    return Results(results, why, found.lost)
