"""JLIS: structures learned from outputs and from yes/no answers together (Chang 2011, chapter 6).

An answer z = +1 says that x has a good structure, −1 that all its structures are bad: the best one must score above or
below a threshold. The objective Q (:mod:`trellis.learn.margin.indirect`) is not convex, since positive examples ask for
*some* structure; with theirs held at the best of w_t it is, and the rounds never raise it (algorithm 13, theorem 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from trellis.errors import DataError
from trellis.learn.margin.indirect import IndirectLearner


@dataclass(eq=False, repr=False, kw_only=True)
class JLIS(IndirectLearner):
    """Joint learning with indirect supervision. Without yes/no examples it is an SSVM, without outputs LCLR.

    model, constraints, beam : as in SSVM
    C, C_binary : weights of the losses of outputs and of answers against ½ ‖w‖²;  loss : "squared_hinge" or "hinge"
    normalised : whether features of yes/no examples are divided by the size κ(x) of the example
    random_ties : draw among structures that are equally good; without outputs to start from that is needed
    start : "auto": weights learned from the outputs, or 0; "model": those the model brings, to find structures with
    n_init : restarts, of which the one with the lowest objective is kept
    max_iter : rounds;  tol : they end where the objective falls by less than this share of itself
    inner_tol : of the duality gap of a round's convex problem;  inner_iter : its passes at most
    random_state : of ties and of the order of examples
    checkpoint, checkpoint_every, n_jobs, engine, verbose : as in UEM

    >>> from trellis.learn.margin.negatives import shuffled
    >>> from trellis.models import CRF
    >>> good = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]]
    >>> bad = shuffled(good, random_state=0)
    >>> learner = JLIS(CRF()).fit(good[:1], [["D", "N", "V"]], binary=(good + bad, [1] * 3 + [-1] * 3))
    >>> learner.predict([["a", "cat", "sleeps"]]), learner.decision_function(good + bad).round(1).shape
    ([['D', 'N', 'V']], (6,))
    """

    title = "joint learning with indirect supervision"

    C_binary: float = 1.0
    normalised: bool = True

    def fit(
        self,
        X: Any = None,
        y: Any = None,
        *,
        binary: Any = None,
        sample_weight: Any = None,
        dev: tuple[Any, Any] | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from instances with outputs (X, y) and from ``binary`` = (X', z) with answers −1 and +1.

        sample_weight : of the instances of X, then of X';  dev : (X, y) whose score decides which round is kept
        """
        if X is not None and y is None:
            raise DataError("X comes with outputs y; examples with answers go into binary=(X, z)")
        if binary is not None and not (isinstance(binary, tuple | list) and len(binary) == 2):
            raise DataError("binary must be a pair (X, z) of examples and their answers, −1 or +1")
        asked = (None, None) if binary is None else tuple(binary)
        return self._fit((X, y), asked, sample_weight, dev, resume)
