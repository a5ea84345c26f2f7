"""Report of an aligner: posteriors of both directions before and after the constraints, links against gold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape
from typing import Any

import numpy as np

from trellis.apps.align.aligner import Aligner
from trellis.apps.align.constraint_sets import constraints_of
from trellis.data.bitext import each_pair
from trellis.errors import DataError, counted
from trellis.metrics.alignment import GoldLinks, Link, score_links
from trellis.report.alignment import plot_posterior_grids
from trellis.report.effects import effects, effects_table
from trellis.report.judged import Judged, curves
from trellis.report.page import Page, largest, percent, picture, table, text

GRIDS = 3
LONGEST = 18
"""Words on a side of a pair that is drawn."""
FOR_DUALS = 30
"""Pairs whose constraints are written out, for their λ."""

Grid = tuple[Any, Any]


def alignment_page(aligner: Aligner, pairs: Sequence[Any], gold: Sequence[GoldLinks] | None) -> Page:
    """See :func:`trellis.report.pages.report`."""
    if gold is not None and len(gold) > len(pairs):
        raise DataError(f"gold links are given for {counted(len(gold), 'pair')}, but there are only {len(pairs)} pairs")
    own = aligner.constraint if aligner.decode_constraint is None else aligner.decode_constraint
    name = own if isinstance(own, str) else ", ".join(map(repr, constraints_of(own)))
    before, after = _under(aligner, "none", pairs), aligner.posteriors(pairs)
    page = Page(
        "Word alignment", f"{counted(len(pairs), 'pair')} of sentences; constraint: {name}; γ = {aligner.gamma:g}"
    )
    words: list[tuple[Sequence[str], Sequence[str]]] = list(each_pair(pairs))
    if gold is not None:
        _against_gold(page, aligner, before, after, gold)
    if constraints_of(own):
        sample = [pair for pair in words if all(pair)][:FOR_DUALS]
        _, batch = aligner.model_.look_up(sample)
        found = effects(aligner.model_, constraints_of(own), batch, aligner.gamma or 1.0, tolerance=0.01)
        page.add(
            "Effect of the constraints",
            text(f"How the constraints change the posteriors of the first {counted(len(sample), 'pair')}."),
            effects_table(found.constraints),
        )
    chosen = _most_changed(words, before, after)
    grids = [
        picture(
            plot_posterior_grids(
                *words[n], {"before": before[n], "after": after[n]}, gold=gold[n] if gold and n < len(gold) else None
            ),
            f"pair {n + 1}",
        )
        for n in chosen
    ]
    page.add(
        "Largest changes", text("Each circle is a link; its area is the posterior. Source words are in rows."), *grids
    )
    if gold is not None:
        page.add("Largest errors", _worst(words, aligner, pairs, gold))
    return page


def _under(aligner: Aligner, constraint: str, pairs: Sequence[Any]) -> list[Grid]:
    kept = aligner.decode_constraint
    aligner.decode_constraint = constraint
    try:
        return aligner.posteriors(pairs)
    finally:
        aligner.decode_constraint = kept


def _against_gold(
    page: Page, aligner: Aligner, before: Sequence[Grid], after: Sequence[Grid], gold: Sequence[GoldLinks]
) -> None:
    judged = {"before": _judged(before, gold), "after": _judged(after, gold)}
    rows = []
    for name, grids in (("before", before), ("after", after)):
        found = [{(int(i), int(j)) for i, j in np.argwhere(_mean(g) >= aligner.threshold_)} for g in grids[: len(gold)]]
        s = score_links(found, gold)
        rows.append((f"{name} the projection", percent(s.precision), percent(s.recall), percent(s.aer), s.n_links))
    page.add(
        f"{counted(len(gold), 'pair')} against gold",
        table(("links", "precision", "recall", "AER", "found"), rows, f"Threshold {aligner.threshold_:g}."),
        *curves(judged, "Links with at least the given mean posterior of both directions", "posteriors"),
    )


def _mean(grid: Grid) -> Any:
    return 0.5 * (grid[0].astype(np.float64) + grid[1])


def _judged(grids: Sequence[Grid], gold: Sequence[GoldLinks]) -> Judged:
    found = []
    for grid, own in zip(grids, gold, strict=False):
        mean = _mean(grid)
        found += [(float(mean[i, j]), (int(i), int(j)) in own.possible) for i, j in np.argwhere(mean >= 0.02)]
    return Judged.of(found, sum(len(own.sure) for own in gold))


def _most_changed(words: Sequence[Any], before: Sequence[Grid], after: Sequence[Grid]) -> list[int]:
    moved = [
        (float(sum(np.abs(a - b).sum() for a, b in zip(x, y, strict=True))), n)
        for n, (x, y) in enumerate(zip(before, after, strict=True))
        if 2 < max(map(len, words[n])) <= LONGEST and min(map(len, words[n])) > 0
    ]
    return [n for _, n in largest(moved, GRIDS)]


def _worst(words: Sequence[Any], aligner: Aligner, pairs: Sequence[Any], gold: Sequence[GoldLinks]) -> str:
    found = [set(links) for links in aligner.align(pairs[: len(gold)])]
    wrong = [(len(f - g.possible) + len(g.sure - f), n) for n, (f, g) in enumerate(zip(found, gold, strict=True))]
    made = []
    for _, n in largest([one for one in wrong if one[0]], 5):
        source, target = words[n]

        def named(links: Collection[Link], source: Any = source, target: Any = target) -> str:
            return escape(", ".join(f"{source[i]} – {target[j]}" for i, j in sorted(links)))

        lines = [f"<h3>pair {n + 1}</h3><p>{escape(' '.join(source))}<br>{escape(' '.join(target))}</p><ul>"]
        for kind, title, links in (
            ("bad", "wrong", found[n] - gold[n].possible), ("bad", "missed", gold[n].sure - found[n]),
            ("good", "right", found[n] & gold[n].possible),
        ):  # fmt: skip
            if links:
                lines.append(f'<li><span class="{kind}">{title}</span>: {named(links)}</li>')
        made.append("".join(lines) + "</ul>")
    return "\n".join(made)
