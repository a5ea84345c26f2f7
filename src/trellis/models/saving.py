"""A model as one file: class, constructor arguments and names as JSON, parameters as arrays; no pickle.

    header   {"class": "HMM", "configuration": {argument: value}, "learned": {vocabularies and the like}}
    arrays   the parameters, bit for bit

A constructor argument that is a function (features of a CRF) cannot go into a file. Its name is written, and
``load_model`` takes the function itself as an argument of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trellis.data.archive import read_archive, write_archive
from trellis.data.files import FilePath
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, ModelFileError, UnknownNameError
from trellis.models.estimator import Estimator

_CLASSES = {
    "Aligner": "trellis.tasks.align",
    "AlignmentModel": "trellis.models.alignment.model",
    "CRF": "trellis.models.crf",
    "HMM": "trellis.models.hmm",
    "MaxEnt": "trellis.models.maxent",
    "NaiveBayes": "trellis.models.naive_bayes",
}
"""Class -> module, of everything that ``load_model`` brings back."""

_FUNCTION = "function"


class _Saved(Protocol):
    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]: ...
    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None: ...


class SavedEstimator(Estimator):
    """An estimator with ``save``. Subclasses say what they learned, and take it back."""

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and arrays that, with the constructor's arguments, are the whole state."""
        raise NotImplementedError

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of :meth:`learned`."""
        raise NotImplementedError

    def save(self, path: FilePath) -> None:
        """Write the model to one file, for :func:`trellis.models.load_model`."""
        write_archive(path, *to_archive(self))


def to_archive(model: _Saved) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a trained model, for its own file or for a part of a larger one."""
    names, arrays = model.learned()
    configuration = {name: _json(value) for name, value in model.get_params(deep=False).items()}
    return {"class": type(model).__name__, "configuration": configuration, "learned": names}, arrays


def from_archive(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], *, where: str = "archive", **functions: Any
) -> Any:
    """The model of :func:`to_archive`; ``functions`` are the constructor's arguments that were functions."""
    name = header.get("class")
    if name not in _CLASSES:
        raise ModelFileError(f"{where}: holds {name!r}, which this Trellis does not know; it knows {sorted(_CLASSES)}")
    configuration = dict(header["configuration"])
    for argument in functions:
        if argument not in configuration:
            raise UnknownNameError(f"argument of {name}", argument, configuration)
    model = getattr(import_module(_CLASSES[name]), name)(**{**configuration, **functions})
    model.restore(header["learned"], arrays)
    return model


def load_model(path: FilePath, **functions: Callable[..., Any]) -> Any:
    """Read a model that ``save`` wrote: it predicts the same bits.

    >>> import os, tempfile
    >>> from trellis.models import HMM, load_model
    >>> hmm = HMM(min_count=1, unknown=None).fit([["the", "dog", "barks"]], [["DET", "NOUN", "VERB"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tagger.trellis")
    ...     hmm.save(path)
    ...     load_model(path).predict([["the", "dog"]])
    [['DET', 'NOUN']]
    """
    archive = read_archive(path)
    try:
        return from_archive(archive.header, archive.arrays, where=str(path), **functions)
    except (KeyError, TypeError, IndexError) as error:
        raise ModelFileError(f"{path}: damaged or written by another version of Trellis ({error!r})") from error


def vocabulary_to_json(vocabulary: Vocabulary) -> dict[str, Any]:
    """Names, kind and the unknown one."""
    return {"names": list(vocabulary.names), "kind": vocabulary.kind, "unknown": vocabulary.unknown}


def vocabulary_from_json(parsed: Mapping[str, Any]) -> Vocabulary:
    """The inverse of :func:`vocabulary_to_json`."""
    return Vocabulary(parsed["names"], kind=parsed["kind"], unknown=parsed["unknown"])


def missing_function(value: Any) -> str | None:
    """The name that a file holds in place of a function, where a constructor argument is such."""
    return value[_FUNCTION] if isinstance(value, Mapping) and set(value) == {_FUNCTION} else None


def _json(value: Any) -> Any:
    """A constructor argument as JSON keeps it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _json(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(_json(part) for part in value)
    if isinstance(value, Vocabulary):
        return list(value.names)
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return {_FUNCTION: f"{getattr(value, '__module__', '')}.{name}"}
    try:
        return [_json(part) for part in value]
    except TypeError:
        raise DataError(f"a constructor argument cannot be saved: {value!r} is neither JSON nor a function") from None
