"""What learners of latent structures share: yes/no examples, fixed structures, rounds that lower Q.

Q(w) = ½ ‖w‖² + C₁ Σ_{i in S} ℓ(max_h Δ(h, h_i) − w · (Φ(x_i, h_i) − Φ(x_i, h)))
              + C₂ Σ_{i in B} ℓ(1 − z_i max_h w · Φ_B(x_i, h)),          Φ_B = (Φ / κ(x), 1)   (Chang 2011, eq. 6.3)
"""

from __future__ import annotations

from collections.abc import Mapping, Set, Sized
from copy import copy
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from trellis.data.checks import check_list, check_sample_weight
from trellis.data.ragged import FloatArray, IntArray
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError, UnknownNameError
from trellis.learn.margin.cutting_plane import Weights
from trellis.learn.margin.learner import NONE, MarginLearner, solver_of
from trellis.learn.margin.scorer import sizes_of
from trellis.learn.margin.steps import LatentStep
from trellis.loop.loop import Loop
from trellis.models.inference import Inference

STARTS = ("auto", "model")


@dataclass(eq=False, repr=False, kw_only=True)
class IndirectLearner(MarginLearner):
    """Learners with structures to be found: of yes/no examples, of outputs known in part.

    Parameters
    ----------
    random_state : int or None
        Seed for ties and for the order of examples.
    random_ties : bool
        Choose at random among structures with equal scores. Needed if there are no labelled structures to start from.
    start : {"auto", "model"} or estimator
        Initial weights: "auto" trains them on the labelled structures, or uses 0; "model" takes the weights of the
        model. Another estimator, such as ``CoDL(HMM(), rules)`` or a CRF, gives the first structures of positive
        examples: it is trained on the labelled instances and on these, unlabelled, unless it has been trained already.
    n_init : int
        Number of restarts; the one with the lowest objective is kept.
    tol : float
        Training stops when the objective decreases by less than this fraction.
    inner_tol : float
        Relative duality gap at which the convex problem of a round is solved.
    inner_iter : int
        Maximum number of passes within a round.
    """

    C: float = 1.0
    loss: str = "squared_hinge"
    random_ties: bool = False
    start: Any = "auto"
    n_init: int = 1
    max_iter: int = 50
    tol: float = 1e-5
    inner_tol: float = 0.01
    inner_iter: int = 100

    not_saved = (*MarginLearner.not_saved, "start")
    C_binary = 1.0
    normalised = True
    fixed = False
    """Whether the structures of negative examples are held from round to round."""

    def decision_function(self, X: Any, *, constrained: bool = True) -> FloatArray:
        """(n,): max_h w · Φ(x, h) / κ(x) + bias, less prices; positive where there is a good structure."""
        return self.answers(self.infer(X, constrained=constrained))

    def answers(self, found: Inference) -> FloatArray:
        """The :meth:`decision_function` of an inference."""
        return found.values / (sizes_of(self.model_, found.batch) if self.normalised else 1.0) + self.bias_

    def _loop_over(
        self, given: tuple[Any, Any], asked: tuple[Any, Any], sample_weight: Any, dev: tuple[Any, Any] | None
    ) -> Loop:
        """given : X and outputs of S, None for none;  asked : X and answers of B"""
        self._check_settings(dev)
        given, asked = (_held(given[0]), given[1]), (_held(asked[0]), asked[1])
        compile_ahead(type(self.model).__name__)
        n, X = length(given[0]), _joined(given[0], asked[0])
        z = (signs if n else both_signs)(asked[1], length(asked[0]))
        known = given[1].tolist() if hasattr(given[1], "tolist") else given[1]
        y = None if known is None else [*check_list(known, "outputs"), *[None] * len(z)]
        weight = check_sample_weight(sample_weight, n + len(z)) * np.concatenate([np.ones(n), np.abs(z)])
        positive = n + np.flatnonzero(z > 0)
        if not isinstance(self.start, str) and len(positive):
            y = self._started(X, y, n, positive)
        model, batch = self._begin(X, y, weight, learned=self.start == "model")
        S, negative = np.arange(n), n + np.flatnonzero(z < 0)
        complete = S[batch.instances(0, n).complete] if n else S
        latent = len(complete) < n
        examples = self._examples(model, batch, S, negative, positive, latent=latent)
        weights = Weights(model)
        settings = {"C_binary": self.C_binary, "tol": self.inner_tol, "normalised": self.normalised}
        solver = solver_of(self, weights, examples, fixed=self.fixed, ties=self.random_ties, **settings)
        first = None
        if latent and len(complete) and self.start == "auto":
            first = solver_of(
                self, weights, self._examples(model, batch, complete, NONE, NONE, latent=False), **settings
            )
        step = LatentStep(solver, passes=self.inner_iter, tol=self.tol, two_stage=self.start == "model", first=first)
        return self._loop(weights, step, batch, dev)

    def _started(self, X: Any, y: list[Any] | None, n: int, positive: IntArray) -> list[Any]:
        """The outputs given, and those that the start finds for positive examples, n instances being given ones."""
        learner, found = self.start, list(y or [None] * length(X))
        if not getattr(learner, "__sklearn_is_fitted__", lambda: True)():
            kept = [*range(n), *positive.tolist()]
            learner = copy(learner).fit(_taken(X, kept), [found[i] for i in kept])
        for i, output in zip(positive.tolist(), learner.predict(_taken(X, positive.tolist())), strict=True):
            found[i] = output
        return found

    def _check_settings(self, dev: Any = None) -> None:
        super()._check_settings(dev)
        self._check_within(C=(1e-300, np.inf), C_binary=(1e-300, np.inf), tol=(0.0, np.inf), inner_tol=(0.0, np.inf))
        self._check_whole(inner_iter=1)
        self._check_loss(self.loss)
        if isinstance(self.start, str) and self.start not in STARTS:
            raise UnknownNameError("start", self.start, STARTS)
        if not isinstance(self.start, str) and not all(hasattr(self.start, name) for name in ("fit", "predict")):
            raise DataError(f"start must be 'auto', 'model' or an estimator that predicts outputs, got {self.start!r}")
        if self.n_init > 1 and not self.random_ties:
            raise DataError("restarts differ only in how ties are broken: set random_ties=True to use n_init")


