"""Expected counts of both directions, added shard by shard in shard order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.models.alignment.pair_table import PairTable
from trellis.models.alignment.places import SPAN
from trellis.structures.kernels import align_table
from trellis.structures.kernels.align_shard import Pairs, Shares


@dataclass
class AlignmentStatistics:
    """Sums over pairs.

    pairs : (n_pairs, 2) expected links of each word pair, by direction
    null1 : (V_f,) expected null links of target words;  null2 : (V_e,) of source words
    jumps, ends, jump_weight, firsts, first_weight : as :class:`~trellis.structures.kernels.align_shard.Shares`
    value : Σ γ V, the bound that the E-step maximises;  evaluations, residual, n_pairs : of the projection
    gamma : under which they were collected: jumps still need the factor c(d)^(1/γ)

    A shard hands over posteriors of its cells, which are added here one shard after the other: a table of counts a
    shard would be as large as the model.
    """

    pairs: FloatArray
    null1: FloatArray
    null2: FloatArray
    jumps: FloatArray
    ends: FloatArray
    jump_weight: FloatArray
    firsts: FloatArray
    first_weight: FloatArray
    value: float = 0.0
    evaluations: int = 0
    residual: float = 0.0
    worst_residual: float = 0.0
    n_pairs: int = 0
    gamma: float = 1.0

    @classmethod
    def zeros(cls, table: PairTable) -> AlignmentStatistics:
        return cls(
            np.zeros((len(table), 2)),
            np.zeros(table.n_targets),
            np.zeros(table.n_sources),
            np.zeros((2, 2 * SPAN + 1)),
            np.zeros((2, 2 * SPAN + 1)),
            np.zeros((2, 2 * SPAN + 2)),
            np.zeros((2, SPAN + 1)),
            np.zeros((2, SPAN + 2)),
        )

    def add(self, pairs: Pairs, start: int, stop: int, shares: Shares, gamma: float) -> None:
        """Add what the pairs start..stop−1 gave."""
        cells = pairs.cells[pairs.cell_offsets[start] : pairs.cell_offsets[stop]]
        align_table.add_cells(cells, shares.forward, shares.backward, self.pairs)
        target = pairs.target[pairs.target_offsets[start] : pairs.target_offsets[stop]]
        source = pairs.source[pairs.source_offsets[start] : pairs.source_offsets[stop]]
        self.null1 += np.bincount(target, shares.null_forward, minlength=len(self.null1))
        self.null2 += np.bincount(source, shares.null_backward, minlength=len(self.null2))
        for name in ("jumps", "ends", "jump_weight", "firsts", "first_weight"):
            total: FloatArray = getattr(self, name)
            total += getattr(shares, name)
        self.gamma = gamma or 1.0
        self.value += self.gamma * float(shares.value.sum())
        self.evaluations += int(shares.evaluations.sum())
        self.residual += float(shares.residual.sum())
        self.worst_residual = max(self.worst_residual, float(shares.residual.max(initial=0.0)))
        self.n_pairs += int(np.count_nonzero(shares.evaluations))
