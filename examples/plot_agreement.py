"""Effect of agreement on an aligner: rare words no longer collect spurious links.

Two HMMs are trained on examples/garden by plain EM, then the same two so that their link posteriors agree and no word
is linked twice (Ganchev et al. 2010, sec. 5, Figure 5). The picture is of the pair on which they differ most.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trellis import Aligner
from trellis.metrics.alignment import GoldLinks, read_links
from trellis.report.alignment import plot_posterior_grids

HERE = Path(__file__).resolve().parent
GALLERY = HERE.parent / "docs" / "gallery"


def garden() -> tuple[list[tuple[str, str]], list[GoldLinks]]:
    """The pairs of examples/garden with their gold links."""
    sides = [(HERE / "garden" / f"text.{end}").read_text(encoding="utf-8").splitlines() for end in ("en", "fr")]
    return list(zip(*sides, strict=True)), read_links(HERE / "garden" / "gold.links")


def most_mended(pairs: Any, gold: Any, before: Any, after: Any, longest: int = 9) -> int:
    """The short pair whose wrong posterior mass falls most."""

    def wrong(n: int, grids: Any) -> float:
        right = np.zeros(grids[n][0].shape, bool)
        for i, j in gold[n].possible:
            right[i, j] = True
        return float(sum(grid[~right].sum() for grid in grids[n]))

    short = [n for n, (_, target) in enumerate(pairs) if 4 < len(target.split()) <= longest]
    return max(short, key=lambda n: wrong(n, before) - wrong(n, after))


def main(folder: Path = GALLERY) -> None:
    pairs, gold = garden()
    before, after = (Aligner(c, prefix=None, n_jobs=1).fit(pairs).posteriors(pairs) for c in ("none", "both"))
    n = most_mended(pairs, gold, before, after)
    words = [side.split() for side in pairs[n]]
    rows = {"EM": before[n], "both agree, one to one": after[n]}
    plot_posterior_grids(*words, rows, folder / "agreement.png", gold[n], judged=True)
    plot_posterior_grids(*words, rows, folder / "alignment_change.png", gold[n])


if __name__ == "__main__":
    main()
