"""A text of examples/citations, labelled by an extractor trained on five labelled texts, by one trained with rules and
unlabelled texts as well, and the gold labels. Every field has a colour; errors are crossed out.
"""

from __future__ import annotations

from pathlib import Path

from plot_tags import GALLERY

from trellis.apps.extract.extractor import Extractor
from trellis.data.text_files import read_labelled, read_texts
from trellis.report.figure import ACCENTS, BAD, INK, add_legend, mark, new_figure, save_figure

HERE = Path(__file__).resolve().parent / "citations"
WIDTH = 0.088
"""Inches of a character."""


def main(folder: Path = GALLERY) -> None:
    few, many, gold = read_labelled(HERE / "few.tsv"), read_texts(HERE / "text.txt"), read_labelled(HERE / "gold.tsv")
    alone = Extractor.from_file(HERE / "rules.toml", method="supervised", model_kind="hmm").fit(few)
    ruled = Extractor.from_file(HERE / "rules.toml", model_kind="hmm").fit(few, unlabelled=many)
    truth = [list(t.labels or ()) for t in gold]
    first, second = alone.predict(gold, constrained=False), ruled.predict(gold)

    def wrong(labels: list[str], n: int) -> int:
        return sum(a != b for a, b in zip(labels, truth[n], strict=True))

    short = [n for n, t in enumerate(gold) if len(t.text) < 95 and wrong(second[n], n) == 0]
    n = max(short, key=lambda n: wrong(first[n], n))
    rows = {"5 labelled texts": first[n], "... and 12 rules, 300 texts without labels": second[n], "truth": truth[n]}
    text = gold[n]
    names = sorted({y for own in rows.values() for y in own})
    colours = dict(zip(names, [*ACCENTS, "#4f9d9d", "#a3485f", "#777777"], strict=False))
    figure, axes = new_figure(WIDTH * len(text.text) + 0.4, 2.6)
    for height, (title, labels) in zip((2.0, 1.0, 0.0), rows.items(), strict=True):
        axes.text(0, height + 0.42, title, fontsize=8, color=INK)
        for (start, end), label, right in zip(text.offsets, labels, truth[n], strict=True):
            axes.text(start, height, text.text[start:end], family="monospace", fontsize=9, color=colours[label])
            axes.plot([start, end], [height - 0.12] * 2, color=colours[label], linewidth=3, solid_capstyle="butt")
            if label != right:
                axes.plot([start, end], [height + 0.1] * 2, color=BAD, linewidth=1)
    axes.set_xlim(0, len(text.text))
    axes.set_ylim(-0.4, 2.8)
    axes.axis("off")
    entries = {name: mark(colour, "s") for name, colour in colours.items()}
    add_legend(figure, {**entries, "crossed out: wrong": {"color": BAD}}, columns=4)
    save_figure(figure, folder / "fields.png")


if __name__ == "__main__":
    main()
