"""Choosing settings: on labelled data, by halves of the labelled instances, or by constraint satisfaction.

With a development set the setting with the best score on it is taken; with ``halves`` each half of the labelled
instances teaches in turn and the other one judges (Samdani et al. 2012, sec. 5.3). Without any labels, a part of the
data is held out and the setting whose model (p, not q) violates the constraints least on it is taken (Ganchev et al.
2010, footnote 10): a model that has learned what the constraints say no longer needs them. Among equals the first
wins.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse

from trellis.constraints import Strength
from trellis.data.checks import check_dev, check_list
from trellis.data.corpus import Corpus
from trellis.errors import DataError, check_name
from trellis.learn.learner import Learner
from trellis.learn.multi_view import MultiView
from trellis.loop.schedule import Gamma
from trellis.models.estimator import Estimator, generator

GAMMAS = (0.1, 0.3, 0.5, 0.7, 1.0)
"""Values of γ that commands try."""


@dataclass(frozen=True)
class Trial:
    """One setting and what it scored: what the estimator's ``score`` gives, or minus the mean share of violated rows.

    settings : parameters by name, and ``strength`` where strengths are tried
    """

    settings: Mapping[str, Any]
    score: float

    @property
    def gamma(self) -> Gamma | None:
        """The value of γ that was tried."""
        return self.settings.get("gamma")

    @property
    def strength(self) -> Strength | None:
        """The strength that was tried."""
        return self.settings.get("strength")


@dataclass(frozen=True)
class Tuned:
    """The estimator trained with the best setting, and every setting that was tried, in the order of the grid."""

    learner: Any
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        """The trial with the highest score."""
        return max(self.trials, key=lambda trial: trial.score)


def tune(
    learner: Any,
    X: Any,
    y: Any = None,
    *,
    gammas: Iterable[Gamma] | None = None,
    strengths: Iterable[Strength] | None = None,
    parameters: Mapping[str, Iterable[Any]] | None = None,
    dev: tuple[Any, Any] | None = None,
    halves: bool = False,
    measure: Callable[[Any, Any, Any], float] | None = None,
    constrained: bool = True,
    held_out: float = 0.2,
    random_state: int = 0,
    **fit: Any,
) -> Tuned:
    """Choose γ, constraint strengths and other parameters by training one estimator per setting.

    Parameters
    ----------
    learner : estimator
        Any estimator, such as UEM, Inducer or Relater. It is copied; with ``start="model"``, every copy begins with the
        given model's parameters.
    X : list
        Training instances.
    y : list or None, default=None
        Labels of the training instances, None where unknown.
    gammas : iterable or None, default=None
        Values of γ to try.
    strengths : iterable or None, default=None
        Constraint strengths to try, for all constraints.
    parameters : dict or None, default=None
        Values to try for other constructor arguments, such as ``threshold``, ``model__l2``, or ``constraints``: one
        list of constraints for each choice of bounds.
    dev : tuple or None, default=None
        Development set (X, y).
    halves : bool, default=False
        Split the labelled instances in half; each half is trained on with all unlabelled instances and scored on the
        other. The best setting is trained again on all of X. Instances are labelled where y is not None; without y,
        all of X is.
    measure : callable or None, default=None
        Function of a trained estimator, X and y whose value is maximised. By default, the estimator's ``score``.
    constrained : bool, default=True
        Evaluate predictions under the constraints; otherwise those of the model alone.
    held_out : float, default=0.2
        Proportion of X that is held out if there is neither ``dev`` nor ``halves``: constraint violations decide.
    random_state : int, default=0
        Seed of the split.
    **fit
        Further arguments of ``fit``, such as ``unlabelled``.

    Returns
    -------
    Tuned
        The best estimator and the score of every setting.
    """
    _check_judges(dev, halves)
    grid = _grid(learner, gammas, strengths, parameters)
    X, y, dev = _kept(X), _kept(y), dev and (_kept(dev[0]), _kept(dev[1]))
    fit = {name: list(given) if isinstance(given, Iterator) else given for name, given in fit.items()}

    def fitted(settings: Mapping[str, Any], numbers: Sequence[int] | None = None) -> Any:
        return _with(learner, settings).fit(*_part(X, y, numbers), **_weighed(fit, numbers))

    if dev is not None:
        trials: list[Trial] = []
        for settings in grid:
            made = fitted(settings)
            trials.append(Trial(settings, _judged(made, dev, measure, constrained)))
            if Tuned(None, tuple(trials)).best is trials[-1]:
                best = made
        return Tuned(best, tuple(trials))

    def judged(made: Any, test: Sequence[int]) -> float:
        return _judged(made, _part(X, y, test), measure, constrained) if halves else -_violated(made, _taken(X, test))

    folds = _halves(learner, X, y, random_state) if halves else [_watched(learner, X, held_out, random_state)]
    scores = [float(np.mean([judged(fitted(s, train), test) for train, test in folds])) for s in grid]
    tried = tuple(Trial(settings, score) for settings, score in zip(grid, scores, strict=True))
    return Tuned(fitted(Tuned(None, tried).best.settings), tried)


def _check_judges(dev: Any, halves: bool) -> None:
    check_dev(dev)
    if dev is not None and halves:
        raise DataError("dev and halves are two ways to evaluate a setting: give one of them")


def _judged(made: Any, test: tuple[Any, Any], measure: Callable[[Any, Any, Any], float] | None, kept: bool) -> float:
    if measure is not None:
        found = float(measure(made, *test))
    else:
        found = float(made.score(*test) if kept else made.score(*test, constrained=False))
    if np.isnan(found):
        raise DataError("the score of a setting is not a number: give other data or another measure")
    return found


def _violated(made: Any, X: Any) -> float:
    return float(np.mean(list(made.violations(X, constrained=False).values())))


def _weighed(fit: Mapping[str, Any], numbers: Sequence[int] | None) -> dict[str, Any]:
    """Arguments of fit for these instances."""
    weights = fit.get("sample_weight")
    return {**fit, **({} if weights is None or numbers is None else {"sample_weight": _taken(weights, numbers)})}


def _watched(learner: Any, X: Any, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Instances that are trained on, and those whose violations judge a setting."""
    if not isinstance(learner, Learner) or not learner.constraints:
        raise DataError("without constraints there is nothing to tune on: give dev=(X, y) or halves=True")
    _refuse_views(learner)
    return _split(_count(X), share, seed)


