"""What a constraint does to a distribution, on the triangle of all distributions over three labels.

p is the distribution of a model. The constraint "B has probability at least one half" cuts off part of the
triangle; q is the closest remaining point: at γ = 1 in KL divergence (posterior regularization), and towards γ = 0
the point with the highest score (hard EM).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from plot_tags import GALLERY

from trellis.constraints import compile_constraints, count
from trellis.models import HMM
from trellis.projection import project
from trellis.report.figure import ACCENTS, FAINT, INK, LINE, add_legend, mark, new_figure, save_figure

LABELS = ("A", "B", "C")
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
GAMMAS = (1.0, 0.5, 0.25, 0.0)


def posteriors() -> tuple[Any, dict[float, Any]]:
    """p = (0.50, 0.15, 0.35), and q of every γ."""
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.0, transition_prior=1.0)
    model.fit([["x"]] * 40, [["A"]] * 20 + [["B"]] * 6 + [["C"]] * 14)
    batch = model.encode([["x"]])
    scores, every = model.scores(batch), model.parts(batch).grid()
    rows = compile_constraints([count("B") >= 0.5], batch, model.label_names_, model.parts(batch))
    q = {gamma: project(scores, rows, gamma, tolerance=1e-6).posterior.at(every)[0] for gamma in GAMMAS}
    return scores.infer().at(every)[0], q


def main(folder: Path = GALLERY) -> None:
    p, q = posteriors()
    figure, axes = new_figure(5.6, 4.8)
    axes.fill(*(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]]) @ CORNERS).T, facecolor="none", edgecolor=LINE)
    axes.fill(*(np.array([[0.5, 0.5, 0], [0, 1, 0], [0, 0.5, 0.5]]) @ CORNERS).T, facecolor=FAINT, edgecolor="none")
    for label, (x, y), shift in zip(LABELS, CORNERS, ((-0.06, -0.03), (0.06, -0.03), (0.0, 0.05)), strict=True):
        axes.text(x + shift[0], y + shift[1], label, ha="center", va="center", fontsize=13, color=INK)
    start = p @ CORNERS
    axes.plot(*start, **mark(INK))
    for gamma, colour in zip(GAMMAS, ACCENTS, strict=False):
        end = q[gamma] @ CORNERS
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": colour, "shrinkA": 6, "shrinkB": 6})
        axes.plot(*end, **mark(colour))
    entries = {f"p = ({', '.join(f'{x:.2f}' for x in p)})": mark(INK), "B has at least 0.5": mark(FAINT, "s")}
    entries |= {
        f"q, γ = {gamma:g}: ({', '.join(f'{x:.2f}' for x in q[gamma])})": mark(colour)
        for gamma, colour in zip(GAMMAS, ACCENTS, strict=False)
    }
    add_legend(figure, entries, columns=2)
    axes.set_aspect("equal")
    axes.axis("off")
    save_figure(figure, folder / "projection.png")


if __name__ == "__main__":
    main()
