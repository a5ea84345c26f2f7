"""Induction: parts of speech from text alone, with as many states as the corpus has tags.

Many-to-one accuracy, and V-measure in brackets. A model learns from all text of a corpus, no tags, and gives states to
the judged part. The Penn sample has no parts of its own: its first half is for development, the second for testing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from json import loads
from pathlib import Path

from _panel.common import DATA, Options, Score, folder, run
from trellis.data.columns import read_columns, write_columns
from trellis.data.conllu import is_conllu, read_conllu
from trellis.data.document import Document

TITLE = "induction: many-to-one (V-measure)"
OURS = "trellis induce"
BASELINES = ("HMM by EM", "HMM by variational Bayes")
LOWER_IS_BETTER = False
SEEDS = 5
SYSTEMS: dict[str, tuple[str, ...]] = {
    OURS: (),
    "HMM by EM": ("--method", "em", "--emissions", "table"),
    "HMM by variational Bayes": ("--method", "vb"),
}


@dataclass(frozen=True)
class Corpus:
    """text : what is learned from;  judged : sentences whose tags are compared with states."""

    name: str
    text: list[Document]
    judged: list[Document]


def corpora(options: Options) -> Iterator[Corpus]:
    data = DATA
    if options.small:
        from _small import corpora as generated

        data = generated()
    penn = _read(data / "pos" / "ptb-sample.tsv")
    half = len(penn) // 2
    yield Corpus("ptb-sample", penn, penn[half:] if options.test else penn[:half])
    if options.small:
        return
    judged = "test" if options.test else "dev"
    for folder_name, name, end in (
        ("pos", "bosque", "tsv"), ("trees", "nl-alpino", "conllu"), ("trees", "fr-gsd", "conllu"),
        ("trees", "es-gsd", "conllu"),
    ):  # fmt: skip
        paths = {part: data / folder_name / f"{name}-{part}.{end}" for part in ("train", "dev", judged)}
        text = [s for path in paths.values() if path.exists() for s in _read(path)]
        yield Corpus(name, text, _read(paths[judged]))


def _read(path: Path) -> list[Document]:
    return list(read_conllu(path) if is_conllu(path) else read_columns(path))


def scores(options: Options) -> Iterator[Score]:
    for corpus in corpora(options):
        if not options.wants(corpus.name):
            continue
        for system, settings in SYSTEMS.items():
            for seed in range(options.draws or (1 if options.small else SEEDS)):
                judge = partial(by_command, corpus, seed, *settings)
                yield options.score("induce", corpus.name, "1-Many (V)", system, seed, judge)


def by_command(corpus: Corpus, seed: int, *settings: str) -> tuple[float, float]:
    """``trellis induce`` on the text, on the judged part with the model, and ``trellis evaluate``."""
    tags = {tag for sentence in corpus.text for tag in sentence.labels or () if tag is not None}
    with folder() as path:
        write_columns(path / "text.tsv", corpus.text)
        write_columns(path / "gold.tsv", corpus.judged)
        run(
            "induce", path / "text.tsv", "-k", str(len(tags)), "--seed", str(seed), "--save", path / "model",
            "-o", path / "states.tsv", "--quiet", *settings,
        )  # fmt: skip
        run("induce", path / "gold.tsv", "--model", path / "model", "-o", path / "found.tsv", "--quiet")
        run("evaluate", "--induction", path / "gold.tsv", path / "found.tsv", "-o", path / "scores.json", "--json")
        found = loads((path / "scores.json").read_text())
    return 100.0 * found["many_to_one"], 100.0 * found["v_measure"]
