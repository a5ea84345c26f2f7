"""CoDL: constraint-driven learning of a constrained conditional model (CCM) over any model.

    1   (w, ρ) = (w₀, ρ₀) = learn(labelled)
    2   repeat:   ŷ = argmax_y  w·Φ(x, y) − Σ_k ρ_k d_k(x, y)      for every unlabelled x
                  (w, ρ) = β (w₀, ρ₀) + (1 − β) learn({(x, ŷ)})                              (Chang 2011, algorithm 8)

learn is the model's own M-step and algorithm 7 for ρ (:mod:`trellis.constraints.penalties`). In unified EM
it is γ = −∞: the posterior is one output that obeys the constraints.

    no constraints        hard EM
    no rounds, or β = 1   the supervised CCM
    ``hard``              ρ = ∞ (HMM_∞^CCM, sec. 3.2.3): the fewest violations first, then the best score
    ``k_best`` = K        learn from the K best outputs, each with weight 1/K
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.data.files import FilePath
from trellis.engine.compiling import compile_ahead
from trellis.learn.labelling import LabellingState
from trellis.learn.learner import Dev, SearchingLearner
from trellis.learn.training import Training
from trellis.loop.checkpoint import Checkpoint
from trellis.loop.loop import Loop
from trellis.models.documentation import documented


@documented
@dataclass(eq=False, repr=False)
class CoDL(SearchingLearner):
    """Train a model by constraint-driven learning, with penalties estimated from labelled data.

    Each round labels the unlabelled instances with their best outputs under the constraints, re-estimates the model
    from them, and interpolates it with the supervised model (Chang 2011, algorithm 8).

    Parameters
    ----------
    model : estimator
        Model to train, such as :class:`HMM` or :class:`CRF`. A copy is trained and stored as ``model_``.
    constraints : list of Constraint, default=()
        Constraints. Those of strength "learned" get a penalty estimated from the labelled data; the others keep their
        strength.
    beta : float or None, default=0.7
        Weight of the supervised parameters after each round. None counts labelled and unlabelled instances together.
    max_iter : int, default=5
        Rounds of training. 0 is supervised training.
    hard : bool, default=False
        Treat constraints of strength "learned" as hard.
    k_best : int, default=1
        Number of best outputs per instance to learn from, each with weight 1 / k_best.
    relearn : bool, default=True
        Estimate the penalties again from the labelling of each round.
    smoothing : float, default=0.5
        Weight of the prior of learned penalties.
    start_scale : float, default=1.0
        Scale of the random start, used if nothing is labelled.
    random_state : int or None, default=None
        Seed of the random start, used if nothing is labelled.

    Examples
    --------
    >>> from trellis.constraints import count
    >>> from trellis.models import HMM
    >>> X = [["the", "dog", "barks"], ["the", "cat", "sleeps"], ["a", "dog", "sleeps"]]
    >>> hmm = HMM(min_count=1, unknown=None, transition_prior=1.1, emission_prior=1.1)
    >>> learner = CoDL(hmm, [(count("V") >= 1).learned()], max_iter=2).fit(X, [["D", "N", "V"], None, None])
    >>> learner.predict([["a", "cat", "barks"]])
    [['D', 'N', 'V']]
    """

    model: Any
    constraints: Sequence[Constraint | Rule] = ()
    _: KW_ONLY
    unlabelled_weight: float = 1.0
    beta: float | None = 0.7
    max_iter: int = 5
    hard: bool = False
    k_best: int = 1
    relearn: bool = True
    smoothing: float = 0.5
    beam: int = 50
    search: str = "auto"
    start_scale: float = 1.0
    random_state: int | None = None
    n_jobs: int | None = None
    engine: Any = None
    checkpoint: FilePath | None = None
    checkpoint_every: int = 1
    verbose: bool = False

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, dev: Dev = None, resume: bool = False) -> Self:
        """Train a model like the one given; the score on ``dev`` = (X, y) of each round is recorded in the
        history and has no other effect."""
        self._check_types()
        self._check_settings(dev)
        compile_ahead("train-codl")
        training = self._training(X, y, sample_weight)
        loop = self._loop(training, dev)
        return self._trained(loop.run(resume=resume))

    def train(self, training: Training) -> Self:
        """Train the model of a training in place, for tasks that prepare it themselves."""
        return self._trained(self._loop(training, None).run())

    def _loop(self, training: Training, dev: Dev) -> Loop:
        """The rounds over a training."""
        rho = self._learned_penalties(training)
        self._take_penalties(rho)

        def judge(state: LabellingState) -> float:
            self._take_penalties(state.rho)
            return float(self.score(*dev))  # type: ignore[misc]

        judged = None if dev is None else judge
        return self._labelling_loop(
            training, self.constraints, rho, relearn=self.relearn and not self.hard, judge=judged
        )

    def _trained(self, run: Checkpoint) -> Self:
        """Itself, with what a run of the loop tells beside the model."""
        self._take_penalties(run.state.rho)
        self._take_run(run)
        return self

    def _check_settings(self, dev: Any = None) -> None:
        self._check_learner(dev)
        self._check_whole(max_iter=0, k_best=1, random_state=0, checkpoint_every=1)
        self._check_within(beta=(0.0, 1.0), smoothing=(0.0, np.inf), start_scale=(0.0, np.inf))
