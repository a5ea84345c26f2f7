"""The words that a generative tagger emits, and its back-off for rare and unknown words.

Frequent words are emitted as themselves, rare ones as one symbol, some with few labels. A model may fall back on the
form of a word,

    p(w | y) ∝ c(w, y) + α − 1 + κ p(form of w | y) p(w | its form)

the mode under a Dirichlet prior of weight κ whose mean is the model of forms, learned from the same counts c. With five
labelled texts most words have no label: then p(form | y) tells a name from a number, and κ = 1 is soon outweighed.

Likewise transitions after one thing c fall back on all of the label's, and these on what labels do after it:

    n(c, a, b) + κ share(c, a, b),    share(c, a, ·) ∝ n(a, ·) + α − 1 + κ tied(c, a, ·)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.data.batch import Batch, Column
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, UnknownNameError


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


@dataclass(frozen=True)
class TagDictionary:
    """The labels that words may have, known by their strings: words outside of any vocabulary have theirs too.

    sets : (n_sets, n_labels) distinct sets of labels; the first is that of words without an entry
    number : word -> the number of its set

    >>> tags = TagDictionary.of({"the": ["D"]}, None, Vocabulary(["D", "N"]))
    >>> tags.allowed(["the", "dog"]).tolist()
    [[True, False], [True, True]]
    """

    sets: BoolArray
    number: Mapping[str, int]

    @classmethod
    def of(
        cls, entries: Mapping[str, Sequence[str]] | None, others: Sequence[str] | None, label_names: Vocabulary
    ) -> TagDictionary | None:
        """``others`` are the labels of words without an entry, None: all; None where every word may have every one."""
        if not entries and others is None:
            return None
        given: Any = entries or {}
        if not isinstance(given, Mapping) or not all(isinstance(tags, Iterable) for tags in given.values()):
            raise DataError(f"a tag dictionary must map words to labels, {{word: [label, ...]}}, but is {given!r:.60}")
        free = label_names.names if others is None else others
        numbers = {_label_set("for words without an entry: give other_labels", free, label_names): 0}
        number = {}
        for word, labels in given.items():
            own = _label_set(f"for {word!r}: leave the word out to allow all", labels, label_names)
            number[word] = numbers.setdefault(own, len(numbers))
        sets = np.zeros((len(numbers), len(label_names)), dtype=np.bool_)
        for labels, i in numbers.items():
            sets[i, list(labels)] = True
        return cls(sets, number)

    def sets_of(self, words: Iterable[str]) -> IntArray:
        """(n_words,) the number of each word's set."""
        return np.fromiter((self.number.get(word, 0) for word in words), dtype=np.int64)

    def allowed(self, words: Iterable[str]) -> BoolArray:
        """(n_words, n_labels) whether the word may have the label."""
        return self.sets[self.sets_of(words)]

    def may_replace(self, small: str, word: str) -> bool:
        """Whether ``small`` may stand for ``word``, which has no entry and may have each label of ``small``."""
        own, other = self.sets_of([small, word])
        return word not in self.number and not np.any(self.sets[own] & ~self.sets[other])


def _label_set(where: str, labels: Sequence[str], label_names: Vocabulary) -> tuple[int, ...]:
    tags = [labels] if isinstance(labels, str) else list(labels)
    if not tags:
        raise DataError(f"the tag dictionary allows no label {where}")
    return tuple(sorted({int(n) for n in label_names.encode(tags)}))


