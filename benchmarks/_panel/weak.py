"""Weak labels: the votes of labelling functions combined into one labelling, without gold labels.

Span F1 of the judged texts. Where a corpus has a training file, its texts are aggregated with them, as
``trellis aggregate FOLDER`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from json import loads
from pathlib import Path

from _panel.common import DATA, Options, Score, folder, run
from trellis.apps.aggregate.majority import majority_vote, span_vote
from trellis.data.columns import write_columns
from trellis.data.document import Document
from trellis.data.voted import kinds_of
from trellis.data.voted_files import read_voted

TITLE = "weak labels: span F1"
OURS = "trellis aggregate"
BASELINES = ("majority vote", "span vote", "plain HMM")
LOWER_IS_BETTER = False
CORPORA = ("bc5cdr", "laptop-review", "conll", "mit-restaurants")
PLAIN = ("--prior-strength", "0", "--entity-bias", "0", "--no-short-forms")
"""Settings of the HMM over votes by maximum likelihood."""


@dataclass(frozen=True)
class Corpus:
    """files : aggregated together; the last one is judged."""

    name: str
    files: list[Path]

    @cached_property
    def texts(self) -> list[Document]:
        return [text for path in self.files for text in read_voted(path)]

    def f1(self, labels: Sequence[Sequence[str]]) -> float:
        """Of all texts of all files, those of the last one are judged, by ``trellis evaluate``."""
        n = sum(1 for _ in read_voted(self.files[-1]))
        judged = list(zip(self.texts, labels, strict=True))[-n:]
        with folder() as path:
            write_columns(path / "out.tsv", (Document(text.tokens, tuple(own)) for text, own in judged))
            run("evaluate", self.files[-1], path / "out.tsv", "-o", path / "scores.json", "--json")
            return 100.0 * float(loads((path / "scores.json").read_text())["total"]["f1"])


def corpora(options: Options) -> Iterator[Corpus]:
    data, names = DATA, CORPORA
    if options.small:
        from _small import corpora as generated

        data, names = generated(), CORPORA[:2]
    judged = "test" if options.test else "valid"
    for name in names:
        own = data / "weak" / name
        parts = ("train", "valid", judged) if (own / "train.json").exists() else (judged,)
        if options.wants(name):
            yield Corpus(name, [own / f"{part}.json" for part in dict.fromkeys(parts)])


def scores(options: Options) -> Iterator[Score]:
    for corpus in corpora(options):
        for name, system in SYSTEMS.items():
            yield options.score("weak", corpus.name, "F1", name, 0, partial(system, corpus))


def by_command(corpus: Corpus, *settings: str) -> tuple[float]:
    with folder() as path:
        run("aggregate", *corpus.files, "-o", path / "out.jsonl", "--quiet", *settings)
        labels = [loads(line)["labels"] for line in (path / "out.jsonl").read_text().splitlines()]
    return (corpus.f1(labels),)


def majority(texts: Sequence[Document]) -> list[list[str]]:
    """The vote of most functions at each token; of equals, that of the type that comes first."""
    votes = [vote for text in texts for own in text.votes.values() for vote in own if vote]
    return majority_vote(texts, ["O", *(mark + kind for kind in kinds_of(votes, {}) for mark in ("B-", "I-"))])


def by_majority(corpus: Corpus) -> tuple[float]:
    return (corpus.f1(majority(corpus.texts)),)


def by_span_vote(corpus: Corpus) -> tuple[float]:
    return (corpus.f1(span_vote(corpus.texts)),)


SYSTEMS: dict[str, Callable[..., tuple[float]]] = {
    OURS: by_command,
    "majority vote": by_majority,
    "span vote": by_span_vote,
    "plain HMM": lambda corpus: by_command(corpus, *PLAIN),
}
