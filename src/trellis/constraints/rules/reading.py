"""read_rules: a rules file as constraints, declared labels and word lists."""

from __future__ import annotations

import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trellis.constraints.constraint import Constraint, RuleOrigin
from trellis.constraints.rules.features import TextFeature, read_features
from trellis.constraints.rules.kinds import STRENGTH_KEYS, kind_of
from trellis.constraints.rules.section import NamedFiles, Section, scan
from trellis.constraints.strength import Strength, hard, learned, penalty, slack
from trellis.constraints.together import together
from trellis.data.display import table_html
from trellis.data.files import FilePath, shown, text_of
from trellis.data.tokens import TOKENISERS, WORDS, Tokeniser
from trellis.errors import ConstraintError, DataError

KIND_KEYS = ("entities", "relations")
TOP_KEYS = ("labels", "tokens", "token_pattern", *KIND_KEYS, "lists", "features", "defaults", "rule")

TOML_HINTS = {
    "Invalid value": "put strings in quotes, 'like this'; numbers, true and false stand without",
    "Unescaped": "put regular expressions in single quotes, in which a backslash stands for itself",
    "Cannot overwrite": "a key can be given only once",
    "Illegal character": "a string has to end with a quote on the same line",
    "Unterminated string": "a string has to end with its quote",
    "Unclosed array": "a list that begins with [ there or above has no ]",
    "Expected '='": "expected key = value",
}
"""What to do about a message of tomllib, by how it begins."""


@dataclass(frozen=True)
class RulesFile:
    """What a rules file says; iterating over it gives the constraints.

    labels : the declared labels, or None where the file leaves them to the data
    lists : name -> words
    files : name -> content of every file that a rule names; with it :func:`parse_rules` opens none
    kinds : the declared "entities" and "relations", where the rules are about such
    tokeniser : how texts are cut;  features : name -> further features of tokens and of whole fields
    """

    constraints: tuple[Constraint, ...]
    labels: tuple[str, ...] | None
    lists: Mapping[str, tuple[str, ...]]
    files: Mapping[str, str]
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tokeniser: Tokeniser = WORDS
    features: Mapping[str, TextFeature] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Constraint]:
        return iter(self.constraints)

    def __len__(self) -> int:
        return len(self.constraints)

    def _repr_html_(self) -> str:
        return table_html(("constraint", "in words"), [(one.name, one.describe()) for one in self])


def read_rules(path: FilePath) -> RulesFile:
    """Read a rules file.

    Errors are raised as :class:`DataError` with file, line and suggestions for misspelt names.

    Parameters
    ----------
    path : path
        TOML file; see "Rules files" in the documentation.

    Returns
    -------
    RulesFile
        ``constraints``, ``labels`` and the other settings of the file.
    """
    return parse_rules(text_of(path), shown(path))


def parse_rules(text: str, path: str = "rules", files: Mapping[str, str] | None = None) -> RulesFile:
    """Read rules from a text; ``path`` is what messages call it, and beside it stand the files that rules name.

    files : contents of those files by name, where they are known: then none is opened

    >>> rules = parse_rules('''
    ... [[rule]]
    ... name = "a verb"
    ... count = "VERB"
    ... at_least = 1
    ... ''')
    >>> [rule.describe() for rule in rules]
    ['In every sentence the expected count of VERB is at least 1, as a hard constraint.']
    """
    values = _parse(text, path)
    source = scan(text)
    named = NamedFiles(os.path.dirname(path), files)
    top = Section(values, (), source, path, named)
    top.check_keys(TOP_KEYS)
    labels = top.texts("labels") if "labels" in top else None
    twice = [name for name, n in Counter(labels or ()).items() if n > 1]
    if twice:
        top.fail(f"labels has {twice[0]!r} more than once", "labels")
    kinds = {key: top.texts(key) for key in KIND_KEYS if key in top}
    lists = _lists(top)
    defaults = top.inner("defaults") if "defaults" in top else replace(top, values={})
    defaults.check_keys([key for key in STRENGTH_KEYS if key != "norm_over"])
    strength = _strength(defaults, hard())
    listed = values.get("rule", [])
    if not isinstance(listed, list) or not all(isinstance(rule, dict) for rule in listed):
        top.fail("rules are written as [[rule]], with two brackets", "rule")
    constraints = []
    lines: dict[str, int] = {}
    for i, rule in enumerate(listed):
        section = Section(rule, ("rule", i), source, path, named, labels, lists, kinds)
        read = _constraints(section, strength)
        if "name" in section:
            name = section.text("name")
            if name in lines:
                section.fail(f"the rule in line {lines[name]} is also called {name!r}: names must be unique", "name")
            lines[name] = section.line("name")
        constraints += read
    tokeniser = _tokeniser(top)
    features = read_features(top, lists, tokeniser)
    return RulesFile(tuple(constraints), labels, lists, named.contents, kinds, tokeniser, features)


