"""``trellis align --interactive``: a model in memory answers each line of standard input at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

import typer

from trellis.apps.align.link_lines import LinkFormat, LinkLines
from trellis.data.bitext import joined_pair
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.apps.align.aligner import Aligner


def answer(aligner: Aligner, lines: Iterable[tuple[int, str | DataError]], out: TextIO, form: LinkLines) -> None:
    """Write a line of links for each numbered line ``source ||| target``.

    A line that cannot be read gets an empty line, and the reason is printed on standard error.
    """
    aligner.align([("a", "a")])  # compiles, so that the first answer does not wait for it
    for number, line in lines:
        try:
            if isinstance(line, DataError):
                raise line
            pair = joined_pair(line)
        except DataError as error:
            typer.echo(f"Warning: line {number}: {error}", err=True)
            out.write("\n")
        else:
            [links] = aligner.align([pair])
            out.write(form.line(links, pair if form.format is LinkFormat.WORDS else None) + "\n")
        out.flush()
