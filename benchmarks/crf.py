"""A CRF on CoNLL-2000 chunking: time of an L-BFGS round, objective and accuracy against python-crfsuite.

    make bench-crf                        all training sentences, until both converge
    make bench-crf ARGS="--sentences 500"

Both get the same features, one thread and the same penalty  c2 ‖w‖²  (our l2 is 2 c2). They have a weight for each
pair (feature, label) of the training data and for every pair of labels; none for first and last labels.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _small import arguments

from trellis.data.columns import read_columns
from trellis.engine import Piece, SerialEngine, shards_of
from trellis.models import CRF
from trellis.models.lbfgs import GaussianPrior, minimise

C2 = 1.0


def data_folder() -> Path:
    named = os.environ.get("TRELLIS_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (folder / "chunk" / "conll2000").is_dir():
        raise SystemExit(f"no CoNLL-2000 in {folder}: set TRELLIS_DATA to the folder that holds chunk/conll2000")
    return folder / "chunk" / "conll2000"


def read(path: Path, limit: int | None = None) -> tuple[list[list[tuple[str, str]]], list[list[str]]]:
    sentences, labels = [], []
    for sentence in read_columns(path, label=2, columns={"pos": 1}, separator=None, unknown=None):
        sentences.append(list(zip(sentence.tokens, sentence.columns["pos"], strict=True)))
        labels.append([str(label) for label in sentence.labels or ()])
        if limit is not None and len(sentences) == limit:
            break
    return sentences, labels


def features(sentence: Any, t: int) -> list[str]:
    """Words and tags in a window of two, and their neighbours joined: the templates of CRFsuite's own example."""

    def word(i: int) -> str:
        return sentence[t + i][0] if 0 <= t + i < len(sentence) else "__none__"

    def tag(i: int) -> str:
        return sentence[t + i][1] if 0 <= t + i < len(sentence) else "__none__"

    window = range(-2, 3)
    found = ["bias"]
    found += [f"w{i}={word(i)}" for i in window] + [f"t{i}={tag(i)}" for i in window]
    found += [f"w{i}w{i + 1}={word(i)}|{word(i + 1)}" for i in (-1, 0)]
    found += [f"t{i}t{i + 1}={tag(i)}|{tag(i + 1)}" for i in range(-2, 2)]
    found += [f"t{i}t{i + 1}t{i + 2}={tag(i)}|{tag(i + 1)}|{tag(i + 2)}" for i in range(-2, 1)]
    return found


def train_crfsuite(path: str, X: list[list[list[str]]], y: list[list[str]], rounds: int | None) -> list[dict[str, Any]]:
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(sentence), labels)
    trainer.set_params({"c1": 0.0, "c2": C2, "feature.possible_transitions": True})
    if rounds is not None:
        trainer.set_params({"max_iterations": rounds})
    trainer.train(path)
    return list(trainer.logparser.iterations)


def train_trellis(X: list[list[list[str]]], y: list[list[str]], rounds: int) -> tuple[Any, Any, list[float]]:
    crf = CRF(l2=2 * C2, ends=False, max_iter=rounds)
    batch = crf.encode(X, y, fit=True)
    shards = [shard.of(batch) for shard in shards_of(batch)]
    counts = sum_of([crf.given_counts(shard) for shard in shards])
    objective = crf._objective(counts, [SerialEngine().place([Piece(shard) for shard in shards])])
    times = [time.perf_counter()]
    found = minimise(
        objective, crf.weights_, prior=GaussianPrior(crf.l2), max_iter=rounds, tol=crf.tol,
        callback=lambda _: times.append(time.perf_counter()),
    )  # fmt: skip
    crf.set_parameters({"weights": found.weights})
    return crf, found, np.diff(times).tolist()


def sum_of(statistics: list[Any]) -> Any:
    total = statistics[0]
    for more in statistics[1:]:
        total = total + more
    return total


def accuracy(predicted: list[list[str]], gold: list[list[str]]) -> float:
    right = [a == b for one, other in zip(predicted, gold, strict=True) for a, b in zip(one, other, strict=True)]
    return 100.0 * float(np.mean(right))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, help="train on the first so many")
    parser.add_argument("--rounds", type=int, help="L-BFGS rounds at most")
    given = arguments(parser, sentences=30, rounds=8)
    import pycrfsuite

    folder = data_folder()
    train, labels = read(folder / "train.txt", given.sentences)
    test, gold = read(folder / "test.txt")
    X, Z = ([[features(s, t) for t in range(len(s))] for s in part] for part in (train, test))
    print(f"CoNLL-2000, {len(X):,} training sentences, {sum(map(len, X)):,} tokens")

    crf, found, seconds = train_trellis(X, labels, given.rounds or 1_000)
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "crfsuite")
        log = train_crfsuite(path, X, labels, given.rounds)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        theirs = accuracy([tagger.tag(pycrfsuite.ItemSequence(sentence)) for sentence in Z], gold)
    ours = accuracy(crf.predict(Z), gold)
    their_seconds = [float(step["time"]) for step in log]
    their_objective = float(log[-1]["loss"])
    print(f"{crf.layout_.n_weights:,} weights of ours, {log[-1]['active_features']:,} active features of CRFsuite's")
    print(f"{'':24s}{'Trellis':>14s}{'CRFsuite':>14s}")
    print(f"{'median s a round':24s}{np.median(seconds):14.4f}{np.median(their_seconds):14.4f}")
    print(f"{'rounds':24s}{found.rounds:14d}{len(log):14d}")
    print(f"{'s in all':24s}{sum(seconds):14.2f}{sum(their_seconds):14.2f}")
    print(f"{'penalised objective':24s}{found.objective:14.3f}{their_objective:14.3f}")
    print(f"{'test accuracy, %':24s}{ours:14.3f}{theirs:14.3f}")
    faster = np.median(their_seconds) / np.median(seconds)
    over = found.objective / their_objective - 1.0
    print(f"a round is {faster:.2f} times as fast (wanted: 1 or more); objective {over:+.1e} (wanted: below +1e-4)")
    if given.rounds is None:
        sys.exit(0 if faster >= 1.0 and over <= 1e-4 and abs(ours - theirs) <= 0.1 else 1)


if __name__ == "__main__":
    main()
