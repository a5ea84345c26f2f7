"""Decoding by Viterbi alone, exact where every price factors over nodes and edges (see :mod:`folding`)."""

from __future__ import annotations

from trellis.errors import ConstraintError
from trellis.search.plan import Plan


def refuse_unfolded(plan: Plan) -> None:
    """Raise if rows remain that do not factor."""
    names = plan.remaining.names()
    if names:
        listed = ", ".join(map(repr, names))
        raise ConstraintError(
            f"{listed} {'does' if len(names) == 1 else 'do'} not factor over single labels and pairs of neighbours, so "
            "Viterbi is not exact: use method 'auto', 'beam', 'astar', 'ilp' or 'relaxation'"
        )
