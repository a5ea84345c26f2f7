"""few_labels_per: posterior sparsity, a price on how many labels each word is ever given (Graça et al. 2009)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.constraints.amounts import is_number, is_whole, number
from trellis.constraints.condition import Key, word
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context
from trellis.constraints.sparsity import Sparsity
from trellis.constraints.strength import Kind, Strength, penalty
from trellis.errors import ConstraintError


@dataclass(frozen=True, eq=False, repr=False)
class FewLabels(Constraint):
    """σ Σ_{w,k} max_{t with key w} q(y_t = k), over keys that occur at least ``min_count`` times."""

    key: Key
    min_count: int

    def with_strength(self, strength: Strength) -> FewLabels:
        if strength.kind != Kind.PENALTY:
            raise ConstraintError(
                f"{self.code()} is a price and cannot be hard, slack or learned: "
                "give few_labels_per(key, strength=σ) a number"
            )
        return FewLabels(self.key, self.min_count, given_name=self.given_name, strength=strength, origin=self.origin)

    def code(self) -> str:
        often = f", min_count={self.min_count}" if self.min_count > 1 else ""
        return f"few_labels_per({self.key.code()}, strength={number(self.strength.amount)}{often})"

    def _strength_code(self) -> str:
        return ""  # it is in the expression

    def statement(self) -> str:
        often = f" that occurs at least {self.min_count} times" if self.min_count > 1 else ""
        return f"for every {self.key.english()}{often}, few labels are used"

    def describe(self) -> str:
        text = self.statement()
        return f"{text[0].upper()}{text[1:]}, with a penalty of {self.strength.amount:g} per label (L1/L∞)."

    def blocks(self, context: Context) -> Sequence[Sparsity]:
        codes, strings = self.key.types(context)
        occurs = np.bincount(codes, weights=context.slot_weights, minlength=len(strings))
        often = occurs >= self.min_count if len(occurs) else np.zeros(0, dtype=np.bool_)
        slots = np.flatnonzero(often[codes])
        keys, number = np.unique(codes[slots], return_inverse=True)
        first = context.parts.label(slots, 0)
        return [Sparsity(self.name, first, context.n_labels, number.astype(np.int64), len(keys), self.strength.amount)]


def few_labels_per(key: Any = word, *, strength: float, min_count: int = 1) -> FewLabels:
    """Posterior sparsity: every word uses few labels (Graça et al. 2009).

    Parameters
    ----------
    key : Key or callable, default=word
        Column, or function of the word, whose values are regularised.
    strength : float
        Penalty σ for each label that a word uses.
    min_count : int, default=1
        Words that occur less often are left out.

    Returns
    -------
    FewLabels
        A constraint.

    Examples
    --------
    >>> few_labels_per(strength=32).describe()
    'For every word, few labels are used, with a penalty of 32 per label (L1/L∞).'
    """
    if not (isinstance(key, Key) or callable(key)):
        raise ConstraintError(f"few_labels_per takes word, column(name) or a function of the word, got {key!r}")
    if not is_whole(min_count) or min_count < 1:
        raise ConstraintError(f"min_count must be a whole number from 1, got {min_count!r}")
    if not is_number(strength):
        raise ConstraintError(f"the strength of few_labels_per is a number, got {strength!r}")
    chosen = key if isinstance(key, Key) else word.map(key)
    return FewLabels(chosen, min_count, strength=penalty(float(strength), "linf"))
