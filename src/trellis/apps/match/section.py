"""Report of a matcher: names or sentences side by side, the most and the least certain, and mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.apps.match.figure import plot_matches
from trellis.apps.match.matcher import Match, Matcher
from trellis.data.pair_files import PairLine
from trellis.errors import counted
from trellis.report.page import Page, percent, picture, table, text

SHOWN = 4
MOST = 12


def matches_page(matcher: Matcher, lines: Sequence[PairLine], _: Any) -> Page:
    """See :func:`trellis.report.pages.report`."""
    found = matcher.match([(line.left, line.right) for line in lines])
    answered = [n for n, line in enumerate(lines) if line.answer is not None]
    page = Page("Matches", f"{counted(len(lines), 'pair')}, {len(answered)} of them labelled; {matcher.kind}")
    wrong = [n for n in answered if found[n].is_match != (lines[n].answer == 1)]
    if answered:
        right = 1.0 - len(wrong) / len(answered)
        page.add("Decisions against labels", table(("pairs", "right"), [(len(answered), percent(right))]))
    by_sureness = np.argsort([-abs(one.score) for one in found], kind="stable").tolist()
    chosen = [*by_sureness[:SHOWN], *by_sureness[-SHOWN:]] if len(found) > 2 * SHOWN else by_sureness
    names = matcher.kind == "names"
    note = text("The most certain pairs, then the least certain ones. A score of 0 or more is a match.")
    page.add(
        "Alignments", note, picture(plot_matches([found[n] for n in chosen])) if names else "",
        _table(lines, found, chosen),
    )  # fmt: skip
    page.add(
        "Largest errors",
        _table(lines, found, sorted(wrong, key=lambda n: -abs(found[n].score))[:MOST]) if wrong else "",
    )
    return page


def _table(lines: Sequence[PairLine], found: Sequence[Match], numbers: Sequence[int]) -> str:
    rows = [
        (
            lines[n].left, lines[n].right, "match" if found[n].is_match else "no match", f"{found[n].score:+.2f}",
            " ".join(f"{a}:{b}" for a, b in found[n].alignment),
        )
        for n in numbers
    ]  # fmt: skip
    return table(("left", "right", "label", "score", "aligned"), rows, words=(0, 1, 2, 4))
