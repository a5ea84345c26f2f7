"""Stochastic subgradient of a structural SVM: a step on each example (Chang 2011, algorithm 4).

    w ← (1 − η_t) w + η_t l C ℓ'(v) f,      v = max_h Δ − w · f,   f = Φ(x, h_i) − Φ(x, ĥ),   η_t = 1 / (t + l)

with ℓ' = 1 or 2 v. (The thesis prints Φ(x, ĥ) for f in v; the derivative of ℓ(v) says f.) A step goes no farther than
to where v is 0, which bounds the first ones. The objective is strongly convex, so the average that weighs w_t by t
approaches the optimum as 1 / t; algorithm 4 returns the last w.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.learn.margin.online import Moving, UpdateRule


class Subgradient(UpdateRule):
    """Steps on the loss and on ½ ‖w‖².

    total : l C, all examples' C together;  power : d of the loss;  delay : l of the step sizes
    """

    augmented = True

    def __init__(self, total: float, power: int, delay: int) -> None:
        self.total, self.power, self.delay = total, power, delay

    def step(self, moving: Moving, rows: Any, loss: FloatArray, weight: float) -> None:
        rate = 1.0 / (moving.n_steps + self.delay)
        violation, square = float(loss[0] - (rows @ moving.w)[0]), float(rows.data @ rows.data)
        moving.w *= 1.0 - rate
        if violation > 0.0 and square > 0.0:
            slope = 1.0 if self.power == 1 else 2.0 * violation
            amount = min(rate * self.total * weight * slope, violation / square)
            np.add.at(moving.w, rows.indices, amount * rows.data)
        moving.u += 2.0 / (moving.n_steps + 1.0) * (moving.w - moving.u)

    def average(self, moving: Moving) -> FloatArray:
        return moving.u.copy()
