"""Default features of a token in a CRF: the word and its shape, affixes, neighbours, and the position in the text.

Features of your own are added by a function (sentence, position) -> description, see :mod:`trellis.models.features`;
the tokens it is given are dictionaries with the columns of the text, "word" among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trellis.apps.extract.word_classes import form_of, split_marks, word_class
from trellis.constraints.rules.features import TextFeature
from trellis.models.features import FeatureFunction, named_values

NEIGHBOURS = (-2, -1, 0, 1, 2)
EDGES = "mark before="
"""How the names of features begin that have weights for pairs of labels: fields often end with a mark."""
LAST = 4
"""Places from the beginning and from the end of a text that are told apart."""


@dataclass(frozen=True)
class TokenFeatures:
    """The features, those of ``more`` after the ready ones; told : those of a rules file.

    >>> TokenFeatures()([{"word": "Ann"}, {"word": ","}], 0)[:4]
    ['word-2=', 'word-1=', 'word+0=ann', 'form+0=<Xx>']
    """

    more: FeatureFunction | None = None
    told: tuple[TextFeature, ...] = ()

    def __call__(self, sentence: Sequence[Mapping[str, Any]], at: int) -> list[Any]:
        found = list(_ready([token["word"] for token in sentence[max(at - 2, 0) : at + 3]], min(at, 2)))
        n = len(sentence)
        found += [f"tenth={10 * at // n}", f"from start={min(at, LAST)}", f"from end={min(n - 1 - at, LAST)}"]
        if self.told:
            words = [token["word"] for token in sentence]
            found += [f"told {name}" for feature in self.told for name in feature.at(words, at)]
        if self.more is not None:
            # names of one's own cannot meet the ready ones
            found += [f"own {name}" for name, value in named_values(self.more(sentence, at)) if value]
        return found


def _ready(words: Sequence[str], at: int) -> Iterator[str]:
    """Of the words around a token, which is ``at`` in them."""
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
    """What a CRF over segments sees of a token that is the first or the last of a segment.

    >>> boundary_features([{"word": "Ann"}, {"word": ","}], 0)
    ['word=ann', 'form=<Xx>', 'before=', 'after=,']
    """
    word = sentence[at]["word"]
    around = [sentence[t]["word"].lower() if 0 <= t < len(sentence) else "" for t in (at - 1, at + 1)]
    return [f"word={word.lower()}", f"form={word_class(word)}", f"before={around[0]}", f"after={around[1]}"]
