"""Features declared in a rules file: patterns of words, lists of words and phrases, and dictionaries in files.

[features]
month = '^(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)'      a text: a regular expression, looked for in a word
places = ["New York", "Chicago"]                                  a list: words and phrases, in any case
journals = { file = "journals.txt" }                              the same, one a line of a file
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from trellis.constraints.condition import Matches, word
from trellis.constraints.rules.section import Section
from trellis.data.tokens import Tokeniser
from trellis.errors import ConstraintError, DataError, UnknownNameError


@dataclass(frozen=True)
class TextFeature:
    """A pattern that words match in any case, or phrases: lists of words in lower case.

    >>> TextFeature("month", Matches(word, "^(jan|feb)", ignore_case=True)).at(["in", "January"], 1)
    ['month']
    >>> TextFeature("places", phrases=(("new", "york"),)).at(["in", "New", "York"], 2)
    ['places', 'places, word 2']
    """

    name: str
    pattern: Matches | None = None
    phrases: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def _held(self) -> frozenset[tuple[str, ...]]:
        return frozenset(self.phrases)

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.phrases), default=0)

    def at(self, words: Sequence[str], t: int) -> list[str]:
        """What to say of a token: the name where it matches, or stands in a phrase; and the how manieth word of the
        longest phrase it is."""
        if self.pattern is not None:
            return [self.name] if self.pattern.accepts(words[t]) else []
        for n in range(min(self._longest, len(words)), 0, -1):
            for first in range(max(t + 1 - n, 0), min(t, len(words) - n) + 1):
                if tuple(word.lower() for word in words[first : first + n]) in self._held:
                    return [self.name, f"{self.name}, word {t - first + 1}"]
        return []


def read_features(top: Section, lists: Mapping[str, tuple[str, ...]], tokeniser: Tokeniser) -> dict[str, TextFeature]:
    """Those of the file, and its lists of words, which rules name."""

    def of(name: str, texts: Sequence[str]) -> TextFeature:
        cut = (tuple(word.lower() for word in tokeniser.cut(text).tokens) for text in texts)
        return TextFeature(name, phrases=tuple(dict.fromkeys(phrase for phrase in cut if phrase)))

    found = {name: of(name, words) for name, words in lists.items()}
    if "features" not in top:
        return found
    inner = top.inner("features")
    for name, value in inner.values.items():
        if name in found:
            inner.fail(f"{name!r} is already a word list, and every word list is a feature", name)
        if isinstance(value, str):
            found[name] = TextFeature(name, _matches(inner, name))
        elif isinstance(value, dict):
            table = inner.inner(name)
            table.check_keys(("file",))
            if "file" not in table:
                table.fail("a feature must be a pattern, a list of words and phrases, or { file = ... }")
            lines = (line for _, line in inner.files.lines(table.text("file")))
            found[name] = of(name, [line for line in lines if line.strip()])
        else:
            found[name] = of(name, inner.texts(name))
    return found


def _matches(section: Section, key: str) -> Matches:
    try:
        return Matches(word, section.text(key), ignore_case=True)
    except ConstraintError as error:
        section.fail(str(error), key)


def dictionary_file(section: Section) -> dict[str, list[str]]:
    """Lines "word<TAB>LABEL LABEL ...", in a file beside the rules."""
    path, entries = section.files.path(section.text("dictionary")), dict[str, list[str]]()
    for number, line in section.files.lines(section.text("dictionary")):
        if not line.strip():
            continue
        entry, tab, names = line.partition("\t")
        if not tab or not entry or not names.split():
            message = "a line of a dictionary is a word, a tab, and labels with spaces between them"
            raise DataError(message, path=path, line=number)
        for name in names.split():
            if section.labels is not None and name not in section.labels:
                raise UnknownNameError("label", name, section.labels, path=path, line=number)
        entries.setdefault(entry, []).extend(names.split())
    if not entries:
        section.fail(f"the dictionary {path} has no entries", "dictionary")
    return entries
