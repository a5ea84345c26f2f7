"""Extraction: fields from rules, a few labelled texts and the rest of the training set as unlabelled text.

Token accuracy, and field F1 in brackets. The labelled texts of a draw are among those of its next size.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from json import loads
from pathlib import Path
from typing import Any

import numpy as np

from _panel.common import DATA, ROOT, RULES, Options, Score, folder, run
from trellis import CRF, HMM
from trellis.data.columns import read_columns
from trellis.data.document import Document

TITLE = "extraction: token accuracy (field F1)"
OURS = "trellis extract train"
BASELINES = ("python-crfsuite", "CRF without rules", "HMM without rules")
LOWER_IS_BETTER = False
DRAWS = {5: 5, 10: 5, 20: 5, 50: 3, 200: 2}
"""Draws of each number of labelled texts."""


@dataclass(frozen=True)
class Corpus:
    """texts : labelled texts to draw from; unlabelled : None: those that are not drawn."""

    name: str
    rules: Path
    texts: list[Document]
    judged: list[Document]
    unlabelled: list[Document] | None = None


def corpora(options: Options) -> Iterator[Corpus]:
    part = "test" if options.test else "dev"
    for name in () if options.small else ("citations", "references", "addresses"):
        path = DATA / "fields" / name
        many = list(read_columns(path / "unlabelled.tsv", label=None)) if (path / "unlabelled.tsv").exists() else None
        train, judged = (list(read_columns(path / f"{split}.tsv")) for split in ("train", part))
        yield Corpus(name, RULES / f"{name}.toml", train, judged, many)
    if not options.small:
        yield Corpus(
            "restaurants", RULES / "restaurants.toml", *_restaurants(DATA / "weak" / "mit-restaurants", options)
        )
        train, judged = (list(_news(DATA / "relations" / "conll04" / f"{split}.txt")) for split in ("train", part))
        yield Corpus("news", RULES / "news.toml", train, judged)
    for name, maker in (("citations", "citations"), ("ads", "advertisements")):
        path = ROOT / "examples" / name
        make = runpy.run_path(str(path / "generate.py"))[maker]
        n_train, n_judged = (30, 10) if options.small else (320, 100)
        train, judged = (list(make(n, [seed])) for n, seed in ((n_train, 99), (n_judged, 101 if options.test else 100)))
        yield Corpus(f"examples/{name}", path / "rules.toml", train, judged)


def _restaurants(path: Path, options: Options) -> tuple[list[Document], list[Document]]:
    """Questions with gold labels: the first 300 that are not test ones to draw from, and 200 to judge by."""

    def read(split: str) -> list[Document]:
        texts = loads((path / f"{split}.json").read_text()).values()
        return [Document(tuple(text["data"]["text"]), tuple(text["label"])) for text in texts]

    valid = read("valid")
    return valid[:300], read("test") if options.test else valid[300:]


def _news(path: Path) -> Iterator[Document]:
    """Sentences with the entities of their tokens."""
    for block in path.read_text().split("#doc")[1:]:
        rows = [line.split("\t") for line in block.splitlines()[1:] if line]
        yield Document(tuple(row[1] for row in rows), tuple(row[2] for row in rows))


def scores(options: Options) -> Iterator[Score]:
    for corpus in corpora(options):
        for n, draws in {5: 2}.items() if options.small else DRAWS.items():
            if not options.wants(corpus.name, str(n)):
                continue
            for draw in range(min(draws, options.draws or draws)):
                few, many = drawn(corpus, n, draw)
                for name, system in SYSTEMS.items():
                    judge = partial(system, corpus, few, many)
                    yield options.score("extract", corpus.name, str(n), name, draw, judge)


def drawn(corpus: Corpus, n: int, draw: int) -> tuple[list[Document], list[Document]]:
    """Labelled and unlabelled texts."""
    order = np.random.default_rng([7, draw]).permutation(len(corpus.texts))
    return [corpus.texts[i] for i in sorted(order[:n])], corpus.unlabelled or [
        corpus.texts[i] for i in sorted(order[n:])
    ]


def by_command(
    corpus: Corpus, few: list[Document], many: list[Document], *settings: str, rules: Path | None = None
) -> tuple[float, float]:
    """``trellis extract train``, ``predict`` and ``evaluate`` on files."""
    with folder() as path:
        _write(path / "few.tsv", few)
        _write(path / "gold.tsv", corpus.judged)
        _write(path / "text.tsv", [Document(one.tokens) for one in many])
        run(
            "extract", "train", rules or corpus.rules, "--labelled", path / "few.tsv", "--unlabelled",
            path / "text.tsv", "--save", path / "model", "--quiet", *settings,
        )  # fmt: skip
        run("extract", "predict", "--model", path / "model", path / "gold.tsv", "-o", path / "out.tsv", "--quiet")
        return _evaluated(path)


def _write(path: Path, sentences: Sequence[Document]) -> None:
    with path.open("w") as file:
        for one in sentences:
            labels: Sequence[str | None] = one.labels or (None,) * len(one.tokens)
            file.writelines(f"{word}\t{label or '_'}\n" for word, label in zip(one.tokens, labels, strict=True))
            file.write("\n")


def _evaluated(path: Path) -> tuple[float, float]:
    run("evaluate", path / "gold.tsv", path / "out.tsv", "-o", path / "scores.json", "--json")
    found = loads((path / "scores.json").read_text())
    return 100 * found["accuracy"], 100 * found["total"]["f1"]


def by_labels(
    learn: Callable[[list[Any], list[Any]], Callable[[list[Any]], list[Any]]],
    corpus: Corpus, few: list[Document], many: list[Document],
) -> tuple[float, float]:  # fmt: skip
    """A model of words or features, trained on the labelled texts alone."""
    predict = learn([list(one.tokens) for one in few], [list(one.labels or ()) for one in few])
    found = predict([list(one.tokens) for one in corpus.judged])
    with folder() as path:
        _write(path / "gold.tsv", corpus.judged)
        _write(path / "out.tsv", [Document(g.tokens, tuple(f)) for g, f in zip(corpus.judged, found, strict=True)])
        return _evaluated(path)


def features(words: Sequence[str], at: int) -> list[str]:
    """Ordinary features of a token: words and shapes in a window, affixes, and the ends of the text."""
    found = [f"place={min(10 * at // len(words), 9)}"]
    for step in range(-2, 3):
        word = words[at + step] if 0 <= at + step < len(words) else ""
        found += [f"{step}:{word.lower()}", f"{step}:{_shape(word)}"]
    low = words[at].lower()
    return found + [f"{n}<{low[:n]}" for n in (1, 2, 3)] + [f"{n}>{low[-n:]}" for n in (1, 2, 3)]


def _shape(word: str) -> str:
    kinds = ["X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c for c in word]
    return "".join(kind for at, kind in enumerate(kinds) if at == 0 or kind != kinds[at - 1])


def _described(X: list[list[str]]) -> list[list[list[str]]]:
    return [[features(words, at) for at in range(len(words))] for words in X]


def crfsuite(X: list[Any], y: list[Any]) -> Callable[[list[Any]], list[Any]]:
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for own, labels in zip(_described(X), y, strict=True):
        trainer.append(own, labels)
    with folder() as path:
        trainer.train(str(path / "model"))
        model = (path / "model").read_bytes()
    tagger = pycrfsuite.Tagger()
    tagger.open_inmemory(model)

    def predict(texts: list[Any], kept: bytes = model) -> list[Any]:  # the tagger reads it, and does not keep it
        return [tagger.tag(own) for own in _described(texts)]

    return predict


def crf(X: list[Any], y: list[Any]) -> Callable[[list[Any]], list[Any]]:
    model = CRF(features=features).fit(X, y)
    return lambda texts: model.predict(texts)


def hmm(X: list[Any], y: list[Any]) -> Callable[[list[Any]], list[Any]]:
    model = HMM().fit([[word.lower() for word in words] for words in X], y)
    return lambda texts: model.predict([[word.lower() for word in words] for words in texts])


SYSTEMS: dict[str, Callable[..., tuple[float, float]]] = {
    OURS: by_command,
    "python-crfsuite": partial(by_labels, crfsuite),
    "CRF without rules": partial(by_labels, crf),
    "HMM without rules": partial(by_labels, hmm),
}
