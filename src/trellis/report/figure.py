"""Figures without a screen: one place that imports matplotlib, only when a plot is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trellis.data.files import FilePath, writing_bytes

INK = "#22303c"
FAINT, LINE = "#e3e7ea", "#c9ced2"
ACCENTS = ("#2f6f8f", "#c8553d", "#6a994e", "#8d6a9f", "#bc8a2e")
GOOD, BAD, PLAIN = "#3f8f4f", "#c8553d", "#2f6f8f"
"""Right, or more; wrong, or less; neither. A picture that uses them has a legend."""


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **layout: Any) -> tuple[Any, Any]:
    """A matplotlib figure and its axes (an array if there are several), drawn to memory."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, **layout)


def add_legend(figure: Any, entries: Mapping[str, dict[str, Any]], columns: int = 3) -> None:
    """Below all panels: what each colour, line or mark means. entries : meaning -> how a line of it is drawn"""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=meaning, **style) for meaning, style in entries.items()]
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, fontsize=8, frameon=False, labelcolor=INK)


def mark(colour: str, shape: str = "o", **more: Any) -> dict[str, Any]:
    """A mark without a line, for a legend."""
    return {"marker": shape, "linestyle": "none", "color": colour, "markersize": 8, **more}


def as_written(figure: Any) -> None:
    """Words and names are drawn as they are: "$5 and $6" would be a formula, and one that ends the run."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_parse_math(False)


def save_figure(figure: Any, path: FilePath) -> None:
    """Write a PNG (or what the ending says), whole or not at all."""
    as_written(figure)
    ending = str(path).rsplit(".", 1)[-1].lower()
    with writing_bytes(path) as out:
        figure.savefig(out, format=ending if ending in ("png", "svg", "pdf") else "png", dpi=150, metadata={})


def titled(figure: Any, title: str) -> Any:
    """Return a figure with a title above its panels, if there is one."""
    if title:
        figure.suptitle(title, fontsize=11, color=INK)
    return figure


def finished(figure: Any, path: FilePath | None) -> Any:
    """Return a figure, written to ``path`` if there is one: how every ``plot_`` function ends."""
    if path is not None:
        save_figure(figure, path)
    return figure


def plain_axes(axes: Any, title: str = "", x: str = "", y: str = "") -> None:
    """Titles, and no frame but the two lines one reads off."""
    axes.set_title(title, fontsize=10, color=INK, loc="left")
    axes.set_xlabel(x, fontsize=9, color=INK)
    axes.set_ylabel(y, fontsize=9, color=INK)
    axes.tick_params(labelsize=8, colors=INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
