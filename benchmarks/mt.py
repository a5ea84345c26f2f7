"""Translation with phrases from our links: BLEU by constraint, and of eflomal's links (Graça et al. 2010, Table 2).

    make bench-mt                                 both corpora, into English: about half an hour on two cores
    make bench-mt ARGS="--pairs 5000 --test 100"  a quick look

Sentence pairs that no system learns from are translated: half of them choose the weight of words per sentence, which
BLEU depends on, and the other half are scored. All systems share the language model, the decoder and the other weights.
Intervals of BLEU, and of its differences between systems, are those of 1,000 samples of the scored sentences with
replacement, the same for all systems (paired bootstrap, Koehn 2004).
Without ``sacrebleu`` (pip install sacrebleu) nothing is scored.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from itertools import combinations, islice
from pathlib import Path

import numpy as np
from _align import data_folder, find_eflomal
from _decoder import WEIGHTS, Trigrams, read_table, spans_of, translate
from _small import arguments, scratch_folder

from trellis.cli import main as trellis

CORPORA = {"hansards": "fr", "europarl-en-es": "es"}
SYSTEMS = {
    "EM": ["--constraint", "none"],
    "PR, bijective": ["--constraint", "bijective"],
    "PR, agreement": ["--constraint", "agreement"],
    "trellis align": [],
}
PAPER = {"hansards": {"EM": 35.9, "PR, bijective": 36.0, "PR, agreement": 35.5},
         "europarl-en-es": {"EM": 32.3, "PR, bijective": 32.6, "PR, agreement": 31.9}}  # fmt: skip
"""Into English, with a million pairs, minimum-error-rate training and Moses; Hansards are Europarl French there."""
LENGTHS = (0.5, 1.0, 1.5)
SHORT = 20
SAMPLES = 1000


def run(*command: object) -> None:
    try:
        trellis([str(word) for word in command])
    except SystemExit as ended:
        if ended.code:
            raise


def texts(folder: Path, name: str, n_train: int, n_test: int, work: Path):
    """Training files, and pairs held out: the shorter ones of what follows them."""
    sides = []
    for language in (CORPORA[name], "en"):
        with open(folder / name / f"train.{language}", encoding="utf-8") as lines:
            sides.append([line.split() for line in lines])
    pairs = list(zip(*sides, strict=True))
    held = [pair for pair in reversed(pairs[n_train:]) if all(3 <= len(side) <= SHORT for side in pair)]
    held = list(islice(held, n_test))
    known = {tuple(pair[0]) for pair in held}
    train = [pair for pair in pairs[:n_train] if tuple(pair[0]) not in known]
    for side, language in enumerate(("source", "target")):
        text = "".join(" ".join(pair[side]) + "\n" for pair in train)
        (work / language).write_text(text, encoding="utf-8")
    english = [pair[1] for pair in pairs if tuple(pair[0]) not in known]
    return train, held, Trigrams(english)


def links(system: str, work: Path) -> Path:
    out = work / "links"
    files = ["-s", work / "source", "-t", work / "target"]
    if system == "eflomal":
        program = find_eflomal()
        forward, back = work / "forward", work / "back"
        subprocess.run([program, *map(str, files), "-f", str(forward), "-r", str(back), "--overwrite"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        _intersect(forward, back, out)
    else:
        run("align", *files, "-o", out, "-q", *SYSTEMS[system])
    return out


def _intersect(forward: Path, back: Path, out: Path) -> None:
    with open(forward) as ahead, open(back) as other, open(out, "w") as lines:
        for one, two in zip(ahead, other, strict=True):
            both = set(two.split())
            lines.write(" ".join(link for link in one.split() if link in both) + "\n")


def counts_of(found, gold) -> np.ndarray:
    """(n, 10) of each sentence: matching n-grams of 1 to 4 words, all n-grams, words, words of the reference."""
    from sacrebleu.metrics import BLEU

    judge = BLEU(tokenize="none", effective_order=True)
    rows = (judge.sentence_score(" ".join(words), [right]) for words, right in zip(found, gold, strict=True))
    return np.array([[*row.counts, *row.totals, row.sys_len, row.ref_len] for row in rows])


def bleu(counts: np.ndarray) -> float:
    """BLEU of a corpus, from the sums of its sentences."""
    from sacrebleu.metrics import BLEU

    sums = counts.sum(axis=0).tolist()
    return BLEU.compute_bleu(sums[:4], sums[4:8], *sums[8:], smooth_method="exp").score


def bootstrap(counts: np.ndarray) -> np.ndarray:
    """(SAMPLES,) BLEU of samples with replacement; those of two systems with as many sentences are paired."""
    samples = np.random.default_rng(0).integers(len(counts), size=(SAMPLES, len(counts)))
    return np.array([bleu(counts[sample]) for sample in samples])


def interval(values: np.ndarray) -> str:
    low, high = np.percentile(values, (2.5, 97.5))
    return f"{low:>8.2f} to {high:.2f}"


def judge(table_path: Path, held, lm: Trigrams) -> tuple[np.ndarray, float, int]:
    """Counts of the second half of the pairs, the weight of words that the first half chose, and the table's lines."""
    table = read_table(table_path, spans_of(source for source, _ in held))
    half = len(held) // 2

    def score(pairs, weight: float) -> np.ndarray:
        weights = {**WEIGHTS, "words": weight}
        found = [translate(source, table, lm, weights) for source, _ in pairs]
        return counts_of(found, [" ".join(target) for _, target in pairs])

    best = max(LENGTHS, key=lambda weight: bleu(score(held[:half], weight)))
    with open(table_path, encoding="utf-8") as lines:
        n = sum(1 for _ in lines)
    return score(held[half:], best), best, n


