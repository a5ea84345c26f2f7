"""Pictures of a run of learning: objective and likelihood, distance of q from p, violation by constraint."""

from __future__ import annotations

from typing import Any

from trellis.data.files import FilePath
from trellis.loop.history import History
from trellis.report.figure import ACCENTS, INK, finished, new_figure, plain_axes

STYLES = ("-", "--", ":")


def plot_history(history: History, path: FilePath | None = None, *, title: str = "") -> Any:
    """Return a figure with up to three panels over the rounds.

    path : the figure is written there, as PNG, SVG or PDF by the ending.
    """
    from matplotlib.ticker import MaxNLocator

    names = list(history[-1].violation) if len(history) else []
    distances = [(e.number, e.kl) for e in history if e.kl is not None]
    n = 1 + bool(distances) + bool(names)
    figure, axes = new_figure(7.0, 2.4 * n + 0.22 * ((len(names) + 1) // 2), n, 1, sharex=True, squeeze=False)
    panels = list(axes[:, 0])
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    rounds = [entry.number for entry in history]
    top = panels.pop(0)
    top.plot(rounds, history.objective, color=ACCENTS[0], label="objective")
    likelihoods = [(e.number, e.log_likelihood) for e in history if e.log_likelihood is not None]
    if likelihoods:
        top.plot(*zip(*likelihoods, strict=True), color=ACCENTS[1], linestyle="--", label="log-likelihood")
    top.legend(frameon=False, fontsize=8, labelcolor=INK)
    plain_axes(top, title, y="nats" if likelihoods else "")
    if distances:
        middle = panels.pop(0)
        middle.plot(*zip(*distances, strict=True), color=ACCENTS[2])
        plain_axes(middle, "distance of q from the model's posterior", y="KL(q ‖ p)")
    if names:
        bottom = panels.pop(0)
        for i, name in enumerate(names):
            values = [entry.violation.get(name, 0.0) for entry in history]
            style = STYLES[i // len(ACCENTS) % len(STYLES)]
            bottom.plot(rounds, values, color=ACCENTS[i % len(ACCENTS)], linestyle=style, label=name)
        figure.legend(*bottom.get_legend_handles_labels(), loc="outside lower left", ncols=2, frameon=False, fontsize=8,
                      labelcolor=INK)  # fmt: skip
        plain_axes(bottom, "violation under q, mean over a constraint's rows", y="violation")
    axes[-1, 0].set_xlabel("round", fontsize=9, color=INK)
    return finished(figure, path)
