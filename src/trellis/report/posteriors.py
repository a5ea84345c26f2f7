"""Pictures of posteriors: what a projection does to them, and the dual variables that did it.

:func:`plot_projection` is Figure 11 of Ganchev et al. 2010 (Figure 1 of Graça et al. 2009): the label posteriors of a
word's occurrences before and after l1/linf regularization, with the dual variables between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray
from trellis.report.figure import INK, finished, new_figure, plain_axes


def plot_projection(
    before: FloatArray,
    duals: FloatArray,
    after: FloatArray,
    labels: Sequence[str],
    rows: Sequence[str],
    path: FilePath | None = None,
    *,
    title: str = "",
    rows_title: str = "occurrence",
) -> Any:
    """Return a figure of three heat maps: posteriors before (n, K), dual variables (n, K), posteriors after (n, K).

    path : the figure is written there, as PNG, SVG or PDF by the ending.
    """
    figure, panels = new_figure(9.5, 1.6 + 0.24 * len(rows), 1, 3, sharey=True)
    largest = max(float(duals.max(initial=0.0)), 1e-12)
    shown = (
        ("posteriors p", before, 1.0, "Blues"),
        ("dual variables λ", duals, largest, "Oranges"),
        ("projected posteriors q", after, 1.0, "Blues"),
    )
    for panel, (name, values, top, colours) in zip(panels, shown, strict=True):
        image = panel.imshow(values, aspect="auto", cmap=colours, vmin=0.0, vmax=top)
        panel.set_xticks(range(len(labels)), labels, rotation=60, ha="right")
        panel.set_yticks(range(len(rows)), rows)
        plain_axes(panel, name, y=rows_title if panel is panels[0] else "")
        figure.colorbar(image, ax=panel, shrink=0.7).ax.tick_params(labelsize=7)
        peaks = values.max(axis=0)
        panel.set_xlabel(
            f"Σ max = {float(peaks.sum()):.2f}" if name != "dual variables λ" else "", fontsize=9, color=INK
        )
    figure.suptitle(title, fontsize=11, color=INK)
    return finished(figure, path)


def plot_sentence(
    before: FloatArray,
    after: FloatArray,
    words: Sequence[str],
    labels: Sequence[str],
    path: FilePath | None = None,
    *,
    title: str = "",
) -> Any:
    """Return a figure of the label posteriors of one sentence before and after a projection.

    There is one row for each label and one column for each word.
    path : the figure is written there, as PNG, SVG or PDF by the ending.
    """
    figure, panels = new_figure(1.4 + 1.1 * len(words), 1.6 + 0.7 * len(labels), 2, 1, sharex=True)
    for panel, (title_of_panel, values) in zip(panels, (("p", before), ("q, projected", after)), strict=True):
        panel.imshow(values.T, aspect="auto", cmap="Blues", vmin=0.0, vmax=1.0)
        for t in range(len(words)):
            for k in range(len(labels)):
                value = float(values[t, k])
                panel.text(
                    t, k, f"{value:.2f}", ha="center", va="center", fontsize=8, color="white" if value > 0.6 else INK
                )
        counts = values.sum(axis=0)
        panel.set_yticks(range(len(labels)), [f"{name}  E = {n:.2f}" for name, n in zip(labels, counts, strict=True)])
        panel.set_xticks(range(len(words)), words)
        plain_axes(panel, title_of_panel)
    figure.suptitle(title, fontsize=11, color=INK)
    return finished(figure, path)
