"""``trellis studio``: a local page over a project folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from trellis.cli.commands import add_command
from trellis.cli.options import RUN, Quiet, flag, number_option
from trellis.data.files import reason
from trellis.errors import DataError

LOCK = ".trellis-studio.lock"


def studio(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Project folder; it is created if it does not exist.")
    ],
    port: Annotated[int, number_option("--port", min=0, max=65535, help="Port to listen on; 0: any free port.")] = 0,
    no_browser: Annotated[
        bool, flag("--no-browser", help="Do not open the page in the browser; its address is printed.", panel=RUN)
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Label texts, write rules and train an extractor, in the browser.

    `trellis studio citations` opens a page over `citations/text.txt`, `labels.jsonl`, `rules.toml` and `models/`.
    """
    import secrets
    import sys
    from contextlib import closing

    try:
        from trellis.serve.running import address_of, listen, run
        from trellis.studio.server import Studio
    except ModuleNotFoundError:
        raise DataError("trellis studio needs starlette and uvicorn: pip install 'trellis-learn[serve]'") from None
    path = Path(folder)
    try:
        path.mkdir(exist_ok=True)
        path = path.resolve(strict=True)
    except OSError as error:
        raise DataError(f"cannot be used as a project folder: {reason(error)}", path=folder) from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise DataError("cannot be used as a project folder: it is not writable", path=folder)
    with locked(path), closing(listen("127.0.0.1", port)) as opened:
        token = secrets.token_urlsafe(24)
        made = Studio(path, token)
        address = f"{address_of(opened, '127.0.0.1')}/{token}/"
        typer.echo(f"studio of {folder} at {address}", err=True)
        if not no_browser and sys.stderr.isatty():
            import webbrowser

            with suppress(Exception):  # there may be none
                webbrowser.open(address)
        run(made.app, opened)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Refuse a folder that another studio has open."""
    try:
        import fcntl
    except ImportError:  # Windows: the versions of labels and rules still hold
        yield
        return
    with open(folder / LOCK, "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise DataError("another `trellis studio` has this folder open; use it, or stop it", path=folder) from None
        yield


def register(program: typer.Typer) -> None:
    """Add the command."""
    add_command(program, studio)
