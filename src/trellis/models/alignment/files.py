"""An alignment model as names and arrays for an archive, and back, bit for bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.models.alignment.model import AlignmentModel
from trellis.models.alignment.pair_table import PairTable
from trellis.models.alignment.places import Places
from trellis.structures.kernels.align_shard import Tables


def learned_arrays(model: AlignmentModel) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What a file holds of a model."""
    names = {
        "kind": model.kind,
        "p_null": model.p_null,
        "concentration": model.concentration,
        "variational": model.variational,
        "reach": model.reach,
        "n_targets": model.table.n_targets,
    }
    arrays: dict[str, NDArray[Any]] = {
        "row_offsets": model.table.row_offsets,
        "row_targets": model.table.row_targets,
        **model.tables._asdict(),
    }
    for k, places in enumerate(model.places):
        arrays[f"jump{k}"], arrays[f"first{k}"] = places.jump, places.first
    return names, arrays


def restored_model(names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> AlignmentModel:
    """The model of a file."""
    table = PairTable(
        np.asarray(arrays["row_offsets"], np.int64), np.asarray(arrays["row_targets"], np.int32), names["n_targets"]
    )
    settings = (names[name] for name in ("kind", "p_null", "concentration", "variational", "reach"))
    model = AlignmentModel(table, *settings)
    model.tables = Tables(**{name: arrays[name] for name in Tables._fields})
    model.places = (Places(arrays["jump0"], arrays["first0"]), Places(arrays["jump1"], arrays["first1"]))
    return model
