"""What constraints do to the posteriors of a batch: how far each is from holding before and after the projection.

p(y) ∝ exp(score(y) / γ)           before
q = argmin KL(q ‖ p), E_q[φ] ≤ b    after; λ is the price at which q pays for what p wanted (Ganchev et al. 2010)

A place of few_labels_per is a token whose word is counted. It lacks  Σ_k max_t q(y_t = k) − 1  over the tokens t of its
word: the expected number of labels of the word, beyond one.

:func:`plot_projection` is Figure 11 of Ganchev et al. 2010 (Figure 1 of Graça et al. 2009): the label posteriors of a
word's occurrences before and after l1/linf regularization, with the dual variables between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.constraints.each_label import FewLabels
from trellis.constraints.implicit import Sparsity
from trellis.constraints.penalties import as_constraint, loosened
from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray
from trellis.models.model import rows_of
from trellis.projection import project
from trellis.report.figure import INK, finished, new_figure, plain_axes
from trellis.report.page import table

KEPT = 0.01
"""A row that lacks less than this holds."""


@dataclass(frozen=True)
class Effect:
    """One constraint.

    rows : places where it applies;  before, after : share of them where it holds under p and under q
    lack_before, lack_after : mean of what they lack
    strict : whether it is hard;  dual : mean |λ|, None where it needs none: a hard constraint that rules single labels
        out, or one that applies nowhere
    """

    name: str
    sentence: str
    rows: int
    before: float
    after: float
    lack_before: float
    lack_after: float
    strict: bool
    dual: float | None


@dataclass(frozen=True)
class Effects:
    """Posteriors of one batch before and after, and what each constraint did."""

    before: Any
    after: Any
    constraints: tuple[Effect, ...]


def effects(
    model: Any, constraints: Sequence[Constraint | Rule], batch: Any, gamma: float = 1.0, *, tolerance: float = 1e-3
) -> Effects:
    """Project a batch (of the model's ``encode``) onto the constraints."""
    given = [as_constraint(one) for one in constraints]
    scores, parts = model.scores(batch), model.parts(batch)
    rows = rows_of(model, batch, given).written_out()
    loose_rows = loosened(given, batch, model.label_names_, parts).written_out()
    few = [number for number, one in enumerate(given) if isinstance(one, FewLabels)]
    blocks = dict(zip(few, loose_rows.sparsity, strict=True))
    loose_rows = replace(loose_rows, sparsity=())
    at = np.unique(np.concatenate([loose_rows.part, *(block.parts.ravel() for block in blocks.values())]))
    before = project(scores, Rows.none(parts), gamma, at=at).posterior
    found = project(scores, rows, gamma, at=at, tolerance=tolerance)
    both = before, found.posterior
    lacks = [loose_rows.excess(loose_rows.expect(q)) for q in both]
    duals = found.duals_by_name()
    made = []
    for number, (name, one) in enumerate(zip(loose_rows.names, given, strict=True)):
        mine = loose_rows.constraint == number
        own = [_more_than_one(blocks[number], q) for q in both] if number in blocks else [lack[mine] for lack in lacks]
        holds, holds_after = (float(np.mean(lack <= KEPT)) if len(lack) else 1.0 for lack in own)
        lacks_before, lacks_after = (float(np.mean(lack)) if len(lack) else 0.0 for lack in own)
        dual = _mean(duals.get(name))
        made.append(
            Effect(
                name, one.describe(), len(own[0]), holds, holds_after, lacks_before, lacks_after,
                one.strength.kind == Kind.HARD, dual,
            )
        )  # fmt: skip
    return Effects(before, found.posterior, tuple(made))


def _more_than_one(block: Sparsity, q: Any) -> FloatArray:
    """(n_tokens,): the expected number of labels of each token's word, beyond one."""
    labels = block.statistic(q.at(block.parts.ravel()).reshape(-1, block.width)).sum(axis=1)
    return np.asarray(np.maximum(labels[block.key] - 1.0, 0.0))


def _mean(dual: FloatArray | None) -> float | None:
    return None if dual is None or not np.size(dual) else float(np.mean(np.abs(dual)))


def _price(e: Effect) -> str:
    if e.dual is not None:
        return f"{e.dual:.3f}"
    return "hard" if e.strict and e.rows else "–"


def effects_table(found: Sequence[Effect]) -> str:
    """What each constraint says and did, as a table of a page."""
    return table(
        ("constraint", "meaning", "places", "held before", "after", "violation before", "after", "mean |λ|"),
        [
            (e.name, e.sentence, e.rows, f"{100 * e.before:.0f} %", f"{100 * e.after:.0f} %", f"{e.lack_before:.3f}",
             f"{e.lack_after:.3f}", _price(e))
            for e in found
        ],
        "Places: how often the constraint applies. Held, violation: the share of places where it holds, and the mean "
        "violation, for the model alone (before) and its projection onto the constraints (after). λ is the dual "
        "variable: the larger, the more the constraint changes. Hard: it excludes single labels, without a λ. –: it "
        "applies nowhere.",
        words=(0, 1),
    )  # fmt: skip


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
