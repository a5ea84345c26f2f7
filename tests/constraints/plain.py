"""Constraints as plain Python: every rule a function of (sentence, labels, t), every count a loop.

Hypothesis draws an expression of the library together with such a function, written from its meaning and not from its
compilation, so that the two can be compared on every output of a small batch.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from trellis import constraints as tc
from trellis.data.batch import Batch, Column
from trellis.data.vocabulary import Vocabulary
from trellis.structures import CategoricalParts, ChainParts, Parts

LABELS = ("A", "B", "C")
WORDS = ("a", "bb", ",")
Sentence = tuple[tuple[str, str], ...]
"""(word, part of speech) of every token."""

TokenTest = Callable[[Sentence, tuple[str, ...], int], bool]


def compile_over_chains(constraints: Any, batch: Batch, labels: Vocabulary) -> tc.Rows:
    """Rows over the label sequences of a batch."""
    return tc.compile_constraints(constraints, batch, labels, ChainParts(batch.offsets, len(labels)))


@dataclass(frozen=True)
class Case:
    """A batch in both forms."""

    sentences: tuple[Sentence, ...]
    labels: tuple[str, ...]
    given: tuple[tuple[str | None, ...], ...]

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.labels, kind="label")

    @property
    def batch(self) -> Batch:
        made = Batch.from_sentences(
            [[word for word, _ in sentence] for sentence in self.sentences],
            self.given,
            label_names=self.vocabulary,
        )
        pos = Column.of([pos for sentence in self.sentences for _, pos in sentence], kind="pos")
        return Batch(made.offsets, made.labels, made.weights, {**made.columns, "pos": pos})

    def compile(self, *constraints: Any, categorical: bool = False) -> tc.Rows:
        """Rows over the label sequences of the batch, or over its labels where every instance has one slot."""
        k = len(self.labels)
        parts: Parts = CategoricalParts(len(self.batch), k) if categorical else ChainParts(self.batch.offsets, k)
        return tc.compile_constraints(list(constraints), self.batch, self.vocabulary, parts)

    def outputs(self) -> Iterator[tuple[tuple[str, ...], ...]]:
        """Every labelling of the whole batch."""
        each = [list(itertools.product(self.labels, repeat=len(sentence))) for sentence in self.sentences]
        return itertools.product(*each)

    def encode(self, output: tuple[tuple[str, ...], ...]) -> np.ndarray:
        return self.vocabulary.encode([label for labels in output for label in labels])

    def tokens(self) -> list[tuple[int, int]]:
        return [(i, t) for i, sentence in enumerate(self.sentences) for t in range(len(sentence))]


@st.composite
def cases(draw: st.DrawFn, *, max_slots: int = 5, one_slot: bool = False) -> Case:
    labels = LABELS[: draw(st.integers(1 if not one_slot else 2, 3))]
    if one_slot:
        lengths = [1] * draw(st.integers(1, max_slots))
    else:
        lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(lambda x: sum(x) <= max_slots))
    token = st.tuples(st.sampled_from(WORDS), st.sampled_from("xy"))
    sentences = tuple(tuple(draw(st.lists(token, min_size=n, max_size=n))) for n in lengths)
    known = st.sampled_from([None, None, *labels])
    given = tuple(tuple(draw(st.lists(known, min_size=n, max_size=n))) for n in lengths)
    return Case(sentences, labels, given)


@dataclass(frozen=True)
class DrawnRule:
    rule: tc.Rule
    holds: TokenTest


def _conditions(draw: st.DrawFn) -> DrawnRule:
    kind = draw(st.sampled_from(["==", "!=", "isin", "matches", "case", "pos", "first", "last", "<", ">=", "from_end"]))
    w = draw(st.sampled_from([*WORDS, "zz"]))
    n = draw(st.integers(0, 3))
    made: dict[str, tuple[Any, TokenTest]] = {
        "==": (tc.word == w, lambda s, y, t: s[t][0] == w),
        "!=": (tc.word != w, lambda s, y, t: s[t][0] != w),
        "isin": (tc.word.isin(w, "a"), lambda s, y, t: s[t][0] in (w, "a")),
        "matches": (tc.word.matches(r"^\W"), lambda s, y, t: re.search(r"^\W", s[t][0]) is not None),
        "case": (tc.word.isin("BB", ignore_case=True), lambda s, y, t: s[t][0] == "bb"),
        "pos": (tc.column("pos") == "x", lambda s, y, t: s[t][1] == "x"),
        "first": (tc.position.first, lambda s, y, t: t == 0),
        "last": (tc.position.last, lambda s, y, t: t == len(s) - 1),
        "<": (tc.position < n, lambda s, y, t: t < n),
        ">=": (tc.position >= n, lambda s, y, t: t >= n),
        "from_end": (tc.position.from_end == n, lambda s, y, t: len(s) - 1 - t == n),
    }
    rule, holds = made[kind]
    shift = draw(st.sampled_from([0, 0, 0, -1, 1]))
    if shift == -1:
        return DrawnRule(tc.preceding(rule), lambda s, y, t: t > 0 and holds(s, y, t - 1))
    if shift == 1:
        return DrawnRule(tc.following(rule), lambda s, y, t: t + 1 < len(s) and holds(s, y, t + 1))
    return DrawnRule(rule, holds)


def _label_atoms(draw: st.DrawFn, case: Case) -> DrawnRule:
    names = draw(st.lists(st.sampled_from(case.labels), min_size=1, max_size=2, unique=True))
    kind = draw(st.sampled_from(["label", "previous", "changed", "dictionary"]))
    if kind == "label":
        return DrawnRule(tc.label(*names), lambda s, y, t: y[t] in names)
    if kind == "previous":
        return DrawnRule(tc.previous(*names), lambda s, y, t: t > 0 and y[t - 1] in names)
    if kind == "changed":
        return DrawnRule(tc.changed, lambda s, y, t: t > 0 and y[t - 1] != y[t])
    listed = {"a": names, ",": [case.labels[0]]}
    return DrawnRule(tc.dictionary(listed), lambda s, y, t: s[t][0] not in listed or y[t] in listed[s[t][0]])


@st.composite
def rules(draw: st.DrawFn, case: Case, *, depth: int = 2, observed: bool = False) -> DrawnRule:
    kind = draw(st.sampled_from(["atom", "atom", "not", "and", "or", "implies"])) if depth else "atom"
    if kind == "atom":
        return _conditions(draw) if observed or draw(st.integers(0, 2)) == 0 else _label_atoms(draw, case)
    one = draw(rules(case, depth=depth - 1, observed=observed))
    if kind == "not":
        return DrawnRule(~one.rule, lambda s, y, t: not one.holds(s, y, t))
    two = draw(rules(case, depth=depth - 1, observed=observed))
    if kind == "and":
        return DrawnRule(one.rule & two.rule, lambda s, y, t: one.holds(s, y, t) and two.holds(s, y, t))
    if kind == "or":
        return DrawnRule(one.rule | two.rule, lambda s, y, t: one.holds(s, y, t) or two.holds(s, y, t))
    return DrawnRule(one.rule.implies(two.rule), lambda s, y, t: not one.holds(s, y, t) or two.holds(s, y, t))


@dataclass(frozen=True)
class DrawnCount:
    """A count, and what each token adds to it."""

    count: tc.Count
    adds: Callable[[Sentence, tuple[str, ...], int], float]
    constant: float = 0.0


def _plain_counts(draw: st.DrawFn, case: Case) -> DrawnCount:
    names = draw(st.lists(st.sampled_from(case.labels), min_size=1, max_size=2, unique=True))
    kind = draw(st.sampled_from(["count", "all", "where", "rule", "starts", "changes", "from_to", "changes_where"]))
    where = draw(rules(case, depth=1, observed=True))
    other = draw(rules(case))
    a, b = draw(st.sampled_from(case.labels)), draw(st.sampled_from(case.labels))
    made: dict[str, tuple[tc.Count, Callable[..., float]]] = {
        "count": (tc.count(*names), lambda s, y, t: y[t] in names),
        "all": (tc.count(), lambda s, y, t: 1),
        "where": (tc.count(names, where=where.rule), lambda s, y, t: y[t] in names and where.holds(s, y, t)),
        "rule": (tc.count(other.rule), lambda s, y, t: other.holds(s, y, t)),
        "starts": (tc.starts(*names), lambda s, y, t: y[t] in names and (t == 0 or y[t - 1] != y[t])),
        "changes": (tc.transitions(), lambda s, y, t: t > 0 and y[t - 1] != y[t]),
        "from_to": (tc.transitions(from_=a, to=b), lambda s, y, t: t > 0 and a != b and (y[t - 1], y[t]) == (a, b)),
        "changes_where": (
            tc.transitions(where=where.rule),
            lambda s, y, t: t > 0 and y[t - 1] != y[t] and where.holds(s, y, t - 1),
        ),
    }
    return DrawnCount(*made[kind])


@st.composite
def counts(draw: st.DrawFn, case: Case) -> DrawnCount:
    """A linear combination of counts and a number."""
    coefficients = [-2, -1, 0.5, 1, 1, 2, 3]
    total = _plain_counts(draw, case)
    for _ in range(draw(st.integers(0, 2))):
        more, c = _plain_counts(draw, case), draw(st.sampled_from(coefficients))
        total = _joined(total, more, c, draw(st.booleans()))
    if draw(st.booleans()):
        n = draw(st.integers(-1, 1))
        total = DrawnCount(n - total.count, lambda s, y, t, f=total.adds: -f(s, y, t), n - total.constant)
    return total


def _joined(one: DrawnCount, two: DrawnCount, c: float, minus: bool) -> DrawnCount:
    if minus:
        return DrawnCount(one.count - c * two.count, lambda s, y, t: one.adds(s, y, t) - c * two.adds(s, y, t))
    return DrawnCount(one.count + two.count * c, lambda s, y, t: one.adds(s, y, t) + c * two.adds(s, y, t))


SCOPES: dict[str, tuple[Any, Callable[[Case], list[list[tuple[int, int]]]]]] = {
    "default": (None, lambda case: [[(i, t) for t in range(len(s))] for i, s in enumerate(case.sentences)]),
    "instance": ("instance", lambda case: [[(i, t) for t in range(len(s))] for i, s in enumerate(case.sentences)]),
    "token": ("token", lambda case: [[token] for token in case.tokens()]),
    "corpus": ("corpus", lambda case: [case.tokens()]),
    "word": (tc.word, lambda case: _by(case, lambda w, p: w)),
    "pos": (tc.column("pos"), lambda case: _by(case, lambda w, p: p)),
    "function": (lambda w: str(len(w)), lambda case: _by(case, lambda w, p: len(w))),
}
"""name -> what ``per`` is given, and the tokens of each unit."""


def _by(case: Case, key: Callable[[str, str], Any]) -> list[list[tuple[int, int]]]:
    units: dict[Any, list[tuple[int, int]]] = {}
    for i, t in case.tokens():
        units.setdefault(key(*case.sentences[i][t]), []).append((i, t))
    return list(units.values())


Sides = list[tuple[float, float]]


@dataclass(frozen=True)
class DrawnConstraint:
    """A constraint, and for each of its units by how much an output is (above, below) what is asked."""

    constraint: Any
    sides: Callable[[tuple[tuple[str, ...], ...]], Sides]

    def violations(self, output: tuple[tuple[str, ...], ...]) -> list[float]:
        return [max(above, below, 0.0) for above, below in self.sides(output)]


@st.composite
def comparisons(draw: st.DrawFn, case: Case, *, scopes: tuple[str, ...] = tuple(SCOPES)) -> DrawnConstraint:
    drawn = draw(counts(case))
    per, units_of = SCOPES[draw(st.sampled_from(scopes))]
    units = units_of(case)
    count = drawn.count if per is None else drawn.count.per(per)
    sign = draw(st.sampled_from(["<=", ">=", "==", "between", "other"]))
    n = draw(st.sampled_from([-1, 0, 0, 0.5, 1, 1, 2, 3]))
    other = draw(counts(case))
    free = -math.inf

    def values(output: tuple[tuple[str, ...], ...], of: DrawnCount) -> list[float]:
        return [of.constant + sum(of.adds(case.sentences[i], output[i], t) for i, t in unit) for unit in units]

    if sign == "<=":
        return DrawnConstraint(count <= n, lambda y: [(v - n, free) for v in values(y, drawn)])
    if sign == ">=":
        return DrawnConstraint(count >= n, lambda y: [(free, n - v) for v in values(y, drawn)])
    if sign == "==":
        return DrawnConstraint(count == n, lambda y: [(v - n, n - v) for v in values(y, drawn)])
    if sign == "between":
        return DrawnConstraint(count.between(n, n + 1), lambda y: [(v - n - 1, n - v) for v in values(y, drawn)])
    return DrawnConstraint(
        count <= 0.5 * other.count,
        lambda y: [(v - 0.5 * w, free) for v, w in zip(values(y, drawn), values(y, other), strict=True)],
    )


@st.composite
def token_rules(draw: st.DrawFn, case: Case) -> DrawnConstraint:
    drawn = draw(rules(case))
    return DrawnConstraint(
        drawn.rule.constraint(),
        lambda y: [(float(not drawn.holds(case.sentences[i], y[i], t)), -math.inf) for i, t in case.tokens()],
    )


@st.composite
def any_constraints(draw: st.DrawFn, case: Case) -> DrawnConstraint:
    return draw(st.one_of(comparisons(case), token_rules(case)))
