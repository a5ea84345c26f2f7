"""One norm for the violations of several constraints in all sentences.

    q obeys  E_q[φ] − b ≤ ξ,  ‖ξ‖ ≤ ε        or pays  σ ‖ξ‖             (Ganchev et al. 2010, eq. 2 and 5)

where ξ has a violation for every row of every member. By itself a constraint that is counted per sentence has a ξ, and
an ε, for each sentence. An instance that weighs w has w times its violation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowBlock
from trellis.constraints.reduction import Outputs, TestedPlaces, joined
from trellis.constraints.rows import COUPLING
from trellis.constraints.rule import Rule
from trellis.constraints.strength import Kind
from trellis.errors import ConstraintError


@dataclass(frozen=True, eq=False, repr=False)
class Together(Constraint):
    """The members' rows as one norm group."""

    members: tuple[Constraint, ...]

    def code(self) -> str:
        return f"together({', '.join(member.code() for member in self.members)})"

    def statement(self) -> str:
        return "; ".join(member.statement() for member in self.members) + "; all violations in one norm"

    def blocks(self, context: Context) -> list[RowBlock]:
        return [self._joint(block, context) for member in self.members for block in member.blocks(context)]

    def _joint(self, block: Any, context: Context) -> RowBlock:
        """The rows of a block in the norm group of the corpus, where entries count as often as instances weigh."""
        if not isinstance(block, RowBlock):
            raise ConstraintError(f"{self.code():.80}: few_labels_per and agreement of links have a norm of their own")
        weight = np.where(block.instance == COUPLING, 1.0, context.batch.weights[block.instance])
        coupling = np.full(len(block), COUPLING)
        return replace(block, instance=coupling, bound=block.bound * weight, offset=block.offset * weight)

    def tested(self, outputs: Outputs) -> TestedPlaces:
        return joined([member.tested(outputs) for member in self.members])


def together(*constraints: Constraint | Rule) -> Together:
    """Measure the violations of several constraints, in all sentences, by one norm.

    The strength of the result is that of all of them: with ``.slack(ε)`` one ε is shared by the whole corpus. Like all
    constraints over the corpus, it shapes training, and predictions only with ``transductive=True``.

    Parameters
    ----------
    *constraints : Constraint
        One or more constraints without a strength of their own.

    Returns
    -------
    Together
        A constraint.

    Examples
    --------
    >>> from trellis.constraints import count
    >>> together(count("VERB") >= 1, count("NOUN") >= 1).slack(5, "l1")
    together(count('VERB') >= 1, count('NOUN') >= 1).slack(5, 'l1')
    """
    if not constraints:
        raise ConstraintError("together() needs at least one constraint")
    members = []
    for one in constraints:
        if not isinstance(one, Constraint | Rule):
            raise ConstraintError(f"together takes constraints, got {one!r:.80}")
        member = one if isinstance(one, Constraint) else one.constraint()
        if member.strength.kind != Kind.HARD:
            raise ConstraintError(
                f"{member!r} has a strength of its own: give one to together(...) as a whole, together(...)"
                f"{member.strength.code()}"
            )
        members.append(member)
    return Together(tuple(members))
