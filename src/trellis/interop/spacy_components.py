"""Trained models as components of a spaCy pipeline: trellis_extract, trellis_tag, trellis_parse, trellis_relate.

    nlp = spacy.blank("en")
    nlp.add_pipe("trellis_extract", config={"path": "fields.trellis"})

The tokens of the pipeline are kept. Where sentences are marked, all but extraction take each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from trellis.data.document import Document, Relation, Span
from trellis.errors import DataError
from trellis.interop.needed import needed
from trellis.interop.spacy import PREDICTED, extend, from_doc, places_of, set_heads, set_labels, set_spans
from trellis.models.saving import load_model

needed("spacy", "spacy")
from spacy.language import Language  # noqa: E402
from spacy.tokens import Doc  # noqa: E402

FILE = "model.trellis"
"""Of a component in the folder of a saved pipeline."""


@dataclass
class Component:
    """A model in a pipeline; it is read from its file when it is first used.

    answer : the model, documents of all sentences -> their documents with the new layers
    write : puts the new layers of a Doc's sentences on it
    """

    name: str
    path: str | None
    needs: str
    answer: Callable[[Any, list[Document]], list[Document]]
    write: Callable[[Doc, Document, list[int]], None]
    by_sentence: bool = True
    _model: Any = field(default=None, repr=False)

    def _loaded(self) -> Any:
        """The model. (No property: spaCy looks at attributes of components while a pipeline is put together.)"""
        if self._model is None:
            if self.path is None:
                raise DataError(f'{self.name} needs a model file: nlp.add_pipe("{self.name}", config={{"path": ...}})')
            self._take(self.path)
        return self._model

    def _take(self, path: str | Path) -> None:
        model = load_model(path)
        if not hasattr(model, self.needs):
            raise DataError(f"{path}: holds a {type(model).__name__}, which {self.name} cannot use")
        self._model = model

    def __call__(self, doc: Doc) -> Doc:
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], batch_size: int = 128) -> Iterator[Doc]:
        """Docs one by one, predicted so many at a time."""
        docs = iter(stream)
        while some := list(islice(docs, batch_size)):
            whole = [from_doc(doc) for doc in some]
            cuts = [self._cuts(doc) for doc in some]
            parts = [_part(one, first, last) for one, own in zip(whole, cuts, strict=True) for first, last in own]
            found = iter(self.answer(self._loaded(), [part for part in parts if len(part)]))
            answers = iter([next(found) if len(part) else part for part in parts])
            for doc, one, own in zip(some, whole, cuts, strict=True):
                if len(one):
                    self.write(doc, _joined(one, [next(answers) for _ in own]), places_of(doc))
                yield doc

    def _cuts(self, doc: Doc) -> list[tuple[int, int]]:
        """The sentences of a Doc, by tokens of its document."""
        places = places_of(doc)
        if not places:
            return []
        if not self.by_sentence or not doc.has_annotation("SENT_START"):
            return [(0, len(places))]
        starts = [k for k, place in enumerate(places) if k == 0 or _begins(doc, places[k - 1], place)]
        return list(zip(starts, [*starts[1:], len(places)], strict=True))

    def to_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> None:
        """Write the model into the folder of a pipeline."""
        Path(path).mkdir(parents=True, exist_ok=True)
        self._loaded().save(Path(path) / FILE)

    def from_disk(self, path: str | Path, *, exclude: Sequence[str] = ()) -> Component:
        """Read the model from there."""
        self._take(Path(path) / FILE)
        return self


def _begins(doc: Doc, before: int, place: int) -> bool:
    return any(doc[at].is_sent_start for at in range(before + 1, place + 1))


def _part(document: Document, first: int, last: int) -> Document:
    """Tokens first..last−1 as a document of their own."""
    if (first, last) == (0, len(document)):
        return document
    start, end = document.offsets[first][0], document.offsets[last - 1][1]
    return Document(
        document.tokens[first:last],
        None if document.labels is None else document.labels[first:last],
        {name: cells[first:last] for name, cells in document.columns.items()},
        document.text[start:end],
        tuple([(a - start, b - start) for a, b in document.offsets[first:last]]),
    )


def _joined(whole: Document, parts: Sequence[Document]) -> Document:
    """The new layers of its parts as those of the whole."""
    if len(parts) == 1:
        return parts[0]
    at, spans, relations = 0, list[Span](), list[Relation]()
    columns: dict[str, list[str]] = {}
    for part in parts:
        relations += [
            replace(r, first=r.first + len(spans), second=r.second + len(spans)) for r in part.relations or ()
        ]
        spans += [whole.span(s.first + at, s.last + at, s.label, s.probability) for s in part.spans or ()]
        for name, cells in part.columns.items():
            shifted = [str(int(c) + at) if c.isdecimal() and int(c) else c for c in cells] if name == "head" else cells
            columns.setdefault(name, []).extend(shifted)
        at += len(part)
    labels = tuple([label for part in parts for label in part.labels or (None,) * len(part)])
    kept = {name: tuple(cells) for name, cells in columns.items() if len(cells) == len(whole)}
    return replace(whole, labels=labels, columns=kept, spans=spans, relations=relations)


def _bare(documents: Iterable[Document]) -> list[Document]:
    return [replace(one, labels=None, columns={}, spans=None, relations=None, votes={}) for one in documents]


@Language.factory("trellis_extract", default_config={"path": None, "spans_key": "trellis", "ents": True})
def make_extract(nlp: Language, name: str, path: str | None, spans_key: str, ents: bool) -> Component:
    """Fields of a trained :class:`~trellis.Extractor`: ``doc.spans[spans_key]`` and, if asked, ``doc.ents``."""

    def write(doc: Doc, found: Document, places: list[int]) -> None:
        set_spans(doc, found.spans or (), places, spans_key)
        if ents:
            set_labels(doc, found.labels or (), places)
            doc.user_data[PREDICTED] = True

    return Component(
        name, path, "extract", lambda model, texts: list(model.extract(_bare(texts))), write, by_sentence=False
    )


@Language.factory("trellis_tag", default_config={"path": None})
def make_tag(nlp: Language, name: str, path: str | None) -> Component:
    """Tags of a trained :class:`~trellis.Tagger`: ``token.tag_``, and ``token.pos_`` where it is a tag of UD."""
    from spacy.parts_of_speech import NAMES

    def write(doc: Doc, found: Document, places: list[int]) -> None:
        for place, tag in zip(places, found.labels or (), strict=True):
            doc[place].tag_ = tag or ""
            if tag in NAMES.values():
                doc[place].pos_ = tag

    return Component(name, path, "crf_", lambda model, texts: model.predict(_bare(texts)), write)


@Language.factory("trellis_parse", default_config={"path": None})
def make_parse(nlp: Language, name: str, path: str | None) -> Component:
    """Trees of a trained :class:`~trellis.Parser` over tagged tokens: ``token.head`` and ``token.dep_``."""

    def answer(model: Any, texts: list[Document]) -> list[Document]:
        tagged = []
        for bare, text in zip(_bare(texts), texts, strict=True):
            tags = next((text.columns[key] for key in ("upos", "tag") if key in text.columns), None)
            if tags is None:
                raise DataError(f"{name} needs tags: put trellis_tag or another tagger before it in the pipeline")
            tagged.append(replace(bare, labels=tags))
        found: list[Document] = model.predict(tagged)
        return found

    def write(doc: Doc, found: Document, places: list[int]) -> None:
        set_heads(doc, found, places)

    return Component(name, path, "attachment", answer, write)


@Language.factory("trellis_relate", default_config={"path": None, "spans_key": "trellis", "use_ents": False})
def make_relate(nlp: Language, name: str, path: str | None, spans_key: str, use_ents: bool) -> Component:
    """Entities and relations of a trained :class:`~trellis.Relater`: a span group, ``doc._.trellis_relations``.

    use_ents : relate the entities of the Doc, in place of those that the model finds
    """
    extend()

    def answer(model: Any, texts: list[Document]) -> list[Document]:
        from trellis.data.document import fields_of

        given = []
        for bare, text in zip(_bare(texts), texts, strict=True):
            tags = next((text.columns[key] for key in ("upos", "tag") if key in text.columns), None)
            spans = [replace(s, label=None) for s in fields_of(text, text.labels or ())] if use_ents else None
            given.append(replace(bare, spans=spans, columns={} if tags is None else {"tag": tags}))
        found: list[Document] = model.predict(given)
        return found

    def write(doc: Doc, found: Document, places: list[int]) -> None:
        set_spans(doc, found.spans or (), places, spans_key)
        doc._.trellis_relations = [[r.first, r.second, r.label, r.probability] for r in found.relations or ()]

    return Component(name, path, "with_mentions", answer, write)
