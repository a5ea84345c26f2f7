"""Figures 4, 5, 7 and 8 of Graça et al. 2010: precision and recall by constraint, and of rare and common words by size.

    make bench-align-figures ARGS="--draw docs/figures"     the figures of docs/alignment.md: a few minutes

Hansards, test sentences in front of the training text. Models are trained and decoded under the same constraint. A
source word is rare if it occurs at most five times in the training text. Figure 5 of the paper has the precision at the
recall of IBM Model 4, which is not part of Trellis; here it is the precision at a recall of 80 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from _align import data_folder, make_text
from _small import arguments, scratch_folder

from trellis.apps.align.aligner import THRESHOLD, Aligner
from trellis.data.bitext import read_two_files
from trellis.metrics.alignment import by_frequency, curve_of, precision_at
from trellis.report.alignment import plot_precision_recall
from trellis.report.figure import ACCENTS, FAINT, add_legend, new_figure, plain_axes, save_figure

CONSTRAINTS = ("none", "bijective", "agreement", "both")
LEAST = 0.01
RECALL = 0.8


def links_of(grids, least: float = LEAST) -> list[dict[tuple[int, int], float]]:
    return [{(int(i), int(j)): float(grid[i, j]) for i, j in np.argwhere(grid >= least)} for grid in grids]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=[1000, 5000, 20_000])
    parser.add_argument("--draw", type=Path, help="folder to write the figures to")
    given = arguments(parser, sizes=[40, 100])
    curves: dict[str, Mapping] = {"forward": {}, "backward": {}, "both directions": {}}
    groups: dict[str, dict[int, dict]] = {}
    for size in given.sizes:
        text = make_text("hansards", size, data_folder(), scratch_folder())
        pairs = list(read_two_files(text.source, text.target))
        source, target = ([list(pair[side]) for pair in pairs] for side in (0, 1))
        test = pairs[: len(text.test)]
        print(f"\nHansards, {size:,} pairs: precision and recall (%) at {THRESHOLD}, entropy of translations in bits")
        print(f"  {'':<12}{'rare P':>9}{'rare R':>9}{'common P':>10}{'common R':>10}{'rare H':>9}{'common H':>10}")
        for constraint in CONSTRAINTS:
            aligner = Aligner(constraint=constraint, n_jobs=-1).fit(pairs)
            grids = aligner.posteriors(test)
            sides = {"forward": [a for a, _ in grids], "backward": [b for _, b in grids]}
            sides["both directions"] = [0.5 * (a + b) for a, b in grids]
            for name, own in sides.items():
                curves[name] = {**curves[name], constraint: curve_of(links_of(own), text.test)}
            found = [dict(zip(row, row.scores.tolist(), strict=True)) for row in aligner.align(pairs)]
            own = by_frequency(source, target, found, text.test)
            groups.setdefault(constraint, {})[size] = own
            cells = [
                100 * getattr(own[name].scores, kind) for name in ("rare", "common") for kind in ("precision", "recall")
            ]
            print(f"  {constraint:<12}{cells[0]:>9.1f}{cells[1]:>9.1f}{cells[2]:>10.1f}{cells[3]:>10.1f}"
                  f"{own['rare'].entropy:>9.2f}{own['common'].entropy:>10.2f}", flush=True)  # fmt: skip
    print(f"\nPrecision (%) at a recall of {100 * RECALL:.0f} %, {given.sizes[-1]:,} pairs")
    print(f"  {'':<12}" + "".join(f"{name:>18}" for name in curves))
    for constraint in CONSTRAINTS:
        at = [precision_at(own[constraint], [RECALL])[RECALL] for own in curves.values()]
        print(f"  {constraint:<12}" + "".join(f"{'-' if p is None else f'{100 * p:.1f}':>18}" for p in at))
    if given.draw is not None:
        for number, name in (("4", "forward"), ("8", "both directions")):
            plot_precision_recall(curves[name], given.draw / f"alignment-figure{number}.png", title=f"Hansards, {name}")
        draw_sizes(groups, given.sizes, given.draw / "alignment-figure7.png")


def draw_sizes(groups, sizes, path: Path) -> None:
    figure, axes = new_figure(9.0, 3.2, 1, 3)
    panels = (("common", "precision"), ("rare", "precision"), ("rare", "recall"))
    for own, (words, kind) in zip(axes, panels, strict=True):
        for colour, constraint in zip(ACCENTS, CONSTRAINTS, strict=False):
            values = [100 * getattr(groups[constraint][size][words].scores, kind) for size in sizes]
            own.plot(sizes, values, marker="o", markersize=4, linewidth=1.6, color=colour)
        own.set_xscale("log")
        own.set_xticks(sizes, [f"{size:,}" for size in sizes])
        own.minorticks_off()
        own.grid(color=FAINT, linewidth=0.6)
        plain_axes(own, f"{words} words", "sentence pairs", f"{kind} (%)")
    add_legend(
        figure, {c: {"color": colour, "linewidth": 1.6} for colour, c in zip(ACCENTS, CONSTRAINTS, strict=False)}
    )
    save_figure(figure, path)


if __name__ == "__main__":
    main()
