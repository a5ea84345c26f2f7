"""Mentions and ordered pairs of them: their features, and the batch whose slots they are.

A mention      its words, shapes, prefixes, suffixes and runs of letters, what it is made of, the words before and
               after, its tags and those beside it
A pair         the words between (other mentions are one sign), one by one, two by two and as a whole; how far apart and
               in which order the two stand; the words around both, alone and with the ends of what is between; the
               words, their ends and shapes of each; the last words of both together; the beginnings of all longer
               words of the sentence: what it is about

slots of a sentence of n mentions      m_1 .. m_n, and then the ordered pairs  (1, 2), (1, 3), .., (n, n − 1)
columns "first", "second"              the mentions of a pair, −1 at a mention
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from trellis.constraints.relation_rows import ENTITY, RELATION, opposite_pairs
from trellis.data.batch import Batch, Column
from trellis.data.checks import check_sample_weight
from trellis.data.document import Document
from trellis.data.ragged import IntArray, offsets_of, owners
from trellis.data.vocabulary import Vocabulary
from trellis.structures import Factors, Variables, factors_over

OUTSIDE = "<>"
TAGS = "tags="
"""How the feature begins that every mention of a sentence with tags has."""
_SIGNS = ((re.compile("[A-Z]"), "X"), (re.compile("[a-z]"), "x"), (re.compile("[0-9]"), "d"))
_RUN = re.compile(r"(.)\1+")
STEM = 5
"""Letters at the beginning of a word that stand for its forms."""
NEAR = 5
"""Words on either side that a mention knows of."""
_FAR = ((4, "4-5", 6), (6, "6-8", 9), (9, "9-13", 14))
Span = tuple[int, int]


def shape(word: str) -> str:
    """Capitals, small letters and digits, runs of one sign as two of it.

    >>> shape("McDonald's"), shape("1988")
    ("XxXxx'x", 'dd')
    """
    for letters, sign in _SIGNS:
        word = letters.sub(sign, word)
    return _RUN.sub(r"\1\1", word)


def mention_features(tokens: Sequence[str], mention: Span, tags: Sequence[str] | None = None) -> list[str]:
    """Names of the features of a mention."""
    a, b = mention
    words, lower = tokens[a:b], [w.lower() for w in tokens[a:b]]

    def at(place: int) -> str:
        return tokens[place].lower() if 0 <= place < len(tokens) else OUTSIDE

    found = [
        f"all={'_'.join(lower)}", f"len={min(b - a, 5)}", f"shapes={'_'.join(map(shape, words[:4]))}",
        f"head={lower[-1]}", f"first={lower[0]}", f"-1={at(a - 1)}", f"-2={at(a - 2)}", f"+1={at(b)}",
        f"+2={at(b + 1)}", f"-2-1={at(a - 2)}_{at(a - 1)}", f"+1+2={at(b)}_{at(b + 1)}", f"-1+1={at(a - 1)}_{at(b)}",
    ]  # fmt: skip
    for word, small in zip(words, lower, strict=True):
        found += [f"w={small}", f"sh={shape(word)}"]
        for n in (2, 3, 4):
            if len(small) > n:
                found += [f"suf={small[-n:]}", f"pre={small[:n]}"]
    found += [f"hsuf={lower[-1][-n:]}" for n in (2, 3, 4)]
    for word in lower:
        ringed = f"<{word}>"
        found += [f"c={ringed[i : i + n]}" for n in (3, 4) for i in range(len(ringed) - n + 1)]
    for n in (1, 2, 3):
        found += [f"left={at(a - n)}", f"right={at(b + n - 1)}"]
    for n in range(1, NEAR + 1):
        found += [f"L={at(a - n)[:STEM]}", f"R={at(b + n - 1)[:STEM]}"]
    found += [f"{name}={value}" for name, value in _made_of(words).items()]
    found += [f"begins={a == 0}", f"ends={b >= len(tokens) - 1}"]
    if tags is not None:
        found += _tag_features([OUTSIDE] * 2 + list(tags) + [OUTSIDE] * 2, (a + 2, b + 2))
    if a > 0:
        found.append(f"-1sh={shape(tokens[a - 1])}")
    if b < len(tokens):
        found.append(f"+1sh={shape(tokens[b])}")
    return list(dict.fromkeys(found))


def _tag_features(tags: Sequence[str], mention: Span) -> list[str]:
    """Of the tags of a sentence with two signs on either side."""
    a, b = mention
    return [
        f"{TAGS}{'_'.join(tags[a:b][:4])}", f"tag={tags[b - 1]}", f"tag-1={tags[a - 1]}", f"tag+1={tags[b]}",
        f"tag-2-1={tags[a - 2]}_{tags[a - 1]}", f"tag+1+2={tags[b]}_{tags[b + 1]}",
    ]  # fmt: skip


def _made_of(words: Sequence[str]) -> dict[str, object]:
    return {
        "capitals": any(w.isupper() and len(w) > 1 for w in words), "digit": any(map(str.isdigit, "".join(words))),
        "dot": any(w.endswith(".") for w in words), "small": any(map(str.islower, words)),
        "allsmall": all(map(str.islower, words)), "of": "of" in words, "size": min(len(" ".join(words)) // 3, 8),
    }  # fmt: skip


def topic_features(tokens: Sequence[str]) -> list[str]:
    """Names of the features that all pairs of a sentence share.

    >>> topic_features(("They", "moved", "to", "Ely"))
    ['s=they', 's=moved']
    """
    return list(dict.fromkeys(f"s={w.lower()[:STEM]}" for w in tokens if len(w) > 3))


def pair_features(tokens: Sequence[str], mentions: Sequence[Span], first: int, second: int) -> list[str]:
    """Names of the features of an ordered pair of mentions."""
    (a, b), (c, d) = mentions[first], mentions[second]
    order = "F" if a < c else "B"
    low, high = (b, c) if a < c else (d, a)
    left, right = (a, d) if a < c else (c, b)

    def at(place: int) -> str:
        return tokens[place].lower() if 0 <= place < len(tokens) else OUTSIDE

    others = {x: y for k, (x, y) in enumerate(mentions) if k not in (first, second) and x >= low and y <= high}
    between = list(_between(tokens, low, high, others))
    far, crowd = _distance(high - low), min(len(others), 3)
    found = [f"dist={far}", f"nb={crowd}", f"nbdist={crowd}|{far}"]
    if len(between) <= 6:
        found.append(f"seq={'_'.join(between)}")
    found += [f"b={w}" for w in between]
    found += [f"bb={x}_{y}" for x, y in zip(["<", *between], [*between, ">"], strict=True)]
    if between:
        found += [f"bf={between[0]}", f"bl={between[-1]}"]
    begin, end = (between[0], between[-1]) if between else ("-", "-")
    before, after = at(left - 1), at(right)
    found += [
        f"l1={before}", f"r1={after}", f"r12={after}_{at(right + 1)}", f"l2={at(left - 2)}_{before}",
        f"lf={before}_{begin}", f"fl={begin}_{end}", f"lr={end}_{after}", f"l1r1={before}_{after}",
        f"llr={before}_{end}_{after}",
    ]  # fmt: skip
    found = [f"{order}:{name}" for name in found]
    shapes = []
    for name, (x, y) in (("1", (a, b)), ("2", (c, d))):
        lower = [w.lower() for w in tokens[x:y]]
        shapes.append("_".join(map(shape, tokens[x:y][:3])))
        own = [f"h={lower[-1]}", f"sh={shapes[-1]}", f"n={min(y - x, 4)}", f"all={'_'.join(lower)}"]
        own += [f"{part}={w}" for word in lower for part, w in (("w", word), ("p3", word[:3]), ("s3", word[-3:]))]
        own += [*(f"suf={lower[-1][-n:]}" for n in (2, 3)), f"-1={at(x - 1)}", f"+1={at(y)}"]
        found += [f"{name}:{one}" for one in own]
    found += [f"shsh={order}{shapes[0]}|{shapes[1]}", f"order={order}", f"M={min(len(mentions), 6)}"]
    one, two = tokens[b - 1], tokens[d - 1]
    found += [
        f"hh={one.lower()}|{two.lower()}", f"hs={one.lower()}|{shape(two)}", f"sh={shape(one)}|{two.lower()}"
    ]  # fmt: skip
    if len(between) <= 3:
        found.append(f"seqsh={order}{'_'.join(between)}|{shapes[0]}|{shapes[1]}")
    return list(dict.fromkeys(found))


def _between(tokens: Sequence[str], low: int, high: int, others: dict[int, int]) -> Iterator[str]:
    """The words between, every other mention as one sign."""
    place = low
    while place < high:
        if place in others:
            yield "[M]"
            place = others[place]
        else:
            yield tokens[place].lower()
            place += 1


def _distance(n: int) -> str:
    if n < 4:
        return str(max(n, 0))  # mentions may overlap
    return next((name for low, name, high in _FAR if low <= n < high), "14+")


def slots_of(batch: Batch) -> tuple[IntArray, IntArray]:
    """The slots of a batch that are mentions, and those that are pairs."""
    is_pair = batch.column("first").codes >= 0
    return np.flatnonzero(~is_pair), np.flatnonzero(is_pair)


def variables_of(batch: Batch, types: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[Variables, Variables]:
    """The mentions and the pairs of a batch as variables of a graph."""
    owner = np.repeat(np.arange(len(batch)), batch.lengths)
    mentions, pairs = slots_of(batch)
    arguments = np.column_stack([batch.column(name).codes[pairs] for name in ("first", "second")]).astype(np.int64)
    return (
        Variables(ENTITY, types[0], _cut(owner[mentions], len(batch))),
        Variables(RELATION, types[1], _cut(owner[pairs], len(batch)), (ENTITY, ENTITY), arguments),
    )


def batch_of(
    texts: Sequence[Document], matrices: Sequence[Any], known: Sequence[tuple[list[int], list[int]]], weights: Any
) -> Batch:
    """Slots of sentences: mentions and then pairs, features of the first in the first columns."""
    counts = [len(text.spans or ()) for text in texts]
    labels = np.array([y for own in known for kind in own for y in kind], np.int32)
    word, between = list[str](), list[str]()
    first, second, order = list[int](), list[int](), list[int]()
    mention = pair = 0
    n_mentions = sum(counts)
    for text, n in zip(texts, counts, strict=True):
        spans = text.spans or ()
        word += [" ".join(text.tokens[m.first : m.last]) for m in spans]
        between += [""] * n
        first += [-1] * n
        second += [-1] * n
        order += range(mention, mention + n)
        mention += n
        for i in range(n):
            for j in range(n):
                if i != j:
                    low, high = sorted((spans[i], spans[j]), key=lambda m: m.first)
                    between.append(" ".join(text.tokens[low.last : high.first]))
                    word.append("")
                    first.append(i)
                    second.append(j)
                    order.append(n_mentions + pair)
                    pair += 1
    stacked = sparse.block_array([[matrices[0], None], [None, matrices[1]]], format="csr")[np.array(order, np.int64)]
    numbers = Vocabulary(map(str, range(max([1, *counts]))), kind="mention")
    return Batch(
        offsets=offsets_of([n * n for n in counts]),
        labels=labels,
        weights=check_sample_weight(weights, len(texts)),
        columns={
            "word": Column.of(word),
            "between": Column.of(between),
            "first": Column(np.array(first, np.int32), numbers),
            "second": Column(np.array(second, np.int32), numbers),
        },
        features=sparse.csr_array(stacked),
    )


def ties_of(variables: tuple[Variables, ...], most: int, *, both_ways: bool) -> tuple[Factors, ...]:
    """Factors over every pair after its two mentions, and over the two relations between two mentions."""
    mentions, pairs = variables
    few = np.diff(mentions.offsets) <= most
    owner = owners(pairs.offsets)
    local = np.arange(len(owner)) - pairs.offsets[owner]
    tied = few[owner]
    scope = np.column_stack((mentions_of(pairs), local))[tied]
    made = [factors_over(variables, (ENTITY, ENTITY, RELATION), scope, _cut(owner[tied], len(few)))]
    if both_ways:
        both = opposite_pairs(mentions_of(pairs), owner)
        both = both[tied[both[:, 0]]]
        both = both[np.argsort(owner[both[:, 0]], kind="stable")]
        made.append(factors_over(variables, (RELATION, RELATION), local[both], _cut(owner[both[:, 0]], len(few))))
    return tuple(made)


def _cut(owner: IntArray, n: int) -> IntArray:
    return offsets_of(np.bincount(owner, minlength=n))


def mentions_of(pairs: Variables) -> IntArray:
    """(n, 2): the mentions of every pair."""
    return np.zeros((0, 2), np.int64) if pairs.arguments is None else pairs.arguments
