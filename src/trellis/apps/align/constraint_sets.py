"""Constraints on the links of both directions, by name or as a list."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trellis.apps.align.hints import Hint
from trellis.constraints import Constraint, backward, each, forward, trusted
from trellis.constraints.expression import read_constraint
from trellis.constraints.links import LinkComparison, LinkCount
from trellis.constraints.strength import Kind, penalty, slack
from trellis.data.checks import is_list
from trellis.errors import ConstraintError, DataError, check_name

CONSTRAINTS: dict[str, tuple[Constraint, ...]] = {
    "none": (),
    "agreement": (forward.links == backward.links,),
    "bijective": (forward.links(source=each) <= 1, backward.links(target=each) <= 1),
    "both": (forward.links == backward.links, forward.links(source=each) <= 1, backward.links(target=each) <= 1),
}
HINT_PRICE = 12.0
"""What a unit of violation of given links costs, in nats."""

_WITH_STRENGTH = re.compile(r"\((.*)\)\.(slack|penalty)\((\d[\d.e+-]*)(?:, '(l1|l2|linf|squared)')?\)")

ConstraintSet = str | Sequence[Constraint | str]
"""A name, or constraints; files hold each of them as it is written."""


def constraints_of(given: ConstraintSet) -> list[Constraint]:
    """The constraints that are meant.

    >>> constraints_of([(forward.links == backward.links).penalty(2)])
    [(forward.links == backward.links).penalty(2)]
    """
    if isinstance(given, str):
        check_name("constraint", given, CONSTRAINTS)
        return list(CONSTRAINTS[given])
    if not is_list(given):
        raise DataError(f"constraint is a name ({', '.join(CONSTRAINTS)}) or a list of constraints, not {given!r:.80}")
    return [_checked(one) for one in given]


def _checked(given: Constraint | str) -> Constraint:
    one = read_links(given) if isinstance(given, str) else given
    if not isinstance(one, LinkComparison) or one.left.member is None:
        raise DataError(
            f"{one!r:.100} is not a constraint on alignments: compare links of each word, forward.links(source=each) "
            "<= 1, or of the sentence pair, forward.links() >= 1"
        )
    if any(isinstance(side, LinkCount) and any(side.ends) for side in (one.left, one.right)):
        raise DataError(f"{one!r:.100} has a condition on words, which constraints of an aligner cannot have")
    if one.left.scope == "corpus":
        raise DataError(f"{one!r:.100} spans sentence pairs: an aligner's constraints must hold within each pair")
    if one.strength.kind == Kind.LEARNED:
        raise DataError(f"{one!r:.100} has a penalty that would be learned from labels: give it a slack or a penalty")
    return one


def read_links(code: str) -> LinkComparison:
    """The constraint on links that is written so, as files of models hold it; the inverse of ``repr``.

    >>> read_links("(forward.links(source=each) <= 1).penalty(2.5)")
    (forward.links(source=each) <= 1).penalty(2.5)
    """
    strong = _WITH_STRENGTH.fullmatch(code)
    found = read_constraint(strong[1] if strong else code)
    if not isinstance(found, LinkComparison):
        raise ConstraintError(
            f"{code!r:.100} is not a constraint on links: write, for example, 'forward.links == backward.links' or "
            "'(forward.links(source=each) <= 1).penalty(2)'"
        )
    if strong is None:
        return found
    try:
        amount = float(strong[3])
    except ValueError:
        raise ConstraintError(f"{strong[3]!r:.40} is not a number") from None
    made = {"slack": slack, "penalty": penalty}[strong[2]]
    return found.with_strength(made(amount, *filter(None, [strong[4]])))


def with_hints(given: ConstraintSet, hints: Sequence[Sequence[Hint]] | None, reliability: float) -> list[Constraint]:
    """The constraints of a training or of a decoding."""
    known = [] if hints is None else [trusted(links=hints, at_least=reliability).penalty(HINT_PRICE)]
    return [*constraints_of(given), *known]
