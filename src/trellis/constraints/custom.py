"""Constraints that are Python functions of a partial output, for search alone.

    price(y) = ρ Σ_t f(x; y_1 … y_t)               (Chang 2011, eq. 3.1: how y_t violates a rule, given those before)

Such a constraint has no rows and no expectation: beam search calls f on the prefixes that it extends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context
from trellis.constraints.implicit import Checks
from trellis.constraints.reduction import Outputs, TestedPlaces
from trellis.constraints.strength import Kind, Norm
from trellis.errors import ConstraintError

Check = Callable[[Sequence[str], Sequence[str]], float]


@dataclass(frozen=True, eq=False, repr=False)
class Custom(Constraint):
    """No prefix of the labels violates what the function says."""

    function: Check

    @property
    def ties_instances(self) -> bool:
        return False

    def code(self) -> str:
        return f"custom({getattr(self.function, '__name__', type(self.function).__name__)})"

    def statement(self) -> str:
        return f"in every sentence {self.code().removeprefix('custom(')[:-1]} returns 0 for every prefix of the labels"

    def blocks(self, context: Context) -> list[Checks]:
        if self.strength.kind in (Kind.SLACK, Kind.SQUARED, Kind.KL) or (
            self.strength.kind == Kind.PENALTY and self.strength.norm != Norm.L1
        ):
            raise ConstraintError(f"{self.code()} can be hard, have a penalty (L1), or a learned one")
        if context.parts.kind not in ("chain", "categorical"):
            raise ConstraintError(
                f"{self.code()} is checked by beam search, which extends label sequences, but these are "
                f"{context.parts.outputs_are}"
            )
        words = context.column("word").strings()
        ends = context.batch.offsets.tolist()
        tokens = tuple(tuple(words[a:b]) for a, b in pairwise(ends))
        return [Checks(-1, self.function, self.strength, tokens, context.labels.names)]

    def tested(self, outputs: Outputs) -> TestedPlaces:
        """Every token is a place."""
        context = outputs.context
        (checks,) = self.blocks(context)
        labels = np.full(context.n_slots, -1, dtype=np.int32)
        slots = np.arange(context.n_slots)
        for k in range(context.n_labels):
            labels[outputs.uses(context.parts.label(slots, np.full(len(slots), k)))] = k
        broken = np.minimum(checks.at_slots(labels), 1.0)
        return TestedPlaces(np.ones(context.n_slots), broken, context.instance, slots)


def custom(function: Check) -> Custom:
    """A Python function that checks label sequences while they are built.

    It is used by constrained search, in :class:`CCM`, :class:`CoDL`, margin learners and :func:`decode`, and is not
    enforced in posteriors.

    Parameters
    ----------
    function : callable
        Called with the words of a sentence and the labels of its first tokens, at least one. It returns how much the
        last of these labels violates the constraint: 0 or False if it does not.

    Returns
    -------
    Custom
        A constraint.

    Examples
    --------
    >>> def two_in_a_row(words, labels):
    ...     return len(labels) > 1 and labels[-1] == labels[-2] == "VERB"
    >>> custom(two_in_a_row).penalty(3)
    custom(two_in_a_row).penalty(3)
    """
    if not callable(function):
        raise ConstraintError(f"custom takes a function of words and labels, got {function!r:.80}")
    return Custom(function)