def closed_dictionary(
    closed: Mapping[str, Sequence[str]], labels: int | Sequence[str], given: Mapping[str, Sequence[str]] | None = None
) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Label names, a dictionary of the closed classes (and of ``given``), and the labels of all other words.

    Closed-class tags and words belong to each other alone (sec. 5.1).

    >>> closed_dictionary({"the": ["DET"]}, 3)
    (['DET', '0', '1'], {'the': ['DET']}, ['0', '1'])
    """
    tags = sorted({tag for own in closed.values() for tag in ([own] if isinstance(own, str) else own)})
    if isinstance(labels, int):
        if labels <= len(tags):
            raise DataError(f"{labels} states leave none for open classes beside {len(tags)} closed tags")
        names = [*tags, *map(str, range(labels - len(tags)))]
    else:
        names = list(labels)
        missing = [tag for tag in tags if tag not in names]
        if missing:
            raise UnknownNameError("closed-class tag", missing[0], names)
    open_labels = [name for name in names if name not in set(tags)]
    dictionary = {}
    for w, own in (given or {}).items():
        if w not in closed:
            dictionary[w] = [tag for tag in ([own] if isinstance(own, str) else own) if tag not in set(tags)]
            if not dictionary[w]:
                raise DataError(f"the tag dictionary gives {w!r} closed-class tags only: add it to the closed classes")
    dictionary |= {w: [own] if isinstance(own, str) else list(own) for w, own in closed.items()}
    return names, dictionary, open_labels


def learn_small(words: Column, firsts: IntArray, tags: TagDictionary | None = None) -> Vocabulary:
    """Words whose capital is that of a sentence: inside of sentences their small form is the commoner one.

    firsts : slots at which sentences begin;  tags : words whose small form may not replace them stay what they are

    >>> column = Column.of("The dog and the cat . Rome and the Rome of old .".split())
    >>> learn_small(column, np.array([0, 6])).names
    ('The',)
    """
    n, names = len(words.vocabulary), words.vocabulary
    first = np.bincount(words.codes[firsts], minlength=n)
    inside = np.bincount(words.codes, minlength=n) - first
    found = []
    for code in np.flatnonzero(first).tolist():
        word = names[code]
        small = small_form(word)
        if small == word or (tags is not None and not tags.may_replace(small, word)):
            continue
        if small in names and inside[names.number(small)] > inside[code]:
            found.append(word)
    return Vocabulary(found, kind="word")


def with_small(
    words: Column, firsts: IntArray, small: Vocabulary, known: Vocabulary, tags: TagDictionary | None = None
) -> Column:
    """Words that are ``small`` at those slots, and new ones whose small form is ``known``, without their capital."""
    names = words.vocabulary
    begins = np.unique(words.codes[firsts]).tolist()
    taken = [code for code in begins if names[code] in small or (names[code] not in known)]
    forms = {code: small_form(names[code]) for code in taken if small_form(names[code]) in known}
    if tags is not None:
        forms = {code: form for code, form in forms.items() if tags.may_replace(form, names[code])}
    if not forms:
        return words
    new = [form for form in dict.fromkeys(forms.values()) if form not in names]
    names = Vocabulary([*names, *new], kind="word") if new else names
    table = np.arange(len(names), dtype=np.int32)
    table[list(forms)] = [names.number(form) for form in forms.values()]
    codes = np.array(words.codes)
    codes[firsts] = table[codes[firsts]]
    return Column(codes, names)


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


UNSEEN = 0.01
"""Pseudo-count of a form with a label."""


@dataclass(frozen=True)
class Forms:
    """The form of every symbol (n_symbols,), and how often it is this one of its form: p(w | form)."""

    form: IntArray
    share: FloatArray

    @classmethod
    def learn(cls, symbols: Column, forms: Column, vocabulary: Vocabulary) -> Forms:
        """From two columns of the same text. A symbol has the form that it was last seen with; one that was not seen
        has a form of its own."""
        n, n_forms = len(vocabulary), len(forms.vocabulary)
        form = n_forms + np.arange(n, dtype=np.int64)
        form[symbols.codes] = forms.codes
        often = np.bincount(symbols.codes, minlength=n) + 0.1
        return cls(form, often / np.bincount(form, often)[form])

    def base(self, counts: FloatArray) -> FloatArray:
        """(n_symbols, K): p(form | y) p(w | form), by the counts (n_symbols, K) of symbols with labels."""
        by_form = np.zeros((int(self.form.max(initial=-1)) + 1, counts.shape[1]))
        np.add.at(by_form, self.form, counts)
        by_form[np.unique(self.form)] += UNSEEN
        found: FloatArray = (by_form / by_form.sum(axis=0))[self.form] * self.share[:, None]
        return found


def transitions_after(counts: FloatArray, kappa: float, prior: float) -> FloatArray:
    """(n_contexts, K, K): counts of label pairs in each context with what they fall back on; the first context is
    anything, and has all of them."""
    every, tied = counts.sum(axis=0), kappa * _tied(counts)
    shares = every + tied + (prior - 1.0)
    found: FloatArray = counts + kappa * shares / shares.sum(axis=-1, keepdims=True)
    found[0] = every + tied[0]
    return found


def _tied(transition: FloatArray) -> FloatArray:
    """(n_contexts, K, K): tied(c, a, a) = P(a label goes on | c), tied(c, a, b) = P(it changes | c) P(it becomes b).

    Of a label that was seldom seen this is all that is known: that it goes on for a while, as labels do.
    """
    n, k = len(transition), transition.shape[-1]
    counts = np.concatenate([transition.sum(axis=0)[None], transition[1:]])
    stay = (np.trace(counts, axis1=1, axis2=2) + 0.5) / (counts.sum(axis=(1, 2)) + 1.0)
    same = np.eye(k, dtype=np.bool_)
    to = np.where(same, 0.0, counts[0].sum(axis=0) - np.diag(counts[0]) + 0.5)
    to /= np.maximum(to.sum(axis=1, keepdims=True), 1e-300)
    found: FloatArray = np.where(same, stay[:, None, None], (1.0 - stay)[:, None, None] * to).reshape(n, k, k)
    return found
