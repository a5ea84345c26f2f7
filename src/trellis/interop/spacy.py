"""Documents as spaCy's ``Doc`` and back (:func:`to_doc`, :func:`from_doc`), several in a ``DocBin``.

    labels      doc.ents; tokens with an unknown label have a missing entity
    spans       doc.spans["trellis"], with the probabilities in its ``attrs``
    votes       doc.spans[function], as skweak keeps them
    columns     doc._.trellis_columns; "head" and "deprel" are also token.head and token.dep_
    relations   doc._.trellis_relations
    predicted   doc.user_data["trellis_predicted"]

A ``Doc`` has tokens for white space other than single spaces, a Document has none: they are added and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from trellis.data.bio import NO_FIELD, runs
from trellis.data.checks import check_list, check_names, is_list, is_whole
from trellis.data.document import Document, Labels, Relation, Span, check_document, check_documents
from trellis.data.files import reason, shown
from trellis.data.voted import votes_of_spans
from trellis.errors import DataError, counted
from trellis.interop.needed import needed

KEY = "trellis"
"""Span group of predictions."""
TOKENS = "trellis_tokens"
"""Entry of ``user_data``: which tokens of a Doc are those of the Document, where others were added."""
PREDICTED = "trellis_predicted"
"""Entry of ``user_data``: entities, spans and relations are predictions."""
PROBABILITIES = "probabilities"


def to_doc(document: Document, vocab: Any = None, *, key: str = KEY) -> Any:
    """A ``Doc`` with the layers of a document.

    Parameters
    ----------
    document : Document
        Document.
    vocab : spacy.Vocab or None, default=None
        Vocabulary of a pipeline, ``nlp.vocab``. By default, a new one.
    key : str, default="trellis"
        Name of the span group.
    """
    spacy = needed("spacy", "spacy")
    extend()
    check_document(document)
    if vocab is not None and not isinstance(vocab, spacy.Vocab):
        raise DataError(f"vocab must be the vocabulary of a pipeline, nlp.vocab, got {vocab!r:.60}")
    words, spaces, places = _pieces(document)
    doc = spacy.tokens.Doc(spacy.Vocab() if vocab is None else vocab, words=words, spaces=spaces)
    if len(places) < len(words) or any(word.isspace() for word in document.tokens):
        doc.user_data[TOKENS] = places
    if document.predicted:
        doc.user_data[PREDICTED] = True
    if document.labels is not None:
        set_labels(doc, document.labels, places)
    if document.spans is not None:
        set_spans(doc, document.spans, places, key)
    if document.relations is not None:
        doc._.trellis_relations = [[r.first, r.second, r.label, r.probability] for r in document.relations]
    for name, votes in document.votes.items():
        marked = [(label, first, last) for label, first, last in runs(votes)]
        doc.spans[name] = [_span(doc, places, first, last, label) for label, first, last in marked]
    if document.columns:
        doc._.trellis_columns = {name: list(cells) for name, cells in document.columns.items()}
        if document.heads is not None and None not in document.heads:
            set_heads(doc, document, places)
    return doc


def from_doc(doc: Any, *, key: str = KEY, votes: bool | Sequence[str] = False) -> Document:
    """The document of a ``Doc``.

    Parameters
    ----------
    doc : spacy.Doc
        Its tokens are kept, but for white space.
    key : str, default="trellis"
        Name of the span group that becomes ``spans``.
    votes : bool or list of str, default=False
        Span groups that are votes of labelling functions; True: all but ``key``.
    """
    extend()
    check_names([key], "key")
    if not isinstance(doc, needed("spacy", "spacy").tokens.Doc):
        raise DataError(f"expected a Doc of spaCy, got {doc!r:.60}")
    places = places_of(doc)
    number = {place: k for k, place in enumerate(places)}
    spans, relations = None, None
    if key in doc.spans:
        group = doc.spans[key]
        shares = group.attrs.get(PROBABILITIES) or [None] * len(group)
        kept = [(_tokens(span, number), span.label_ or None, share) for span, share in zip(group, shares, strict=True)]
        spans = [Span(label, *found, probability=share) for found, label, share in kept if found]
        if doc._.trellis_relations is not None and len(spans) == len(kept):
            relations = [Relation(*row) for row in doc._.trellis_relations]
    if isinstance(votes, bool):
        names = [name for name in doc.spans if name != key] if votes else []
    else:
        names = check_names(votes, "votes")
    for name in names:
        if name not in doc.spans:
            raise DataError(f"the Doc has no span group {name!r}; it has {sorted(doc.spans)}")
    return Document(
        tuple([doc[place].text for place in places]),
        _labels(doc, places),
        _columns(doc, places, number),
        doc.text,
        tuple([(doc[place].idx, doc[place].idx + len(doc[place].text)) for place in places]),
        spans=spans,
        relations=relations,
        votes={name: _votes(doc.spans[name], number) for name in names},
        predicted=doc.user_data.get(PREDICTED) is True,
    )


def to_docbin(documents: Iterable[Document], vocab: Any = None, *, key: str = KEY) -> Any:
    """A ``DocBin`` of documents, for ``to_disk`` and ``to_bytes``."""
    spacy = needed("spacy", "spacy")
    vocab = spacy.Vocab() if vocab is None else vocab
    attributes = ["ORTH", "SPACY", "ENT_IOB", "ENT_TYPE", "HEAD", "DEP", "TAG", "POS"]
    docs = (to_doc(document, vocab, key=key) for document in check_documents(documents))
    return spacy.tokens.DocBin(attrs=attributes, docs=docs, store_user_data=True)


def from_docbin(
    docbin: Any, vocab: Any = None, *, key: str = KEY, votes: bool | Sequence[str] = False
) -> list[Document]:
    """The documents of a ``DocBin``, or of the file that holds one."""
    spacy = needed("spacy", "spacy")
    if not isinstance(docbin, spacy.tokens.DocBin):
        docbin = _docbin_of(docbin, spacy)
    docs = docbin.get_docs(spacy.Vocab() if vocab is None else vocab)
    return [from_doc(doc, key=key, votes=votes) for doc in docs]


def _docbin_of(path: Any, spacy: Any) -> Any:
    name = shown(path)
    try:
        return spacy.tokens.DocBin().from_disk(path)
    except OSError as error:
        raise DataError(f"cannot be read: {reason(error)}", path=name) from None
    except Exception as error:  # zlib, msgpack and srsly each have their own
        raise DataError(f"is not a DocBin of spaCy: {error}", path=name) from None


def apply_to_docs(functions: Iterable[Callable[..., Any]], docs: Iterable[Any]) -> None:
    """Write the votes of labelling functions to a span group of every ``Doc``, ``doc.spans[name]``.

    Parameters
    ----------
    functions : list of callable
        Labelling functions, or functions that are called with a ``Doc``, as those of skweak are: they return spans of
        it, or (first token, end, label).
    docs : list of spacy.Doc
        Documents of spaCy.
    """
    from trellis.apps.aggregate.functions import LabellingFunction

    chosen = list(check_list(functions, "functions"))
    for one in chosen:
        if isinstance(one, LabellingFunction) and one.on == "text":
            raise DataError(f"the labelling function {one.name!r} labels whole texts: use apply_functions")
        if not isinstance(one, LabellingFunction) and not hasattr(one, "__name__"):
            raise DataError(f"{one!r:.60} is neither a labelling function nor a function of a Doc")
    for number, doc in enumerate(check_list(docs, "Docs")):
        document, places = from_doc(doc), places_of(doc)
        for one in chosen:
            if isinstance(one, LabellingFunction):
                [votes] = one.votes([document], number)
                doc.spans[one.name] = [_span(doc, places, first, last, label) for label, first, last in runs(votes)]
            else:
                where = f"labelling function {one.__name__!r}, Doc {number}"
                doc.spans[one.__name__] = [_given_span(doc, span, where) for span in _given_spans(one(doc), where)]


def _given_spans(given: Any, where: str) -> Iterable[Any]:
    if given is not None and (isinstance(given, str | bytes) or not isinstance(given, Iterable)):
        raise DataError(f"{where}: returned {given!r:.60}: expected a list of spans")
    return given or ()


def _given_span(doc: Any, given: Any, where: str) -> Any:
    kind = needed("spacy.tokens", "spacy").Span
    if isinstance(given, kind):
        return given
    span = tuple(given) if is_list(given) else ()
    if len(span) != 3 or not all(map(is_whole, span[:2])) or not isinstance(span[2], str) or not span[2]:
        raise DataError(f"{where}: returned {given!r:.60}: a span is a Span of spaCy, or (first token, end, label)")
    if not 0 <= span[0] < span[1] <= len(doc):
        raise DataError(f"{where}: returned {given!r:.60}, but the Doc has {counted(len(doc), 'token')}")
    return kind(doc, int(span[0]), int(span[1]), label=span[2])


def write_votes(docs: Iterable[Any], aggregator: Any, *, key: str = KEY, ents: bool = True) -> None:
    """Aggregate the span groups of every ``Doc``, and write the result to its ``spans[key]`` and, if asked, ``ents``.

    aggregator : an :class:`~trellis.Aggregator`, trained or not
    """
    from trellis.apps.aggregate.summary import check_aggregator

    docs = list(check_list(docs, "Docs"))
    check_aggregator(aggregator)
    documents = [from_doc(doc, key=key, votes=True) for doc in docs]
    if not aggregator.__sklearn_is_fitted__():
        aggregator.fit(documents)
    found, shares = aggregator.predict(documents), aggregator.predict_proba(documents)
    names = {label: k for k, label in enumerate(aggregator.label_names_)}
    for doc, document, labels, share in zip(docs, documents, found, shares, strict=True):
        places = places_of(doc)
        spans = [
            document.span(first, last, label, float(min(share[t, names[labels[t]]] for t in range(first, last))))
            for label, first, last in runs(labels)
        ]
        set_spans(doc, spans, places, key)
        if ents:
            set_labels(doc, labels, places)


def extend() -> None:
    """Register the extension attributes of ``Doc``."""
    doc = needed("spacy", "spacy").tokens.Doc
    for name in ("trellis_columns", "trellis_relations"):
        if not doc.has_extension(name):
            doc.set_extension(name, default=None)


def places_of(doc: Any) -> list[int]:
    """Which tokens of a ``Doc`` are those of its document."""
    given = doc.user_data.get(TOKENS)
    return [token.i for token in doc if not token.text.isspace()] if given is None else list(given)


def set_labels(doc: Any, labels: Labels | Sequence[str], places: Sequence[int]) -> None:
    """Fields as entities, unknown labels as missing ones."""
    ents = [_span(doc, places, first, last, label) for label, first, last in runs(labels)]
    missing = [doc[place : place + 1] for place, label in zip(places, labels, strict=True) if label is None]
    doc.set_ents(ents, missing=missing, default="outside")


def set_spans(doc: Any, spans: Sequence[Span], places: Sequence[int], key: str) -> None:
    """Spans as a span group."""
    doc.spans[key] = [_span(doc, places, span.first, span.last, span.label or "") for span in spans]
    if any(span.probability is not None for span in spans):
        doc.spans[key].attrs[PROBABILITIES] = [span.probability for span in spans]


def set_heads(doc: Any, document: Document, places: Sequence[int]) -> None:
    """The columns "head" and "deprel" as a tree; added tokens hang on the one before them, or after."""
    relations = document.columns.get("deprel") or ("dep",) * len(document)
    heads, named = list(range(len(doc))), ["dep" for _ in doc]
    own = set(places)
    for place in range(len(doc)):
        if place not in own and places:
            heads[place] = max((p for p in places if p < place), default=places[0])
    for place, head, relation in zip(places, document.heads or (), relations, strict=True):
        heads[place], named[place] = places[head - 1] if head else place, relation
    numpy = needed("numpy", "spacy")
    codes = [doc.vocab.strings.add(name) for name in named]
    rows = [[(head - at) % 2**64, code] for at, (head, code) in enumerate(zip(heads, codes, strict=True))]
    doc.from_array(["HEAD", "DEP"], numpy.array(rows, dtype="uint64"))


def _pieces(document: Document) -> tuple[list[str], list[bool], list[int]]:
    """Words of a Doc, whether a space follows each, and which of them are the document's tokens."""
    words, spaces, places, at = list[str](), list[bool](), list[int](), 0

    def fill(gap: str) -> None:
        if gap.startswith(" ") and words and not spaces[-1]:
            spaces[-1], gap = True, gap[1:]
        if gap:
            words.append(gap)
            spaces.append(False)

    for token, (start, end) in zip(document.tokens, document.offsets, strict=True):
        if not token:
            raise DataError(
                "spaCy has no empty tokens, but the document has one", path=document.path, line=document.line
            )
        fill(document.text[at:start])
        places.append(len(words))
        words.append(document.text[start:end])
        spaces.append(False)
        at = end
    fill(document.text[at:])
    return words, spaces, places


