"""Every task through its documented commands on several corpora, beside simple baselines.

    make bench-panel                                   all tasks on their development sets
    make bench-panel ARGS="--test"                     all tasks on their test sets
    make bench-panel ARGS="--task extract --draws 2 --columns 5 20 --corpora addresses"     less of it
    make bench-panel ARGS="--small"                    on generated data, in seconds
    make bench-panel ARGS="--kept FILE"                keep scores in a file, and resume from it

Settings are chosen on development sets; test sets are read with --test only. Rules of corpora: benchmarks/panel/.
"""

from __future__ import annotations

import argparse
import time
from importlib import import_module
from pathlib import Path

from _kept import Kept
from _panel import TASKS
from _panel.common import DATA, Options, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", choices=TASKS, default=TASKS, help="tasks to run (default: all)")
    sets = parser.add_mutually_exclusive_group()
    sets.add_argument("--dev", action="store_true", help="use development sets (default)")
    sets.add_argument("--test", action="store_true", help="use test sets")
    sets.add_argument("--small", action="store_true", help="use small generated data")
    parser.add_argument("--draws", type=int, help="draws of labelled data")
    parser.add_argument("--corpora", nargs="+", default=[], help="corpora to run")
    parser.add_argument("--columns", nargs="+", default=[], help="columns of the table to run")
    parser.add_argument("--kept", type=Path, help="file of scores to keep and to resume from")
    given = parser.parse_args()
    if not given.small and not DATA.is_dir():
        print(f"no data in {DATA}: set TRELLIS_DATA to the folder of the real data. Nothing is measured.")
        return
    options = Options(
        given.test, given.small, given.draws, tuple(given.corpora), tuple(given.columns), Kept(given.kept)
    )
    for name in given.task:
        task = import_module(f"_panel.{name}")
        begin = time.perf_counter()
        scores = list(task.scores(options))
        print(f"\n{table(task, scores)}\n{name}: {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
