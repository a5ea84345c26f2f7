"""Word alignment of a bitext that this file generates: what agreement between the two directions changed.

python examples/demo_align.py
"""

from __future__ import annotations

import numpy as np

from trellis.metrics.alignment import GoldLinks, score_links
from trellis.tasks.align import Aligner

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
SYLLABLES = ("ba", "do", "fi", "ga", "hu", "ka", "lo", "mi", "nu", "po", "ra", "se", "ti", "vo", "zu")
PREPOSITIONS = {"behind": "derrière", "near": "près de", "under": "sous"}
ROWS = (
    ("EM, one direction", "none", "forward"),
    ("EM, both directions, grow-diag-final-and", "none", "grow-diag-final-and"),
    ("PR: both directions agree", "agreement", "posterior"),
)
Pair = tuple[list[str], list[str], set[tuple[int, int]]]


def add_rare_names(rng: np.random.Generator, n: int = 300) -> None:
    """Names that are other names on the other side, most of them seen once or twice: what aligners find hard."""
    for _ in range(n):
        left, right = ("".join(rng.choice(SYLLABLES, size=3)) for _ in range(2))
        NOUNS.setdefault(left.capitalize(), right.capitalize())


def noun_phrase(rng: np.random.Generator) -> Pair:
    """The adjective stands before the noun on the left, after it on the right; some nouns are three words there."""
    names = list(NOUNS)
    noun, determiner = names[int(len(names) * rng.random() ** 3)], str(rng.choice(list(DETERMINERS)))
    translated = NOUNS[noun].split()
    if rng.random() < 0.3:
        source, target, links = [determiner], [], set()  # one that the translator left out
    else:
        source, target, links = [determiner], [DETERMINERS[determiner]], {(0, 0)}
    first = len(target)
    target += translated
    if rng.random() < 0.5:
        adjective = str(rng.choice(list(ADJECTIVES)))
        source.append(adjective)
        links.add((1, len(target)))
        target.append(ADJECTIVES[adjective])
    source.append(noun)
    links |= {(len(source) - 1, first + k) for k in range(len(translated))}
    return source, target, links


def join(parts: list[Pair], rng: np.random.Generator) -> Pair:
    """Phrases in order on the left, in any order on the right."""
    order = rng.permutation(len(parts)).tolist()
    target: list[str] = []
    start = {}
    for k in order:
        start[k] = len(target)
        target += parts[k][1]
    source: list[str] = []
    links: set[tuple[int, int]] = set()
    for k, (s, _, pairs) in enumerate(parts):
        links |= {(i + len(source), j + start[k]) for i, j in pairs}
        source += s
    return source, target, links


def word(table: dict[str, str], rng: np.random.Generator) -> Pair:
    chosen = str(rng.choice(list(table)))
    translated = table[chosen].split()
    return [chosen], translated, {(0, j) for j in range(len(translated))}


def sentence(rng: np.random.Generator) -> Pair:
    parts = [noun_phrase(rng), word(VERBS, rng), noun_phrase(rng)]
    for filler in ("donc", "bien", "alors"):
        if rng.random() < 0.25:
            parts.insert(int(rng.integers(len(parts) + 1)), ([], [filler], set()))
    if rng.random() < 0.5:
        parts += [word(PREPOSITIONS, rng), noun_phrase(rng)]
    return join(parts, rng)


def main() -> None:
    rng = np.random.default_rng(4)
    add_rare_names(rng)
    pairs = [sentence(rng) for _ in range(100)]
    source, target = [" ".join(s) for s, _, _ in pairs], [" ".join(t) for _, t, _ in pairs]
    gold = [GoldLinks(frozenset(links), frozenset(links)) for _, _, links in pairs]
    print(f"\nA generated bitext of {len(pairs)} sentence pairs, aligned without a single link given")
    print(f"  {'trained with':44}{'precision':>10}{'recall':>8}{'AER':>7}")
    found: dict[str, list[set[tuple[int, int]]]] = {}
    for name, constraint, symmetrize in ROWS:
        aligner = Aligner(constraint, symmetrize=symmetrize, prefix=None, n_jobs=1)
        found[name] = [set(links) for links in aligner.fit_align([(s, t) for s, t, _ in pairs])]
        scores = score_links(found[name], gold)
        print(f"  {name:44}{scores.precision:>10.3f}{scores.recall:>8.3f}{scores.aer:>7.3f}")
    before, after = found[ROWS[0][0]], found[ROWS[-1][0]]
    print("\n  What agreement changed:")
    right = [len(after[i] ^ gold[i].sure) - len(before[i] ^ gold[i].sure) for i in range(len(pairs))]
    for i in sorted(range(len(pairs)), key=lambda i: right[i])[:2]:
        s, t, _ = pairs[i]
        gone, new = sorted(before[i] - after[i]), sorted(after[i] - before[i])
        print(f"\n    {source[i]}  |||  {target[i]}")
        for title, links in (("no longer", gone), ("now", new)):
            if links:
                print(f"      {title:10}" + ", ".join(f"{s[a]} ({a}) - {t[b]} ({b})" for a, b in links))


if __name__ == "__main__":
    main()
