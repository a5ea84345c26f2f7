"""Tokenisation as a treebank has it, learned from the treebank.

Text is split at whitespace. Punctuation at the edges of a piece becomes tokens of its own, unless the treebank has the
piece as one word ("Mr.", "U.S."). Clitics that the treebank writes as words ("n't", "'s", "l'", "-t-il") are split off,
hyphens are split if the treebank splits them, and contractions are expanded to the words of the treebank's multiword
tokens ("du" to "de le"). The typographic apostrophe counts as the plain one, in the treebank and in text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from trellis.data.document import Document
from trellis.errors import DataError

APOSTROPHES = "'`"
RARE = 2
"""Clitics and contractions seen less often are taken for accidents."""


@dataclass(frozen=True)
class TreebankTokeniser:
    """Splits raw text into the words of a treebank.

    whole : words with punctuation in them that stay whole
    before, after : clitics, in lower case, that are split off at the start and at the end of a word
    contractions : multiword tokens, in lower case, and the words they stand for
    hyphens : whether words are split at hyphens

    >>> tokeniser = TreebankTokeniser(whole=frozenset({"Mr."}), after=("n't",), contractions={"du": ("de", "le")})
    >>> tokeniser.split('Mr. Lee doesn\\'t say "du".')
    ['Mr.', 'Lee', 'does', "n't", 'say', '"', 'de', 'le', '"', '.']
    """

    whole: frozenset[str] = frozenset()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    contractions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    hyphens: bool = False

    @classmethod
    def fit(cls, sentences: Iterable[Document]) -> TreebankTokeniser:
        """Learn from the words of a treebank, and from its multiword tokens where sentences have them."""
        forms: Counter[str] = Counter()
        beside: Counter[tuple[str, str]] = Counter()
        expanded: Counter[tuple[str, tuple[str, ...]]] = Counter()
        for sentence in sentences:
            own_words = [plain_apostrophes(word) for word in sentence.tokens]
            forms.update(own_words)
            beside.update((a.lower(), b.lower()) for a, b in pairwise(own_words))
            for surface, first, last in sentence.multiword:
                expanded[plain_apostrophes(surface).lower(), tuple(w.lower() for w in own_words[first:last])] += 1
        lower: Counter[str] = Counter()
        for form, n in forms.items():
            lower[form.lower()] += n
        mixed = {form: n for form, n in forms.items() if not form.isalnum() and any(map(str.isalnum, form))}
        clitics: Counter[str] = Counter()
        for form, n in mixed.items():
            clitics[form.lower()] += n
        before = [c for c, n in clitics.items() if n >= RARE and c[-1] in APOSTROPHES and c[:-1].isalpha()]
        after = [c for c, n in clitics.items() if n >= RARE and _is_enclitic(c)]
        contractions: dict[str, tuple[str, ...]] = {}
        for (surface, words), n in expanded.most_common():
            if n >= RARE and n > lower[surface]:
                contractions.setdefault(surface, words)
        inside = sum(n for form, n in mixed.items() if "-" in form.strip("-") and form.replace("-", "").isalpha())
        own = {*before, *after}
        split: Counter[str] = Counter()
        for (one, other), n in beside.items():
            if one in own or other in own:
                split[one + other] += n
        return cls(
            frozenset(form for form in mixed if form.lower() not in own and split[form.lower()] < lower[form.lower()]),
            _longest_first(before), _longest_first(after), contractions, forms["-"] > inside,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """What a file keeps of it."""
        return {
            "whole": sorted(self.whole), "before": list(self.before), "after": list(self.after),
            "contractions": {surface: list(words) for surface, words in self.contractions.items()},
            "hyphens": self.hyphens,
        }  # fmt: skip

    @classmethod
    def from_json(cls, parsed: Mapping[str, Any]) -> TreebankTokeniser:
        """The inverse of :meth:`to_json`."""
        if not all((*parsed["before"], *parsed["after"], *parsed["contractions"].values())):
            raise DataError("a clitic or contraction of its tokeniser is empty")
        return cls(
            frozenset(parsed["whole"]), tuple(parsed["before"]), tuple(parsed["after"]),
            {surface: tuple(words) for surface, words in parsed["contractions"].items()}, parsed["hyphens"],
        )  # fmt: skip

    def split(self, text: str) -> list[str]:
        """The words of a text."""
        return [word for piece in plain_apostrophes(text).split() for word in self._words(piece)]

    def _words(self, piece: str) -> Iterator[str]:
        """The words of a piece of text without whitespace."""
        start, stop, closing = 0, len(piece), []
        while start < stop and not self._is_word(piece[start:stop]):
            if not piece[start].isalnum() and piece[start:stop].lower() not in self.after:
                end = _end_of_run(piece, start)
                yield piece[start:end]
                start = end
            elif not piece[stop - 1].isalnum() and piece[start:stop].lower() not in self.before:
                end = stop - 1
                while end > start and piece[end - 1] == piece[stop - 1]:
                    end -= 1
                closing.append(piece[end:stop])
                stop = end
            else:
                break
        if start < stop:
            yield from self._inside(piece[start:stop])
        yield from reversed(closing)

    def _inside(self, word: str) -> Iterator[str]:
        """The words of a piece without punctuation at its edges: clitics, hyphens and contractions."""
        lower, start, stop, enclitics = word.lower(), 0, len(word), []
        if len(lower) != len(word):  # a letter that has no lower case of one character
            lower = word
        while not self._is_word(word[start:stop]):
            before = next((c for c in self.before if lower.startswith(c, start, stop) and len(c) < stop - start), "")
            start += len(before)
            if before:
                yield word[start - len(before) : start]
                continue
            after = next((c for c in self.after if lower.endswith(c, start, stop) and len(c) < stop - start), "")
            if not after:
                break
            stop -= len(after)
            enclitics.append(word[stop : stop + len(after)])
        rest = word[start:stop]
        if self.hyphens and "-" in rest.strip("-") and rest.replace("-", "").isalpha() and rest not in self.whole:
            yield from (part for part in re.split("(-)", rest) if part)
        else:
            yield from self._expanded(rest)
        yield from reversed(enclitics)

    def _is_word(self, piece: str) -> bool:
        return piece.isalnum() or piece in self.whole

    def _expanded(self, word: str) -> Iterator[str]:
        words = self.contractions.get(word.lower())
        if words is None:
            yield word
            return
        yield words[0].capitalize() if word[0].isupper() else words[0]
        yield from words[1:]


def plain_apostrophes(text: str) -> str:
    """The text with the plain apostrophe in place of the typographic one."""
    return text.replace("\u2019", "'")


def _is_enclitic(form: str) -> bool:
    """Whether a form, in lower case, is what follows an apostrophe or a hyphen: 's, n't, -t-il."""
    if form[0] in APOSTROPHES or form[0] == "-":
        return form[1:2].isalpha()
    return len(form) == 3 and form[1] in APOSTROPHES and form.startswith("n")


def _end_of_run(piece: str, start: int) -> int:
    end = start + 1
    while end < len(piece) and piece[end] == piece[start]:
        end += 1
    return end


def _longest_first(clitics: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(clitics, key=lambda clitic: (-len(clitic), clitic)))
