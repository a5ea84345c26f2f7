"""Rules that a selected span suggests, as blocks of a rules file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trellis.data.bio import runs
from trellis.errors import counted

MOST_WORDS = 12


@dataclass(frozen=True)
class Suggested:
    """A rule: what it is about in a few words, and its block."""

    about: str
    toml: str


def suggested(
    words: Sequence[str], first: int, last: int, label: str, labels: Sequence[str | None] | None, used: Sequence[str]
) -> list[Suggested]:
    """Rules for a label of words first..last−1.

    labels : of all words, as far as they are known;  used : names of rules that there are already
    """
    span = list(words[first:last])
    taken, found = set(used), []
    for about, name, lines in _rules(words, first, last, label, span, labels):
        name = name if name.strip() else f"rule for {label}"
        number, unique = 2, name
        while unique in taken:
            unique, number = f"{name} {number}", number + 1
        taken.add(unique)
        block = ["[[rule]]", f"name = {quoted(unique)}", *lines, 'strength = "learned"']
        found.append(Suggested(about, "\n".join(block) + "\n"))
    return found


def _rules(
    words: Sequence[str], first: int, last: int, label: str, span: list[str], labels: Sequence[str | None] | None
) -> Iterator[tuple[str, str, list[str]]]:
    then = f"then_label = {quoted(label)}"
    said = list(dict.fromkeys(word for word in span if any(map(str.isalnum, word))))[:MOST_WORDS] or span[:1]
    if len(said) == 1:
        yield f"the word {said[0]!r} is {label}", said[0], [f"if_word = {quoted(said[0])}", then]
    else:
        listed = ", ".join(map(quoted, said))
        yield f"each of these words is {label}", f"words of {label}", [f"if_word = [{listed}]", then]
    if len(span) == 1:
        pattern = pattern_of(span[0])
        if pattern is not None:
            yield f"words like {span[0]!r} are {label}", f"words like {span[0]}", [
                f"if_word_matches = {literal(pattern)}", then,
            ]  # fmt: skip
        if first > 0:
            yield f"a word after {words[first - 1]!r} is {label}", f"after {words[first - 1]}", [
                f"if_previous_word = {quoted(words[first - 1])}", then,
            ]  # fmt: skip
        if last < len(words):
            yield f"a word before {words[last]!r} is {label}", f"before {words[last]}", [
                f"if_next_word = {quoted(words[last])}", then,
            ]  # fmt: skip
    if first == 0:
        yield f"a text begins with {label}", f"begins with {label}", ['if_token = "first"', then]
    if last == len(words):
        yield f"a text ends with {label}", f"ends with {label}", ['if_token = "last"', then]
    yield f"{label} appears at most once", f"one {label} at most", [f"field = {quoted(label)}", "appears_at_most = 1"]
    yield f"{label} has at most {counted(last - first, 'word')}", f"{label} is short", [
        f"count = {quoted(label)}", f"at_most = {last - first}",
    ]  # fmt: skip
    before = [name for name, _, end in runs(labels or ()) if end <= first]
    if before and before[-1] != label:
        yield f"before {label} stands {before[-1]}", f"{before[-1]} before {label}", [
            f"if_label = {quoted(label)}", f"then_previous_label = [{quoted(before[-1])}, {quoted(label)}]",
        ]  # fmt: skip


def pattern_of(word: str) -> str | None:
    r"""A regular expression for words of the same shape; None where it would match anything.

    >>> pattern_of("1999"), pattern_of("$1,200.50"), pattern_of("Fox"), pattern_of("the")
    ('^\\d{4}$', '^\\$\\d+,\\d{3}\\.\\d{2}$', '^[A-Z][a-z]+$', None)
    """
    pieces = re.findall(r"\d+|[A-Z]+|[a-z]+|.", word, flags=re.DOTALL)
    made: list[str] = []
    for at, piece in enumerate(pieces):
        if piece.isascii() and piece.isdigit():
            made.append(r"\d+" if at + 1 < len(pieces) and not made.count(r"\d+") else rf"\d{{{len(piece)}}}")
        elif re.fullmatch(r"[A-Z]+", piece):
            made.append("[A-Z]" if len(piece) == 1 else "[A-Z]+")
        elif re.fullmatch(r"[a-z]+", piece):
            made.append("[a-z]+")
        else:
            made.append(re.escape(piece))
    if made in (["[a-z]+"], []) or not any(map(str.isalnum, word)):
        return None
    if all(piece.startswith(r"\d") for piece in made):
        made = [rf"\d{{{len(word)}}}"]
    return f"^{''.join(made)}$"


def quoted(text: str) -> str:
    """A string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def literal(text: str) -> str:
    """The same, without escapes where it can be."""
    return f"'{text}'" if "'" not in text and text.isprintable() else quoted(text)


@dataclass(frozen=True)
class RuleText:
    """A rule as it stands in a file: lines first..last−1, counted from 0."""

    first: int
    last: int
    on: bool
    name: str | None


OFF = "#~ "
"""What stands before the lines of a rule that is switched off: a comment to every command."""


def blocks_of(rules: str) -> list[RuleText]:
    """The blocks of ``[[rule]]``, switched off ones too, in order."""
    lines = rules.split("\n")
    found: list[RuleText] = []
    start, on = None, True

    def close(end: int) -> None:
        if start is not None:
            while end > start + 1 and not _uncommented(lines[end - 1]).strip():
                end -= 1
            text = "\n".join(map(_uncommented, lines[start:end]))
            name = re.search(r"""^name\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)')""", text, flags=re.MULTILINE)
            shown = None if name is None else name[2] if name[2] is not None else _unquoted(name[1])
            found.append(RuleText(start, end, on, shown))

    for number, line in enumerate(lines):
        bare = _uncommented(line).strip()
        if re.fullmatch(r"\[\[\s*rule\s*\]\]\s*(#.*)?", bare):
            close(number)
            start, on = number, not line.startswith(OFF)
        elif start is not None and (
            (re.match(r"\[(?!\s*rule\s*\.)", bare) and not line.startswith((" ", "\t")))
            or (not on and not line.startswith(OFF.rstrip()))
        ):
            close(number)
            start = None
    close(len(lines))
    return found


def _uncommented(line: str) -> str:
    return line[len(OFF) :] if line.startswith(OFF) else line[2:] if line == OFF.rstrip() else line


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def switched(rules: str, number: int, on: bool) -> str:
    """The rules with one of them switched on or off."""
    lines, block = rules.split("\n"), blocks_of(rules)[number]
    for at in range(block.first, block.last):
        if on:
            lines[at] = _uncommented(lines[at])
        elif not lines[at].startswith(OFF):
            lines[at] = (OFF + lines[at]).rstrip() if not lines[at] else OFF + lines[at]
    return "\n".join(lines)


def without(rules: str, number: int) -> str:
    """The rules without one of them."""
    lines, block = rules.split("\n"), blocks_of(rules)[number]
    end = block.last
    while end < len(lines) - 1 and not lines[end].strip():
        end += 1
    return "\n".join(lines[: block.first] + lines[end:])


def with_labels(rules: str, labels: Sequence[str]) -> str:
    """The rules with another list of labels, which stands at the top."""
    made = f"labels = [{', '.join(map(quoted, labels))}]"
    found = re.search(r"^labels\s*=\s*\[[^\]]*\]", rules, flags=re.MULTILINE)
    if found is None:
        return f"{made}\n\n{rules}" if rules.strip() else made + "\n"
    return rules[: found.start()] + made + rules[found.end() :]
