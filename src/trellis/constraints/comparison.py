"""Counts compared with numbers or with other counts:  low ≤ left ≤ high, or left = value, in every unit of a scope."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.amounts import is_number, is_whole
from trellis.constraints.condition import Key
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowBlock
from trellis.constraints.count import count
from trellis.constraints.earlier import earlier_blocks, earlier_of
from trellis.constraints.linear_count import Count, as_count
from trellis.constraints.reduction import Outputs, TestedPlaces, merged
from trellis.constraints.relations import WITHIN
from trellis.constraints.rule import Always, Implies, Rule
from trellis.data.corpus import corpus_of
from trellis.data.tokens import as_documents
from trellis.errors import ConstraintError
from trellis.structures.chain_parts import parts_of_labels


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Constraint):
    """low ≤ left ≤ high; where ``equality``, low is high and left equals it.

    rule : the token rule it stands for, where it says that a rule holds at every token
    """

    left: Count
    low: Count | None
    high: Count | None
    equality: bool = False
    rule: Rule | None = None

    def __post_init__(self) -> None:
        for side in (self.low, self.high):
            if side is not None:
                _ = self.left - side  # scopes must agree: say so now, not when a batch comes
        low, high = self.low, self.high
        if low is not None and high is not None and not low.terms and not high.terms and low.constant > high.constant:
            raise ConstraintError(
                f"{self.left.code()} cannot lie between {low.constant:g} and {high.constant:g}: the first is larger"
            )

    @property
    def ties_instances(self) -> bool:
        scopes = [self._difference(side).scope for side in (self.low, self.high) if side is not None]
        return any(isinstance(scope, Key) or scope == "corpus" for scope in scopes)

    def code(self) -> str:
        if self.rule is not None:
            return self.rule.code()
        left = self.left.code()
        if self.equality and self.high is not None:
            return f"{left} == {self.high.code()}"
        if self.low is not None and self.high is not None:
            return f"{left}.between({self.low.code()}, {self.high.code()})"
        if self.low is not None:
            return f"{left} >= {self.low.code()}"
        return f"{left} <= {self.high.code() if self.high is not None else ''}"

    def statement(self) -> str:
        if self.rule is not None:
            return f"{self.rule.everywhere()}, {self.rule.english()}"
        scope = self._difference(self.low if self.high is None else self.high).where()
        return f"{scope} {self.left.english()} is {self._bounds()}"

    def _bounds(self) -> str:
        if self.equality and self.high is not None:
            return f"exactly {self.high.english()}" if not self.high.terms else f"equal to {self.high.english()}"
        if self.low is not None and self.high is not None:
            return f"between {self.low.english()} and {self.high.english()}"
        if self.low is not None:
            return f"at least {self.low.english()}"
        return f"at most {self.high.english() if self.high is not None else ''}"

    def _difference(self, side: Count | None) -> Count:
        return self.left if side is None else self.left - side

    def blocks(self, context: Context) -> list[RowBlock]:
        if self.rule is not None and context.parts.has_variables:
            from trellis.constraints.relation_rows import rule_blocks

            return rule_blocks(self.rule, context)
        condition = None if self.rule is None else earlier_of(self.rule)
        if self.rule is not None and condition is not None:
            return earlier_blocks(self.rule, condition, context)
        sides = [(self.high, +1)] if self.high is not None else []
        if self.low is not None and not self.equality:
            sides.append((self.low, -1))
        return [self._block(context, side, sign) for side, sign in sides]

    def tested(self, outputs: Outputs) -> TestedPlaces:
        context = outputs.context
        if self.rule is not None and earlier_of(self.rule) is not None:
            when = outputs.holds(self.rule.parts[0] if isinstance(self.rule, Implies) else Always())
            broken = ~outputs.holds(self.rule)
            return TestedPlaces(when.astype(float), broken.astype(float), context.instance, np.arange(context.n_slots))
        found = merged([outputs.test(block) for block in self.blocks(context)])
        if not isinstance(self.rule, Implies) or self.rule.parts[0].observed or context.parts.has_variables:
            return found
        return found.at(outputs.holds(self.rule.parts[0]))

    def _block(self, context: Context, side: Count, sign: int) -> RowBlock:
        """left − side ≤ 0, times sign; the number in ``side`` becomes the bound."""
        number = side.constant
        linear = self._difference(replace(side, constant=0.0)).linear(context)
        # a share of nothing is not bounded: a bound of zero on an empty row always holds
        bound = np.where(linear.defined, sign * (number - linear.constant), 0.0)
        keep = linear.defined[linear.row]
        # messages describe a comparison of two counts as their difference
        subject = self.left.english() if not side.terms else f"{self.left.english()} minus {side.english()}"
        return RowBlock(
            row=linear.row[keep],
            part=linear.part[keep],
            coefficient=sign * linear.coefficient[keep],
            bound=bound,
            equality=self.equality,
            instance=linear.units.instance,
            sign=sign,
            offset=sign * linear.constant,
            subject=subject,
            where=linear.units.where,
            slot=linear.units.slot,
        )

    def _single(self) -> Rule | None:
        """The rule whose tokens are counted once each in every sentence, where that is all there is."""
        plain = self.left.scope in (None, "instance") and self.left.constant == 0 and len(self.left.terms) == 1
        if not plain or self.left.terms[0].coefficient != 1 or self.left.terms[0].over is not None:
            return None
        return self.left.terms[0].rule

    def existing(self) -> Rule | None:
        """A, where it says exists(A): at least one token with A in every sentence."""
        one = self.low is not None and not self.low.terms and self.low.constant == 1 and self.high is None
        return self._single() if one and self.rule is None else None

    def absent(self) -> Rule | None:
        """A, where it says ~exists(A): no token with A."""
        none = self.high is not None and not self.high.terms and self.high.constant == 0
        return self._single() if none and (self.low is None or self.equality) and self.rule is None else None

    def __or__(self, other: Any) -> Comparison:
        mine, theirs = self.existing(), other.existing() if isinstance(other, Comparison) else None
        if mine is None or theirs is None:
            raise ConstraintError(
                f"({self.code()}) | ({other!r}) has no linear form; supported are exists(A) | exists(B), which is "
                "exists(A | B), and implications exists(A).implies(...)"
            )
        return exists(mine | theirs)

    def __and__(self, other: Any) -> Any:
        from trellis.constraints.implication import Conjunction, premises_of

        statements = [one is not None for one in (self.existing(), self.absent())]
        if not any(statements) or not isinstance(other, Comparison | Conjunction):
            return super().__and__(other)
        return Conjunction((*premises_of(self), *premises_of(other)))

    def __invert__(self) -> Comparison:
        present, absent = self.existing(), self.absent()
        if present is not None:
            return at_most(0, present)
        if absent is not None:
            return exists(absent)
        raise ConstraintError(f"the negation of {self.code()} has no linear form; supported is ~exists(A)")

    def implies(self, other: Any) -> Constraint:
        """Where this holds of a sentence, ``other`` holds of it: this must be exists(A) or ~exists(A)."""
        from trellis.constraints.implication import implication

        return implication(self, other)


def compare(left: Count, sign: str, right: Count) -> Comparison:
    """left <= right, left >= right or left == right."""
    if sign == "==":
        return Comparison(left, right, right, equality=True)
    return Comparison(left, None, right) if sign == "<=" else Comparison(left, right, None)


def band(left: Count, low: Any, high: Any) -> Comparison:
    """low ≤ left ≤ high."""
    return Comparison(left, as_count(low, left), as_count(high, left))


def holds_everywhere(rule: Rule) -> Comparison:
    """No token violates the rule; a violation is measured by the probability of violating it, token by token."""
    return Comparison(count(where=~rule).per("token"), None, Count((), 0.0), rule=rule)


def _atom(atom: Any, n: Any, what: str) -> Count:
    if not is_whole(n) or n < 0:
        raise ConstraintError(f"{what} takes a whole number that is not negative, got {n!r}")
    if isinstance(atom, str):
        return count(atom)
    if isinstance(atom, Rule):
        return count(where=atom)
    raise ConstraintError(f"{what} takes a rule such as label('A') or the name of a label, got {atom!r}")


def at_least(n: int, atom: Rule | str) -> Comparison:
    """In every sentence, the rule holds at n tokens or more.

    Parameters
    ----------
    n : int
        Number of tokens.
    atom : Rule or str
        Rule, or a label.

    Returns
    -------
    Comparison
        A constraint.

    Examples
    --------
    >>> at_least(2, "NOUN").describe()
    'In every sentence the expected count of NOUN is at least 2, as a hard constraint.'
    """
    return _atom(atom, n, "at_least") >= n


def at_most(n: int, atom: Rule | str) -> Comparison:
    """In every sentence, the rule holds at n tokens or fewer.

    Parameters
    ----------
    n : int
        Number of tokens.
    atom : Rule or str
        Rule, or a label.

    Returns
    -------
    Comparison
        A constraint.

    Examples
    --------
    >>> at_most(2, "NOUN").describe()
    'In every sentence the expected count of NOUN is at most 2, as a hard constraint.'
    """
    return _atom(atom, n, "at_most") <= n


def exactly(n: int, atom: Rule | str) -> Comparison:
    """In every sentence, the rule holds at exactly n tokens.

    Parameters
    ----------
    n : int
        Number of tokens.
    atom : Rule or str
        Rule, or a label.

    Returns
    -------
    Comparison
        A constraint.

    Examples
    --------
    >>> exactly(1, "VERB").describe()
    'In every sentence the expected count of VERB is exactly 1, as a hard constraint.'
    """
    return _atom(atom, n, "exactly") == n


def exists(atom: Rule | str) -> Comparison:
    """Every sentence contains a token at which the rule holds.

    Parameters
    ----------
    atom : Rule or str
        Rule, or a label.

    Returns
    -------
    Comparison
        Constraint, or the premise of an implication.

    Examples
    --------
    >>> exists("VERB").describe()
    'In every sentence the expected count of VERB is at least 1, as a hard constraint.'
    """
    return at_least(1, atom)


def like_labelled(counted: Count, X: Any, y: Any = None, within: float | None = None) -> Comparison:
    """See :meth:`trellis.constraints.linear_count.Count.like`.

    (1 − w) r · tokens  ≤  E_q[ count ]  ≤  (1 + w) r · tokens

    over the corpus, with r the count per token in labelled texts; of a share itself. By default w = max(0.2, 1/√n) for
    n occurrences: a count of few is known no better (the 0.2 of Samdani et al. 2012, sec. 5.3).
    """
    if within is not None and not (is_number(within) and 0 <= within <= 1):
        raise ConstraintError(f"within must be between 0 and 1, got {within!r:.80}")
    if counted.scope not in (None, "corpus"):
        raise ConstraintError(f"{counted.code()}.like(...) is taken over the corpus: leave out per(...)")
    known = [one for one in as_documents(X, y) if one.labels is not None and None not in one.labels]
    corpus = corpus_of(known)
    parts = parts_of_labels(corpus.batch.offsets, max(len(corpus.label_names), 1))
    names, total = corpus.label_names, counted.per("corpus")
    if not corpus.batch.n_slots:
        raise ConstraintError(f"{counted.code()}.like(...) needs fully labelled texts, but there are none")
    linear = total.linear(Context(corpus.batch, names, parts))
    used = np.isin(linear.part, parts.of(corpus.batch.labels))
    value = float(linear.coefficient @ used + linear.constant[0])
    share = all(term.over is not None for term in counted.terms)
    if not value > 0.0 or not linear.defined[0]:
        raise ConstraintError(f"{counted.english()} is {value:g} in the labelled texts: there is no count to match")
    unit = np.unique(np.abs(linear.coefficient[used]))
    n = float(np.count_nonzero(used)) if share and len(unit) == 1 else value
    width = min(max(WITHIN, n**-0.5), 1.0) if within is None else float(within)
    low, high = (1.0 - width) * value, (1.0 + width) * value
    if share:
        return band(total, low, min(high, 1.0))
    tokens = count().per("corpus") * (1.0 / corpus.batch.n_slots)
    return band(total, tokens * low, tokens * high)
