"""Warnings about labelled tokens that differ from the tokenisation of raw text in the rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from trellis.cli.console import visible

if TYPE_CHECKING:
    from trellis.apps.extract.extractor import Extractor
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
