"""How the defaults of the aligner were chosen: one setting changed at a time, judged without the test sets.

    make bench-align-defaults                       about ten minutes on two cores

Three judges, each the mean AER (%) over thresholds from 0.25 to 0.55, so that no threshold is part of the choice:

    dev       the 37 gold sentences of Hansards' dev, mean of trainings on four disjoint sets of 10,000 pairs
    peer fr   agreement with eflomal on 1,000 training sentences of three of these sets: links that both its
    peer es   directions have are taken as sure, those of either as possible; eflomal has read 100,000 pairs of Hansards
              (Europarl: 50,000), our models only 10,000 (6,000). A peer errs in its own way, but on many sentences

Test sentences are not read at all.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import islice
from pathlib import Path

import numpy as np
from _align import data_folder, find_eflomal, mean_aer, timed

from trellis.data.bitext import read_two_files
from trellis.metrics.alignment import GoldLinks, read_links
from trellis.tasks.align import Aligner

SIZE = 10_000
SPANISH = 6_000
JUDGED = 1_000
CHANGES: dict[str, list] = {
    "constraint": ["none", "bijective", "agreement"],
    "model1_iterations": [1, 3, 4],
    "iterations": [2, 4, 5],
    "prefix": [4, 6, None],
    "concentration": [0.05, 0.1, 0.2],
    "p_null": [0.1, 0.2, 0.4],
    "alike": [0.0, 0.3, 3.0],
    "reach": [10.0, 20.0, float("inf")],
    "max_evaluations": [2, 4, 6],
    "variational": [False],
}


def peer_links(eflomal: str, source: Path, target: Path, work: Path) -> list[GoldLinks]:
    """eflomal's links of a whole text."""
    forward, backward = work / "fwd", work / "rev"
    timed([eflomal, "-s", str(source), "-t", str(target), "-f", str(forward), "-r", str(backward), "--overwrite"])
    both = zip(read_links(forward), read_links(backward), strict=True)
    return [GoldLinks(a.possible & b.possible, a.possible | b.possible) for a, b in both]


def main() -> None:
    folder = data_folder()
    hansards, europarl = folder / "hansards", folder / "europarl-en-es"
    dev = list(read_two_files(hansards / "dev.en", hansards / "dev.fr"))
    gold = read_links(hansards / "dev.gold")
    french = list(islice(read_two_files(hansards / "train.en", hansards / "train.fr"), 4 * SIZE))
    spanish = list(islice(read_two_files(europarl / "train.en", europarl / "train.es"), SPANISH))
    eflomal = find_eflomal()
    if eflomal is None:
        raise SystemExit("this benchmark needs eflomal: pip install eflomal")
    with tempfile.TemporaryDirectory() as work:
        print("eflomal reads both corpora", file=sys.stderr, flush=True)
        peer_french = peer_links(eflomal, hansards / "train.en", hansards / "train.fr", Path(work))
        peer_spanish = peer_links(eflomal, europarl / "train.en", europarl / "train.es", Path(work))

    def judge(name: str, **changed: object) -> None:
        of_dev, of_peer = [], []
        for part in range(4):
            begin = part * SIZE
            aligner = Aligner(**changed).fit(dev + french[begin : begin + SIZE])
            of_dev.append(mean_aer(aligner, dev, gold))
            if part < 3:
                judged = slice(begin, begin + JUDGED)
                of_peer.append(mean_aer(aligner, french[judged], peer_french[judged]))
        aligner = Aligner(**changed).fit(spanish)
        of_spanish = mean_aer(aligner, spanish[:JUDGED], peer_spanish[:JUDGED])
        values = np.mean(of_dev), np.mean(of_peer), of_spanish
        print(f"{name:<30}" + "".join(f"{v:>9.2f}" for v in [*values, np.mean(values)]), flush=True)

    print(f"{'':<30}{'dev':>9}{'peer fr':>9}{'peer es':>9}{'mean':>9}")
    default = Aligner()
    judge("the defaults")
    for parameter, values in CHANGES.items():
        for value in values:
            judge(f"{parameter} {getattr(default, parameter)} -> {value}", **{parameter: value})


if __name__ == "__main__":
    main()
