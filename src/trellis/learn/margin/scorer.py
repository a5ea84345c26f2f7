"""What a large-margin learner asks of a model: a feature map, weights, and a structure to search.

    score(x, h) = w · Φ(x, h),      h in H(x)

A *scorer* is any model that is linear in its weights: :class:`~trellis.models.log_linear.LogLinearModel` is one (CRF,
MaxEnt, ArcParser). It has ``weights_`` and ``label_names_``, and

    encode(X, y, weights, fit=False)    instances as a batch; with ``fit`` features are learned and the weights are 0
    parts(batch), scores(batch)         as every model;  reset, parameters {"weights": weights_}, set_parameters
    phi(batch, outputs)                 sparse rows (n_instances, n_weights):  scores.score(outputs) = phi · weights_
    decode(batch, outputs)              outputs by name, one per instance
    sizes(batch)                        optional: κ(x), where features do not grow with the lengths of the batch
    weight_bounds()                     optional: least and largest value of each weight, which cutting planes keep to
    part_loss(batch)                    optional: the loss Δ against the labels of a batch, as a PartLoss, where it is
                                        not the Hamming loss

A batch has a length, ``offsets``, ``lengths``, ``weights``, ``labels`` in the form of the structure, ``known`` (whether
any label is), ``complete`` (of each instance, whether all are), ``first``, ``instances(start, stop)``,
``take(numbers)`` and ``with_labels(labels)``, where None stands for unknown ones; outputs have the form of the
structure. Loss-augmented inference is ``argmax`` of the scores after ``add`` of the loss over parts, constraints go
through :mod:`trellis.search`.

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

from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.errors import DataError
from trellis.structures import Parts
from trellis.structures.parts import PartLoss


def sizes_of(model: Any, batch: Any) -> FloatArray:
    """κ(x) of each instance (Chang 2011, sec. 6.1.2): at least 1."""
    own = getattr(model, "sizes", None)
    sizes = np.diff(batch.offsets) if own is None else own(batch)
    return np.maximum(np.asarray(sizes, dtype=np.float64), 1.0)


def loss_of(model: Any, batch: Any, parts: Parts) -> PartLoss:
    """Δ against the labels of a batch: the model's own, or the Hamming loss."""
    own = getattr(model, "part_loss", None)
    found: PartLoss = parts.hamming(batch.labels) if own is None else own(batch)
    return found


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
