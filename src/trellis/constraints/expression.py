"""Constraints as text and back: what :meth:`Constraint.code` writes is read here, and nothing else is.

A model file holds its constraints as the expressions one would write, so that a person can read them. Files may come
from untrusted sources, so the text is never evaluated by Python. It is read by this grammar:

    expression  term [ (<= | >= | == | != | < | >) term ]
    term        unary { (| | & | + | - | * | /) unary }           with Python's precedence
    unary       { ~ | - } primary { .NAME [ (arguments) ] }
    primary     NUMBER | STRING | None | True | False | NAME | NAME(arguments) | (expression) | [...] | {...: ...}
    arguments   expressions and name=expression; each_label also takes  lambda L: expression

A NAME is a word of the constraint language. An operator needs a count, rule or condition on one of its sides: numbers,
strings and lists are not operands of one another. Length, depth and number of operations are bounded, so that reading
takes time and memory in proportion to the text.

>>> read_constraint("count('VERB').per('corpus') <= 0.2 * count().per('corpus')")
count('VERB').per('corpus') <= 0.2 * count().per('corpus')
>>> read_constraint("count('a' * 2000000000) >= 1")
Traceback (most recent call last):
    ...
trellis.errors.ConstraintError: not a constraint: "count('a' * 2000000000) >= 1" ('*' between str and int)
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import cache
from types import FunctionType
from typing import Any, NoReturn, TypedDict

from trellis.constraints.amounts import is_number
from trellis.constraints.compilation import named
from trellis.constraints.condition import COMPARE
from trellis.constraints.constraint import Constraint
from trellis.constraints.each_label import EachLabel
from trellis.constraints.labels import WHOLE
from trellis.constraints.linear_count import Count
from trellis.constraints.rule import Always, Rule
from trellis.constraints.strength import Kind, Norm, Strength
from trellis.errors import ConstraintError

LONGEST = 10_000_000
"""Letters of one expression; a dictionary of a million words has as many."""
LONGEST_BODY = 500
"""Letters behind ``lambda L:``, which are read again for every label."""
DEEPEST, OPERATIONS = 50, 2000
"""Brackets within brackets, and rules that are joined by ``|`` or ``&``; operators and calls of one expression."""
LARGEST = 1e15
"""Numbers beyond it (or beyond it below 0) are not counts or shares of anything."""

METHODS = frozenset({"between", "implies", "in_order", "isin", "matches", "per"})
ATTRIBUTES = frozenset({"first", "from_end", "last", "links"})
NAMES = frozenset({
    "arcs", "at_least", "at_most", "backward", "changed", "column", "count", "counts_like", "dictionary", "each",
    "each_label", "earlier", "entities", "entity", "exactly", "exists", "feature", "few_arcs_per", "few_labels_per",
    "first", "following", "forward", "given", "label", "length", "links", "one_relation_per_pair", "ordered",
    "position", "preceding", "previous", "relation", "relations", "root", "second", "share", "shares", "starts",
    "together", "transitions", "trusted", "word",
})  # fmt: skip
LISTS = frozenset({
    "isin", "dictionary", "label", "previous", "earlier", "count", "share", "entity", "relation", "between", "together",
})  # fmt: skip
"""Calls that hold their arguments once; others may copy their condition for each label that is named."""

_BINARY: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "|": (0, operator.or_), "&": (1, operator.and_), "+": (2, operator.add), "-": (2, operator.sub),
    "*": (3, operator.mul), "/": (3, operator.truediv),
}  # fmt: skip
_STRING = r"""'(?:[^'\\\n]++|\\.)*+'|"(?:[^"\\\n]++|\\.)*+\""""
_ITEM = re.compile(rf"\s*({_STRING})\s*,")
_TOKEN = re.compile(
    rf"""\s*(?:
        (?P<string>{_STRING})
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
      | (?P<name>[A-Za-z_]\w*)
      | (?P<sign><=|>=|==|!=|[-<>~|&+*/().,:\[\]{{}}=])
      | (?P<end>\Z)
    )""",
    re.VERBOSE,
)


class Written(TypedDict):
    """A constraint as a file keeps it."""

    code: str
    name: str
    strength: list[float]


def write_constraints(constraints: Sequence[Constraint | Rule], labels: Sequence[str]) -> list[Written]:
    """Constraints as text; those that text cannot hold (a function, a list of labels) are refused by name."""
    made = []
    for one in named(constraints):
        token = WHOLE.set(True)
        why = "functions, lists of given labels and links are not text"
        try:
            code = one.code()
            faithful = _same(one, read_constraint(code), labels)
        except ConstraintError as error:
            faithful, why = False, f"{why} ({error})"
        finally:
            WHOLE.reset(token)
        if not faithful:
            raise ConstraintError(
                f"the constraint {one.name!r} cannot be written to a file: {why}. Save the model alone (model_.save), "
                "or write the rule into a rules file"
            )
        kind, norm, amount = astuple(one.strength)
        made.append(Written(code=code, name=one.name, strength=[int(kind), int(norm), amount]))
    return made


