"""``trellis evaluate``: outputs against gold. One option a kind of output; ``MODES`` says which function serves it.

To add a kind: an option of :func:`evaluate` that names it, and an entry in ``MODES``: a function from the paths of gold
and output to rows (name, value).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from trellis.errors import DataError

Rows = list[tuple[str, str]]


def evaluate(
    gold: Annotated[str, typer.Argument(help="File with the truth.")],
    output: Annotated[str, typer.Argument(help="File to be judged, line by line beside it.")],
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Word alignments: `i-j` sure and `i?j` possible links.")
    ] = False,
) -> None:
    """Compare an output with gold and print its scores."""
    wanted = [name for name, asked in (("alignment", alignment),) if asked]
    if len(wanted) != 1:
        raise DataError("say what is compared, with one of: " + ", ".join(f"--{name}" for name in MODES))
    for name, value in MODES[wanted[0]](gold, output):
        typer.echo(f"{name:<12}{value}")


def _alignment(gold: str, output: str) -> Rows:
    from trellis.metrics.alignment import read_links, score_links

    truth, links = read_links(gold), read_links(output)
    if len(links) != len(truth):
        raise DataError(f"{output} has {len(links)} lines but {gold} has {len(truth)}")
    scores = score_links((row.possible for row in links), truth)
    return [
        ("precision", f"{100 * scores.precision:.2f}"),
        ("recall", f"{100 * scores.recall:.2f}"),
        ("AER", f"{100 * scores.aer:.2f}"),
        ("F", f"{100 * scores.f:.2f}"),
        ("links", f"{scores.n_links} ({scores.n_sure} sure in gold)"),
    ]


MODES: dict[str, Callable[[str, str], Rows]] = {"alignment": _alignment}
