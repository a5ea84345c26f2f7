"""CoDL: constraint-driven learning of a constrained conditional model (CCM) over any chain model.

    1   (w, ρ) = (w₀, ρ₀) = learn(labelled)
    2   repeat:   ŷ = argmax_y  w·Φ(x, y) − Σ_k ρ_k d_k(x, y)      for every unlabelled x
                  (w, ρ) = β (w₀, ρ₀) + (1 − β) learn({(x, ŷ)})                              (Chang 2011, algorithm 8)

learn is the model's own M-step and algorithm 7 for ρ (:mod:`trellis.learn.penalties`). In the picture of unified EM
it is γ = −∞: the posterior is one output that obeys the constraints.

    no constraints        hard EM
    no rounds, or β = 1   the supervised CCM
    ``hard``              ρ = ∞ (HMM_∞^CCM, sec. 3.2.3): the fewest violations first, then the best score
    ``k_best`` = K        learn from the K best outputs, each with weight 1/K
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from trellis.constraints import Constraint, Rule, compile_constraints
from trellis.data.batch import Batch
from trellis.data.ragged import BoolArray, FloatArray
from trellis.engine import Engine, engine_for, map_sum, shards_of
from trellis.errors import ConstraintError, DataError
from trellis.learn.decoding import CCMPrediction, ConstrainedArgmax, Labelling
from trellis.learn.history import History, Round
from trellis.learn.penalties import INFINITE, as_constraint, count_violations, is_learned, soft_rows
from trellis.learn.progress import Progress
from trellis.models.model import Model

NO_LABELS = (
    "there are no fully labelled instances to learn the strength of {names} from: give some labels, a penalty of your "
    "own for these rules, or make them all strict (hard=True, --hard)"
)


class CoDL(CCMPrediction):
    """Learn a model and the penalties of constraints from labelled and unlabelled instances.

    model : HMM, CRF or anything with the four verbs over a chain; it is trained in place
    constraints : those of strength "learned" get ρ from data, the others keep their own strength
    beta : weight of the supervised parameters after each round; None: labelled and unlabelled instances are counted
        together. The thesis has 0.1 in one place and 0.9 in others; see docs/extraction.md for what 0.7 rests on
    rounds : of labelling and learning; 0: supervised alone
    hard : ρ = ∞ for all constraints of strength "learned"
    k_best : outputs of each instance that are learned from
    relearn : learn ρ anew from the labelling of each round, as algorithm 8 has it; otherwise ρ₀ stays
    smoothing : s of ρ
    beam : width of the search
    start_scale, random_state : of the start where nothing is labelled, as in UEM; then β has nothing to hold on to

    Learned: ``model`` itself, ``penalties_`` (ρ by name), ``history_``, ``n_rounds_``, ``converged_``.

    >>> from trellis.constraints import count
    >>> from trellis.models import HMM
    >>> X = [["the", "dog", "barks"], ["the", "cat", "sleeps"], ["a", "dog", "sleeps"]]
    >>> hmm = HMM(min_count=1, unknown=None, transition_prior=1.1, emission_prior=1.1)
    >>> learner = CoDL(hmm, [(count("V") >= 1).learned()], rounds=2).fit(X, [["D", "N", "V"], None, None])
    >>> learner.predict([["a", "cat", "barks"]])
    [['D', 'N', 'V']]
    """

    def __init__(
        self,
        model: Any,
        constraints: Sequence[Constraint | Rule] = (),
        *,
        beta: float | None = 0.7,
        rounds: int = 5,
        hard: bool = False,
        k_best: int = 1,
        relearn: bool = True,
        smoothing: float = 0.5,
        beam: int = 50,
        start_scale: float = 1.0,
        random_state: int | None = None,
        threads: int | None = 1,
        show_progress: bool = False,
    ) -> None:
        self.model = model
        self.constraints = constraints
        self.beta = beta
        self.rounds = rounds
        self.hard = hard
        self.k_best = k_best
        self.relearn = relearn
        self.smoothing = smoothing
        self.beam = beam
        self.start_scale = start_scale
        self.random_state = random_state
        self.threads = threads
        self.show_progress = show_progress

    def fit(self, X: Any, y: Any = None, *, weights: Any = None, dev: tuple[Any, Any] | None = None) -> Self:
        """Train; the score on ``dev`` = (X, y) of each round goes into the history and changes nothing else."""
        self._check_settings()
        model: Model = self.model
        batch = model.encode(X, y, weights, fit=True)
        complete = batch.complete
        labelled, free = batch.take(np.flatnonzero(complete)), batch.take(np.flatnonzero(~complete))
        if len(batch) == 0:
            raise DataError("there are no instances to learn from")
        engine = engine_for(self.threads)
        counted = supervised_statistics(model, labelled, engine)
        rho = starting_penalties(model, labelled, self.constraints, hard=self.hard, smoothing=self.smoothing)
        parts = [shard.of(labelled) for shard in shards_of(labelled)]
        if counted is not None:
            model.update(counted, shards=parts, engine=engine)
        else:
            model.randomize(np.random.default_rng(self.random_state), self.start_scale)
        supervised = (model.parameters(), rho)
        self.history_, self.n_rounds_, self.converged_ = History(), 0, False
        step = ConstrainedArgmax(model, free, self.constraints, engine, beam=self.beam)
        if step.coupling is not None:
            raise ConstraintError(
                f"constraint {step.coupling!r} ties instances together, but CoDL labels one at a time: count per "
                "sentence, or learn with method 'pr' or 'uem' (of CCM, or on the command line), which project"
            )
        self.penalties_ = dict(zip(step.names, rho.tolist(), strict=True))
        self._run(step, counted, parts, supervised, dev)
        return self

    def _run(
        self,
        step: ConstrainedArgmax,
        counted: Any,
        parts: list[Batch],
        supervised: tuple[dict[str, FloatArray], FloatArray],
        dev: tuple[Any, Any] | None,
    ) -> None:
        model, rho, before = step.model, supervised[1], None
        beta = None if counted is None else self.beta
        with Progress("constraint-driven learning", self.rounds, self.show_progress) as progress:
            while self.n_rounds_ < self.rounds and len(step.batch) and not self.converged_:
                begin = time.perf_counter()
                found = step.run(rho, k=self.k_best, collect=True)
                objective = self._objective(step, found, parts)
                if beta is None and counted is not None:
                    model.update(found.statistics + counted, shards=[*step.parts, *parts], engine=step.engine)
                else:
                    model.update(found.statistics, shards=step.parts, engine=step.engine)
                if beta is not None:
                    model.set_parameters(mix(supervised[0], model.parameters(), beta))
                old, rho = rho, self._penalties(found, supervised[1], beta)
                self.penalties_ = dict(zip(step.names, rho.tolist(), strict=True))
                # the same labels and the same prices give the same parameters for ever
                same = before is not None and np.array_equal(before, found.labels) and np.array_equal(old, rho)
                self.converged_, before = bool(same and self.k_best == 1), found.labels
                metric = None if dev is None else self.score(*dev)
                seen = found.violations
                violation = dict(zip(seen.names, (seen.excess / np.maximum(seen.rows, 1.0)).tolist(), strict=True))
                seconds = time.perf_counter() - begin
                self.history_.append(
                    Round(self.n_rounds_, -np.inf, objective, violation=violation, seconds=seconds, dev=metric)
                )
                self.n_rounds_ += 1
                progress.advance(self.n_rounds_, figures(self.history_[-1]))

    def _penalties(self, found: Labelling, supervised: FloatArray, beta: float | None) -> FloatArray:
        """ρ after a round: β ρ₀ + (1 − β) ρ of the round's labelling."""
        if not self.relearn or self.hard or beta is None:
            return supervised
        to_learn = is_learned(self.constraints)
        mixed = beta * supervised + (1.0 - beta) * found.violations.penalties(self.smoothing)
        return np.where(to_learn, mixed, supervised)

    def _objective(self, step: ConstrainedArgmax, found: Labelling, parts: list[Batch]) -> float:
        """Σ (score − prices) of the labellings + log p of labelled instances + log prior, as the round found it."""
        model, objective = step.model, found.value
        for part in parts:
            scores = model.scores(part)
            objective += float(part.weights @ scores.score(part.labels))
        if model.discriminative:
            for part in (*step.parts, *parts):
                objective -= float(part.weights @ model.scores(part).infer().log_partition)
        return objective + model.log_prior()

    def _check_settings(self) -> None:
        self._check_whole(rounds=0, k_best=1, beam=1, random_state=0)
        self._check_within(beta=(0.0, 1.0), smoothing=(0.0, np.inf), start_scale=(0.0, np.inf))


