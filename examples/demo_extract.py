"""Fields from rules and five labelled texts, on the samples beside this file: what the rules changed.

python examples/demo_extract.py            citations, then advertisements, in less than a minute
"""

from __future__ import annotations

from pathlib import Path

from trellis.data.tokens import Text, fields_of
from trellis.metrics.fields import score_fields
from trellis.tasks.extract import Extractor
from trellis.tasks.extract_files import read_labelled, read_texts

HERE = Path(__file__).resolve().parent
ROWS = (
    ("5 labelled texts alone", "supervised", False),
    ("... rules when it predicts", "supervised", True),
    ("300 unlabelled texts, no rules (hard EM)", "hard-em", False),
    ("... and rules, CoDL", "codl", True),
    ("... and rules, posterior regularization", "pr", True),
    ("... by PR, and two CRFs that the HMM taught", "default", True),
)


def show(domain: str, title: str) -> None:
    folder = HERE / domain
    few, many, gold = (
        read_labelled(folder / "few.tsv"), read_texts(folder / "text.txt"), read_labelled(folder / "gold.tsv"),
    )  # fmt: skip
    print(f"\n{title}: {len(few)} labelled and {len(many)} unlabelled texts, tested on {len(gold)}")
    print(f"  {'learned from':44}{'token accuracy':>16}{'field F1':>10}")
    truth = [t.sentence.labels for t in gold]
    made: dict[str, Extractor] = {}
    outputs: dict[tuple[str, bool], list[list[str]]] = {}
    for name, method, ruled in ROWS:
        if method not in made:
            settings = {} if method == "default" else {"method": method, "model_kind": "hmm"}
            made[method] = Extractor.from_file(folder / "rules.toml", **settings).fit(few, unlabelled=many)
        outputs[method, ruled] = made[method].predict(gold, constrained=ruled)
        scores = score_fields(truth, outputs[method, ruled])
        print(f"  {name:44}{100 * scores.accuracy:>16.1f}{100 * scores.total.f1:>10.1f}")
    print("\n  What the rules changed (hard EM -> CoDL):")
    for text, before, after in _changed(gold, outputs["hard-em", False], outputs["codl", True]):
        print(f"\n    {text.text}")
        print(f"      without: {_line(text, before)}")
        print(f"      with:    {_line(text, after)}")


def _changed(
    gold: list[Text], before: list[list[str]], after: list[list[str]]
) -> list[tuple[Text, list[str], list[str]]]:
    """The two texts of less than 26 tokens in which rules put the most tokens right."""
    short = [(t, a, b) for t, a, b in zip(gold, before, after, strict=True) if len(t) < 26]
    short.sort(key=lambda one: _right(one[0], one[1]) - _right(one[0], one[2]))
    return short[:2]


def _right(text: Text, labels: list[str]) -> int:
    return sum(x == y for x, y in zip(text.sentence.labels or (), labels, strict=True))


def _line(text: Text, labels: list[str]) -> str:
    return " ".join(f"[{f.label} {text.text[f.start : f.end]}]" for f in fields_of(text, labels))


def main() -> None:
    show("citations", "Citations, 13 fields, the 12 rules of examples/citations/rules.toml")
    show("ads", "Advertisements for flats, 7 fields, the 10 rules of examples/ads/rules.toml")


if __name__ == "__main__":
    main()
