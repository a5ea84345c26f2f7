"""Checks before work starts: files can be read and written, and nothing valuable is overwritten.

found                                                        answer
two inputs from standard input, or from one pipe             refused: each would get some of the lines
standard input or output that is closed                      refused
an input that is missing, a folder, or not ours to read      refused; a WRENCH data set is a folder
an output that is an input, by whatever links                refused
two outputs to one place                                     refused, devices excepted
a folder that is missing or not ours, or is the output       refused
a file that is read-only                                     refused, although its folder would let us replace it
a file in the place of a model that is no model              refused
a file in the place of labels                                refused without --force: they may be hand-made
a table (.csv, .parquet) where a command writes none         refused: its name would say what it is not
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Collection, Iterable, Mapping
from itertools import combinations

import typer

from trellis.data.files import STANDARD, reason, shown
from trellis.errors import DataError

Paths = Mapping[str, str | Iterable[str] | None]
"""Option, or name of an argument -> the file or files it names; None: it was not given."""

MODEL, SAVE = "--model", "--save"
MODEL_BEGINS = b"PK\x03\x04"


def check_files(
    inputs: Paths,
    outputs: Paths,
    *,
    labels: Collection[str] = (),
    tables: Collection[str] = (),
    force: bool = False,
) -> None:
    """Refuse what the table above says.

    labels : the outputs that hold labels, which a person may have written; force : whether they are replaced
    tables : the outputs that may be tables
    """
    from trellis.data.tables import is_table

    read, written = _listed(inputs), [(option, path) for option, path in _listed(outputs) if path != STANDARD]
    _check_streams(read)
    for option, path in written:
        check_writable_file(option, path)
        if is_table(path) and option not in tables:
            raise DataError(f"{option} {path}: this is not written as a table; name a file with another ending")
    for option, path in read:
        if option == MODEL and not os.path.exists(path):
            error = DataError(f"{path}: cannot be read: No such file or directory")
            error.add_note(f"({MODEL} reads a model; {SAVE} writes one)")
            raise error
    to_stdout = [option for option, path in _listed(outputs) if path == STANDARD]
    if to_stdout:
        _check_output_open()
    if len(to_stdout) > 1:
        raise DataError(f"{to_stdout[0]} and {to_stdout[1]} both write to -: choose different files")
    for (one, path), (other, target) in combinations(written, 2):
        if _is_same(path, target):
            raise DataError(f"{one} and {other} both write to {path}: choose different files")
    for option, path in written:
        for other, source in read:
            if source != STANDARD and _is_same(path, source):
                raise DataError(f"{option} {path} would overwrite {other} {source}: choose another name")
    for _, path in read:
        _check_readable(path)
    for option, path in written:
        if option == SAVE and _holds_something_else(path):
            raise DataError(
                f"{SAVE} {path} would overwrite a file that is not a model: choose another name, or remove it first"
            )
        if option in labels and not force and os.path.isfile(path):
            raise DataError(
                f"{path} already exists, and it may contain corrected labels: choose another name, or use --force"
            )


def _check_readable(path: str) -> None:
    """Refuse a file that is missing, or that is not ours to read."""
    if path == STANDARD:
        return
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            from trellis.data.wrench import holds_wrench

            if not holds_wrench(path):
                raise DataError(f"cannot be read: {os.strerror(errno.EISDIR)}", path=path)
        elif stat.S_ISREG(status.st_mode):
            with open(path, "rb"):
                pass
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"cannot be read: {reason(error)}", path=path) from None
    except ValueError as error:  # a zero byte in the name
        raise DataError(f"not a valid file name: {error}", path=repr(path)) from None


def check_writable_file(option: str, path: str) -> None:
    """Refuse a file that could not be written when the work is done."""
    if path.startswith("-"):
        raise DataError(
            f"{option} needs the name of a file, or - for standard output, but is followed by {path} "
            f"(a file of that name is ./{path})"
        )
    if not path:
        raise DataError(f"{option} needs the name of a file, but it is empty")
    if os.path.isdir(path):
        raise DataError(f"{option} {path} is a folder: name a file in it")
    if os.path.exists(path) and not os.path.isfile(path):
        return  # a device or a pipe is written as it is, whoever's the folder
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise DataError(f"{option} {path}: the folder {folder} does not exist or cannot be written to")
    if os.path.exists(target) and not os.stat(target).st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise DataError(f"{option} {path} is read-only: choose another name, or make it writable")
    longest = os.pathconf(folder, "PC_NAME_MAX") if hasattr(os, "pathconf") else 255
    if len(os.fsencode(os.path.basename(target))) > longest:
        raise DataError(f"{option} {path[:40]}...: the name is longer than the {longest} bytes allowed here")


def was_typed(context: typer.Context, name: str) -> bool:
    """Whether a parameter of the command was given, and not left to its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def flag_of(context: typer.Context, name: str) -> str:
    """What is typed for a parameter of the command."""
    return max(next(p for p in context.command.params if p.name == name).opts, key=len)


