"""One table of a rules file, read key by key, and the files that it names; errors give the line.

tomllib gives values without lines, so the text is scanned for them. The scan knows headers, keys, strings and comments,
and nothing else of TOML; tomllib has already accepted the file.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from trellis.data.files import lies_in, numbered_lines
from trellis.errors import DataError, UnknownNameError

Place = tuple[str | int, ...]
"""Way to a value: ("rule", 2, "then_label")."""

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|'
    r"'''.*?'{3,5}|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'|"
    r"\#[^\n]*|\n|[\[\]{}=,.]|[^\s\"'#\[\]{}=,.]+",
    re.DOTALL,
)


@dataclass
class Source:
    """The lines of a file's keys, headers and strings."""

    lines: dict[Place, int] = field(default_factory=dict)
    strings: dict[Place, list[tuple[str, int]]] = field(default_factory=dict)

    def line(self, place: Place, text: str | None = None) -> int:
        """Line of a key; of a string inside its value where ``text`` is given and can be found."""
        while place and place not in self.lines:
            place = place[:-1]
        if text is not None:
            for raw, line in self.strings.get(place, []):
                if text in raw:
                    return line
        return self.lines.get(place, 1)


def scan(text: str) -> Source:
    """Find the line of every key and every string."""
    source = Source()
    counts: dict[str, int] = {}
    table: Place = ()
    for statement in _statements(text):
        raw, line = statement[0]
        if raw == "[":
            array = len(statement) > 1 and statement[1][0] == "["
            names = _names(statement)
            table = _place(names, counts, opens=array)
            source.lines.setdefault(table, line)
            source.lines.setdefault(table[:1], line)
            continue
        at_equals = next((i for i, (token, _) in enumerate(statement) if token == "="), len(statement))
        place = (*table, *_names(statement[:at_equals]))
        source.lines.setdefault(place, line)
        found = source.strings.setdefault(place, [])
        for i, (token, where) in enumerate(statement[at_equals + 1 :], at_equals + 1):
            if token[0] in "\"'":
                found.append((token, where))
            follows = statement[i + 1][0] if i + 1 < len(statement) else ""
            if follows == "=":
                source.lines.setdefault((*place, _unquote(token)), where)
    return source


def _place(names: list[str], counts: dict[str, int], *, opens: bool) -> Place:
    """The place of a table header; [[rule]] opens the next one, [rule.x] goes into the last one."""
    head = names[0] if names else ""
    if opens and len(names) == 1:
        counts[head] = counts.get(head, -1) + 1
    place: Place = (head, counts[head]) if head in counts else (head,)
    return (*place, *names[1:])


def _statements(text: str) -> Iterator[list[tuple[str, int]]]:
    """Headers and assignments as lists of (token, line); values may span lines inside brackets."""
    line, depth = 1, 0
    statement: list[tuple[str, int]] = []
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "\n":
            line += 1
            if depth <= 0 and statement:
                yield statement
                statement, depth = [], 0
            continue
        if token.startswith("#"):
            continue
        statement.append((token, line))
        line += token.count("\n")
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
    if statement:
        yield statement


def _names(tokens: list[tuple[str, int]]) -> list[str]:
    return [_unquote(token) for token, _ in tokens if token not in (".", "[", "]", "=", ",", "{", "}")]


def _unquote(token: str) -> str:
    return token[1:-1] if len(token) > 1 and token[0] in "\"'" else token


_beside_only = False
"""Of the process, not of a context: threads that read rules do not escape it."""


@contextmanager
def files_beside_rules_only() -> Iterator[None]:
    """Refuse files outside the folder of the rules file that names them, in the whole process while this is open."""
    global _beside_only
    before, _beside_only = _beside_only, True
    try:
        yield
    finally:
        _beside_only = before


class NamedFiles:
    """Lines of files by the names that rules give them; ``contents`` holds those that were read.

    folder : where names are looked for;  given : name -> content, and then no file is opened
    """

    def __init__(self, folder: str, given: Mapping[str, str] | None = None) -> None:
        self.folder, self.given = folder, given
        self.contents: dict[str, str] = {}

    def path(self, name: str) -> str:
        """What messages call the file."""
        return os.path.join(self.folder, name)

    def lines(self, name: str) -> Iterator[tuple[int, str]]:
        """Numbered lines of a file."""
        if self.given is None:
            if _beside_only:
                self._refuse_outside(name)
            self.contents[name] = "\n".join(line for _, line in numbered_lines(self.path(name)))
        elif name in self.given:
            self.contents[name] = self.given[name]
        else:
            raise DataError(
                f"the rules refer to the file {name!r}, but the files given with them are {list(self.given)}"
            )
        return enumerate(self.contents[name].split("\n"), 1)

    def _refuse_outside(self, name: str) -> None:
        """Refuse a file that lies, with links followed, outside the folder."""
        if "\0" in name:  # opening the file says so
            return
        if not lies_in(self.path(name), self.folder):
            raise DataError(
                f"the rules name the file {name!r}, which is outside their folder and is not read here: "
                "copy it into the folder, and name the copy"
            )


