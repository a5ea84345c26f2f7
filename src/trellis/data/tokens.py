"""Tokenisation of raw text: each token keeps its character offsets, so that results refer to the original text.

Every character that is no white space belongs to exactly one token, and a token is text[start:end]. A word is, in
this order of preference: an address of the web or of mail; a number with its inner points, commas, colons, slashes and
dashes (3.14, 10:30, 62-68); a word with its inner hyphens, apostrophes and slashes (Moto-oka, don't); one other
character.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import regex

from trellis.data.checks import check_label_lists, check_list, is_list
from trellis.data.document import Document
from trellis.data.files import FilePath, numbered_lines, shown
from trellis.data.jsonlines import is_json_lines
from trellis.errors import DataError, check_name, counted, did_you_mean

_W = r"\w\p{No}"  # of a word: letters with their marks, digits, ², ½
_NO_SPACE = r"\s\x1c-\x1f"  # what str.isspace() is true of
_TOKEN = regex.compile(
    rf"""
    https?://[^{_NO_SPACE}<>"')\]]+[^{_NO_SPACE}<>"')\].,;:]      # an address of the web
    | (?<![{_W}.+-])[{_W}.+-]++@[{_W}][{_W}-]*(?:\.[{_W}][{_W}-]*)+   # of mail: tried once per run of its letters
    | \d+(?:(?:[.,:/]|--?|[–—])\d+)*[{_W}]*     # a number, a range
    | [{_W}]+(?:[-'’/–][{_W}]+)*                # a word
    | [^{_NO_SPACE}]                            # anything else by itself
    """,
    regex.VERBOSE,
)
_CHARACTER = regex.compile(rf"[^{_NO_SPACE}]\p{{M}}*")
_RUN = re.compile(r"\S+")
TOKENISERS, PATTERN = ("words", "whitespace", "characters"), "pattern"
"""Kinds without and with a pattern of one's own."""
SECONDS = 1.0
"""For a text and a pattern of one's own."""


@dataclass(frozen=True)
class Tokeniser:
    """A way to cut texts into tokens.

    kind : "words" (above), "whitespace", "characters" (each with its combining marks), or "pattern": whatever matches
        is a token, and so is what stands between
    pattern : a regular expression, of the last kind alone

    >>> Tokeniser("whitespace").cut("pp. 62-68").tokens
    ('pp.', '62-68')
    >>> Tokeniser("pattern", r"[0-9]+|[a-z]+").cut("12kg (net)").tokens
    ('12', 'kg', '(', 'net', ')')
    """

    kind: str = "words"
    pattern: str | None = None

    def __post_init__(self) -> None:
        check_name("kind of tokeniser", self.kind, (*TOKENISERS, PATTERN))
        if (self.kind == PATTERN) != (self.pattern is not None):
            raise DataError("a tokeniser has a pattern if it is of the kind 'pattern', and only then")
        _ = self._compiled

    @cached_property
    def _compiled(self) -> regex.Pattern[str] | None:
        if self.pattern is None:
            return None
        check_text(self.pattern)
        try:
            re.compile(self.pattern)  # the language is Python's
            return regex.compile(self.pattern)
        except (re.error, regex.error, OverflowError, RecursionError) as error:
            raise DataError(f"{self.pattern!r} is not a valid regular expression: {error}") from None

    def cut(self, text: str, *, path: str | None = None, line: int | None = None) -> Document:
        """One text, cut into tokens."""
        check_text(text)
        offsets = tuple(self._offsets(text))
        tokens = tuple(text[start:end] for start, end in offsets)
        return Document(tokens, text=text, offsets=offsets, path=path, line=line)

    def _offsets(self, text: str) -> Iterator[tuple[int, int]]:
        if self.kind == "words":
            yield from (found.span() for found in _TOKEN.finditer(text))
            return
        if self.kind == "characters":
            yield from (found.span() for found in _CHARACTER.finditer(text))
            return
        at, own = 0, self._compiled
        try:
            # with a time limit: see docs/decisions/regular-expressions.md
            found = [] if own is None else [one.span() for one in own.finditer(text, timeout=SECONDS)]
        except TimeoutError:
            raise DataError(
                f"the pattern of tokens {self.pattern!r} takes too long on {text!r:.60}: avoid nested repetitions such "
                "as (a+)+"
            ) from None
        for first, last in (*found, (len(text), len(text))):
            if first < last and text[first:last].isspace():
                continue
            yield from (run.span() for run in _RUN.finditer(text, at, first))
            if first < last:
                yield first, last
            at = max(at, last)


def check_text(text: object) -> None:
    """Refuse what is no string."""
    if not isinstance(text, str):
        raise DataError(f"expected a string, got {text!r:.60}")


def check_tokeniser(tokeniser: object) -> None:
    """Refuse what is no :class:`Tokeniser`."""
    if not isinstance(tokeniser, Tokeniser):
        raise DataError(f"tokeniser must be a Tokeniser, such as Tokeniser('whitespace'), got {tokeniser!r:.60}")


WORDS = Tokeniser()


@dataclass(frozen=True)
class OtherTokens:
    """Tokens that a tokeniser cuts otherwise.

    n, total : how many of how many tokens;  word, pieces : the first of them, and what is made of its characters
    path, line : where it stands
    instead : a kind of tokeniser that gives all of these tokens, or None
    """

    n: int
    total: int
    word: str
    pieces: tuple[str, ...]
    path: str | None
    line: int | None
    instead: str | None


def other_tokens(texts: Iterable[Document], tokeniser: Tokeniser) -> OtherTokens | None:
    """How tokens that were given differ from those that a tokeniser cuts their text into; None: they do not.

    >>> given = Document(("Aggarwal,", "1999"))
    >>> found = other_tokens([given], WORDS)
    >>> found.n, found.total, found.word, found.pieces, found.instead
    (1, 2, 'Aggarwal,', ('Aggarwal', ','), 'whitespace')
    """
    n, total, first = 0, 0, None
    fits = {kind: True for kind in TOKENISERS if kind != tokeniser.kind}
    for text in texts:
        cut = tokeniser.cut(text.text)
        total += len(text)
        if cut.offsets != text.offsets:
            own = set(cut.offsets)
            other = [t for t, span in enumerate(text.offsets) if span not in own]
            n += len(other)
            if first is None and other:
                first = (text, other[0], cut)
        for kind in [kind for kind, fine in fits.items() if fine]:
            fits[kind] = Tokeniser(kind).cut(text.text).offsets == text.offsets
    if first is None:
        return None
    text, t, cut = first
    low, high = text.offsets[t]
    pieces = tuple(w for w, (a, b) in zip(cut.tokens, cut.offsets, strict=True) if a < high and b > low)
    instead = next((kind for kind, fine in fits.items() if fine), None)
    return OtherTokens(n, total, text.tokens[t], pieces, text.path, text.line_of(t), instead)


def tokenise(text: str) -> Document:
    """Split a text into words, numbers and single characters.

    >>> cut = tokenise("Moto-oka, T. (1983), pp. 62-68.")
    >>> cut.tokens
    ('Moto-oka', ',', 'T', '.', '(', '1983', ')', ',', 'pp', '.', '62-68', '.')
    >>> cut.text[slice(*cut.offsets[10])]
    '62-68'
    """
    return WORDS.cut(text)


TextLike = Document | str | Sequence[str] | Mapping[str, Any]
"""A document, a string to be tokenised, a list of tokens, or a row of a table with one of them."""


def as_documents(
    items: Any, labels: Iterable[Sequence[str | None] | None] | None = None, tokeniser: Tokeniser = WORDS
) -> list[Document]:
    """Texts in any of their forms; ``labels`` are of their tokens, None where nothing is known of a text.

    >>> [one] = as_documents(["Ann Lee 1999"], [["NAME", "NAME", "YEAR"]])
    >>> one.tokens, one.labels
    (('Ann', 'Lee', '1999'), ('NAME', 'NAME', 'YEAR'))
    """
    check_tokeniser(tokeniser)
    texts = list(each_document(items, tokeniser))
    if labels is None:
        return texts
    given = check_label_lists(labels) or []
    if len(given) != len(texts):
        raise DataError(
            f"expected labels for {counted(len(texts), 'text')} but got {len(given)}; give None for an unlabelled text"
        )
    for number, (text, own) in enumerate(zip(texts, given, strict=True)):
        if own is None:
            continue
        if len(own) != len(text):
            raise DataError(f"text {number} has {counted(len(text), 'token')} {text.tokens} but the labels are {own!r}")
        texts[number] = replace(text, labels=tuple(own))
    return texts


def each_document(items: Any, tokeniser: Tokeniser = WORDS) -> Iterator[Document]:
    """Texts in any of their forms, one after the other."""
    if isinstance(items, Document):
        raise DataError(f"expected a list of texts, got {type(items).__name__}: put it in brackets, [...]")
    if isinstance(items, str) and os.path.isfile(items):
        reader = "trellis.read_documents" if is_json_lines(items) else "trellis.data.columns.read_columns"
        if items.lower().endswith(".txt"):
            reader = "trellis.data.text_files.read_texts"
        raise DataError(f"expected a list of texts, got the name of a file: read it with {reader}({items!r})")
    for number, item in enumerate(check_list(items, "texts")):
        if isinstance(item, str):
            yield tokeniser.cut(item)
        elif isinstance(item, Document):
            yield item
        elif isinstance(item, Mapping):
            yield _of_row(item, number, tokeniser)
        elif is_list(item) and all(isinstance(word, str) for word in item):
            yield Document(tuple(map(str, item)))
        else:
            pair = is_list(item) and len(item) == 2 and all(map(is_list, item))
            hint = "; give tokens and labels as two lists, X and y" if pair else ""
            raise DataError(f"text {number} is {item!r:.80}: expected a string or a list of tokens{hint}")


def _of_row(row: Mapping[str, Any], number: int, tokeniser: Tokeniser) -> Document:
    """A row of a table, or a JSON object, with "tokens" or "text", and "labels" where they are known."""
    from trellis.data.records import document_of

    if {"tokens", "text"}.isdisjoint(row):
        raise DataError(f"text {number} has neither 'text' nor 'tokens'{did_you_mean('text', row)}")
    try:
        if row.get("tokens") is not None:
            return document_of({name: row[name] for name in ("tokens", "text", "labels") if row.get(name) is not None})
        if not isinstance(row.get("text"), str):
            raise DataError(f"expected a string in 'text' but found {row.get('text')!r:.60}")
        cut = tokeniser.cut(row["text"])
        return cut if row.get("labels") is None else replace(cut, labels=row["labels"])
    except DataError as error:
        raise DataError(f"text {number}: {error}") from None


def read_raw(path: FilePath, tokeniser: Tokeniser = WORDS) -> Iterator[Document]:
    """A text a line, tokenised; lines of white space alone give texts without tokens."""
    for number, line in numbered_lines(path):
        yield tokeniser.cut(line, path=shown(path), line=number)