def supervised_statistics(model: Model, labelled: Batch, engine: Engine) -> Any:
    """Statistics of fully labelled instances, None where there are none."""
    if len(labelled) == 0:
        return None

    def count(shard: Any) -> Any:
        part = shard.of(labelled)
        return model.collect(part, model.scores(part).certain(part.labels, weights=part.weights))

    return map_sum(engine, count, shards_of(labelled))


def starting_penalties(
    model: Model, labelled: Batch, constraints: Sequence[Constraint | Rule], *, hard: bool, smoothing: float
) -> FloatArray:
    """ρ₀ (n_constraints,) from labelled instances; 0 for constraints with a strength of their own."""
    to_learn = is_learned(constraints)
    if not np.any(to_learn):
        return np.zeros(len(constraints))
    _refuse_coupling(model, labelled, constraints, to_learn)
    if hard:
        return np.where(to_learn, INFINITE, 0.0)
    if len(labelled) == 0:
        names = [c.name for c in constraints if isinstance(c, Constraint) and is_learned([c])[0]]
        more = "" if len(names) <= 3 else f" and {len(names) - 3} more"
        raise DataError(NO_LABELS.format(names=", ".join(map(repr, names[:3])) + more))
    seen = count_violations(soft_rows(constraints, labelled, model), labelled)
    return np.where(to_learn, seen.penalties(smoothing), 0.0)


def _refuse_coupling(
    model: Model, labelled: Batch, constraints: Sequence[Constraint | Rule], to_learn: BoolArray
) -> None:
    """A constraint over the corpus has one violation, and no share of tokens that would price it."""
    if len(labelled) == 0:
        return
    rows = compile_constraints(
        [as_constraint(c).learned() for c, learn in zip(constraints, to_learn, strict=True) if learn],
        labelled,
        model.label_names_,
        model.parts(labelled),
    ).coupling()
    if len(rows):
        name = rows.names[int(rows.constraint[0])]
        raise ConstraintError(
            f"the price of {name!r} cannot be learned, since it is about the whole corpus and not about single "
            "instances: give it a penalty or slack of its own, or make it hard"
        )


def mix(one: dict[str, FloatArray], other: dict[str, FloatArray], share: float) -> dict[str, FloatArray]:
    """share · one + (1 − share) · other, table by table."""
    return {name: share * one[name] + (1.0 - share) * other[name] for name in other}


def figures(entry: Round) -> str:
    """What a round did, for the progress line."""
    worst = max(entry.violation.values(), default=0.0)
    shown = f"objective {entry.objective:.6g}" + (f"  violation {worst:.2g}" if entry.violation else "")
    return shown if entry.dev is None else f"{shown}  dev {entry.dev:.4f}"
