"""Where things stand in a TOML file: tomllib gives values without lines, so the text is scanned for them.

The scan knows headers, keys, strings and comments, and nothing else of TOML; tomllib has already accepted the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

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
