"""LCLR: binary classification through the best latent structure, both learned jointly (Chang 2011, chapter 5).

f(x) = max_h w · Φ(x, h) / κ(x) + bias,       min_w ½ ‖w‖² + C Σ_i ℓ(1 − z_i f(x_i))               (eq. 5.1 to 5.3)

"joint"        algorithm 10: structures of positive examples are held at the best of w_t, those of negative ones are
               searched for while the convex rest is solved (algorithm 11); the objective never rises
"approximate"  algorithm 12: structures of all examples are held, and w learned as of a plain SVM; no guarantee
"two-stage"    structures are found once with the weights the model brings, in training and in prediction, and w is
               learned over them: the baseline of sec. 5.4
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf
from trellis.data.ragged import FloatArray, IntArray
from trellis.errors import DataError
from trellis.learn.margin.indirect import IndirectLearner, signs
from trellis.learn.margin.scorer import sizes_of
from trellis.models.documentation import documented
from trellis.models.inference import Inference

METHODS = ("joint", "approximate", "two-stage")
FIRST = "two_stage_weights"


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LCLR(IndirectLearner):
    """Learning over constrained latent representations: binary labels, latent structures.

    An instance labelled +1 has a good structure; all structures of an instance labelled −1 are bad (Chang 2011, eq. 5.1
    to 5.3).

    Parameters
    ----------
    method : {"joint", "approximate", "two-stage"}, default="joint"
        How to learn. "joint" fixes the structures of positive examples in each round (algorithms 10, 11), "approximate"
        those of all examples (algorithm 12), and "two-stage" keeps the structures found by the initial weights.
    normalised : bool, default=True
        Divide the features of an instance by its size κ(x).

    Attributes
    ----------
    first_weights_ : ndarray
        Weights that found the structures of "two-stage".

    Examples
    --------
    >>> from trellis.learn.margin.negatives import shuffled
    >>> from trellis.models import CRF
    >>> good = [["the", "dog", "barks"], ["the", "cat", "sleeps"], ["a", "cat", "barks"], ["a", "dog", "sleeps"]]
    >>> X = good + shuffled(good, random_state=0)
    >>> learner = LCLR(CRF(["D", "N", "V"]), C=10.0, random_ties=True).fit(X, [1] * 4 + [-1] * 4)
    >>> learner.predict(X).tolist()
    [1, 1, 1, 1, -1, -1, -1, -1]
    """

    title = "learning over latent representations"

    method: str = "joint"
    normalised: bool = True

    @property
    def C_binary(self) -> float:  # type: ignore[override]
        return self.C

    @property
    def fixed(self) -> bool:  # type: ignore[override]
        return self.method != "joint"

    @property
    def _rounds(self) -> int:
        return 1 if self.method == "two-stage" else self.max_iter

    def fit(
        self, X: Any, y: Any, *, sample_weight: Any = None, dev: tuple[Any, Any] | None = None, resume: bool = False
    ) -> Self:
        """Learn from binary labels, −1 or +1; the score on ``dev`` = (X, y) decides which round is kept."""
        self._check_types()
        self._check_settings(dev)
        if self.method == "two-stage" and self.start != "model":
            raise DataError(
                "training in two stages needs a model with weights to find structures: pass a trained one and "
                "start='model'"
            )
        first = getattr(self.model, "weights_", None)
        if self.start == "model" and first is None:
            name = type(self.model).__name__
            raise DataError(f"start='model' begins with the model's weights, but this {name} has none: fit it first")
        self.first_weights_ = first.copy() if self.start == "model" and first is not None else None
        loop = self._loop_over((None, None), (X, y), sample_weight, dev)
        return self._trained(loop, loop.run(resume=resume))

    def _check_settings(self, dev: Any = None) -> None:
        super()._check_settings(dev)
        self._check_names(method=METHODS)

    def predict(self, X: Any, *, constrained: bool = True, transductive: bool = False) -> IntArray:
        """Predicted labels, −1 or +1."""
        found = self.infer(X, constrained=constrained, transductive=transductive)
        return np.where(self.answers(found) >= 0.0, 1, -1)

    def score(self, X: Any, y: Any = None, *, constrained: bool = True) -> float:
        """Accuracy of :meth:`predict`."""
        found = self.predict(X, constrained=constrained)
        if not len(found):
            raise DataError("there are no examples, so there is no accuracy")
        return float(np.mean(found == np.sign(signs(y, len(found)))))

    def best_structures(self, X: Any, *, constrained: bool = True) -> Any:
        found = self.infer(X, constrained=constrained)
        return self.model_.decode(found.batch, found.outputs)

    def answers(self, found: Inference) -> FloatArray:
        if self.method != "two-stage":
            return super().answers(found)
        values = np.asarray(self.model_.phi(found.batch, found.outputs) @ self.model_.weights_)
        return values / (sizes_of(self.model_, found.batch) if self.normalised else 1.0) + self.bias_

    def _inference(self, batch: Any, constrained: bool, transductive: bool) -> Inference:
        """Structures; of two stages at the weights of the first."""
        found = super()._inference(batch, constrained, transductive)
        if self.method == "two-stage":
            found.model = copy(self.model_)
            found.model.set_parameters({"weights": self.first_weights_})
        return found

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        names, arrays = super().learned()
        return names, arrays if self.first_weights_ is None else {**arrays, FIRST: self.first_weights_}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        super().restore(names, {name: array for name, array in arrays.items() if name != FIRST})
        self.first_weights_ = None
        if FIRST in arrays:
            shape = self.model_.weights_.shape
            self.first_weights_ = ArrayOf(np.float64, shape).check(FIRST, arrays[FIRST], {})
        elif self.method == "two-stage":
            raise DataError("a file of two stages must hold the weights of the first")
