"""Pictures of word alignments: the posterior grid of a sentence pair, and precision/recall curves.

The grid follows Ganchev et al. 2010, Figure 5: source words are rows, target words columns; a circle's area is the
posterior of its link; sure links are squares with a border, possible ones without; circles that a constraint made
larger are green, smaller ones red; a legend says so. The curves follow their Figure 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.files import FilePath
from trellis.errors import DataError
from trellis.metrics.alignment import CurvePoint, GoldLinks
from trellis.report.figure import (
    ACCENTS,
    BAD,
    FAINT,
    GOOD,
    INK,
    LINE,
    PLAIN,
    add_legend,
    finished,
    mark,
    new_figure,
    plain_axes,
    titled,
)

CHANGE = 0.05
"""A posterior that differs by less is drawn as unchanged."""


def plot_posterior_grids(
    source: Sequence[str],
    target: Sequence[str],
    rows: Mapping[str, tuple[NDArray[Any], NDArray[Any]]],
    path: FilePath | None = None,
    gold: GoldLinks | None = None,
    *,
    title: str = "",
    judged: bool = False,
) -> Any:
    """Return a figure with a row of two grids for each entry: forward and backward posteriors, both (I, J).

    The first row is what later ones are compared with; with ``judged`` colours say instead what is right by gold.
    path : the figure is written there, as PNG, SVG or PDF by the ending.
    """
    shape = len(source), len(target)
    for name, grids in rows.items():
        for grid in grids:
            if np.shape(grid) != shape:
                raise DataError(
                    f"{name!r} has posteriors of shape {np.shape(grid)} for {shape[0]} and {shape[1]} words"
                )
    cell = 0.32
    width, height = cell * shape[1] + 1.6, cell * shape[0] + 1.5
    figure, axes = new_figure(2 * width, len(rows) * height, len(rows), 2, squeeze=False)
    before = next(iter(rows.values()))
    for number, (name, grids) in enumerate(rows.items()):
        for side, direction in enumerate(("source → target", "target → source")):
            compared = before[side] if number and not judged else None
            draw_grid(axes[number, side], source, target, grids[side], gold, compared, judged)
            axes[number, side].set_title(f"{name}, {direction}", fontsize=9, color=INK, loc="left", pad=4)
    entries = {"area: posterior": mark(PLAIN)}
    if judged:
        entries = {"correct; area: posterior": mark(GOOD), "wrong": mark(BAD)}
    elif len(rows) > 1:
        entries |= {"raised by the constraint": mark(GOOD), "lowered": mark(BAD)}
    if gold is not None:
        square = {"markerfacecolor": FAINT, "markersize": 10}
        entries["sure link"] = mark(INK, "s", **square)
        if gold.possible > gold.sure:
            entries["possible link"] = mark(FAINT, "s", **square)
    add_legend(figure, entries, columns=5 if shape[1] > 7 else 3)
    return finished(titled(figure, title), path)


def draw_grid(
    axes: Any,
    source: Sequence[str],
    target: Sequence[str],
    posterior: NDArray[Any],
    gold: GoldLinks | None,
    before: NDArray[Any] | None,
    judged: bool = False,
) -> None:
    """One grid on given axes; ``judged`` : colours by gold."""
    from matplotlib.patches import Circle, Rectangle

    for i, j in gold.possible if gold is not None else ():
        border = INK if gold is not None and (i, j) in gold.sure else "none"
        axes.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, facecolor=FAINT, edgecolor=border, linewidth=1))
    for i, j in np.argwhere(posterior > 0.01):
        colour = PLAIN
        if before is not None and abs(posterior[i, j] - before[i, j]) > CHANGE:
            colour = GOOD if posterior[i, j] > before[i, j] else BAD
        if judged and gold is not None:
            colour = GOOD if (i, j) in gold.possible else BAD
        axes.add_patch(Circle((j, i), 0.42 * float(np.sqrt(posterior[i, j])), color=colour, linewidth=0))
    axes.set_xlim(-0.5, len(target) - 0.5)
    axes.set_ylim(len(source) - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks(range(len(target)), target, rotation=60, ha="right", rotation_mode="anchor", fontsize=8, color=INK)
    axes.set_yticks(range(len(source)), source, fontsize=8, color=INK)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_color(LINE)


def plot_precision_recall(
    curves: Mapping[str, Sequence[CurvePoint]], path: FilePath | None = None, *, title: str = ""
) -> Any:
    """Return a figure of precision against recall, one line for each name, ordered by least AER in the legend.

    path : the figure is written there, as PNG, SVG or PDF by the ending.
    """
    if not curves:
        raise DataError("there is no curve to draw")
    figure, axes = new_figure(6.4, 4.4)
    ranked = sorted(curves.items(), key=lambda item: min(point.scores.aer for point in item[1]))
    families = list(dict.fromkeys(name.split(",")[0] for name in curves))
    members = {family: [name for name in curves if name.split(",")[0] == family] for family in families}
    for name, points in ranked:
        family = name.split(",")[0]
        axes.plot(
            [point.scores.recall for point in points],
            [point.scores.precision for point in points],
            linestyle=("-", "--", ":")[members[family].index(name) % 3],
            color=ACCENTS[families.index(family) % len(ACCENTS)],
            linewidth=1.6,
            label=name,
        )
    plain_axes(axes, title, "recall", "precision")
    axes.grid(color=FAINT, linewidth=0.6)
    axes.legend(fontsize=7, frameon=False, loc="lower left")
    return finished(figure, path)
