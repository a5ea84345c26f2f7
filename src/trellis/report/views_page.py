"""The page of views that agree: what each says by itself, where they differ most, and what they agree on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.data.document import Document
from trellis.errors import DataError
from trellis.report.labels_page import LONGEST, SHOWN, instances, page_of_labels, slots
from trellis.report.page import Page, heats, largest, percent, table


def views_page(learner: Any, data: Sequence[Any], gold: Any) -> Page:
    """See :func:`trellis.report.pages.report`; sentences are given to every view, rows as a list of what each sees."""
    if learner.maps is not None:
        raise DataError("views with labels of their own have no page: ask predict(X, by=number) for each")
    n_views = len(learner.models_)
    if isinstance(data[0], Document):
        inputs, words, truth = instances(data, gold)
        inputs = [inputs] * n_views
    else:
        _, words, truth = instances(data[0], gold)
        inputs = data
    page = page_of_labels(
        learner.model_, inputs, words, truth, list(learner.constraints), learner.gamma_ * learner.model_.copies
    )
    page.title = "Views that agree"
    page.about = (
        f"{len(words)} instances; {n_views} views; {len(learner.constraints)} constraints; γ = {learner.gamma_:g}"
    )
    _compare(page, learner, inputs, words, truth)
    return page


def _compare(page: Page, learner: Any, inputs: Any, words: Sequence[Sequence[str]], gold: Any) -> None:
    names = [str(name) for name in learner.model_.label_names_]
    ways = {f"view {k}": slots(learner.predict_proba(inputs, by=k)) for k in range(len(learner.models_))}
    ways["agreed"] = slots(learner.predict_proba(inputs))
    best = {way: np.concatenate([own.argmax(axis=1) for own in found]) for way, found in ways.items()}
    flat = [y for own in gold for y in own]
    known = [n for n, y in enumerate(flat) if y in names]
    rows = []
    for way, labels in best.items():
        right = percent(float(np.mean([names[labels[n]] == flat[n] for n in known]))) if known else ""
        rows.append((way, right, percent(float(np.mean(labels == best["agreed"])))))
    views = list(ways.values())[:-1]
    apart = [
        (max(float(np.abs(one[n] - other[n]).sum()) for one in views for other in views), n)
        for n, own in enumerate(words)
        if len(own) <= LONGEST
    ]
    pieces = []
    for _, n in largest([one for one in apart if one[0] > 0], SHOWN):
        pieces += heats(names, words[n], {way: own[n] for way, own in ways.items()}, 0.05)
    page.add("What each view says", table(("", "right", "as agreed"), rows))
    page.add("Where views differ most", *pieces)
