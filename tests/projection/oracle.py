"""The E-step's primal over enumerated outputs, solved by cvxpy, and its dual by plain sums.

    min_q  Σ_i w_i Σ_y [γ q_i(y) log q_i(y) − q_i(y) score_i(y)] + Σ_groups w_group P_group(E_q[φ] − b) + sparsity

with, for violations ξ = max(e, 0) (|e| for an equality) of the expectations' excess e = E_q[φ] − b,

    hard P = [ξ = 0],   slack ε P = [‖ξ‖ ≤ ε],   penalty σ P = σ ‖ξ‖,   squared σ P = (σ/2) ‖ξ‖₂²,
    kl σ    P = σ Σ b log(b / E) − b + E,   E = E_q[φ].

w_group is the weight of the instance for a local group and 1 for a coupling one, whose expectations are weighted sums.
Nothing here uses the projection layer, nor dynamic programming.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from hypothesis import reject
from scipy.special import xlogy

from trellis.constraints.implicit import Sparsity
from trellis.constraints.rows import COUPLING, Rows
from trellis.constraints.strength import Kind, Norm

PRECISIONS = (1e-11, 1e-10, 1e-9)
"""Tried in turn: where the solver can make no progress at one it may stop at the next."""

ORDER = {Norm.L1: 1, Norm.L2: 2, Norm.LINF: np.inf}
DUAL_ORDER = {Norm.L1: np.inf, Norm.L2: 2, Norm.LINF: 1}


@dataclass(frozen=True)
class Outputs:
    """The possible outputs of one instance.

    use : (n_outputs, n_parts) 0/1, over the parts of the whole batch;  score : (n_outputs,)
    """

    use: np.ndarray
    score: np.ndarray


@dataclass(frozen=True)
class Enumeration:
    """Every instance's outputs, and φ of every row for each (n_outputs, n_rows)."""

    batch: Any
    rows: Rows
    outputs: list[Outputs]
    phi: list[np.ndarray]

    def marginals(self, q: list[np.ndarray]) -> np.ndarray:
        """(n_parts,)."""
        return sum((x @ o.use for x, o in zip(q, self.outputs, strict=True)), np.zeros(self.batch.n_parts))

    def node_marginals(self, q: list[np.ndarray]) -> np.ndarray:
        """Of labels, (n_slots, K)."""
        n_slots, k = self.batch.node.shape
        return self.marginals(q)[: n_slots * k].reshape(n_slots, k)

    @property
    def used(self) -> np.ndarray:
        """Parts that some output uses."""
        return np.flatnonzero(sum(o.use.sum(axis=0) for o in self.outputs))

    def excess(self, q: list[np.ndarray]) -> np.ndarray:
        """E_q[φ] − b of every row; coupling rows are weighted sums."""
        expected = np.zeros(len(self.rows))
        for i, (x, phi) in enumerate(zip(q, self.phi, strict=True)):
            weight = np.where(self.rows.instance == COUPLING, self.batch.weight[i], 1.0)
            expected += weight * (x @ phi)
        return expected - self.rows.bound

    def tilted(self, lam: np.ndarray, sparsity: list[np.ndarray], gamma: float) -> tuple[list[np.ndarray], np.ndarray]:
        """q_i(y) ∝ exp((score(y) − λ·φ(y)) / γ) and γ log of its normaliser, by plain sums."""
        q, log_partition = [], []
        pull = np.zeros(self.batch.n_parts)
        for block, dual in zip(self.rows.sparsity, sparsity, strict=True):
            np.add.at(pull, block.first[:, None] + np.arange(block.width), dual)
        for o, phi in zip(self.outputs, self.phi, strict=True):
            s = (o.score - phi @ lam - o.use @ pull) / gamma
            top = s.max()
            x = np.exp(s - top)
            q.append(x / x.sum())
            log_partition.append(gamma * (top + np.log(x.sum())))
        return q, np.array(log_partition)

    def dual_value(self, lam: np.ndarray, sparsity: list[np.ndarray], gamma: float) -> float:
        """−b·λ − γ log Z(λ) − g(λ), for λ inside the dual set (local terms times their instance's weight)."""
        _, log_partition = self.tilted(lam, sparsity, gamma)
        value = -float(self.batch.weight @ log_partition)
        for members, weight in self.groups():
            kind, norm, amount = self.strength(members)
            value -= weight * float(self.rows.bound[members] @ lam[members])
            if kind == Kind.SLACK:
                value -= weight * amount * float(np.linalg.norm(lam[members], DUAL_ORDER[norm]))
            elif kind == Kind.SQUARED:
                value -= weight * float(lam[members] @ lam[members]) / (2 * amount)
            elif kind == Kind.KL:
                value -= weight * conjugate_of_divergence(lam[members], self.rows.bound[members], amount)
        return value

    def primal_value(self, q: list[np.ndarray], gamma: float) -> float:
        """The objective at a feasible q."""
        value = 0.0
        for w, x, o in zip(self.batch.weight, q, self.outputs, strict=True):
            value += w * float(gamma * np.sum(x * np.log(np.where(x > 0, x, 1.0))) - x @ o.score)
        e = self.excess(q)
        for members, weight in self.groups():
            value += weight * self.price(members, e[members])
        marginals = self.marginals(q)
        for block in self.rows.sparsity:
            value += block.strength * float(largest(block, marginals).sum())
        return value

    def groups(self) -> list[tuple[np.ndarray, float]]:
        """Rows of each norm group and the weight its price counts with."""
        out = []
        for g in range(len(self.rows.groups)):
            members = np.flatnonzero(self.rows.group == g)
            if len(members):
                i = int(self.rows.instance[members[0]])
                out.append((members, 1.0 if i == COUPLING else float(self.batch.weight[i])))
        return out

    def strength(self, members: np.ndarray) -> tuple[Kind, Norm, float]:
        g = int(self.rows.group[members[0]])
        groups = self.rows.groups
        return Kind(int(groups.kind[g])), Norm(int(groups.norm[g])), float(groups.amount[g])

    def violation(self, members: np.ndarray, e: np.ndarray) -> np.ndarray:
        return np.where(self.rows.equality[members], np.abs(e), np.maximum(e, 0.0))

    def price(self, members: np.ndarray, e: np.ndarray) -> float:
        """What the violations of one group cost; nothing for hard and slack ones."""
        kind, norm, amount = self.strength(members)
        xi = self.violation(members, e)
        if kind == Kind.PENALTY:
            return amount * float(np.linalg.norm(xi, ORDER[norm]))
        if kind == Kind.SQUARED:
            return amount / 2 * float(xi @ xi)
        if kind == Kind.KL:
            b = self.rows.bound[members]
            return amount * float(np.sum(xlogy(b, np.maximum(b, 1e-300) / np.maximum(b + e, 1e-300)) + e))
        return 0.0


