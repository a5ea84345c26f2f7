"""Every task through its documented commands on several corpora, beside simple baselines.

    make bench-panel                                   all tasks on their development sets
    make bench-panel ARGS="--test"                     all tasks on their test sets
    make bench-panel ARGS="--task extract --draws 2 --columns 5 20 --corpora addresses"     less of it
    make bench-panel ARGS="--small"                    on generated data, in seconds
    make bench-panel ARGS="--test --kept FILE"         keep scores in a file, and resume from it
    make bench-panel ARGS="--test --kept FILE --no-compute --write docs/results.md"
                                                       write the tables of kept scores into the page

Settings are chosen on development sets; test sets are read with --test only. Rules of corpora: benchmarks/panel/.
"""

from __future__ import annotations

import argparse
import math
from importlib import import_module
from pathlib import Path

from _kept import Kept
from _panel import TASKS
from _panel.common import DATA, Options, summary, summary_table, table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", choices=TASKS, default=TASKS, help="tasks to run (default: all)")
    sets = parser.add_mutually_exclusive_group()
    sets.add_argument("--dev", action="store_true", help="use development sets (default)")
    sets.add_argument("--test", action="store_true", help="use test sets")
    sets.add_argument("--small", action="store_true", help="use small generated data")
    parser.add_argument("--draws", type=int, help="draws of labelled data, or seeds")
    parser.add_argument("--corpora", nargs="+", default=[], help="corpora to run")
    parser.add_argument("--columns", nargs="+", default=[], help="columns of the table to run")
    parser.add_argument("--kept", type=Path, help="file of scores to keep and to resume from")
    parser.add_argument("--no-compute", action="store_true", help="show the scores of --kept alone")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    given = parser.parse_args()
    if given.write and not (given.test or given.small):
        parser.error("--write is for results on test sets: add --test")
    if not given.small and not DATA.is_dir():
        print(f"no data in {DATA}: set TRELLIS_DATA to the folder of the real data. Nothing is measured.")
        return
    options = Options(
        given.test, given.small, given.draws, tuple(given.corpora), tuple(given.columns), Kept(given.kept),
        not given.no_compute,
    )  # fmt: skip
    made, rows, total = {}, [], 0.0
    for name in given.task:
        task = import_module(f"_panel.{name}")
        scores = [score for score in task.scores(options) if not math.isnan(score.value)]
        if not scores:
            print(f"\n{name}: no scores are kept")
            continue
        seconds = sum(score.seconds for score in scores)
        total += seconds
        rows += summary(task, scores)
        made[name] = table(task, scores)
        print(f"\n{made[name]}\n{name}: {seconds:.0f} s", flush=True)
    if set(made) == set(TASKS):
        made["summary"] = summary_table(rows)
        print(f"\n{made['summary']}\nall tasks: {total / 60:.0f} minutes")
    if given.write:
        write(given.write, made)


def write(page: Path, tables: dict[str, str]) -> None:
    """Replace the tables of a page, each between two comments that name it."""
    text = page.read_text(encoding="utf-8")
    for name, made in tables.items():
        first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if first not in text or last not in text:
            raise SystemExit(f"{page} has no place for the table of {name}: {first.strip()} and {last}")
        before, rest = text.split(first, 1)
        text = f"{before}{first}{made}\n{last}{rest.split(last, 1)[1]}"
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
