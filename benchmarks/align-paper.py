"""Word alignment in the setting of Samdani et al. 2012, Table 2: plain tables, whole words, five rounds of the HMM.

    make bench-align-paper                                      every size; about a quarter of an hour on two cores
    make bench-align-paper ARGS="--sizes 10000 --es-sizes"      Hansards with 10,000 pairs

Tables are re-estimated by EM, nearly without a prior (``trellis align --no-variational --concentration 1e-6 --prefix
0 --same-spelling 0 --diagonal-scale inf --model1-rounds 5 --rounds 5 --constraint agreement``); EM has no constraint.
A link of a direction is kept if its posterior reaches a threshold, and of both (soft union) if the mean does;
thresholds are chosen on dev. The Spanish set has no dev and takes those of Hansards. The last part has the error
after so many rounds of the HMM, and with variational Bayes (α = 0.15) in place of EM.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from _align import Text, data_folder, make_text
from _small import arguments

from trellis.apps.align.aligner import THRESHOLDS, Aligner
from trellis.data.bitext import read_two_files
from trellis.metrics.alignment import best_threshold, precision_recall_curve

PAPER_SETTING = {
    "prefix": None, "same_spelling": 0.0, "diagonal_scale": float("inf"), "variational": False, "concentration": 1e-6,
    "constraint": "agreement", "model1_iter": 5, "max_iter": 5,
}  # fmt: skip
METHODS = {
    "EM": {"constraint": "none"}, "PR": {}, "γ 0.8": {"gamma": 0.8}, "γ 0.5": {"gamma": 0.5}, "γ 0.05": {"gamma": 0.05},
}  # fmt: skip
WAYS = ("forward", "backward", "soft union")
PAPER = {  # forward and backward: EM, PR, UEM, CoDL
    ("hansards", 10_000): ((23.54, 10.63, 9.10, 14.76), (19.63, 10.71, 9.21, 14.68)),
    ("hansards", 50_000): ((18.02, 8.30, 7.34, 10.08), (16.17, 8.40, 7.40, 10.09)),
    ("hansards", 100_000): ((16.31, 8.16, 7.05, 9.17), (15.03, 8.09, 6.87, 8.93)),
    ("europarl-en-es", 10_000): ((33.92, 22.24, 20.80, 28.19), (31.94, 22.00, 20.83, 28.13)),
    ("europarl-en-es", 50_000): ((25.31, 19.84, 18.93, 22.99), (24.46, 20.08, 18.95, 23.01)),
}


def errors(text: Text, carried: dict[str, list[float]], key: str, **settings) -> list[float]:
    """AER (%) of each direction and of both; thresholds of dev, or without it those that ``key`` had last."""
    aligner = Aligner(**{**PAPER_SETTING, **settings}).fit(read_two_files(text.source, text.target))
    n = len(text.test)
    grids = aligner.posteriors(text.gold_pairs())
    out = []
    for number, weight in enumerate((1.0, 0.0, 0.5)):
        rows = []
        for forward, backward in grids:
            mixed = weight * forward.astype(np.float64) + (1.0 - weight) * backward
            places = np.argwhere(mixed >= THRESHOLDS[0])
            rows.append({(int(i), int(j)): float(mixed[i, j]) for i, j in places})
        if text.dev:
            best = best_threshold(precision_recall_curve(rows[n:], text.dev, THRESHOLDS))
            carried.setdefault(key, [0.5] * len(WAYS))[number] = best
        at = carried.get(key, [0.5] * len(WAYS))[number]
        [point] = precision_recall_curve(rows[:n], text.test, [at])
        out.append(100 * point.scores.aer)
    return out


def show(name: str, found: list[float], note: str = "") -> None:
    print(f"  {name:<28}" + "".join(f"{v:>12.2f}" for v in found) + f"   {note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 50_000, 100_000])
    parser.add_argument("--es-sizes", type=int, nargs="*", default=[10_000, 50_000])
    parser.add_argument("--threads", type=int, default=2)
    given = arguments(parser, sizes=[60], es_sizes=[60])
    folder = data_folder()
    carried: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as work:
        for name, sizes in (("hansards", given.sizes), ("europarl-en-es", given.es_sizes)):
            for size in sizes:
                text = make_text(name, size, folder, Path(work))
                print(f"\n{name}, {size:,} pairs: AER on {len(text.test)} test sentences (%)")
                print(f"  {'':<28}" + "".join(f"{way:>12}" for way in WAYS))
                for method, settings in METHODS.items():
                    show(method, errors(text, carried, method, n_jobs=given.threads, **settings))
                for way, (em, pr, uem, codl) in zip(WAYS, PAPER.get((name, size), ()), strict=False):
                    print(f"  paper, {way}: EM {em}, PR {pr}, UEM {uem}, CoDL {codl}")
        text = make_text("hansards", given.sizes[0] if given.sizes else 10_000, folder, Path(work))
        print(f"\nRounds of the HMM, {text.size:,} pairs of Hansards, tables by EM or by variational Bayes")
        print(f"  {'':<28}" + "".join(f"{way:>12}" for way in WAYS))
        for variational in (False, True):
            for rounds in (1, 2, 3, 5, 10):
                for method in ("PR", "γ 0.5"):
                    settings = {**METHODS[method], "variational": variational, "max_iter": rounds}
                    if variational:
                        settings["concentration"] = 0.15
                    name = f"{'VB' if variational else 'EM'}, {rounds} rounds, {method}"
                    show(name, errors(text, carried, "rounds", n_jobs=given.threads, **settings))


if __name__ == "__main__":
    main()
