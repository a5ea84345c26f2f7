"""A sentence of examples/people: entities and relations predicted by two classifiers alone, and under the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plot_tags import GALLERY

from trellis.apps.relate.relater import Relater
from trellis.data.related import read_related
from trellis.report.figure import BAD, GOOD, INK, add_legend, new_figure, save_figure

HERE = Path(__file__).resolve().parent / "people"


def main(folder: Path = GALLERY) -> None:
    few, gold = list(read_related(HERE / "few.jsonl")), list(read_related(HERE / "gold.jsonl"))
    relater = Relater.from_file(HERE / "rules.toml", finder=False).fit(few)
    before, after = relater.predict(gold, constrained=False), relater.predict(gold)
    told = [n for n in range(len(gold)) if gold[n].relations and not _wrong(after[n], gold[n])]
    n = max(told, key=lambda n: _wrong(before[n], gold[n]))
    words = list(gold[n].tokens)
    figure, panels = new_figure(0.95 * len(words), 5.6, 2, 1)
    for axes, title, found in zip(
        panels, ("the classifiers alone", "under the rules"), (before[n], after[n]), strict=True
    ):
        _draw(axes, title, words, found, gold[n])
    line = {"linewidth": 1.6}
    add_legend(figure, {"right": {"color": GOOD, **line}, "wrong": {"color": BAD, **line}})
    save_figure(figure, folder / "relations.png")


def _wrong(found: Any, gold: Any) -> int:
    return len(_relations(found) ^ _relations(gold)) + sum(
        a.label != b.label for a, b in zip(found.spans, gold.spans, strict=True)
    )


def _relations(text: Any) -> set[tuple[int, int, str]]:
    return {(r.first, r.second, r.label) for r in text.relations or ()}


def _draw(axes: Any, title: str, words: list[str], found: Any, gold: Any) -> None:
    from matplotlib.patches import FancyArrowPatch

    for k, word in enumerate(words):
        axes.text(k, 0, word, ha="center", va="center", fontsize=10, color=INK)
    centre = {}
    for number, (mention, true) in enumerate(zip(found.spans, gold.spans, strict=True)):
        centre[number] = (mention.first + mention.last - 1) / 2
        colour = GOOD if mention.label == true.label else BAD
        axes.plot([mention.first - 0.4, mention.last - 0.6], [-0.35, -0.35], color=colour, linewidth=2)
        axes.text(centre[number], -0.7, mention.label, ha="center", va="center", fontsize=9, color=colour)
    for first, second, kind in sorted(_relations(found)):
        colour = GOOD if (first, second, kind) in _relations(gold) else BAD
        a, b = centre[first], centre[second]
        bend = -0.35 if a < b else 0.35
        arrow = FancyArrowPatch(
            (a, 0.3), (b, 0.3), connectionstyle=f"arc3,rad={bend}", arrowstyle="-|>", mutation_scale=10, color=colour
        )
        axes.add_patch(arrow)
        axes.text((a + b) / 2, 0.45 + 0.31 * abs(a - b), kind, ha="center", fontsize=8, color=colour)
    axes.set_title(title, fontsize=9, color=INK, loc="left")
    axes.set_xlim(-0.7, len(words) - 0.3)
    axes.set_ylim(-1.1, 3.4)
    axes.axis("off")


if __name__ == "__main__":
    main()
