"""The words a generative tagger emits: frequent ones as themselves, rare ones as one symbol, some with few labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from trellis.data.batch import Batch, Column
from trellis.data.ragged import BoolArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError


def learn_symbols(words: Column, min_count: int, unknown: str | None) -> Vocabulary:
    """Words seen at least ``min_count`` times, in order of first appearance, after the symbol for all others."""
    seen = np.bincount(words.codes, minlength=len(words.vocabulary))
    kept = [words.vocabulary[int(i)] for i in np.flatnonzero(seen >= min_count)]
    if unknown is not None:
        kept = [unknown, *(word for word in kept if word != unknown)]
    if not kept:
        raise DataError("there are no words to learn from")
    return Vocabulary(kept, kind="word", unknown=unknown)


def small_form(word: str) -> str:
    """The word with a small first letter."""
    return word[:1].lower() + word[1:]


def learn_small(words: Column, firsts: IntArray, kept: Iterable[str] = ()) -> Vocabulary:
    """Words whose capital is that of a sentence: inside of sentences their small form is the commoner one.

    firsts : slots at which sentences begin;  kept : words that stay what they are

    >>> column = Column.of("The dog and the cat . Rome and the Rome of old .".split())
    >>> learn_small(column, np.array([0, 6])).names
    ('The',)
    """
    n, names, kept = len(words.vocabulary), words.vocabulary, set(kept)
    first = np.bincount(words.codes[firsts], minlength=n)
    inside = np.bincount(words.codes, minlength=n) - first
    found = []
    for code in np.flatnonzero(first).tolist():
        word = names[code]
        small = small_form(word)
        if small != word and word not in kept and small in names and inside[names.number(small)] > inside[code]:
            found.append(word)
    return Vocabulary(found, kind="word")


def with_small(words: Column, firsts: IntArray, small: Vocabulary, known: Vocabulary) -> Column:
    """Words that are ``small`` at those slots, and new ones whose small form is ``known``, without their capital."""
    names = words.vocabulary
    begins = np.unique(words.codes[firsts]).tolist()
    taken = [code for code in begins if names[code] in small or (names[code] not in known)]
    forms = {code: small_form(names[code]) for code in taken if small_form(names[code]) in known}
    if not forms:
        return words
    new = [form for form in dict.fromkeys(forms.values()) if form not in names]
    names = Vocabulary([*names, *new], kind="word") if new else names
    table = np.arange(len(names), dtype=np.int32)
    table[list(forms)] = [names.number(form) for form in forms.values()]
    codes = np.array(words.codes)
    codes[firsts] = table[codes[firsts]]
    return Column(codes, names)


def allowed_labels(
    tag_dictionary: Mapping[str, Sequence[str]] | None, symbols: Vocabulary, label_names: Vocabulary
) -> BoolArray | None:
    """(n_symbols, n_labels) whether the word may have the label; None: all may.

    >>> allowed_labels({"the": ["D"]}, Vocabulary(["the", "dog"]), Vocabulary(["D", "N"])).tolist()
    [[True, False], [True, True]]
    """
    if not tag_dictionary:
        return None
    given: Any = tag_dictionary
    if not isinstance(given, Mapping) or not all(isinstance(tags, Iterable) for tags in given.values()):
        raise DataError(f"a tag dictionary gives labels to words, {{word: [label, ...]}}, but is {given!r:.60}")
    allowed = np.ones((len(symbols), len(label_names)), dtype=np.bool_)
    for word, labels in tag_dictionary.items():
        tags = [labels] if isinstance(labels, str) else list(labels)
        if not tags:
            raise DataError(f"the tag dictionary allows no label for {word!r}: leave the word out to allow all")
        numbers = label_names.encode(tags)
        if word in symbols:
            allowed[symbols.number(word)] = False
            allowed[symbols.number(word), numbers] = True
    return allowed


def symbol_column(words: Column, symbols: Vocabulary) -> Column:
    """Each word's symbol; a word outside a closed vocabulary is an error that suggests near ones."""
    used = np.flatnonzero(np.bincount(words.codes, minlength=len(words.vocabulary)))
    table = np.zeros(len(words.vocabulary), dtype=np.int32)
    table[used] = symbols.encode(words.vocabulary[int(code)] for code in used)
    return Column(table[words.codes], symbols)


def first_unknown(batch: Batch, words: Column, coded: Column) -> tuple[str, int] | None:
    """A word that became the unknown symbol and the number of its sentence, where there is one."""
    if coded.vocabulary.unknown is None:
        return None
    slots = np.flatnonzero(coded.codes == coded.vocabulary.number(coded.vocabulary.unknown))
    if not len(slots):
        return None
    instance = batch.first + int(np.searchsorted(batch.offsets, slots[0], side="right")) - 1
    return words.vocabulary[int(words.codes[slots[0]])], instance
