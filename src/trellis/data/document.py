"""Document: tokens, the characters each came from, and layers of annotation. What readers give and writers take.

Every token is a piece of the text, in order; characters between tokens belong to none. A layer is None (or empty) where
nothing is known of it. Documents whose labels, spans or relations a model predicted are marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import isfinite
from numbers import Real
from typing import Any

from trellis.data.bio import runs
from trellis.data.checks import check_list, is_whole
from trellis.errors import DataError, counted

STRINGS, OPTIONAL = (str,), (str, type(None))
"""Types of the entries of layers."""
Offsets = tuple[tuple[int, int], ...]
Labels = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A run of tokens with a label.

    Parameters
    ----------
    label : str or None
        Label; None if unknown.
    first, last : int
        First token and the one after the last.
    start, end : int, default=-1
        First character and the one after the last; a :class:`Document` fills them in.
    text : str, default=""
        Those characters; a :class:`Document` fills them in.
    probability : float or None, default=None
        Probability, of a predicted span.

    Examples
    --------
    >>> Document(("Ann", "Lee", "left"), spans=[Span("NAME", 0, 2)]).spans
    (Span(label='NAME', first=0, last=2, start=0, end=7, text='Ann Lee', probability=None),)
    """

    label: str | None
    first: int
    last: int
    start: int = field(default=-1, compare=False)
    end: int = field(default=-1, compare=False)
    text: str = field(default="", compare=False)
    probability: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between two spans of a document.

    Parameters
    ----------
    first, second : int
        Places of both in the document's ``spans``.
    label : str
        Label of the relation.
    probability : float or None, default=None
        Probability, of a predicted relation.
    """

    first: int
    second: int
    label: str
    probability: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """Tokens of a text with layers of annotation.

    Parameters
    ----------
    tokens : sequence of str
        Tokens.
    labels : sequence of (str or None) or None, default=None
        Label of each token, None where unknown. ``B-X`` begins a field of ``X`` and ``I-X`` continues it; ``X`` alone
        does the same where no two fields of ``X`` touch.
    columns : dict, default={}
        Further strings of the tokens by name, such as ``"head"`` and ``"deprel"`` of a dependency tree.
    text : str, default=""
        Text that the tokens were taken from, in which they are searched in order. By default the tokens with single
        spaces between them.
    offsets : sequence of (int, int), default=()
        First character of each token and the one after its last, where the tokens are not searched.
    probabilities : sequence of float or None, default=None
        Probability of each label, of predicted labels.
    spans : sequence of Span or None, default=None
        Labelled spans, which may overlap.
    relations : sequence of Relation or None, default=None
        Relations between spans.
    votes : dict, default={}
        Votes of labelling functions by name, one per token: a label, or None where a function abstains.
    comments : tuple of str, default=()
        Comment lines before the document, as written.
    path : str or None, default=None
        File the document was read from. Not part of equality.
    line : int or None, default=None
        Line of that file. Not part of equality.
    rows : sequence of int or None, default=None
        Line of each token where each has its own.
    multiword : tuple, default=()
        Surface form, first token and the one after the last of each multiword token of a treebank.
    predicted : bool, default=False
        Whether labels, spans and relations are predictions of a model. Writers mark them as such where the format has
        a place for it. Not part of equality.

    Examples
    --------
    >>> document = Document(("Ann", "Lee", "left"), ("NAME", "NAME", "O"), text="Ann  Lee left")
    >>> len(document), document.offsets
    (3, ((0, 3), (5, 8), (9, 13)))
    """

    tokens: tuple[str, ...]
    labels: Labels | None = None
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    text: str = ""
    offsets: Offsets = ()
    probabilities: tuple[float, ...] | None = None
    spans: Sequence[Span] | None = None
    relations: Sequence[Relation] | None = None
    votes: Mapping[str, Labels] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    path: str | None = field(default=None, compare=False)
    line: int | None = field(default=None, compare=False)
    rows: Sequence[int] | None = field(default=None, compare=False, repr=False)
    multiword: tuple[tuple[str, int, int], ...] = field(default=(), compare=False, repr=False)
    predicted: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        tokens = self._strings("tokens", self.tokens)
        keep("tokens", tokens)
        if not isinstance(self.text, str):
            raise self._refused(f"text must be a string, got {self.text!r:.60}")
        if self.labels is not None:
            keep("labels", self._strings("labels", self.labels, missing=True))
            self._check_length(self.labels or (), "labels")
        keep("columns", self._table("columns", "entries in column {!r}", self.columns, missing=False))
        keep("votes", self._table("votes", "votes of function {!r} (None is an abstention)", self.votes, missing=True))
        if self.probabilities is not None:
            keep("probabilities", self._numbers(self.probabilities))
            self._check_length(self.probabilities or (), "probabilities")
        if not self.text and tokens:
            keep("text", " ".join(tokens))
            keep("offsets", _beside(tokens))
        else:
            keep("offsets", self._pairs(self.offsets))
            if len(self.offsets) != len(tokens):
                keep("offsets", self._found())
        if self.spans is not None:
            spans = self._items("spans", self.spans, Span)
            keep("spans", tuple([self._placed(number, span) for number, span in enumerate(spans)]))
        if self.relations is not None:
            keep("relations", self._items("relations", self.relations, Relation))
            self._check_relations()

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        layers = ("labels", "columns", "probabilities", "spans", "relations", "votes")
        known = (f"{name}={value!r}" for name in layers if (value := getattr(self, name)) not in (None, {}))
        return f"Document({', '.join([repr(self.tokens), *known])})"

    def _repr_html_(self) -> str:
        from trellis.data.display import document_html

        return document_html(self)

    @property
    def heads(self) -> tuple[int | None, ...] | None:
        """Heads of the tokens by the column "head": 0 the root, k the k-th token, None where unknown.

        >>> Document(("dogs", "bark"), columns={"head": ("2", "0")}).heads
        (2, 0)
        """
        cells = self.columns.get("head")
        return None if cells is None else tuple([int(cell) if cell.isdecimal() else None for cell in cells])

    def line_of(self, token: int) -> int | None:
        """Line of a token in the file."""
        return self.line if self.rows is None else self.rows[token]

    def span(self, first: int, last: int, label: str | None = None, probability: float | None = None) -> Span:
        """Span of tokens first..last−1.

        >>> Document(("Ann", "Lee", "left")).span(0, 2, "NAME").text
        'Ann Lee'
        """
        return self._placed(0, Span(label, first, last, probability=probability))

    def _placed(self, number: int, span: Span) -> Span:
        first, last = span.first, span.last
        if not (is_whole(first) and is_whole(last)):
            raise self._refused(f"span {number} covers tokens {first!r}..{last!r}, which are no numbers of tokens")
        if not 0 <= first < last <= len(self.tokens):
            raise self._refused(f"span {number} covers tokens {first}..{last - 1}, but there are {len(self.tokens)}")
        start, end = self.offsets[first][0], self.offsets[last - 1][1]
        if span.start == start and span.end == end:
            return span
        return replace(span, first=int(first), last=int(last), start=start, end=end, text=self.text[start:end])

    def _items(self, name: str, given: object, kind: type) -> tuple[Any, ...]:
        """A layer as a tuple of objects."""
        found = _tuple(given)
        if found is None or not all(isinstance(one, kind) for one in found):
            raise self._refused(f"{name} must be a list of {kind.__name__} objects, got {given!r:.60}")
        return found

    def _strings(self, name: str, given: object, *, missing: bool = False) -> tuple[Any, ...]:
        """A layer as a tuple of strings; missing : None may be among them."""
        found = _tuple(given)
        kinds = OPTIONAL if missing else STRINGS
        if found is None:
            raise self._refused(f"{name} must be a list with a string for each token, got {given!r:.60}")
        if not set(map(type, found)) <= {*kinds}:
            for one in found:
                if not isinstance(one, kinds):
                    raise self._refused(
                        f"{name} must be a list with a string for each token, but has {one!r:.60} in it"
                    )
        return found

    def _table(self, name: str, entries: str, given: object, *, missing: bool) -> Mapping[str, Any]:
        """Layers by name, each a tuple of strings."""
        if isinstance(given, dict) and not given:
            return given
        if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
            raise self._refused(f"{name} must be a dictionary of lists by name, got {given!r:.60}")
        found = {key: self._strings(f"{name}[{key!r}]", cells, missing=missing) for key, cells in given.items()}
        for key, cells in found.items():
            self._check_length(cells, entries.format(key))
        return found

    def _numbers(self, given: object) -> tuple[float, ...]:
        found = _tuple(given)
        if found is None or not all(isinstance(one, Real) and isfinite(one) for one in found):
            raise self._refused(f"probabilities must be a list with a number for each token, got {given!r:.60}")
        return tuple(map(float, found))

    def _pairs(self, given: object) -> Offsets:
        """Offsets as pairs; those in a tuple are."""
        if isinstance(given, tuple):
            return given
        try:
            return tuple([(int(start), int(end)) for start, end in given])  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            raise self._refused(f"offsets must be a list of pairs (start, end), got {given!r:.60}") from None

    def _found(self) -> Offsets:
        """Tokens searched in the text, one after the other."""
        if self.offsets:
            raise self._refused(
                f"found {counted(len(self.tokens), 'token')} but {counted(len(self.offsets), 'offset')}"
            )
        found, at = [], 0
        for token in self.tokens:
            start = self.text.find(token, at)
            if start < 0:
                raise self._refused(f"token {token!r} is not in the text in its order")
            at = start + len(token)
            found.append((start, at))
        return tuple(found)

    def _check_length(self, given: Sequence[object], what: str) -> None:
        if len(given) != len(self.tokens):
            raise self._refused(f"found {counted(len(self.tokens), 'token')} but {len(given)} {what}")

    def _check_relations(self) -> None:
        n, seen = len(self.spans or ()), set()
        for r in self.relations or ():
            if not (0 <= r.first < n and 0 <= r.second < n) or r.first == r.second:
                raise self._refused(f"a relation from span {r.first} to span {r.second}, but there are {n} spans")
            if (r.first, r.second, r.label) in seen:
                raise self._refused(f"the relation {r.label!r} from span {r.first} to span {r.second} is there twice")
            seen.add((r.first, r.second, r.label))

    def _refused(self, message: str) -> DataError:
        return DataError(message, path=self.path, line=self.line)


def _tuple(given: Any) -> tuple[Any, ...] | None:
    """A list as a tuple; None if it is something else."""
    if isinstance(given, tuple):
        return given
    try:
        return None if isinstance(given, str | bytes | Mapping | Set) else tuple(given)
    except TypeError:
        return None


def _beside(tokens: Iterable[str]) -> Offsets:
    """Offsets of tokens with single spaces between them."""
    found, at = [], 0
    for token in tokens:
        end = at + len(token)
        found.append((at, end))
        at = end + 1
    return tuple(found)


def check_documents(items: Any) -> Iterator[Document]:
    """Documents one by one; anything else is refused."""
    for number, one in enumerate(check_list(items, "documents")):
        yield check_document(one, f"entry {number}")


def check_document(item: Any, what: str = "it") -> Document:
    """Return a document; what : how the message names anything else."""
    if not isinstance(item, Document):
        raise DataError(f"expected a Document, but {what} is {item!r:.60}")
    return item


def without_predictions(document: Document) -> Document:
    """The document, without labels, spans and relations if they are predictions.

    >>> without_predictions(Document(("Ann",), ("NAME",), predicted=True)).labels is None
    True
    """
    if not document.predicted:
        return document
    return replace(document, labels=None, probabilities=None, spans=None, relations=None, predicted=False)


def fields_of(document: Document, labels: Iterable[str | None]) -> list[Span]:
    """The fields that token labels give a document, in order.

    >>> [(f.label, f.text) for f in fields_of(Document(("Ann", "Lee", "1999")), ["AUTHOR", "AUTHOR", "DATE"])]
    [('AUTHOR', 'Ann Lee'), ('DATE', '1999')]

    A field that follows one of its own label begins where the label has B- before it (:mod:`trellis.data.bio`).
    """
    return [document.span(first, last, label) for label, first, last in runs(tuple(labels))]


def line_numbers(numbers: list[int]) -> Sequence[int]:
    """Rising line numbers, as a range where none is left out: lines of a document cost nothing then."""
    if numbers and numbers[-1] - numbers[0] == len(numbers) - 1:
        return range(numbers[0], numbers[-1] + 1)
    return tuple(numbers)


AROUND = 40
"""Characters of the text that an excerpt has before and after its tokens."""


def excerpt(document: Document, first: int = 0, last: int = 0) -> str:
    """The characters around tokens first..last−1, with these in square brackets; without tokens how the text begins.

    >>> excerpt(Document(("Ann", "Lee", "1999")), 1, 2)
    'Ann [Lee] 1999'
    """
    text = document.text
    if first >= last:
        return text if len(text) <= 2 * AROUND else f"{text[: 2 * AROUND]}..."
    start, end = document.offsets[first][0], document.offsets[last - 1][1]
    before, after = text[max(start - AROUND, 0) : start], text[end : end + AROUND]
    cut = ("..." if start > AROUND else "", "..." if end + AROUND < len(text) else "")
    return f"{cut[0]}{before}[{text[start:end]}]{after}{cut[1]}"
