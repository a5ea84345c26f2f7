"""Writes the parallel text of this folder: sentences about a garden in English and an artificial French, with
tags, trees and word links from the grammar.

    python examples/garden/generate.py

Most names occur once or twice, and the right side has insertions without a counterpart on the left. This is hard for
aligners, because rare words collect unexplained words (garbage collection).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
DETERMINERS = {"the": "le", "a": "un", "this": "ce", "every": "chaque"}
ADJECTIVES = {
    "old": "vieux", "green": "vert", "quiet": "calme", "tall": "haut", "small": "petit", "bright": "clair",
    "cold": "froid", "heavy": "lourd",
}  # fmt: skip
NOUNS = {
    "gardener": "jardinier", "wall": "mur", "tree": "arbre", "bird": "oiseau", "hill": "coteau", "bridge": "pont",
    "river": "fleuve", "baker": "boulanger", "ladder": "escabeau", "garden": "jardin", "lamp": "fanal",
    "potato": "pomme de terre", "railway": "chemin de fer",
}  # fmt: skip
VERBS = {"sees": "voit", "paints": "peint", "crosses": "traverse", "likes": "aime", "sells": "vend", "draws": "dessine"}
PREPOSITIONS = {"behind": "derrière", "near": "près", "under": "sous"}
ADVERBS = {"often": "souvent", "never": "jamais", "slowly": "lentement"}
SYLLABLES = ("ba", "do", "fi", "ga", "hu", "ka", "lo", "mi", "nu", "po", "ra", "se", "ti", "vo", "zu")


@dataclass
class Side:
    """Words with their tags, relations and heads; a head is a place in this list, None for that of the phrase."""

    words: list[tuple[str, str, str, int | None]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.words)

    def append(self, other: Side, relation: str, head: int | None) -> int:
        """Another phrase behind this one, its head hanging on ``head``; where its own head now stands."""
        at, top = len(self), 0
        for k, (word, tag, own, above) in enumerate(other.words):
            if above is None:
                top = at + k
                self.words.append((word, tag, relation, head))
            else:
                self.words.append((word, tag, own, at + above))
        return top


@dataclass
class Phrase:
    """One meaning, on both sides, and which words mean each other."""

    left: Side
    right: Side
    links: set[tuple[int, int]]


def word(table: dict[str, str], tag: str, rng: np.random.Generator) -> Phrase:
    chosen = str(rng.choice(list(table)))
    return Phrase(Side([(chosen, tag, "", None)]), Side([(table[chosen], tag, "", None)]), {(0, 0)})


def name(rng: np.random.Generator, names: dict[str, str]) -> Phrase:
    chosen = list(names)[int(len(names) * rng.random())]
    return Phrase(Side([(chosen, "PROPN", "", None)]), Side([(names[chosen], "PROPN", "", None)]), {(0, 0)})


def noun_phrase(rng: np.random.Generator, names: dict[str, str]) -> Phrase:
    """The adjective stands before the noun on the left, after it on the right; some nouns are three words there."""
    if rng.random() < 0.35:
        return name(rng, names)
    noun, determiner = str(rng.choice(list(NOUNS))), str(rng.choice(list(DETERMINERS)))
    adjective = str(rng.choice(list(ADJECTIVES))) if rng.random() < 0.4 else None
    head = 1 if adjective is None else 2
    left = [(determiner, "DET", "det", head), (noun, "NOUN", "", None)]
    if adjective is not None:
        left.insert(1, (adjective, "ADJ", "amod", head))
    right = [(DETERMINERS[determiner], "DET", "det", 1)]
    translated = NOUNS[noun].split()
    right.append((translated[0], "NOUN", "", None))
    if len(translated) == 3:
        right += [(translated[1], "ADP", "case", 3), (translated[2], "NOUN", "nmod", 1)]
    links = {(0, 0)} | {(head, 1 + k) for k in range(len(translated))}
    if adjective is not None:
        links.add((1, len(right)))
        right.append((ADJECTIVES[adjective], "ADJ", "amod", 1))
    return Phrase(Side(left), Side(right), links)


def sentence(rng: np.random.Generator, names: dict[str, str]) -> Phrase:
    subject, verb, thing = noun_phrase(rng, names), word(VERBS, "VERB", rng), noun_phrase(rng, names)
    pieces = [("nsubj", subject), ("root", verb), ("obj", thing)]
    if rng.random() < 0.5:
        case, where = word(PREPOSITIONS, "ADP", rng), noun_phrase(rng, names)
        pieces.append(("obl", _with_case(case, where)))
    if rng.random() < 0.3:
        pieces.insert(1, ("advmod", word(ADVERBS, "ADV", rng)))
    for _ in range(rng.poisson(2.0)):  # asides, on the right alone
        said = "".join(rng.choice(SYLLABLES, size=2))
        aside = Phrase(Side(), Side([(said, "ADV", "", None)]), set())
        pieces.insert(int(rng.integers(1, len(pieces))), ("discourse", aside))
    pieces.append(("punct", Phrase(Side([(".", "PUNCT", "", None)]), Side([(".", "PUNCT", "", None)]), {(0, 0)})))
    order = list(range(len(pieces)))
    if pieces[-2][0] == "obl" and rng.random() < 0.4:  # the place comes first on the right
        order.insert(0, order.pop(-2))
    made = Phrase(Side(), Side(), set())
    starts: list[dict[int, int]] = []
    for side, ordered in (("left", range(len(pieces))), ("right", order)):
        target, start, tops = getattr(made, side), {}, {}
        for k in ordered:
            start[k] = len(target)
            piece = getattr(pieces[k][1], side)
            tops[k] = target.append(piece, pieces[k][0], None) if piece.words else None
        root = tops[next(k for k, (relation, _) in enumerate(pieces) if relation == "root")]
        target.words = [(w, t, r, root if h is None and r != "root" else h) for w, t, r, h in target.words]
        starts.append(start)
    for k, (_, piece) in enumerate(pieces):
        made.links |= {(i + starts[0][k], j + starts[1][k]) for i, j in piece.links}
    return made


def _with_case(case: Phrase, where: Phrase) -> Phrase:
    left, right = Side(), Side()
    for side, one, two in ((left, case.left, where.left), (right, case.right, where.right)):
        n = len(one)
        noun = n + next(k for k, w in enumerate(two.words) if w[3] is None)
        side.append(one, "case", noun)
        side.append(two, "", None)
    n, m = len(case.left), len(case.right)
    return Phrase(left, right, case.links | {(i + n, j + m) for i, j in where.links})


def names_of(rng: np.random.Generator, n: int = 400) -> dict[str, str]:
    """Names that are other names on the other side."""
    drawn = ["".join(rng.choice(SYLLABLES, size=3)).capitalize() for _ in range(2 * n)]
    return dict(zip(drawn[::2], drawn[1::2], strict=True))


def conllu(side: Side, trees: bool) -> str:
    lines = []
    for k, (form, tag, relation, head) in enumerate(side.words, start=1):
        where = ["0" if head is None else str(head + 1), relation] if trees else ["_", "_"]
        lines.append("\t".join([str(k), form, "_", tag, "_", "_", *where, "_", "_"]))
    return "\n".join(lines) + "\n\n"


def main() -> None:
    rng = np.random.default_rng(4)
    names = names_of(rng)
    pairs = [sentence(rng, names) for _ in range(300)]
    left, right = [p.left for p in pairs], [p.right for p in pairs]

    def write(file: str, parts: list[str]) -> None:
        (HERE / file).write_text("".join(parts), encoding="utf-8")

    write("text.en", [" ".join(w[0] for w in s.words) + "\n" for s in left])
    write("text.fr", [" ".join(w[0] for w in s.words) + "\n" for s in right])
    write("gold.links", [" ".join(f"{i}-{j}" for i, j in sorted(p.links)) + "\n" for p in pairs])
    write("gold.tsv", ["".join(f"{w[0]}\t{w[1]}\n" for w in s.words) + "\n" for s in left])
    write("train.conllu", [conllu(s, True) for s in left[:200]])
    write("test.conllu", [conllu(s, True) for s in left[200:]])
    write("en.conllu", [conllu(s, False) for s in left[:200]])
    write("fr.conllu", [conllu(s, False) for s in right[:200]])
    write("fr-test.conllu", [conllu(s, True) for s in right[200:]])


if __name__ == "__main__":
    main()