def conjugate_of_divergence(lam: np.ndarray, b: np.ndarray, amount: float) -> float:
    """sup_e λ·e − P(e), of the excess e."""
    return float(np.sum(-amount * b * np.log(1.0 - lam / amount) - b * lam))


def largest(block: Sparsity, marginals: np.ndarray) -> np.ndarray:
    """(n_keys, width): the largest marginal of each key and column."""
    found = np.zeros((block.n_keys, block.width))
    for first, key in zip(block.first.tolist(), block.key.tolist(), strict=True):
        found[key] = np.maximum(found[key], marginals[first : first + block.width])
    return found


def enumerate_outputs(batch: Any, rows: Rows) -> Enumeration:
    """All outputs with a finite score and no forbidden part."""
    coefficients = np.zeros((batch.n_parts, len(rows)))
    for r in range(len(rows)):
        for e in range(int(rows.start[r]), int(rows.start[r + 1])):
            coefficients[rows.part[e], r] += rows.coefficient[e]
    forbidden = np.zeros(batch.n_parts, dtype=bool)
    forbidden[rows.forbidden.listed()[0]] = True
    everything = []
    for i in range(batch.n_instances):
        use, score = batch.listing(i)
        possible = ~np.any(use[:, forbidden] > 0, axis=1)
        everything.append(Outputs(use[possible], score[possible]))
    return Enumeration(batch, rows, everything, [o.use @ coefficients for o in everything])


