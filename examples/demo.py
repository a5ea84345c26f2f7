"""``make demo``: a tour in under a minute, on samples that ship with the project.

1. a part-of-speech tagger from rules alone       2. fields from five labelled texts and twelve rules
3. word alignment under an agreement constraint   4. demo/report.html, the same in figures
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plot_agreement import garden, most_mended
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from trellis import HMM, UEM, Aligner, Extractor
from trellis.constraints import count, label, word
from trellis.data.document import Document, fields_of
from trellis.data.text_files import read_labelled, read_texts
from trellis.engine.compiling import compile_ahead
from trellis.metrics.alignment import score_links
from trellis.metrics.fields import score_fields
from trellis.report.page import Page
from trellis.report.pages import report

HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "demo" / "report.html"
USES = ("train-supervised", "train-hard-em", "train-pr", "predict", "CRF", "align", "HMM+rules")
RIGHT, WRONG, MISSED = "●", "✗", "□"
PLAIN: dict[str, Any] = {"model_kind": "hmm", "back_off": 0.0, "usual_fields": False}
ROWS = (
    ("5 labelled texts", {"method": "supervised", **PLAIN}, False),
    ("5 labelled texts, rules in prediction", {"method": "supervised", **PLAIN}, True),
    ("5 + 300 unlabelled texts, no rules", {"method": "hard-em", **PLAIN}, False),
    ("5 + 300 unlabelled texts, rules in training", {"method": "pr", **PLAIN}, True),
    ("the same with default settings (HMM and CRF)", {}, True),
)
SENTENCES = (
    "the gardener waters the rose", "a rose climbs the old fence", "the old gardener plants a hedge",
    "every morning the gardener walks", "a ladder leans on the fence", "the hedge hides the gate",
    "the gardener opens the gate", "a cat sleeps on the wall", "the cat climbs a tree",
)  # fmt: skip
console = Console(highlight=False, emoji=False, markup=False, width=None if sys.stdout.isatty() else 110)


@contextmanager
def working(on: str) -> Iterator[None]:
    """Show a spinner on a terminal."""
    if console.is_terminal:
        with console.status(Text(on)):
            yield
    else:
        yield


def heading(title: str) -> None:
    console.print(f"\n{title}", style="bold")


def fields() -> tuple[Extractor, list[Any]]:
    folder = HERE / "citations"
    few, many, gold = (
        read_labelled(folder / "few.tsv"), read_texts(folder / "text.txt"), read_labelled(folder / "gold.tsv"),
    )  # fmt: skip
    heading(f"2. Fields of citations: {len(few)} labelled and {len(many)} unlabelled texts; {len(gold)} test texts")
    console.print("   A hidden Markov model (HMM) is trained in four ways, then an extractor with its defaults.\n")
    console.print(f"   {'trained on':46}{'token accuracy':>14}{'field F1':>10}")
    truth = [list(t.labels or ()) for t in gold]
    outputs: list[list[list[str]]] = []
    for name, settings, ruled in ROWS:
        with working(name):
            extractor = Extractor.from_file(folder / "rules.toml", **settings).fit(few, unlabelled=many)
            outputs.append(extractor.predict(gold, constrained=ruled))
        scores = score_fields(truth, outputs[-1])
        console.print(f"   {name:46}{100 * scores.accuracy:>14.1f}{100 * scores.total.f1:>10.1f}")
    console.print(f"\n   Two citations without and with rules in training ({RIGHT} correct, {WRONG} wrong):")
    before, after = outputs[2], outputs[3]

    def right(labels: list[str], n: int) -> int:
        return sum(a == b for a, b in zip(labels, truth[n], strict=True))

    short = [n for n, t in enumerate(gold) if len(t) < 24]
    for n in sorted(short, key=lambda n: right(before[n], n) - right(after[n], n))[:2]:
        console.print()
        for title, labels in (("without", before[n]), ("with", after[n])):
            line = Text()
            for field in fields_of(gold[n], labels):
                own = slice(field.first, field.last)
                fine = labels[own] == truth[n][own]
                style = "green" if fine else "red"
                line.append(f"{RIGHT if fine else WRONG} {field.label} ", style=f"bold {style}")
                line.append(gold[n].text[field.start : field.end] + "  ", style=style)
            console.print(f"   {title}:")
            console.print(Padding(line, (0, 0, 0, 6)))
    return extractor, gold


def alignment() -> tuple[Aligner, list[Any], list[Any]]:
    pairs, gold = garden()
    heading(f"3. Word alignment: {len(pairs)} sentence pairs, no gold links in training")
    console.print("   AER is the alignment error rate; lower is better.\n")
    console.print(f"   {'trained with':44}{'precision':>10}{'recall':>8}{'AER':>7}")
    made, links = [], []
    for name, constraint in (("EM", "none"), ("EM, both directions agree, one link per word", "both")):
        with working(name):
            aligner = Aligner(constraint, prefix=None, n_jobs=1)
            links.append([set(found) for found in aligner.fit_align(pairs)])
        scores = score_links(links[-1], gold)
        console.print(f"   {name:44}{scores.precision:>10.3f}{scores.recall:>8.3f}{scores.aer:>7.3f}")
        made.append(aligner)
    with working("posteriors"):
        n = most_mended(pairs, gold, *(aligner.posteriors(pairs) for aligner in made))
    console.print(
        "\n   With EM, a rare name collects spurious links; the agreement constraint removes them\n"
        f"   ({RIGHT} correct, {WRONG} wrong, {MISSED} missed):\n"
    )
    source, target = (side.split() for side in pairs[n])
    wide, margin = max(map(len, target)) + 1, max(map(len, source)) + 2  # 80 columns must do
    for title, found in zip(("EM", "agreed"), links, strict=True):
        console.print(f"   {title:{margin}}" + "".join(w.ljust(wide) for w in target).rstrip())
        for i, name in enumerate(source):
            line = Text(f"   {name:{margin}}")
            for j in range(len(target)):
                there, true = (i, j) in found[n], (i, j) in gold[n].possible
                mark = RIGHT if there and true else WRONG if there else MISSED if true else "·"
                line.append(mark.ljust(wide), style={RIGHT: "green", WRONG: "bold red", MISSED: "red"}.get(mark, "dim"))
            line.rstrip()
            console.print(line)
        console.print()
    return made[0], pairs, gold


def tagger() -> tuple[UEM, list[Document]]:
    heading("1. A part-of-speech tagger from nine sentences and four rules, without labels")
    rules = [
        (count("VERB") >= 1).named("at least one verb"),
        (count("VERB") <= 1).named("at most one verb"),
        word.isin("the", "a", "every").implies(label("DET")).named("articles"),
        (count("NOUN") >= 1.5).penalty(5).named("usually more than one noun"),
    ]
    for rule in rules:
        console.print(Padding(rule.describe(), (0, 0, 0, 3)))
    text = [s.split() for s in SENTENCES]
    model = HMM(["DET", "NOUN", "VERB", "OTHER"], min_count=1, emission_prior=1.1, transition_prior=1.1)
    with working("learning"):
        learner = UEM(model, rules, max_iter=30, tol=0, n_init=5, random_state=0).fit(text)
    new = [s.split() for s in ("the gardener climbs a ladder", "a cat waters the hedge")]
    console.print("\n   Predicted tags of new sentences:")
    for words, tags in zip(new, learner.predict(new), strict=True):
        console.print("   " + "  ".join(f"{w}/{t}" for w, t in zip(words, tags, strict=True)))
    return learner, [Document(tuple(words)) for words in text]


def main(out: Path = OUT) -> None:
    start = time.time()
    compile_ahead(*USES)  # shows its progress, the first time
    learner, sentences = tagger()
    extractor, texts = fields()
    aligner, pairs, gold = alignment()
    page = Page("Trellis: what constraints change", "Three models, trained on the samples that come with Trellis")
    page.summary = [
        "This page shows three models with and without their constraints.",
        "The tagger has no labels, the extractor five labelled texts, the aligner no links.",
        "Look first at 'Fields: label posteriors' and 'Alignment: largest changes'.",
        "Next: write rules for texts of your own (docs/start.md).",
    ]
    with working(f"drawing {out.name}"):
        aligner.decode_constraint = "both"  # trained by EM: the page shows what agreement does to its posteriors
        for title, own in (
            ("Tagger", report(learner, sentences)),
            ("Fields", report(extractor, texts[:40])),
            ("Alignment", report(aligner, pairs[:60], gold=gold[:60])),
        ):
            page.sections += [(f"{title}: {name[0].lower()}{name[1:]}", html) for name, html in own.sections]
        out.parent.mkdir(exist_ok=True)
        page.save(out)
    heading(f"4. Report with figures: {out.relative_to(HERE.parent) if out.is_relative_to(HERE.parent) else out}")
    console.print(f"   Open it in a browser; it needs no network. The demo took {time.time() - start:.0f} s.\n")


if __name__ == "__main__":
    main()
