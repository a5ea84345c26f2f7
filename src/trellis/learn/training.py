"""Data of a training run, shared by E-steps and the loop: a model, its instances and their shards.

Instances whose every label is known contribute log p(x, y), and statistics that never change. The others are *free*: an
E-step finds a posterior for them. Instances of weight 0 are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from trellis.data.batch import Batch
from trellis.data.on_demand import OnDemand
from trellis.data.ragged import FloatArray, IntArray
from trellis.engine import Engine, Piece, Placed, place_batch, shards_of
from trellis.errors import DataError
from trellis.loop.step import S, Step
from trellis.models.model import Model, bare

STARTS = ("auto", "random", "uniform", "labelled", "model")


class Training:
    """Instances of a model, labelled and free.

    use_labelled : whether labelled instances enter statistics and objective (with β they come in otherwise)
    unlabelled_weight : of free instances in the objective, times their own (Samdani et al. 2012, eq. 5: c₂)
    """

    def __init__(
        self, model: Model, batch: Batch, engine: Engine, *, use_labelled: bool = True, unlabelled_weight: float = 1.0
    ) -> None:
        if unlabelled_weight != 1.0:
            batch = replace(batch, weights=np.where(batch.complete, 1.0, unlabelled_weight) * batch.weights)
        self.model, self.batch, self.engine, self.use_labelled = model, batch, engine, use_labelled
        complete, weighted = batch.complete, batch.weights > 0
        self.free: IntArray = np.flatnonzero(~complete & weighted)
        self.free_batch = batch.take(self.free)
        self.free_shards = shards_of(self.free_batch)
        self.free_parts: Sequence[Batch] = OnDemand(
            len(self.free_shards), lambda number: self.free_shards[number].of(self.free_batch)
        )
        if not getattr(batch, "shards_on_demand", False):
            self.free_parts = list(self.free_parts)
        self.labelled_batch = batch.take(np.flatnonzero(complete & weighted))
        self.labelled: Placed[Piece] = place_batch(engine, self.labelled_batch)
        self.supervised: Any = None
        """Statistics of the labelled instances, None where there are none."""
        if len(self.labelled):
            self.supervised = self.labelled.total(count_known, bare(model))

    def known_value(self) -> float:
        """Σ w log p of the labelled instances, where they enter the objective."""
        if self.supervised is None or not self.use_labelled:
            return 0.0
        return float(sum(self.labelled.run(value_of_known, bare(self.model))))

    def with_supervised(self, statistics: Any) -> Any:
        """Statistics of all instances, from those of the free ones."""
        if self.supervised is None or not self.use_labelled:
            return statistics
        return self.supervised if statistics is None else statistics + self.supervised

    def log_prior(self) -> float:
        """What the prior adds to the objective."""
        return self.model.log_prior()

    # the M-step

    def update(self, statistics: Any, free: Sequence[Placed[Any]]) -> None:
        """M-step on statistics of all instances that enter; ``free`` are the placed shards of the free ones."""
        self.model.update(
            statistics, shards=[*free, *([self.labelled] if self.use_labelled else [])], engine=self.engine
        )

    def learn_supervised(self) -> None:
        """Parameters from labelled instances alone."""
        self.model.reset()
        self.model.update(self.supervised, shards=[self.labelled], engine=self.engine)

    @cached_property
    def supervised_parameters(self) -> dict[str, FloatArray]:
        """Those of the labelled instances alone; the model's own stay what they are."""
        saved = self.model.parameters()
        self.learn_supervised()
        found = self.model.parameters()
        self.model.set_parameters(saved)
        return found

    def check(self, *, needs_labels: bool) -> None:
        """Refuse data that there is nothing to learn from."""
        if needs_labels and self.supervised is None:
            raise DataError("start='labelled' and beta need fully labelled instances, but there are none in y")
        if len(self.batch) == 0:
            raise DataError("there are no instances to learn from")
        if not len(self.free) and self.supervised is None:
            raise DataError("every instance has a sample_weight of 0, so there is nothing to learn from")


class TrainingStep(Step[S]):
    """A step over the free instances of a training, whose M-step is the model's."""

    def __init__(self, training: Training) -> None:
        self.training, self.model = training, training.model

    @property
    def placed(self) -> list[Placed[Any]]:
        """The shards of the free instances, for M-steps that look at them again."""
        raise NotImplementedError

    def begin(self, start: str, rng: np.random.Generator, scale: float) -> None:
        training, model = self.training, self.model
        if start == "auto":
            start = "labelled" if training.supervised is not None else "random"
        if start == "random":
            model.reset()
            model.randomize(rng, scale)
        elif start == "uniform":
            model.reset()
            total = None
            for placed in filter(len, self.placed):
                total = placed.total(count_uniform, bare(model), start=total)
            self.update(training.with_supervised(total))
        elif start == "labelled" and "supervised_parameters" in training.__dict__:
            model.set_parameters(training.supervised_parameters)
        elif start == "labelled":
            model.reset()
            model.update(training.supervised, shards=[training.labelled], engine=training.engine)
            training.supervised_parameters = model.parameters()

    def update(self, statistics: Any) -> None:
        self.training.update(statistics, self.placed)

    def log_prior(self) -> float:
        return self.training.log_prior()

    def supervised_parameters(self) -> dict[str, FloatArray]:
        return self.training.supervised_parameters


# pure work on a shard, see trellis.engine


def count_known(model: Model, item: Piece, state: Any) -> tuple[Any, Any]:
    """Statistics of labels that are all known."""
    part = item.data
    return model.collect(part, model.scores(part).certain(part.outputs, weights=part.weights)), state


def count_uniform(model: Model, item: Piece, state: Any) -> tuple[Any, Any]:
    """Statistics where all outputs that agree with the known labels are equally likely."""
    part = item.data
    scores = model.uniform(part)
    scores = scores.clamp(part.outputs) if part.known else scores
    return model.collect(part, scores.infer(weights=part.weights)), state


def value_of_known(model: Model, item: Piece, state: Any) -> tuple[float, Any]:
    """Σ w log p(x, y), or of a discriminative model log p(y | x)."""
    part = item.data
    scores = model.scores(part)
    given = scores.score(part.outputs)
    several = getattr(model, "log_partitions", None)  # of views, some of which may be generative
    if several is not None:
        given = given - several(part)[1]
    elif model.discriminative:
        given = given - scores.infer().log_partition
    return float(part.weights @ given), state
