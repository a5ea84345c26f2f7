"""Figure of the match of two names: the aligned segments and the score of each.

One name stands above the other, both from left to right; a line joins what is aligned, green where it speaks for a
match and red where it speaks against it, the thicker the more it says. What has no partner is underlined in the same
way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trellis.apps.match.matcher import Match
from trellis.data.files import FilePath
from trellis.errors import DataError
from trellis.report.figure import BAD, GOOD, INK, add_legend, finished, new_figure, titled

TOP, BOTTOM = 1.0, 0.0
THICKEST = 6.0


def plot_matches(matches: Sequence[Match], path: FilePath | None = None, *, title: str = "") -> Any:
    """Return a figure with a panel for each match of two names.

    path : the figure is written there, as PNG, SVG or PDF by the ending.
    """
    if not matches:
        raise DataError("there is no match to draw")
    longest = max(max(_places(match)[2]) for match in matches)
    figure, axes = new_figure(max(3.0, 0.38 * longest + 0.6), 1.5 * len(matches), len(matches), 1, squeeze=False)
    most = max((abs(worth) for match in matches for worth in match.worth), default=1.0) or 1.0
    for one, match in zip(axes[:, 0], matches, strict=True):
        _draw(one, match, longest, most)
    line = {"linewidth": 3.0}
    entries = {
        "supports a match (thicker: more)": {"color": GOOD, **line},
        "contradicts a match": {"color": BAD, **line},
    }
    add_legend(figure, entries, columns=1)
    return finished(titled(figure, title), path)


def _places(match: Match) -> tuple[list[float], list[float], tuple[float, float]]:
    """Where the middle of each segment stands, on either side, and how long both sides are."""
    left, right, x, y = list[float](), list[float](), 0.0, 0.0
    for one, two in match.alignment:
        left.append(x + len(one) / 2.0)
        right.append(y + len(two) / 2.0)
        x, y = x + len(one), y + len(two)
    return left, right, (x, y)


def _draw(axes: Any, match: Match, longest: float, most: float) -> None:
    left, right, _ = _places(match)
    for (one, two), x, y, worth in zip(match.alignment, left, right, match.worth, strict=True):
        style = {"color": GOOD if worth >= 0 else BAD, "linewidth": 0.6 + THICKEST * abs(worth) / most}
        if one and two:
            axes.plot([x, y], [TOP - 0.22, BOTTOM + 0.22], solid_capstyle="round", **style)
        else:
            at, height = (x, TOP - 0.2) if one else (y, BOTTOM - 0.2)
            half = len(one or two) / 2.0 - 0.1
            axes.plot([at - half, at + half], [height, height], **style)
        for text, at, height in ((one, x, TOP), (two, y, BOTTOM)):
            axes.text(at, height, text, ha="center", va="center", fontsize=12, color=INK)
    answer = "match" if match.is_match else "no match"
    axes.set_title(f"{answer}, {match.score:+.2f}", fontsize=9, color=INK, loc="left", pad=2)
    axes.set_xlim(-0.5, longest + 0.5)
    axes.set_ylim(BOTTOM - 0.45, TOP + 0.35)
    axes.axis("off")
