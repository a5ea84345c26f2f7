"""The page of a learner of labels: constraints, label posteriors before and after them, labels against gold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from trellis.learn.penalties import with_penalties
from trellis.learn.schedule import gamma_at
from trellis.report.effects import effects, effects_table
from trellis.report.judged import Judged, calibration_curves, threshold_curves
from trellis.report.page import Page, heat, percent, picture, table

SHOWN = 3
LONGEST = 14


def labels_page(learner: Any, sentences: Sequence[Any], _: Any) -> Page:
    """See :func:`trellis.report.pages.report`."""
    model = getattr(learner, "model_", None) or learner
    given = [s for s in sentences if len(s)]
    words = [list(map(str, s.words)) for s in given]
    gold = [list(s.labels) if s.labels is not None else [None] * len(s) for s in given]
    constraints = list(getattr(learner, "constraints", ()))
    if getattr(learner, "has_penalties", False):
        constraints = with_penalties(constraints, np.array([learner.penalties_[c.name] for c in constraints]))
    batch = model.encode(words)
    gamma = getattr(learner, "gamma", 1.0)
    gamma = gamma_at(1.0 if gamma is None else gamma, max(getattr(learner, "max_iter", 1) - 1, 0)) or 0.05
    did = effects(model, constraints, batch, gamma)
    p, q = (model.probabilities(batch, [one]) for one in (did.before, did.after))
    names = list(model.label_names_)
    page = Page("Labels", f"{len(given)} sentences; {len(constraints)} constraints; γ = {gamma:g}")
    if {y for own in gold for y in own} & set(names):
        _against_gold(page, names, words, gold, p, q, bool(constraints))
    if constraints:
        page.add("What the constraints did", effects_table(did.constraints))
    moved = [
        (float(np.abs(a - b).sum()) if 1 < len(w) <= LONGEST else -1.0, n)
        for n, (a, b, w) in enumerate(zip(p, q, words, strict=True))
    ]
    pieces = []
    for change, n in sorted(moved, key=lambda one: (-one[0], one[1]))[:SHOWN]:
        if change < 0:
            break
        shown = [k for k in range(len(names)) if max(p[n][:, k].max(), q[n][:, k].max()) > 0.05]
        for title, values in (
            (("before the projection", p[n]), ("after", q[n])) if constraints else (("posteriors", p[n]),)
        ):
            pieces.append(heat([names[k] for k in shown], words[n], values[:, shown].T, title))
    page.add("Label posteriors", *pieces)
    return page


def _against_gold(
    page: Page, names: Sequence[str], words: Any, gold: Any, before: Any, after: Any, constrained: bool
) -> None:
    judged, rows, taken = {}, [], Counter[tuple[str, str]]()
    where: dict[tuple[str, str], list[tuple[int, int]]] = {}
    ways = (("before", before), ("after", after)) if constrained else (("labels", before),)
    for way, posteriors in ways:
        pairs = []
        taken.clear()
        where.clear()
        for n, (own, values) in enumerate(zip(gold, posteriors, strict=True)):
            for t, y in enumerate(own):
                if y is None:
                    continue
                best = int(values[t].argmax())
                pairs.append((float(values[t, best]), names[best] == y))
                if names[best] != y:
                    taken[y, names[best]] += 1
                    where.setdefault((y, names[best]), []).append((n, t))
        judged[way] = Judged.of(pairs, len(pairs))
        rows.append((way, percent(float(judged[way].right.mean()))))
    page.add(
        f"{judged[way].n_gold} labels against gold",
        table(("likeliest label of each token", "right"), rows),
        picture(threshold_curves(judged), "Labels, kept from some probability on"),
        picture(calibration_curves(judged), "Are the probabilities what they say?"),
    )
    made = []
    for (y, found), count in taken.most_common(6):
        places = "".join(f"<li>{_context(words[n], t)}</li>" for n, t in where[y, found][:3])
        made.append(f"<h3>{escape(y)} taken for {escape(found)}: {count} tokens</h3><ul>{places}</ul>")
    page.add("Worst errors", *made)


def _context(words: Sequence[str], at: int) -> str:
    before, after = " ".join(words[max(at - 6, 0) : at]), " ".join(words[at + 1 : at + 7])
    return f"{escape(before)} <mark>{escape(words[at])}</mark> {escape(after)}"
