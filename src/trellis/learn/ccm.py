"""CCM: one constrained conditional model, six ways to learn it from the same rules, labels and unlabelled text.

    method        E-step on unlabelled instances                          γ
    supervised    none
    hard-em       best output of the model                                −∞ (0 gives the same), no constraints
    em            posterior of the model                                  1, no constraints
    codl          best output under the constraints                       −∞
    pr            posterior projected onto the constraints                1
    uem           the same, sharpened                                     any γ ≥ 0

(Chang 2011, algorithms 7 and 8; Ganchev et al. 2010; Samdani et al. 2012.) Whatever the method, penalties of strength
"learned" come from the labelled instances, β mixes in the supervised parameters, and prediction is the constrained
argmax.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from trellis.constraints import Constraint, Rule, compile_constraints
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError, UnknownNameError
from trellis.learn.codl import CoDL, starting_penalties
from trellis.learn.decoding import CCMPrediction
from trellis.learn.penalties import with_penalties
from trellis.learn.uem import UEM

METHODS = ("codl", "pr", "uem", "hard-em", "em", "supervised")
DEFAULT_GAMMA = 0.5
LARGEST_DUAL = 50.0
"""Bound on duals where ρ is larger or infinite: e^−50 is as good as never, and the projection stays well scaled."""


class CCM(CCMPrediction):
    """A chain model with constraints, learned by the method that is named.

    method : see the table above
    gamma : of "uem" (0.5 unless given); the other methods have their own
    beta, rounds, hard, k_best, smoothing, beam : as in :class:`CoDL`; k_best is of "codl" and "hard-em" alone
    tolerance, evaluations : of the projection, as in :class:`UEM`

    Learned: ``model``, ``penalties_``, ``history_``, ``n_rounds_``, and ``duals_`` of "pr" and "uem": the mean dual
    variable of each constraint's rows, the price that the last projection put on it.
    """

    def __init__(
        self,
        model: Any,
        constraints: Sequence[Constraint | Rule] = (),
        *,
        method: str = "codl",
        gamma: float | None = None,
        beta: float | None = 0.7,
        rounds: int = 5,
        hard: bool = False,
        k_best: int = 1,
        smoothing: float = 0.5,
        beam: int = 50,
        tolerance: float = 1e-2,
        evaluations: int = 50,
        random_state: int | None = None,
        threads: int | None = 1,
        show_progress: bool = False,
    ) -> None:
        self.model = model
        self.constraints = constraints
        self.method = method
        self.gamma = gamma
        self.beta = beta
        self.rounds = rounds
        self.hard = hard
        self.k_best = k_best
        self.smoothing = smoothing
        self.beam = beam
        self.tolerance = tolerance
        self.evaluations = evaluations
        self.random_state = random_state
        self.threads = threads
        self.show_progress = show_progress

    def fit(self, X: Any, y: Any = None, *, weights: Any = None, dev: tuple[Any, Any] | None = None) -> Self:
        """Train; ``dev`` as in :meth:`CoDL.fit`."""
        self._check_settings()
        compile_ahead(f"train-{self.method}")
        self.duals_: dict[str, float] = {}
        if self.method in ("codl", "hard-em", "supervised"):
            self._fit_by_argmax(X, y, weights, dev)
        else:
            self._fit_by_projection(X, y, weights, dev)
        return self

    def _fit_by_argmax(self, X: Any, y: Any, weights: Any, dev: tuple[Any, Any] | None) -> None:
        batch, rho = self._prepare(X, y, weights)
        learner = CoDL(
            self.model,
            self.constraints if self.method == "codl" else (),
            beta=self.beta,
            rounds=0 if self.method == "supervised" else self.rounds,
            hard=self.hard,
            k_best=self.k_best,
            smoothing=self.smoothing,
            beam=self.beam,
            random_state=self.random_state,
            threads=self.threads,
            show_progress=self.show_progress,
        ).fit(X, y, weights=weights, dev=dev)
        self.penalties_ = {**self._named(rho, batch), **learner.penalties_}
        self.history_, self.n_rounds_ = learner.history_, learner.n_rounds_

    def _fit_by_projection(self, X: Any, y: Any, weights: Any, dev: tuple[Any, Any] | None) -> None:
        batch, rho = self._prepare(X, y, weights)
        constraints = with_penalties(self.constraints, np.minimum(rho, LARGEST_DUAL)) if self.method != "em" else []
        has_labels = bool(np.any(batch.complete))
        learner = UEM(
            self.model,
            constraints,
            gamma=self.gamma_,
            beta=self.beta if has_labels else None,
            max_rounds=self.rounds,
            tol=0.0,
            tolerance=self.tolerance,
            evaluations=self.evaluations,
            random_state=self.random_state,
            threads=self.threads,
            track_likelihood=False,
            show_progress=self.show_progress,
        ).fit(X, y, weights=weights, dev=dev)
        self.penalties_ = self._named(rho, batch)
        self.history_, self.n_rounds_ = learner.history_, learner.n_rounds_
        if constraints and learner.duals_ is not None:
            free = batch.take(np.flatnonzero(~batch.complete))
            self.duals_ = _mean_duals(constraints, free, self.model, learner.duals_.row)

    def _prepare(self, X: Any, y: Any, weights: Any) -> tuple[Batch, FloatArray]:
        """The data in the model's codes, and ρ₀."""
        batch: Batch = self.model.encode(X, y, weights, fit=True)
        labelled = batch.take(np.flatnonzero(batch.complete))
        rho = starting_penalties(
            self.model, labelled, self.constraints, hard=self.hard, smoothing=self.smoothing
        )  # fmt: skip
        return batch, rho

    def _named(self, rho: FloatArray, batch: Batch) -> dict[str, float]:
        if not self.constraints:
            return {}
        none = batch.instances(0, 0)
        parts = self.model.parts(none)
        names = compile_constraints(list(self.constraints), none, self.model.label_names_, parts).names
        return dict(zip(names, rho.tolist(), strict=True))

    @property
    def gamma_(self) -> float:
        """γ of the method; −∞ where the E-step is an argmax."""
        if self.method == "uem":
            return DEFAULT_GAMMA if self.gamma is None else float(self.gamma)
        return 1.0 if self.method in ("em", "pr") else -np.inf

    def _check_settings(self) -> None:
        if self.method not in METHODS:
            raise UnknownNameError("method", self.method, METHODS)
        self._check_whole(rounds=0, k_best=1, beam=1, evaluations=1, random_state=0)
        self._check_within(beta=(0.0, 1.0), smoothing=(0.0, np.inf), tolerance=(1e-15, np.inf))
        if self.gamma is not None and self.method != "uem":
            fixed = {"em": "EM at γ = 1", "pr": "UEM at γ = 1"}.get(self.method, "a method without γ")
            raise DataError(f"gamma goes with method 'uem'; {self.method!r} is {fixed}")
        if self.k_best != 1 and self.method not in ("codl", "hard-em"):
            raise DataError(f"k_best goes with the methods 'codl' and 'hard-em', not with {self.method!r}")
        if self.rounds < 1 and self.method not in ("codl", "hard-em", "supervised"):
            raise DataError(f"rounds must be at least 1 for method {self.method!r}, got {self.rounds}")


def _mean_duals(constraints: Sequence[Constraint], free: Batch, model: Any, duals: FloatArray) -> dict[str, float]:
    rows = compile_constraints(list(constraints), free, model.label_names_, model.parts(free))
    if len(duals) != len(rows):
        return {}
    total = np.bincount(rows.constraint, np.abs(duals), minlength=len(rows.names))
    n = np.bincount(rows.constraint, minlength=len(rows.names))
    return dict(zip(rows.names, (total / np.maximum(n, 1)).tolist(), strict=True))
