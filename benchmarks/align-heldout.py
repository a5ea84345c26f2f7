"""Whole words against stems by the perplexity of held-out pairs, on pairs of languages without gold links.

    make bench-align-heldout

Raw Europarl is tokenised by ``trellis tokens``; the last pairs are held out. Perplexity is per word given the other
sentence, over both directions. The probability of a stem is divided among its words by their frequency in training;
words that training lacks are left out. The geometric mean of two distributions sums to at most 1, so the figure of
words and stems together is an upper bound.
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import islice
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


def perplexity(settings: dict, train: list, held: list) -> float:
    aligner = Aligner(**settings).fit(train)
    model = aligner.model_
    counts = [Counter(word for pair in train for word in pair[side]) for side in (0, 1)]
    known = [tuple([w for w in pair[side] if w in counts[side]] for side in (0, 1)) for pair in held]
    known = [pair for pair in known if all(pair)]
    members = model.scores(model.encode(known)).infer().members
    bits, n = 0.0, 0
    for direction, member in enumerate(members):  # forward: target words are observed
        side = 1 - direction
        words = Counter(word for pair in known for word in pair[side])
        bits -= float(member.log_partition.sum()) / np.log(2)
        n += sum(words.values())
        if model.prefix is not None:
            share = shares(counts[side], model.prefix)
            weight = 0.5 if model.stems_ is not None else 1.0
            bits -= weight * sum(times * np.log2(share[word]) for word, times in words.items())
    return float(2 ** (bits / n))


def shares(counts: Counter, prefix: int) -> dict[str, float]:
    """Of each word, its share of its stem."""
    codes, total = WordCodes(prefix), Counter()
    for word, times in counts.items():
        total[codes[word]] += times
    return {word: times / total[codes[word]] for word, times in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held-out", type=int, default=1_000, help="pairs that are held out")
    options = arguments(parser, held_out=20)
    folder, work = data_folder().parent / "bitext", scratch_folder()
    print(f"{'perplexity of held-out pairs':<30}" + "".join(f"{name:>18}" for name in SYSTEMS))
    for corpus in sorted(folder.iterdir()):
        (work / corpus.name).mkdir()
        sides = [tokenised(corpus / f"text.{language}", work / corpus.name) for language in corpus.name.split("-")]
        pairs = list(read_two_files(*sides))
        train, held = pairs[: -options.held_out], pairs[-options.held_out :]
        values = [perplexity(settings, train, list(islice(held, options.held_out))) for settings in SYSTEMS.values()]
        name = f"{corpus.name}, {len(train):,} pairs"
        print(f"{name:<30}" + "".join(f"{value:>18.1f}" for value in values), flush=True)


if __name__ == "__main__":
    main()
