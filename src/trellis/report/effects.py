"""What constraints do to the posteriors of a batch: how far each is from holding before and after the projection.

p(y) ∝ exp(score(y) / γ)           before
q = argmin KL(q ‖ p), E_q[φ] ≤ b    after; λ is the price at which q pays for what p wanted (Ganchev et al. 2010)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints import Constraint, Rule, compile_constraints, learned
from trellis.constraints.few_labels import FewLabels
from trellis.constraints.penalties import as_constraint
from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray
from trellis.models.model import rows_of
from trellis.projection import project
from trellis.report.page import table

KEPT = 0.01
"""A row that lacks less than this holds."""


@dataclass(frozen=True)
class Effect:
    """One constraint.

    rows : places where it says something;  before, after : share of them where it holds under p and under q
    lack_before, lack_after : mean of what they lack;  dual : mean λ, None where the constraint rules outputs out
    """

    name: str
    sentence: str
    rows: int
    before: float
    after: float
    lack_before: float
    lack_after: float
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
    loose = [one if isinstance(one, FewLabels) else one.with_strength(learned()) for one in given]
    asked = replace(compile_constraints(loose, batch, model.label_names_, parts).written_out(), sparsity=())
    before = project(scores, Rows.none(parts), gamma, at=asked.part).posterior
    found = project(scores, rows, gamma, at=asked.part, tolerance=tolerance)
    lacks = [asked.excess(asked.expect(q)) for q in (before, found.posterior)]
    pulls = found.pulls()
    made = []
    for number, (name, one) in enumerate(zip(asked.names, given, strict=True)):
        mine = asked.constraint == number
        own = [lack[mine] for lack in lacks]
        holds, holds_after = (float(np.mean(lack <= KEPT)) if len(lack) else 1.0 for lack in own)
        lacks_before, lacks_after = (float(np.mean(lack)) if len(lack) else 0.0 for lack in own)
        dual = _mean(pulls.get(name))
        made.append(Effect(name, one.describe(), int(mine.sum()), holds, holds_after, lacks_before, lacks_after, dual))
    return Effects(before, found.posterior, tuple(made))


def _mean(dual: FloatArray | None) -> float | None:
    return None if dual is None or not np.size(dual) else float(np.mean(np.abs(dual)))


def effects_table(found: Sequence[Effect]) -> str:
    """What each constraint says and did, as a table of a page."""
    return table(
        ("constraint", "in words", "places", "holds before", "after", "lacks before", "after", "mean |λ|"),
        [
            (e.name, e.sentence, e.rows, f"{100 * e.before:.0f} %", f"{100 * e.after:.0f} %", f"{e.lack_before:.3f}",
             f"{e.lack_after:.3f}", "strict" if e.dual is None else f"{e.dual:.3f}")
            for e in found
        ],
        "Before and after the projection. λ is the price per unit of violation at which the constraint holds; "
        "a strict one that rules single labels out needs none.",
        words=(0, 1),
    )  # fmt: skip
