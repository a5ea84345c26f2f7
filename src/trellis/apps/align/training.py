"""Training of an alignment model that drops improbable word pairs and adds whole words after stems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trellis.engine import Placed
from trellis.learn.training import Training
from trellis.models.alignment import AlignmentStatistics

STEM_ROUNDS = 2
"""Rounds of stems alone: after these, most of their pairs are ruled out, and the table of whole words is small."""
WORTH_PRUNING = 0.75
"""Share of the table that may stay, at most, where a round's ruling out is acted on."""


class PruningTraining(Training):
    """A training whose model drops pairs that a round has ruled out, and takes in words after stems."""

    def update(self, statistics: Any, free: Sequence[Placed[Any]]) -> None:
        super().update(statistics, free)
        if isinstance(statistics, AlignmentStatistics):
            statistics.pairs = ()  # as large as the model, and of no use any more
        self.model.prune(least=WORTH_PRUNING)  # type: ignore[attr-defined]
        self.model.go_on(self.batch)  # type: ignore[attr-defined]
