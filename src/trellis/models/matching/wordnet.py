"""WordNet, if it is installed: whether two words are synonyms, or one is a hypernym of the other.

    index.POS   lemma pos n_synsets n_pointers pointers.. n_senses n_tagged offset..      senses, the commonest first
    data.POS    offset file type n_words(hex) word id .. n_pointers symbol offset pos source/target ..
    POS.exc     form lemma..                                                              irregular forms

(wndb(5WN).) An offset is the place of a line in its file, so lines are read when they are needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trellis.errors import DataError

FOLDERS = ("/usr/share/wordnet", "/usr/local/share/wordnet", "/usr/local/WordNet-3.0/dict")
KINDS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
ENDINGS = {
    "n": (("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"),
          ("ies", "y")),
    "v": (("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
    "a": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "r": (),
}  # fmt: skip
SENSES = 4
"""Rarer senses of a word are left out."""
Synset = tuple[str, int]


def find_wordnet() -> str | None:
    """The folder of WordNet's files: the environment's WNSEARCHDIR, or a usual one; None if there is none."""
    folders = (os.environ.get("WNSEARCHDIR", ""), os.path.join(os.environ.get("WNHOME", ""), "dict"), *FOLDERS)
    return next((folder for folder in folders if folder and os.path.isfile(os.path.join(folder, "index.noun"))), None)


class WordNet:
    """Synsets of words, and of what they point to.

    folder : with the files index.noun, data.noun, noun.exc and those of the other kinds
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._index: dict[str, dict[str, list[int]]] = {}
        self._data: dict[str, bytes] = {}
        self._irregular: dict[str, dict[str, list[str]]] = {}
        self._hypernyms: dict[Synset, dict[Synset, int]] = {}
        self._means: dict[str, dict[str, frozenset[Synset]]] = {}
        for kind, name in KINDS.items():
            try:
                index, irregular = (_lines(Path(folder, file)) for file in (f"index.{name}", f"{name}.exc"))
                self._data[kind] = Path(folder, f"data.{name}").read_bytes()
            except OSError as error:
                raise DataError(f"{folder} does not hold WordNet's files: {error}") from error
            self._index[kind] = {line[0]: [int(x) for x in line[-int(line[2]) :]][:SENSES] for line in index}
            self._irregular[kind] = {line[0]: line[1:] for line in irregular}

    def lemmas(self, word: str, kind: str) -> Iterator[str]:
        """Base forms of a word that WordNet has."""
        index = self._index[kind]
        shortened = (word[: -len(end)] + new for end, new in ENDINGS[kind] if word.endswith(end))
        for form in dict.fromkeys((word, *self._irregular[kind].get(word, ()), *shortened)):
            if form in index:
                yield form

    def means(self, word: str) -> dict[str, frozenset[Synset]]:
        """Synsets of a word in lower case ("same"), what these are kinds of ("more"), what is derived from them
        ("derived"), and what is contrary to them ("contrary")."""
        if word not in self._means:
            self._means[word] = self._find(word)
        return self._means[word]

    def _find(self, word: str) -> dict[str, frozenset[Synset]]:
        same = {
            (kind, offset) for kind in KINDS for form in self.lemmas(word, kind) for offset in self._index[kind][form]
        }
        found: dict[str, set[Synset]] = {"more": set(), "derived": set(), "contrary": set()}
        for synset in same:
            for symbol, to in self._pointers(synset):
                if symbol in ("@", "@i"):
                    found["more"].add(to)
                    found["more"].update(up for sign, up in self._pointers(to) if sign in ("@", "@i"))
                elif symbol == "+":
                    found["derived"].add(to)
                elif symbol == "!":
                    found["contrary"].add(to)
        return {"same": frozenset(same), **{name: frozenset(synsets) for name, synsets in found.items()}}

    def relation(self, one: str, other: str) -> str | None:
        """How two words in lower case are related, if they are."""
        a, b = self.means(one), self.means(other)
        if a["same"] & b["same"]:
            return "synonym"
        if a["contrary"] & b["same"] or b["contrary"] & a["same"]:
            return "contrary"
        if a["derived"] & b["same"] or b["derived"] & a["same"]:
            return "derived"
        if a["more"] & b["same"] or b["more"] & a["same"]:
            return "kind of"
        return None

    def wu_palmer(self, one: str, other: str) -> float:
        """Similarity of two words in lower case by their nearest common hypernym (Wu and Palmer 1994); 0 without one.

        2 d / (a + b + 2 d), of the best pair of senses: a and b are their steps up to the hypernym, d is the number of
        synsets from there to the top.
        """
        ups = [
            [self._above(synset) for synset in sorted(self.means(word)["same"]) if synset[0] in "nv"]
            for word in (one, other)
        ]
        best = 0.0
        for first in ups[0]:
            for second in ups[1]:
                for shared in first.keys() & second.keys():
                    twice = 2.0 * (1 + max(self._above(shared).values()))
                    best = max(best, twice / (first[shared] + second[shared] + twice))
        return best

    def _above(self, synset: Synset) -> dict[Synset, int]:
        """A synset and all its hypernyms, with the fewest steps up to each."""
        if synset not in self._hypernyms:
            steps, reached = {synset: 0}, [synset]
            for here in reached:  # grows: a search by breadth
                for symbol, up in self._pointers(here):
                    if symbol in ("@", "@i") and up not in steps:
                        steps[up] = steps[here] + 1
                        reached.append(up)
            self._hypernyms[synset] = steps
        return self._hypernyms[synset]

    def _pointers(self, synset: Synset) -> Iterator[tuple[str, Synset]]:
        data = self._data[synset[0]]
        line = data[synset[1] : data.index(b"\n", synset[1])].decode("latin-1").split(" ")
        at = 4 + 2 * int(line[3], 16)
        for k in range(int(line[at])):
            symbol, offset, kind, _ = line[at + 1 + 4 * k : at + 5 + 4 * k]
            yield symbol, ("a" if kind == "s" else kind, int(offset))


def _lines(path: Path) -> list[list[str]]:
    """Fields of the lines of a file that are no part of its licence."""
    text = path.read_text(encoding="latin-1")
    return [line.split() for line in text.splitlines() if line and not line.startswith(" ")]
