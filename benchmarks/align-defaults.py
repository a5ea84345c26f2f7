"""How the defaults of the aligner were chosen: one setting changed at a time, judged without the test sets.

    make bench-align-defaults                       about ten minutes on two cores

The judge is the gold of Hansards' dev, 37 sentences. So small a set needs help against chance: every figure is the mean
AER (%) over thresholds from 0.25 to 0.55, so that no threshold is part of the choice, and over trainings on disjoint
texts, four of 10,000 pairs and two of 50,000. Test sentences are not read at all.
"""

from __future__ import annotations

import argparse

import numpy as np
from _align import data_folder, mean_aer
from _small import arguments

from trellis.apps.align.aligner import Aligner
from trellis.data.bitext import read_two_files
from trellis.metrics.alignment import read_links

TRAININGS = {10_000: 4, 50_000: 2}
CHANGES: dict[str, list] = {
    "constraint": ["none", "bijective", "agreement"],
    "gamma": [0.5, 0.7],
    "model1_iter": [2, 6],
    "max_iter": [1, 3],
    "prefix": [4, 6, None],
    "concentration": [0.1, 0.2],
    "p_null": [0.2, 0.4],
    "alike": [0.0, 3.0],
    "reach": [20.0, float("inf")],
    "max_evaluations": [2, 4],
    "variational": [False],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(TRAININGS), help="pairs of a training")
    parser.add_argument("--settings", nargs="+", choices=CHANGES, default=list(CHANGES), help="settings to change")
    options = arguments(parser, sizes=[30], settings=["constraint", "prefix"])
    trainings = {size: TRAININGS.get(size, 2) for size in options.sizes}
    folder = data_folder() / "hansards"
    dev = list(read_two_files(folder / "dev.en", folder / "dev.fr"))
    gold = read_links(folder / "dev.gold")
    train = list(read_two_files(folder / "train.en", folder / "train.fr"))

    def judge(name: str, **changed: object) -> None:
        values = []
        for size, parts in trainings.items():
            texts = [train[part * size : (part + 1) * size] for part in range(parts)]
            values.append(np.mean([mean_aer(Aligner(**changed).fit(dev + text), dev, gold) for text in texts]))
        print(f"{name:<34}" + "".join(f"{v:>9.2f}" for v in [*values, np.mean(values)]), flush=True)

    print(f"{'':<34}" + "".join(f"{size:>9,}" for size in trainings) + f"{'mean':>9}")
    default = Aligner()
    judge("the defaults")
    for parameter in options.settings:
        for value in CHANGES[parameter]:
            judge(f"{parameter} {getattr(default, parameter)} -> {value}", **{parameter: value})


if __name__ == "__main__":
    main()
