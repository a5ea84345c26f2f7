"""shares: target expectations, how labels are shared out among the tokens at which something is observed.

    E_q[ tokens labelled k where it holds ] = target_k · tokens where it holds      over the corpus, for each k named

One constraint is one feature with its targets, so that their violations are measured together; they are measured in
tokens, so that a price is one of each token off its target, whether the feature is common or rare. With no condition
it is label regularisation (Mann and McCallum 2007); with words, what a person says of a word (Druck et al. 2008).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trellis.constraints.amounts import is_number, number
from trellis.constraints.block import Block
from trellis.constraints.comparison import Comparison
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context
from trellis.constraints.count import count
from trellis.constraints.rule import Rule
from trellis.errors import ConstraintError


@dataclass(frozen=True, eq=False, repr=False)
class Shares(Constraint):
    """Targets of labels among tokens where a condition holds (None: all), over the corpus."""

    targets: tuple[tuple[str, float], ...]
    where: Rule | None

    def _each(self) -> list[Comparison]:
        tokens = count(where=self.where).per("corpus")
        return [count(label, where=self.where).per("corpus") == target * tokens for label, target in self.targets]

    def code(self) -> str:
        entries = ", ".join(f"{label!r}: {number(target)}" for label, target in self.targets)
        return f"shares({{{entries}}}{'' if self.where is None else f', where={self.where.code()}'})"

    def statement(self) -> str:
        said = ", ".join(f"{100 * target:.4g} % {label}" for label, target in self.targets)
        where = "" if self.where is None else f" where {self.where.english()}"
        return f"in the corpus the tokens{where} are expected to be {said}"

    def blocks(self, context: Context) -> Sequence[Block]:
        return [block for one in self._each() for block in one.blocks(context)]


def shares(targets: Mapping[str, float], where: Any = None) -> Shares:
    """Target proportions of all labels, for the tokens at which a condition holds.

    Parameters
    ----------
    targets : dict
        Expected proportion of each label.
    where : Rule or None, default=None
        Condition that selects the tokens. By default, all tokens.

    Returns
    -------
    Shares
        A constraint; give it a ``penalty`` for :class:`GE`.

    Examples
    --------
    >>> from trellis.constraints import word
    >>> shares({"SPORT": 0.9, "OTHER": 0.1}, where=word == "goal").describe()
    "In the corpus the tokens where the word is 'goal' are expected to be 90 % SPORT, 10 % OTHER, as a hard constraint."
    """
    given: Any = targets
    if not isinstance(given, Mapping) or not given:
        raise ConstraintError(f"shares takes a dictionary, label -> share of the tokens, got {given!r}")
    for label, target in given.items():
        if not isinstance(label, str) or not label:
            raise ConstraintError(f"shares are of labels by name, got {label!r}")
        if not is_number(target) or not 0.0 <= float(target) <= 1.0:
            raise ConstraintError(f"the share of {label!r} must be a number from 0 to 1, got {target!r}")
    total = sum(map(float, targets.values()))
    if total > 1.0 + 1e-6:
        raise ConstraintError(f"the shares of {', '.join(targets)} are {total:.6g} together, which is more than 1")
    if where is not None and not (isinstance(where, Rule) and where.observed):
        raise ConstraintError(f"where= takes a condition on what is observed, such as word == 'goal', got {where!r}")
    return Shares(tuple((label, float(target)) for label, target in targets.items()), where)
