"""``--tune``: the value of γ is chosen on labelled data before a model is trained with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from trellis.cli.options import LEARNING

HALF = "half"
"""In place of a file: halves of the labelled data."""

TUNE = "Labelled data on which settings are chosen."
"""What ``--tune`` means; each command says which after it."""

TuneGamma = Annotated[
    str | None,
    typer.Option(
        "--tune", metavar="FILE", rich_help_panel=LEARNING, show_default=False,
        help=f"{TUNE} Chooses gamma from 0.1 to 1. `{HALF}`: each half evaluates models trained on the other.",
    ),
]  # fmt: skip


def file_of(tune: str | None) -> str | None:
    """The file that ``--tune`` names, for the checks of files."""
    return None if tune == HALF else tune


def with_best_gamma(
    estimator: Any, X: Any, y: Any, tune: str, read: Callable[[str], tuple[Any, Any]], **fit: Any
) -> Any:
    """The estimator trained with the γ that scores best; the tried values are shown on standard error.

    read : the development set of a file
    """
    from trellis.learn.tuning import GAMMAS
    from trellis.learn.tuning import tune as choose

    judges: dict[str, Any] = {"halves": True} if tune == HALF else {"dev": read(tune)}
    verbose, estimator.verbose = estimator.verbose, False
    found = choose(estimator, X, y, gammas=GAMMAS, **judges, **fit)
    found.learner.verbose = verbose
    shown = ", ".join(f"{trial.gamma:g}: {100 * trial.score:.2f}" for trial in found.trials)
    typer.echo(f"gamma {found.best.gamma:g}, chosen on {tune} ({shown})", err=True)
    return found.learner
