"""The state of a run between two rounds: written to one file, gone on from to the same bits.

A round is a function of the parameters, of the duals it starts from (with what the solver remembers) and of the random
generator, so these are what a checkpoint holds; the best restart so far goes along.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, is_dataclass, replace
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
from trellis.models.row_counts import RowCounts
from trellis.models.saving import reading
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
        return RowCounts.of_table(unflattened(like.table(), arrays, name))
    if not is_dataclass(like):
        if name not in arrays or arrays[name].shape != np.shape(like):
            raise DataError(
                f"the checkpoint's statistics{name} must have shape {np.shape(like)}: they are of another run"
            )
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
        theirs = archive.header["fingerprint"]
        wanted = json.loads(json.dumps(fingerprint))
        changed = sorted(key for key in {*theirs, *wanted} if theirs.get(key) != wanted.get(key))
    if changed:
        raise ModelFileError(
            f"{path}: was written by a run with other {', '.join(changed)}; go on with the same settings and data, "
            "or remove the file to start anew"
        )
    with reading(path):
        run = _unpack("run", archive.header["run"], archive.arrays, model, duals)
        if archive.header["best"] is not None:
            run.best = _unpack("best", archive.header["best"], archive.arrays, model, duals)
    return run


class _Entry(TypedDict):
    """What the header keeps of a run; of tables the names, of duals how many arrays there are."""

    restart: int
    criterion: float | None
    best_round: int
    n_steps: int
    converged: bool
    rng_state: dict[str, Any]
    history: list[dict[str, Any]]
    parameters: list[str]
    kept: list[str]
    supervised: list[str] | None
    statistics: list[str] | None
    duals: dict[str, Any] | None


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
        kept = [c is not None for c in run.duals.memory]
        entry["duals"] = {"sparsity": len(run.duals.sparsity), "memory": kept}
        for i, value in enumerate(run.duals.sparsity):
            arrays[f"{prefix}.duals.sparsity{i}"] = value
        for i, memory in enumerate(run.duals.memory):
            if memory is not None:
                arrays[f"{prefix}.duals.memory{i}"] = memory
    return entry


def _unpack(
    prefix: str, entry: dict[str, Any], arrays: dict[str, NDArray[Any]], model: Model, like: Duals
) -> Checkpoint:
    check_hints(_Entry, entry, "figure")
    tables = {
        table: None if entry[table] is None else {n: arrays[f"{prefix}.{table}.{n}"] for n in entry[table]}
        for table in _TABLES
    }
    own = model.parameters()
    for name in ("kept", "supervised", "parameters"):
        table = tables[name]
        if table is not None:
            of = {n: ArrayOf(value.dtype, value.shape) for n, value in own.items()}
            model.set_parameters(check_arrays(of, table))
    for name, value in (tables["statistics"] or {}).items():
        ArrayOf(np.float64, value.shape, low=0.0).check(f"statistics{name}", value, {})
    duals = None
    if entry["duals"] is not None:
        duals = Duals(
            arrays[f"{prefix}.duals.row"],
            tuple(arrays[f"{prefix}.duals.sparsity{i}"] for i in range(entry["duals"]["sparsity"])),
            tuple(
                arrays[f"{prefix}.duals.memory{i}"] if kept else None for i, kept in enumerate(entry["duals"]["memory"])
            ),
        )
        duals = _checked_duals(duals, like)
    history = History.from_json(entry["history"])
    if min(entry["restart"], entry["n_steps"]) < 0 or (not len(history) and (entry["converged"] or prefix == "best")):
        raise DataError("counts of rounds that cannot be")
    np.random.default_rng().bit_generator.state = entry["rng_state"]  # raises where it is none
    numbers = {name: entry[name] for name in _NUMBERS}
    numbers["criterion"] = -np.inf if numbers["criterion"] is None else numbers["criterion"]
    return Checkpoint(**numbers, **tables, history=history, duals=duals)  # type: ignore[arg-type]


def _checked_duals(duals: Duals, like: Duals) -> Duals:
    """The same as kernels want them; those of other rows than these are refused.

    Hessians may be of any length, since a wrong one is dropped.
    """
    few = any(c is not None for c in like.memory)  # few dual steps keep their speed and γ there, and levels
    given = [duals.row, *duals.sparsity, *(c for c in duals.memory if c is not None)]
    shapes: list[Any] = [a.shape for a in (like.row, *like.sparsity, *(c for c in like.memory if c is not None))]
    if not few:
        shapes += [("any",)] * (len(given) - len(shapes))
    if like.memory and len(duals.memory) != len(like.memory):
        raise DataError(f"expected the memory of {len(like.memory)} shards but found that of {len(duals.memory)}")
    if len(duals.sparsity) != len(like.sparsity) or len(given) != len(shapes):
        raise DataError(f"expected {len(shapes)} arrays of duals but found {len(given)}")
    kinds = [np.float32 if few and one.dtype == np.float32 else np.float64 for one in given]
    made = iter([ArrayOf(k, s).check("duals", one, {}) for k, s, one in zip(kinds, shapes, given, strict=True)])
    checked = Duals(
        next(made), tuple(next(made) for _ in duals.sparsity),
        tuple(None if c is None else next(made) for c in duals.memory),
    )  # fmt: skip
    if few and not np.all((np.asarray(checked.memory[0]) > 1e-12) & (np.asarray(checked.memory[0]) < 1e12)):
        raise DataError("few dual steps with a speed or γ that cannot be")
    return checked
