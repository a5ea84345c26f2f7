"""A model as one file: class, constructor arguments and names as JSON, parameters as arrays; no pickle.

    header   {"class": "HMM", "configuration": {argument: value}, "learned": {vocabularies and the like}}
    arrays   the parameters, bit for bit

A constructor argument that is a function (features of a CRF) cannot go into a file. Its name is written, and
``load_model`` takes the function itself as an argument of that name.

A file may come from a stranger. The constructor's type hints say what a configuration may hold, the class's table of
arrays (:mod:`trellis.models.arrays`) what its arrays must be, and whatever is wrong is a ModelFileError.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.data.archive import Archive, read_archive, write_archive
from trellis.data.files import FilePath
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, ModelFileError, TrellisError, UnknownNameError
from trellis.models.estimator import Estimator
from trellis.models.hints import check_hints

_CLASSES = {
    "Aggregator": "trellis.tasks.aggregate",
    "Aligner": "trellis.tasks.align",
    "AlignmentModel": "trellis.models.alignment.model",
    "ArcLabeller": "trellis.models.arc_labeller",
    "ArcParser": "trellis.models.arc_parser",
    "CCM": "trellis.learn.ccm",
    "CRF": "trellis.models.crf",
    "CoDL": "trellis.learn.codl",
    "DMV": "trellis.models.dmv",
    "Extractor": "trellis.tasks.extract",
    "GraphPairs": "trellis.models.matching.graph_pairs",
    "GE": "trellis.learn.ge",
    "HMM": "trellis.models.hmm",
    "JLIS": "trellis.learn.margin.jlis",
    "LCLR": "trellis.learn.margin.lclr",
    "LatentSSVM": "trellis.learn.margin.latent",
    "MIRA": "trellis.learn.margin.mira",
    "Matcher": "trellis.tasks.match",
    "MaxEnt": "trellis.models.maxent",
    "MultiView": "trellis.learn.multi_view",
    "NaiveBayes": "trellis.models.naive_bayes",
    "Perceptron": "trellis.learn.margin.perceptron",
    "SSVM": "trellis.learn.margin.ssvm",
    "SemiCRF": "trellis.models.semi_crf",
    "StringPairs": "trellis.models.matching.string_pairs",
    "UEM": "trellis.learn.uem",
    "Parser": "trellis.tasks.parse",
    "Relater": "trellis.tasks.relate",
    "RelationModel": "trellis.models.relation_model",
    "Transfer": "trellis.tasks.transfer",
    "Tagger": "trellis.tasks.tag",
    "TreeInducer": "trellis.tasks.induce_trees",
    "VoteHMM": "trellis.models.vote_hmm",
}
"""Class -> module, of everything that ``load_model`` brings back."""

_FUNCTION = "function"


class SavedEstimator(Estimator):
    """An estimator with ``save`` and ``load``. Subclasses say what they learned, and take it back.

    not_saved : arguments of the constructor that concern a run and not what was learned: files do not have them
    """

    not_saved: ClassVar[tuple[str, ...]] = ("n_jobs", "engine", "memory", "verbose")

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and arrays that, with the constructor's arguments, are the whole state."""
        raise NotImplementedError

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of :meth:`learned`; arrays go through :func:`trellis.models.arrays.check_arrays` first."""
        raise NotImplementedError

    def save(self, path: FilePath) -> None:
        """Write the model to one file, for :func:`trellis.models.load_model`."""
        write_archive(path, *to_archive(self))

    @classmethod
    def load(cls, path: FilePath, **arguments: Any) -> Self:
        """Read a model of this class, as :func:`load_model` does."""
        archive = read_archive(path)
        with reading(path):
            kind = _class(archive.header)
        if not issubclass(kind, cls):
            raise ModelFileError(f"{path}: holds {kind.__name__!r}, not {cls.__name__!r}")
        made: Self = _loaded(path, archive, arguments)
        return made


def to_archive(model: SavedEstimator) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a trained model, for its own file or for a part of a larger one."""
    names, arrays = model.learned()
    own = model.get_params(deep=False)
    configuration = {name: _json(value) for name, value in own.items() if name not in model.not_saved}
    check_hints(_constructor(type(model)), configuration, "argument")
    return {"class": type(model).__name__, "configuration": configuration, "learned": names}, arrays


def from_archive(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], **arguments: Any) -> Any:
    """The model of :func:`to_archive`; ``arguments`` of the constructor take the place of those in the file."""
    made = _class(header)
    configuration = check_hints(_constructor(made), header["configuration"], "argument")
    # An argument that files do not have, and that has no default, is what ``restore`` puts there.
    wanting = {n: None for n, default in made._parameter_defaults().items() if default is inspect.Parameter.empty}
    model = made(**{**wanting, **configuration, **arguments})
    model.restore(header["learned"], arrays)
    return model


def _constructor(kind: Any) -> Any:
    """What has the hints of a class's arguments: fields, which may be of other modules, or ``__init__``."""
    return kind if "__dataclass_fields__" in vars(kind) else kind.__init__


def _class(header: Mapping[str, Any]) -> Any:
    name = header.get("class")
    if name not in _CLASSES:
        raise ModelFileError(f"it holds {name!r}, which this Trellis does not know; it knows {sorted(_CLASSES)}")
    return getattr(import_module(_CLASSES[name]), name)


def load_model(path: FilePath, **arguments: Any) -> Any:
    """Read a model that ``save`` wrote: it predicts the same bits.

    arguments : of the constructor, in place of those in the file; functions must be given, since files cannot hold them

    >>> import os, tempfile
    >>> from trellis.models import HMM, load_model
    >>> hmm = HMM(min_count=1, unknown=None).fit([["the", "dog", "barks"]], [["DET", "NOUN", "VERB"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tagger.trellis")
    ...     hmm.save(path)
    ...     load_model(path).predict([["the", "dog"]])
    [['DET', 'NOUN']]
    """
    return _loaded(path, read_archive(path), arguments)


def _loaded(path: FilePath, archive: Archive, arguments: Mapping[str, Any]) -> Any:
    with reading(path):
        known = _class(archive.header)._parameter_defaults()
    for argument in arguments:
        if argument not in known:
            raise UnknownNameError(f"argument of {archive.header['class']}", argument, known)
    with reading(path):
        return from_archive(archive.header, archive.arrays, **arguments)


@contextmanager
def reading(path: FilePath) -> Iterator[None]:
    """Whatever the content of a file makes go wrong is a ModelFileError that names the file."""
    try:
        yield
    except TrellisError as error:
        raise ModelFileError(f"{path}: damaged or written by another version of Trellis: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: damaged or written by another version of Trellis ({error!r})") from error


def vocabulary_to_json(vocabulary: Vocabulary) -> dict[str, Any]:
    """Names, kind and the unknown one."""
    return {"names": list(vocabulary.names), "kind": vocabulary.kind, "unknown": vocabulary.unknown}


def vocabulary_from_json(parsed: Mapping[str, Any]) -> Vocabulary:
    """The inverse of :func:`vocabulary_to_json`."""
    check_hints(Vocabulary.__init__, parsed, "key")
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
