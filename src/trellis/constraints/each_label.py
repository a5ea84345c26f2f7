"""each_label: one constraint that says the same of every label, or of each of a few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trellis.constraints.block import RowsOrImplicit
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context
from trellis.constraints.labels import label_names
from trellis.constraints.rule import Rule
from trellis.constraints.strength import Kind
from trellis.constraints.tested import Outputs, Places, joined
from trellis.errors import ConstraintError


@dataclass(frozen=True, eq=False, repr=False)
class EachLabel(Constraint):
    """``function(label)`` for every label of ``labels`` (none given: of the vocabulary) but those of ``but``."""

    function: Callable[[str], Constraint | Rule]
    labels: tuple[str, ...]
    but: tuple[str, ...] = ()

    def _of(self, label: str) -> Constraint:
        made = self.function(label)
        constraint = made.constraint() if isinstance(made, Rule) else made
        if not isinstance(constraint, Constraint):
            raise ConstraintError(f"each_label takes a function from a label to a constraint, but it gave {made!r}")
        if constraint.strength.kind != Kind.HARD or constraint.given_name is not None:
            raise ConstraintError(
                f"give the strength and the name to each_label(...) as a whole, not to {constraint.code()}"
            )
        return constraint

    @property
    def ties_instances(self) -> bool:
        return self._of("L").ties_instances

    def code(self) -> str:
        which = "".join(f", {name!r}" for name in self.labels) + (f", but={list(self.but)!r}" if self.but else "")
        return f"each_label(lambda L: {self._of('L').code().replace(repr('L'), 'L')}{which})"

    def statement(self) -> str:
        which = f" among {', '.join(self.labels)}" if self.labels else ""
        which += f" but {' and '.join(self.but)}" if self.but else ""
        return f"for every label L{which}, {self._of('L').statement()}"

    def _each(self, context: Context) -> list[Constraint]:
        context.label_set(self.labels)
        return [self._of(name) for name in self.labels or context.labels.names if name not in self.but]

    def blocks(self, context: Context) -> Sequence[RowsOrImplicit]:
        return [block for one in self._each(context) for block in one.blocks(context)]

    def tested(self, outputs: Outputs) -> Places:
        return joined([one.tested(outputs) for one in self._each(outputs.context)])


def each_label(
    function: Callable[[str], Constraint | Rule], *labels: str | Iterable[str], but: str | Iterable[str] = ()
) -> EachLabel:
    """One constraint per label.

    Parameters
    ----------
    function : callable
        Maps a label to a constraint.
    *labels : str or list of str
        Labels. By default, all labels of the data.
    but : str or list of str, default=()
        Labels to leave out.

    Returns
    -------
    EachLabel
        A constraint.

    Examples
    --------
    >>> from trellis.constraints import starts
    >>> each_label(lambda L: starts(L) <= 1).describe()
    'For every label L, in every sentence the expected number of L segments is at most 1, as a hard constraint.'
    >>> each_label(lambda L: starts(L) <= 1, but="O").code()
    "each_label(lambda L: starts(L) <= 1, but=['O'])"
    """
    return EachLabel(function, label_names(labels, "each_label"), label_names((but,), "each_label"))
