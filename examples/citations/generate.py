"""Generated citations with gold fields, from the word lists below.

    python examples/citations/generate.py FOLDER [--labelled 5 --unlabelled 300 --test 100 --seed 0]

writes few.tsv, text.txt and gold.tsv (those beside this file: --seed 1). The labelled texts are the first draw in which
every field occurs: texts to label should be chosen like that. They are hard for a tagger, and rules help, because
most surnames are invented, words of titles recur in names of journals and conferences, several styles
order and punctuate fields in different ways, punctuation also occurs inside fields, and some citations violate a rule
(a year in a title, no mark between two fields, a title first).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from trellis.data.columns import write_columns
from trellis.data.document import Document
from trellis.data.files import writing
from trellis.data.tokens import tokenise

TOPICS = [
    "learning",
    "memory",
    "logic",
    "parallel machines",
    "graphs",
    "vision",
    "robots",
    "speech",
    "databases",
    "networks",
    "planning",
    "compilers",
    "proofs",
    "genetic search",
    "constraint systems",
    "neural networks",
    "shared memory",
    "data streams",
    "program analysis",
    "distributed systems",
]
ADJECTIVES = [
    "fast",
    "optimal",
    "robust",
    "adaptive",
    "efficient",
    "approximate",
    "incremental",
    "abstract",
    "probabilistic",
    "hierarchical",
    "dynamic",
    "compact",
    "simple",
    "general",
    "new",
    "practical",
    "lazy",
    "modular",
    "fair",
    "local",
]
NOUNS = [
    "algorithm",
    "model",
    "theory",
    "method",
    "framework",
    "analysis",
    "language",
    "architecture",
    "approach",
    "survey",
    "representation",
    "scheme",
    "implementation",
    "evaluation",
    "semantics",
    "protocol",
    "journal",
    "system",
    "structure",
    "note",
]
VERBS = [
    "learning",
    "using",
    "building",
    "testing",
    "scheduling",
    "sorting",
    "searching",
    "compressing",
    "indexing",
    "sharing",
]
SYLLABLES = [
    "bar",
    "len",
    "kov",
    "mi",
    "tan",
    "ros",
    "del",
    "hu",
    "ster",
    "gri",
    "ma",
    "no",
    "pe",
    "wick",
    "sun",
    "or",
    "fal",
    "ki",
    "ze",
    "ral",
    "to",
    "vi",
    "ben",
    "cha",
    "dor",
]
FIRST = [
    "Ann",
    "Boris",
    "Carla",
    "David",
    "Elena",
    "Frank",
    "Greta",
    "Hugo",
    "Irma",
    "Jonas",
    "Karin",
    "Luis",
    "Maria",
    "Nils",
    "Olga",
    "Peter",
]
PUBLISHERS = ["Northgate Press", "Hill & Vale", "Meridian", "Oak Street Books", "University Press", "Quarto Verlag"]
PLACES = [
    "Sydney, Australia",
    "Palo Alto, CA",
    "New York, NY",
    "Lisbon, Portugal",
    "Austin, Texas",
    "Kyoto, Japan",
    "Ghent",
]
SCHOOLS = [
    "Eastfield University",
    "Institute of Computing, Lowell",
    "Department of Computer Science, University of Marn",
]
MONTHS = ["January", "March", "May", "June", "July", "September", "Oct.", "Nov.", "Dec."]
DRAWS = 2000

Piece = tuple[str, str]
Maker = Callable[[int, list[int]], list[Document]]


def citation(rng: np.random.Generator) -> list[Piece]:
    """One citation as pieces of text with their fields."""

    def one(items: list[str]) -> str:
        return str(items[rng.integers(len(items))])

    def chance(p: float) -> bool:
        return bool(rng.random() < p)

    def surname() -> str:
        return "".join(one(SYLLABLES) for _ in range(rng.integers(2, 4))).capitalize()

    def person(turned: bool, full: bool) -> str:
        letters = rng.choice(list("ABCDEGHJKLMPRST"), rng.integers(1, 3))
        initials = one(FIRST) if full else " ".join(f"{c}." for c in letters)
        return f"{surname()}, {initials}" if turned else f"{initials} {surname()}"

    def people(turned: bool) -> str:
        full = chance(0.2)
        names = [person(turned, full) for _ in range(rng.choice([1, 2, 2, 3, 4]))]
        if len(names) == 1:
            return names[0]
        joint = one([" and ", ", and ", " & "])
        return ", ".join(names[:-1]) + joint + names[-1]

    def phrase() -> str:
        form = rng.integers(4)
        topic, other = one(TOPICS), one(TOPICS)
        if form == 0:
            return f"{one(ADJECTIVES)} {one(NOUNS)} for {one(VERBS)} {topic}"
        if form == 1:
            return f"{one(ADJECTIVES)} {topic}: {one(VERBS)} a {one(NOUNS)} of {other}"
        if form == 2:
            return f"the {one(NOUNS)} of {topic}, {other} and {one(VERBS)}"
        return f"{one(VERBS)} {one(ADJECTIVES)} {topic}" + (f" in {rng.integers(1960, 1999)}" if chance(0.08) else "")

    turned, year = chance(0.45), str(rng.integers(1975, 2000))
    bracketed = turned and chance(0.6)
    end = one([".", "."] if turned else [".", ",", "."])
    title = phrase()
    title = title[0].upper() + title[1:]
    quoted = chance(0.2)
    title = f'"{title}{end}"' if quoted else f"{title}{end}"
    edited = chance(0.06)
    names = people(turned) + (", editors" if edited else "")
    pieces: list[Piece] = [("EDITOR" if edited else "AUTHOR", names.removesuffix(".") + end)]
    if bracketed:
        pieces.append(("DATE", f"({year}){end}"))
    pieces.append(("TITLE", title))
    kind = rng.choice(["journal", "conference", "tech", "book", "note"], p=[0.36, 0.36, 0.1, 0.12, 0.06])
    pages = f"{rng.integers(1, 400)}-{rng.integers(400, 800)}"
    month = f"{one(MONTHS)} " if chance(0.3) else ""
    tail: list[Piece] = []
    if kind == "journal":
        name = one(["Journal of {}", "{} Letters", "ACM Transactions on {}", "Annals of {}", "{}"]).format(
            one(TOPICS).title()
        )
        tail.append(("JOURNAL", f"{name},"))
        n = rng.integers(1, 60)
        tail.append(("VOLUME", one([f"{n},", f"{n}({rng.integers(1, 9)}),", f"vol. {n}, no. {rng.integers(1, 9)},"])))
        if chance(0.8):
            tail.append(("PAGES", one([f"{pages},", f"pp. {pages},", f"pages {pages},"])))
    elif kind == "conference":
        meeting = one(["Conference", "Symposium", "Workshop"]) + " on " + one(TOPICS).title()
        nth = f"{rng.integers(2, 30)}th "
        tail.append(
            (
                "BOOKTITLE",
                one([f"In Proceedings of the {nth}", f"Proc. {nth}", "In International ", f"In {nth}ACM "])
                + meeting
                + ",",
            )
        )
        if chance(0.1):
            tail.append(("EDITOR", people(False) + ", editors,"))
        if chance(0.7):
            tail.append(("PAGES", one([f"{pages},", f"pp. {pages},", f"pages {pages},"])))
        if chance(0.4):
            tail.append(("LOCATION", one(PLACES) + one([",", "."])))
        if chance(0.2):
            tail.append(("PUBLISHER", one(PUBLISHERS) + ","))
    elif kind == "tech":
        tail.append(
            ("TECH", one(["Technical Report", "Tech. Rep."]) + f" {one(['TR', 'CS'])}-{rng.integers(10, 400)},")
        )
        tail.append(("INSTITUTION", one(SCHOOLS) + ","))
    elif kind == "book":
        tail.append(("PUBLISHER", one(PUBLISHERS) + ","))
        if chance(0.5):
            tail.append(("LOCATION", one(PLACES) + ","))
    else:
        tail.append(("NOTE", one(["To appear.", "Submitted for publication,", f"Unpublished note, {one(SCHOOLS)},"])))
    if not bracketed:
        tail.append(("DATE", f"{month}{year},"))
    if chance(0.05) and len(tail) > 1:  # no mark between two fields
        at = rng.integers(len(tail) - 1)
        tail[at] = (tail[at][0], tail[at][1].rstrip(",."))
    pieces += tail
    label, last = pieces[-1]
    pieces[-1] = (label, last.rstrip(",.") + ".")
    if chance(0.02):  # nobody wrote it: the title comes first
        pieces = pieces[1:]
    return pieces


def labelled_text(pieces: list[Piece]) -> Document:
    """The pieces joined by spaces and tokenised, every token with the field of its piece."""
    whole = tokenise(" ".join(text for _, text in pieces))
    labels = [field for field, text in pieces for _ in range(len(tokenise(text)))]
    return replace(whole, labels=tuple(labels))


def citations(n: int, seed: list[int]) -> list[Document]:
    """``n`` citations with their fields."""
    rng = np.random.default_rng(seed)
    return [labelled_text(citation(rng)) for _ in range(n)]


def labelled_sample(make: Maker, n: int, seed: int, fields: set[str]) -> list[Document]:
    """The first draw of ``n`` texts in which every field occurs; the first one of all where none is found."""
    draws = (make(n, [seed, 0, draw]) for draw in range(DRAWS))
    return next((texts for texts in draws if fields <= fields_of(texts)), make(n, [seed, 0, 0]))


def fields_of(texts: list[Document]) -> set[str]:
    return {label for text in texts for label in text.labels or () if label is not None}


def write_samples(folder: Path, make: Maker, sizes: tuple[int, int, int] = (5, 300, 100), seed: int = 0) -> None:
    """few.tsv, text.txt and gold.tsv."""
    many, gold = (make(n, [seed, i]) for i, n in enumerate(sizes[1:], 1))
    few = labelled_sample(make, sizes[0], seed, fields_of(many + gold))
    write_columns(folder / "few.tsv", few)
    write_columns(folder / "gold.tsv", gold)
    with writing(folder / "text.txt") as out:
        out.writelines(text.text + "\n" for text in many)


def main(make: Maker = citations) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name, default in (("labelled", 5), ("unlabelled", 300), ("test", 100), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    write_samples(given.folder, make, (given.labelled, given.unlabelled, given.test), given.seed)


if __name__ == "__main__":
    main()