def compare(scored: dict[str, tuple[float, np.ndarray]]) -> None:
    """The difference of every two systems, its interval, and the share of samples in which the first is ahead.

    scored : BLEU of each system, and of samples
    """
    print(f"  {'difference':<36}{'BLEU':>7}{'95 % interval':>18}{'ahead, %':>10}")
    for (one, (score, own)), (other, (its_score, its)) in combinations(scored.items(), 2):
        gain = own - its
        print(
            f"  {f'{one} − {other}':<36}{score - its_score:>7.2f}{interval(gain):>18}{100 * np.mean(gain > 0):>10.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10_000, help="training pairs (default 10,000)")
    parser.add_argument("--test", type=int, default=400, help="held-out pairs (default 400)")
    parser.add_argument("--corpora", nargs="*", default=list(CORPORA))
    given = arguments(parser, pairs=60, test=16, corpora=["hansards"])
    try:
        import sacrebleu  # noqa: F401
    except ImportError:
        raise SystemExit("translations are scored by sacrebleu: pip install sacrebleu") from None
    systems = ["EM", "trellis align"] if given.small else [*SYSTEMS, *(["eflomal"] if find_eflomal() else [])]
    for name in given.corpora:
        work = scratch_folder()
        _, held, lm = texts(data_folder(), name, given.pairs, given.test, work)
        print(f"\n{name}, {CORPORA[name]} to en, {given.pairs:,} pairs: BLEU on {len(held) - len(held) // 2} sentences")
        print(f"  {'':<20}{'BLEU':>8}{'95 % interval':>18}{'words':>8}{'phrases':>12}{'seconds':>9}"
              f"{'paper':>8}")  # fmt: skip
        scored = {}
        for system in systems:
            began = time.monotonic()
            run("align", "phrases", "-s", work / "source", "-t", work / "target", "--links", links(system, work),
                "-o", work / "phrases", "--max-phrase-length", 5, "-q")  # fmt: skip
            counts, weight, n = judge(work / "phrases", held, lm)
            score, samples = scored[system] = bleu(counts), bootstrap(counts)
            paper, seconds = PAPER[name].get(system), time.monotonic() - began
            print(f"  {system:<20}{score:>8.2f}{interval(samples):>18}{weight:>8.1f}{n:>12,}{seconds:>9.0f}"
                  f"{'' if paper is None else f'{paper:>8.1f}'}", flush=True)  # fmt: skip
        compare(scored)


if __name__ == "__main__":
    main()
