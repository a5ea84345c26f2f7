"""Constraints as text and back: what :meth:`Constraint.code` writes is read here, and nothing else is.

A model file holds its constraints as the expressions one would write, so that a person can read them. Files may come
from strangers: the text is taken apart by Python's parser and put together from the words of the constraint language
alone; it is never evaluated.

>>> read_constraint("count('VERB').per('corpus') <= 0.2 * count().per('corpus')")
count('VERB').per('corpus') <= 0.2 * count().per('corpus')
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from trellis.constraints.compilation import named
from trellis.constraints.constraint import Constraint
from trellis.constraints.dictionary import WHOLE
from trellis.constraints.rule import Rule
from trellis.constraints.strength import Kind, Norm, Strength
from trellis.errors import ConstraintError

LONGEST = 10_000_000
"""Letters of one expression; a dictionary of a million words has as many."""
DEEPEST = 200
METHODS = frozenset({"between", "implies", "isin", "lower", "matches", "per"})
ATTRIBUTES = frozenset({"first", "from_end", "last", "links"})
_COMPARE: dict[type[Any], Any] = {
    ast.LtE: operator.le, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.Lt: operator.lt, ast.Gt: operator.gt,
    ast.NotEq: operator.ne,
}  # fmt: skip
_BINARY: dict[type[Any], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
_UNARY: dict[type[Any], Any] = {ast.Invert: operator.invert, ast.USub: operator.neg}


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
        try:
            code = one.code()
            faithful = _same(one, read_constraint(code), labels)
        except ConstraintError:
            faithful = False
        finally:
            WHOLE.reset(token)
        if not faithful:
            raise ConstraintError(
                f"the constraint {one.name!r} cannot be written to a file: functions, lists of given labels and links "
                "are not text. Save the model alone (model_.save), or write the rule into a rules file"
            )
        strength = one.strength
        made.append(
            Written(code=code, name=one.name, strength=[int(strength.kind), int(strength.norm), strength.amount])
        )
    return made


def read_constraints(written: Sequence[Mapping[str, Any]]) -> list[Constraint]:
    """What :func:`write_constraints` wrote."""
    found = []
    for one in written:
        kind, norm, amount = one["strength"]
        strength = Strength(Kind(int(kind)), Norm(int(norm)), float(amount))
        found.append(read_constraint(one["code"]).named(str(one["name"])).with_strength(strength))
    return found


def read_constraint(code: Any) -> Constraint:
    """The constraint of an expression."""
    if not isinstance(code, str) or len(code) > LONGEST:
        raise ConstraintError(f"expected an expression, got {type(code).__name__}")
    try:
        tree = ast.parse(code.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ConstraintError(f"not an expression: {error}") from None
    try:
        found = _value(tree.body, {}, 0)
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError) as error:
        raise ConstraintError(f"no constraint: {code[:80]!r} ({error})") from None
    if isinstance(found, Rule):
        found = found.constraint()
    if not isinstance(found, Constraint):
        raise ConstraintError(f"no constraint: {code[:80]!r}")
    return found


def _words() -> dict[str, Any]:
    import trellis.constraints as language
    from trellis.constraints.rule import Always

    names = (
        "at_least at_most backward changed column count counts_like dictionary each each_label entities entity "
        "exactly exists feature few_labels_per first following forward given label links one_relation_per_pair "
        "position preceding previous relation relations second share shares starts transitions trusted word"
    )
    return {**{name: getattr(language, name) for name in names.split()}, "always": Always()}


def _value(node: ast.AST, known: Mapping[str, Any], depth: int) -> Any:
    """The value of a node, made of words of the language alone."""
    if depth > DEEPEST:
        raise ConstraintError("an expression too deep to be read")

    def of(part: ast.AST, more: Mapping[str, Any] = known) -> Any:
        return _value(part, more, depth + 1)

    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, str | int | float | bool):
            return value
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [of(part) for part in parts]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {of(key): of(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.Name(id=name) if name in (words := _words()):
            return words[name]
        case ast.Attribute(value=base, attr=name) if name in ATTRIBUTES:
            return getattr(of(base), name)
        case ast.UnaryOp(op=sign, operand=part) if type(sign) in _UNARY:
            return _UNARY[type(sign)](of(part))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _BINARY:
            return _BINARY[type(sign)](of(left), of(right))
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _COMPARE:
            return _COMPARE[type(sign)](of(left), of(right))
        case ast.Lambda(args=arguments, body=body) if [a.arg for a in arguments.args] == ["L"]:
            return lambda name: _value(body, {**known, "L": name}, depth + 1)
        case ast.Call(func=ast.Attribute(value=base, attr=name), args=parts, keywords=more) if name in METHODS:
            return getattr(of(base), name)(*map(of, parts), **{k.arg: of(k.value) for k in more if k.arg})
        case ast.Call(func=function, args=parts, keywords=more) if isinstance(function, ast.Name | ast.Attribute):
            return of(function)(*map(of, parts), **{k.arg: of(k.value) for k in more if k.arg})
        case _:
            raise ConstraintError(f"{ast.unparse(node)[:60]!r} is no part of the language of constraints")


def _same(one: Constraint, other: Constraint, labels: Sequence[str]) -> bool:
    """Whether two constraints print the same, for each of the labels where they are about each."""
    if one.code() != other.code():
        return False
    mine, theirs = getattr(one, "_of", None), getattr(other, "_of", None)
    return mine is None or theirs is None or all(mine(name).code() == theirs(name).code() for name in labels)
