"""Default features of a token in a CRF: the word and its shape, affixes, neighbours, and the position in the text.

Features of your own are added by a function (sentence, position) -> description, see :mod:`trellis.models.features`;
the tokens it is given are dictionaries with the columns of the text, "word" among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trellis.apps.extract.word_classes import form_of, split_marks, word_class
from trellis.constraints.rules.features import TextFeature
from trellis.models.features import FeatureFunction, named_values

NEIGHBOURS = (-2, -1, 0, 1, 2)
EDGES = "mark before="
"""Prefixes of the features that have weights for pairs of labels: punctuation often ends a field."""
LAST = 4
"""Number of positions from the beginning and the end of a text that are distinguished."""


@dataclass(frozen=True)
class TokenFeatures:
    """The default features, then those of ``more``, then ``of_rules``, those of a rules file.

    >>> TokenFeatures()([{"word": "Ann"}, {"word": ","}], 0)[:4]
    ['word-2=', 'word-1=', 'word+0=ann', 'form+0=<Xx>']
    """

    more: FeatureFunction | None = None
    of_rules: tuple[TextFeature, ...] = ()

    def __call__(self, sentence: Sequence[Mapping[str, Any]], at: int) -> list[str] | dict[str, float]:
        found = list(_ready([token["word"] for token in sentence[max(at - 2, 0) : at + 3]], min(at, 2)))
        n = len(sentence)
        found += [f"tenth={10 * at // n}", f"from start={min(at, LAST)}", f"from end={min(n - 1 - at, LAST)}"]
        if self.of_rules:
            words = [token["word"] for token in sentence]
            found += [f"told {name}" for feature in self.of_rules for name in feature.at(words, at)]
        if self.more is None:
            return found
        values: dict[str, float] = dict(Counter(found))
        for name, value in named_values(self.more(sentence, at)):
            own = f"own {name}"  # user-defined names cannot clash with the default ones
            values[own] = values.get(own, 0.0) + value
        return values


def _ready(words: Sequence[str], at: int) -> Iterator[str]:
    """Default features of the token at position ``at`` of these words."""
    parts = [split_marks(word) for word in words]
    low = [core.lower() for _, core, _ in parts]
    for step in NEIGHBOURS:
        if 0 <= at + step < len(words):
            yield f"word{step:+d}={low[at + step]}"
            yield f"form{step:+d}={form_of(parts[at + step][1])}"
            if parts[at + step][0]:
                yield f"marks{step:+d}={parts[at + step][0]}_"
            if parts[at + step][2]:
                yield f"marks{step:+d}=_{parts[at + step][2]}"
        else:
            yield f"word{step:+d}="
    for n in (2, 3):
        yield f"begins={low[at][:n]}"
        yield f"ends={low[at][-n:]}"
    if at > 0 and not words[at - 1][-1:].isalnum():
        yield f"{EDGES}{words[at - 1][-1:]}"
    if at > 0:
        yield f"before={low[at - 1]} {low[at]}"
    if at + 1 < len(low):
        yield f"after={low[at]} {low[at + 1]}"


def boundary_features(sentence: Sequence[Mapping[str, Any]], at: int) -> list[str]:
    """Features of the first or last token of a segment, for a CRF over segments.

    >>> boundary_features([{"word": "Ann"}, {"word": ","}], 0)
    ['word=ann', 'form=<Xx>', 'before=', 'after=,']
    """
    word = sentence[at]["word"]
    around = [sentence[t]["word"].lower() if 0 <= t < len(sentence) else "" for t in (at - 1, at + 1)]
    return [f"word={word.lower()}", f"form={word_class(word)}", f"before={around[0]}", f"after={around[1]}"]
