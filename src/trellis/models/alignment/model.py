"""Both directions of Model 1 or of the HMM over one table of word pairs: scores, collect, update.

p₁(f, a | e) = Π_j p(a_j | a_{j−1}) t₁(f_j | e_{a_j}),        p₂ with the two languages exchanged
                                                              (Ganchev et al. 2010, eq. 41)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trellis.data.bitext import Bitext
from trellis.data.shards import shard_bounds
from trellis.engine import Engine, Shard
from trellis.errors import DataError, InfeasibleError, UnknownNameError
from trellis.models.alignment.constraints import AlignmentConstraints
from trellis.models.alignment.pair_table import PairTable
from trellis.models.alignment.places import SPAN, Places
from trellis.models.alignment.statistics import AlignmentStatistics
from trellis.models.alignment.translation import ExtraCounts, Prior, prior_tables, updated_tables
from trellis.structures.kernels import align_linear, align_shard
from trellis.structures.kernels.align_shard import Pairs, Shares, Tables
from trellis.structures.kernels.align_work import HMM, MODEL1, Direction
from trellis.structures.kernels.notice import tell_if_compiling

KINDS = {"model1": MODEL1, "hmm": HMM}
BEAM = 1e-9


@dataclass
class AlignmentModel:
    """Parameters of both directions.

    kind : "model1" or "hmm"; may be changed between rounds, the tables stay
    p_null : probability that a word comes from no word, fixed
    concentration, variational : the prior of the tables (:mod:`trellis.models.alignment.translation`)
    reach : of Model 1, words from the diagonal by which a place becomes e times less likely; inf: IBM's Model 1
    jump_pseudo_count : Σ κ of :mod:`trellis.models.alignment.places`
    extra : pseudo-counts that a dictionary and like spelling add to some pairs
    """

    table: PairTable
    kind: str = "hmm"
    p_null: float = 0.3
    concentration: float = 0.15
    variational: bool = True
    reach: float = 40.0
    jump_pseudo_count: float = 10.0
    extra: ExtraCounts = field(default_factory=ExtraCounts, repr=False)
    beam: float = BEAM
    tables: Tables = field(init=False, repr=False)
    places: tuple[Places, Places] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownNameError("alignment model", self.kind, KINDS)
        if not 0.0 < self.p_null < 1.0:
            raise DataError(f"the probability of null must lie between 0 and 1 but is {self.p_null}")
        if not 1e-6 <= self.concentration <= 1e3:
            raise DataError(f"the concentration must lie between 1e-6 and 1000 but is {self.concentration}")
        if not self.reach >= 1.0:
            raise DataError(f"the reach must be at least one word but is {self.reach}")
        self.tables = prior_tables(self.table, self._prior)
        self.places = (Places.initial(), Places.initial())
        self._log_prior: float | None = None

    @property
    def _prior(self) -> Prior:
        return Prior(self.concentration, self.variational, self.extra)

    def scores(self, gamma: float = 1.0) -> tuple[Tables, tuple[Direction, Direction]]:
        """What kernels read: translation tables, and the two directions with jumps to the power 1/γ."""
        kind = KINDS[self.kind]
        first, second = (places.direction(kind, self.p_null, gamma or 1.0, self.reach) for places in self.places)
        return self.tables, (first, second)

    def project(
        self,
        pairs: Pairs,
        constraints: AlignmentConstraints,
        engine: Engine,
        *,
        warm: NDArray[np.float32] | None = None,
        collect: bool = False,
        decode: bool = False,
    ) -> Iterator[tuple[Shard, Shares]]:
        """The E-step: posteriors of every pair, projected, shard by shard in order.

        warm : (n_cells,) dual variables λ/γ to start from, updated; collect, decode : see ``align_shard.run_shard``
        """
        gamma = constraints.gamma
        tables, directions = self.scores(gamma)
        kernel = align_linear.run_linear_shard if gamma == 0.0 else align_shard.run_shard
        # Powers of scores make revivals common that the beam takes to be rare.
        beam = self.beam if gamma >= 1.0 else 0.0
        duals = np.zeros(0, np.float32) if warm is None else warm
        tell_if_compiling(kernel)

        def run(shard: Shard) -> tuple[Shard, Shares]:
            start, stop = shard.instances.start, shard.instances.stop
            sizes = (o[stop] - o[start] for o in (pairs.cell_offsets, pairs.source_offsets, pairs.target_offsets))
            shares = align_shard.new_shares(stop - start, *sizes, SPAN)
            what = start, stop, pairs, tables, directions, constraints.code, constraints.reliability
            stop_at = constraints.tolerance, constraints.budget
            if gamma == 0.0:
                kernel(*what, *stop_at, constraints.hints, decode, shares)
            else:
                kernel(*what, 1.0 / gamma, beam, *stop_at, constraints.hints, duals, collect, decode, shares)
            refuse_impossible(shares, start)
            return shard, shares

        return engine.map(run, _shards(pairs))

    def collect(
        self,
        pairs: Pairs,
        constraints: AlignmentConstraints,
        engine: Engine,
        *,
        warm: NDArray[np.float32] | None = None,
    ) -> AlignmentStatistics:
        """Expected counts of a text under the projected posteriors."""
        statistics = AlignmentStatistics.zeros(self.table)
        for shard, shares in self.project(pairs, constraints, engine, warm=warm, collect=True):
            statistics.add(pairs, shard.instances.start, shard.instances.stop, shares, constraints.gamma)
        return statistics

    def update(self, statistics: AlignmentStatistics, engine: Engine, *, score: bool = False) -> None:
        """The M-step; with ``score`` the log-prior at the new parameters is computed too."""
        self.tables, log_prior = updated_tables(
            self.table, statistics.pairs, statistics.null1, statistics.null2, self._prior, engine,
            self.tables.pair, score,
        )  # fmt: skip
        if self.kind == "hmm":
            self.places = (self._updated_places(statistics, 0), self._updated_places(statistics, 1))
        self._log_prior = log_prior + sum(p.log_prior(self.jump_pseudo_count) for p in self.places) if score else None

    def _updated_places(self, statistics: AlignmentStatistics, k: int) -> Places:
        weights = self.places[k].direction(HMM, self.p_null, statistics.gamma).jump
        return self.places[k].updated(
            statistics.jumps[k][::-1] * weights + statistics.ends[k],
            np.cumsum(statistics.jump_weight[k])[:-1],
            statistics.firsts[k],
            np.cumsum(statistics.first_weight[k])[:-1],
            self.jump_pseudo_count,
        )

    def log_prior(self) -> float:
        """What the last M-step maximised beside E_q[log p]; needs ``update(..., score=True)`` before."""
        if self._log_prior is None:
            raise DataError("the log-prior is computed by update(statistics, engine, score=True)")
        return self._log_prior

    def look_up(self, bitext: Bitext) -> Pairs:
        """New text with the places of its cells in the table."""
        return self.table.look_up(bitext)

    def pruned(self, factor: float = 1.25) -> tuple[AlignmentModel, NDArray[np.int32]]:
        """The model without pairs that are hardly likelier, in both directions, than pairs never seen.

        Also the new place of each pair. Most pairs of a table only ever stood in the same sentence. Pairs with extra
        counts stay, whatever was learned of them, but their counts are not kept: this is a model to align with.
        """
        rows, columns = self.table.sources(), self.table.row_targets
        pair = self.tables.pair
        keep = (pair[:, 0] > factor * self.tables.unseen1[rows]) | (pair[:, 1] > factor * self.tables.unseen2[columns])
        keep[self.extra.at] = True
        table, moved = self.table.kept(keep)
        small = AlignmentModel(table, self.kind, self.p_null, self.concentration, self.variational, self.reach)
        small.beam, small.places = self.beam, self.places
        small.tables = self.tables._replace(pair=pair[keep])
        return small, moved


def _shards(pairs: Pairs) -> list[Shard]:
    bounds = shard_bounds(pairs.cell_offsets).tolist()
    return [Shard(n, range(a, b)) for n, (a, b) in enumerate(pairwise(bounds))]


def refuse_impossible(shares: Shares, start: int) -> None:
    """Raise, naming the pairs, if some pair has no possible alignment (every one uses a forbidden pair)."""
    bad = np.flatnonzero((shares.evaluations > 0) & ~np.isfinite(shares.value))
    if len(bad):
        numbers = tuple(int(start + n) for n in bad)
        raise InfeasibleError(
            f"sentence pair {numbers[0] + 1} has no possible alignment under these constraints; "
            "forbid fewer pairs or give fewer hints",
            instances=numbers,
        )