def _grid(
    learner: Any,
    gammas: Iterable[Gamma] | None,
    strengths: Iterable[Strength] | None,
    parameters: Mapping[str, Iterable[Any]] | None,
) -> list[dict[str, Any]]:
    """Every combination of the values to try."""
    name = type(learner).__name__
    if isinstance(learner, type) or not isinstance(learner, Estimator) or not hasattr(learner, "fit"):
        raise DataError(f"tune takes an estimator, such as UEM(model, constraints), got {learner!r:.80}")
    if not isinstance(parameters, Mapping | None):
        raise DataError(f"parameters must be a dictionary with the values to try by name, got {parameters!r:.80}")
    given = {"gamma": gammas, "strength": strengths, **(parameters or {})}
    axes = {key: list(check_list(values, f"values of {key}")) for key, values in given.items() if values is not None}
    for strength in axes.get("strength", ()):
        if not isinstance(strength, Strength):
            raise DataError(f"strengths are made by hard(), slack(...) or penalty(...), got {strength!r:.80}")
    if not axes or not all(axes.values()):
        raise DataError("there is nothing to choose from: give gammas, strengths or parameters")
    if "gamma" in axes and "gamma" not in learner.get_params(deep=False):
        raise DataError(f"{name} has no gamma to choose: give strengths or parameters, or tune a UEM")
    if "strength" in axes and not getattr(learner, "constraints", ()):
        raise DataError(f"{name} has no constraints whose strength could be chosen")
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _with(learner: Any, settings: Mapping[str, Any]) -> Any:
    """An estimator like this one with other settings; what it trains is its own."""
    made = type(learner)(**learner.get_params(deep=False))
    for name in {key.partition("__")[0] for key in settings if "__" in key}:
        check_name(f"parameter of {type(learner).__name__}", name, made.get_params(deep=False))
        setattr(made, name, copy.copy(getattr(made, name)))
    made.set_params(**{name: value for name, value in settings.items() if name != "strength"})
    if "strength" in settings:
        made.constraints = [constraint.with_strength(settings["strength"]) for constraint in made.constraints]
    return made


def _kept(given: Any) -> Any:
    """Instances or labels that can be read again and again; iterators cannot."""
    if given is None or isinstance(given, Corpus | np.ndarray):
        return given
    return given.tocsr() if sparse.issparse(given) else list(check_list(given, "instances"))


def _count(X: Any) -> int:
    return X.shape[0] if sparse.issparse(X) else len(X)


def _part(X: Any, y: Any, numbers: Sequence[int] | None) -> tuple[Any, Any]:
    return (X, y) if numbers is None else (_taken(X, numbers), _taken(y, numbers))


def _refuse_views(learner: Any) -> None:
    if isinstance(learner, MultiView):
        raise DataError("the views of a MultiView are not split: give dev=(X, y)")


def _halves(learner: Any, X: Any, y: Any, seed: int) -> list[tuple[list[int], list[int]]]:
    """Two pairs of (instances that are trained on, instances that judge)."""
    _refuse_views(learner)
    n = _count(X)
    if y is not None and len(y) != n:
        raise DataError(f"expected labels for {n} instances but got {len(y)}")
    labelled = list(range(n)) if y is None else [i for i in range(n) if y[i] is not None]
    if len(labelled) < 2:
        raise DataError(f"halves=True needs at least 2 labelled instances, got {len(labelled)}: give dev=(X, y)")
    others = sorted(set(range(n)) - set(labelled))
    first, second = (sorted(half.tolist()) for half in np.array_split(generator(seed).permutation(labelled), 2))
    return [([*a, *others], b) for a, b in ((first, second), (second, first))]


def _taken(given: Any, numbers: Sequence[int]) -> Any:
    if sparse.issparse(given):
        return given[np.asarray(numbers)]
    return None if given is None else [given[i] for i in numbers]


def _split(n: int, share: float, seed: int) -> tuple[list[int], list[int]]:
    n_watched = round(n * share)
    if share > 0 and (n_watched == 0 or n_watched == n):
        raise DataError(f"holding out a share of {share} of {n} instances leaves none to train or to evaluate on")
    order = generator(seed).permutation(n)
    return sorted(order[n_watched:].tolist()), sorted(order[:n_watched].tolist())
