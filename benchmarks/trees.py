"""Dependency trees: marginals per second, and a supervised parser.

    make bench-trees                     marginals of 20 and 40 words, one thread; the parser of docs/parsing.md, on dev
    make bench-trees ARGS="--test"       the same on test

torch-struct, the peer, is timed beside ours where it is installed.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from _small import arguments
from _trees import treebank

from trellis.apps.parse.parser import Parser, tagged
from trellis.data.ragged import offsets_of
from trellis.models.arc_parser import ArcParser
from trellis.structures import SpanningTrees, Trees


def best_of(work, times: int = 5) -> float:
    work()  # compiles
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def marginals(n_words: int) -> None:
    print("marginals per second, one thread (sentences of random scores, the best of five runs)")
    print(f"  {'words':>5}{'inside-outside':>16}{'with valence':>14}{'many roots':>12}{'matrix-tree':>13}{'peer':>8}")
    rng = np.random.default_rng(0)
    for n in (20, 40):
        count = n_words * 20 // n**2
        offsets = offsets_of(np.full(count, n))
        arc, nearest = 2 * rng.normal(size=count * n * n), rng.normal(size=count * n * n)
        kinds = [
            Trees(offsets, arc), Trees(offsets, arc, nearest=nearest), Trees(offsets, arc, single_root=False),
            SpanningTrees(offsets, arc),
        ]  # fmt: skip
        rates = [count / best_of(scores.infer) for scores in kinds]
        widths = (16, 14, 12, 13)
        shown = "".join(f"{rate:>{width},.0f}" for rate, width in zip(rates, widths, strict=True))
        print(f"  {n:>5}{shown}{peer(arc.reshape(count, n, n)[:256])}")


def peer(arc: np.ndarray) -> str:
    """torch-struct on one thread, where there is one."""
    try:
        import torch
        from torch_struct import DependencyCRF
    except ImportError:
        return f"{'none':>8}"
    torch.set_num_threads(1)
    scores = torch.tensor(arc.transpose(0, 2, 1).copy(), requires_grad=True)
    return f"{len(arc) / best_of(lambda: DependencyCRF(scores).marginals, 2):>8,.0f}"


def parser(name: str) -> None:
    train, test = treebank("en-ewt-train"), treebank(name)
    begin = time.perf_counter()
    model = Parser(n_jobs=2).fit(train)
    trained = time.perf_counter() - begin
    text = tagged(train)
    heads = [[int(h) for h in s.columns["head"]] for s in train]
    one = ArcParser(max_iter=1, n_jobs=1)
    begin = time.perf_counter()
    one.fit(text, heads)
    a_pass = time.perf_counter() - begin
    batch = one.encode(text)
    begin = time.perf_counter()
    one.collect(batch, one.scores(batch).infer())
    a_round = time.perf_counter() - begin
    rate = len(test) / best_of(lambda: model.predict(test), 3)
    scores = model.attachment(test)
    print(f"\nfirst-order projective parser, en-ewt-train -> {name}, gold tags")
    for what, figure in (
        ("one margin pass, text read and words counted", f"{a_pass:.1f} s (one thread)"),
        ("one round of the likelihood's gradient", f"{a_round:.1f} s (one thread)"),
        ("training, relations included", f"{trained:.1f} s"),
        ("prediction, features and relations included", f"{rate:,.0f} sentences per second (two threads)"),
        ("UAS and LAS without punctuation", f"{100 * scores.plain.uas:.2f} {100 * scores.plain.las:.2f}"),
        ("UAS and LAS with punctuation", f"{100 * scores.total.uas:.2f} {100 * scores.total.las:.2f}"),
        ("whole trees", f"{100 * scores.whole:.2f}"),
    ):
        print(f"  {what:<48}{figure}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--test", action="store_true", help="measure the parser on test, not on dev")
    options.add_argument("--words", type=int, default=80_000, help="words of sentences of 20; of 40: half as many")
    given = arguments(options, words=200)
    marginals(given.words)
    parser("en-ewt-test" if given.test else "en-ewt-dev")


if __name__ == "__main__":
    main()
