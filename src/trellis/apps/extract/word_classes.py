"""Word classes of an extractor: frequent words are kept, rare words and numbers are replaced by their shape.

Numbers, ranges, years and initials are classes: 1987 and 1991 tell a model the same. Rare words are replaced too,
since they are too rare to learn from, and unseen words then look like them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

MARK = "<mark>"
_CLASSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.DOTALL))  # otherwise a line end in a token makes the pattern of addresses backtrack
    for name, pattern in (
        ("<year>", r"(19|20)\d\d[a-z]?"),
        ("<range>", r"\d+(--?|[–—])\d+"),
        ("<1 digit>", r"\d"),
        ("<2 digits>", r"\d\d"),
        ("<3 digits>", r"\d\d\d"),
        ("<digits>", r"\d{4,}"),
        ("<number>", r"\d[\d.,:/–—-]*"),
        ("<initial>", r"[^\W\d_a-z]"),
        ("<address>", r"https?://.*|.+@.+\..+"),
        (MARK, r"[\W_]+"),
        ("<with digits>", r".*\d.*"),
    )
)
ALWAYS = frozenset(("<year>", "<range>", "<1 digit>", "<2 digits>", "<3 digits>", "<digits>", "<number>", "<initial>"))
"""Classes whose members are always replaced."""

COMMON = 5
COMMON_IN_LITTLE_TEXT = 2
LITTLE_TEXT = 10_000
"""With fewer tokens than this, words that occur twice are common; with more, words that occur five times."""

OTHER = "<other>"


_WITH_MARKS = re.compile(r"([\W_]*)(.*[^\W_])([\W_]*)", re.DOTALL)


@lru_cache(maxsize=2**16)
def split_marks(token: str) -> tuple[str, str, str]:
    """The marks before a word, the word, and the marks after it. A token of marks alone is a word.

    >>> split_marks("(1998),"), split_marks("...")
    (('(', '1998', '),'), ('', '...', ''))
    """
    found = _WITH_MARKS.fullmatch(token)
    return (found[1], found[2], found[3]) if found else ("", token, "")


@lru_cache(maxsize=2**16)  # called for three columns of every token
def word_class(token: str) -> str:
    """The form of a word, with the first and the last of the marks around it.

    >>> [word_class(token) for token in ("machine", "(1998),", '"Fast')]
    ['<x>', '(<year>,', '"<Xx>']
    """
    before, word, after = split_marks(token)
    return f"{before[:1]}{form_of(word)}{after[-1:]}"


@lru_cache(maxsize=2**16)
def form_of(word: str) -> str:
    """The form of a word without marks around it.

    >>> [form_of(w) for w in ("1987", "62-68", "K", "Moto-oka", "NATO", "machine", "TR-125", ";")]
    ['<year>', '<range>', '<initial>', '<Xx-x>', '<XX>', '<x>', '<with digits>', '<mark>']
    """
    for name, pattern in _CLASSES:
        if pattern.fullmatch(word):
            return name
    joint = "-x" if "-" in word else ""
    if word.isupper():
        return f"<XX{joint}>"
    return f"<Xx{joint}>" if word[:1].isupper() else f"<x{joint}>"


@dataclass(frozen=True)
class WordClasses:
    """The words that are common enough to be kept."""

    common: frozenset[str]

    @classmethod
    def learn(cls, sentences: Iterable[Sequence[str]], min_count: int | None = None) -> WordClasses:
        """From the words of training text, labelled or not."""
        return cls.of(Counter(word for words in sentences for word in words), min_count)

    @classmethod
    def of(cls, counts: Mapping[str, int], min_count: int | None = None) -> WordClasses:
        """From how often each word occurs there."""
        least = min_count
        if least is None:
            least = COMMON if sum(counts.values()) >= LITTLE_TEXT else COMMON_IN_LITTLE_TEXT
        return cls(
            frozenset(word for word, n in counts.items() if n >= least and form_of(split_marks(word)[1]) not in ALWAYS)
        )

    def seen_as(self, word: str) -> str:
        return word if word in self.common else word_class(word)

    def mark(self, word: str) -> str:
        """The mark that a token is or ends with."""
        if word_class(word) == MARK:
            return self.seen_as(word)
        return split_marks(word)[2][-1:]

    @property
    def columns(self) -> dict[str, Callable[[str], str]]:
        """Values of the columns "seen", "form" and "mark" for a word."""
        return {"seen": self.seen_as, "form": word_class, "mark": self.mark}
