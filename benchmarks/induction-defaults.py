"""Induction: what each part of the default is worth, on the corpora of the panel (``benchmarks/panel.py``).

    make bench-induction-defaults                         every row is the default with one change
    make bench-induction-defaults ARGS="--corpora nl-alpino fr-gsd es-gsd --kept FILE"

Many-to-one accuracy and, in brackets, V-measure on the development sets: the default, and what each change adds to it,
with the standard error over seeds. The seeds are not those of the panel.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from _kept import Kept
from _panel import induce as panel
from _panel.common import Options, Score
from _rows import constant, rows_table

from trellis import Inducer
from trellis.metrics.induction import score_induction

SEEDS, FIRST_SEED = 3, 20
DEFAULT, FIRST_WORDS, WIDE_START = "default", "first words as they are", "start of deviation 1"
SETTINGS: dict[str, dict[str, Any]] = {
    "no sparsity": {"method": "em"},
    "strength 10": {"strength": 10.0},
    "strength 100": {"strength": 100.0},
    "sparsity of words seen five times": {"frequent": 5},
    "half of the rounds before sparsity": {"em_iter": 100},
    "three dual steps": {"dual_steps": 3},
    "a table of words": {"emissions": "table"},
    "EM in place of the gradient": {"ascent": "em"},
    "every word is a feature": {"min_count": 1},
    "words seen three times are features": {"min_count": 3},
    "100 rounds": {"max_iter": 100},
    "best sequences": {"decoding": "viterbi"},
    WIDE_START: {"start_scale": 1.0},
}
L2 = {"a quarter of the prior": 0.25, "four times the prior": 4.0}
ROWS = (DEFAULT, *SETTINGS, *L2, FIRST_WORDS)
SMALL = ("no sparsity", "a quarter of the prior", FIRST_WORDS)
"""Rows of a small run."""


def judged(corpus: panel.Corpus, seed: int, row: str, rounds: int) -> tuple[float, float]:
    tags = {tag for sentence in corpus.text for tag in sentence.labels or () if tag is not None}
    settings = {"max_iter": rounds, **SETTINGS.get(row, {})}
    if row in L2:
        settings["l2"] = L2[row] * sum(map(len, corpus.text)) ** 0.5 / 80
    inducer = Inducer(len(tags), random_state=seed, **settings)
    of_hmm = type(inducer)._hmm_settings
    change = partial(constant, Inducer, "_hmm_settings", lambda self, X: of_hmm(self, X) | {"truecase": False})
    with (change if row == FIRST_WORDS else nullcontext)():
        inducer.fit([list(sentence.tokens) for sentence in corpus.text])
    states = (state for own in inducer.predict([list(one.tokens) for one in corpus.judged]) for state in own)
    found = score_induction(states, (tag for one in corpus.judged for tag in one.labels or ()))
    return 100.0 * found.many_to_one, 100.0 * found.v_measure


def scores(options: Options, rows: Sequence[str], rounds: int) -> Iterator[Score]:
    for corpus in panel.corpora(options):
        if not options.wants(corpus.name):
            continue
        for seed in range(FIRST_SEED, FIRST_SEED + (options.draws or (1 if options.small else SEEDS))):
            for row in rows:
                judge = partial(judged, corpus, seed, row, rounds)
                yield options.score("induction rows", corpus.name, "1-Many (V)", row, seed, judge)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="use small generated data")
    parser.add_argument("--draws", type=int, help="number of seeds")
    parser.add_argument("--corpora", nargs="+", default=[], help="corpora to run")
    parser.add_argument("--rows", nargs="+", choices=ROWS, help="rows of the table")
    parser.add_argument("--kept", type=Path, help="file of scores to keep and to resume from")
    given = parser.parse_args()
    options = Options(small=given.small, draws=given.draws, corpora=tuple(given.corpora), kept=Kept(given.kept))
    rows = given.rows or (SMALL if given.small else ROWS)
    found = list(scores(options, list(dict.fromkeys((DEFAULT, *rows))), 40 if given.small else 200))
    print(rows_table(found, DEFAULT, "1-Many (V)"))


if __name__ == "__main__":
    main()