def refuse_beside(
    context: typer.Context, option: str, why: str, names: Iterable[str], hints: Mapping[str, str] | None = None
) -> None:
    """Refuse options that have no meaning beside another one.

    names : parameters of the command;  hints : parameter -> what to say after it
    """
    for name in names:
        if was_typed(context, name):
            more = f"; {hints[name]}" if hints and name in hints else ""
            raise DataError(f"{option} {why}, so {flag_of(context, name)} cannot be combined with it{more}")


def _check_streams(read: list[tuple[str, str]]) -> None:
    """Refuse a stream that cannot be read, or would be read twice; tell a person that the command waits for them."""
    streams = [(option, path, status) for option, path in read if (status := _stream(path)) is not None]
    for (one, path, status), (other, _, same) in combinations(streams, 2):
        if os.path.samestat(status, same):
            who = f"{one} reads {shown(path)} twice" if one == other else f"{one} and {other} both read {shown(path)}"
            raise DataError(f"{who}, but it can be read only once: name two files")
    if any(path == STANDARD for _, path in read) and sys.stdin is not None and sys.stdin.isatty():
        typer.echo("Reading from the terminal: one text per line, end with Ctrl-D.", err=True)


def _check_output_open() -> None:
    """Notice before the work that standard output is closed."""
    try:
        os.write(sys.stdout.fileno(), b"")
    except (AttributeError, ValueError):
        return  # a stand-in without a file descriptor
    except OSError as error:
        raise DataError(f"cannot be written: {reason(error)}", path="standard output") from None


def _stream(path: str) -> os.stat_result | None:
    """The status of standard input, or of a pipe, which give their lines once; None for other files."""
    if path == STANDARD:
        if sys.stdin is None:
            raise DataError("cannot be read: it is closed", path=shown(path))
        try:
            return os.fstat(sys.stdin.fileno())
        except (AttributeError, OSError, ValueError):  # a stand-in without a file descriptor
            return os.stat(os.devnull)
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    once = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) or stat.S_ISCHR(status.st_mode)
    return status if once and not os.path.samestat(status, os.stat(os.devnull)) else None


def _listed(paths: Paths) -> list[tuple[str, str]]:
    given = [(option, [path] if isinstance(path, str) else path or ()) for option, path in paths.items()]
    return [(option, path) for option, several in given for path in several]


def _is_same(one: str, other: str) -> bool:
    """Whether two names are one file, by whatever links; a device (/dev/null) may be written to by several options."""
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other) and os.path.isfile(one)
    return os.path.realpath(one) == os.path.realpath(other)


def _holds_something_else(path: str) -> bool:
    """Whether there is a file that does not begin as models do; an empty one holds nothing."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(len(MODEL_BEGINS)) not in (b"", MODEL_BEGINS)
    except OSError:
        return True
