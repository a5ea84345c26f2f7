"""Labelling functions: functions, regular expressions, phrase lists, models and saved answers that vote on texts.

    texts ──apply_functions──▶ documents with votes ──Aggregator──▶ labels ──Extractor.fit──▶ a model

A function votes on tokens, on spans or on whole texts, or abstains.
"""

from __future__ import annotations

import inspect
import multiprocessing
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import regex

from trellis.data.bio import BEGINS, GOES_ON, everywhere, split_bio
from trellis.data.checks import check_flag, check_list, check_names, is_list, is_whole
from trellis.data.document import Document, Labels, Span
from trellis.data.tokens import SECONDS, WORDS, TextLike, Tokeniser, as_documents, check_text
from trellis.data.voted import votes_of_spans
from trellis.engine.progress import Progress
from trellis.errors import DataError, check_name, counted

ON = ("tokens", "spans", "text", "documents")
ANSWERS = ("spans", "text")
SLOW = "the regular expression takes too long: avoid nested repetitions such as (a+)+"
CHUNK = 64
"""Texts per task of a worker process."""


@dataclass(frozen=True)
class LabellingFunction:
    """A function that votes on documents.

    Parameters
    ----------
    function : callable
        Function to call; see :func:`labelling_function`.
    name : str
        Name of the function.
    label : str or None, default=None
        Label it votes for; None if the function returns labels.
    on : {"tokens", "spans", "text", "documents"}, default="tokens"
        What the function is called with.
    bio : bool, default=True
        Whether neighbouring tokens with one label are one entity.
    """

    function: Callable[..., Any]
    name: str
    label: str | None = None
    on: str = "tokens"
    bio: bool = True

    def __post_init__(self) -> None:
        check_name("kind of labelling function", self.on, ON)
        check_flag("bio", self.bio)
        function: Any = self.function
        name: Any = self.name
        label: Any = self.label
        if not callable(function):
            raise DataError(f"a labelling function is made of a function, got {function!r:.60}")
        if not isinstance(name, str) or not name:
            raise DataError(f"the name of a labelling function must be a string, got {name!r:.60}")
        if not isinstance(label, str | None) or label == "":
            raise DataError(f"the label of the labelling function {self.name!r} must be a string, got {self.label!r}")

    def votes(self, documents: Sequence[Document], first: int = 0) -> list[Labels]:
        """Votes on the tokens of documents; a function on texts gives one vote for a text.

        first : number of the first document, for error messages
        """
        where = f"labelling function {self.name!r}"
        each: Iterable[tuple[Any, ...]] = zip(documents, strict=True)
        if self.on == "documents":
            with _naming(where):
                each = zip(documents, self._answers(documents), strict=True)
        found = []
        for number, given in enumerate(each, first):
            with _naming(f"{where}, text {number}"):
                found.append(getattr(self, f"_on_{self.on}")(*given))
        return found

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def _on_tokens(self, text: Document) -> Labels:
        in_context = _takes_context(self.function)
        found = [self.function(text, t) if in_context else self.function(token) for t, token in enumerate(text.tokens)]
        labels = tuple([self._named(one) for one in found])
        marked = any(label is not None and label[:2] in (BEGINS, GOES_ON) for label in labels)
        return tuple(map(_abstain, everywhere(labels), labels)) if self.bio and not marked else labels

    def _on_spans(self, text: Document) -> Labels:
        spans, given = [], self.function(text)
        is_scalar = isinstance(given, np.ndarray) and not given.ndim
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable | None) or is_scalar:
            raise DataError(f"returned {given!r:.60}: expected a list of spans")
        for found in () if given is None else given:
            first, last, label = self._span(found)
            spans.append((first, last, str(self._named(label or True))))
        return votes_of_spans(len(text), spans)

    def _span(self, found: Any) -> tuple[int, int, str | None]:
        if isinstance(found, Span):
            return found.first, found.last, found.label
        span = tuple(found) if is_list(found) else ()
        if len(span) not in (2, 3) or not all(map(is_whole, span[:2])) or not all(isinstance(y, str) for y in span[2:]):
            raise DataError(
                f"returned {found!r:.60}: a span is (first token, end), with a label as third entry if the function "
                "has none"
            )
        return int(span[0]), int(span[1]), span[2] if len(span) == 3 else None

    def _answers(self, documents: Sequence[Document]) -> Sequence[Sequence[Any]]:
        found: Any = self.function(documents)
        if not is_list(found) or len(found) != len(documents) or not all(map(is_list, found)):
            raise DataError(
                f"returned {found!r:.60}: expected a list with the votes on the tokens of each of "
                f"{counted(len(documents), 'document')}"
            )
        return list(found)

    def _on_documents(self, text: Document, own: Sequence[Any]) -> Labels:
        if len(own) != len(text):
            raise DataError(f"returned {counted(len(own), 'vote')} on {counted(len(text), 'token')}")
        return tuple(map(self._named, own))

    def _on_text(self, text: Document) -> Labels:
        return (self._named(self.function(text.text)),)

    def _named(self, found: Any) -> str | None:
        if found is None or found is False:
            return None
        if isinstance(found, str):
            if self.label not in (None, found, split_bio(found)[1]):
                raise DataError(
                    f"returned {found!r} but votes for {self.label!r}: return True or False, or leave the label out of "
                    "labelling_function(...)"
                )
            return found
        if self.label is None or not isinstance(found, bool | np.bool_):  # −1 is true, and abstains elsewhere
            raise DataError(
                f"returned {found!r}: return a label or None, or return True or False and name the label: "
                "labelling_function(label=...)"
            )
        return self.label if found else None


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Errors say which function raised them, and on which text."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
    except Exception as error:
        error.add_note(f"(in the {where})")
        raise