@dataclass(frozen=True)
class Section:
    """A table, where it stands, the labels that the file declares (None: any), and the files that rules name."""

    values: Mapping[str, Any]
    place: Place
    source: Source
    path: str
    files: NamedFiles
    labels: tuple[str, ...] | None = None
    lists: Mapping[str, tuple[str, ...]] | None = None
    kinds: Mapping[str, tuple[str, ...]] | None = None
    """Types that the file declares: "entities" and "relations"."""

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def line(self, key: str | None = None, text: str | None = None) -> int:
        return self.source.line(self.place if key is None else (*self.place, key), text)

    def fail(self, message: str, key: str | None = None) -> NoReturn:
        raise DataError(message, path=self.path, line=self.line(key))

    def unknown(self, kind: str, name: str, known: Iterable[str], key: str) -> NoReturn:
        raise UnknownNameError(kind, name, known, path=self.path, line=self.line(key, name))

    def check_keys(self, known: Iterable[str]) -> None:
        names = list(known)
        for key in self.values:
            if key not in names:
                self.unknown("key", key, names, key)

    def text(self, key: str) -> str:
        value = self.values[key]
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{key} must be a string, got {_shown(value)}", key)
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in choices:
            self.unknown(f"value of {key}", value, choices, key)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A text, or a list of texts that is not empty."""
        value = self.values[key]
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not items or not all(isinstance(item, str) and item for item in items):
            self.fail(f"{key} must be a string or a list of strings, got {_shown(value)}", key)
        return tuple(items)

    def label_names(self, key: str) -> tuple[str, ...]:
        names = self.texts(key)
        for name in names:
            self.check_label(name, key)
        return names

    def check_label(self, name: str, key: str) -> None:
        if self.labels is not None and name not in self.labels:
            self.unknown("label", name, self.labels, key)

    def type_names(self, key: str, kind: str) -> tuple[str, ...]:
        """Names of entities or of relations."""
        names, known = self.texts(key), (self.kinds or {}).get(kind)
        for name in names:
            if known is not None and name not in known:
                self.unknown("entity" if kind == "entities" else "relation", name, known, key)
        return names

    def words_of(self, key: str) -> tuple[str, ...]:
        """The words of the named lists."""
        lists = self.lists or {}
        words: list[str] = []
        for name in self.texts(key):
            if name not in lists:
                try:
                    self.unknown("word list", name, lists, key)
                except UnknownNameError as error:
                    error.add_note(f"({key} takes names of [lists]; use {key.removesuffix('_in')} for words)")
                    raise
            words.extend(lists[name])
        return tuple(words)

    def number(self, key: str, *, low: float = -math.inf, high: float = math.inf) -> float:
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(f"{key} must be a number, got {_shown(value)}", key)
        if abs(value) > 1e300 or not low <= value <= high:  # also true of nan
            span = (
                "finite"
                if math.isinf(low)
                else f"at least {low:g}"
                if math.isinf(high)
                else f"from {low:g} to {high:g}"
            )
            self.fail(f"{key} must be a number, {span}, got {_shown(value)}", key)
        return float(value)

    def distance(self, key: str, of: str) -> tuple[int, int]:
        """A number from 1 on, or [least, most]."""
        value = self.values[key]
        if not isinstance(value, list):
            n = self.whole(key, low=1)
            return n, n
        whole = len(value) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in value)
        if not whole or not 1 <= value[0] <= value[1]:
            self.fail(f"{key} must be a number of {of}, at least 1, or [least, most]", key)
        return value[0], value[1]

    def whole(self, key: str, *, low: int = 0) -> int:
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**31:
            self.fail(f"{key} must be a whole number, at least {low}, got {_shown(value)}", key)
        return value

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.fail(f"{key} must be true or false, got {_shown(value)}", key)
        return value

    def check_on(self, key: str) -> None:
        """Refuse a key that has a meaning only where it is true."""
        if not self.flag(key):
            self.fail(f"{key} = true is the only valid value; otherwise leave the rule out", key)

    def inner(self, key: str) -> Section:
        """The table under a key."""
        value = self.values[key]
        if not isinstance(value, dict):
            self.fail(f"{key} must be a table, got {_shown(value)}", key)
        return replace(self, values=value, place=(*self.place, key))


def _shown(value: Any) -> str:
    """A value as a person wrote it, cut where it is long."""
    text = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    if text is None:
        try:
            text = repr(value) if isinstance(value, str | int | float | list | dict) else str(value)
        except ValueError:  # a number of more digits than Python likes to print
            text = "a very long number"
    return text if len(text) <= 60 else text[:57] + "..."
