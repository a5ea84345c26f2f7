"""Pictures of a run of learning: objective and likelihood, distance of q from p, violation by constraint."""

from __future__ import annotations

from typing import Any

from trellis.learn.history import History
from trellis.report.figure import ACCENTS, new_figure, plain_axes


def plot_history(history: History, title: str = "") -> Any:
    """A figure of three panels over the rounds; save it with :func:`trellis.report.figure.save_figure`."""
    figure, (top, middle, bottom) = new_figure(7.0, 7.0, 3, 1, sharex=True)
    rounds = [entry.number for entry in history]
    top.plot(rounds, history.objective, color=ACCENTS[0], label="objective")
    likelihoods = [(e.number, e.log_likelihood) for e in history if e.log_likelihood is not None]
    if likelihoods:
        top.plot(*zip(*likelihoods, strict=True), color=ACCENTS[1], linestyle="--", label="log-likelihood")
    top.legend(frameon=False, fontsize=8)
    plain_axes(top, title, y="nats")
    distances = [(e.number, e.kl) for e in history if e.kl is not None]
    if distances:
        middle.plot(*zip(*distances, strict=True), color=ACCENTS[2])
    plain_axes(middle, "distance of q from the model's posterior", y="KL(q ‖ p)")
    for i, name in enumerate(history[-1].violation if len(history) else ()):
        values = [entry.violation.get(name, 0.0) for entry in history]
        bottom.plot(rounds, values, color=ACCENTS[i % len(ACCENTS)], label=name)
    if len(history) and history[-1].violation:
        bottom.legend(frameon=False, fontsize=8)
    plain_axes(bottom, "violation under q, mean over a constraint's rows", x="round", y="violation")
    return figure
