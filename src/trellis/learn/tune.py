"""Choosing γ and the strength of constraints: on a small labelled set, or by constraint satisfaction without one.

With labels the setting with the best accuracy on them is taken. Without any, a part of the data is held out and the
setting whose model (p, not q) violates the constraints least on it is taken (Ganchev et al. 2010, footnote 10): a
model that has learned what the constraints say no longer needs them. Among equals the first in the grid wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from trellis.constraints import Strength
from trellis.errors import DataError
from trellis.learn.learner import Learner
from trellis.loop.schedule import Gamma
from trellis.models.estimator import generator


@dataclass(frozen=True)
class Trial:
    """One setting and what it scored: accuracy, or minus the mean share of violated rows."""

    gamma: Gamma | None
    strength: Strength | None
    score: float


@dataclass(frozen=True)
class Tuned:
    """The learner trained with the best setting, and every setting that was tried, in the order of the grid."""

    learner: Any
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        return max(self.trials, key=lambda trial: trial.score)


def tune(
    learner: Any,
    X: Sequence[Any],
    y: Any = None,
    *,
    gammas: Iterable[Gamma] | None = None,
    strengths: Iterable[Strength] | None = None,
    dev: tuple[Any, Any] | None = None,
    constrained: bool = True,
    held_out: float = 0.2,
    random_state: int = 0,
) -> Tuned:
    """Choose γ and constraint strengths by training one learner per setting.

    Parameters
    ----------
    learner : estimator
        UEM, or another learner with a model and constraints.
    X : list
        Training instances.
    y : list or None, default=None
        Labels of the training instances, None where unknown.
    gammas : iterable or None, default=None
        Values of γ to try.
    strengths : iterable or None, default=None
        Constraint strengths to try, for all constraints.
    dev : tuple or None, default=None
        Development set (X, y). Without it, a part of X decides by how well the constraints hold, and the best setting
        is trained again on all of X.
    constrained : bool, default=True
        Evaluate predictions under the constraints; otherwise those of the model alone.
    held_out : float, default=0.2
        Proportion of X that is held out without ``dev``.
    random_state : int, default=0
        Seed of the split.

    Returns
    -------
    Tuned
        The best learner and the score of every setting.
    """
    _check_learner(learner, gammas is not None)
    grid = list(
        product(
            [getattr(learner, "gamma", None)] if gammas is None else gammas, [None] if strengths is None else strengths
        )
    )
    if not grid:
        raise DataError("there is nothing to choose from: give gammas or strengths")
    if dev is None and not learner.constraints:
        raise DataError("without constraints there is nothing to tune on: give dev=(X, y)")
    kept, watched = _split(len(X), 0.0 if dev is not None else held_out, random_state)
    text, labels = [X[i] for i in kept], None if y is None else [y[i] for i in kept]
    trials: list[Trial] = []
    for gamma, strength in grid:
        made = _with(learner, gamma, strength).fit(text, labels)
        if dev is not None:
            score = made.score(*dev, constrained=constrained)
        else:
            score = -float(np.mean(list(made.violations([X[i] for i in watched], constrained=False).values())))
        if not trials or score > max(trial.score for trial in trials):
            best = made
        trials.append(Trial(gamma, strength, score))
    tuned = Tuned(best, tuple(trials))
    if dev is not None:
        return tuned
    return Tuned(_with(learner, tuned.best.gamma, tuned.best.strength).fit(X, y), tuned.trials)


def _split(n: int, share: float, seed: int) -> tuple[list[int], list[int]]:
    n_watched = round(n * share)
    if share > 0 and (n_watched == 0 or n_watched == n):
        raise DataError(f"holding out a share of {share} leaves nothing to train or to judge {n} instances by")
    order = generator(seed).permutation(n)
    return sorted(order[n_watched:].tolist()), sorted(order[:n_watched].tolist())


def _check_learner(learner: Any, has_gammas: bool) -> None:
    """Refuse learners that cannot be tuned so."""
    name = type(learner).__name__
    if isinstance(learner, type) or not isinstance(learner, Learner) or not hasattr(learner, "model"):
        raise DataError(
            f"tune takes a learner with one model and constraints, such as UEM(model, constraints), got {name}"
        )
    if has_gammas and "gamma" not in learner.get_params(deep=False):
        raise DataError(f"{name} has no gamma to choose: give strengths alone, or tune a UEM")


def _with(learner: Any, gamma: Gamma | None, strength: Strength | None) -> Any:
    """A learner like this one, with a model of its own; gamma, strength : None: its own."""
    settings = learner.get_params(deep=False)
    settings["model"] = type(learner.model)(**learner.model.get_params(deep=False))
    if gamma is not None:
        settings["gamma"] = gamma
    if strength is not None:
        settings["constraints"] = [constraint.with_strength(strength) for constraint in learner.constraints]
    return type(learner)(**settings)
