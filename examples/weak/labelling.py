"""Weak supervision from start to end: labelling functions, their combined votes, and a tagger trained on the result.

    python examples/weak/labelling.py          half a minute
    python examples/weak/labelling.py --write  votes.jsonl and gold.tsv beside this file, for the command line

As with Snorkel or skweak, functions vote on texts, an aggregator replaces gold labels, and the final model needs no
functions. The texts are generated, so gold labels are known.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from trellis import CRF, Aggregator
from trellis.apps.aggregate.aggregator import voted_texts
from trellis.apps.aggregate.majority import majority_vote
from trellis.data.voted import Span, spans_of_labels

STEMS = ("aspi", "ibupro", "naproxe", "zolpide", "valsar", "losar", "ator", "fluoxe", "cipro", "amoxi", "keto", "warfa")
ENDINGS = ("rin", "fen", "tan", "vastatin", "cillin", "prazole", "tine")
AILMENTS = (
    "headache",
    "nausea",
    "chest pain",
    "renal failure",
    "fever",
    "rash",
    "back pain",
    "heart failure",
    "anxiety",
)
FRAMES = (
    "the patient took {d} for {a} .", "{d} may cause {a} in adults .", "after {d} the {a} was gone .",
    "no {a} was seen with {d} or {e} .", "{d} and {e} were given daily .", "she reported {a} on the second day .",
)  # fmt: skip

Function = Callable[[list[str]], Iterator[Span]]


def dictionary(words: set[str], kind: str) -> Function:
    """Known names, of one or two words."""

    def look(tokens: list[str]) -> Iterator[Span]:
        for i in range(len(tokens)):
            for n in (2, 1):
                if " ".join(tokens[i : i + n]) in words and i + n <= len(tokens):
                    yield i, i + n, kind
                    break

    return look


def ending(pattern: str, kind: str) -> Function:
    """Words that look like a name."""

    def look(tokens: list[str]) -> Iterator[Span]:
        for i, token in enumerate(tokens):
            if re.search(pattern, token):
                yield i, i + 1, kind

    return look


def something_after(cues: set[str]) -> Function:
    """Some entity stands after these words: which kind it is the function does not know (``*``)."""

    def look(tokens: list[str]) -> Iterator[Span]:
        for i in range(1, len(tokens)):
            if tokens[i - 1] in cues and tokens[i].isalpha():
                yield i, i + 1, "*"

    return look


FUNCTIONS: dict[str, Function] = {
    "drug list": dictionary({"aspirin", "ibuprofen", "naproxetan", "losartan", "amoxicillin", "valsartan"}, "DRUG"),
    "drug endings": ending("(vastatin|cillin|prazole|tan|tine|fen)$", "DRUG"),
    "ailment list": dictionary({"headache", "nausea", "fever", "chest pain", "heart failure", "rash"}, "AILMENT"),
    "ailment words": ending("^(pain|failure|fever|anxiety)$", "AILMENT"),
    "after a verb": something_after({"took", "cause", "reported"}),
}


def texts(n: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences and their true labels."""
    rng = np.random.default_rng(seed)
    sentences, labels = [], []
    for _ in range(n):
        tokens: list[str] = []
        own: list[str] = []
        for piece in str(rng.choice(FRAMES)).split():
            if piece in ("{d}", "{e}"):
                tokens.append(str(rng.choice(STEMS)) + str(rng.choice(ENDINGS)))
                own.append("B-DRUG")
            elif piece == "{a}":
                name = str(rng.choice(AILMENTS)).split()
                tokens += name
                own += ["B-AILMENT", *["I-AILMENT"] * (len(name) - 1)]
            else:
                tokens.append(piece)
                own.append("O")
        sentences.append(tokens)
        labels.append(own)
    return sentences, labels


def span_f1(found: list[list[str]], gold: list[list[str]]) -> float:
    pairs = [(set(spans_of_labels(a)), set(spans_of_labels(b))) for a, b in zip(found, gold, strict=True)]
    right, total = sum(len(a & b) for a, b in pairs), sum(len(a) + len(b) for a, b in pairs)
    return 200.0 * right / total


def features(tokens: list[str], at: int) -> dict[str, str]:
    """What the end model sees of a token."""
    near = {f"word{step:+d}": tokens[at + step] for step in (-1, 1) if 0 <= at + step < len(tokens)}
    return {"word": tokens[at], "end3": tokens[at][-3:], "end2": tokens[at][-2:], **near}


def votes_on(sentences: list[list[str]]) -> list[dict[str, object]]:
    return [
        {"tokens": tokens, "spans": {name: list(look(tokens)) for name, look in FUNCTIONS.items()}}
        for tokens in sentences
    ]


def write(folder: Path) -> None:
    sentences, gold = texts(200, seed=2)
    lines = "".join(json.dumps(votes) + "\n" for votes in votes_on(sentences))
    (folder / "votes.jsonl").write_text(lines, encoding="utf-8")
    blocks = ("".join(f"{a}\t{b}\n" for a, b in zip(*pair, strict=True)) for pair in zip(sentences, gold, strict=True))
    (folder / "gold.tsv").write_text("\n".join(blocks), encoding="utf-8")


def main(n: int = 600) -> None:
    """Aggregate the votes on n texts, and train a tagger on the result."""
    sentences, gold = texts(n, seed=0)
    votes = votes_on(sentences)
    aggregator = Aggregator(["DRUG", "AILMENT"]).fit(votes)
    print("what is estimated of each function, without a gold label:")
    for name, found in aggregator.accuracies_.items():
        print(f"  {name:<15} right in {100 * (found.accuracy or 0):5.1f} % of {found.votes} votes")

    vote = majority_vote(voted_texts(votes), aggregator.label_names_)
    before, after = span_f1(vote, gold), span_f1(aggregator.labels_, gold)
    print(f"\nspan F1 on the {len(sentences)} texts: majority vote {before:.1f}, aggregated {after:.1f}")

    # The end model learns from the aggregated labels; a text counts by how sure its least sure token is.
    sure = [float(nodes.max(axis=1).min()) for nodes in aggregator.probabilities_]
    tagger = CRF(aggregator.label_names_, features=features, l2=1.0)
    tagger.fit(sentences, aggregator.labels_, sample_weight=sure)
    new, truth = texts(300, seed=1)
    print(f"a tagger trained on them, on 300 new texts without any function: {span_f1(tagger.predict(new), truth):.1f}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write(Path(__file__).parent)
    else:
        main()
