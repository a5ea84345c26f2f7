"""The cutting plane method: search all examples for what violates most, add it to the working set, solve the dual.

    min_w  ½ ‖w‖² + Σ_{i in S} C₁ ℓ(max_h Δ(h, h_i) − w · (Φ(x_i, h_i) − Φ(x_i, h)))
                  + Σ_{i in B⁻} C₂ ℓ(1 + max_h w · Φ_B(x_i, h)) + Σ_{i in B⁺} C₂ ℓ(1 − w · Φ_B(x_i, h_i))

with ℓ(a) = max(0, a)^d and Φ_B(x, h) = (Φ(x, h) / κ(x), 1): the last feature is the dummy one, whose weight is the bias
(Chang 2011, algorithms 6, 11, 14 and 16; eq. 6.4 to 6.8). An instance of weight n counts n times. A model may know
bounds of its weights (:func:`~trellis.learn.margin.scorer.bounds_of`): the w within them are a convex set, so all of
this, and theorem 3, holds for the best of them.

One pass searches at w = Σ α f, which gives the exact primal value there, and the dual value is known: the gap between
the best primal value so far and the dual is by how much at most that w can be improved. Cuts are added where an example
is ε-violated, its ε such that all that is left out adds up to a tenth of the gap at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.ragged import FloatArray, IntArray
from trellis.learn.margin.group import Best, Group
from trellis.learn.margin.scorer import bounds_of
from trellis.learn.margin.working_set import Cuts, WorkingSet

SHARE = 0.1
"""Of the gap: what cuts that are not added may hide."""
SOLVED = 0.4
"""Of the gap: to what the dual over the cuts is solved in a pass, since the next one brings new cuts."""
KEPT = 5
"""Cuts per example, on average, above which those with α = 0 are forgotten."""
ROUNDING = 1e-10


class Weights:
    """The weights of a model, and of the dummy feature, as one vector and as the loop's parameters."""

    def __init__(self, model: Any) -> None:
        self.model, self.bias = model, 0.0

    def __len__(self) -> int:
        return len(self.model.weights_) + 1

    def take(self, vector: FloatArray) -> None:
        """Let the model have these weights (n_weights + 1,)."""
        self.set_parameters({"weights": vector[:-1].copy(), "bias": vector[-1:].copy()})

    def show(self, vector: FloatArray) -> None:
        """Let searches see these weights, not a copy of them."""
        self.model.weights_, self.bias = vector[:-1], float(vector[-1])

    def vector(self) -> FloatArray:
        return np.append(self.model.weights_, self.bias)

    def parameters(self) -> dict[str, FloatArray]:
        return {**self.model.parameters(), "bias": np.array([self.bias])}

    def set_parameters(self, parameters: dict[str, FloatArray]) -> None:
        self.model.set_parameters({name: value for name, value in parameters.items() if name != "bias"})
        self.bias = float(parameters["bias"][0])


@dataclass(frozen=True)
class Examples:
    """What there is to learn from: outputs that are given, and questions whose answer is yes or no.

    latent : whether some of the given outputs are known in part
    """

    given: Group
    negative: Group
    positive: Group
    latent: bool = False

    @property
    def groups(self) -> tuple[Group, Group, Group]:
        return self.given, self.negative, self.positive


@dataclass(frozen=True)
class CutState:
    """What a pass leaves for the next one.

    cuts : found so far;  best_weights : (n_weights + 1,) the best so far, of value ``best``;  gap : of the last pass
    gold, paid : features (n, n_weights) and prices (n,) of outputs that are known in part, as they are held; gold is
        None where they are all known
    """

    cuts: Cuts
    best_weights: FloatArray
    best: float
    gap: float
    gold: Any
    paid: FloatArray

    def arrays(self) -> dict[str, NDArray[Any]]:
        found = {**self.cuts.arrays(), "best_weights": self.best_weights, "value": np.array([self.best, self.gap])}
        if self.gold is None:
            return found
        gold = {"starts": self.gold.indptr, "columns": self.gold.indices, "values": self.gold.data, "paid": self.paid}
        return {**found, **{f"gold_{name}": np.asarray(own, GOLD[f"gold_{name}"].dtype) for name, own in gold.items()}}

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]], examples: int, weights: int, given: int | None) -> CutState:
        """What :meth:`arrays` gave; given : number of outputs that are held, None: they are all known"""
        beside = {
            "best_weights": ArrayOf(np.float64, ("weights",)), "value": ArrayOf(np.float64, (2,)),
            **({} if given is None else GOLD),
        }  # fmt: skip
        sizes = {"examples": examples, "weights": weights, "features": weights - 1, "given": given or 0}
        found = check_arrays({**Cuts.ARRAYS, **beside}, arrays, **sizes)
        cuts = Cuts(**{name: found[name] for name in Cuts.ARRAYS})
        gold = None
        if given is not None:
            held = (found["gold_values"], found["gold_columns"], found["gold_starts"])
            gold = sparse.csr_matrix(held, shape=(given, weights - 1))
        best, gap = found["value"].tolist()
        return cls(cuts, found["best_weights"], best, gap, gold, found.get("gold_paid", np.zeros(0)))