def _parse(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise DataError("values are nested too deeply", path=path) from None
    except ValueError as error:
        found = re.fullmatch(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", str(error), re.DOTALL)
        message = found.group(1) if found else str(error)
        last = text.count("\n") or 1
        line = (int(found.group(2)) if found.group(2) else last) if found else None
        hint = next((f": {hint}" for start, hint in TOML_HINTS.items() if message.startswith(start)), "")
        lines = text.splitlines()
        where = f" in `{lines[line - 1].strip():.60}`" if line is not None and line <= len(lines) else ""
        raise DataError(f"not valid TOML: {message}{where}{hint}", path=path, line=line) from None


def _tokeniser(top: Section) -> Tokeniser:
    if "token_pattern" not in top:
        return Tokeniser(top.choice("tokens", TOKENISERS)) if "tokens" in top else WORDS
    if "tokens" in top:
        top.fail("set either `tokens` or `token_pattern`, not both", "token_pattern")
    try:
        return Tokeniser("pattern", top.text("token_pattern"))
    except DataError as error:
        top.fail(str(error), "token_pattern")


def _lists(top: Section) -> dict[str, tuple[str, ...]]:
    if "lists" not in top:
        return {}
    inner = top.inner("lists")
    return {name: inner.texts(name) for name in inner.values}


def _constraints(section: Section, default: Strength) -> list[Constraint]:
    """The constraints of a rule: one, or those of a table that it names."""
    kind = kind_of(section)
    try:
        read = kind.read(section)
        found = read if isinstance(read, list) else [read]
        if "norm_over" in section and section.choice("norm_over", ("sentence", "corpus")) == "corpus":
            found = [together(*found)]
        if "strength" in kind.others:
            found = [one.with_strength(_strength(section, default)) for one in found]
        if "name" in section:
            name = section.text("name")
            found = [one.named(f"{name}: {one.code()}" if len(found) > 1 else name) for one in found]
    except ConstraintError as error:
        section.fail(str(error))
    return [replace(one, origin=RuleOrigin(section.path, section.line())) for one in found]


def _strength(section: Section, default: Strength) -> Strength:
    given = [key for key in ("strength", "slack", "penalty") if key in section]
    if len(given) > 1:
        section.fail(f"a rule can have only one strength, but this one has {' and '.join(given)}", given[1])
    if not given:
        if "norm" in section:
            section.fail("norm requires slack or penalty", "norm")
        return default
    if given[0] == "strength":
        if "norm" in section:
            section.fail("norm requires slack or penalty", "norm")
        return hard() if section.choice("strength", ("hard", "learned")) == "hard" else learned()
    amount = section.number(given[0], low=0.0)
    norms = ("l1", "l2", "linf") + (("squared", "kl") if given[0] == "penalty" else ())
    chosen = section.choice("norm", norms) if "norm" in section else None
    try:
        if given[0] == "slack":
            return slack(amount) if chosen is None else slack(amount, chosen)
        return penalty(amount) if chosen is None else penalty(amount, chosen)
    except ConstraintError as error:
        section.fail(str(error), given[0])
