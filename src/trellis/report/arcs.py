"""Figures of dependency trees: arcs above a sentence, darker if more probable.

After Ganchev et al. 2010, Figure 10: an arc's opacity is its posterior, given (conserved) arcs are dotted, right ones
green and wrong ones red where the tree is known; one row before a projection and one after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.files import FilePath
from trellis.errors import DataError
from trellis.report.figure import BAD, GOOD, INK, PLAIN, add_legend, finished, new_figure, titled

LEAST = 0.1
"""Arcs less likely than this are not drawn."""


def plot_arcs(
    words: Sequence[str],
    rows: Mapping[str, NDArray[Any]],
    path: FilePath | None = None,
    *,
    title: str = "",
    given: Sequence[tuple[int, int]] = (),
    heads: Sequence[int | None] | None = None,
    least: float = LEAST,
) -> Any:
    """Return a figure with one row for each entry of ``rows``.

    rows : name -> P(head of word c is h), (n_words, n_words + 1), the first column the root, as of ``predict_proba``
    path : the figure is written there, as PNG, SVG or PDF by the ending
    given : (head, child) of arcs that are drawn dotted, words from 1;  heads : the right tree, where it is known
    """
    n = len(words)
    for name, probability in rows.items():
        if np.shape(probability) != (n, n + 1):
            raise DataError(f"{name!r} has posteriors of shape {np.shape(probability)}, expected {(n, n + 1)}")
    if heads is not None and len(heads) != n:
        raise DataError(f"there are {n} words but {len(heads)} heads")
    width = max(4.0, 0.85 * n)
    figure, axes = new_figure(width, (1.1 + 0.22 * n) * len(rows), len(rows), 1, squeeze=False)
    for number, (name, probability) in enumerate(rows.items()):
        draw_arcs(axes[number, 0], words, probability, given=given, heads=heads, least=least)
        axes[number, 0].set_title(name, fontsize=9, color=INK, loc="left", pad=4)
    line = {"linewidth": 1.6}
    entries = {"arc (darker: more probable)": {"color": PLAIN, **line}}
    if heads is not None:
        entries = {"correct (darker: more probable)": {"color": GOOD, **line}, "wrong": {"color": BAD, **line}}
    if given:
        entries["given"] = {"color": INK, "linestyle": ":", **line}
    add_legend(figure, entries)
    return finished(titled(figure, title), path)


def draw_arcs(
    axes: Any,
    words: Sequence[str],
    probability: NDArray[Any],
    *,
    given: Sequence[tuple[int, int]] = (),
    heads: Sequence[int | None] | None = None,
    least: float = LEAST,
) -> None:
    """One sentence on given axes."""
    from matplotlib.patches import FancyArrowPatch

    n, chosen = len(words), set(given)
    top = 0.3 * n + 0.7
    for c in range(1, n + 1):
        for h in range(n + 1):
            p = float(probability[c - 1, h])
            if p < least or h == c:
                continue
            colour = PLAIN if heads is None else (GOOD if heads[c - 1] == h else BAD)
            style: dict[str, Any] = {"color": colour, "alpha": 0.15 + 0.85 * p, "linewidth": 1.4, "arrowstyle": "-|>",
                     "mutation_scale": 9, "linestyle": ":" if (h, c) in chosen else "-", "shrinkA": 0,
                     "shrinkB": 0}  # fmt: skip
            if h == 0:
                axes.add_patch(FancyArrowPatch((c, top), (c, 0.05), **style))
                axes.text(c + 0.08, top - 0.25, f"{p:.2f}", fontsize=6, color=colour)
                continue
            shift = 0.12 if h < c else -0.12
            bend = -0.55 if h < c else 0.55
            axes.add_patch(FancyArrowPatch((h + shift, 0.05), (c, 0.05), connectionstyle=f"arc3,rad={bend}", **style))
            axes.text((h + c) / 2, 0.29 * abs(h - c) + 0.12, f"{p:.2f}", fontsize=6, color=colour, ha="center")
    for c, word in enumerate(words, start=1):
        axes.text(c, -0.15, word, ha="center", va="top", fontsize=9, color=INK)
    axes.set_xlim(0.3, n + 0.7)
    axes.set_ylim(-0.7, top + 0.1)
    axes.axis("off")
