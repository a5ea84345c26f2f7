"""Cost of the projected E-step over the plain one, in one run (`make bench-projection`).

A 17-state HMM, 2,000 generated sentences of 5-60 words, after a few rounds of EM:
  (a) at least one of two labels in every sentence,
  (b) five random linear rows over all node parts of every sentence,
  (c) an l1/linf group for every word type seen more than ten times.
Cold: from λ = 0. Warm: from the duals of the round before, after an M-step on the projected counts. Both to a KKT residual
of 1e-3, one thread. scipy: the same dual problems with L-BFGS-B, a sentence at a time, each evaluation the same
compiled inference, on the first sentences; its time is scaled to all.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from trellis.constraints import count, few_labels_per, word
from trellis.constraints.compilation import compile_constraints
from trellis.constraints.rows import Groups, Rows
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray
from trellis.models.hmm import HMM
from trellis.projection import Duals, Projector, ShardAnswer
from trellis.structures import Chain

N_STATES, N_SENTENCES, VOCABULARY = 17, 2_000, 10_000
SCIPY_SENTENCES = 100
TOLERANCE = 1e-3


def generated_sentences(rng: np.random.Generator) -> list[list[str]]:
    """Words with Zipf's frequencies from a random HMM, so that there is something to learn."""
    transition = rng.dirichlet(np.full(N_STATES, 0.3), N_STATES)
    zipf = 1.0 / np.arange(1, VOCABULARY + 1)
    emission = rng.dirichlet(np.full(N_STATES, 0.2), VOCABULARY).T * zipf
    emission /= emission.sum(axis=1, keepdims=True)
    cumulative = emission.cumsum(axis=1)
    sentences = []
    for length in rng.integers(5, 61, N_SENTENCES):
        state, words = int(rng.integers(N_STATES)), []
        for _ in range(length):
            words.append(f"w{np.searchsorted(cumulative[state], rng.random())}")
            state = int(rng.choice(N_STATES, p=transition[state]))
        sentences.append(words)
    return sentences


def random_rows(chain: Chain, rng: np.random.Generator, per_sentence: int = 5) -> Rows:
    """Rows Σ c·node ≤ b with normal c, and b below what the model expects, so that most of them bind."""
    k, n = chain.n_labels, len(chain)
    slots = np.diff(chain.offsets)
    lengths = np.repeat(slots * k, per_sentence)
    instance = np.repeat(np.arange(n), per_sentence)
    start = np.concatenate(([0], np.cumsum(lengths)))
    first = np.repeat(chain.offsets[:-1] * k, per_sentence)
    part = np.arange(start[-1]) - np.repeat(start[:-1] - first, lengths)
    coefficient = rng.normal(size=start[-1])
    node = chain.infer().node.reshape(-1)
    expected = np.add.reduceat(coefficient * node[part], start[:-1])
    n_rows, empty = len(instance), np.zeros(0, np.int64)
    return Rows(
        parts=chain.parts, names=("random",), start=start, part=part, coefficient=coefficient,
        bound=expected - 0.5 * np.abs(rng.normal(size=n_rows)), equality=np.zeros(n_rows, bool), instance=instance,
        group=instance, constraint=np.zeros(n_rows, np.int64), row_number=np.arange(n_rows),
        groups=Groups(np.zeros(n, np.int8), np.full(n, 3, np.int8), np.zeros(n)), forbidden=empty, forbidden_by=empty,
    )  # fmt: skip


def seconds(function: Callable[[], object], repeats: int = 5) -> float:
    function()
    best = np.inf
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - begin)
    return best