def solve_primal(listing: Enumeration, gamma: float) -> tuple[list[np.ndarray], float]:
    """q of each instance and the optimum, from cvxpy."""
    rows, weight = listing.rows, listing.batch.weight
    q = [cp.Variable(len(o.score)) for o in listing.outputs]
    constraints: list[cp.Constraint] = [cp.sum(x) == 1 for x in q]
    objective: cp.Expression = cp.Constant(0.0)
    for w, x, o in zip(weight, q, listing.outputs, strict=True):
        # Σ q = 1, so a constant may be taken out of the scores: it keeps the objective near zero, where the solver's
        # relative tolerances are finest.
        objective += w * (-gamma * cp.sum(cp.entr(x)) - (o.score - o.score.max()) @ x)
    for members, group_weight in listing.groups():
        i = int(rows.instance[members[0]])
        if i == COUPLING:
            terms = [w * phi[:, members].T @ x for w, x, phi in zip(weight, q, listing.phi, strict=True)]
            expected = sum(terms[1:], terms[0])
        else:
            expected = listing.phi[i][:, members].T @ q[i]
        e = expected - rows.bound[members]
        kind, norm, amount = listing.strength(members)
        equal = rows.equality[members]
        over, same = np.flatnonzero(~equal), np.flatnonzero(equal)
        if kind == Kind.HARD:
            constraints += [e[over] <= 0] if len(over) else []
            constraints += [e[same] == 0] if len(same) else []
            continue
        if kind == Kind.KL:
            objective += group_weight * amount * cp.sum(cp.kl_div(rows.bound[members], expected))
            continue
        xi = cp.Variable(len(members), nonneg=True)
        constraints.append(e <= xi)
        if len(same):
            constraints.append(-e[same] <= xi[same])
        if kind == Kind.SLACK:
            constraints.append(cp.norm(xi, ORDER[norm]) <= amount)
        elif kind == Kind.PENALTY:
            objective += group_weight * amount * cp.norm(xi, ORDER[norm])
        else:
            objective += group_weight * amount / 2 * cp.sum_squares(xi)
    for block in rows.sparsity:
        for key in range(block.n_keys):
            for label in range(block.width):
                parts = block.first[block.key == key] + label
                owner = listing.batch.parts.instance_of(parts)
                marginals = [
                    listing.outputs[i].use[:, p] @ q[i] for i, p in zip(owner.tolist(), parts.tolist(), strict=True)
                ]
                if marginals:
                    objective += block.strength * cp.max(cp.hstack(marginals))
    problem = cp.Problem(cp.Minimize(objective), constraints)
    for precision in PRECISIONS:
        with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
            warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
            problem.solve(
                solver=cp.CLARABEL, tol_gap_abs=precision, tol_gap_rel=precision, tol_feas=precision,
                reduced_tol_gap_abs=1e-9, reduced_tol_gap_rel=1e-9, reduced_tol_feas=1e-9, max_iter=400,
            )  # fmt: skip
        if problem.status in ("optimal", "optimal_inaccurate"):
            break
    else:
        # The interior-point method gave up, so there is nothing to compare with: Hypothesis draws another problem.
        # (In a test that draws nothing this is an error, as it should be.)
        reject()
    # The solver's q may be negative by a rounding error, where entropy is not defined: the optimum is that of q made
    # a distribution again.
    solution = [np.maximum(x.value, 0.0) for x in q]
    solution = [x / x.sum() for x in solution]
    return solution, listing.primal_value(solution, gamma)
