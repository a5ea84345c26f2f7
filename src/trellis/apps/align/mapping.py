"""Links of one tokenisation as links of another, by the characters that tokens share.

Two tokenisations of a text have the same characters apart from white space. Tokens that share a character correspond,
and a link of two tokens becomes links of all tokens that correspond to them. Markers of common tokenisers are known:

    SentencePiece   ▁ begins a word                     ▁Gard eners  =  Gardeners
    subword-nmt     @@ continues a word                 Gard@@ eners  =  Gardeners
    WordPiece       ## continues a word                 Gard ##eners  =  Gardeners
    Moses           @-@, &apos; and other entities      well @-@ kept  =  well-kept

>>> words, pieces = ["the", "gardeners"], ["▁the", "▁gard", "eners"]
>>> map_links([(0, 0), (1, 1)], corresponding(words, pieces), None)
[(0, 0), (1, 1), (2, 1)]
>>> map_links([(0, 0), (1, 1), (2, 1)], corresponding(pieces, words), None)
[(0, 0), (1, 1)]
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from itertools import accumulate

from trellis.errors import DataError

Link = tuple[int, int]


def characters(token: str) -> str:
    """Characters of a token without white space and without a tokeniser's markers.

    >>> [characters(token) for token in ("▁Gard", "Gard@@", "##eners", "@-@", "&apos;s", "@@", "▁")]
    ['Gard', 'Gard', 'eners', '-', "'s", '@@', '']
    """
    if len(token) > 2:
        token = token.removesuffix("@@").removeprefix("##")
        if token[0] == token[-1] == "@" and len(token) == 3:
            token = token[1]
    token = token.replace("▁", "")
    return "".join(html.unescape(token).split() if "&" in token else token.split())


def corresponding(tokens: Sequence[str], others: Sequence[str]) -> list[list[int]]:
    """Of each token, the places of the other tokens that share a character with it.

    >>> corresponding(["don't", "go"], ["do", "n't", "go"])
    [[0, 1], [2]]
    """
    own, theirs = [characters(token) for token in tokens], [characters(token) for token in others]
    left, right = "".join(own), "".join(theirs)
    if left != right:
        at = next((k for k, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
        raise DataError(
            f"the two tokenisations contain different characters, starting at {left[at : at + 20]!r} and "
            f"{right[at : at + 20]!r}"
        )
    of_character = [place for place, token in enumerate(theirs) for _ in token]
    ends = list(accumulate(map(len, own)))
    return [sorted({*of_character[end - len(token) : end]}) for token, end in zip(own, ends, strict=True)]


def map_links(
    links: Iterable[Link], source: Sequence[Sequence[int]] | None, target: Sequence[Sequence[int]] | None
) -> list[Link]:
    """Links of other tokens, sorted.

    source, target : places of the tokens that correspond to each token of a side; None: the side stays as it is
    """
    return sorted({(a, b) for i, j in links for a in _moved(i, source) for b in _moved(j, target)})


def _moved(place: int, places: Sequence[Sequence[int]] | None) -> Sequence[int]:
    if places is None:
        return (place,)
    if not 0 <= place < len(places):
        raise DataError(f"there is a link to token {place}, but the sentence has {len(places)} tokens")
    return places[place]
