"""LatentSSVM: a structural SVM whose outputs are known in part (Yu and Joachims 2009; Chang 2011, eq. 2.18).

    min_w  ½ ‖w‖² + C Σ_i ℓ(max_{y, h} (Δ(y_i, y) + w · Φ(x_i, y, h)) − max_h w · Φ(x_i, y_i, h))

y is what is known of an output and h the rest: labels that are None. By the concave-convex procedure: h is held at the
best of w_t, the convex problem that is left is solved, and the objective never rises. Δ counts the known labels alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from trellis.errors import DataError
from trellis.learn.margin.indirect import IndirectLearner


@dataclass(eq=False, repr=False, kw_only=True)
class LatentSSVM(IndirectLearner):
    """Structural SVM from labels that are known in part.

    model, constraints, C, loss, beam : as in SSVM
    random_ties, start, n_init, max_iter, tol, inner_tol, inner_iter and the rest : as in JLIS. With "auto" the first
        weights are learned from the instances with all their labels; where there are none they are 0, and the first h
        is any: draw it (random_ties)

    >>> from trellis.models import CRF
    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"]]
    >>> learner = LatentSSVM(CRF(["D", "N", "V"])).fit(X, [["D", "N", "V"], ["D", None, "V"]])
    >>> learner.predict([["the", "cat", "barks"]])
    [['D', 'N', 'V']]
    """

    title = "latent structural SVM"
    normalised = False
    loss: str = "hinge"

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        dev: tuple[Any, Any] | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from outputs that are known in part; the score on ``dev`` = (X, y) decides which round is kept."""
        if y is None:
            raise DataError("there are no labels in y to learn from; what is not known of them is None")
        return self._fit((X, y), (None, None), sample_weight, dev, resume)
