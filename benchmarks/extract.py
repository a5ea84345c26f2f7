"""Field extraction: what each part of the default is worth.

    make bench-extract                                     every row is the default with one change
    make bench-extract ARGS="--corpora references --columns 5 --draws 1"
    make bench-extract ARGS="--base 'with a network' --rows 'network learns at temperature 1'"
    make bench-extract ARGS=--small

Token accuracy on the development sets of the panel (``benchmarks/panel.py``), with at most 300 unlabelled texts: the
default, and what each change adds to it, with the standard error over draws (and to field F1). Rows with a network need
PyTorch and are run where they are named.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _kept import Kept
from _panel import extract as panel
from _panel.common import Options, Score
from _rows import constant, rows_table

from trellis import Extractor
from trellis.apps.extract import features as token_features
from trellis.apps.extract import learning as parts
from trellis.apps.extract import word_classes
from trellis.metrics.fields import score_fields

UNLABELLED, DRAWS, FIRST_DRAW = 300, 3, 20
"""The draws are not those of the panel."""
COLUMNS = ("5", "20")
SETTINGS: dict[str, dict[str, Any]] = {
    "HMM (model_kind)": {"model_kind": "hmm"},
    "CRF (model_kind)": {"model_kind": "crf"},
    "semi-CRF (model_kind)": {"model_kind": "semi-crf"},
    "labels alone, rules in prediction": {"method": "supervised"},
    "CoDL (method)": {"method": "codl"},
    "no usual fields": {"usual_fields": False},
    "no back-off": {"back_off": 0.0},
    "β 0.5": {"beta": 0.5},
    "β 0.9": {"beta": 0.9},
    "1 round": {"max_iter": 1},
    "10 rounds": {"max_iter": 10},
    "emission prior 1.01": {"emission_prior": 1.01},
    "transition prior 1.1": {"transition_prior": 1.1},
    "back-off 3": {"back_off": 3.0},
    "smoothing of penalties 0.1": {"smoothing": 0.1},
    "smoothing of penalties 2": {"smoothing": 2.0},
    "words seen twice are common": {"min_count": 2},
    "words seen five times are common": {"min_count": 5},
    "the same penalty for every learned rule": {"smoothing": 1e6},
    "learned rules are hard": {"hard": True},
}


@contextmanager
def teacher(change: Callable[..., Any]) -> Iterator[None]:
    """Pseudo-labels by the models that ``change`` makes of the HMM, the CRF and the labels that are seen."""
    before = parts.pseudo_labels
    parts.pseudo_labels = lambda extractor, hmm, crf, seen, texts: before(extractor, *change(hmm, crf, seen), texts)
    try:
        yield
    finally:
        parts.pseudo_labels = before


def tempered(crf: Any, power: float) -> Any:
    """p^power, normalised."""
    made = copy(crf)
    if crf is not None:
        made.set_parameters({name: power * values for name, values in crf.parameters().items()})
    return made


CHANGES: dict[str, Callable[[], Any]] = {
    "pseudo-labels of the HMM": partial(teacher, lambda hmm, crf, seen: (hmm, None, seen)),
    "unseen labels of the product too": partial(teacher, lambda hmm, crf, seen: (hmm, crf, np.ones_like(seen))),
    "half the CRF in the product": partial(teacher, lambda hmm, crf, seen: (hmm, tempered(crf, 0.5), seen)),
    "twice the CRF in the product": partial(teacher, lambda hmm, crf, seen: (hmm, tempered(crf, 2.0), seen)),
    "pseudo-labels of weight 0.1": partial(constant, parts, "PSEUDO_LABELLED", 0.1),
    "pseudo-labels of weight 1": partial(constant, parts, "PSEUDO_LABELLED", 1.0),
    "no weights of label pairs after a mark": partial(constant, parts, "EDGES", False),
    "common numbers and initials are words": partial(constant, word_classes, "ALWAYS", frozenset()),
    "features of the next words alone, not the second next": partial(
        constant, token_features, "NEIGHBOURS", (-1, 0, 1)
    ),
    "no features of positions from the beginning and end": partial(constant, token_features, "LAST", 0),
}


def fewer_passes() -> AbstractContextManager[None]:
    """At most ten passes over the texts in place of forty."""
    from trellis.neural import encoders

    return constant(encoders, "FEW_PASSES", (3, 10))


def larger_network() -> AbstractContextManager[None]:
    """Twice the size of words and of the hidden layer."""
    from trellis.neural import encoders

    sizes = {"word_size": 100, "char_size": 50, "hidden": 128, "layers": 1, "min_count": 1}
    return constant(encoders, "small_encoder", partial(encoders.encoder_of, **sizes))


NETWORK = "with a network"
NETWORKS: dict[str, Callable[[], Any]] = {
    NETWORK: nullcontext,
    "network learns at temperature 1": partial(constant, parts, "SOFTENED", 1.0),
    "network learns at temperature 4": partial(constant, parts, "SOFTENED", 4.0),
    "network of a quarter of the passes": fewer_passes,
    "network of twice the size": larger_network,
}
DEFAULT, WITHOUT_RULES = "default", "no rules in prediction"
ROWS = (DEFAULT, *SETTINGS, *CHANGES, WITHOUT_RULES)
SMALL = ("labels alone, rules in prediction", "no back-off", "half the CRF in the product", WITHOUT_RULES)
"""Rows of a small run: each kind of change once."""


def judged(corpus: panel.Corpus, few: Sequence[Any], many: Sequence[Any], row: str) -> tuple[float, float]:
    """Token accuracy and field F1."""
    extractor = Extractor(corpus.rules, encoder="bilstm" if row in NETWORKS else None, **SETTINGS.get(row, {}))
    with (CHANGES | NETWORKS).get(row, nullcontext)():
        extractor.fit(few, unlabelled=[one.tokens for one in many])
    labels = extractor.predict(corpus.judged, constrained=row != WITHOUT_RULES)
    found = score_fields([list(one.labels or ()) for one in corpus.judged], labels)
    return 100.0 * found.accuracy, 100.0 * found.total.f1


def scores(options: Options, rows: Sequence[str], first: int, most: int) -> Iterator[Score]:
    for corpus in panel.corpora(options):
        for n in COLUMNS[:1] if options.small else COLUMNS:
            if not options.wants(corpus.name, n):
                continue
            for draw in range(first, first + (options.draws or DRAWS)):
                few, many = panel.drawn(corpus, int(n), draw)
                for row in rows:
                    judge = partial(judged, corpus, few, many[:most], row)
                    task = "extract rows" if most == UNLABELLED else f"extract rows of {most}"
                    yield options.score(task, corpus.name, n, row, draw, judge)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="use small generated data")
    parser.add_argument("--draws", type=int, help="draws of labelled texts")
    parser.add_argument("--first-draw", type=int, default=FIRST_DRAW, help="number of the first draw")
    parser.add_argument("--corpora", nargs="+", default=[], help="corpora to run")
    parser.add_argument("--columns", nargs="+", default=[], help="numbers of labelled texts")
    parser.add_argument("--rows", nargs="+", choices=(*ROWS, *NETWORKS), help="rows of the table")
    parser.add_argument("--base", default=DEFAULT, choices=(*ROWS, *NETWORKS), help="row that others are compared with")
    parser.add_argument("--unlabelled", type=int, default=UNLABELLED, help="most unlabelled texts")
    parser.add_argument("--kept", type=Path, help="file of scores to keep and to resume from")
    given = parser.parse_args()
    options = Options(
        small=given.small, draws=given.draws or (1 if given.small else None), corpora=tuple(given.corpora),
        columns=tuple(given.columns), kept=Kept(given.kept),
    )  # fmt: skip
    rows = given.rows or (SMALL if given.small else ROWS)
    found = list(scores(options, list(dict.fromkeys((given.base, *rows))), given.first_draw, given.unlabelled))
    for n in dict.fromkeys(one.column for one in found):
        own = [one for one in found if one.column == n]
        print(f"{rows_table(own, given.base, f'{n} labelled texts')}\n")


if __name__ == "__main__":
    main()