def signs(answers: Any, n: int) -> FloatArray:
    """The answers to n examples: −1 for 0 and False, and numbers from −1 to +1, whose size is a weight."""
    if answers is None:
        if n:
            raise DataError(f"{n} examples need answers, −1 or +1 for each, but none are given")
        return np.zeros(0)
    z = list(check_list(answers, "answers"))
    if len(z) != n:
        raise DataError(f"expected an answer for each of {n} examples but got {len(z)}")
    for number, one in enumerate(z):
        if not (isinstance(one, Real | np.bool_) and -1.0 <= float(one) <= 1.0):
            raise DataError(f"answers must be −1 or +1, or lie between them, but answer {number} is {one!r:.60}")
    return np.array([float(one) or -1.0 for one in z])


def both_signs(answers: Any, n: int) -> FloatArray:
    """The answers to n training examples as :func:`signs` gives them; some must be positive and some negative."""
    made = signs(answers, n)
    if len(set(np.sign(made).tolist())) == 1:
        raise DataError(
            f"all {len(made)} answers are {'positive' if made[0] > 0 else 'negative'}: give examples of both kinds; "
            "shuffled sentences and random pairs make negative ones (trellis.learn.margin.negatives)"
        )
    return made


def _taken(X: Any, numbers: list[int]) -> Any:
    """The instances with these numbers."""
    if hasattr(X, "shape"):
        return X[numbers]
    return X.take(np.array(numbers)) if hasattr(X, "take") else [X[i] for i in numbers]


def _held(X: Any) -> Any:
    """Instances as something that has a length: iterators are listed, matrices, batches and None stay as they are."""
    if X is None or (isinstance(X, Sized) and not isinstance(X, str | Mapping | Set) and getattr(X, "ndim", 1) > 0):
        return X
    return list(check_list(X, "instances"))


def length(X: Any) -> int:
    """The number of instances in X, 0 of None."""
    return 0 if X is None else int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _joined(one: Any, other: Any) -> Any:
    """The instances of both, in the form they came in."""
    if not length(one) or not length(other):
        return other if not length(one) else one
    if sparse.issparse(one) or sparse.issparse(other):
        return sparse.vstack([sparse.csr_matrix(one), sparse.csr_matrix(other)], format="csr")
    if hasattr(one, "shape") and hasattr(other, "shape"):
        return np.concatenate([np.asarray(one), np.asarray(other)])
    return [*one, *other]
