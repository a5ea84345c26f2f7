"""What an extractor sees of a token: the word where it is common, its form where it is rare or a number.

Numbers, ranges, years and initials are classes of their own: that 1987 was seen says nothing that 1991 does not. A
rare word is seen as its class: it is seen too seldom to learn from, and an unseen word looks like the rare ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

MARK = "<mark>"
_CLASSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.DOTALL))  # else a line end in a token makes an address try every way it has
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
"""Classes whose members are never seen as themselves."""

COMMON = 5
COMMON_IN_LITTLE_TEXT = 2
LITTLE_TEXT = 10_000
"""Of less text than so many tokens, words that occur twice are common; of more, those that occur five times."""

OTHER = "<other>"


@lru_cache(maxsize=2**16)  # three columns of every token ask for it
def word_class(word: str) -> str:
    """The form of a word.

    >>> [word_class(w) for w in ("1987", "62-68", "K", "Moto-oka", "NATO", "machine", "TR-125", ";")]
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
    """Which words are common enough to be seen as themselves."""

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
        return cls(frozenset(word for word, n in counts.items() if n >= least and word_class(word) not in ALWAYS))

    def seen_as(self, word: str) -> str:
        return word if word in self.common else word_class(word)

    def mark(self, word: str) -> str:
        """Of a mark what it is seen as, of a word nothing."""
        return self.seen_as(word) if word_class(word) == MARK else ""

    @property
    def columns(self) -> dict[str, Callable[[str], str]]:
        """What the columns "seen", "form" and "mark" say of a word."""
        return {"seen": self.seen_as, "form": word_class, "mark": self.mark}
