"""Weak labels: what each part of the aggregator is worth, on the corpora of the panel (``benchmarks/panel.py``).

    make bench-weak                                    development sets
    make bench-weak ARGS="--test"                      test sets
    make bench-weak ARGS="--corpora conll --small"

Every row is ``trellis aggregate`` with one setting changed; baselines as in the panel.
"""

from __future__ import annotations

import argparse

from _panel import weak
from _panel.common import Options

ROWS = {
    "default": (),
    "without short forms": ("--no-short-forms",),
    "entity bias 0": ("--entity-bias", "0"),
    "entity bias 1": ("--entity-bias", "1"),
    "entity bias 3": ("--entity-bias", "3"),
    "accuracy 0.8": ("--accuracy", "0.8"),
    "accuracy 0.95": ("--accuracy", "0.95"),
    "strength 1": ("--prior-strength", "1"),
    "strength 100": ("--prior-strength", "100"),
    "near-duplicates count in full": None,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test", action="store_true", help="use test sets")
    parser.add_argument("--small", action="store_true", help="use small generated data")
    parser.add_argument("--corpora", nargs="+", default=[], help="corpora to run")
    given = parser.parse_args()
    corpora = list(weak.corpora(Options(given.test, given.small, corpora=tuple(given.corpora))))
    print("| span F1 | " + " | ".join(corpus.name for corpus in corpora) + " | mean |")
    print("| --- " * (len(corpora) + 2) + "|")
    for name in weak.BASELINES:
        show(name, [weak.SYSTEMS[name](corpus)[0] for corpus in corpora])
    for name, settings in ROWS.items():
        show(name, [without_groups(c) if settings is None else weak.by_command(c, *settings)[0] for c in corpora])


def without_groups(corpus: weak.Corpus) -> float:
    """The default if every function counted in full, near-duplicate or not."""
    from trellis.models import vote_prior

    before, vote_prior.NEAR_DUPLICATE = vote_prior.NEAR_DUPLICATE, 2.0
    try:
        return weak.by_command(corpus)[0]
    finally:
        vote_prior.NEAR_DUPLICATE = before


def show(name: str, values: list[float]) -> None:
    print(f"| {name} | " + " | ".join(f"{v:.1f}" for v in values) + f" | {sum(values) / len(values):.1f} |", flush=True)


if __name__ == "__main__":
    main()