def _takes_context(function: Callable[..., Any]) -> bool:
    """Whether a function on tokens is called with a document and a place: it has two parameters without defaults."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some built-in functions have none
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.default is one.empty and one.kind in positional for one in parameters) > 1


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def _abstain(marked: str | None, label: str | None) -> str | None:
    return None if label is None else marked


def labelling_function(
    label: str | Callable[..., Any] | None = None, *, on: str = "tokens", name: str | None = None, bio: bool = True
) -> Any:
    """Make a labelling function of a Python function.

    Parameters
    ----------
    label : str or None, default=None
        Label it votes for where it returns True. None: it returns a label, or None where it abstains. Then
        ``@labelling_function`` needs no parentheses.
    on : {"tokens", "spans", "text", "documents"}, default="tokens"
        ``"tokens"``: it is called with a token, or with the document and the place of a token. ``"spans"``: with a
        document, and returns (first token, end) pairs. ``"text"``: with the string of a text, which has one label as a
        whole. ``"documents"``: with a list of documents, and returns the votes on the tokens of each.
    name : str or None, default=None
        Name in the votes. By default, that of the Python function.
    bio : bool, default=True
        Whether neighbouring tokens with one label are one entity.

    Examples
    --------
    >>> @labelling_function(label="DRUG")
    ... def suffix(token):
    ...     return token.endswith("cillin")
    >>> apply_functions([suffix], ["take amoxicillin"])[0].votes
    {'suffix': (None, 'B-DRUG')}
    """

    if callable(label):
        return LabellingFunction(label, _name_of(label) if name is None else name, None, on, bio)
    made = partial(LabellingFunction, label=label, on=on, bio=bio)
    made(labelling_function, name="any" if name is None else name)  # settings are checked first
    return lambda function: made(function, name=_name_of(function) if name is None else name)


def pattern_function(label: str, pattern: str, name: str | None = None, *, on: str = "spans") -> LabellingFunction:
    """Vote for the tokens inside every match of a regular expression, or with ``on="text"`` for texts with a match.

    >>> [text] = apply_functions([pattern_function("YEAR", r"(19|20)\\d\\d")], ["In 1999."])
    >>> text.votes
    {'YEAR pattern': (None, 'B-YEAR', None)}
    """
    check_name("kind of pattern function", on, ANSWERS)
    try:
        check_text(pattern)
        compiled = regex.compile(pattern)
    except (regex.error, TypeError) as error:
        raise DataError(f"{pattern!r} is not a valid regular expression: {error}") from None

    def spans(text: Document) -> Iterator[tuple[int, int]]:
        try:
            for found in compiled.finditer(text.text, timeout=SECONDS):
                inside = tokens_within(text, *found.span())
                if inside is not None:
                    yield inside
        except TimeoutError:
            raise DataError(SLOW) from None

    def whole(text: str) -> bool:
        try:
            return compiled.search(text, timeout=SECONDS) is not None
        except TimeoutError:
            raise DataError(SLOW) from None

    return LabellingFunction(whole if on == "text" else spans, f"{label} pattern" if name is None else name, label, on)


def list_function(
    label: str, phrases: Iterable[str], name: str | None = None, *, ignore_case: bool = True
) -> LabellingFunction:
    """Vote for the phrases of a list, the longest first.

    >>> [text] = apply_functions([list_function("PLACE", ["new york", "york"])], ["to New York"])
    >>> text.votes
    {'PLACE list': (None, 'B-PLACE', 'I-PLACE')}
    """
    fold = str.casefold if ignore_case else str
    listed = set(map(str, phrases)) if isinstance(phrases, Set) else check_names(phrases, "phrases")
    known = {tuple(fold(token) for token in WORDS.cut(phrase).tokens) for phrase in listed} - {()}
    longest = max(map(len, known), default=0)

    def spans(text: Document) -> Iterator[tuple[int, int]]:
        tokens, at = [fold(token) for token in text.tokens], 0
        while at < len(tokens):
            ahead = tokens[at : at + longest]
            n = next((n for n in range(len(ahead), 0, -1) if tuple(ahead[:n]) in known), 0)
            if n:
                yield at, at + n
            at += n or 1

    return LabellingFunction(spans, f"{label} list" if name is None else name, label, "spans")


def model_function(model: Any, name: str, *, threshold: float = 0.0) -> LabellingFunction:
    """Vote for the fields that a trained extractor finds, those with at least a probability of ``threshold``."""
    if not hasattr(model, "extract"):
        raise DataError(f"expected a trained Extractor, got {type(model).__name__}")
    model._check_fitted()
    if not isinstance(threshold, Real) or not 0.0 <= threshold <= 1.0:
        raise DataError(f"threshold must be a probability, from 0 to 1, got {threshold!r}")

    def votes(documents: Sequence[Document]) -> list[Labels]:
        bare = [replace(text, labels=None, columns={}, votes={}) for text in documents]
        found = model.extract(bare, probabilities=threshold > 0.0)
        return [
            votes_of_spans(
                len(text), [(s.first, s.last, s.label) for s in text.spans if (s.probability or 1.0) >= threshold]
            )
            for text in found
        ]

    return LabellingFunction(votes, name, None, "documents")


def tokens_within(text: Document, start: int, end: int) -> tuple[int, int] | None:
    """First token that overlaps characters start..end−1, and the one after the last; None if there is none."""
    touched = [t for t, (low, high) in enumerate(text.offsets) if low < end and high > start]
    return (touched[0], touched[-1] + 1) if touched and start < end else None


def apply_functions(
    functions: Iterable[LabellingFunction],
    texts: Iterable[TextLike],
    *,
    tokeniser: Tokeniser = WORDS,
    n_jobs: int = 1,
    verbose: bool = False,
) -> list[Document]:
    """Return the texts as documents with the votes of labelling functions.

    Parameters
    ----------
    functions : list of LabellingFunction
        Functions. If one is on whole texts, all are, and each text is a document of one token.
    texts : list of str, list of str or Document
        Texts.
    tokeniser : Tokeniser, default=WORDS
        How strings are cut.
    n_jobs : int, default=1
        Number of worker processes.
    verbose : bool, default=False
        Show progress on standard error.
    """
    chosen = list(check_list(functions, "labelling functions"))
    documents = as_documents(texts, tokeniser=tokeniser)
    for function in chosen:
        if not isinstance(function, LabellingFunction):
            raise DataError(f"{function!r:.60} is not a labelling function: decorate it with @labelling_function")
    if not is_whole(n_jobs) or n_jobs < 1:
        raise DataError(f"n_jobs must be a whole number of processes, 1 or more, got {n_jobs!r}")
    names = [function.name for function in chosen]
    if len(set(names)) < len(names):
        raise DataError(f"two labelling functions have the same name, among {names}: rename one with name=...")
    whole = {function.on == "text" for function in chosen}
    if len(whole) > 1:
        raise DataError("some labelling functions label whole texts and others tokens: apply each kind on its own")
    if True in whole:
        documents = [Document((text.text,), path=text.path, line=text.line) for text in documents]
    chunks = [documents[at : at + CHUNK] for at in range(0, len(documents), CHUNK)]
    found: list[Document] = []
    with Progress("applying labelling functions", len(documents), verbose, "texts") as progress:
        for votes, chunk in zip(_voted(chosen, chunks, n_jobs), chunks, strict=True):
            for number, text in enumerate(chunk):
                own = dict(zip(names, (votes[f][number] for f in range(len(chosen))), strict=True))
                found.append(replace(text, votes={**text.votes, **own}))
            progress.advance(len(found))
    return found


_AT_WORK: list[LabellingFunction] = []
"""Functions of the worker processes, which inherit them: functions of a script or notebook cannot be sent."""


def _voted(
    functions: list[LabellingFunction], chunks: list[list[Document]], n_jobs: int
) -> Iterator[list[list[Labels]]]:
    if n_jobs <= 1 or len(chunks) <= 1 or sys.platform == "win32":
        yield from map(partial(_all_votes, functions), range(0, len(chunks) * CHUNK, CHUNK), chunks)
        return
    _AT_WORK[:] = functions
    with ProcessPoolExecutor(n_jobs, multiprocessing.get_context("fork")) as pool:
        yield from pool.map(_inherited_votes, range(0, len(chunks) * CHUNK, CHUNK), chunks)


def _all_votes(functions: Sequence[LabellingFunction], first: int, texts: Sequence[Document]) -> list[list[Labels]]:
    return [function.votes(texts, first) for function in functions]


def _inherited_votes(first: int, texts: Sequence[Document]) -> list[list[Labels]]:
    return _all_votes(_AT_WORK, first, texts)
