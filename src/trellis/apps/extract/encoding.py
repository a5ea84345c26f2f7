"""Texts as the models of an extractor take them: batches of codes, with columns for the classes of their words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from trellis.apps.extract.word_classes import WordClasses
from trellis.data.bio import Labels, unmarked, where_needed
from trellis.data.corpus import Corpus, corpus_of
from trellis.data.document import Document
from trellis.data.ragged import LabelArray
from trellis.data.storage import UNBOUNDED, Storage
from trellis.data.vocabulary import Vocabulary
from trellis.errors import InfeasibleError, UnknownNameError
from trellis.models.semi_crf import codes_of


def encoded(
    texts: Sequence[Document], names: Vocabulary, classes: WordClasses, *, labels: bool = True, again: bool = False
) -> Corpus:
    """The corpus of texts.

    labels : keep the labels that the texts have
    again : labels mark where a field begins right after another one of the same label
    """
    known = Vocabulary(codes_of(list(names)), kind="label") if again else names
    documents = (replace(t, labels=_own(t.labels, names, again) if labels else None, columns={}) for t in texts)
    try:
        corpus = corpus_of(documents, label_names=known)
    except UnknownNameError as error:
        raise _hinted(error, texts, names) from None
    return corpus.with_columns(classes.columns, Storage(UNBOUNDED))


class Unlabelled:
    """Texts beside the labelled ones, without those that repeat one: a text is learned from once.

    n_repeated : how many were left out; for each labelled text at most one of the same tokens

    >>> ann, bob = Document(("Ann",)), Document(("Bob",))
    >>> some = Unlabelled([ann], [bob, ann, ann])
    >>> [text.text for text in some], some.n_repeated
    (['Bob', 'Ann'], 1)
    """

    def __init__(self, labelled: Iterable[Document], texts: Iterable[Document]) -> None:
        self.texts, self.n_repeated = texts, 0
        self._labelled = Counter(text.tokens for text in labelled if len(text))

    def __iter__(self) -> Iterator[Document]:
        for text in self.texts:
            if self._labelled[text.tokens]:
                self._labelled[text.tokens] -= 1
                self.n_repeated += 1
            else:
                yield text


def learning_corpus(
    texts: Iterable[Document], names: Vocabulary, min_count: int | None, storage: Storage
) -> tuple[Corpus, WordClasses, dict[int, Document]]:
    """The corpus of texts to learn from as they come, the classes of their words, and those of them with labels."""
    labelled: dict[int, Document] = {}

    def documents() -> Iterator[Document]:
        for number, text in enumerate(texts):
            if text.labels is not None:
                labelled[number] = text
            yield replace(text, labels=_own(text.labels, names, False), columns={})

    try:
        corpus = corpus_of(documents(), label_names=names, storage=storage)
    except UnknownNameError as error:
        raise _hinted(error, list(labelled.values()), names) from None
    words = corpus.batch.column("word")
    occurs = np.bincount(words.codes, minlength=len(words.vocabulary)).tolist()
    classes = WordClasses.of(dict(zip(words.vocabulary.names, occurs, strict=True)), min_count)
    return corpus.with_columns(classes.columns, storage), classes, labelled


def completed(corpus: Corpus, codes: LabelArray) -> Corpus:
    """The corpus with codes for the labels that its last texts lack.

    codes : (n_slots,) of these texts
    """
    labels = corpus.batch.labels.copy()
    last = labels[len(labels) - len(codes) :]
    last[:] = np.where(last < 0, codes, last)
    return replace(corpus, batch=replace(corpus.batch, labels=labels))


def side_by_side(texts: Sequence[Document], names: Vocabulary) -> bool:
    """Whether a field begins right after another one of its label in some text."""
    return any(_own(text.labels, names, True) != _own(text.labels, names, False) for text in texts)


def _own(labels: Labels | None, names: Vocabulary, again: bool) -> tuple[str | None, ...] | None:
    """Labels of tokens as they are worked with, with B- only where it is asked for."""
    return labels if labels is None else (where_needed if again else unmarked)(labels, names)


def _hinted(error: UnknownNameError, texts: Sequence[Document], names: Vocabulary) -> UnknownNameError:
    """Add a hint to the error: if tokens occur among the labels, the columns may be swapped."""
    swapped = any(word in names for t in texts if t.labels is not None for word in t.tokens)
    made = UnknownNameError(error.kind, error.name, names, path=error.path, line=error.line)
    if swapped and error.kind == "label":
        made.add_note(
            "(the token column contains labels: are the columns swapped? Try --word-column 1 --label-column 0)"
        )
    else:
        made.add_note(
            "(labels are declared in the rules file, labels = [...], or in Extractor(labels=[...]): add it there)"
        )
    return made


@contextmanager
def naming(texts: Sequence[Document]) -> Iterator[None]:
    """Add to the error of an instance without an output where its text is and how it begins."""
    try:
        yield
    except InfeasibleError as error:
        if error.instances and error.instances[0] < len(texts):
            text = texts[error.instances[0]]
            place = f"{text.path}, line {text.line}: " if text.path else ""
            error.add_note(f"(instance {error.instances[0]} is {place}{text.text[:60]!r})")
            error.add_note('(soft rules: strength = "learned" or penalty = 5 in a rules file, .penalty(5) in Python)')
        raise
