"""Labels that are given: taken as certain, or trusted up to a share of errors.

given(labels)                        y_t = label_t wherever one is given                  (partial labels)
trusted(labels, at_least=0.9)        Σ_t q(y_t = label_t) ≥ 0.9 · number given            (noisy labels)
trusted(links=..., at_least=0.9)     the given links of a word hold at least so often     (noisy links)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.constraints.amounts import is_number
from trellis.constraints.condition import Key
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import NOT_GIVEN, Context
from trellis.constraints.linear_count import Count, Term
from trellis.constraints.links import TrustedLinks
from trellis.constraints.rule import Observed, Patterns, Rule, Unobserved
from trellis.data.batch import UNKNOWN
from trellis.data.ragged import BoolArray, IntArray
from trellis.errors import ConstraintError, DataError, check_name
from trellis.structures.parts import check_labels


class GivenLabels:
    """Where labels come from: the batch itself, an array, lists of names, or a column of strings."""

    def __init__(self, source: Any) -> None:
        if isinstance(source, str):
            raise ConstraintError(f"labels are given as a column: write column({source!r}) in place of {source!r}")
        self.source = source

    def numbers(self, context: Context) -> IntArray:
        """(n_slots,): the label given for each slot, −1 where none is."""
        source = self.source
        if source is None:
            found: Any = context.batch.labels
        elif isinstance(source, Key):
            codes, strings = source.types(context)
            return np.asarray([self._number(s, context) for s in strings], dtype=np.int64)[codes]
        elif isinstance(source, np.ndarray):
            batch, origin = context.batch, context.batch.origin
            found = source
            if origin is not None and source.shape == (origin.n_slots,):
                found = source[np.arange(batch.n_slots) + np.repeat(origin.starts - batch.offsets[:-1], batch.lengths)]
        else:
            found = self._flatten(source, context)
        return check_labels(found, context.n_slots, context.n_labels, unknown=True).astype(np.int64)

    def _number(self, name: str | None, context: Context) -> int:
        if name is None or (name in NOT_GIVEN and name not in context.labels):
            return UNKNOWN
        check_name("label", name, context.labels)
        return context.labels.number(name)

    def _flatten(self, source: Sequence[Sequence[str | None] | None], context: Context) -> list[int]:
        flat: list[int] = []
        here = zip(context.given_here(source, "labels"), context.batch.lengths.tolist(), strict=True)
        for i, (labels, n) in enumerate(here):
            if labels is None:
                flat.extend([UNKNOWN] * n)
                continue
            if len(labels) != n:
                raise DataError(f"instance {context.batch.first + i} has {n} tokens but {len(labels)} given labels")
            flat.extend(self._number(name, context) for name in labels)
        return flat

    def english(self) -> str:
        return f"the {self.source.english()} column" if isinstance(self.source, Key) else "the data"

    def code(self) -> str:
        if self.source is None:
            return ""
        return self.source.code() if isinstance(self.source, Key) else "labels"


class IsGiven(Observed):
    """A label is given for the token."""

    def __init__(self, given: GivenLabels) -> None:
        self.given = given

    def holds(self, context: Context) -> BoolArray:
        return np.asarray(self.given.numbers(context) != UNKNOWN)

    def code(self) -> str:
        return f"is_given({self.given.code()})"

    def english(self, *, negated: bool = False) -> str:
        return f"{'no' if negated else 'a'} label is given by {self.given.english()}"


class IsAsGiven(Unobserved):
    """The label is the one given; false where none is."""

    is_leaf = True

    def __init__(self, given: GivenLabels) -> None:
        self.given = given

    def codes(self, context: Context) -> IntArray:
        return self.given.numbers(context) + 1

    def table(self, patterns: Patterns) -> BoolArray:
        labels = np.arange(1, patterns.context.n_labels + 1)
        return np.asarray(patterns.of(self)[:, None, None] == labels)

    def code(self) -> str:
        return f"as_given({self.given.code()})"

    def english(self, *, negated: bool = False) -> str:
        return f"the label is {'not ' if negated else ''}the one given"


def given(labels: Any = None) -> Rule:
    """Tokens have the labels that are given for them.

    Parameters
    ----------
    labels : array, list, Key or None, default=None
        An array of shape (n_slots,) with −1 for unknown labels, one list of names (or None) per sentence, or a column.
        By default, the labels of the data.

    Returns
    -------
    Rule
        Tokens without a given label are unrestricted.
    """
    source = GivenLabels(labels)
    return IsGiven(source).implies(IsAsGiven(source))


def trusted(labels: Any = None, *, at_least: float, per: str | Key = "corpus", links: Any = None) -> Constraint:
    """At least a given proportion of the given labels is correct.

    Use it for labels of rules, other annotators or projection whose accuracy is roughly known.

    Parameters
    ----------
    labels : array, list, Key or None, default=None
        Labels as in :func:`given`: an array with −1 for unknown labels, one list of names per sentence, or a column.
    at_least : float
        Minimum proportion of correct labels.
    per : str or Key, default="corpus"
        Scope: "corpus" or "instance".
    links : list or None, default=None
        In place of labels, given links (i, j) of every sentence pair. They hold in expectation in both directions;
        combine this with a ``penalty``.

    Returns
    -------
    Constraint
        A constraint.
    """
    if not is_number(at_least) or not 0 <= at_least <= 1:
        raise ConstraintError(f"at_least is the share of given labels that are correct, from 0 to 1, got {at_least!r}")
    if links is not None:
        return TrustedLinks(links, float(at_least))
    source = GivenLabels(labels)
    term = Term(
        1.0,
        IsAsGiven(source),
        IsGiven(source),
        f"share(as_given({source.code()}))",
        f"the expected share of right labels among those given by {source.english()}",
    )
    return Count((term,)).per(per) >= float(at_least)
