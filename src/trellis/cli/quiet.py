"""``--quiet``: the option that several commands have, and what it silences beside their own progress."""

from __future__ import annotations

from typing import Annotated

import typer


def _hush(quiet: bool) -> bool:
    if quiet:
        from trellis.engine.compiling import silence

        silence()
    return quiet


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.", callback=_hush)]
