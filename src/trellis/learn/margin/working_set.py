"""Cuts of a convex problem, found so far, and the dual over them.

    min_w  ½ ‖w‖² + Σ_i C_i ξ_i^d       ξ_i ≥ 0,  ξ_i ≥ b_c − w · f_c for every cut c of example i      (d = 1 or 2)

    dual:  max_{α ≥ 0}  Σ_c α_c b_c − ½ ‖Σ_c α_c f_c‖² − Σ_i (Σ_{c of i} α_c)² / 4C_i                    (d = 2)
           the same without the last term, and Σ_{c of i} α_c ≤ C_i                                      (d = 1)

With bounds, low ≤ w ≤ high, w is Σ α f clipped to them, and ½ ‖Σ α f‖² in the dual becomes w · Σ α f − ½ ‖w‖².
(Chang 2011, eq. 2.16, 6.8 and after.) Every α that is allowed gives a lower bound of what w can reach, and every w an
upper bound: their distance is the duality gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from trellis.data.arrays import ArrayOf
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray
from trellis.learn.margin.kernels import dual_descent
from trellis.loop.step import ArrayState

Bounds = tuple[FloatArray, FloatArray]
TURNS = 50
"""No more turns of sweeps than this at a time: new cuts are worth more than the last digits."""
LIGHT = 4
"""Sweeps over the cuts with α > 0 alone, which are few, between two over all."""


@dataclass(frozen=True)
class Cuts(ArrayState):
    """Cuts b − w · f and their α.

    starts, columns, values : f (n_cuts, n_weights) as sparse rows;  bound : b;  alpha : α;  example : of each cut
    total : Σ α f (n_weights,)
    """

    starts: IntArray
    columns: LabelArray
    values: FloatArray
    bound: FloatArray
    alpha: FloatArray
    example: IntArray
    total: FloatArray

    ARRAYS: ClassVar = {
        "bound": ArrayOf(np.float64, ("cuts",)),
        "starts": ArrayOf(np.int64, ("cuts + 1",), offsets_of="entries"),
        "columns": ArrayOf(np.int32, ("entries",), below="weights"),
        "values": ArrayOf(np.float64, ("entries",)),
        "alpha": ArrayOf(np.float64, ("cuts",), low=0.0),
        "example": ArrayOf(np.int64, ("cuts",), below="examples"),
        "total": ArrayOf(np.float64, ("weights",)),
    }


class WorkingSet:
    """Cuts and their α; ``weights`` is always Σ α f, within the bounds if there are any.

    cost : (n_examples,) C_i, all positive;  power : d;  bounds : (low, high) of the weights, or None
    """

    def __init__(self, cost: FloatArray, n_weights: int, power: int, bounds: Bounds | None = None) -> None:
        self.cost, self.power, self.bounds = cost, power, bounds
        self._set_total(np.zeros(n_weights))
        self._start, self._column, self._value = np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0)
        self.bound, self.alpha, self.example = np.zeros(0), np.zeros(0), np.zeros(0, np.int64)
        self._square = np.zeros(0)
        self._order_cuts()

    def __len__(self) -> int:
        return len(self.bound)

    @property
    def rows(self) -> Any:
        """f of all cuts (n_cuts, n_weights)."""
        n = self._start[-1]
        entries = (self._value[:n], self._column[:n], self._start)
        return sparse.csr_matrix(entries, shape=(len(self), len(self.weights)))

    def add(self, example: IntArray, rows: Any, bound: FloatArray, alpha: FloatArray | None = None) -> None:
        """Cuts ``bound`` − w · ``rows`` of examples; ``alpha`` to start from, 0 if not given."""
        if not len(bound):
            return
        alpha = np.zeros(len(bound)) if alpha is None else alpha
        # An output may have the features of another: stored zeros and repeated columns would be work for every sweep.
        rows.sum_duplicates()
        rows.eliminate_zeros()
        n = int(self._start[-1])
        self._column, self._value = _room(self._column, n, rows.nnz), _room(self._value, n, rows.nnz)
        self._column[n : n + rows.nnz], self._value[n : n + rows.nnz] = rows.indices, rows.data
        self._start = np.concatenate([self._start, n + rows.indptr[1:].astype(np.int64)])
        self.bound, self.alpha = np.concatenate([self.bound, bound]), np.concatenate([self.alpha, alpha])
        self.example = np.concatenate([self.example, example])
        self._square = np.concatenate([self._square, np.asarray(rows.multiply(rows).sum(axis=1)).ravel()])
        if np.any(alpha):
            self._set_total(self._total + rows.T @ alpha)
        self._order_cuts()

    def drop(self, gone: BoolArray) -> FloatArray:
        """Forget cuts; their α (n_gone,) is given back."""
        given = self.alpha[gone]
        if np.any(gone):
            rows = self.rows[~gone]
            self._start, self._column, self._value = rows.indptr.astype(np.int64), rows.indices, rows.data
            self.bound, self.alpha, self.example = self.bound[~gone], self.alpha[~gone], self.example[~gone]
            self._square = self._square[~gone]
            if np.any(given):
                self._set_total(rows.T @ self.alpha)
            self._order_cuts()
        return given

    def _set_total(self, total: FloatArray) -> None:
        """Let Σ α f be this, and the weights what is nearest."""
        self._total = total
        self.weights = total if self.bounds is None else np.clip(total, *self.bounds)

    def _order_cuts(self) -> None:
        order = np.argsort(self.example, kind="stable")
        first = np.searchsorted(self.example[order], np.arange(len(self.cost) + 1))
        self._arrays = (first, order, self._start, self._column, self._value, self.bound)

    def descend(
        self, rng: np.random.Generator, *, sweeps: int = 1, examples: IntArray | None = None, pulling: bool = False
    ) -> None:
        """Sweeps over examples in random order.

        examples : which; None: all that have cuts;  pulling : over their cuts with α > 0 alone
        """
        sweep = dual_descent.sweep_squared if self.power == 2 else dual_descent.sweep_hinge
        visit = np.flatnonzero(np.diff(self._arrays[0])) if examples is None else examples
        moving = self.alpha, self.weights, self._total, *(self.bounds or (np.zeros(0), np.zeros(0)))
        for _ in range(sweeps):
            order = rng.permutation(visit)
            sweep(order, *self._arrays, self._square, self.cost, *moving, pulling)

    def solve(self, rng: np.random.Generator, gap: float) -> None:
        """Sweep until primal and dual over these cuts are within ``gap`` of each other."""
        for _ in range(TURNS):
            self.descend(rng)
            self.descend(rng, sweeps=LIGHT, pulling=True)
            if self.primal(self.slacks()) - self.dual() <= gap:
                return

    def slacks(self, some: slice = slice(None)) -> FloatArray:
        """ξ of examples at the present weights."""
        first, *rest = self._arrays
        numbers = np.arange(len(self.cost))[some]
        found = np.empty(len(numbers))
        dual_descent.slacks(numbers, first, *rest, self.weights, found)
        return found

    def primal(self, slack: FloatArray) -> float:
        """½ ‖w‖² + Σ C ξ^d for given ξ."""
        return 0.5 * float(self.weights @ self.weights) + float(self.cost @ np.maximum(slack, 0.0) ** self.power)

    def dual(self) -> float:
        """A lower bound of the optimum."""
        value = float(self.alpha @ self.bound) - float(self.weights @ (self._total - 0.5 * self.weights))
        if self.power == 1:
            return value
        held = np.bincount(self.example, self.alpha, minlength=len(self.cost))
        return value - float((held * held / (4.0 * self.cost)).sum())

    # checkpoints

    def cuts(self) -> Cuts:
        """The cuts as they are now; sweeps do not change what this returns."""
        n = self._start[-1]
        return Cuts(
            self._start, self._column[:n], self._value[:n], self.bound, self.alpha.copy(), self.example,
            self._total.copy(),
        )  # fmt: skip

    def restore(self, cuts: Cuts) -> None:
        """Take the cuts that :meth:`cuts` gave, or a checkpoint."""
        self._start, self._column, self._value = cuts.starts, cuts.columns, cuts.values
        self.bound, self.alpha, self.example = cuts.bound, cuts.alpha.copy(), cuts.example
        rows = self.rows
        self._square = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
        self._set_total(cuts.total.copy())
        self._order_cuts()


def _room(array: Any, used: int, more: int) -> Any:
    """The array with room for more entries after those used."""
    if used + more <= len(array):
        return array
    larger = np.empty(max(2 * len(array), used + more), dtype=array.dtype)
    larger[:used] = array[:used]
    return larger
