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
from trellis.models.documentation import documented


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class JLIS(IndirectLearner):
    """Joint learning with indirect supervision: labelled structures and binary labels together.

    Minimises the structural SVM loss on labelled structures plus the LCLR loss on binary labels (Chang 2011, eq. 6.1).
    Without binary labels it equals :class:`SSVM`, without labelled structures :class:`LCLR`. Pass binary labels to
    ``fit`` as ``binary=(X, z)`` with labels +1 and −1.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses of labelled structures relative to ½ ‖w‖².
    C_binary : float, default=1.0
        Weight of the losses of binary labels.
    normalised : bool, default=True
        Divide the features of instances with binary labels by their size κ(x).

    Examples
    --------
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
        """Learn from instances with outputs (X, y) and from ``binary`` = (X', z) with labels −1 and +1.

        All binary labels may be equal if there are outputs; numbers between −1 and +1 have less weight.

        sample_weight : of the instances of X, then of X';  dev : (X, y) whose score decides which round is kept
        """
        self._check_types()
        if X is not None and y is None:
            raise DataError("X needs outputs y; give examples with binary labels as binary=(X, z)")
        if binary is not None and not (isinstance(binary, tuple | list) and len(binary) == 2):
            raise DataError("binary must be a pair (X, z) of examples and their answers, −1 or +1")
        asked = (None, None) if binary is None else tuple(binary)
        loop = self._loop_over((X, y), asked, sample_weight, dev)
        return self._trained(loop, loop.run(resume=resume))
