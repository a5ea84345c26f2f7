"""All errors and warnings of Trellis, in one place.

A message says what was found, where, and what to do. Every error that a user can cause is a
:class:`TrellisError`; any other exception is a bug in Trellis.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Hashable, Iterable
from pathlib import Path
from typing import Any


class TrellisError(Exception):
    """Base class of all errors that Trellis raises. Errors can be pickled and sent between processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.args, self.__dict__)


def _remade(kind: type[TrellisError], arguments: tuple[Any, ...], attributes: dict[str, Any]) -> TrellisError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(attributes)
    return error


class DataError(TrellisError, ValueError):
    """A file, a batch or an argument is invalid."""

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None) -> None:
        self.path = None if path is None else str(path)
        self.line = line
        where = "" if path is None else f"{path}" + ("" if line is None else f", line {line}") + ": "
        super().__init__(where + message)


class DataTypeError(DataError, TypeError):
    """Data of a type that cannot be used; scikit-learn's tools expect a TypeError here."""


class UnknownNameError(DataError):
    """A label, word list, feature or key is not defined; the message suggests similar names."""

    def __init__(
        self,
        kind: str,
        name: object,
        known: Iterable[str],
        *,
        path: str | Path | None = None,
        line: int | None = None,
        within: str | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        names = sorted(map(str, known))
        where = "" if within is None else f" in {within}"
        super().__init__(f"unknown {kind} {name!r}{where}{did_you_mean(str(name), names)}", path=path, line=line)


def check_name(kind: str, name: object, known: Collection[Any], *, path: str | Path | None = None) -> None:
    """Refuse a name that is not known."""
    given: Any = name
    if not isinstance(given, Hashable) or given not in known:
        raise UnknownNameError(kind, name, known, path=path)


class ConstraintError(TrellisError, ValueError):
    """A constraint expression is invalid."""


class InfeasibleError(TrellisError, ValueError):
    """No output, or no distribution over outputs, can satisfy the constraints.

    ``instances`` are the numbers of the instances concerned, ``constraints`` the names of a smallest
    conflicting set where constraints are the cause, ``slack`` the least slack that would resolve it.
    """

    def __init__(
        self,
        message: str,
        *,
        instances: tuple[int, ...] = (),
        constraints: tuple[str, ...] = (),
        slack: float | None = None,
    ) -> None:
        self.instances = instances
        self.constraints = constraints
        self.slack = slack
        super().__init__(message)


class ShardError(TrellisError, RuntimeError):
    """Work on a shard failed; the cause is chained and the shard's instances are named."""

    def __init__(self, message: str, *, instances: range) -> None:
        self.instances = instances
        super().__init__(message)


class NotFittedError(TrellisError, ValueError, AttributeError):
    """A method that needs learned parameters was called before ``fit``."""


class ModelFileError(TrellisError, ValueError):
    """A model or checkpoint file cannot be read: it was not written by Trellis, is damaged, or has another format."""


class ConvergenceWarning(UserWarning):
    """An iterative method stopped before its tolerance was met."""


def counted(n: int, thing: str) -> str:
    """A number of things, for messages.

    >>> counted(1, "rule"), counted(2, "labelled text")
    ('1 rule', '2 labelled texts')
    """
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


SHOWN = 8
"""So many known names are listed."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The tail of a message about a mistyped name: near matches first, else what there is.

    >>> did_you_mean("TITEL", ["AUTHOR", "TITLE"])
    "; did you mean 'TITLE'?"
    """
    names = list(known)
    folded = {n.casefold(): n for n in names}
    near = [folded[m] for m in difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.6)]
    if near:
        return "; did you mean " + " or ".join(map(repr, near)) + "?"
    if not names:
        return "; none are defined"
    listed = ", ".join(map(repr, names[:SHOWN])) + (", ..." if len(names) > SHOWN else "")
    return f"; known: {listed}"
