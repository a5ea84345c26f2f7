"""Checkpoints: the state of a run between two rounds in one file, from which it resumes bit-identically.

A round is a function of the parameters, of the step's state and of the random generator, so these are what a checkpoint
holds; the best restart so far goes along.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.data.archive import read_archive, reading, write_archive
from trellis.data.arrays import ArrayOf, check_arrays, split_arrays
from trellis.data.files import FilePath
from trellis.data.hints import check_hints
from trellis.data.ragged import FloatArray
from trellis.errors import DataError, ModelFileError
from trellis.loop.history import History
from trellis.loop.step import Step


@dataclass
class Checkpoint:
    """A run after some rounds.

    parameters : of the model now;  kept : the best so far;  supervised : of the labelled data alone, for β
    state : of the step
    criterion : what ``kept`` scored: the objective, or the development metric
    """

    restart: int
    parameters: dict[str, FloatArray]
    kept: dict[str, FloatArray]
    supervised: dict[str, FloatArray] | None
    rng_state: Any
    state: Any
    history: History = field(default_factory=History)
    criterion: float = -np.inf
    best_round: int = -1
    converged: bool = False
    best: Checkpoint | None = None


def write_checkpoint(path: FilePath, run: Checkpoint, best: Checkpoint | None, fingerprint: dict[str, Any]) -> None:
    """Replace the file by the state of this run (and of the best restart before it)."""
    header: dict[str, Any] = {"class": "Checkpoint", "fingerprint": fingerprint, "best": None}
    arrays: dict[str, NDArray[Any]] = {}
    header["run"] = _pack("run", run, arrays)
    if best is not None:
        header["best"] = _pack("best", best, arrays)
    write_archive(path, header, arrays)


def read_checkpoint(path: FilePath, fingerprint: dict[str, Any], step: Step[Any]) -> Checkpoint | None:
    """The run to resume; None if the file is not there yet.

    step : of this run; arrays of the file that do not fit it or its model are refused before a kernel sees them
    """
    if not Path(str(path)).exists():
        return None
    archive = read_archive(path)
    if archive.header.get("class") != "Checkpoint":
        raise ModelFileError(f"{path}: is a {archive.header.get('class')!r} file, not a checkpoint")
    with reading(path):
        check_hints(_Header, archive.header, "entry")
        theirs = archive.header["fingerprint"]
        wanted = json.loads(json.dumps(fingerprint))
        changed = sorted(key for key in {*theirs, *wanted} if theirs.get(key) != wanted.get(key))
    if changed:
        raise ModelFileError(
            f"{path}: was written by a run with different {', '.join(changed)}; resume with the same settings and "
            "data, or remove the file to start again"
        )
    with reading(path):
        entries = {name: entry for name in ("run", "best") if (entry := archive.header[name]) is not None}
        own = split_arrays(archive.arrays, [f"{name}." for name in entries])
        run = _unpack("run", entries["run"], own["run."], step)
        if "best" in entries:
            run.best = _unpack("best", entries["best"], own["best."], step)
    return run


class _GeneratorState(TypedDict):
    """The state of NumPy's random generator."""

    bit_generator: str
    state: dict[str, int]
    has_uint32: int
    uinteger: int


class _Entry(TypedDict):
    """What the header keeps of a run; of tables the names of their arrays."""

    restart: int
    criterion: float | None
    best_round: int
    converged: bool
    rng_state: _GeneratorState
    history: list[dict[str, Any]]
    parameters: list[str]
    kept: list[str]
    supervised: list[str] | None
    state: list[str]


_Header = TypedDict(
    "_Header", {"class": str, "fingerprint": dict[str, str], "run": _Entry, "best": _Entry | None}
)  # fmt: skip
_NUMBERS = ("restart", "criterion", "best_round", "converged", "rng_state")
_TABLES = ("parameters", "kept", "supervised", "state")


def _pack(prefix: str, run: Checkpoint, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {name: getattr(run, name) for name in _NUMBERS}
    entry["criterion"] = float(run.criterion) if np.isfinite(run.criterion) else None
    entry["history"] = run.history.to_json()
    tables = {
        "parameters": run.parameters, "kept": run.kept, "supervised": run.supervised, "state": run.state.arrays()
    }  # fmt: skip
    for table, values in tables.items():
        entry[table] = None if values is None else list(values)
        arrays.update({f"{prefix}.{table}.{name}": value for name, value in (values or {}).items()})
    return entry


def _unpack(prefix: str, entry: dict[str, Any], arrays: dict[str, NDArray[Any]], step: Step[Any]) -> Checkpoint:
    check_hints(_Entry, entry, "figure")
    present = [table for table in _TABLES if entry[table] is not None]
    by_table = split_arrays(arrays, [f"{table}." for table in present])
    tables: dict[str, Any] = {table: by_table[f"{table}."] if table in present else None for table in _TABLES}
    for table in present:
        if set(tables[table]) != set(entry[table]):
            raise DataError(f"{table} must be the arrays {sorted(entry[table])}, and are {sorted(tables[table])}")
    own = {name: ArrayOf(value.dtype, value.shape) for name, value in step.model.parameters().items()}
    for name in ("kept", "supervised", "parameters"):
        if tables[name] is not None:
            step.model.set_parameters(check_arrays(own, tables[name]))
    tables["state"] = step.read_state(tables["state"])
    history = History.from_json(entry["history"])
    if entry["restart"] < 0 or (not len(history) and (entry["converged"] or prefix == "best")):
        raise DataError("the counts of rounds are inconsistent")
    np.random.default_rng().bit_generator.state = entry["rng_state"]  # raises where it is none
    numbers = {name: entry[name] for name in _NUMBERS}
    numbers["criterion"] = -np.inf if numbers["criterion"] is None else numbers["criterion"]
    return Checkpoint(**numbers, **tables, history=history)