GOLD = {
    "gold_starts": ArrayOf(np.int64, ("given + 1",), offsets_of="gold entries"),
    "gold_columns": ArrayOf(np.int32, ("gold entries",), below="features"),
    "gold_values": ArrayOf(np.float64, ("gold entries",)),
    "gold_paid": ArrayOf(np.float64, ("given",)),
}


@dataclass(frozen=True)
class Pass:
    """What one pass found.

    primal : the least value of the objective so far;  dual : what no weights go below
    settled : whether the gap is as small as was asked for, or nothing moves any more
    """

    primal: float
    dual: float
    settled: bool

    @property
    def gap(self) -> float:
        return self.primal - self.dual


class CuttingPlane:
    """The convex problem, with the cuts found so far.

    fixed : whether the structures of negative examples are held as well (algorithm 12 and two stages), so that nothing
        but given outputs is searched for
    normalised : whether Φ_B is divided by κ(x);  power : d;  tol : of the gap, as a share of the objective
    ties : whether searches draw among equals
    """

    def __init__(
        self,
        weights: Weights,
        examples: Examples,
        *,
        C: float,
        C_binary: float,
        power: int,
        tol: float,
        fixed: bool = False,
        normalised: bool = True,
        ties: bool = False,
    ) -> None:
        self.weights, self.examples, self.tol, self.fixed, self.ties = weights, examples, tol, fixed, ties
        self.first = np.cumsum([0, *map(len, examples.groups)])
        costs = [C * examples.given.weights, *(C_binary * group.weights for group in examples.groups[1:])]
        self.cost, self.power = np.concatenate(costs), power
        self.sizes = [group.sizes if normalised else np.ones(len(group)) for group in examples.groups]
        self.bounds = bounds_of(weights.model)
        self.gold: Any = None
        self.paid = np.zeros(len(examples.given))
        self.clear()

    # what is held while the problem is solved

    def give(self, rows: Any, paid: FloatArray) -> None:
        """The given outputs: Φ (n, n_weights) and prices (n,). Cuts of examples whose output is another go."""
        if self.gold is not None:
            changed = np.diff(abs(rows - self.gold).tocsr().indptr) > 0
            changed |= paid != self.paid
            mine = self.set.example < self.first[1]
            self.set.drop(mine & changed[np.where(mine, self.set.example, 0)])
        self.gold, self.paid = rows, paid

    def hold(self, number: int, found: Best) -> None:
        """Let the examples of a group (1: negative, 2: positive) have the structures found, and no others."""
        low, high = self.first[number : number + 2]
        rows, bound = self._answers(number, found, self.sizes[number])
        mine = (self.set.example >= low) & (self.set.example < high)
        alpha, holder = np.zeros(high - low), self.set.example[mine] - low
        np.add.at(alpha, holder, self.set.drop(mine))
        self.set.add(np.arange(low, high), rows, bound, alpha)

    def gold_value(self, some: slice = slice(None)) -> FloatArray:
        """w · Φ − price of given outputs at the model's weights."""
        return np.asarray(self.gold[some] @ self.weights.model.weights_ - self.paid[some])

    def clear(self) -> None:
        """Forget all cuts."""
        self.set = WorkingSet(self.cost, len(self.weights), self.power, self.bounds)
        self._left: CutState | None = None
        self.forget_value()

    def forget_value(self) -> None:
        """The problem is another one: no weights have a value yet."""
        self.best, self.best_weights, self._gap = np.inf, self.weights.vector(), np.inf

    # one pass

    def advance(self, rng: np.random.Generator) -> Pass:
        """Search block by block, solve, and look where that is; the weights of the model are the best found."""
        before, dual = len(self.set), self.set.dual()
        for number, block in self._blocks(rng):
            self.set.add(*self._cuts(number, block, rng if self.ties else None))
            low = self.first[number]
            mine = self.examples.groups[number].block(block)
            self.set.descend(rng, sweeps=3, examples=np.arange(low + mine.start, low + mine.stop))
        self.set.solve(rng, SOLVED * self._gap)
        self.weights.show(self.set.weights)
        violation = self.set.slacks()
        for number in self._searched():
            violation[self.first[number] : self.first[number + 1]] = self._violations(number)
        primal = self.set.primal(violation)
        if primal < self.best:
            self.best, self.best_weights = primal, self.set.weights.copy()
        moved = len(self.set) != before or self.set.dual() > dual + 1e-13 * abs(dual)
        dual = self.set.dual()
        self._gap = max(self.best - dual, 0.0)
        settled = self._gap <= self.tol * abs(self.best) or not moved
        if len(self.set) > KEPT * len(self.cost):
            self.set.drop(self.set.alpha == 0.0)
        self.weights.take(self.best_weights)
        return Pass(self.best, dual, settled)

    def solve(self, passes: int, rng: np.random.Generator) -> None:
        """Passes until the gap is small."""
        for _ in range(passes):
            if self.advance(rng).settled:
                return

    def _searched(self) -> list[int]:
        """Groups (0: given, 1: negative) whose outputs are searched for while the problem is solved."""
        given, negative, _ = self.examples.groups
        return [number for number, some in enumerate((len(given), len(negative) and not self.fixed)) if some]

    def _blocks(self, rng: np.random.Generator) -> list[tuple[int, int]]:
        """Their blocks in random order: (group, block)."""
        every = [(number, b) for number in self._searched() for b in range(len(self.examples.groups[number].blocks))]
        return [every[i] for i in rng.permutation(len(every))]

    def _cuts(self, number: int, block: int, rng: np.random.Generator | None) -> tuple[IntArray, Any, FloatArray]:
        """What violates most in a block at the working set's weights: (example, rows, bound) of new cuts."""
        self.weights.show(self.set.weights)
        group, low = self.examples.groups[number], self.first[number]
        mine = group.block(block)
        examples = slice(low + mine.start, low + mine.stop)
        level = self._level(self.set.slacks(examples), self.cost[examples])
        if number == 0:
            gold, paid = self.gold[mine], self.paid[mine]
            found = group.search(loss=True, level=level + self.gold_value(mine), rng=rng, block=block)
            rows = _widened(gold[found.number] - found.rows)
            return examples.start + found.number, rows, found.constant + paid[found.number]
        sizes = self.sizes[1][mine]
        found = group.search(level=(level - 1.0 - self.weights.bias) * sizes, rng=rng, block=block)
        return examples.start + found.number, *self._answers(1, found, sizes)

    def _violations(self, number: int, *, free: bool = False) -> FloatArray:
        """max_h b − w · f of a group's examples at the model's weights; ``free``: with given outputs not held."""
        group = self.examples.groups[number]
        nothing = np.full(len(group), np.inf)
        found = group.search(loss=number == 0, level=nothing).value
        if number == 0:
            return found - (group.search(known=True, level=nothing).value if free else self.gold_value())
        z = (-1.0, 1.0)[number - 1]
        return 1.0 - z * (found / self.sizes[number] + self.weights.bias)

    def _level(self, slack: FloatArray, cost: FloatArray) -> FloatArray:
        """ξ + ε: violations above it are worth a cut."""
        gap = self._gap if np.isfinite(self._gap) else 0.0
        share = SHARE * gap / max(len(self.cost), 1) / cost
        above = slack + share if self.power == 1 else np.sqrt(slack * slack + share)
        return above + ROUNDING * (1.0 + slack)

    def _answers(self, number: int, found: Best, sizes: FloatArray) -> tuple[Any, FloatArray]:
        """Cuts of yes/no examples:  1 − z (w · Φ_B − price / κ);  sizes : κ of the instances searched."""
        z, mine = (-1.0, 1.0)[number - 1], sizes[found.number]
        rows = sparse.hstack([sparse.diags(z / mine) @ found.rows, np.full((len(mine), 1), z)]).tocsr()
        return rows, 1.0 - z * found.constant / mine

    def objective(self) -> float:
        """The value at the model's weights with nothing held: every structure is the best one (eq. 2.18, 5.3, 6.3)."""
        violation = np.zeros(self.first[3])
        for number, group in enumerate(self.examples.groups):
            if len(group):
                mine = slice(self.first[number], self.first[number + 1])
                violation[mine] = self._violations(number, free=self.examples.latent)
        w = self.weights.vector()
        return 0.5 * float(w @ w) + float(self.cost @ np.maximum(violation, 0.0) ** self.power)

    # checkpoints

    def state(self) -> CutState:
        """All that a next pass depends on."""
        gold = self.gold if self.examples.latent else None
        self._left = CutState(self.set.cuts(), self.best_weights, self.best, self._gap, gold, self.paid.copy())
        return self._left

    def read(self, arrays: Mapping[str, NDArray[Any]]) -> CutState:
        """The state of a checkpoint; what does not fit these examples is refused before a kernel sees it."""
        n = len(self.examples.given) if self.examples.latent else None
        return CutState.read(arrays, len(self.cost), len(self.weights), n)

    def go_on(self, state: CutState) -> bool:
        """Let the next pass begin here; returns whether that is not where the last one ended."""
        if state is self._left:
            return False
        self.set.restore(state.cuts)
        self.best_weights, self.best, self._gap = state.best_weights.copy(), state.best, state.gap
        if state.gold is not None:
            self.gold, self.paid = state.gold, state.paid
        return True


def _widened(rows: Any) -> Any:
    """The same rows with a dummy feature that is 0."""
    return sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], rows.shape[1] + 1))
