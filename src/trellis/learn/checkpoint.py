"""The state of a run between two rounds: written to one file, gone on from to the same bits.

A round is a function of the parameters, of the duals it starts from (with the solver's curvature) and of the random
generator, so these are what a checkpoint holds; the best restart so far goes along.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.archive import read_archive, write_archive
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray
from trellis.errors import ModelFileError
from trellis.learn.history import History
from trellis.models.row_counts import RowCounts
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


_TABLES = ("parameters", "kept", "supervised", "statistics")


def flattened(statistics: Any, name: str = "") -> dict[str, FloatArray]:
    """The arrays of a model's statistics by the names of their fields."""
    if isinstance(statistics, RowCounts):
        return {name: statistics.table()}
    if not is_dataclass(statistics):
        return {name: np.asarray(statistics, dtype=np.float64)}
    found: dict[str, FloatArray] = {}
    for one in fields(statistics):
        found.update(flattened(getattr(statistics, one.name), f"{name}.{one.name}"))
    return found


def unflattened(like: Any, arrays: dict[str, FloatArray], name: str = "") -> Any:
    """Statistics of the same class as ``like``, from their arrays."""
    if isinstance(like, RowCounts):
        return RowCounts.of_table(arrays[name])
    if not is_dataclass(like):
        return arrays[name] if isinstance(like, np.ndarray) else float(arrays[name])
    values = {f.name: unflattened(getattr(like, f.name), arrays, f"{name}.{f.name}") for f in fields(like)}
    return replace(like, **values)  # type: ignore[type-var]


def write_checkpoint(path: FilePath, run: Checkpoint, best: Checkpoint | None, fingerprint: dict[str, Any]) -> None:
    """Replace the file by the state of this run (and of the best restart before it)."""
    header: dict[str, Any] = {"class": "Checkpoint", "fingerprint": fingerprint, "best": None}
    arrays: dict[str, NDArray[Any]] = {}
    header["run"] = _pack("run", run, arrays)
    if best is not None:
        header["best"] = _pack("best", best, arrays)
    write_archive(path, header, arrays)


def read_checkpoint(path: FilePath, fingerprint: dict[str, Any]) -> Checkpoint | None:
    """The state to go on from; None if the file is not there yet."""
    if not Path(str(path)).exists():
        return None
    archive = read_archive(path)
    if archive.header.get("class") != "Checkpoint":
        raise ModelFileError(f"{path}: is a {archive.header.get('class')!r} file, not a checkpoint")
    theirs = archive.header["fingerprint"]
    wanted = json.loads(json.dumps(fingerprint))
    changed = sorted(key for key in {*theirs, *wanted} if theirs.get(key) != wanted.get(key))
    if changed:
        raise ModelFileError(
            f"{path}: was written by a run with other {', '.join(changed)}; go on with the same settings and data, "
            "or remove the file to start anew"
        )
    run = _unpack("run", archive.header["run"], archive.arrays)
    if archive.header["best"] is not None:
        run.best = _unpack("best", archive.header["best"], archive.arrays)
    return run


_NUMBERS = ("restart", "criterion", "best_round", "n_steps", "converged", "rng_state")


def _pack(prefix: str, run: Checkpoint, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {name: getattr(run, name) for name in _NUMBERS}
    entry["criterion"] = float(run.criterion) if np.isfinite(run.criterion) else None
    entry["history"] = run.history.to_json()
    for table in _TABLES:
        values = getattr(run, table)
        entry[table] = None if values is None else list(values)
        for name, value in (values or {}).items():
            arrays[f"{prefix}.{table}.{name}"] = value
    entry["duals"] = None
    if run.duals is not None:
        arrays[f"{prefix}.duals.row"] = run.duals.row
        kept = [c is not None for c in run.duals.curvature]
        entry["duals"] = {"sparsity": len(run.duals.sparsity), "curvature": kept}
        for i, value in enumerate(run.duals.sparsity):
            arrays[f"{prefix}.duals.sparsity{i}"] = value
        for i, curvature in enumerate(run.duals.curvature):
            if curvature is not None:
                arrays[f"{prefix}.duals.curvature{i}"] = curvature
    return entry


def _unpack(prefix: str, entry: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Checkpoint:
    tables = {
        table: None if entry[table] is None else {n: arrays[f"{prefix}.{table}.{n}"] for n in entry[table]}
        for table in _TABLES
    }
    duals = None
    if entry["duals"] is not None:
        duals = Duals(
            arrays[f"{prefix}.duals.row"],
            tuple(arrays[f"{prefix}.duals.sparsity{i}"] for i in range(entry["duals"]["sparsity"])),
            tuple(
                arrays[f"{prefix}.duals.curvature{i}"] if kept else None
                for i, kept in enumerate(entry["duals"]["curvature"])
            ),
        )
    numbers = {name: entry[name] for name in _NUMBERS}
    numbers["criterion"] = -np.inf if numbers["criterion"] is None else numbers["criterion"]
    return Checkpoint(**numbers, **tables, history=History.from_json(entry["history"]), duals=duals)  # type: ignore[arg-type]
