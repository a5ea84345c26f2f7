"""How the links of a pair are written in a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from json import dumps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trellis.apps.align.decoding import Links
    from trellis.data.bitext import Pair


class LinkFormat(StrEnum):
    """How a line of links is written."""

    PHARAOH = "pharaoh"
    ONE_BASED = "one-based"
    WORDS = "words"


@dataclass(frozen=True)
class LinkLines:
    """format, scores, json : options of ``trellis align``."""

    format: LinkFormat
    scores: bool
    json: bool

    def line(self, given: Links, pair: Pair | None) -> str:
        """The links of a pair, whose words are given where they are written."""
        row = given.shifted(1) if self.format is LinkFormat.ONE_BASED else given
        shares = [f"{p:.4g}" for p in row.scores] if self.scores else []
        words = None if pair is None else [[pair[0][i], pair[1][j]] for i, j in row]
        if self.json:
            record = row.record(scores=self.scores)
            if words is not None:
                record = {"links": record.pop("links"), "words": words, **record}
            return dumps(record, ensure_ascii=False)
        if words is not None:
            return " ".join(":".join([*two, *shares[n : n + 1]]) for n, two in enumerate(words))
        return row.pharaoh(scores=self.scores)

    def lines(self, links: Iterable[Links], pairs: Iterable[Pair | None]) -> Iterator[str]:
        """A line for each pair, with its end."""
        return (self.line(given, pair) + "\n" for given, pair in zip(links, pairs, strict=False))
