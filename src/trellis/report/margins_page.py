"""The page of a learner of margins: its best labels, with and without constraints, against gold and in context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trellis.report.labels_page import confusions, constraints_of, instances, words_table
from trellis.report.page import Page, percent, table, text


def margins_page(learner: Any, data: Sequence[Any], gold: Any) -> Page:
    """See :func:`trellis.report.pages.report`."""
    inputs, words, truth = instances(data, gold)
    rules = constraints_of(learner)
    ways = {"the weights alone": False, "under the constraints": True} if rules else {"best labels": True}
    found = {way: _labels(learner.best_structures(inputs, constrained=ruled)) for way, ruled in ways.items()}
    page = Page("Margins", f"{len(words)} instances; {len(rules)} constraints; {type(learner).__name__}")
    rows = []
    for way, labels in found.items():
        pairs = [
            pair
            for own, y in zip(labels, truth, strict=True)
            for pair in zip(own, y, strict=True)
            if pair[1] is not None
        ]
        if pairs:
            rows.append((way, len(pairs), percent(sum(a == b for a, b in pairs) / len(pairs))))
    if rows:
        page.add("Labels against gold", table(("", "labels", "right"), rows))
    if rules:
        said = text("Prediction obeys these, or pays for what it breaks.")
        page.add(
            "Constraints", said, table(("name", "in words"), [(c.name, c.describe()) for c in rules], words=(0, 1))
        )
    last = found[way]
    page.add("Words of each label", words_table(words, last))
    page.add("Worst errors", *confusions(words, truth, last))
    return page


def _labels(found: Any) -> list[list[str]]:
    """Labels by name, of sentences or of rows."""
    return [[str(y) for y in own] if isinstance(own, list | tuple) else [str(own)] for own in found]
