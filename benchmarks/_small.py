"""Small runs: with ``--small`` a benchmark takes seconds, on generated corpora in the formats of the real ones."""

from __future__ import annotations

import argparse
import atexit
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def arguments(parser: argparse.ArgumentParser, **small: Any) -> argparse.Namespace:
    """The options given. With ``--small`` their defaults are those of ``small``, and corpora are generated."""
    parser.add_argument("--small", action="store_true", help="run for seconds, on generated corpora")
    if "--small" in sys.argv[1:]:
        parser.set_defaults(**small)
        os.environ["TRELLIS_DATA"] = str(corpora())
    return parser.parse_args()


def scratch_folder() -> Path:
    """A folder that is removed when the program ends."""
    folder = tempfile.mkdtemp(prefix="trellis-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def corpora() -> Path:
    """A folder with a small corpus in the place of every real one."""
    folder = scratch_folder()
    for write in (
        _align, _bitext, _tags, _chunks, _trees, _citations, _relations, _names, _sentence_pairs, _archives, _weak,
    ):  # fmt: skip
        write(folder, np.random.default_rng(0))
    return folder


# a language

PTB = {
    "DET": "DT", "ADJ": "JJ", "NOUN": "NN", "VERB": "VBZ", "ADP": "IN", "ADV": "RB", "PROPN": "NNP", "PRON": "PRP",
    "PUNCT": ".",
}  # fmt: skip
CHUNK = {"DET": "NP", "ADJ": "NP", "NOUN": "NP", "PROPN": "NP", "PRON": "NP", "VERB": "VP", "ADP": "PP", "ADV": "ADVP"}
ENDINGS = {"ADJ": "al", "NOUN": "on", "VERB": "es", "ADV": "ly"}
BOTH = ("walks", "plans", "notes", "stops", "open", "mean")
"""Words that are nouns, verbs and adjectives, and two fifths of these."""


def _stems(n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < n:
        found["".join(rng.choice(list("bdfgklmnprstv")) + rng.choice(list("aeiou")) for _ in range(2))] = None
    return list(found)


WORDS: dict[str, tuple[str, ...]] = {
    "DET": ("the", "a", "this"), "ADP": ("in", "of", "with"), "PRON": ("she", "they"), "PUNCT": (".",),
    "PROPN": tuple(stem.title() for stem in _stems(12, 1)),
    **{tag: tuple(stem + end for stem in _stems(20, 2 + i)) for i, (tag, end) in enumerate(ENDINGS.items())},
}  # fmt: skip


@dataclass
class Tree:
    """A sentence with its dependency tree."""

    words: list[str]
    tags: list[str]
    heads: list[int]
    relations: list[str]


def sentences(n: int, rng: np.random.Generator) -> list[Tree]:
    """Sentences of 3 to 14 words."""
    return [_sentence(rng) for _ in range(n)]


def _sentence(rng: np.random.Generator) -> Tree:
    tree = Tree([], [], [], [])

    def say(tag: str, relation: str) -> int:
        ambiguous = tag in ("NOUN", "VERB", "ADJ") and rng.random() < 0.4
        tree.words.append(str(rng.choice(BOTH if ambiguous else WORDS[tag])))
        tree.tags.append(tag)
        tree.heads.append(0)
        tree.relations.append(relation)
        return len(tree.words) - 1

    def noun_phrase(relation: str) -> int:
        kind = rng.random()
        if kind < 0.2:
            return say("PRON" if relation == "nsubj" else "PROPN", relation)
        before = [say("DET", "det") for _ in range(int(kind > 0.4))]
        for chance in (0.4, 0.2):
            if rng.random() < chance:
                before.append(say("ADJ", "amod") if rng.random() < 0.6 else say("NOUN", "compound"))
        noun = say("NOUN", relation)
        for word in before:
            tree.heads[word] = noun + 1
        return noun

    children = [noun_phrase("nsubj")]
    verb = say("VERB", "root")
    if rng.random() < 0.7:
        children.append(noun_phrase("obj"))
    if rng.random() < 0.4:
        case = say("ADP", "case")
        children.append(noun_phrase("obl"))
        tree.heads[case] = children[-1] + 1
    if rng.random() < 0.3:
        children.append(say("ADV", "advmod"))
    children.append(say("PUNCT", "punct"))
    for word in children:
        tree.heads[word] = verb + 1
    return tree


def translated(tree: Tree, rng: np.random.Generator) -> tuple[Tree, list[tuple[int, int]]]:
    """The sentence in another language, in which adjectives follow nouns, and the links of its words.

    Of some words the translation is another one, so that an aligner can be wrong.
    """
    order = list(range(len(tree.words)))
    for i in range(1, len(order)):
        if tree.tags[order[i - 1]] == "ADJ" and tree.tags[order[i]] == "NOUN":
            order[i - 1], order[i] = order[i], order[i - 1]
    place = {old: new for new, old in enumerate(order)}
    words = [_foreign(tree.words[i], rng) for i in order]
    heads = [0 if tree.heads[i] == 0 else place[tree.heads[i] - 1] + 1 for i in order]
    other = Tree(words, [tree.tags[i] for i in order], heads, [tree.relations[i] for i in order])
    return other, [(old, new) for old, new in sorted(place.items())]


def _foreign(word: str, rng: np.random.Generator) -> str:
    if rng.random() < 0.25:
        word = str(rng.choice(WORDS["NOUN"][:6]))
    return word if word == "." else word.lower()[::-1] + ("o" if rng.random() < 0.9 else "ito")


# files


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _align(folder: Path, rng: np.random.Generator) -> None:
    for name, language, parts in (
        ("hansards", "fr", ("train", "dev", "test")), ("europarl-en-es", "es", ("train", "test")),
        ("europarl-en-fr", "fr", ("train", "dev")),
    ):  # fmt: skip
        for part in parts:
            source = sentences(120 if part == "train" else 12, rng)
            pairs = [translated(tree, rng) for tree in source]
            _write(folder / "align" / name / f"{part}.en", [" ".join(tree.words) for tree in source])
            _write(folder / "align" / name / f"{part}.{language}", [" ".join(tree.words) for tree, _ in pairs])
            if part != "train":
                links = [" ".join(f"{i}{'?' if i == 0 else '-'}{j}" for i, j in own) for _, own in pairs]
                _write(folder / "align" / name / f"{part}.gold", links)


def _bitext(folder: Path, rng: np.random.Generator) -> None:
    source = sentences(120, rng)
    target = [translated(tree, rng)[0] for tree in source]
    for language, trees in (("en", source), ("nl", target)):
        _write(folder / "bitext" / "en-nl" / f"text.{language}", [" ".join(tree.words).capitalize() for tree in trees])


def _columns(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Sentences, each a list of lines, with a blank line between them."""
    _write(path, [line for own in rows for line in (*own, "")])


def _tags(folder: Path, rng: np.random.Generator) -> None:
    for name, n, ptb in (
        ("ptb-sample", 120, True), ("bosque-train", 60, False), ("bosque-dev", 10, False), ("bosque-test", 10, False),
    ):  # fmt: skip
        rows = [
            [f"{word}\t{PTB[tag] if ptb else tag}" for word, tag in zip(tree.words, tree.tags, strict=True)]
            for tree in sentences(n, rng)
        ]
        _columns(folder / "pos" / f"{name}.tsv", rows)


def _chunks(folder: Path, rng: np.random.Generator) -> None:
    for name, n in (("train", 120), ("test", 20)):
        rows = []
        for tree in sentences(n, rng):
            own, before = [], ""
            for word, tag in zip(tree.words, tree.tags, strict=True):
                kind = CHUNK.get(tag, "")
                begins = kind != before or tag in ("DET", "PROPN", "PRON")
                chunk = f"{'B' if begins else 'I'}-{kind}" if kind else "O"
                own.append(f"{word} {PTB[tag]} {chunk}")
                before = kind
            rows.append(own)
        _columns(folder / "chunk" / "conll2000" / f"{name}.txt", rows)


def _trees(folder: Path, rng: np.random.Generator) -> None:
    for name, n in (
        ("en-ewt-train", 80), ("en-ewt-dev", 20), ("en-ewt-test", 20), ("es-gsd-dev", 40), ("es-gsd-test", 20),
        ("es-pud", 20), ("fr-gsd-dev", 40), ("fr-gsd-test", 20), ("nl-alpino-dev", 40), ("nl-alpino-test", 20),
    ):  # fmt: skip
        rows = []
        for tree in sentences(n, rng):
            own = tree if name.startswith("en-") else translated(tree, rng)[0]
            cells = zip(own.words, own.tags, own.heads, own.relations, strict=True)
            rows.append([f"{i}\t{w}\t_\t{t}\t_\t_\t{h}\t{r}\t_\t_" for i, (w, t, h, r) in enumerate(cells, 1)])
        _columns(folder / "trees" / f"{name}.conllu", rows)


def _citations(folder: Path, rng: np.random.Generator) -> None:
    """The sample that ships with the project, as the corpus is written."""
    records = (EXAMPLES / "citations" / "gold.tsv").read_text(encoding="utf-8").strip().split("\n\n")
    for name, low, high in (("train", 0, 30), ("dev", 30, 40), ("test", 40, 60), ("unlabelled", 60, 80)):
        cells = [[line.split("\t") for line in record.splitlines()] for record in records[low:high]]
        rows = [[word if name == "unlabelled" else f"{word}\t{label.lower()}" for word, label in own] for own in cells]
        _columns(folder / "fields" / "citations" / f"{name}.tsv", rows)


PLACES = ("Paris", "Rome", "Boston", "Tokyo", "Berlin", "Miami")
PEOPLE = ("John", "Mary", "Paul", "Susan", "Peter", "Karen")
BODIES = ("Acme Corp.", "Delta Inc.", "Omega Co.", "Zeta Bank")
FACTS = (
    ("Live_In", "Peop", "lives in", "Loc"), ("OrgBased_In", "Org", "is based in", "Loc"),
    ("Located_In", "Loc", "is part of", "Loc"), ("Work_For", "Peop", "works for", "Org"),
    ("Kill", "Peop", "shot", "Peop"),
)  # fmt: skip


def _relations(folder: Path, rng: np.random.Generator) -> None:
    number = 0
    for name, n in (("train", 30), ("dev", 5), ("test", 5)):
        lines = []
        for _ in range(n):
            number += 1
            lines += [f"#doc {number}", *_related(rng), ""]
        _write(folder / "relations" / "conll04" / f"{name}.txt", lines)


def _related(rng: np.random.Generator) -> list[str]:
    """One or two facts, with words around them: index, token, entity, relations and their places."""
    rows: list[list[Any]] = []

    def say(text: str, kind: str | None = None) -> int:
        for i, word in enumerate(text.split()):
            rows.append([word, "O" if kind is None else f"{'I' if i else 'B'}-{kind}", [], []])
        return len(rows) - 1

    def name(kind: str) -> int:
        if kind == "Peop":
            return say(f"{rng.choice(PEOPLE)} {rng.choice(WORDS['PROPN'])}", kind)
        return say(str(rng.choice(PLACES if kind == "Loc" else BODIES)), kind)

    for _ in range(2):
        relation, one, verb, other = FACTS[rng.integers(len(FACTS))]
        if rng.random() < 0.4:
            verb = "of"
        say(" ".join(_sentence(rng).words[:-1]) + " , said")
        first = name(one)
        say(verb)
        second = name(other)
        rows[first][2].append(relation)
        rows[first][3].append(second)
        say("and also in March" if rng.random() < 0.5 else "for the year")
    say(".")
    return [
        f"{i}\t{word}\t{entity}\t{relations or ['N']}\t{places or [i]}"
        for i, (word, entity, relations, places) in enumerate(rows)
    ]


def _names(folder: Path, rng: np.random.Generator) -> None:
    letters = dict(zip("bdfgklmnprstvaeiou", "בדפגקלמנפרסתואאיוו", strict=True))
    stems = _stems(90, 7)
    for name, low, high in (("train", 0, 50), ("dev", 50, 70), ("test", 70, 90)):
        rows = []
        for stem in stems[low:high]:
            spelled = " ".join(letters[c] for c in stem + stem[:2] if letters[c].strip())
            rows.append(f"{stem + stem[:2]}\t{spelled}\t1")
        _write(folder / "match" / "translit-he" / f"{name}.tsv", rows)


def _pairs(n: int, rng: np.random.Generator) -> Iterator[tuple[bool, str, str]]:
    """A sentence, and its words with one changed or another sentence."""
    for _ in range(n):
        one, other = _sentence(rng), _sentence(rng)
        alike = rng.random() < 0.5
        second = list(one.words if alike else other.words)
        if alike:
            second[0] = "the"
        yield bool(alike), " ".join(one.words), " ".join(second)


def _sentence_pairs(folder: Path, rng: np.random.Generator) -> None:
    for name, n in (("train", 40), ("test", 20)):
        rows = [f"{int(same)}\t1\t2\t{a}\t{b}" for same, a, b in _pairs(n, rng)]
        _write(folder / "match" / "msrp" / f"{name}.tsv", ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows])
    for name in ("rte1_dev", "rte1_test", "rte2_dev", "rte2_test", "rte3_dev", "rte3_test"):
        rows = [
            f'<pair id="{i}" value="{"TRUE" if same else "FALSE"}" task="IR"><t>{a}</t><h>{b}</h></pair>'
            for i, (same, a, b) in enumerate(_pairs(12, rng))
        ]
        _write(folder / "match" / "rte" / f"{name}.xml", ["<entailment-corpus>", *rows, "</entailment-corpus>"])


def _archives(folder: Path, rng: np.random.Generator) -> None:
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    neutral = [stem + end for stem in _stems(40, 9) for end in ("al", "on", "es")]
    loaded = {
        "positive": ("great", "excellent", "love", "easy", "perfect", "best"),
        "negative": ("waste", "poor", "disappointed", "return", "bad", "terrible"),
    }

    def review(kind: str) -> str:
        other = "negative" if kind == "positive" else "positive"
        words = [*rng.choice(neutral, 12), *rng.choice(loaded[kind], 2), *rng.choice(loaded[other], 1)]
        return " ".join(f"{word}:1" for word in words) + f" #label#:{kind}"

    with tarfile.open(folder / "docs" / "sentiment-domains.tar.xz", "w:xz") as archive:
        for domain in ("books", "dvd", "electronics", "kitchen"):
            for kind in loaded:
                _add(archive, f"{domain}/{kind}.review", "".join(review(kind) + "\n" for _ in range(40)))
    with tarfile.open(folder / "docs" / "20news-bydate.tar.xz", "w:xz") as archive:
        for part, n in (("train", 10), ("test", 4)):
            for group in range(12):
                own = neutral[9 * group : 9 * group + 9]
                for post in range(n):
                    words = [*rng.choice(own, 8), *rng.choice(neutral, 12)]
                    _add(archive, f"{part}/group{group:02}/{post}", f"Subject: none\n\n{' '.join(words)} .\n")


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _weak(folder: Path, rng: np.random.Generator) -> None:
    drugs, ills = [stem + "fen" for stem in _stems(16, 11)], [stem + "itis" for stem in _stems(16, 12)]
    for name, terms in (("bc5cdr", {"Chemical": drugs, "Disease": ills}), ("laptop-review", {"TERM": drugs})):
        functions: dict[str, Callable[[str], str | None]] = {}
        for kind, own in terms.items():
            functions[f"list-{kind}"] = lambda w, kind=kind, own=own: kind if w in own[:8] else None
            functions[f"letters-{kind}"] = lambda w, kind=kind, own=own: kind if w in own[4:] or w[0] in "bdf" else None
            functions[f"noisy-{kind}"] = lambda w, kind=kind, own=own: kind if w in own[10:] or "a" in w else None
        meta = {"lf": list(functions), "lf_rec": list(functions), "entity_types": list(terms)}
        for part, n in (("train", 30), ("valid", 15), ("test", 15)):
            records = {str(i): _voted(rng, terms, functions) for i in range(n)}
            _write(folder / "weak" / name / f"{part}.json", [json.dumps(records)])
        _write(folder / "weak" / name / "meta.json", [json.dumps(meta)])


def _voted(rng: np.random.Generator, terms: dict[str, list[str]], functions: dict[str, Any]) -> dict[str, Any]:
    words = [w.lower() for w in _sentence(rng).words[:-1] + _sentence(rng).words]
    gold = []
    for at in range(len(words)):
        kind = str(rng.choice(list(terms)))
        if rng.random() < 0.2:
            words[at] = str(rng.choice(terms[kind]))
            gold.append([at, at + 1, kind])
    votes = [[[i, i + 1, guess(w)] for i, w in enumerate(words) if guess(w)] for guess in functions.values()]
    return {"label": gold, "data": {"text": words}, "weak_labels": votes}
