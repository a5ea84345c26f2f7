"""Warnings about labelled texts: tokens that differ from those of raw text, and labels that look misspelt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from trellis.cli.console import visible

if TYPE_CHECKING:
    from trellis.apps.extract.extractor import Extractor
    from trellis.constraints import RulesFile
    from trellis.data.document import Document
    from trellis.data.tokens import OtherTokens, Tokeniser

FEW = 0.01
"""If a smaller share of a model's known words differs, it was trained on tokens of its rules' tokeniser."""


def warn_of_tokens(texts: Iterable[Document], tokeniser: Tokeniser, rules: str) -> None:
    """Warn if labelled tokens differ from those of the rules file's tokeniser, and name the line to add."""
    from trellis.data.tokens import other_tokens

    found = other_tokens(texts, tokeniser)
    if found is None:
        return
    if found.instead is None:
        remedy = (
            f"Label tokens that `trellis extract tokens --rules {rules}` writes, or give a token_pattern in {rules}"
        )
    else:
        remedy = f'Add this line at the top of {rules}: tokens = "{found.instead}"'
    _warn(f"{_said(found)} from how {rules} tokenises raw text: {_example(found)}. {remedy}")


def warn_of_labels(texts: Iterable[Document], rules: RulesFile) -> None:
    """Warn of a label that occurs once and differs in one letter from another one, unless the rules declare labels."""
    from trellis.data.bio import unmarked

    if rules.labels is not None:
        return
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for text in texts:
        own = {name: at for at, name in reversed(list(enumerate(unmarked(text.labels or ())))) if name is not None}
        counts.update(own.keys())
        for name in own.keys() - first.keys():
            first[name] = f"{text.path}, line {text.line_of(own[name])}"
    for name, usual in ((a, b) for a in counts for b in counts if counts[a] == 1 < counts[b] and is_one_edit(a, b)):
        _warn(
            f"the label {name!r} ({first[name]}) occurs in one text only: is it {usual!r} misspelt? Correct it, or "
            "declare all labels in the rules file, labels = [...]"
        )


def is_one_edit(one: str, other: str) -> bool:
    """Whether two names of four letters or more differ in their case, or in one letter or two that are swapped.

    >>> is_one_edit("YAER", "YEAR"), is_one_edit("Year", "YEAR"), is_one_edit("TITLE", "EDITOR")
    (True, True, False)
    """
    one, other = one.casefold(), other.casefold()
    if min(len(one), len(other)) < 4:
        return False
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


class PredictedTokens:
    """Compares the texts of a prediction with the tokens that the model was trained on.

    is_cut : whether the texts are raw and were tokenised by the model's own tokeniser
    """

    def __init__(self, extractor: Extractor, is_cut: bool) -> None:
        self.tokeniser, self.is_cut = extractor.tokeniser_, is_cut
        words = sorted(extractor.classes_of_words_.common)
        self.trained = _of_words(words, self.tokeniser)
        if self.trained is not None and self.trained.n < FEW * self.trained.total:
            self.trained = None
        self.found: OtherTokens | None = None

    def look_at(self, texts: Iterable[Document]) -> None:
        """Look for a text, given as tokens, whose tokens differ; stop after the first."""
        from trellis.data.tokens import other_tokens

        if not self.is_cut and self.trained is None and self.found is None:
            self.found = other_tokens(texts, self.tokeniser)

    def warn(self, text: str) -> None:
        """Print the warning on standard error."""
        if self.is_cut and self.trained is not None:
            kind = self.trained.instead
            line = "a token_pattern" if kind is None else f'tokens = "{kind}"'
            _warn(
                f"the model was trained on other tokens than its rules cut {text} into: {_example(self.trained)}. "
                f"Train it again with {line} in the rules file, or predict from tokens like those it was trained on"
            )
        elif self.found is not None:
            _warn(
                f"{_said(self.found)} from those that the model was trained on: {_example(self.found)}. "
                "Give raw text, or cut it by `trellis extract tokens` with the model's rules file"
            )


def _of_words(words: list[str], tokeniser: Tokeniser) -> OtherTokens | None:
    from trellis.data.document import Document
    from trellis.data.tokens import other_tokens

    return other_tokens([Document((word,)) for word in words], tokeniser)


def _said(found: OtherTokens) -> str:
    return f"{found.n} of {found.total} tokens differ"


def _example(found: OtherTokens) -> str:
    where = "" if found.path is None or found.line is None else f" ({found.path}, line {found.line})"
    return f"{found.word!r}{where} would be {' '.join(map(repr, found.pieces))}"


def _warn(message: str) -> None:
    typer.echo(visible(f"Warning: {message}"), err=True)
