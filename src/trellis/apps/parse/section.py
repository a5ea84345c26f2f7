"""Report of a parser, a tree inducer or a transfer: arcs with their probabilities, and heads against gold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.apps.parse.parser import tagged
from trellis.apps.parse.tree_text import strip
from trellis.data.conllu import heads as heads_of
from trellis.data.document import Document
from trellis.errors import counted
from trellis.metrics.attachment import compare_trees
from trellis.report.arcs import plot_arcs
from trellis.report.judged import Judged, curves
from trellis.report.page import Page, percent, picture, table, text

LONGEST = 14
SHOWN = 4


def trees_page(task: Any, sentences: Sequence[Document], _: Any) -> Page:
    """See :func:`trellis.report.pages.report`."""
    given = [s for s in sentences if len(s)]
    whole = hasattr(task, "arcs_")  # a parser hangs punctuation too; models without a treebank do not see it
    model = task.arcs_ if whole else task.model_
    stripped = [strip(s, t) for s, t in zip(given, tagged(given), strict=True)]
    words = tagged(given) if whole else [own.words for own in stripped]
    kept = [n for n, own in enumerate(words) if own]
    posteriors = dict(zip(kept, model.predict_proba([words[n] for n in kept]), strict=True))
    gold = {n: list(heads_of(given[n])) if whole else stripped[n].heads(given[n]) for n in kept}
    known = [n for n in kept if None not in gold[n]]
    page = Page(
        "Dependency trees", f"{counted(len(given), 'sentence')}, {len(known)} of them with trees; {type(task).__name__}"
    )
    if known:
        scores = compare_trees([given[n] for n in known], task.predict([given[n] for n in known]))
        named = scores.total.las > 0  # models without a treebank know no relations
        rows = [
            (name, percent(one.uas), *[percent(one.las)] * named)
            for name, one in (("all words", scores.total), ("without punctuation", scores.plain))
        ]
        pairs = [
            (float(p), h == gold[n][c])
            for n in known for c, row in enumerate(posteriors[n]) for h, p in enumerate(row) if p >= 0.02
        ]  # fmt: skip
        judged = {"arcs": Judged.of(pairs, sum(len(gold[n]) for n in known))}
        page.add(
            f"{counted(len(known), 'sentence')} against gold",
            table(("", "correct heads (UAS)", *["and relations (LAS)"] * named), rows),
            *curves(judged, "Arcs with at least the given posterior", "posteriors"),
        )

    def lost(n: int) -> float:
        """How much posterior is not on the gold heads; without gold, how unsure the sentence is."""
        p = posteriors[n]
        right = [p[c, h] for c, h in enumerate(gold[n])] if n in set(known) else p.max(axis=1)
        return float(np.sum(1.0 - np.asarray(right)))

    short = [n for n in kept if 2 < len(words[n]) <= LONGEST]
    pictures = [
        picture(
            plot_arcs(
                [w for w, _ in words[n]], {f"sentence {n + 1}": posteriors[n]}, heads=gold[n] if n in known else None
            )
        )
        for n in sorted(short, key=lambda n: (-lost(n), n))[:SHOWN]
    ]
    title = "Largest errors" if known else "Least certain"
    page.add(title, text("Arcs whose posterior is 0.1 or more."), *pictures)
    return page
