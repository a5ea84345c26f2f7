"""LabelPairs: a second-order chain, as a chain whose labels are pairs of labels.

    y'_t = (y_{t−1}, y_t),  written "A>B", and ">B" at a first token

A weight of a pair and a feature is one of two labels in a row, and a transition between pairs one of three. Hard rules
let a pair follow only those that end where it begins (a chain over pairs has K² labels and so K⁴ transitions; give the
label lists of the training data to keep to pairs that occur).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from trellis.constraints.condition import position
from trellis.constraints.constraint import Constraint
from trellis.constraints.labels import label, previous
from trellis.constraints.rule import Rule
from trellis.errors import DataError, check_name

MARK = ">"


class LabelPairs:
    """Pairs of labels in a row, as labels.

    Parameters
    ----------
    labels : list of str
        Names of the single labels.
    seen : list of label lists or None, default=None
        Keep to pairs that occur here. By default, all pairs are allowed.

    Attributes
    ----------
    names : list of str
        Names of the pairs, for ``CRF(pairs.names)`` or ``HMM(pairs.names)``.
    rules : list of Rule
        Hard constraints: each pair begins with the label in which the one before ends.

    Examples
    --------
    >>> pairs = LabelPairs(["D", "N"])
    >>> pairs.names
    ['>D', '>N', 'D>D', 'D>N', 'N>D', 'N>N']
    >>> pairs.encode([["D", "N", "N"]])
    [['>D', 'D>N', 'N>N']]
    >>> pairs.decode([[">D", "D>N", "N>N"]])
    [['D', 'N', 'N']]
    >>> pairs.of("N"), pairs.of("N", before="D")
    (('>N', 'D>N', 'N>N'), ('D>N',))
    """

    def __init__(self, labels: Sequence[str], seen: Iterable[Sequence[str]] | None = None) -> None:
        self.labels = list(labels)
        for name in self.labels:
            if MARK in name:
                raise DataError(f"the label {name!r} has a {MARK!r}, which stands between the two labels of a pair")
        self.names = [f"{a}{MARK}{b}" for a in ("", *self.labels) for b in self.labels]
        if seen is not None:
            found = {pair for pairs in self.encode(seen) for pair in pairs}
            self.names = [name for name in self.names if name in found]
            if not found:
                raise DataError("there are no labels in the data, so there are no pairs of them")

    @property
    def rules(self) -> list[Constraint | Rule]:
        """The hard constraints of the chain."""
        first = label(*self.of(before=""))
        made = [position.first.implies(first), (~position.first).implies(~first)]
        for name in self.labels:
            own = self.of(before=name)
            if own:
                made.append(label(*own).implies(previous(*self.of(name))))
        return [rule.named(f"pairs chain, {number}") for number, rule in enumerate(made)]

    def of(self, *labels: str, before: str | None = None) -> tuple[str, ...]:
        """Pairs that end in one of these labels (by default, in any), after ``before`` where it is given.

        ``count(*pairs.of("V"))`` counts the label V; ``before=""`` are the pairs of first tokens.
        """
        for name in (*labels, *(() if before in (None, "") else (before,))):
            check_name("label", name, self.labels)
        chosen = labels or tuple(self.labels)
        return tuple(
            name for name in self.names
            if name.partition(MARK)[2] in chosen and before in (None, name.partition(MARK)[0])
        )  # fmt: skip

    def encode(self, y: Iterable[Sequence[str]]) -> list[list[str]]:
        """Label lists as lists of pairs."""
        made = []
        for tags in map(list, y):
            for name in tags:
                check_name("label", name, self.labels)
            made.append([f"{a}{MARK}{b}" for a, b in zip(["", *tags], tags, strict=False)])
        return made

    def decode(self, y: Iterable[Sequence[str]]) -> list[list[str]]:
        """Lists of pairs as label lists."""
        return [[name.partition(MARK)[2] for name in pairs] for pairs in y]
