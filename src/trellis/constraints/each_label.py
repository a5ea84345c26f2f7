"""Constraints about all labels: the same constraint for every label, and a penalty on the number of labels per word.

few_labels_per is posterior sparsity (Graça et al. 2009), and few_arcs_per the same of the tags that arcs join
(Gillenwater et al. 2010).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from trellis.constraints.amounts import is_number, is_whole, number
from trellis.constraints.condition import Key, word
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowsOrImplicit
from trellis.constraints.implicit import Sparsity
from trellis.constraints.labels import label_names
from trellis.constraints.reduction import Outputs, TestedPlaces, joined
from trellis.constraints.rule import Rule
from trellis.constraints.strength import Kind, Strength, penalty
from trellis.errors import ConstraintError


@dataclass(frozen=True, eq=False, repr=False)
class EachLabel(Constraint):
    """``function(label)`` for every label of ``labels`` (none given: of the vocabulary) but those of ``but``."""

    function: Callable[[str], Constraint | Rule]
    labels: tuple[str, ...]
    but: tuple[str, ...] = ()

    def of(self, label: str) -> Constraint:
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
        return self.of("L").ties_instances

    def code(self) -> str:
        which = "".join(f", {name!r}" for name in self.labels) + (f", but={list(self.but)!r}" if self.but else "")
        return f"each_label(lambda L: {self.of('L').code().replace(repr('L'), 'L')}{which})"

    def statement(self) -> str:
        which = f" among {', '.join(self.labels)}" if self.labels else ""
        which += f" except {' and '.join(self.but)}" if self.but else ""
        return f"for every label L{which}, {self.of('L').statement()}"

    def _each(self, context: Context) -> list[Constraint]:
        context.label_set(self.labels)
        return [self.of(name) for name in self.labels or context.labels.names if name not in self.but]

    def blocks(self, context: Context) -> Sequence[RowsOrImplicit]:
        return [block for one in self._each(context) for block in one.blocks(context)]

    def tested(self, outputs: Outputs) -> TestedPlaces:
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
    if not callable(function):
        raise ConstraintError(f"each_label takes a function of a label, got {function!r:.60}")
    return EachLabel(function, label_names(labels, "each_label"), label_names((but,), "each_label"))


@dataclass(frozen=True, eq=False, repr=False)
class FewLabels(Constraint):
    """σ Σ_{w,k} max_{t with key w} q(y_t = k), over keys that occur at least ``min_count`` times."""

    key: Key
    min_count: int
    what: ClassVar[str] = "few_labels_per"

    def with_strength(self, strength: Strength) -> Self:
        if strength.kind != Kind.PENALTY:
            raise ConstraintError(
                f"{self.code()} is a penalty and cannot be hard, slack or learned: give {self.what}(key, "
                "strength=σ) a number"
            )
        return replace(self, strength=strength)

    def code(self) -> str:
        often = f", min_count={self.min_count}" if self.min_count > 1 else ""
        return f"{self.what}({self.key.code()}, strength={number(self.strength.amount)}{often})"

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
        raise ConstraintError(f"min_count must be a whole number, 1 or more, got {min_count!r}")
    if not is_number(strength):
        raise ConstraintError(f"the strength of few_labels_per is a number, got {strength!r}")
    chosen = key if isinstance(key, Key) else word.map(key)
    return FewLabels(chosen, min_count, strength=penalty(float(strength), "linf"))


@dataclass(frozen=True, eq=False, repr=False)
class FewArcs(FewLabels):
    """σ Σ_{h,c} max q(arc) over the arcs from a word with key h to a word with key c (Gillenwater et al. 2010)."""

    what: ClassVar[str] = "few_arcs_per"

    def statement(self) -> str:
        return f"arcs join few pairs of {self.key.english()}"

    def describe(self) -> str:
        text = self.statement()
        return f"{text[0].upper()}{text[1:]}, with a penalty of {self.strength.amount:g} per pair (L1/L∞)."

    def blocks(self, context: Context) -> Sequence[Sparsity]:
        codes, strings = self.key.types(context)
        head, child = context.parts.arc_words()
        arcs = np.flatnonzero(head >= 0)
        keys, number = np.unique(codes[head[arcs]] * len(strings) + codes[child[arcs]], return_inverse=True)
        return [Sparsity(self.name, arcs, 1, number.astype(np.int64), len(keys), self.strength.amount)]


def few_arcs_per(key: Key, *, strength: float) -> FewArcs:
    """Posterior sparsity of grammars: arcs join few pairs of tags (Gillenwater et al. 2010).

    Parameters
    ----------
    key : Key
        Column whose values at head and child are the pair, such as ``column("upos")``. Arcs from the root do not count.
    strength : float
        Penalty σ for each pair that an arc joins.

    Returns
    -------
    FewArcs
        A constraint.

    Examples
    --------
    >>> from trellis.constraints import column
    >>> few_arcs_per(column("upos"), strength=100).describe()
    'Arcs join few pairs of upos, with a penalty of 100 per pair (L1/L∞).'
    """
    if not isinstance(key, Key):
        raise ConstraintError(f"few_arcs_per takes word or column(name), got {key!r}")
    if not is_number(strength):
        raise ConstraintError(f"the strength of few_arcs_per is a number, got {strength!r}")
    return FewArcs(key, 1, strength=penalty(float(strength), "linf"))
