"""Where shards run: time and bytes of word alignment in one thread, two threads and two Dask workers, in one run.

    make bench-engine                           100,000 Hansards pairs: a few minutes on two cores
    make bench-engine ARGS="--size 10000"       a quick look

Time is that of training and aligning, after the cluster is up and the kernels are compiled. What travels is counted in
a run of its own, in which everything is pickled as it would be on its way to a worker and back.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from _align import data_folder, make_text
from _small import arguments

from trellis.apps.align.aligner import Aligner
from trellis.data.bitext import read_two_files
from trellis.engine import Placed, SerialEngine, Shard, ThreadEngine
from trellis.engine.dask import DaskEngine
from trellis.engine.engine import numbered

LIMIT = 1.35


class Scales:
    """An engine of one thread that weighs what would travel."""

    def __init__(self) -> None:
        self.bytes: dict[str, list[int]] = defaultdict(list)

    @property
    def near(self) -> SerialEngine:
        return SerialEngine()

    def place(self, items: Sequence[Any], shards: Sequence[Shard] | None = None) -> Placed[Any]:
        self.bytes["shards, once"].append(sum(len(pickle.dumps(item, 5)) for item in items))
        return Weighed(self, items, numbered(len(items)) if shards is None else shards)


class Weighed(Placed[Any]):
    def __init__(self, scales: Scales, items: Sequence[Any], shards: Sequence[Shard]) -> None:
        super().__init__(shards)
        self.scales, self.held = scales, SerialEngine().place(items, shards)

    def restore(self, states: Sequence[Any]) -> None:
        self.held.restore(states)
        self.states = self.held.states

    def run(self, work: Any, parameters: Any = None, own: Sequence[Any] | None = None) -> Iterator[Any]:
        self.scales.bytes["parameters, per worker"].append(len(pickle.dumps((work, parameters), 5)))
        results = states = 0
        for number, result in enumerate(self.held.run(work, parameters, own)):
            results += len(pickle.dumps(result, 5))
            states += len(pickle.dumps(self.held.states[number], 5))
            self.states = self.held.states
            yield result
        self.scales.bytes["results"].append(results)
        self.scales.bytes["states"].append(states)


def run(engine: Any, pairs: list[Any]) -> tuple[float, list[str]]:
    began = time.perf_counter()
    links = [one.pharaoh() for one in Aligner(engine=engine, n_jobs=1).fit_align(pairs)]
    return time.perf_counter() - began, links


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000, help="pairs")
    given = arguments(parser, size=60)
    with tempfile.TemporaryDirectory() as folder:
        text = make_text("hansards", given.size, data_folder(), Path(folder))
        pairs = list(read_two_files(text.source, text.target))
    cluster = DaskEngine.local(2)
    engines = {"one thread": SerialEngine(), "two threads": ThreadEngine(2), "two Dask workers": cluster}
    for engine in engines.values():
        run(engine, pairs[:2_000])  # kernels are loaded, workers have imported what they need
    times, links = {}, {}
    for name, engine in engines.items():
        times[name], links[name] = run(engine, pairs)
    cluster.close()
    print(f"{len(pairs):,} pairs, trained and aligned")
    for name, seconds in times.items():
        same = "the same links" if links[name] == links["one thread"] else "OTHER LINKS"
        print(f"  {name:18} {seconds:6.1f} s  {seconds / times['two threads']:5.2f} x two threads   {same}")
    ratio = times["two Dask workers"] / times["two threads"]
    print(f"  limit {LIMIT}: {'holds' if ratio <= LIMIT else 'DOES NOT HOLD'}")
    scales = Scales()
    run(scales, pairs)
    print("what travels, in MB (one number per pass: Model 1, HMM, aligning)")
    for name, passes in scales.bytes.items():
        print(f"  {name:24} {'  '.join(f'{n / 1e6:.3g}' for n in passes)}")


if __name__ == "__main__":
    main()
