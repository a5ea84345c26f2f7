"""The interface of a model to a learner: four methods over parameters θ of a structure.

scores    log-potentials over the parts of a batch:  log p(x, y) of a generative model, and of a
          discriminative one anything that p(y | x) is proportional to the exponential of
collect   expected sufficient statistics under a posterior; they add
update    the M-step: θ that maximises  E_q[log p_θ] + log_prior()
log_prior what the M-step adds to the expected log-likelihood, so that an EM objective can be written down
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from trellis.constraints import Constraint, Rule, compile_constraints
from trellis.constraints.rows import Rows
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Engine, Placed
from trellis.errors import DataError
from trellis.structures import Parts, Structure


class Model(Protocol):
    """Parameters over a structure. ``reset`` and ``randomize`` give a start, ``parameters`` a copy to come back to."""

    discriminative: bool
    label_names_: Vocabulary
    # A model whose M-step is not exact says ``rises = False``: its objective may fall.
    # A model may have ``outputs_are``, what it predicts: views of one learner must have it in common.

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> Batch:
        """Text or arrays as a batch; with ``fit`` vocabularies are learned and parameters reset."""
        ...

    def parts(self, batch: Batch) -> Parts:
        """The parts of the outputs of a batch."""
        ...

    def scores(self, batch: Batch) -> Structure: ...

    def uniform(self, batch: Batch) -> Structure:
        """Scores under which all outputs that the model allows are equally likely: a usual start of EM."""
        ...

    def collect(self, batch: Batch, q: Any) -> Any:
        """Statistics of a batch, from a posterior of its scores or of a change of them.

        Expected counts that the posterior brings are weighted already, its marginals are weighted here.
        """
        ...

    def update(
        self, statistics: Any, *, shards: Sequence[Placed[Any]] | None = None, engine: Engine | None = None
    ) -> None:
        """M-step; a discriminative model looks at the instances again, where they are placed."""
        ...

    def decode(self, batch: Batch, outputs: Any) -> Any:
        """Outputs by name, in the form that ``predict`` gives them."""
        ...

    def probabilities(self, batch: Batch, posteriors: Sequence[Any]) -> Any:
        """Posteriors of the batch's shards in the form that ``predict_proba`` gives them."""
        ...

    def log_prior(self) -> float: ...
    def reset(self) -> None: ...
    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None: ...
    def parameters(self) -> dict[str, FloatArray]: ...
    def set_parameters(self, parameters: dict[str, FloatArray]) -> None: ...


def bare(model: Model) -> Model:
    """What ``scores`` and ``collect`` need of a model: this is what travels to a worker.

    A model may leave out the rest (vocabularies, say) in a method of this name; it is the model itself elsewhere.
    """
    own = getattr(model, "bare", None)
    return model if own is None else own()


def own_model(model: Any, *, learned: bool) -> Model:
    """A model like the one given, to be trained: with what it has learned, or without."""
    if not hasattr(model, "get_params"):
        made: Model = copy.deepcopy(model)
        return made
    if not learned:
        fresh: Model = type(model)(**model.get_params(deep=False))
        return fresh
    try:
        parameters = model.parameters()
    except AttributeError as error:
        name = type(model).__name__
        raise DataError(
            f"start='model' begins with the model's own parameters, but this {name} has none: fit it first"
        ) from error
    twin: Model = copy.copy(model)
    twin.set_parameters(parameters)
    return twin


def rows_of(model: Model, batch: Batch, constraints: Sequence[Constraint | Rule]) -> Rows:
    """The constraints over the parts of a batch."""
    parts = model.parts(batch)
    if not constraints:
        return Rows.none(parts)
    return compile_constraints(list(constraints), batch, model.label_names_, parts)


def scores_of(model: Model, part: Batch) -> Structure:
    """Scores of a shard, known labels clamped."""
    scores = model.scores(part)
    return scores.clamp(part.outputs) if part.known else scores
