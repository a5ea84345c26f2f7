"""How cost grows: time and memory of `trellis align` and `trellis induce` with the size of the text.

    make bench-scale                                                    100,000 and 200,000 pairs, 1 and 2 million words
    make bench-scale ARGS="--pairs 100000 1000000 --words 20000000"     an hour or so on two cores
    make bench-scale ARGS="--dask"                                      two Dask workers too

The text of n pairs is made from the 50,000 pairs of Europarl English-Spanish and the 50,000 of English-French, one
after the other, and repeated. So that the vocabulary grows as in real text, a third of the word forms that the 100,000
pairs have once or twice, another third in every repetition, is renamed in it: a letter that no European language has
is put before the word, which by its first five letters is then another word too. Ten repetitions have 2.5 times the
words of one (Heaps' law with an exponent of 0.4). Runs are programs of their own, from files to files.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from _align import data_folder, timed

LANGUAGES = (("europarl-en-es", "es"), ("europarl-en-fr", "fr"))
FIRST_LETTER = 0x4E00
"""Where the letters begin of which every repetition has one."""
TIGHT = "0"
"""An amount of memory that sends every text here to disk."""


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


def make_pairs(folder: Path, n: int, work: Path) -> tuple[Path, Path, list[int]]:
    """Two files of n lines, and the number of word forms in each."""
    paths, forms = [], []
    for side in range(2):
        path, seen = work / f"text-{n}.{side}", set()
        with open(path, "w", encoding="utf-8") as out:
            for line in itertools.islice(repeated(folder, side), n):
                out.write(" ".join(line) + "\n")
                seen.update(line)
        paths.append(path)
        forms.append(len(seen))
    return paths[0], paths[1], forms


def run(command: list[str], name: str, n: int, per: str) -> tuple[float, float, float]:
    found = timed([sys.executable, "-m", "trellis", *command])
    each = 1e6 * found[0] / n
    print(f"  {name:<44}{found[0]:>9.1f}{found[1]:>9.1f}{found[2]:>9.0f}{each:>9.0f}   {per}", flush=True)
    return found


def align(sizes: list[int], folder: Path, work: Path, memory: str, threads: int, dask: bool) -> list[tuple[int, ...]]:
    print(f"\ntrellis align --memory {memory}, {threads} threads")
    print(f"  {'pairs':<44}{'seconds':>9}{'of CPU':>9}{'MB':>9}{'µs':>9}")
    rows = []
    for number, n in enumerate(sizes):
        source, target, forms = make_pairs(folder, n, work)
        options = ["align", "-s", str(source), "-t", str(target), "-q", "--threads", str(threads)]
        out = work / "links"
        name = f"{n:,} ({forms[0]:,} and {forms[1]:,} word forms)"
        found = run([*options, "-o", str(out), "--memory", memory], name, n, "per pair")
        rows.append((n, *found))
        if number == 0:
            spilled = work / "spilled"
            on_disk = run(
                [*options, "-o", str(spilled), "--memory", TIGHT], "  the same, the text on disk", n, "per pair"
            )
            same = "the same bytes" if spilled.read_bytes() == out.read_bytes() else "OTHER BYTES"
            print(f"  from disk {on_disk[0] / found[0]:.2f} times the time of memory, {same}")
        if dask:
            there = work / "dask"
            run([*options, "-o", str(there), "--engine", "dask"], "  the same, two Dask workers", n, "per pair")
            print(f"  {'the same bytes' if there.read_bytes() == out.read_bytes() else 'OTHER BYTES'}")
        source.unlink()
        target.unlink()
    print(f"  time per pair, last over first: {rows[-1][1] / rows[-1][0] / (rows[0][1] / rows[0][0]):.2f}")
    return rows


def induce(sizes: list[int], folder: Path, work: Path, method: str, rounds: int, threads: int) -> list[tuple[int, ...]]:
    print(f"\ntrellis induce -k 17 --method {method} --emissions table, {rounds} rounds, {threads} threads")
    print(f"  {'words':<44}{'seconds':>9}{'of CPU':>9}{'MB':>9}{'µs':>9}")
    rows = []
    for n in sizes:
        path, written = work / f"words-{n}", 0
        with open(path, "w", encoding="utf-8") as out:
            for line in repeated(folder, 0):
                out.write(" ".join(line) + "\n")
                written += len(line)
                if written >= n:
                    break
        options = [
            "induce",
            str(path),
            "-k",
            "17",
            "--method",
            method,
            "--emissions",
            "table",
            "-o",
            str(work / "tags"),
        ]
        options += [
            "--rounds",
            str(rounds),
            "--em-rounds",
            str(rounds // 2),
            "--threads",
            str(threads),
            "-q",
            "--force",
        ]
        rows.append((n, *run(options, f"{n:,}", n, "per word")))
        path.unlink()
    return rows


def draw(aligned: list[tuple[int, ...]], induced: list[tuple[int, ...]], path: Path) -> None:
    """Seconds and megabytes over size, both axes by powers of ten."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.5))
    for rows, name in ((aligned, "align, pairs"), (induced, "induce, words")):
        for axis, column in zip(axes, (1, 3), strict=True):
            axis.plot([row[0] for row in rows], [row[column] for row in rows], "o-", label=name)
    for axis, title in zip(axes, ("seconds", "MB at the peak"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel="pairs, or words", title=title)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"\ndrawn in {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="*", default=[100_000, 200_000])
    parser.add_argument("--words", type=int, nargs="*", default=[1_000_000, 2_000_000])
    parser.add_argument("--method", default="em", help="of induce")
    parser.add_argument("--rounds", type=int, default=10, help="of induce")
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dask", action="store_true")
    arguments = parser.parse_args()
    folder, results = data_folder(), Path("benchmarks") / "results"
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        (work / "few").write_text("a b\n" * 50)
        few = ["-o", str(work / "x"), "-q"]
        # Kernels are compiled once and kept; this is not part of any time below.
        timed([sys.executable, "-m", "trellis", "align", "-s", str(work / "few"), "-t", str(work / "few"), *few])
        timed(
            [sys.executable, "-m", "trellis", "induce", str(work / "few"), "-k", "2", "--rounds", "2", "--force", *few]
        )
        aligned = align(arguments.pairs, folder, work, arguments.memory, arguments.threads, arguments.dask)
        induced = induce(arguments.words, folder, work, arguments.method, arguments.rounds, arguments.threads)
        if aligned and induced:
            draw(aligned, induced, results / "scale.png")


if __name__ == "__main__":
    main()
