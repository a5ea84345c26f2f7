"""γ against the quality of the start: tagging with a dictionary (Samdani et al. 2012, Figure 1; Chang 2011, sec. 4.4).

    make bench-gamma
    make bench-gamma ARGS="--samples 1 --rounds 20 --plots docs/figures"
    make bench-gamma ARGS="--emissions features --starts 0 5 20 80 --samples 1"

The text is the first sentences of the Penn Treebank sample, 24,115 tokens; a word may have the tags that it has
anywhere in the sample. An HMM starts from the uniform posterior, or from 5 to 80 labelled sentences taken from the rest
of the sample (means over several such sets), and is trained on the text by unified EM with γ from 0 (hard EM) to 1
(EM). Accuracy is that of Viterbi tags on ambiguous tokens; rel(γ) = accuracy(γ) / accuracy(1) − 1 (their eq. 16).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from _small import arguments

from trellis.data.columns import read_columns
from trellis.learn import UEM
from trellis.models import HMM

TOKENS = 24_115
STARTS = [0, 5, 10, 20, 40, 80]
GAMMAS = [round(0.1 * i, 1) for i in range(11)]
SMOOTHING = 0.01
"""Added to the counts of labelled sentences wherever the dictionary allows."""


class Task:
    """The text, its dictionary, and the sentences that starts are made of."""

    def __init__(self, folder: Path, n_tokens: int, emissions: str) -> None:
        self.emissions = emissions
        sentences = list(read_columns(folder / "pos" / "ptb-sample.tsv"))
        n, total = 0, 0
        while total < n_tokens:
            total += len(sentences[n])
            n += 1
        self.words, self.tags = [list(s.tokens) for s in sentences], [list(s.labels) for s in sentences]
        self.n_text, self.n_tokens = n, total
        seen: dict[str, dict[str, None]] = {}
        for words, tags in zip(self.words, self.tags, strict=True):
            for word, tag in zip(words, tags, strict=True):
                seen.setdefault(word, {})[tag] = None
        self.dictionary = {word: sorted(tags) for word, tags in seen.items()}
        self.names = sorted({tag for tags in self.tags for tag in tags})
        flat = [w for words in self.words[:n] for w in words]
        self.gold = np.array([t for tags in self.tags[:n] for t in tags])
        self.ambiguous = np.array([len(self.dictionary[w]) > 1 for w in flat])

    def model(self) -> HMM:
        hmm = HMM(self.names, min_count=1, unknown=None, tag_dictionary=self.dictionary, emissions=self.emissions)
        hmm.encode(self.words, fit=True)
        return hmm

    def accuracy(self, hmm: HMM) -> tuple[float, float]:
        """On ambiguous and on all tokens."""
        found = np.array([t for tags in hmm.predict(self.words[: self.n_text]) for t in tags])
        right = found == self.gold
        return 100 * float(right[self.ambiguous].mean()), 100 * float(right.mean())


def train(
    task: Task, labelled: int, sample: int, gamma: float, rounds: int, threads: int
) -> tuple[float, float, float]:
    """Accuracy on ambiguous tokens at the start, and on ambiguous and all tokens after training."""
    hmm = task.model()
    text = task.words[: task.n_text]
    if labelled:
        order = np.random.default_rng([labelled, sample]).permutation(np.arange(task.n_text, len(task.words)))
        chosen = order[:labelled].tolist()
        batch = hmm.encode([task.words[i] for i in chosen], [task.tags[i] for i in chosen])
        hmm.update(hmm.count(batch) + hmm.pseudo_counts(lambda shape: np.full(shape, SMOOTHING)))
    else:
        batch = hmm.encode(text)
        hmm.update(hmm.collect(batch, hmm.uniform(batch).infer(weights=batch.weights)))
    before = task.accuracy(hmm)[0]
    learner = UEM(
        hmm, gamma=gamma, start="model", max_iter=rounds, tol=0.0, n_jobs=threads, track_likelihood=False
    ).fit(text)  # fmt: skip
    return before, *task.accuracy(learner.model_)


def plot(relative: dict[int, np.ndarray], path: Path) -> None:
    from trellis.report.figure import new_figure, plain_axes, save_figure

    figure, axes = new_figure(5.6, 3.8)
    for (labelled, values), colour in zip(
        relative.items(), ["#22303c", "#8d6a9f", "#bc8a2e", "#6a994e", "#c8553d", "#2f6f8f"], strict=False
    ):
        name = "uniform posterior" if labelled == 0 else f"{labelled} labelled sentences"
        axes.plot(GAMMAS, values, marker="o", markersize=3, color=colour, label=name)
    axes.axhline(0.0, color="#c9ced2", linewidth=0.8)
    plain_axes(axes, "", "γ", "accuracy relative to EM")
    axes.legend(fontsize=7, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=3, help="sets of labelled sentences for each size")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="tokens of the text, to the end of a sentence")
    parser.add_argument(
        "--starts", type=int, nargs="+", default=STARTS, help="labelled sentences; 0: uniform posterior"
    )
    parser.add_argument("--emissions", choices=("table", "features"), default="table", help="of words")
    parser.add_argument("--plots", help="folder for the figure")
    args = arguments(parser, samples=1, rounds=4, tokens=300, starts=[0, 5])
    named = os.environ.get("TRELLIS_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (folder / "pos" / "ptb-sample.tsv").exists():
        sys.exit(f"{folder} has no pos/ptb-sample.tsv: set TRELLIS_DATA to the folder with the corpora")
    task = Task(folder, args.tokens, args.emissions)
    share = 100 * task.ambiguous.mean()
    print(f"{task.n_tokens:,} tokens, {share:.0f}% ambiguous, {len(task.names)} tags; {args.rounds} rounds")
    print("Accuracy on ambiguous tokens; in the paper EM from the uniform posterior has 72.3 (84.9 on all tokens)")
    print(f"{'labelled':>9}{'start':>7}" + "".join(f"{g:>7.1f}" for g in GAMMAS) + f"{'best γ':>9}{'seconds':>9}")
    relative, best = {}, {}
    for labelled in args.starts:
        begin = time.perf_counter()
        samples = args.samples if labelled else 1
        runs = np.array(
            [
                [train(task, labelled, sample, gamma, args.rounds, args.threads) for gamma in GAMMAS]
                for sample in range(samples)
            ]
        )
        mean = runs.mean(axis=0)
        relative[labelled] = mean[:, 1] / mean[-1, 1] - 1.0
        best[labelled] = GAMMAS[int(np.argmax(mean[:, 1]))]
        print(
            f"{labelled:>9}{mean[0, 0]:>7.1f}" + "".join(f"{v:>7.1f}" for v in mean[:, 1])
            + f"{best[labelled]:>9.1f}{time.perf_counter() - begin:>9.0f}",
            flush=True,
        )  # fmt: skip
        if labelled == 0:
            print(f"{'':16} all tokens, γ = 1: {mean[-1, 2]:.1f}")
    falls = [best[a] >= best[b] for a, b in pairwise(args.starts)]
    print(f"The better the start, the smaller the best γ: holds in {sum(falls)} of {len(falls)} steps")
    if args.plots:
        plot(relative, Path(args.plots) / "gamma.png")


if __name__ == "__main__":
    main()