def with_scipy(chain: Chain, rows: Rows) -> float:
    """Seconds for all sentences, from a sample: the dual of each sentence's hard rows by L-BFGS-B."""
    k = chain.n_labels
    spent = 0.0
    for i in range(SCIPY_SENTENCES):
        one, mine = chain.instances(i, i + 1), rows.shard(i, i + 1)
        if not len(mine):
            continue
        matrix = np.zeros((len(mine), one.n_slots * k))
        matrix[mine.entry_row, mine.part] = mine.coefficient

        def dual(
            theta: FloatArray, one: Chain = one, mine: Rows = mine, matrix: FloatArray = matrix
        ) -> tuple[float, FloatArray]:
            q = one.tilt(-(theta @ matrix).reshape(one.n_slots, k)).infer()
            return float(mine.bound @ theta + q.log_partition[0]), mine.bound - matrix @ q.node.reshape(-1)

        begin = time.perf_counter()
        minimize(
            dual, np.zeros(len(mine)), jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(mine),
            options={"gtol": TOLERANCE, "ftol": 0.0},
        )  # fmt: skip
        spent += time.perf_counter() - begin
    return spent * N_SENTENCES / SCIPY_SENTENCES


def main() -> int:
    rng = np.random.default_rng(0)
    hmm = HMM(N_STATES, min_count=1, unknown=None, emission_prior=1.01)
    batch = hmm.encode(generated_sentences(rng), fit=True)
    hmm.randomize(np.random.default_rng(1))
    for _ in range(10):
        hmm.update(hmm.collect(batch, hmm.scores(batch).infer(weights=batch.weights)))
    start = hmm.parameters()
    before = hmm.scores(batch)
    plain = seconds(before.infer)
    labels = hmm.label_names_
    print(f"{N_STATES}-state HMM, {len(batch)} sentences, {batch.n_slots} tokens; plain E-step {1e3 * plain:.1f} ms")
    print(f"{'rows':30} {'cold':>6} {'warm':>6} {'evaluations':>12} {'scipy':>8} {'times faster':>13}   residual")
    cases: list[tuple[str, Rows, bool]] = [
        ("(a) one of two labels", rows_of([count(labels[0], labels[1]) >= 1], batch, hmm), True),
        ("(b) five random rows", random_rows(before, rng), True),
        ("(c) l1/linf a word type", rows_of([few_labels_per(word, strength=32, min_count=11)], batch, hmm), False),
    ]
    worst = 0.0
    for name, rows, local in cases:
        hmm.set_parameters(start)
        projector = Projector(rows, tolerance=TOLERANCE, most_rounds=1_000)

        def e_step(scores: Chain, duals: Duals | None = None, projector: Projector = projector) -> tuple:
            outcome = projector.run(lambda _: scores, then=keep, duals=duals)
            return outcome.results[0], outcome

        def keep(_: int, answer: ShardAnswer) -> ShardAnswer:
            return answer

        first = hmm.scores(batch)
        answer, outcome = e_step(first)
        hmm.update(hmm.collect(batch, answer.posterior))
        second = hmm.scores(batch)
        second.infer()
        repeats = 5 if local else 1
        cold = seconds(lambda: e_step(first), repeats) / plain
        warm = seconds(lambda: e_step(second, outcome.duals), repeats) / plain
        each = len(batch) if local else 1
        shown = f"{outcome.evaluations / each:.1f}/{e_step(second, outcome.duals)[1].evaluations / each:.1f}"
        scipy_ratio = with_scipy(first, rows.local()) / plain if local else float("nan")
        faster = f"{scipy_ratio / cold:13.0f}" if local else f"{'':>13}"
        ratio = f"{scipy_ratio:8.0f}" if local else f"{'':>8}"
        print(f"{name:30} {cold:6.1f} {warm:6.1f} {shown:>12} {ratio} {faster}   {outcome.kkt_residual:.1e}")
        worst = max(worst, outcome.kkt_residual)
    print(
        "cold, warm and scipy: times the plain E-step. evaluations: cold/warm, a sentence for (a), (b); passes for (c)"
    )
    print("asked for: (a) cold ≤ 4, warm ≤ 2.5; (b) cold ≤ 12, warm ≤ 5; scipy at least 20 times slower for (a), (b)")
    return 0 if worst <= TOLERANCE * 1.001 else 1


def rows_of(constraints: list, batch: Batch, hmm: HMM) -> Rows:
    return compile_constraints(constraints, batch, hmm.label_names_)


if __name__ == "__main__":
    sys.exit(main())
