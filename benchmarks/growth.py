"""How time and memory grow with the size of one instance (`make bench-growth`).

    make bench-growth                       100 to 30,000 rows, 10 to 100 mentions, lines of 1,000 to 50,000 tokens
    make bench-growth ARGS="--small"        tiny sizes, in seconds

Rows: one chain, the rule "after A no B, at a penalty" at every token, and a count over all of them; all sizes have the
same transition scores. Mentions: ``Relater.predict`` on one sentence. Lines: ``Extractor.predict`` and the
probabilities of its fields, which is what ``trellis extract predict --json`` runs, and ``Tagger.predict``.

Seconds are of CPU, which other programs on the machine change little: the fastest of a few runs for rows, one run for
the others, after a warm-up at the first size. MB is the peak that Python and NumPy allocate (tracemalloc), in a run of
its own, and RSS the peak of the process in the timed one, which has what compiled code allocates too (Linux). Of lines,
where tracing would take minutes, MB is by how much RSS rises. After each size come the slopes from the size before,
log(ratio of values) / log(ratio of sizes), of time and memory, and at the end the exponent of the power of the size
that is fitted to all sizes by least squares on logarithms. Fixed cost lowers that fit, so the slopes between the larger
sizes tell more.
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
from trellis.data.document import Document, Span
from trellis.data.related import read_related
from trellis.data.text_files import read_labelled
from trellis.data.vocabulary import Vocabulary
from trellis.projection import Projection, project
from trellis.structures import Chain

EXAMPLES = Path(__file__).parent.parent / "examples"
MOST_TIME, MOST_MEMORY = 1.3, 1.1
"""Largest slopes between two sizes of rows."""


def measure(
    title: str,
    sizes: Sequence[int],
    make: Callable[[int], Any],
    run: Callable[[Any], object],
    *,
    traced: bool = True,
    times: int = 1,
    note: Callable[[Any], str] = lambda result: "",
) -> list[float]:
    """Print a table of time and memory; returns the largest slope of each between two sizes.

    note : what to print beside a size, of what ``run`` returned
    """
    print(f"\n{title}\n{'size':>8} {'seconds':>9} {'MB':>8} {'RSS':>8} {'slopes':>13}", flush=True)
    run(make(sizes[0]))
    spent, peaks, slopes = [], [], np.zeros((0, 2))
    for size in sizes:
        made = make(size)
        forget_peak()
        before = peak_rss()
        seconds = []
        for _ in range(times):
            begin = time.process_time()
            result = run(made)
            seconds.append(time.process_time() - begin)
        spent.append(min(seconds))
        rss = peak_rss()
        if traced:
            tracemalloc.start()
            run(make(size))
            peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
            tracemalloc.stop()
        else:
            peaks.append(rss - before)
        values = np.log(np.maximum([spent, peaks], 1e-3))
        slopes = (np.diff(values) / np.diff(np.log(sizes[: len(spent)]))).T
        shown = "".join(f"{slope:>7.2f}" for slope in slopes[-1]) if len(slopes) else ""
        print(f"{size:>8,} {spent[-1]:>9.3f} {peaks[-1]:>8.1f} {rss:>8.0f} {shown:>14} {note(result)}", flush=True)
    fitted = [float(np.polyfit(np.log(sizes), own, 1)[0]) for own in values]
    worst = [float(slope) for slope in slopes.max(axis=0)]
    print(f"exponent {fitted[0]:>8.2f} {fitted[1]:>8.2f}   largest slopes {worst[0]:.2f} {worst[1]:.2f}")
    return worst


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
    rng = np.random.default_rng(3)  # of ten seeds the one that takes most evaluations
    transitions = rng.normal(size=(1, 3, 3))  # drawn first, so that every size has the same ones
    chain = Chain(np.array([0, n]), rng.normal(size=(n, 3)), transitions)
    rules = [previous("A").implies(~label("B")).penalty(2.0), count("C") >= n // 3]
    names = Vocabulary(["A", "B", "C"], kind="label")
    return chain, compile_constraints(rules, Batch.from_sentences([["w"] * n]), names, chain.parts)


def projected(made: tuple[Chain, Any], generic: bool) -> Projection:
    found = project(*made, 1.0, generic=generic)
    if not found.converged:
        raise SystemExit(f"not converged: KKT residual {found.kkt_residual:.2g}")
    return found


def related(texts: Sequence[Document], n: int) -> Document:
    """One sentence with so many mentions."""
    tokens: list[str] = []
    mentions: list[Span] = []
    for text in cycle(texts):
        mentions += [Span(None, m.first + len(tokens), m.last + len(tokens)) for m in text.spans or ()]
        tokens += text.tokens
        if len(mentions) >= n:
            return Document(tuple(tokens), spans=tuple(mentions[:n]))
    raise AssertionError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny sizes, to see that it runs")
    small = parser.parse_args().small
    rows = [100, 300] if small else [100, 300, 1000, 3000, 10_000, 30_000]
    mentions = [4, 8] if small else [10, 20, 40, 70, 100]
    tokens = [50, 100] if small else [1000, 5000, 20_000, 50_000]

    found = [
        measure(
            f"Rows in one instance, {name}",
            rows,
            chain_with_rows,
            partial(projected, generic=generic),
            times=5,
            note=lambda result: f"{result.evaluations} evaluations",
        )
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
    tagger = Tagger().fit([Document(("a", "b", "c"), labels=("X", "Y", "X")), Document(("c", "b"), labels=("X", "Y"))])
    measure(
        "Tokens in one line, tagging",
        tokens,
        lambda n: [Document(tuple(line(n)[0].split()))],
        lambda texts: list(tagger.predict(texts)),
        traced=False,
    )
    worst = [max(powers) for powers in zip(*found, strict=True)]
    good = small or (worst[0] <= MOST_TIME and worst[1] <= MOST_MEMORY)
    print(f"\nrows: largest slopes between two sizes {worst[0]:.2f} in time and {worst[1]:.2f} in memory")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
