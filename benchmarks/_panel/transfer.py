"""Transfer: a parser for a language without a treebank, from English trees and raw parallel text.

UAS, and LAS in brackets, on whole sentences with gold tags; punctuation is parsed but not scored. Taggers of the target
languages learn from the tags of their development sets. Spanish text is tokenised and lower-cased.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from json import loads
from pathlib import Path

from _panel.common import DATA, ROOT, Options, Score, folder, run

TITLE = "transfer: UAS (LAS)"
OURS = "trellis transfer"
BASELINES = ("English parser applied directly",)
LOWER_IS_BETTER = False


@dataclass(frozen=True)
class Language:
    """source_trees : what the English tagger and parser learn from;  tags : what the target tagger learns from."""

    name: str
    source_trees: Path
    source: Path
    target: Path
    tags: Path
    gold: dict[str, Path]


def languages(options: Options) -> Iterator[Language]:
    trees, garden = DATA / "trees", ROOT / "examples" / "garden"
    if options.small:
        gold = {"fr-test": garden / "fr-test.conllu"}
        yield Language(
            "garden", garden / "train.conllu", garden / "text.en", garden / "text.fr", garden / "fr.conllu", gold
        )
        return
    for name, bank in (("nl", "nl-alpino"), ("fr", "fr-gsd"), ("es", "es-gsd")):
        text = DATA / "align" / "europarl-en-es" if name == "es" else DATA / "bitext" / f"en-{name}"
        stem = "train" if name == "es" else "text"
        judged = [f"{bank}-{'test' if options.test else 'dev'}", *(["es-pud"] if name == "es" and options.test else [])]
        yield Language(
            name, trees / "en-ewt-train.conllu", text / f"{stem}.en", text / f"{stem}.{name}",
            trees / f"{bank}-dev.conllu", {one: trees / f"{one}.conllu" for one in judged},
        )  # fmt: skip


def scores(options: Options) -> Iterator[Score]:
    with folder() as english:
        for language in languages(options):
            if not options.wants(language.name):
                continue
            for system, predict in ((OURS, transferred), (BASELINES[0], direct)):
                for corpus, gold in language.gold.items():
                    judge = partial(_judged, language, gold, english, predict)
                    yield options.score("transfer", corpus, "UAS (LAS)", system, 0, judge)


def _judged(language: Language, gold: Path, english: Path, predict: object) -> tuple[float, float]:
    parser, tagger = english / "en.parser", english / "en.tagger"
    if not parser.exists():
        run("tag", "train", language.source_trees, "--save", tagger, "--quiet")
        run("parse", "train", language.source_trees, "--save", parser, "--quiet")
    with folder() as path:
        model = predict(language, english)  # type: ignore[operator]
        run("parse", "predict", gold, "--model", model, "-o", path / "out.conllu", "--quiet")
        run("evaluate", "--trees", gold, path / "out.conllu", "-o", path / "scores.json", "--json")
        plain = loads((path / "scores.json").read_text())["without_punctuation"]
        return 100 * plain["uas"], 100 * plain["las"]


def direct(language: Language, english: Path) -> Path:
    """The English parser as it is."""
    return english / "en.parser"


def transferred(language: Language, english: Path) -> Path:
    """The documented commands: a tagger of the target language, then ``trellis transfer`` on text."""
    model, tagger = english / f"{language.name}.parser", english / f"{language.name}.tagger"
    if not model.exists():
        run("tag", "train", language.tags, "--save", tagger, "--quiet")
        run(
            "transfer", "--source-parser", english / "en.parser", "-s", language.source, "-t", language.target,
            "--source-tagger", english / "en.tagger", "--target-tagger", tagger, "--save", model, "--quiet",
        )  # fmt: skip
    return model
