"""Reports of trained models of any kind, and of training runs: ``trellis report``.

| model | shown |
| --- | --- |
| an aligner | posterior grids before and after, what agreement and bijectivity did, links against gold |
| an extractor | rules, label posteriors before and after, fields against gold, errors in context |
| a parser of any kind | arcs as likely as they are, heads against gold |
| a learner of labels, a tagger, GE | constraints, words of labels, posteriors before and after, labels against gold |
| views that agree | the same, what each view says, where they differ most |
| a learner of margins | best labels with and without constraints, against gold |
| a relater | rules, what they changed, entities and relations against gold |
| a matcher | names or sentences side by side, mistakes |
| an aggregator | what is estimated of each function, where it is least sure |
| any of them that keeps its history, or a run's file | objective, likelihood, distance and violations by round |
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from trellis.data.files import FilePath
from trellis.errors import DataError, counted
from trellis.loop.history import History
from trellis.report.figure import ACCENTS, INK, finished, new_figure, plain_axes
from trellis.report.page import Page, picture, text

VIOLATED = 0.01
"""Violations that a summary mentions."""
NEXT = {
    "Extractor": "Next: fix rules that the labels violate, and label texts like those with errors.",
    "Aligner": "Next: raise the threshold for precision, or lower it for recall.",
    "Aggregator": "Next: check functions with a low accuracy, and the tokens with divided votes.",
    "Relater": "Next: check rules that change correct predictions.",
    "Matcher": "Next: look at the least certain pairs, and label more like them.",
    "UEM": "Next: weaken constraints that the labels violate; strengthen those without effect.",
}
"""What to do after reading the page, by class."""
SECTIONS = {
    **dict.fromkeys(
        ("UEM", "CCM", "CoDL", "ContrastiveEstimation", "HMM", "CRF", "GE"), "trellis.report.labels_page:labels_page"
    ),
    **dict.fromkeys(("SSVM", "LatentSSVM", "JLIS", "Perceptron", "MIRA"), "trellis.report.labels_page:margins_page"),
    "MultiView": "trellis.report.labels_page:views_page",
}
"""Class -> function that makes its page, of the library's own learners; applications declare theirs."""


def history_section(page: Page, history: History | None) -> None:
    """Curves of a run, if there is one."""
    if history is None or not len(history):
        return
    last = history[-1]
    shown = f"{counted(len(history), 'round')}; the last objective is {last.objective:,.2f}."
    page.add("Training run", text(shown), picture(plot_history(history)))


def report(model: Any, data: Sequence[Any] = (), *, gold: Any = None, history: History | None = None) -> Page:
    """The page of a model over some data, whose labels (or ``gold``, for alignments) are what it is judged by.

    data : pairs of sentences for an aligner, texts for an extractor, sentences for parsers and other learners; rows of
        features for learners of such, with ``gold`` labels, and of views a list of what each sees
    history : rounds of a run; None: those that the model keeps
    """
    known = {**SECTIONS, **import_module("trellis.apps").declared("SECTIONS")}
    kind = type(model).__name__
    if kind not in known:
        raise DataError(
            f"there is no report for a model of class {kind}; there are reports for {', '.join(sorted(known))}"
        )
    if not data:
        raise DataError("there is no text to report on")
    module, _, function = known[kind].partition(":")
    page: Page = getattr(import_module(module), function)(model, list(data), gold)
    kept = getattr(getattr(model, "ccm_", model), "history_", None)
    history = kept if history is None else history
    history_section(page, history)
    page.summary = summary(page, kind, len(data), history)
    return page


def summary(page: Page, kind: str, n: int, history: History | None) -> list[str]:
    """What was trained, what to look at and what to do next, in sentences of at most 80 characters or so."""
    sentences = [f"This page describes a trained {kind}, applied to {n:,} instance{'s' * (n != 1)}."]
    if history is not None and len(history):
        first, last = history[0], history[-1]
        rounds = f"{len(history)} round{'s' * (len(history) != 1)}"
        sentences.append(
            f"Training took {rounds}; the objective went from {first.objective:,.1f} to {last.objective:,.1f}."
        )
        broken = {name: by for name, by in last.violation.items() if by > VIOLATED}
        if broken:
            name = max(broken, key=lambda one: broken[one])
            sentences.append(f"The constraint violated most in the last round is '{name}', by {broken[name]:.3g}.")
        elif last.violation:
            sentences.append("All constraints held in the last round, within the tolerance of the projection.")
    headings = [heading for heading, _ in page.sections]
    if headings:
        sentences.append(f"Look first at '{headings[0]}'" + (f", then at '{headings[1]}'." if headings[1:] else "."))
    if kind in NEXT:
        sentences.append(NEXT[kind])
    return sentences


def history_report(history: History, name: str) -> Page:
    """The page of a run alone."""
    page = Page("Training run", f"Rounds of {name}")
    history_section(page, history)
    if not page.sections:
        raise DataError(f"{name}: there is no round in it")
    return page


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
