"""Answers with probabilities against gold: precision and recall by threshold, and calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray
from trellis.metrics.ranking import calibration
from trellis.report.figure import ACCENTS, FAINT, INK, new_figure, plain_axes
from trellis.report.page import picture

STYLES = ("-", "--")


@dataclass(frozen=True)
class Judged:
    """probability, right : (n,) of what was answered;  n_gold : how many answers gold has"""

    probability: FloatArray
    right: BoolArray
    n_gold: int

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, bool]], n_gold: int) -> Judged:
        """From (probability, whether it is right)."""
        p, hit = (np.array(column) for column in zip(*pairs, strict=True)) if pairs else (np.zeros(0), np.zeros(0))
        return cls(p.astype(np.float64), hit.astype(np.bool_), n_gold)

    def __len__(self) -> int:
        """How many answers there are."""
        return len(self.right)

    def at(self, threshold: float) -> tuple[float, float]:
        """Precision and recall of what has at least this probability; precision of nothing is 1.

        >>> Judged.of([(0.9, True), (0.4, False)], 2).at(0.5)
        (1.0, 0.5)
        """
        kept = self.right[self.probability >= threshold]
        return (float(kept.mean()) if len(kept) else 1.0), float(kept.sum()) / max(self.n_gold, 1)


def curves(judged: Mapping[str, Judged], what: str, given: str = "probabilities") -> list[str]:
    """Both pictures below, for a page: what is kept from some threshold on, and whether what is given is true."""
    return [picture(threshold_curves(judged), what), picture(calibration_curves(judged), f"Calibration of the {given}")]


def threshold_curves(judged: Mapping[str, Judged]) -> Any:
    """Precision and recall against the threshold, a pair of lines per name (Ganchev et al. 2010, Figure 6)."""
    figure, (left, right) = new_figure(8.0, 3.4, 1, 2)
    thresholds = np.linspace(0.02, 0.98, 49)
    for number, (name, one) in enumerate(judged.items()):
        values = np.array([one.at(t) for t in thresholds])
        for values_of, colour, what in ((values[:, 0], ACCENTS[0], "precision"), (values[:, 1], ACCENTS[1], "recall")):
            left.plot(thresholds, values_of, color=colour, linestyle=STYLES[number % 2], label=f"{what}, {name}")
        right.plot(values[:, 1], values[:, 0], color=ACCENTS[2], linestyle=STYLES[number % 2], label=name)
    plain_axes(left, "by threshold", "threshold", "share")
    plain_axes(right, "precision and recall", "recall", "precision")
    for axes in (left, right):
        axes.set_ylim(-0.02, 1.02)
        axes.grid(color=FAINT, linewidth=0.6)
        axes.legend(fontsize=7, frameon=False, loc="lower left", labelcolor=INK)
    return figure


def calibration_curves(judged: Mapping[str, Judged], n_bins: int = 10) -> Any:
    """Share right against probability: on the diagonal, probabilities are what they say; marks by their number."""
    figure, axes = new_figure(4.4, 3.8)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":", label="calibrated")
    for number, (name, one) in enumerate(judged.items()):
        found = calibration(one.probability.tolist(), one.right.tolist(), n_bins)
        colour = ACCENTS[number]
        axes.plot([b.probability for b in found.bins], [b.right for b in found.bins], color=colour,
                  label=f"{name}: expected error {found.error:.3f}")  # fmt: skip
        most = max(b.n for b in found.bins)
        size = [12 + 90 * b.n / most for b in found.bins]
        axes.scatter([b.probability for b in found.bins], [b.right for b in found.bins], s=size, color=colour)
    plain_axes(axes, "", "predicted probability", "share that is correct")
    axes.legend(fontsize=7, frameon=False, loc="upper left", labelcolor=INK)
    return figure
