"""How cost grows: time and memory with the size of the text, the number of labels and of threads, and on Dask workers.

    make bench-scale                                                    20,000 and 100,000 pairs, up to a million words
    make bench-scale ARGS="--only align dask --pairs 1000000"           a million pairs; the same on two Dask workers
    make bench-scale ARGS="--only death --pairs 100000"                 the same, and a worker is killed on the way
    make bench-scale ARGS="--only phrases --pairs 20000"                three million phrase pairs
    make bench-scale ARGS="--only sparse --words 20000000 --memory 4G"  20 million words, posterior sparsity
    make bench-scale ARGS="--only labels threads predict"
    make bench-scale ARGS="--only train --words 100000 400000"          rules over text in memory and on disk
    make bench-scale ARGS="--draw docs/figures/scale.csv"               the picture of points measured before

Every run is a program of its own, from files to files, and a line of benchmarks/results/scale.csv as soon as it has
ended; the picture beside it is drawn from all lines there.

The text of n pairs is made from the 50,000 pairs of Europarl English-Spanish and the 50,000 of English-French, one
after the other, and repeated. So that the vocabulary grows as in real text, a third of the word forms that the 100,000
pairs have once or twice, another third in every repetition, is renamed in it: a letter that no European language has
is put before the word, which by its first five letters is then another word too. Ten repetitions have 2.5 times the
words of one (Heaps' law with an exponent of 0.4). That of ``train`` are the citations of ``examples/citations``, over
and over, under the twelve rules there.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _align import data_folder, timed
from _small import arguments, scratch_folder

LANGUAGES = (("europarl-en-es", "es"), ("europarl-en-fr", "fr"))
FIRST_LETTER = 0x4E00
"""Where the letters begin of which every repetition has one."""
TIGHT = "0"
"""An amount of memory that sends every text here to disk."""
KINDS = ("align", "disk", "dask", "death", "phrases", "em", "sparse", "labels", "threads", "predict", "train")
FIELDS = ("what", "size", "labels", "threads", "rounds", "memory", "seconds", "cpu", "mb", "more")
RESULTS = Path("benchmarks") / "results"
CITATIONS = Path("examples") / "citations"
DEATH = 0.4
"""Share of the time that a run took after which a worker of the next one is killed."""
RULES = 'labels = ["WORD", "NUMBER"]\n[[rule]]\nname = "numbers"\nif_word_matches = "^[0-9]+$"\nthen_label = "NUMBER"\n'


def lines_of(folder: Path, side: int) -> Iterator[list[str]]:
    """All lines of one side (0: English, 1: the other) as words.

    They are never held together: the peak of a child is at least what its parent had when it was started.
    """
    for name, language in LANGUAGES:
        with open(folder / name / f"train.{('en', language)[side]}", encoding="utf-8") as lines:
            yield from map(str.split, lines)


def repeated(folder: Path, side: int) -> Iterator[list[str]]:
    """The lines over and over, without end, with rare words renamed."""
    counts = Counter(word for line in lines_of(folder, side) for word in line)
    third = {word: zlib.crc32(word.encode()) % 3 for word, count in counts.items() if count <= 2}
    for repetition in itertools.count():
        letter = chr(FIRST_LETTER + repetition)
        for line in lines_of(folder, side):
            yield [letter + w if repetition and third.get(w) == repetition % 3 else w for w in line]


def make_pairs(folder: Path, n: int, work: Path) -> tuple[Path, Path]:
    """Two files of n lines."""
    paths = work / f"text-{n}.0", work / f"text-{n}.1"
    for side, path in enumerate(paths):
        if not path.exists():
            with open(path, "w", encoding="utf-8") as out:
                for line in itertools.islice(repeated(folder, side), n):
                    out.write(" ".join(line) + "\n")
    return paths


def make_words(folder: Path, n: int, work: Path) -> Path:
    """A file of n words or a few more."""
    path, written = work / f"words-{n}", 0
    if not path.exists():
        with open(path, "w", encoding="utf-8") as out:
            for line in repeated(folder, 0):
                out.write(" ".join(line) + "\n")
                written += len(line)
                if written >= n:
                    break
    return path


class Runs:
    """Runs of programs, each a line on the screen and in the table of points."""

    def __init__(self, results: Path) -> None:
        results.mkdir(parents=True, exist_ok=True)
        self.points = results / "scale.csv"
        print(f"{'':<52}{'seconds':>9}{'of CPU':>9}{'MB':>7}{'µs of CPU each':>16}")

    def trellis(self, *command: object, **point: Any) -> None:
        found = timed([sys.executable, "-m", "trellis", *map(str, command)])
        self.add(seconds=found[0], cpu=found[1], mb=found[2], **point)

    def add(self, *, what: str, size: int, **point: Any) -> None:
        each = 1e6 * point["cpu"] / size
        named = ", ".join(f"{key} {point[key]}" for key in ("labels", "threads", "memory", "rounds") if point.get(key))
        label = f"{what}, {size:,}" + (f" ({named})" if named else "")
        print(
            f"{label:<52}{point['seconds']:>9.1f}{point['cpu']:>9.1f}{point['mb']:>7.0f}"
            f"{each:>16.0f}", flush=True,
        )  # fmt: skip
        if point.get("more"):
            print(f"    {point['more']}", flush=True)
        is_new = not self.points.exists()
        with open(self.points, "a", encoding="utf-8", newline="") as out:
            table = csv.DictWriter(out, FIELDS)
            if is_new:
                table.writeheader()
            row = {key: f"{value:.1f}" if isinstance(value, float) else value for key, value in point.items()}
            table.writerow({"what": what, "size": size, **row})


def align(runs: Runs, n: int, folder: Path, work: Path, threads: int, memory: str, what: str = "align") -> None:
    source, target = make_pairs(folder, n, work)
    runs.trellis(
        "align", "-s", source, "-t", target, "-q", "--threads", threads, "--memory", memory, "-o", work / what,
        what=what, size=n, threads=threads, memory=memory,
    )  # fmt: skip


def disk(runs: Runs, n: int, folder: Path, work: Path, threads: int, memory: str) -> None:
    for what, given in (("align", memory), ("disk", TIGHT)):
        align(runs, n, folder, work, threads, given, what)
    compare(work / "align", work / "disk")


def death(runs: Runs, n: int, folder: Path, work: Path, workers: int, memory: str) -> None:
    """On Dask workers, undisturbed, and then with one of them killed."""
    seconds = dask(runs, n, folder, work, workers, memory)
    (work / "dask").rename(work / "align")
    dask(runs, n, folder, work, workers, memory, kill=DEATH * seconds)


def dask(
    runs: Runs, n: int, folder: Path, work: Path, workers: int, memory: str, *, kill: float | None = None
) -> float:
    source, target = make_pairs(folder, n, work)
    program = Path(__file__).with_name("_scale_dask.py")
    command = [
        sys.executable,
        program,
        source,
        target,
        work / "dask",
        workers,
        memory,
        *(() if kill is None else (kill,)),
    ]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    each = ", ".join(f"{mb:.0f} MB" for mb in found["worker_mb"]) + f" ({sum(found['worker_cpu']):.1f} s of CPU)"
    runs.add(
        what="dask" if kill is None else "death", size=n, threads=workers, memory=memory, seconds=found["seconds"],
        cpu=found["cpu"], mb=found["mb"],
        more=f"workers: {each}; {found['sent_mb']:.0f} MB sent to them, {found['from_workers_mb']:.0f} MB by them",
    )  # fmt: skip
    if (work / "align").exists():
        compare(work / "align", work / "dask")
    return float(found["seconds"])


def phrases(runs: Runs, n: int, folder: Path, work: Path, threads: int, memory: str) -> None:
    """The phrase table of links, which are made first."""
    source, target = make_pairs(folder, n, work)
    links, table = work / "align", work / "phrases"
    trellis = [sys.executable, "-m", "trellis", "align"]
    if not links.exists():
        timed([*trellis, "-s", source, "-t", target, "-q", "--threads", threads, "--memory", memory, "-o", links])
    found = timed([*trellis, "phrases", "-s", source, "-t", target, "--links", links, "-q", "-o", table])
    with open(table, "rb") as lines:
        size = sum(1 for _ in lines)
    runs.add(
        what="phrases", size=size, seconds=found[0], cpu=found[1], mb=found[2],
        more=f"of {n:,} sentence pairs; {table.stat().st_size / 2**20:.0f} MB on disk",
    )  # fmt: skip


def compare(one: Path, other: Path) -> None:
    print(f"  {'the same bytes' if one.read_bytes() == other.read_bytes() else 'OTHER BYTES'}", flush=True)


def induce(
    runs: Runs, n: int, folder: Path, work: Path, threads: int, memory: str,
    *, method: str, rounds: int, labels: int = 17, what: str | None = None,
) -> None:  # fmt: skip
    before = ("--em-rounds", rounds // 2) if method == "sparse" else ()
    runs.trellis(
        "induce", make_words(folder, n, work), "-k", labels, "--method", method, "--emissions", "table", "-o",
        work / "tags", "--rounds", rounds, *before, "--threads", threads, "--memory", memory, "-q",
        "--force", what=what or f"induce {method}", size=n, labels=labels, threads=threads, memory=memory,
        rounds=rounds,
    )  # fmt: skip


def predict(runs: Runs, n: int, folder: Path, work: Path, threads: int) -> None:
    """An extractor that knows two rules: what it costs is what a text costs."""
    (work / "rules.toml").write_text(RULES)
    (work / "few.tsv").write_text("the\tWORD\nyear\tWORD\n1999\tNUMBER\n")
    model = work / "fields.trellis"
    if not model.exists():
        few = ["-l", str(work / "few.tsv"), "-u", str(work / "few.tsv"), "--save", str(model), "-q"]
        timed([sys.executable, "-m", "trellis", "extract", "train", str(work / "rules.toml"), *few])
    runs.trellis(
        "extract", "predict", "-m", model, make_words(folder, n, work), "-o", work / "fields.tsv", "--force",
        "--threads", threads,
        what="predict", size=n, labels=2, threads=threads,
    )  # fmt: skip


def train(runs: Runs, n: int, work: Path, threads: int, memory: str) -> None:
    """An HMM under rules by PR, in memory and on disk."""
    text = work / "citations.txt"
    lines = (CITATIONS / "text.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    size = sum(len(line.split()) for line in lines)
    with open(text, "w", encoding="utf-8") as out:
        out.writelines(line for _ in range(-(-n // size)) for line in lines)
    for what, given in (("train", memory), ("train, on disk", TIGHT)):
        runs.trellis(
            "extract", "train", CITATIONS / "rules.toml", "-l", CITATIONS / "few.tsv", "-u", text,
            "--save", work / what, "-q", "--model-kind", "hmm", "--threads", threads, "--memory", given,
            what="train", size=n, labels=13, threads=threads, memory=given,
        )  # fmt: skip
    compare(work / "train", work / "train, on disk")


PANELS = (
    ("pairs", "size", ("align", "disk", "dask")),
    ("phrase pairs", "size", ("phrases",)),
    ("words", "size", ("induce em", "induce sparse", "predict", "train")),
    ("labels", "labels", ("labels",)),
    ("threads", "threads", ("threads",)),
)
"""Of each panel what grows, its column, and what is drawn."""


def draw(paths: list[Path], to: Path) -> None:
    """Seconds of CPU and megabytes over pairs, phrase pairs and words (by powers of ten), labels and threads."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for path in paths for row in csv.DictReader(path.open(encoding="utf-8"))]
    panels = [panel for panel in PANELS if any(row["what"] in panel[2] for row in rows)]
    figure, axes = pyplot.subplots(2, len(panels), figsize=(3.0 * len(panels), 5.0), squeeze=False)
    for column, (title, over, kinds) in enumerate(panels):
        series: dict[str, list[tuple[float, float, float]]] = {}
        for row in rows:
            if row["what"] in kinds:
                name = row["what"] + (", on disk" if row["memory"] == TIGHT else "")
                series.setdefault(name, []).append((float(row[over]), float(row["cpu"]), float(row["mb"])))
        for name, points in sorted(series.items()):
            x, seconds, megabytes = zip(*sorted(points), strict=True)
            for axis, values in ((axes[0][column], seconds), (axes[1][column], megabytes)):
                axis.plot(x, values, "o-", markersize=4, label=name)
        for axis in axes[:, column]:
            if over == "size":
                axis.set(xscale="log")
            else:
                axis.set_xticks(sorted({point[0] for points in series.values() for point in points}))
            if over == "size" and axis is axes[0][column]:
                axis.set(yscale="log")
                axis.yaxis.set_major_formatter("{x:g}")
                axis.yaxis.set_minor_formatter("{x:g}" if axis.get_ylim()[1] < 100 else "")
            else:
                axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
            axis.grid(alpha=0.3)
            if len(series) > 1:
                axis.legend(fontsize=7, frameon=False)
        axes[0][column].set_title(f"{title}: seconds of CPU", fontsize=9)
        axes[1][column].set_title(f"{title}: MB at the peak", fontsize=9)
        axes[1][column].set(xlabel=title)
    figure.tight_layout()
    figure.savefig(to, dpi=110)
    print(f"drawn in {to}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=["align", "disk", "em", "sparse", "predict"])
    parser.add_argument("--pairs", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--words", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--labels", type=int, nargs="+", default=[10, 20, 40, 80])
    parser.add_argument("--rounds", type=int, default=4, help="of induce")
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--threads", type=int, default=2, help="and Dask workers")
    parser.add_argument("--draw", type=Path, nargs="+", metavar="CSV", help="draw these points, and run nothing")
    given = arguments(parser, only=["align", "phrases", "em"], pairs=[40], words=[300], rounds=2)
    if given.draw:
        draw(given.draw, given.draw[0].with_suffix(".png"))
        return
    folder, threads, memory = data_folder(), given.threads, given.memory
    runs = Runs(scratch_folder() if given.small else RESULTS)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        if not given.small:
            compile_kernels(work)
        usual = folder, work, threads, memory
        for n in given.pairs:
            if "align" in given.only and "disk" not in given.only:
                align(runs, n, *usual)
            if "disk" in given.only:
                disk(runs, n, *usual)
            if "dask" in given.only:
                dask(runs, n, *usual)
            if "death" in given.only:
                death(runs, n, *usual)
            if "phrases" in given.only:
                phrases(runs, n, *usual)
            if "threads" in given.only:
                for some in (1, 2, 4, 8, 16)[: threads.bit_length()]:
                    align(runs, n, folder, work, some, memory, "threads")
            for path in (*work.glob("text-*"), *work.glob("align"), *work.glob("dask"), *work.glob("phrases")):
                path.unlink()
        for n in given.words:
            for method in ("em", "sparse"):
                if method in given.only:
                    induce(runs, n, *usual, method=method, rounds=given.rounds)
            if "labels" in given.only:
                for k in given.labels:
                    induce(runs, n, *usual, method="em", rounds=given.rounds, labels=k, what="labels")
            if "predict" in given.only:
                predict(runs, n, folder, work, threads)
            if "train" in given.only:
                train(runs, n, work, threads, memory)
            for path in work.glob("words-*"):
                path.unlink()
    draw([runs.points], runs.points.with_suffix(".png"))


def compile_kernels(work: Path) -> None:
    """Kernels are compiled once and kept; this is not part of any time."""
    few, x = work / "few", work / "x"
    few.write_text("a b\n" * 50)
    for command in (
        ["align", "-s", few, "-t", few],
        *(["induce", few, "-k", "2", "--rounds", "2", "--method", method, "--force"] for method in ("em", "sparse")),
    ):
        timed([sys.executable, "-m", "trellis", *map(str, command), "-o", str(x), "-q"])


if __name__ == "__main__":
    main()