def _span(doc: Any, places: Sequence[int], first: int, last: int, label: str) -> Any:
    return needed("spacy.tokens", "spacy").Span(doc, places[first], places[last - 1] + 1, label=label)


def _tokens(span: Any, number: dict[int, int]) -> tuple[int, int] | None:
    """First token of the document and the one after the last; None: there is none."""
    inside = [number[place] for place in range(span.start, span.end) if place in number]
    return (inside[0], inside[-1] + 1) if inside else None


def _labels(doc: Any, places: Sequence[int]) -> Labels | None:
    if not places or not doc.has_annotation("ENT_IOB"):
        return None
    found: list[str | None] = []
    before = None
    for place in places:
        token = doc[place]
        name = token.ent_type_ or (NO_FIELD if token.ent_iob_ == "O" else None)
        again = token.ent_iob_ == "B" and name == before
        found.append(f"B-{name}" if again else name)
        before = name
    return tuple(found)


def _columns(doc: Any, places: Sequence[int], number: dict[int, int]) -> dict[str, tuple[str, ...]]:
    if doc._.trellis_columns is not None:
        return {name: tuple(cells) for name, cells in doc._.trellis_columns.items()}
    columns = dict[str, tuple[str, ...]]()
    if not places:
        return columns
    for name, annotation, attribute in (("upos", "POS", "pos_"), ("tag", "TAG", "tag_")):
        if doc.has_annotation(annotation):
            columns[name] = tuple([getattr(doc[place], attribute) or "_" for place in places])
    if doc.has_annotation("DEP"):
        heads = [number.get(doc[place].head.i, -1) + 1 if doc[place].head.i != place else 0 for place in places]
        columns["head"] = tuple(map(str, heads))
        columns["deprel"] = tuple([doc[place].dep_ or "_" for place in places])
    return columns


def _votes(group: Any, number: dict[int, int]) -> Labels:
    found = [(_tokens(span, number), span.label_) for span in group]
    return votes_of_spans(len(number), [(*place, label) for place, label in found if place])
