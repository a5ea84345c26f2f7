"""Names in two alphabets that match and that do not, with the evidence for and against each match."""

from __future__ import annotations

from pathlib import Path

from plot_tags import GALLERY

from trellis.apps.match.figure import plot_matches
from trellis.apps.match.matcher import Matcher


def main(folder: Path = GALLERY) -> None:
    lines = (Path(__file__).parent / "names" / "pairs.tsv").read_text(encoding="utf-8").splitlines()
    names = [(left, right) for left, right in (line.split("\t") for line in lines)]
    matcher = Matcher("names", n_jobs=1).fit(names)
    asked = [("manuela", "מנואלה"), ("kristina", "כריסטינה"), ("manuela", "מונאקו")]
    plot_matches(matcher.match(asked), folder / "name_alignments.png")


if __name__ == "__main__":
    main()
