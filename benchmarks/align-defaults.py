"""How the defaults of the aligner were chosen: one setting changed at a time, on development sets only.

    make bench-align-defaults                       about ten minutes on two cores

AER (%) on Hansards (two trainings on disjoint texts of 10,000 pairs, 37 gold sentences), on English-French Europarl
(10,000 pairs, 100 gold sentences) and on English-Czech (2,500 pairs, every second one with gold). Figures are means of
thresholds from 0.25 to 0.55, so that no threshold is part of the choice; ``--thresholds`` shows each of them.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from _align import NEAR_DEFAULT, data_folder, error_curve
from _small import arguments

from trellis.apps.align.aligner import Aligner
from trellis.apps.align.constraint_sets import constraints_of
from trellis.data.bitext import read_two_files
from trellis.metrics.alignment import read_links

PENALTIES = [0.5, 1.0, 2.0, 4.0]
"""Prices in nats per unit of violation (Ganchev et al. 2010, sec. 5.2, asks whether they are better than hard rows)."""
CHANGES: dict[str, list] = {
    "constraint": ["none", "bijective", "agreement"],
    "penalty": [(name, price) for name in ("bijective", "agreement", "both") for price in PENALTIES],
    "gamma": [0.5, 0.7],
    "model1_iter": [3, 6],
    "max_iter": [1, 3],
    "whole_words": [False],
    "prefix": [4, 6, None],
    "concentration": [0.1, 0.2],
    "p_null": [0.2, 0.4],
    "same_spelling": [0.0, 3.0],
    "diagonal_scale": [20.0, float("inf")],
    "max_evaluations": [3, 4],
    "variational": [False],
}


@dataclass
class Judged:
    """A training text, and the numbers of its pairs with their gold links."""

    name: str
    pairs: list
    numbers: range
    gold: list


def texts(size: int) -> list[Judged]:
    folder, found = data_folder(), []
    for name, parts in (("hansards", 2), ("europarl-en-fr", 1)):
        dev, gold = pairs_of(folder / name, "dev", "fr"), read_links(folder / name / "dev.gold")
        train = pairs_of(folder / name, "train", "fr", parts * size)
        for part in range(parts):
            own = dev + train[part * size : (part + 1) * size]
            found.append(Judged(name, own, range(len(dev)), gold))
    if (folder / "en-cs").is_dir():
        gold = read_links(folder / "en-cs" / "text.gold")
        numbers = range(0, len(gold), 2)
        found.append(Judged("en-cs", pairs_of(folder / "en-cs", "text", "cs"), numbers, [gold[n] for n in numbers]))
    return found


def pairs_of(folder: Path, part: str, language: str, n: int | None = None) -> list:
    return list(islice(read_two_files(folder / f"{part}.en", folder / f"{part}.{language}"), n))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=10_000, help="pairs of a training text")
    parser.add_argument("--settings", nargs="+", choices=CHANGES, default=list(CHANGES), help="settings to change")
    parser.add_argument("--thresholds", action="store_true", help="print the mean over corpora at every threshold")
    options = arguments(parser, size=30, settings=["constraint", "penalty", "prefix"])
    judged = texts(options.size)
    names = list(dict.fromkeys(text.name for text in judged))

    def judge(name: str, **changed: object) -> None:
        curves: dict[str, list] = {corpus: [] for corpus in names}
        for text in judged:
            aligner = Aligner(**changed).fit(text.pairs)
            curves[text.name].append(error_curve(aligner, [text.pairs[n] for n in text.numbers], text.gold))
        means = np.array([np.mean(curves[corpus], axis=0) for corpus in names])  # corpora, thresholds
        values = [*means.mean(axis=1), means.mean()]
        if options.thresholds:
            values += list(means.mean(axis=0))
        print(f"{name:<34}" + "".join(f"{v:>16.2f}" for v in values), flush=True)

    print(
        f"{'':<34}" + "".join(f"{name:>16}" for name in [*names, "mean", *(NEAR_DEFAULT if options.thresholds else [])])
    )
    default = Aligner()
    judge("the defaults")
    for parameter in options.settings:
        for value in CHANGES[parameter]:
            if parameter == "penalty":
                soft = [one.penalty(value[1]) for one in constraints_of(value[0])]
                judge(f"constraint {value[0]}, penalty {value[1]:g}", constraint=soft)
                continue
            judge(f"{parameter} {getattr(default, parameter)} -> {value}", **{parameter: value})


if __name__ == "__main__":
    main()
