"""The state of a run between two rounds: written to one file, gone on from to the same bits.

A round is a function of the parameters, of the duals it starts from (with what the solver remembers) and of the random
generator, so these are what a checkpoint holds; the best restart so far goes along.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.data.archive import read_archive, write_archive
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray
from trellis.errors import DataError, ModelFileError
from trellis.learn.history import History
from trellis.models.arrays import ArrayOf, check_arrays
from trellis.models.hints import check_hints
from trellis.models.model import Model
from trellis.models.saving import reading, split_arrays
from trellis.projection import Duals


@dataclass
class Checkpoint:
    """A run after some rounds.

    parameters : of the model now;  kept : the best so far;  supervised : of the labelled data alone, for β
    statistics : of stepwise EM, which forgets slowly
    criterion : what ``kept`` scored: the objective, or the development metric
    """

    restart: int
    parameters: dict[str, FloatArray]
    kept: dict[str, FloatArray]
    supervised: dict[str, FloatArray] | None
    rng_state: Any
    history: History = field(default_factory=History)
    duals: Duals | None = None
    criterion: float = -np.inf
    best_round: int = -1
    n_steps: int = 0
    converged: bool = False
    best: Checkpoint | None = None
    statistics: dict[str, FloatArray] | None = None


def write_checkpoint(path: FilePath, run: Checkpoint, best: Checkpoint | None, fingerprint: dict[str, Any]) -> None:
    """Replace the file by the state of this run (and of the best restart before it)."""
    header: dict[str, Any] = {"class": "Checkpoint", "fingerprint": fingerprint, "best": None}
    arrays: dict[str, NDArray[Any]] = {}
    header["run"] = _pack("run", run, arrays)
    if best is not None:
        header["best"] = _pack("best", best, arrays)
    write_archive(path, header, arrays)


def read_checkpoint(path: FilePath, fingerprint: dict[str, Any], model: Model, duals: Duals) -> Checkpoint | None:
    """The state to go on from; None if the file is not there yet.

    model, duals : of this run; arrays of the file that are unlike theirs are refused before a kernel sees them
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
            f"{path}: was written by a run with other {', '.join(changed)}; go on with the same settings and data, "
            "or remove the file to start anew"
        )
    with reading(path):
        entries = {name: entry for name in ("run", "best") if (entry := archive.header[name]) is not None}
        own = split_arrays(archive.arrays, [f"{name}." for name in entries])
        run = _unpack("run", entries["run"], own["run."], model, duals)
        if "best" in entries:
            run.best = _unpack("best", entries["best"], own["best."], model, duals)
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
    n_steps: int
    converged: bool
    rng_state: _GeneratorState
    history: list[dict[str, Any]]
    parameters: list[str]
    kept: list[str]
    supervised: list[str] | None
    statistics: list[str] | None
    duals: list[str] | None


_Header = TypedDict(
    "_Header", {"class": str, "fingerprint": dict[str, str], "run": _Entry, "best": _Entry | None}
)  # fmt: skip
_NUMBERS = ("restart", "criterion", "best_round", "n_steps", "converged", "rng_state")
_TABLES = ("parameters", "kept", "supervised", "statistics", "duals")


def _pack(prefix: str, run: Checkpoint, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {name: getattr(run, name) for name in _NUMBERS}
    entry["criterion"] = float(run.criterion) if np.isfinite(run.criterion) else None
    entry["history"] = run.history.to_json()
    for table in _TABLES:
        values = getattr(run, table)
        values = values.arrays() if isinstance(values, Duals) else values
        entry[table] = None if values is None else list(values)
        arrays.update({f"{prefix}.{table}.{name}": value for name, value in (values or {}).items()})
    return entry


def _unpack(
    prefix: str, entry: dict[str, Any], arrays: dict[str, NDArray[Any]], model: Model, like: Duals
) -> Checkpoint:
    check_hints(_Entry, entry, "figure")
    present = [table for table in _TABLES if entry[table] is not None]
    by_table = split_arrays(arrays, [f"{table}." for table in present])
    tables: dict[str, Any] = {table: by_table[f"{table}."] if table in present else None for table in _TABLES}
    for table in present:
        if set(tables[table]) != set(entry[table]):
            raise DataError(f"{table} must be the arrays {sorted(entry[table])}, and are {sorted(tables[table])}")
    own = {name: ArrayOf(value.dtype, value.shape) for name, value in model.parameters().items()}
    for name in ("kept", "supervised", "parameters"):
        if tables[name] is not None:
            model.set_parameters(check_arrays(own, tables[name]))
    for name, value in (tables["statistics"] or {}).items():
        ArrayOf(np.float64, value.shape, low=0.0).check(f"statistics{name}", value, {})
    tables["duals"] = None if tables["duals"] is None else _checked_duals(tables["duals"], like)
    history = History.from_json(entry["history"])
    if min(entry["restart"], entry["n_steps"]) < 0 or (not len(history) and (entry["converged"] or prefix == "best")):
        raise DataError("counts of rounds that cannot be")
    np.random.default_rng().bit_generator.state = entry["rng_state"]  # raises where it is none
    numbers = {name: entry[name] for name in _NUMBERS}
    numbers["criterion"] = -np.inf if numbers["criterion"] is None else numbers["criterion"]
    return Checkpoint(**numbers, **tables, history=history)


def _checked_duals(arrays: dict[str, NDArray[Any]], like: Duals) -> Duals:
    """Duals as kernels want them; those of other rows than these are refused.

    What solvers remember may be of any length, since a wrong Hessian is dropped; but few dual steps keep their speed
    and γ there, and levels.
    """
    few = any(one is not None for one in like.memory)
    n_shards = len(like.memory) or sum(name.startswith("memory") for name in arrays)
    shapes: dict[str, Any] = {name: one.shape for name, one in like.arrays().items()}
    if not few:
        shapes.update(
            {name: (f"numbers in {name}",) for name in map("memory{}".format, range(n_shards)) if name in arrays}
        )
    single = {name for name, one in arrays.items() if few and one.dtype == np.float32}
    table = {n: ArrayOf(np.float32 if n in single else np.float64, shape) for n, shape in shapes.items()}
    duals = Duals.of_arrays(check_arrays(table, arrays), n_shards)
    if few and not np.all((np.asarray(duals.memory[0]) > 1e-12) & (np.asarray(duals.memory[0]) < 1e12)):
        raise DataError("few dual steps with a speed or γ that cannot be")
    return duals
