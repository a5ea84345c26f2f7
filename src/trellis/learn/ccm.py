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
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.constraints.penalties import with_penalties
from trellis.data.storage import bytes_of
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.learner import Dev, SearchingLearner
from trellis.loop.schedule import gamma_at
from trellis.models.documentation import documented
from trellis.models.inference import LARGEST_DUAL

METHODS = ("codl", "pr", "uem", "hard-em", "em", "supervised")
DEFAULT_GAMMA = 0.5


@documented
@dataclass(eq=False, repr=False)
class CCM(SearchingLearner):
    """Train a model under constraints with a method given by name.

    A constrained conditional model: the model's score minus the penalties of violated constraints. It is what
    :class:`Extractor` trains.

    Parameters
    ----------
    model : estimator
        Model to train, such as :class:`HMM` or :class:`CRF`. A copy is trained and stored as ``model_``.
    constraints : list of Constraint, default=()
        Constraints. Those of strength "learned" get a penalty estimated from the labelled data; the others keep their
        strength.
    method : str, default="codl"
        How to learn. One of "pr", "uem", "codl", "hard-em", "em" or "supervised".
    gamma : float or None, default=None
        Temperature γ of the posteriors, for "uem" only. The default is 0.5.
    beta : float or None, default=0.7
        Weight of the supervised parameters after each round. None counts labelled and unlabelled instances together.
    hard : bool, default=False
        Treat constraints of strength "learned" as hard.
    k_best : int, default=1
        Number of best outputs per instance to learn from, for "codl" and "hard-em".
    smoothing : float, default=0.5
        Weight of the prior of learned penalties.
    random_state : int or None, default=None
        Seed of the random start, used if nothing is labelled.

    Attributes
    ----------
    duals_ : dict
        With "pr" and "uem", mean dual variable of each constraint in the last projection.

    Examples
    --------
    >>> from trellis.constraints import count
    >>> from trellis.models import HMM
    >>> X = [["the", "dog", "barks"], ["the", "cat", "sleeps"], ["a", "dog", "sleeps"]]
    >>> ccm = CCM(HMM(min_count=1), [(count("V") >= 1).learned()], method="pr", max_iter=2)
    >>> ccm.fit(X, [["D", "N", "V"], None, None]).predict([["a", "cat", "barks"]])
    [['D', 'N', 'V']]
    """

    model: Any
    constraints: Sequence[Constraint | Rule] = ()
    _: KW_ONLY
    method: str = "codl"
    gamma: float | None = None
    unlabelled_weight: float = 1.0
    beta: float | None = 0.7
    max_iter: int = 5
    hard: bool = False
    k_best: int = 1
    smoothing: float = 0.5
    beam: int = 50
    search: str = "auto"
    projection_tol: float = 1e-2
    max_evaluations: int = 50
    random_state: int | None = None
    n_jobs: int | None = None
    engine: Any = None
    memory: int | str | None = None
    verbose: bool = False

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, dev: Dev = None) -> Self:
        """Train a model like the one given; ``dev`` as in :meth:`CoDL.fit`."""
        self._check_types()
        self._check_settings(dev)
        compile_ahead(f"train-{self.method}")
        training = self._training(X, y, sample_weight)
        self.model_, rho = training.model, self._learned_penalties(training)
        self._take_penalties(rho)
        self.duals_: dict[str, float] = {}

        def judge(state: Any) -> float:
            if self.method == "codl":
                self._take_penalties(state.rho)
            return float(self.score(*dev))  # type: ignore[misc]

        judged = None if dev is None else judge
        if self.method in ("em", "pr", "uem"):
            rules = with_penalties(self.constraints, np.minimum(rho, LARGEST_DUAL)) if self.method != "em" else ()
            solving = SolverSettings(self.projection_tol, self.max_evaluations, memory=self.memory)
            training.check(needs_labels=False)
            step = ProjectedStep(training, rules, solving, likelihood=False)
            score = None if dev is None else lambda: judge(None)
            run = self._projection_loop(training, step, score=score, gamma=self.gamma_, keep_best=False).run()
            self.duals_ = run.state.means_by_name(step.projector.rows)
        elif self.method == "codl":
            run = self._labelling_loop(
                training, self.constraints, rho, relearn=not self.hard, judge=judged, memory=self.memory
            ).run()
            self._take_penalties(run.state.rho)
        else:
            rounds = 0 if self.method == "supervised" else self.max_iter
            run = self._labelling_loop(training, (), np.zeros(0), relearn=False, judge=judged, max_iter=rounds).run()
        self._take_run(run)
        return self

    @property
    def gamma_(self) -> float:
        """γ of the method; −∞ where the E-step is an argmax."""
        if self.method == "uem":
            return DEFAULT_GAMMA if self.gamma is None else float(self.gamma)
        return 1.0 if self.method in ("em", "pr") else -np.inf

    def _check_settings(self, dev: Any = None) -> None:
        self._check_names(method=METHODS)
        self._check_learner(dev)
        bytes_of(self.memory)
        self._check_whole(max_iter=0, k_best=1, max_evaluations=1, random_state=0)
        self._check_within(beta=(0.0, 1.0), smoothing=(0.0, np.inf), projection_tol=(1e-15, np.inf))
        if self.gamma is not None:
            gamma_at(self.gamma, 0)
        if self.gamma is not None and self.method != "uem":
            fixed = {"em": "EM at γ = 1", "pr": "UEM at γ = 1"}.get(self.method, "a method without γ")
            raise DataError(f"gamma requires method 'uem'; {self.method!r} is {fixed}")
        if self.k_best != 1 and self.method not in ("codl", "hard-em"):
            raise DataError(f"k_best requires method 'codl' or 'hard-em', but method is {self.method!r}")
        if self.max_iter < 1 and self.method not in ("codl", "hard-em", "supervised"):
            raise DataError(f"max_iter must be at least 1 for method {self.method!r}, got {self.max_iter}")
