"""What the alignment benchmarks share: texts with gold, running peers, reading their links."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from trellis.apps.align.aligner import Aligner
from trellis.apps.align.kernels import symmetrize
from trellis.data.bitext import read_two_files
from trellis.metrics.alignment import precision_recall_curve, read_links, score_links

NEAR_DEFAULT = [0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55]


@dataclass
class Text:
    """Training files with gold sentences first, and their gold."""

    name: str
    size: int
    source: Path
    target: Path
    test: list
    dev: list

    def gold_pairs(self):
        return list(islice(read_two_files(self.source, self.target), len(self.test) + len(self.dev)))


def data_folder() -> Path:
    named = os.environ.get("TRELLIS_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (folder / "align").is_dir():
        raise SystemExit(f"no alignment data in {folder}: set TRELLIS_DATA to the folder that holds align/")
    return folder / "align"


def make_text(name: str, size: int, folder: Path, work: Path) -> Text:
    languages = ("en", "fr") if name == "hansards" else ("en", "es")
    parts = [part for part in ("test", "dev") if (folder / name / f"{part}.gold").exists()]
    paths = []
    for language in languages:
        path = work / f"{name}-{size}.{language}"
        with open(path, "w", encoding="utf-8") as out:
            for part in parts:
                out.write((folder / name / f"{part}.{language}").read_text(encoding="utf-8"))
            with open(folder / name / f"train.{language}", encoding="utf-8") as lines:
                out.writelines(islice(lines, size))
        paths.append(path)
    gold = {part: read_links(folder / name / f"{part}.gold") for part in parts}
    return Text(name, size, *paths, gold["test"], gold.get("dev", []))


def aer(links, gold) -> float:
    return 100 * score_links([set(row) for row in links], gold).aer


LAUNCHER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(code != 0)
"""
"""A program that is started counts what its parent had at that moment as its own: this parent has next to nothing."""


def timed(command: list[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak megabytes of a program."""
    began = time.monotonic()
    line = [sys.executable, "-S", "-c", LAUNCHER, *map(str, command)]
    ended = subprocess.run(line, stdout=subprocess.PIPE, text=True)
    if ended.returncode:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    cpu, megabytes = map(float, ended.stdout.split())
    return time.monotonic() - began, cpu, megabytes


def find_eflomal(*, install: bool = True) -> str | None:
    """eflomal-align on PATH, or from an environment of its own made here."""
    found = shutil.which("eflomal-align")
    if found:
        return found
    if not install:
        print("  eflomal is not on PATH")
        return None
    home = Path("build") / "eflomal"
    program = home / "bin" / "eflomal-align"
    if not program.exists():
        print("installing eflomal into build/eflomal", flush=True)
        try:
            venv.create(home, with_pip=True)
            subprocess.run([home / "bin" / "pip", "install", "-q", "eflomal"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"eflomal could not be installed ({error}) and is left out")
            return None
    os.environ["PATH"] = f"{program.parent.resolve()}{os.pathsep}{os.environ['PATH']}"
    return str(program)


def read_direction(path: Path, pairs, forward: bool) -> list[np.ndarray]:
    """Best alignments of a Pharaoh file of one direction, as the place of each observed word."""
    rows = []
    for line, (source, target) in zip(path.read_text().splitlines(), pairs, strict=False):
        row = np.full(len(target) if forward else len(source), -1, np.int32)
        for link in line.split():
            i, j = map(int, link.split("-"))
            row[j if forward else i] = i if forward else j
        rows.append(row)
    return rows


METHODS = {
    "intersection": symmetrize.INTERSECTION,
    "grow-diag-final-and": symmetrize.GROW_DIAG_FINAL_AND,
}


def symmetrized(method: str, pair, ahead: np.ndarray, back: np.ndarray) -> set[tuple[int, int]]:
    """Links of a pair from the best alignments of both directions."""
    grid = np.zeros((len(pair[0]), len(pair[1])), np.uint8)
    symmetrize.symmetrize(METHODS[method], ahead, back, grid)
    return {(int(i), int(j)) for i, j in np.argwhere(grid)}


def error_curve(aligner: Aligner, pairs, gold) -> list[float]:
    """AER (%) of the posterior decoding at each of the thresholds near the default."""
    rows = []
    for forward, backward in aligner.posteriors(pairs):
        mean = 0.5 * (forward.astype(np.float64) + backward)
        rows.append({(int(i), int(j)): float(mean[i, j]) for i, j in np.argwhere(mean >= NEAR_DEFAULT[0])})
    return [100 * point.scores.aer for point in precision_recall_curve(rows, gold, NEAR_DEFAULT)]


def mean_aer(aligner: Aligner, pairs, gold) -> float:
    """The mean over these thresholds: no threshold is part of the choice."""
    return float(np.mean(error_curve(aligner, pairs, gold)))
