"""Agreement of two directions: of a product, as this library has it, and of a mixture (Ganchev et al. 2010, eq. 42).

    product   min_λ Σ_pairs  A_f(λ) + A_b(−λ)                     q_f(ij) = q_b(ij)
    mixture   min_λ Σ_pairs  log(½ exp A_f(λ) + ½ exp A_b(−λ))    w_f q_f(ij) = w_b q_b(ij)

A(λ) = log Z(λ) − log p(x), and w_f : w_b = exp A_f : exp A_b. Both duals are minimised by L-BFGS over the links of all
pairs, in the E-steps of training and in decoding. Models have plain tables of whole words; they are trained by EM, then
by rounds of the HMM under either agreement. A pair (i, j) is linked if the probability that q links it reaches the
threshold that is best on dev, of the mean of both directions (product) and of the mixture.

    make bench-align-mixture                      Hansards, 1,000 pairs and the pairs of dev
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from _align import data_folder, make_text
from _small import arguments
from scipy.optimize import minimize
from scipy.special import expit

from trellis.data.bitext import read_two_files
from trellis.metrics.alignment import best_threshold, precision_recall_curve
from trellis.models.alignment import AlignmentModel
from trellis.structures import JointPosterior

THRESHOLDS = np.round(np.arange(0.02, 1.0, 0.02), 2)


class Agreement:
    """The E-step of one batch, from the λ of the last one."""

    def __init__(self, how: str, evaluations: int) -> None:
        self.how, self.evaluations, self.lam = how, evaluations, None

    def __call__(self, scores, pair_of_link):
        """The scores moved by λ, and the weight of each direction (n_pairs, 2): 2 w in a mixture, 1 in a product."""
        n, starts = len(pair_of_link), scores.parts.starts
        parts = np.concatenate((np.arange(n), starts[1] + np.arange(n)))
        base = [one.infer().log_partition for one in scores.members]

        def at(lam):
            moved = scores.add(parts, np.concatenate((-lam, lam)))
            q = moved.infer()
            ahead, back = (one.log_partition - z for one, z in zip(q.members, base, strict=True))
            w = np.ones((len(ahead), 2))
            if self.how == "mixture":
                w[:] = 2.0 * expit(np.stack((ahead - back, back - ahead), axis=1))
            return moved, q, ahead, back, w

        def dual(lam):
            _, q, ahead, back, w = at(lam)
            half = 1.0 if self.how == "product" else 0.5
            links = [one.link.astype(np.float64) * half * w[pair_of_link, k] for k, one in enumerate(q.members)]
            value = ahead + back if self.how == "product" else np.logaddexp(ahead, back) - np.log(2.0)
            return float(value.sum()), links[1] - links[0]

        if self.how == "none":
            moved, *_, w = at(np.zeros(n))
            return moved, w
        start = np.zeros(n) if self.lam is None else self.lam
        self.lam = minimize(dual, start, jac=True, method="L-BFGS-B", options={"maxfun": self.evaluations}).x
        moved, *_, w = at(self.lam)
        return moved, w


def counted(moved, w, batch) -> JointPosterior:
    """The posterior as the M-step counts it: an instance of a direction as often as the direction weighs."""
    members = [one.infer(weights=own) for one, own in zip(moved.members, w.T, strict=True)]
    for one, own, words in zip(members, w.T, (batch.target_offsets, batch.source_offsets), strict=True):
        one.link[:] *= np.repeat(own, np.diff(batch.offsets))
        one.null[:] *= np.repeat(own, np.diff(words))
    return JointPosterior(members, moved.parts.starts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--evaluations", type=int, default=40)
    parser.add_argument("--longest", type=int, default=40, help="words of a training sentence")
    given = arguments(parser, pairs=30, rounds=1, evaluations=10)
    with tempfile.TemporaryDirectory() as work:
        text = make_text("hansards", given.pairs, data_folder(), Path(work))
        pairs = [(a.split() if isinstance(a, str) else a, b.split() if isinstance(b, str) else b)
                 for a, b in read_two_files(text.source, text.target)]  # fmt: skip
    gold_pairs = pairs[len(text.test) : len(text.test) + len(text.dev)]
    train = gold_pairs + [p for p in pairs[len(text.test) + len(text.dev) :] if 0 < max(map(len, p)) <= given.longest]
    names = ("AER", "precision", "recall", "threshold", "links a pair", "w > 0.99")
    print(f"{'training':<10}{'decoding':<10}" + "".join(f"{name:>14}" for name in names))
    for how, decodings in (("none", ("none",)), ("product", ("product",)), ("mixture", ("mixture", "product"))):
        model = AlignmentModel(
            "model1", prefix=None, same_spelling=0.0, diagonal_scale=np.inf, variational=False, concentration=1e-6
        )
        batch = model.encode(train, fit=True)
        pair_of_link = np.repeat(np.arange(len(batch)), np.diff(batch.offsets))
        for rounds, kind, step in ((5, "model1", "none"), (2, "hmm", "none"), (given.rounds, "hmm", how)):
            model.kind, agreement = kind, Agreement(step, given.evaluations)
            for _ in range(rounds):
                moved, w = agreement(model.scores(batch), pair_of_link)
                model.update(model.collect(batch, counted(moved, w, batch)))
        for decoding in decodings:
            report(how, decoding, model, batch, pair_of_link, text.dev, given.evaluations)


def report(how, decoding, model, batch, pair_of_link, gold, evaluations) -> None:
    moved, w = Agreement(decoding, 2 * evaluations)(model.scores(batch), pair_of_link)
    linked = sum(0.5 * one.link for one in counted(moved, w, batch).members)
    ends, sizes = batch.offsets, np.diff(batch.target_offsets)
    rows = []
    for i in range(len(gold)):
        grid = linked[ends[i] : ends[i + 1]].reshape(-1, sizes[i])
        rows.append({(int(a), int(b)): float(grid[a, b]) for a, b in np.argwhere(grid >= THRESHOLDS[0])})
    curve = precision_recall_curve(rows, gold, THRESHOLDS.tolist())
    best = best_threshold(curve)
    found = next(point.scores for point in curve if point.threshold == best)
    row = (100 * found.aer, 100 * found.precision, 100 * found.recall, best, linked.sum() / len(batch))
    certain = np.mean(w.max(axis=1) > 2 * 0.99)
    print(f"{how:<10}{decoding:<10}" + "".join(f"{value:14.2f}" for value in (*row, certain)), flush=True)


if __name__ == "__main__":
    main()
