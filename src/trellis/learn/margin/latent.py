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
from trellis.models.documentation import documented
from trellis.models.sequence import labelled


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LatentSSVM(IndirectLearner):
    """Structural SVM for partly labelled outputs, by the concave-convex procedure (Chang 2011, eq. 2.18).

    Parameters
    ----------
    start : {"auto", "model"}, default="auto"
        Initial weights: "auto" trains them on the fully labelled instances, or uses 0; "model" takes the weights of the
        model.

    Examples
    --------
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
        """Learn from partly known outputs; the score on ``dev`` = (X, y) decides which round is kept."""
        self._check_types()
        X, y = labelled(self.model, X, y)
        if y is None:
            raise DataError("there are no labels in y to learn from; None marks unknown ones")
        loop = self._loop_over((X, y), (None, None), sample_weight, dev)
        return self._trained(loop, loop.run(resume=resume))
