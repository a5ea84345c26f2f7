"""Transfer: what each part of the default is worth, on the languages of the panel (``benchmarks/panel.py``).

    make bench-transfer-defaults                         every row is the default with one change
    make bench-transfer-defaults ARGS="--corpora nl --rows 'names headed as in the source'"
    make bench-transfer-defaults ARGS="--kept FILE --prepared FOLDER"      resume
    make bench-transfer-defaults ARGS=--tagger           features of case in taggers

UAS and, in brackets, LAS without punctuation on the development trees, gold tags: the default, and what each change
adds to it, with the standard error over draws. A draw is 2,000 sentence pairs of its own, of which the 800 with most
projected heads are used. Text is prepared by the estimators behind ``trellis transfer``.
"""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from _kept import Kept
from _panel import transfer as panel
from _panel.common import Options, Score
from _rows import constant, rows_table

from trellis import Aligner, Document, Parser, Tagger, Transfer
from trellis.apps.parse import projected_arcs, tagger
from trellis.apps.parse import transfer as parts
from trellis.data.conllu import TREE, read_conllu, read_text

DRAWS, TAGGED, PAIRS, USED = 3, 700, 2_000, 800
DEFAULT = "default"
SETTINGS: dict[str, dict[str, Any]] = {
    "sentences of up to 20 words": {"max_length": 20},
    "η 0.9": {"eta": 0.9},
    "η 1": {"eta": 1.0},
    "one round": {"max_iter": 1},
    "three rounds": {"max_iter": 3},
    "one order": {"orders": 1},
    "two passes": {"passes": 2},
    "step size 0.02": {"learning_rate": 0.02},
    "tags alone": {"lexical": False},
    "γ = 0": {"gamma": 0.0},
}
CHANGES: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "names headed as in the source": partial(constant, parts, "left_headed_names", lambda pair: pair),
    "links between any tags": partial(constant, projected_arcs, "_may_translate", lambda one, other: True),
    "fragments too": partial(constant, parts, "is_fragment", lambda pair: False),
    "the first pairs, not those with most heads": partial(
        constant, Transfer, "best_pairs", lambda self, pairs: list(pairs)[: self.max_pairs]
    ),
}
ROWS = (DEFAULT, *CHANGES, *SETTINGS)
CASES = {"case in every sentence": 10**9, "case in no sentence": 1, "case in two of three sentences": 3}
"""Rows of taggers: one in so many sentences is learned from without features of case."""
SMALL = ("names headed as in the source", "one order")
"""Rows of a small run."""

Prepared = tuple[list[tuple[Document, Document]], list[list[tuple[int, int]]]]


@cache
def trained(kind: type[Tagger] | type[Parser], path: Path) -> Any:
    return kind().fit(list(read_conllu(path, columns=TREE)))


def prepared(language: panel.Language, n: int, folder: Path | None) -> Prepared:
    """The first pairs, tagged, source sides parsed, and their word links."""
    path = folder / f"{language.name}.{n}-pairs" if folder else None
    if path is not None and path.exists():
        known: Prepared = pickle.loads(path.read_bytes())
        return known
    sides = []
    for text, trees in ((language.source, language.source_trees), (language.target, language.tags)):
        tagger = trained(Tagger, trees)
        sides.append(tagger.predict([tagger.tokenise(s) for s in islice(read_text(text), n)]))
    words = ([[word.lower() for word in s.tokens] for s in side] for side in sides)
    links = [list(found) for found in Aligner().fit_align(list(zip(*words, strict=True)))]
    parsed = trained(Parser, language.source_trees).predict(sides[0])
    made = list(zip(parsed, sides[1], strict=True)), links
    if path is not None:
        path.write_bytes(pickle.dumps(made))
    return made


def judged(language: panel.Language, text: Callable[[], Prepared], first: int, n: int, row: str) -> tuple[float, float]:
    pairs, links = text()
    own = slice(first, first + n)
    with CHANGES.get(row, nullcontext)():
        learner = Transfer(**{"max_pairs": USED, **SETTINGS.get(row, {})}).fit(pairs[own], links[own])
    found = learner.attachment(list(read_conllu(next(iter(language.gold.values())), columns=TREE))).plain
    return 100.0 * found.uas, 100.0 * found.las


def scores(options: Options, rows: Sequence[str], folder: Path | None) -> Iterator[Score]:
    n, draws = (20, 2) if options.small else (PAIRS, options.draws or DRAWS)
    for language in panel.languages(options):
        if not options.wants(language.name):
            continue
        text = cache(partial(prepared, language, n * (draws if options.small else DRAWS), folder))
        for draw in range(draws):
            for row in rows:
                judge = partial(judged, language, text, draw * n, n, row)
                yield options.score("transfer rows", language.name, "UAS (LAS)", row, draw, judge)


def tagger_scores(options: Options) -> Iterator[Score]:
    """Of taggers trained on 700 sentences of a treebank: accuracy on the others, as they are and lower-cased."""
    for language in panel.languages(options):
        if not options.wants(language.name):
            continue
        text = list(read_conllu(language.tags, columns=TREE))
        for draw in range(options.draws or DRAWS):
            order = np.random.default_rng([11, draw]).permutation(len(text))
            train, rest = ([text[i] for i in some] for some in np.split(order, [min(TAGGED, len(text) // 2)]))
            for row in (DEFAULT, *CASES):
                yield options.score("tagger rows", language.name, "", row, draw, partial(tagged, train, rest, row))


def tagged(train: list[Document], rest: list[Document], row: str) -> tuple[float, float]:
    with constant(tagger, "WITHOUT_CASE", CASES.get(row, tagger.WITHOUT_CASE)):
        found = Tagger().fit(train)
    lower = [replace(one, tokens=tuple(word.lower() for word in one.tokens)) for one in rest]
    return 100.0 * found.score(rest), 100.0 * found.score(lower)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="use small generated data")
    parser.add_argument("--draws", type=int, help="draws of sentence pairs, at most three")
    parser.add_argument("--corpora", nargs="+", default=[], help="languages to run")
    parser.add_argument("--rows", nargs="+", choices=ROWS, help="rows of the table")
    parser.add_argument("--tagger", action="store_true", help="rows of the tagger in place of those of transfer")
    parser.add_argument("--kept", type=Path, help="file of scores to keep and to resume from")
    parser.add_argument("--prepared", type=Path, help="folder that keeps tagged, aligned and parsed text")
    given = parser.parse_args()
    options = Options(
        small=given.small, draws=given.draws, corpora=tuple(given.corpora), kept=Kept(given.kept)
    )  # fmt: skip
    rows = given.rows or (SMALL if given.small else ROWS)
    if given.tagger:
        print(rows_table(list(tagger_scores(options)), DEFAULT, "accuracy (lower-cased)"))
        return
    found = list(scores(options, list(dict.fromkeys((DEFAULT, *rows))), given.prepared))
    print(rows_table(found, DEFAULT, "UAS (LAS)"))


if __name__ == "__main__":
    main()