def read_constraints(written: Sequence[Mapping[str, Any]]) -> list[Constraint]:
    """What :func:`write_constraints` wrote."""
    found = []
    for one in written:
        kind, norm, amount = one["strength"]
        made = read_constraint(one["code"]).named(str(one["name"]))
        found.append(made.with_strength(Strength(Kind(int(kind)), Norm(int(norm)), float(amount))))
    return found


def read_constraint(code: Any) -> Constraint:
    """The constraint of an expression."""
    if not isinstance(code, str):
        raise ConstraintError(f"expected an expression, got {type(code).__name__}")
    if len(code) > LONGEST:
        raise ConstraintError(f"an expression has at most {LONGEST} characters, but this one has {len(code)}")
    try:
        found = _Reader(code).whole()
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        raise ConstraintError(f"not a constraint: {code[:80]!r} ({error})") from None
    if isinstance(found, Rule):
        found = found.constraint()
    if not isinstance(found, Constraint):
        raise ConstraintError(f"not a constraint: {code[:80]!r}")
    return found


@cache
def _words() -> dict[str, Any]:
    import trellis.constraints as language

    return {**{name: getattr(language, name) for name in NAMES}, "always": Always()}


class _Reader:
    """Reads one expression from left to right; every method returns the value of what it has read.

    label : what L stands for, inside each_label(lambda L: ...)
    """

    def __init__(self, text: str, label: str | None = None) -> None:
        self.text, self.label = text, label
        self.depth, self.left = 0, OPERATIONS
        self.start = self.end = 0
        self.kind, self.token = "", ""
        self.advance()

    def whole(self) -> Any:
        found = self.expression()
        if self.kind != "end":
            self.fail()
        return found

    # tokens

    def advance(self) -> str:
        """Go on to the next token; gives the one that is left behind."""
        before = self.token
        found = _TOKEN.match(self.text, self.end)
        if found is None:
            raise ValueError(f"cannot read {self.text[self.end : self.end + 20]!r}")
        self.kind = found.lastgroup or ""
        self.start, self.end = found.span(self.kind)
        self.token = found[self.kind]
        return before

    def at(self, sign: str) -> bool:
        return self.kind == "sign" and self.token == sign

    def take(self, sign: str) -> bool:
        """Whether the token is this sign, which is then passed."""
        found = self.at(sign)
        if found:
            self.advance()
        return found

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            self.fail(f"expected {sign!r}")

    def fail(self, expected: str = "unexpected") -> NoReturn:
        raise ValueError(f"{expected} at {self.text[self.start : self.start + 20]!r}")

    # the grammar

    def expression(self) -> Any:
        left = self.term(0)
        if self.kind == "sign" and self.token in COMPARE:
            sign = self.advance()
            left = self.applied(sign, COMPARE[sign], left, self.term(0))
        return left

    def term(self, lowest: int) -> Any:
        left, joined = self.unary(), 0
        while self.kind == "sign" and self.token in _BINARY and _BINARY[self.token][0] >= lowest:
            sign = self.advance()
            level, function = _BINARY[sign]
            joined += sign in "|&"
            if joined > DEEPEST:
                raise ValueError(f"more than {DEEPEST} rules joined by {sign}")
            left = self.applied(sign, function, left, self.term(level + 1))
        return left

    def unary(self) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise ValueError(f"more than {DEEPEST} brackets within brackets")
        if self.take("-"):
            value = self.unary()
            found = -value if is_number(value) else self.applied("-", lambda a, _: -a, value, 0)
        elif self.take("~"):
            found = self.applied("~", lambda a, _: ~a, self.unary(), 0)
        else:
            found = self.primary()
        self.depth -= 1
        return found

    def applied(self, sign: str, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        """An operator, one of whose sides at least is a word of the language."""
        self.count_operation()
        known = [_is_word(side) for side in (left, right)]
        plain = [is_number(side) or isinstance(side, str) for side in (left, right)]
        if not any(known) or not all(map(operator.or_, known, plain)):
            raise TypeError(f"{sign!r} between {type(left).__name__} and {type(right).__name__}")
        return _finite(function(left, right))

    def count_operation(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ValueError(f"more than {OPERATIONS} operators and calls")

    def primary(self) -> Any:
        readers: dict[str, Callable[[str], Any]] = {"string": _string, "number": _number, "name": self.word}
        found = readers[self.kind](self.advance()) if self.kind in readers else self.bracketed()
        while self.take("."):
            name = self.advance() if self.kind == "name" else self.fail("expected a name")
            if not _is_word(found) or not (name in ATTRIBUTES or (name in METHODS and self.at("("))):
                raise TypeError(f"{type(found).__name__} has no {name!r} here")
            found = getattr(found, name)
            if self.at("("):
                found = self.called(name, found)
        return found

    def word(self, name: str) -> Any:
        if name in ("None", "True", "False"):
            return {"None": None, "True": True, "False": False}[name]
        if name == "L" and self.label is not None:
            return self.label
        if name not in _words():
            raise ValueError(f"{name!r} is not a word of the constraint language")
        found = _words()[name]
        if self.at("("):
            return self.called(name, found)
        if isinstance(found, FunctionType):
            self.fail(f"expected {name}(...)")
        return found

    def called(self, name: str, function: Any) -> Any:
        """A call, whose opening bracket is the next token."""
        self.count_operation()
        start, values, by_name = self.start, list[Any](), dict[str, Any]()
        self.expect("(")
        values += self.strings()
        while not self.at(")"):
            value = self.function() if name == "each_label" and self.token == "lambda" else self.argument(by_name)
            values += [] if value is by_name else [value]
            if not self.take(","):
                break
        items = sum(len(value) if isinstance(value, list | dict) else 1 for value in (*values, *by_name.values()))
        if name not in LISTS and items * (self.end - start) > LONGEST:
            raise ValueError(f"{name}(...) has too many labels for so long a condition")
        self.expect(")")
        return _finite(function(*values, **by_name))

    def argument(self, by_name: dict[str, Any]) -> Any:
        """The value of an argument, or ``by_name`` itself where it is stored there under its name."""
        if self.kind == "name" and self.text[self.end : self.end + 2].lstrip()[:1] == "=":
            following = _TOKEN.match(self.text, self.end)
            if following is not None and following["sign"] == "=":
                name = self.advance()
                self.advance()
                if name in by_name:
                    raise ValueError(f"{name} is given twice")
                by_name[name] = self.expression()
                return by_name
        return self.expression()

    def function(self) -> Callable[[str], Any]:
        """``lambda L: expression``, whose text is read for every label."""
        if self.label is not None:
            raise ValueError("a lambda inside another")
        self.advance()
        if self.token != "L":
            self.fail("expected lambda L:")
        self.advance()
        start = self.end
        self.expect(":")
        self.label = "L"
        self.expression()
        self.label = None
        body = self.text[start : self.start]
        if len(body) > LONGEST_BODY:
            raise ValueError(f"lambda L: has more than {LONGEST_BODY} characters")
        return lambda label: _Reader(body, label).whole()

    def bracketed(self) -> Any:
        if self.take("("):
            found = self.expression()
            if not self.at(","):
                self.expect(")")
                return found
            self.advance()
            return [found, *self.items(")")]
        if self.take("["):
            return self.items("]")
        return self.entries() if self.take("{") else self.fail()

    def items(self, closing: str) -> list[Any]:
        found = self.strings()
        while not self.at(closing):
            found.append(self.expression())
            if not self.take(","):
                break
        self.expect(closing)
        return found

    def strings(self) -> list[Any]:
        """Strings that are followed by commas: word lists are long, so these are read without a detour."""
        found, item = [], _ITEM.match(self.text, self.start)
        while item is not None:
            found.append(_string(item[1]))
            self.end = item.end()
            item = _ITEM.match(self.text, self.end)
        if found:
            self.advance()
        return found

    def entries(self) -> dict[str, Any]:
        found = {}
        while not self.at("}"):
            key = _string(self.advance()) if self.kind == "string" else self.fail("expected a string")
            self.expect(":")
            found[key] = self.expression()
            if not self.take(","):
                break
        self.expect("}")
        return found


def _is_word(value: Any) -> bool:
    """Whether it is an object of the constraint language: a rule, a count, a condition, a constraint."""
    return type(value).__module__.startswith("trellis.constraints.")


def _string(token: str) -> str:
    return str(ast.literal_eval(token)) if "\\" in token else token[1:-1]


def _number(token: str) -> float:
    if len(token) > 30:
        raise ValueError(f"a number of {len(token)} characters")
    found = int(token) if token.isdigit() else float(token)
    if not found <= LARGEST:
        raise ValueError(f"{token} is too large")
    return found


def _finite(value: Any) -> Any:
    """The value, where it is no count with numbers that are too large."""
    if isinstance(value, Count):
        for number in (value.constant, *(term.coefficient for term in value.terms)):
            if not -LARGEST <= number <= LARGEST:
                raise ValueError(f"{number:g} is too large")
    return value


def _same(one: Constraint, other: Constraint, labels: Sequence[str]) -> bool:
    """Whether two constraints print the same, for each of the labels where they are about each."""
    same = one.code() == other.code()
    if same and isinstance(one, EachLabel) and isinstance(other, EachLabel):
        return all(one.of(name).code() == other.of(name).code() for name in labels)
    return same
