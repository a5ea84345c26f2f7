"""The command-line application: it collects the commands of all tasks and sets exit codes.

| what happened | on stderr | exit code |
| --- | --- | --- |
| done | | 0 |
| a mistake in the arguments, or a :class:`~trellis.errors.TrellisError` | one short message | 2 |
| Ctrl-C | ``interrupted`` | 130 |
| SIGTERM, SIGHUP | | 143, 129 |
| the reader of our output went away (``trellis ... | head``) | | 1 |
| standard output cannot be written to (a full disk, or it is closed) | one short message | 2 |

Anything else is a bug of ours and keeps its traceback; ``TRELLIS_DEBUG=1`` shows it for every error.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer

from trellis._version import __version__
from trellis.cli import evaluate, info, report
from trellis.cli.commands import MARKUP, Commands, add_command
from trellis.cli.options import in_flags
from trellis.data.files import reason
from trellis.errors import ConvergenceWarning, TrellisError

INTERRUPTED = 130  # 128 + SIGINT, what shells expect
UNWRITABLE = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, getattr(errno, "EDQUOT", errno.ENOSPC)}
"""What writing to standard output fails with: a full disk, a failing one, or no output at all."""

app = typer.Typer(
    name="trellis",
    cls=Commands,
    help="Learn structured predictors from rules, expected counts, agreement and a few labels.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
)

# Modules of commands are imported for --help too, so what is heavy is imported inside their functions.
for application in import_module("trellis.apps").applications():
    import_module(f"trellis.apps.{application}.commands").register(app)
for server in ("serve", "studio"):
    import_module(f"trellis.{server}.commands").register(app)
add_command(app, evaluate.evaluate)
add_command(app, report.report)
add_command(app, info.info)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"trellis {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Options that stand before the command."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command line (``sys.argv`` where none is given) and exit as the table above says."""
    _open_streams()
    code = 0
    try:
        with _ending_on_signals():
            code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        code = 1
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is not None:
            raise
        _drop_output()
        if code == 0:  # else the error is known already
            _complain(f"Error: standard output: cannot be written: {reason(error)}")
        code = 2
    sys.exit(code)


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the run as Ctrl-C does, by an exception, so that no temporary file is left behind."""
    before: dict[int, Any] = {}
    with suppress(ValueError):  # not the main thread
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.signal(number, _end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """End the run by an exception; later if an object is just being deleted, where Python would drop the exception."""
    if _is_deleting(frame) and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, lambda _, now: _end(number, now))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        return
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    signal.signal(number, signal.SIG_IGN)  # a second one must not interrupt the cleaning up
    raise SystemExit(128 + number)


def _is_deleting(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def _open_streams() -> None:
    """Escape what a stream's encoding lacks, and stand in for streams that are closed (``<&-``, ``>&-``).

    A closed standard input takes up its number, or the next file to be opened would become it; reading it is an error
    (:mod:`trellis.data.files`). A closed standard output is one that every write to fails; nobody reads a closed
    standard error, so what it is given is dropped.
    """
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    for name, mode in (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.open(os.devnull, mode), "w"))  # noqa: SIM115  for as long as the process lives
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Forget what is still buffered: it has no reader, and the interpreter would complain about it on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(arguments: Sequence[str] | None) -> int:
    try:
        with warnings.catch_warnings():
            _show_warnings_plainly()
            app(args=arguments, prog_name="trellis")
    except SystemExit as stop:  # typer ends every run with one, and has turned Ctrl-C into code 130
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except TrellisError as error:
        if os.environ.get("TRELLIS_DEBUG") == "1":
            raise
        _complain("\n".join([f"Error: {in_flags(str(error))}", *getattr(error, "__notes__", ())]))
        code = 2
    else:
        code = 0
    if code == INTERRUPTED:
        # A second Ctrl-C, or one sent to the whole group, must not interrupt the goodbye.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _complain("interrupted")
    return code


def _show_warnings_plainly() -> None:
    """Our own warnings as a sentence, without the line of the source they come from."""
    as_python_does = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, ConvergenceWarning) and os.environ.get("TRELLIS_DEBUG") != "1":
            _complain(f"Warning: {message}", "yellow")
        else:
            as_python_does(message, category, *where, **more)

    warnings.showwarning = show


def _complain(message: str, style: str = "red") -> None:
    from trellis.cli.console import plain_console, visible

    # soft_wrap: a file name broken over two lines cannot be copied
    with suppress(OSError):
        plain_console(stderr=True, soft_wrap=True).print(visible(message), style=style)
