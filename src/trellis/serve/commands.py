"""``trellis serve``: trained models over HTTP."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.commands import add_command
from trellis.cli.options import RUN, Quiet, file_option, name_option, number_option
from trellis.errors import DataError

ANSWERS = {
    "--model": "models are named without a flag: trellis serve fields.trellis",
    "-m": "models are named without a flag: trellis serve fields.trellis",
    "-p": "use --port",
    "--bind": "use --host",
    "-w": "use --workers",
}
SHORTEST_TOKEN = 16
SIZE = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}
NAME = re.compile(r"[\w.-]+")


def serve(
    models: Annotated[
        list[str], typer.Argument(metavar="MODELS", help="Model files, written by `--save`: FILE, or NAME=FILE.")
    ],
    port: Annotated[int, number_option("--port", min=0, max=65535, help="Port to listen on; 0: any free port.")] = (
        8000
    ),
    workers: Annotated[int, number_option("--workers", min=1, help="Number of processes, each with all models.")] = 1,
    host: Annotated[
        str, name_option("--host", help="Address to listen on. All but local addresses require a token.", panel=RUN)
    ] = "127.0.0.1",
    token_file: Annotated[
        str | None, file_option("--token-file", help="File with the token that requests must carry.", panel=RUN)
    ] = None,
    max_body: Annotated[
        str,
        typer.Option("--max-body", metavar="SIZE", help="Maximum size of a request, such as 4M.", rich_help_panel=RUN),
    ] = "4M",
    max_batch: Annotated[
        int, number_option("--max-batch", min=1, help="Maximum number of inputs per request.", panel=RUN)
    ] = (1000),
    timeout: Annotated[
        float, number_option("--timeout", min=0.01, help="Maximum number of seconds per request.", panel=RUN)
    ] = 30.0,
    threads: Annotated[
        int | None,
        number_option(
            "--threads", min=1, help="Number of threads; results do not depend on it. Default: 1.", panel=RUN
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Serve trained models over HTTP, with JSON in and out.

    `trellis serve fields.trellis` answers `POST /models/fields/predict` at http://127.0.0.1:8000. Open this address in
    a browser for an example request.
    """
    files = named(models)
    check_files({"models": list(files.values()), "--token-file": token_file}, {})
    body = _size(max_body)
    try:
        from trellis.serve.application import ServerSettings
        from trellis.serve.guard import is_loopback
    except ModuleNotFoundError:
        raise DataError("trellis serve needs starlette and uvicorn: pip install 'trellis-learn[serve]'") from None
    token = None if token_file is None else _token(token_file)
    if not is_loopback(host) and token is None:
        raise DataError(
            f"--host {host} can be reached from other machines: give a --token-file, whose token requests must carry"
        )
    settings = ServerSettings(files, token, body, max_batch, timeout, threads or 1)
    _run(settings, host, port, workers, quiet)


def _run(settings: Any, host: str, port: int, workers: int, quiet: bool) -> None:
    import tempfile
    from contextlib import closing
    from dataclasses import replace

    from trellis.serve.application import application, load_models
    from trellis.serve.running import address_of, listen, run, run_processes

    with closing(listen(host, port)) as opened, tempfile.TemporaryDirectory(prefix="trellis-") as folder:
        settings = replace(settings, counts=folder)
        loaded = load_models(settings)
        if not quiet:
            shown = ", ".join(f"{name} ({kind.name})" for name, (_, kind) in loaded.items())
            typer.echo(f"serving {shown} at {address_of(opened, host)}", err=True)
        if workers == 1:
            run(application(settings, loaded), opened)
        else:
            del loaded  # each process has its own
            run_processes(application, settings, opened, workers)


def named(models: list[str]) -> dict[str, str]:
    """Name of each model -> its file; the name is that of the file without its ending, unless it is given.

    >>> named(["a/fields.trellis", "dates=b/fields.trellis"])
    {'fields': 'a/fields.trellis', 'dates': 'b/fields.trellis'}
    """
    found: dict[str, str] = {}
    for given in models:
        name, equals, path = given.partition("=")
        if not equals or os.path.exists(given):
            path = given
            name = os.path.basename(path).removesuffix(".trellis")
        if not NAME.fullmatch(name):
            raise DataError(
                f"{name!r} cannot be part of an address: give letters, digits, `.`, `_` and `-`: NAME={path}"
            )
        if name in found:
            raise DataError(f"{found[name]} and {path} would both be called {name!r}: name one of them, NAME={path}")
        found[name] = path
    return found


def _token(path: str) -> str:
    from trellis.data.files import text_of

    token = text_of(path).strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise DataError(f"a token is one word of {SHORTEST_TOKEN} ASCII characters or more", path=path)
    return token


def _size(given: str) -> int:
    found = re.fullmatch(r"(\d{1,12})([KMG]?)", given.strip().upper())
    if found is None or int(found[1]) == 0:
        raise DataError(f"--max-body must be a size such as 4M, but got {given!r}")
    return int(found[1]) * SIZE[found[2]]


def register(program: typer.Typer) -> None:
    """Add the command."""
    add_command(program, serve, ANSWERS)
