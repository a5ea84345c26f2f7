"""Report of an aggregator: estimates for each function, and the tokens with the least certain labels."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from trellis.apps.aggregate.aggregator import Aggregator
from trellis.data.document import Document
from trellis.errors import counted
from trellis.report.page import Page, heat, percent, table, text

SHOWN = 4
LONGEST = 20


def votes_page(aggregator: Aggregator, texts: Sequence[Document], _: Any) -> Page:
    """See :func:`trellis.report.pages.report`."""
    page = Page("Weak labels", f"{counted(len(texts), 'text')}, {counted(len(aggregator.accuracies_), 'function')}")
    rows = [
        (name, "" if one.accuracy is None else percent(one.accuracy), one.votes, percent(one.coverage))
        for name, one in aggregator.accuracies_.items()
    ]
    page.add(
        "Estimated accuracies of the functions",
        text("Estimated by the model without gold labels."),
        table(("function", "right", "votes", "tokens voted on"), rows),
    )
    names, posteriors = list(aggregator.label_names_), aggregator.predict_proba(texts)
    short = (n for n, p in enumerate(posteriors) if 0 < len(p) <= LONGEST)
    pieces = []
    for n in sorted(short, key=lambda n: -float((1.0 - posteriors[n].max(axis=1)).sum()))[:SHOWN]:
        used = [k for k in range(len(names)) if posteriors[n][:, k].max() > 0.05]
        pieces.append(
            heat([names[k] for k in used], list(texts[n].tokens), np.asarray(posteriors[n])[:, used].T, "labels")
        )
        votes = {f: [v or "" for v in own] for f, own in texts[n].votes.items() if any(own)}
        cells = "".join(f"<li>{escape(f)}: {escape(' '.join(v or '·' for v in own))}</li>" for f, own in votes.items())
        pieces.append(f"<ul>{cells}</ul>" if cells else "")
    page.add("Least certain", *pieces)
    return page
