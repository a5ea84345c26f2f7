"""Rules about entities and the relations between them: variables of two kinds in one instance.

relation("Located_In").implies(second(entity("Loc")))      of every two mentions                (Roth & Yih 2004)
word.isin("Paris", "Rome").implies(entity("Loc"))          of every mention; its text is its word
relations("Kill").per("corpus") <= 30                      how many there are; with share=True, of all pairs
counts_like(labelled, within=0.2)                          their shares as in labelled data, ± 20 %
one_relation_per_pair()                                    in one direction or in the other    (Samdani et al. 2012)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.amounts import is_number, number
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowBlock
from trellis.constraints.labels import some_names
from trellis.constraints.linear_count import Count, Term
from trellis.constraints.relation_rows import ENTITY, RELATION, Among, IsPair, RowsOfInstances, opposite_pairs
from trellis.data.document import check_documents
from trellis.errors import ConstraintError

NONE = "None"
"""The label of two mentions without a relation."""


def entity(*names: str | Iterable[str]) -> Among:
    """Condition: a mention has one of these types.

    Parameters
    ----------
    *names : str or list of str
        Entity types.

    Returns
    -------
    Among
        Condition, to be combined with ``implies``.
    """
    return Among(ENTITY, some_names(names, "entity"))


def relation(*names: str | Iterable[str]) -> Among:
    """Condition: two mentions are in one of these relations.

    Parameters
    ----------
    *names : str or list of str
        Relations.

    Returns
    -------
    Among
        Condition, to be combined with ``implies``.
    """
    return Among(RELATION, some_names(names, "relation"))


def first(of: Any) -> Among:
    """Apply a condition to the first mention of a relation.

    Parameters
    ----------
    of : Among
        Condition such as ``entity("Peop")``.

    Returns
    -------
    Among
        Condition on pairs of mentions.
    """
    return _argument(of, "first")


def second(of: Any) -> Among:
    """Apply a condition to the second mention of a relation.

    Parameters
    ----------
    of : Among
        Condition such as ``entity("Loc")``.

    Returns
    -------
    Among
        Condition on pairs of mentions.
    """
    return _argument(of, "second")


def _argument(of: Any, role: str) -> Among:
    if not isinstance(of, Among) or of.role != ENTITY:
        raise ConstraintError(f"{role}(...) takes a condition on a mention, {role}(entity('Loc')), got {of!r}")
    return Among(role, of.names)


def relations(*names: str | Iterable[str], share: bool = False) -> Count:
    """The number of relations of these types; with ``share``, of all ordered pairs of mentions.

    >>> (relations("Kill").per("corpus") <= 30).describe()
    'Over the corpus the expected number of Kill relations is at most 30, as a hard constraint.'
    """
    chosen = relation(*names)
    listed, what = ", ".join(map(repr, chosen.names)), " or ".join(chosen.names)
    if share:
        phrase = f"the expected share of {what} among all pairs of mentions"
        return Count((Term(1.0, chosen, IsPair(), f"relations({listed}, share=True)", phrase),))
    return Count((Term(1.0, chosen, None, f"relations({listed})", f"the expected number of {what} relations"),))


def entities(*names: str | Iterable[str]) -> Count:
    """The number of mentions of these types."""
    chosen = entity(*names)
    listed = ", ".join(map(repr, chosen.names))
    phrase = f"the expected number of {' or '.join(chosen.names)} mentions"
    return Count((Term(1.0, chosen, None, f"entities({listed})", phrase),))


@dataclass(frozen=True, eq=False, repr=False)
class CountsLike(Constraint):
    """Σ over pairs [relation is r] between (1 − within) and (1 + within) times share_r of all pairs, for every r.

    shares : of each relation among the ordered pairs of mentions; None: still to be taken from labelled data
    within : for all relations, or for each by its name; None: 0.2, and where labelled data have a relation n times and
        1 / √n is more, that: a count of few is known no better
    """

    shares: Mapping[str, float] | None
    within: float | Mapping[str, float] | None

    def of(self, labelled: Iterable[Any]) -> CountsLike:
        """The same with shares taken from sentences whose relations are known."""
        count: Counter[str] = Counter()
        pairs = 0
        for sentence in check_documents(labelled):
            if sentence.relations is not None:
                n_spans = len(sentence.spans or ())
                pairs += n_spans * (n_spans - 1)
                count.update(r.label for r in sentence.relations)
        if not pairs:
            raise ConstraintError(f"{self.name!r}: no two mentions are labelled, so there are no counts to match")
        within = self.within
        if within is None:
            within = {name: max(WITHIN, float(n) ** -0.5) for name, n in sorted(count.items())}
        return replace(self, shares={name: count[name] / pairs for name in sorted(count)}, within=within)

    def code(self) -> str:
        own = self.within
        within = "None" if own is None else _listed(own) if isinstance(own, Mapping) else number(own)
        return f"counts_like({'None' if self.shares is None else _listed(self.shares)}, within={within})"

    def statement(self) -> str:
        every = not isinstance(self.within, Mapping)
        listed = ", ".join(
            f"{name} {share:.2%}" + ("" if every else f" ± {self._width(name):.0%}")
            for name, share in (self.shares or {}).items()
        )
        return (
            "over the corpus the expected share of every relation among all pairs of mentions is that in labelled data"
            + (f" ({listed})" if listed else "")
            + (f", give or take {self._width(''):.0%}" if every else "")
        )

    def blocks(self, context: Context) -> list[RowBlock]:
        if self.shares is None:
            raise ConstraintError(f"{self.name!r} takes its counts from labelled data: provide it with .of(labelled)")
        made: list[RowBlock] = []
        for name, share in self.shares.items():
            low, high = share * (1.0 - self._width(name)), share * (1.0 + self._width(name))
            made += relations(name, share=True).per("corpus").between(low, min(high, 1.0)).blocks(context)
        return made

    def _width(self, name: str) -> float:
        if self.within is None:
            return WITHIN
        return self.within.get(name, WITHIN) if isinstance(self.within, Mapping) else self.within


WITHIN = 0.2
"""By what share counts may differ from those of labelled data (Samdani et al. 2012, sec. 5.3)."""


def counts_like(labelled: Any, within: float | Mapping[str, float] | None = None) -> CountsLike:
    """Relations are as frequent as in labelled sentences, within a tolerance.

    Parameters
    ----------
    labelled : list or dict
        Labelled sentences, or the proportion of each relation.
    within : float, dict or None, default=None
        Relative tolerance, for all relations or by name. By default 0.2, or 1 / √n for relations with n < 25
        occurrences.

    Returns
    -------
    CountsLike
        A constraint.

    Examples
    --------
    >>> counts_like({"Kill": 0.01}, within=0.2)
    counts_like({'Kill': 0.01}, within=0.2)
    """
    for one in within.values() if isinstance(within, Mapping) else () if within is None else (within,):
        if not is_number(one) or not 0 <= one <= 1:
            raise ConstraintError(f"within must be between 0 and 1, got {one!r}")
    band = {str(n): float(w) for n, w in within.items()} if isinstance(within, Mapping) else within
    if labelled is None:
        return CountsLike(None, band)
    if isinstance(labelled, Mapping):
        for name, share in labelled.items():
            if not is_number(share) or not 0 <= share <= 1:
                raise ConstraintError(f"the share of {name!r} must lie between 0 and 1, got {share!r}")
        return CountsLike({str(name): float(share) for name, share in labelled.items()}, band)
    return CountsLike(None, band).of(labelled)


def _listed(values: Mapping[str, float]) -> str:
    return f"{{{', '.join(f'{name!r}: {number(value)}' for name, value in values.items())}}}"


@dataclass(frozen=True, eq=False, repr=False)
class OnePerPair(Constraint):
    """[i to j is related] + [j to i is related] ≤ 1 for every two mentions."""

    def code(self) -> str:
        return "one_relation_per_pair()"

    def statement(self) -> str:
        return "two mentions stand in one relation at most, in one direction or in the other"

    def blocks(self, context: Context) -> Sequence[RowBlock]:
        parts = context.parts
        ties, slots = parts.variable_kind(RELATION), parts.variable_slots(RELATION)
        labels = np.flatnonzero(np.array(ties.labels) != NONE)
        made, k = RowsOfInstances(), len(ties.labels)
        start, seen = parts.together(RELATION)
        made.add(start[:, None] + (labels[:, None] * k + labels).reshape(-1), np.ones(len(labels) ** 2))
        made.close(slots[seen[:, 0]], 0.0)
        pair = opposite_pairs(ties.arguments, context.instance[slots])
        pair = pair[~np.isin(pair[:, 0], seen)]
        both = np.concatenate([parts.variable(RELATION, pair[:, [side]], labels) for side in (0, 1)], axis=1)
        made.add(both, np.ones(2 * len(labels)))
        made.close(slots[pair[:, 0]], 1.0)
        return [made.block(context, "the expected number of relations between two mentions")]


def one_relation_per_pair() -> OnePerPair:
    """Two mentions stand in one relation at most, in one direction or in the other."""
    return OnePerPair()
