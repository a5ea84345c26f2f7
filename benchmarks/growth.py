"""How time and memory grow with the size of one instance (`make bench-growth`).

    make bench-growth                       100 to 10,000 rows, 10 to 100 mentions, lines of 1,000 to 50,000 tokens
    make bench-growth ARGS="--small"        tiny sizes, in seconds

Rows: one chain, the rule "after A no B, at a penalty" at every token, and a count over all of them. Mentions:
``Relater.predict`` on one sentence. Lines: ``Extractor.predict`` and the probabilities of its fields, which is what
``trellis predict --json`` runs, and ``Tagger.predict``. Each size is run once to warm up where it is the first, then
timed; MB is the peak that Python and NumPy allocate (tracemalloc), in a run of its own, and RSS the peak of the process
in the timed one, which has what compiled code allocates too (Linux). Of lines, where tracing would take minutes, MB is
by how much RSS rises. The exponent is that of the
power of the size, fitted by least squares on logarithms.
"""

from __future__ import annotations

import argparse
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from trellis import Extractor, Relater
from trellis.apps.extract.confidence import field_probabilities
from trellis.apps.parse.tagger import Tagger
from trellis.constraints import compile_constraints, count, label, previous
from trellis.data.batch import Batch
from trellis.data.related import Mention, RelatedText, read_related
from trellis.data.sentence import Sentence
from trellis.data.text_files import read_labelled
from trellis.data.vocabulary import Vocabulary
from trellis.projection import project
from trellis.structures import Chain

EXAMPLES = Path(__file__).parent.parent / "examples"
MOST_TIME, MOST_MEMORY = 1.3, 1.1
"""Largest exponents of rows."""


def measure(
    title: str, sizes: Sequence[int], make: Callable[[int], Any], run: Callable[[Any], object], traced: bool = True
) -> list[float]:
    """Print a table of time and memory; returns the fitted exponents of both."""
    print(f"\n{title}\n{'size':>8} {'seconds':>9} {'MB':>8} {'RSS':>8}", flush=True)
    run(make(sizes[0]))
    spent, peaks = [], []
    for size in sizes:
        made = make(size)
        forget_peak()
        before = peak_rss()
        begin = time.perf_counter()
        run(made)
        spent.append(time.perf_counter() - begin)
        rss = peak_rss()
        if traced:
            tracemalloc.start()
            run(make(size))
            peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
            tracemalloc.stop()
        else:
            peaks.append(rss - before)
        print(f"{size:>8,} {spent[-1]:>9.3f} {peaks[-1]:>8.1f} {rss:>8.0f}", flush=True)
    powers = [float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1e-3)), 1)[0]) for values in (spent, peaks)]
    print(f"exponent {powers[0]:>8.2f} {powers[1]:>8.2f}")
    return powers


def forget_peak() -> None:
    """Let the peak of this process's memory be counted from now on, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_rss() -> float:
    """In MB; NaN where the system does not say."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return float(line.split()[1]) / 1e3
    return float("nan")


def chain_with_rows(n: int) -> tuple[Chain, Any]:
    rng = np.random.default_rng(0)
    chain = Chain(np.array([0, n]), rng.normal(size=(n, 3)), rng.normal(size=(1, 3, 3)))
    rules = [previous("A").implies(~label("B")).penalty(2.0), count("C") >= n // 3]
    names = Vocabulary(["A", "B", "C"], kind="label")
    return chain, compile_constraints(rules, Batch.from_sentences([["w"] * n]), names, chain.parts)


def projected(made: tuple[Chain, Any], generic: bool) -> None:
    found = project(*made, 1.0, generic=generic)
    if not found.converged:
        raise SystemExit(f"not converged: KKT residual {found.kkt_residual:.2g}")


def related(texts: Sequence[RelatedText], n: int) -> RelatedText:
    """One sentence with so many mentions."""
    tokens: list[str] = []
    mentions: list[Mention] = []
    for text in cycle(texts):
        mentions += [Mention(m.start + len(tokens), m.end + len(tokens)) for m in text.mentions or ()]
        tokens += text.tokens
        if len(mentions) >= n:
            return RelatedText(tuple(tokens), tuple(mentions[:n]))
    raise AssertionError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that it runs")
    small = parser.parse_args().small
    rows = [100, 300] if small else [100, 300, 1000, 3000, 10_000]
    mentions = [4, 8] if small else [10, 20, 40, 70, 100]
    tokens = [50, 100] if small else [1000, 5000, 20_000, 50_000]

    found = [
        measure(f"Rows in one instance, {name}", rows, chain_with_rows, partial(projected, generic=generic))
        for name, generic in (("fast path", False), ("generic solver", True))
    ]
    few = list(read_related(EXAMPLES / "people/few.jsonl"))
    relater = Relater.from_file(EXAMPLES / "people/rules.toml", method="supervised", finder=False).fit(few)
    measure("Mentions in one sentence", mentions, lambda n: [related(few, n)], relater.predict)

    extractor = Extractor.from_file(EXAMPLES / "citations/rules.toml", method="supervised")
    extractor.fit(read_labelled(EXAMPLES / "citations/few.tsv"))
    words = (EXAMPLES / "citations/text.txt").read_text(encoding="utf-8").split()

    def line(n: int) -> list[str]:
        return [" ".join(word for word, _ in zip(cycle(words), range(n), strict=False))]

    def extract(texts: list[str]) -> None:
        field_probabilities(extractor, texts, extractor.predict(texts))

    measure("Tokens in one line, extraction with probabilities", tokens, line, extract, traced=False)
    tagger = Tagger().fit([Sentence(("a", "b", "c"), labels=("X", "Y", "X")), Sentence(("c", "b"), labels=("X", "Y"))])
    measure(
        "Tokens in one line, tagging",
        tokens,
        lambda n: [Sentence(tuple(line(n)[0].split()))],
        lambda texts: list(tagger.predict(texts)),
        traced=False,
    )
    worst = [max(powers) for powers in zip(*found, strict=True)]
    good = small or (worst[0] <= MOST_TIME and worst[1] <= MOST_MEMORY)
    print(f"\nrows: time as n^{worst[0]:.2f}, memory as n^{worst[1]:.2f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
