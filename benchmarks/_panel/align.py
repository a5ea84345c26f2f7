"""Word alignment: alignment error rate of links found without labelled text.

The whole text is aligned, including the sentences that have gold links; only these are judged. Czech has no training
text: its even lines are the development set, its odd lines the test set. English-French Europarl has no test set,
English-Spanish no development set.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import islice
from json import loads
from pathlib import Path
from typing import Any

from _align import find_eflomal, read_direction, symmetrized

from _panel.common import DATA, ROOT, Options, Score, folder, run

TITLE = "alignment: AER"
OURS = "trellis align"
BASELINES = ("eflomal, intersection", "eflomal, grow-diag-final-and", "fast_align, grow-diag-final-and")
LOWER_IS_BETTER = True
PEERS = ROOT.parent / "shared" / "peers" / "fast_align"
"""Sources of fast_align, built where it is not on PATH."""
CORPORA = (
    ("hansards-10k", "hansards", "fr", 10_000),
    ("hansards-100k", "hansards", "fr", 100_000),
    ("europarl-en-es", "europarl-en-es", "es", 50_000),
    ("europarl-en-fr", "europarl-en-fr", "fr", 50_000),
)
"""Names, folders, target languages and pairs of training text."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """source, target : lines of the text;  judged : numbers of its lines with the gold links ``gold``."""

    name: str
    source: list[str]
    target: list[str]
    judged: range
    gold: list[str]

    @contextmanager
    def files(self) -> Iterator[tuple[Path, Path, Path]]:
        """A folder, and in it the two sides of the text."""
        with folder() as path:
            write(path / "source", self.source)
            write(path / "target", self.target)
            yield path, path / "source", path / "target"

    def aer(self, links: list[str]) -> tuple[float]:
        """Of the links of all lines, the judged ones against gold, by ``trellis evaluate``."""
        with folder() as path:
            found, gold = path / "links", path / "gold"
            write(found, [links[number] for number in self.judged])
            write(gold, self.gold)
            run("evaluate", "--alignment", gold, found, "-o", path / "scores.json", "--json")
            return (100.0 * float(loads((path / "scores.json").read_text())["aer"]),)


def lines(path: Path, n: int | None = None) -> list[str]:
    with open(path, encoding="utf-8") as text:
        return [line.rstrip("\n") for line in islice(text, n)]


def write(path: Path, text: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")


def corpora(options: Options) -> Iterator[Corpus]:
    data, part = DATA, "test" if options.test else "dev"
    if options.small:
        from _small import corpora as generated

        data = generated()
    for name, of, language, size in CORPORA:
        own = data / "align" / of
        if options.wants(name) and (own / f"{part}.gold").exists():
            gold = lines(own / f"{part}.gold")
            sides = [lines(own / f"{part}.{one}") + lines(own / f"train.{one}", size) for one in ("en", language)]
            yield Corpus(name, *sides, range(len(gold)), gold)
    own = data / "align" / "en-cs"
    if options.wants("en-cs") and own.is_dir():
        gold = lines(own / "text.gold")
        judged = range(1 if options.test else 0, len(gold), 2)
        yield Corpus("en-cs", lines(own / "text.en"), lines(own / "text.cs"), judged, [gold[n] for n in judged])


def scores(options: Options) -> Iterator[Score]:
    systems = SYSTEMS | ({} if options.small else peers())
    for corpus in corpora(options):
        for name, system in systems.items():
            yield options.score("align", corpus.name, "AER", name, 0, partial(_judged, corpus, system))


def _judged(corpus: Corpus, system: Callable[[Corpus], list[str]]) -> tuple[float]:
    return corpus.aer(system(corpus))


def by_command(*settings: str) -> Callable[[Corpus], list[str]]:
    def align(corpus: Corpus) -> list[str]:
        with corpus.files() as (path, source, target):
            run("align", "-s", source, "-t", target, "-o", path / "links", "--quiet", *settings)
            return lines(path / "links")

    return align


SYSTEMS = {
    OURS: by_command(),
    "constraint bijective": by_command("--constraint", "bijective"),
    "constraint agreement": by_command("--constraint", "agreement"),
    "stems alone": by_command("--stems-only"),
    "whole words alone": by_command("--prefix", "0"),
}


# peers


def peers() -> dict[str, Callable[[Corpus], list[str]]]:
    """Those that are here, or can be installed."""
    found: dict[str, Callable[[Corpus], list[str]]] = {}
    eflomal = find_eflomal()
    for method in ("intersection", "grow-diag-final-and") if eflomal else ():
        found[f"eflomal, {method}"] = partial(by_eflomal, str(eflomal), method)
    programs = fast_align()
    if programs is None:
        print("fast_align is not on PATH and cannot be built here: it is left out")
    else:
        found[BASELINES[2]] = partial(by_fast_align, programs)
    return found


def by_eflomal(program: str, method: str, corpus: Corpus) -> list[str]:
    pairs, *sides = eflomal_directions(program, corpus)
    return [
        " ".join(f"{i}-{j}" for i, j in sorted(symmetrized(method, pair, *own)))
        for pair, *own in zip(pairs, *sides, strict=True)
    ]


@lru_cache(maxsize=1)
def eflomal_directions(program: str, corpus: Corpus) -> tuple[list[Any], ...]:
    """Words of each pair, and the best alignments of both directions."""
    with corpus.files() as (path, source, target):
        both = path / "forward", path / "backward"
        command = [program, "-s", source, "-t", target, "-f", both[0], "-r", both[1], "--overwrite"]
        subprocess.run(command, check=True, capture_output=True)
        pairs = [(a.split(), b.split()) for a, b in zip(corpus.source, corpus.target, strict=True)]
        return pairs, read_direction(both[0], pairs, True), read_direction(both[1], pairs, False)


@cache
def fast_align() -> tuple[str, str] | None:
    """fast_align and atools, from PATH or built from their sources in a folder that is removed at the end."""
    found = shutil.which("fast_align"), shutil.which("atools")
    if found[0] and found[1]:
        return found[0], found[1]
    if not PEERS.is_dir() or not shutil.which("cmake"):
        return None
    from _small import scratch_folder

    build = scratch_folder()
    try:
        for command in (
            ["cmake", "-S", PEERS, "-B", build, "-DCMAKE_POLICY_VERSION_MINIMUM=3.5"],
            ["make", "-C", build],
        ):
            subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return str(build / "fast_align"), str(build / "atools")


def by_fast_align(programs: tuple[str, str], corpus: Corpus) -> list[str]:
    with folder() as path:
        joined, both = path / "joined", (path / "forward", path / "backward")
        write(joined, [f"{a} ||| {b}" for a, b in zip(corpus.source, corpus.target, strict=True)])
        for out, reverse in zip(both, ([], ["-r"]), strict=True):
            with open(out, "w", encoding="utf-8") as links:
                command = [programs[0], "-i", joined, "-d", "-o", "-v", *reverse]
                subprocess.run(command, check=True, stdout=links, stderr=subprocess.DEVNULL)
        command = [programs[1], "-i", both[0], "-j", both[1], "-c", "grow-diag-final-and"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
