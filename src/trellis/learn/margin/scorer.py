"""What a large-margin learner asks of a model: a feature map, weights, and a structure to search.

    score(x, h) = w · Φ(x, h),      h in H(x)

A *scorer* is any model with the members below; every :class:`~trellis.models.log_linear.LogLinearModel` is one (CRF,
MaxEnt, ArcParser). Nothing else is known of it: instances are a batch, outputs have the form of its structure, what an
output is made of are part numbers. Loss-augmented inference is ``argmax`` of the scores after ``add`` of the loss over
parts, constraints go through :mod:`trellis.search`.

What learners do with it:

    SSVM, Perceptron, MIRA   fit(X, y)                    y: outputs, by name as ``encode`` takes them
    LatentSSVM               fit(X, y)                    y known in part
    LCLR                     fit(X, z)                    z in {−1, +1}: is there a good structure for x?
    JLIS                     fit(X, y, binary=(X', z))    both kinds; either may be empty

    predict(X)               SSVM, JLIS and their like: outputs by name (``decode``); LCLR: z
    decision_function(X)     (n,): max_h w · Φ(x, h) / κ(x) + bias  (κ and bias: LCLR and JLIS)
    best_structures(X)       argmax_h, by name (``decode``)

LCLR and JLIS start from the weights that a fitted model brings (``start="model"``), a heuristic alignment say.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.structures import Parts, Structure


class Instances(Protocol):
    """A batch as learners see it: :class:`~trellis.data.batch.Batch` is one.

    offsets : (n + 1,) sizes of the instances, by which shards are cut and which κ(x) is by default
    weights : (n,);  labels : the outputs given, in the form of the structure, −1 where a label is not known
    first : the number of the first instance in the corpus, for messages
    """

    offsets: Any
    weights: FloatArray
    labels: Any
    first: int

    def __len__(self) -> int: ...
    def instances(self, start: int, stop: int) -> Any:
        """Instances start..stop−1."""
        ...

    def take(self, numbers: Any) -> Any:
        """The instances with these numbers, in this order."""
        ...


class Scorer(Protocol):
    """A model that is linear in its weights.

    ``phi`` and ``scores`` must agree: scores(batch).score(outputs) = phi(batch, outputs) · weights_, instance by
    instance (up to rounding). A model may have a method ``sizes(batch)``, κ(x) of each instance (n,), where the
    lengths of the batch are not what features grow with; ``weight_bounds()``, the least and the largest value of each
    weight, which cutting planes keep to; and ``bare()``, itself without what a worker does not need.
    """

    weights_: FloatArray
    label_names_: Vocabulary

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> Any:
        """Instances as a batch; with ``fit`` features are learned from X and the weights are 0."""
        ...

    def parts(self, batch: Any) -> Parts: ...
    def scores(self, batch: Any) -> Structure: ...
    def phi(self, batch: Any, outputs: Any) -> Any:
        """Sparse rows (n_instances, n_weights), scipy CSR."""
        ...

    def decode(self, batch: Any, outputs: Any) -> Any:
        """Outputs by name, one per instance."""
        ...

    def reset(self) -> None: ...
    def parameters(self) -> dict[str, FloatArray]:
        """{"weights": weights_}."""
        ...

    def set_parameters(self, parameters: dict[str, Any]) -> None: ...


def sizes_of(model: Any, batch: Any) -> FloatArray:
    """κ(x) of each instance (Chang 2011, sec. 6.1.2): at least 1."""
    own = getattr(model, "sizes", None)
    sizes = np.diff(batch.offsets) if own is None else own(batch)
    return np.maximum(np.asarray(sizes, dtype=np.float64), 1.0)


def bounds_of(model: Any) -> tuple[FloatArray, FloatArray] | None:
    """Bounds of the weights and of the bias, which has none: (low, high), each (n_weights + 1,); None: of no weight."""
    own = getattr(model, "weight_bounds", None)
    found = None if own is None else own()
    if found is None:
        return None
    low, high = (np.asarray(side, np.float64) for side in found)
    if not low.shape == high.shape == model.weights_.shape or not np.all((low <= 0.0) & (high >= 0.0)):
        raise DataError("bounds of weights are two numbers for each of them, with 0 between the two")
    return np.append(low, -np.inf), np.append(high, np.inf)


def refuse_bounds(model: Any, what: str) -> None:
    """For learners whose steps know nothing of bounds."""
    if bounds_of(model) is not None:
        raise DataError(
            f"weights of this {type(model).__name__} have bounds, which {what} does not respect: use "
            "cutting planes (SSVM, LatentSSVM, LCLR, JLIS)"
        )
