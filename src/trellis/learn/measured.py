"""Measurements: labels that are near their targets together, and not in expectation (Liang et al. 2009; Ganchev et al.
2010, eq. 36-38).

    max_θ  log Σ_Y p_θ(Y | X) exp(−price(φ(Y) − b)) + log prior(θ)

The prices are the log-densities of noise in the measurements: squared ones are Gaussian, L1 is Laplacian. Y are the
outputs of all free instances, which a price over the corpus ties together, so that the sum is estimated by EM whose
E-step draws from p_θ(Y | X) exp(−price). A sweep proposes for every instance in turn an exact sample of the model, and
accepts it with probability min(1, exp(−change of the price)) (Metropolis & Hastings).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.constraints import Constraint, Rule
from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind
from trellis.constraints.violations import group_prices
from trellis.data.arrays import ArrayOf
from trellis.data.ragged import FloatArray, LabelArray
from trellis.engine import Piece, Placed, place_batch
from trellis.errors import ConstraintError
from trellis.learn.training import Training, TrainingStep
from trellis.loop.step import ArrayState, StepResult
from trellis.models.model import rows_of, scores_of
from trellis.structures import Structure

BURN_IN, KEPT = 5, 10
"""Sweeps of a round that are left out, and those whose outputs are counted."""


@dataclass(frozen=True)
class Drawn(ArrayState):
    """outputs : (n_slots,) those of the last sweep, −1 before the first."""

    outputs: LabelArray

    ARRAYS: ClassVar = {"outputs": ArrayOf(np.int32, ("slots",))}


class MeasuredStep(TrainingStep[Drawn]):
    """An E-step that draws the labels of the free instances together."""

    falls = True  # what is sampled goes up and down

    def __init__(self, training: Training, constraints: Sequence[Constraint | Rule]) -> None:
        super().__init__(training)
        batch = training.free_batch
        rows = rows_of(training.model, batch, constraints).canonical()
        hard = np.flatnonzero(rows.groups.kind[rows.group] == Kind.HARD)
        for number in rows.constraint[hard].tolist():
            raise ConstraintError(
                f"{rows.names[number]!r} is hard, but a measurement has noise: give it a price, .penalty(σ, 'squared')"
            )
        for number in rows.constraint[rows.groups.kind[rows.group] == Kind.KL].tolist():
            raise ConstraintError(
                f"{rows.names[number]!r} has a KL penalty, which is for expectations, but a measurement is of one "
                "output: give it a price, .penalty(σ, 'squared')"
            )
        self.rows = rows.weighted(batch.weights)
        self.local, self.coupling = self.rows.local(), self.rows.coupling()
        self.free: Placed[Piece] = place_batch(training.engine, batch)

    @property
    def placed(self) -> list[Placed[Any]]:
        return [self.free]

    def initial_state(self, gamma: float, rng: np.random.Generator) -> Drawn:
        return Drawn(np.full(self.training.free_batch.n_slots, -1, np.int32))

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> Drawn:
        return Drawn.read(arrays, slots=self.training.free_batch.n_slots)

    def run(self, gamma: float, state: Drawn, rng: np.random.Generator) -> StepResult:
        training, model, batch = self.training, self.training.model, self.training.free_batch
        scores, share = scores_of(model, batch), replace(batch, weights=batch.weights / KEPT)
        outputs, free, values, total = state.outputs, scores.infer().log_partition, [], None
        excess = np.zeros(len(self.rows))
        for number in range(BURN_IN + KEPT):
            outputs = sweep(scores, self.local, self.coupling, outputs, rng)
            if number < BURN_IN:
                continue
            counted = model.collect(share, scores.certain(outputs, weights=share.weights))
            total = counted if total is None else total + counted
            own = self.rows.excess(self.rows.evaluate(outputs))
            price = group_prices(self.rows.groups, self.rows.group, own).sum()
            excess += own / KEPT
            values.append(float(batch.weights @ (scores.score(outputs) - free)) - price)
        n = np.maximum(np.bincount(self.rows.constraint, minlength=len(self.rows.names)), 1)
        over = np.bincount(self.rows.constraint, excess, minlength=len(self.rows.names)) / n
        return StepResult(
            training.with_supervised(total), float(np.mean(values)) + training.known_value(), Drawn(outputs),
            violation=dict(zip(self.rows.names, over.tolist(), strict=True)),
        )  # fmt: skip


def sweep(scores: Structure, local: Rows, coupling: Rows, outputs: LabelArray, rng: np.random.Generator) -> LabelArray:
    """The outputs after a proposal for every instance; those before may be −1, not known."""
    structure: Any = scores  # one that can be sampled
    [proposed] = structure.sample(1, rng)
    if np.any(outputs < 0):
        return np.asarray(proposed, np.int32)
    own, new = (_counts(coupling, each) for each in (outputs, proposed))
    change = _local_prices(local, proposed, len(scores)) - _local_prices(local, outputs, len(scores))
    moves, total = (new - own).tocsr(), np.asarray(own.sum(axis=0)).ravel()
    price = group_prices(coupling.groups, coupling.group, coupling.excess(total)).sum()
    accepted, allowed = np.ones(len(scores), np.bool_), -np.log(rng.random(len(scores)))
    for i in rng.permutation(len(scores)).tolist():
        move = slice(moves.indptr[i], moves.indptr[i + 1])
        if move.start == move.stop:
            accepted[i] = change[i] <= allowed[i]
            continue
        then = total.copy()
        then[moves.indices[move]] += moves.data[move]
        at = group_prices(coupling.groups, coupling.group, coupling.excess(then)).sum()
        accepted[i] = change[i] + at - price <= allowed[i]
        if accepted[i]:
            total, price = then, at
    pieces = (scores.parts.split_outputs(each) for each in (outputs, proposed))
    chosen = [b if yes else a for a, b, yes in zip(*pieces, accepted.tolist(), strict=True)]
    return np.asarray(scores.parts.join_outputs(chosen), np.int32)


def _counts(rows: Rows, outputs: LabelArray) -> Any:
    """(n_instances, n_rows): what each instance adds to every row."""
    parts = rows.parts
    used = parts.of(outputs)
    table = sparse.csc_matrix((rows.coefficient, (rows.entry_row, rows.part)), (len(rows), parts.n_parts))
    owner = parts.instance_of(used), np.arange(len(used))
    at = sparse.csr_matrix((np.ones(len(used)), owner), (parts.n_instances, len(used)))
    return (at @ table[:, used].T).tocsr()


def _local_prices(rows: Rows, outputs: LabelArray, n: int) -> FloatArray:
    """(n,): what each instance pays by itself."""
    paid = group_prices(rows.groups, rows.group, rows.excess(rows.evaluate(outputs)))
    owner = np.zeros(len(rows.groups), np.int64)
    owner[rows.group] = rows.instance
    return np.bincount(owner, paid, minlength=n).astype(np.float64)
