"""The E-step of CoDL: the constrained argmax of every unlabelled instance, and the statistics of it.

In the picture of unified EM it is γ = −∞: the posterior is one output that obeys the constraints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint, Rule
from trellis.constraints.compilation import rows_in_file
from trellis.constraints.penalties import count_tests, is_learned, penalty_of
from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.batch import Batch
from trellis.data.on_demand import OnDemand
from trellis.data.ragged import FloatArray, LabelArray
from trellis.data.storage import UNBOUNDED
from trellis.engine import Engine, Placed, shards_of, summed
from trellis.learn.training import Training, TrainingStep
from trellis.loop.step import StepResult
from trellis.models.model import Model, bare, rows_of, scores_of
from trellis.search import Searcher


def searcher_of(
    model: Model,
    batch: Batch,
    constraints: Sequence[Constraint | Rule],
    engine: Engine,
    *,
    beam: int = 50,
    local_only: bool = False,
    memory: object = UNBOUNDED,
) -> Searcher:
    """Constraints over a batch, ready to be searched under; known labels are kept.

    local_only : leave out all that ties instances together
    memory : what the run may use; rows that take too much of it are kept on disk
    """
    shards = shards_of(batch)
    parts = OnDemand(len(shards), lambda number: shards[number].of(batch))
    compiled = partial(rows_of, model, constraints=constraints)
    stored = rows_in_file(constraints, parts, compiled, memory, lambda rows: rows)
    rows = compiled(batch).canonical() if stored is None else stored[0][0]
    if local_only:
        rows = replace(rows.local(), sparsity=())
    return Searcher(rows, batch, engine, beam=beam, shard_rows=None if stored is None else stored[1])


@dataclass(frozen=True)
class Counted:
    """Statistics of outputs; log_free : Σ_i w_i log Z_i, of a discriminative model."""

    statistics: Any
    log_free: float = 0.0

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.statistics + other.statistics, self.log_free + other.log_free)


@dataclass(frozen=True)
class CountAnswers:
    """What a shard adds to the whole, from its answers."""

    model: Model

    def __call__(self, part: Batch, answers: Sequence[Batch]) -> Counted:
        model = self.model
        statistics = summed(
            model.collect(one, model.scores(one).certain(one.labels, weights=one.weights)) for one in answers
        )
        if not model.discriminative:
            return Counted(statistics)
        return Counted(statistics, float(part.weights @ model.scores(part).infer().log_partition))


@dataclass(frozen=True)
class LabellingState:
    """rho : (n_constraints,) penalties of the next round;  labels : of each shard, None: not labelled yet."""

    rho: FloatArray
    labels: tuple[LabelArray | None, ...]

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"rho": self.rho, **{f"labels{i}": own for i, own in enumerate(self.labels) if own is not None}}


class ArgmaxStep(TrainingStep[LabellingState]):
    """The E-step of CoDL: label the free instances, and with ``relearn`` learn ρ anew from the labelling.

    rho : ρ₀ (n_constraints,);  beta : weight of ρ₀ where ρ is learned anew
    """

    def __init__(
        self,
        training: Training,
        constraints: Sequence[Constraint | Rule],
        rho: FloatArray,
        *,
        beam: int,
        k_best: int,
        beta: float | None,
        relearn: bool,
        smoothing: float,
        memory: object = UNBOUNDED,
    ) -> None:
        super().__init__(training)
        self.rho, self.k_best = rho, k_best
        self.beta, self.relearn, self.smoothing = beta, relearn, smoothing
        self.constraints, self.to_learn = constraints, is_learned(constraints)
        self.search = searcher_of(
            training.model, training.free_batch, constraints, training.engine, beam=beam, memory=memory
        )
        self._left: LabellingState | None = None

    @property
    def placed(self) -> list[Placed[Any]]:
        return [self.search.placed]

    def initial_state(self, gamma: float, rng: np.random.Generator) -> LabellingState:
        return LabellingState(self.rho, tuple(None for _ in self.search.placed.shards))

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> LabellingState:
        sizes = {f"labels{i}": part.n_slots for i, part in enumerate(self.training.free_parts)}
        table = {name: ArrayOf(np.int32, (n,), low=0) for name, n in sizes.items()}
        checked = check_arrays({"rho": ArrayOf(np.float64, self.rho.shape, low=0.0), **table}, arrays)
        return LabellingState(checked["rho"], tuple(checked[name] for name in sizes))

    def run(self, gamma: float, state: LabellingState, rng: np.random.Generator) -> StepResult:
        training, placed, model = self.training, self.search.placed, bare(self.training.model)
        if state is not self._left:
            placed.restore(list(state.labels))
        found = self.search.run(partial(scores_of, model), state.rho, k=self.k_best, then=CountAnswers(model))
        counted = Counted(None) if found.collected is None else found.collected
        rho = self._relearned(found.labels)
        self._left = LabellingState(rho, tuple(placed.states))
        seen = found.violations
        violation = dict(zip(seen.names, (seen.excess / np.maximum(seen.rows, 1.0)).tolist(), strict=True))
        # The same labels and the same prices give the same parameters for ever.
        settled = self.k_best == 1 and found.changed == 0 and np.array_equal(rho, state.rho)
        return StepResult(
            training.with_supervised(counted.statistics), found.value - counted.log_free + training.known_value(),
            self._left, violation=violation, settled=bool(settled),
        )  # fmt: skip

    def _relearned(self, labels: LabelArray) -> FloatArray:
        """ρ after a round: β ρ₀ + (1 − β) ρ of the round's labelling; ρ₀ where that tests nothing."""
        if not self.relearn or self.beta is None or not np.any(self.to_learn):
            return self.rho
        model, at = self.training.model, 0
        places, broken = np.zeros(len(self.rho)), np.zeros(len(self.rho))
        for part in self.training.free_parts:
            own = part.with_labels(labels[at : at + part.n_slots])
            at += part.n_slots
            seen = count_tests(self.constraints, own, model.label_names_, model.parts(own))
            places, broken = places + seen[0], broken + seen[1]
        mixed = self.beta * self.rho + (1.0 - self.beta) * penalty_of(places, broken, self.smoothing)
        return np.where(self.to_learn & (places > 0), mixed, self.rho)
