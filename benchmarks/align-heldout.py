"""Whole words against stems by the likelihood of held-out pairs, on pairs of languages without gold links.

    make bench-align-heldout

Raw Europarl is tokenised by ``trellis tokens``; the last pairs are held out, and models are trained on disjoint parts
of the others. Bits are −log₂ of the probability of a word given the other sentence, over both directions. The
probability of a stem is divided among its words by their frequency in training; words that training lacks are left out.
The geometric mean of two distributions sums to at most 1, so the figure of words and stems together is an upper bound.
Standard errors are those of the mean over held-out pairs.
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
from _align import data_folder
from _small import arguments, scratch_folder

from trellis.apps.align.aligner import Aligner
from trellis.cli import main as trellis
from trellis.data.bitext import WordCodes, read_two_files

SYSTEMS = {
    "whole words": {"prefix": None},
    "stems": {"whole_words": False},
    "words and stems": {},
}


def tokenised(path: Path, folder: Path) -> Path:
    out = folder / path.name
    try:
        trellis(["tokens", str(path), "--plain", "-o", str(out)])
    except SystemExit as ended:
        if ended.code:
            raise
    return out


def bits_of(settings: dict, train: list, held: list) -> tuple[np.ndarray, np.ndarray]:
    """(n,) bits of each held-out pair, and its words of both sides."""
    aligner = Aligner(**settings).fit(train)
    model = aligner.model_
    counts = [Counter(word for pair in train for word in pair[side]) for side in (0, 1)]
    known = [tuple([w for w in pair[side] if w in counts[side]] for side in (0, 1)) for pair in held]
    known = [pair for pair in known if all(pair)]
    members = model.scores(model.encode(known)).infer().members
    bits, n = np.zeros(len(known)), np.zeros(len(known))
    for direction, member in enumerate(members):  # forward: target words are observed
        side = 1 - direction
        bits -= member.log_partition / np.log(2)
        n += [len(pair[side]) for pair in known]
        if model.prefix is not None:
            share = shares(counts[side], model.prefix)
            weight = 0.5 if model.stems_ is not None else 1.0
            bits -= [weight * sum(np.log2(share[word]) for word in pair[side]) for pair in known]
    return bits, n


def per_word(bits: np.ndarray, n: np.ndarray) -> tuple[float, float]:
    """Σ bits / Σ n, and its standard error."""
    mean = bits.sum() / n.sum()
    return float(mean), float(np.sqrt(np.sum((bits - mean * n) ** 2)) / n.sum())


def shares(counts: Counter, prefix: int) -> dict[str, float]:
    """Of each word, its share of its stem."""
    codes, total = WordCodes(prefix), Counter()
    for word, times in counts.items():
        total[codes[word]] += times
    return {word: times / total[codes[word]] for word, times in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held-out", type=int, default=1_000, help="pairs that are held out")
    parser.add_argument("--sizes", type=int, nargs="+", default=[4_000, 14_000], help="pairs of a training text")
    parser.add_argument("--draws", type=int, default=2, help="training texts of a size")
    options = arguments(parser, held_out=20, sizes=[30], draws=1)
    folder, work = data_folder().parent / "bitext", scratch_folder()
    first, *others = SYSTEMS
    print(f"{'bits per held-out word':<30}" + f"{first:>14}" + "".join(f"{f'{name}, more':>28}" for name in others))
    for corpus in sorted(folder.iterdir()):
        (work / corpus.name).mkdir()
        sides = [tokenised(corpus / f"text.{language}", work / corpus.name) for language in corpus.name.split("-")]
        pairs = list(read_two_files(*sides))
        rest, held = pairs[: -options.held_out], pairs[-options.held_out :]
        for size, draw in product(options.sizes, range(options.draws)):
            train = rest[draw * size : (draw + 1) * size]
            found = {name: bits_of(settings, train, held) for name, settings in SYSTEMS.items()}
            bits, n = found[first]
            row = f"{f'{corpus.name}, {len(train):,} pairs':<30}{per_word(bits, n)[0]:>14.3f}"
            for name in others:
                more, error = per_word(found[name][0] - bits, n)
                row += f"{f'{more:+.3f} ± {error:.3f}':>28}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
