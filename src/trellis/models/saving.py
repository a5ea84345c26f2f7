"""A model as one file: class, constructor arguments and names as JSON, parameters as arrays; no pickle.

    header   {"class": "HMM", "configuration": {argument: value}, "learned": {vocabularies and the like}}
    arrays   the parameters, bit for bit

A constructor argument that is a function (features of a CRF) cannot go into a file. Its name is written, and
``load_model`` takes the function itself as an argument of that name.

A file may come from an untrusted source. Each class declares what its file may hold: constructor arguments and their
type hints (all but ``not_saved``), the entries of ``saved``, and its table of arrays
(:mod:`trellis.data.arrays`). Anything else in a file is a ModelFileError.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint
from trellis.data.archive import Archive, read_archive, reading, write_archive
from trellis.data.arrays import ArrayOf, check_arrays, split_arrays
from trellis.data.files import FilePath
from trellis.data.hints import check_hints, check_table, hints_of
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, ModelFileError, TrellisError, check_name
from trellis.models.estimator import Estimator
from trellis.models.state import Entry, Member

_CLASSES = {
    "AlignmentModel": "trellis.models.alignment.model",
    "ArcLabeller": "trellis.models.arc_labeller",
    "ArcParser": "trellis.models.arc_parser",
    "CCM": "trellis.learn.ccm",
    "ContrastiveEstimation": "trellis.learn.contrastive",
    "CRF": "trellis.models.crf",
    "CoDL": "trellis.learn.codl",
    "DMV": "trellis.models.dmv",
    "GraphPairs": "trellis.models.matching.graph_pairs",
    "GE": "trellis.learn.ge",
    "HMM": "trellis.models.hmm",
    "JLIS": "trellis.learn.margin.jlis",
    "LCLR": "trellis.learn.margin.lclr",
    "LatentSSVM": "trellis.learn.margin.latent",
    "MIRA": "trellis.learn.margin.perceptron",
    "MaxEnt": "trellis.models.maxent",
    "MultiView": "trellis.learn.multi_view",
    "NaiveBayes": "trellis.models.naive_bayes",
    "Perceptron": "trellis.learn.margin.perceptron",
    "SSVM": "trellis.learn.margin.ssvm",
    "SemiCRF": "trellis.models.semi_crf",
    "StringPairs": "trellis.models.matching.string_pairs",
    "UEM": "trellis.learn.uem",
    "RelationModel": "trellis.models.relation_model",
    "VoteHMM": "trellis.models.vote_hmm",
}
"""Class -> module, of every class of the library that ``load_model`` brings back; applications declare theirs."""

_NEURAL = (
    "BiLSTM", "NeuralCRF", "NeuralClassifier", "NeuralParser", "NeuralParts", "NeuralRelations", "Pretrained",
    "WordVectors",
)  # fmt: skip
"""Classes of :mod:`trellis.neural`, which files may hold as well; they need PyTorch."""

_FUNCTION = "function"
_subclasses: ContextVar[dict[str, Any]] = ContextVar("_subclasses")
"""Classes by name that the caller of ``load`` brings, beside those of Trellis."""

Header = TypedDict("Header", {"class": str, "configuration": dict[str, Any], "learned": dict[str, Any]})
"""What a file holds of a model beside its arrays."""


class SavedEstimator(Estimator):
    """An estimator with ``save`` and ``load``. Subclasses say what they learned, and take it back.

    not_saved : arguments of the constructor that concern a run or reach outside (hosts, paths, threads). They are never
        written to a file, and a file that has one is refused
    saved : entries of the file's JSON by name (:mod:`trellis.models.state`); a file with any other entry is refused
    ARRAYS : table of its arrays, which ``_saved_arrays`` gives and ``_take_arrays`` takes back
    """

    not_saved: ClassVar[tuple[str, ...]] = (
        "n_jobs", "engine", "memory", "verbose", "checkpoint", "checkpoint_every", "files",
    )  # fmt: skip
    saved: ClassVar[Mapping[str, Entry | Member]] = {}
    learned_names: ClassVar[Any] = None
    ARRAYS: ClassVar[Mapping[str, ArrayOf]] = {}

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and arrays that, with the constructor's arguments, are the whole state."""
        self._check_fitted()
        names, arrays = dict[str, Any](), dict[str, NDArray[Any]]()
        for name, entry in self.saved.items():
            if isinstance(entry, Entry):
                names[name] = entry.write(self)
                continue
            member = getattr(self, entry.attribute)
            if member is not None or not entry.optional:
                names[name], own = to_archive(member)
                arrays |= {entry.prefix + key: value for key, value in own.items()}
        return names, {**arrays, **self._saved_arrays()}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of :meth:`learned`."""
        self._check_settings()
        members = {name: entry for name, entry in self.saved.items() if isinstance(entry, Member)}
        prefixes = [entry.prefix for name, entry in members.items() if name in names]
        own = split_arrays(arrays, prefixes) if prefixes else {}
        for name, entry in self.saved.items():
            if isinstance(entry, Entry):
                entry.read(self, name, names)
            elif name in names:
                setattr(self, entry.attribute, from_archive(names[name], own[entry.prefix], entry.kinds))
            elif entry.optional:
                setattr(self, entry.attribute, None)
            else:
                raise DataError(f"it has no {name}")
        self._take_arrays({} if prefixes else arrays)

    def _saved_arrays(self) -> dict[str, NDArray[Any]]:
        """Its own arrays, as the table ``ARRAYS`` has them."""
        return dict(self.parameters()) if self.ARRAYS else {}  # type: ignore[attr-defined]

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of :meth:`_saved_arrays`, when all entries are read: arrays are checked, the rest is made."""
        checked = check_arrays(self.ARRAYS, arrays, **self._array_sizes())
        if checked:
            self.set_parameters(checked)  # type: ignore[attr-defined]

    def _array_sizes(self) -> dict[str, int]:
        """Sizes in ``ARRAYS`` that other entries give."""
        return {}

    def save(self, path: FilePath) -> None:
        """Write the model to one file, for :func:`trellis.models.load_model`."""
        write_archive(path, *to_archive(self))

    @classmethod
    def load(cls, path: FilePath, *, subclasses: Sequence[type[SavedEstimator]] = (), **arguments: Any) -> Self:
        """Read a model of this class, as :func:`load_model` does. A subclass of your own reads its own files."""
        with _known((cls, *subclasses)):
            archive = read_archive(path)
            with reading(path):
                kind = _class(archive.header)
            if not issubclass(kind, cls):
                raise ModelFileError(f"{path}: holds {kind.__name__!r}, not {cls.__name__!r}")
            made: Self = load_archive(path, archive, arguments)
            return made


def to_archive(model: SavedEstimator) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Header and arrays of a trained model, for its own file or for a part of a larger one."""
    model._check_fitted()
    kind = type(model)
    if kind.__name__ in (*known_classes(), *_NEURAL) and kind is not known_class(kind.__name__):
        raise DataError(
            f"{kind.__module__}.{kind.__qualname__} has the name of a class of Trellis, so its file would be read as "
            "one of that class: give the subclass another name"
        )
    names, arrays = model.learned()
    own = model.get_params(deep=False)
    configuration = {name: _json(value) for name, value in own.items() if name not in model.not_saved}
    header = {"class": kind.__name__, "configuration": configuration, "learned": names}
    _check_header(kind, header)
    return header, arrays


def from_archive(header: Any, arrays: Mapping[str, NDArray[Any]], kinds: Any = SavedEstimator, **arguments: Any) -> Any:
    """The model of :func:`to_archive`.

    kinds : the class that it must be of, or several; names of classes that are imported only where a file holds one
    arguments : of the constructor, in place of those in the file
    """
    check_hints(Header, header, "entry")
    several = kinds if isinstance(kinds, tuple) else (kinds,)
    made = _class(header)
    classes = tuple(known_class(kind) if kind == made.__name__ else kind for kind in several)
    if not issubclass(made, tuple(kind for kind in classes if not isinstance(kind, str))):
        wanted = " or ".join(kind if isinstance(kind, str) else kind.__name__ for kind in several)
        raise DataError(f"the model in it must be of class {wanted}, not {made.__name__}")
    _check_header(made, header)
    # An argument that files do not have, and that has no default, is what ``restore`` puts there.
    wanting = {n: None for n, default in made._parameter_defaults().items() if default is inspect.Parameter.empty}
    model = made(**{**wanting, **header["configuration"], **arguments})
    model.restore(header["learned"], arrays)
    return model


def saved_arguments(kind: Any) -> dict[str, Any]:
    """Constructor arguments that a file of this class holds, with their type hints."""
    hints = hints_of(_constructor(kind))
    return {name: hints.get(name, Any) for name in kind._parameter_defaults() if name not in kind.not_saved}


def members_to_archive(members: Mapping[str, SavedEstimator | None]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Headers of the models inside another by name, and their arrays as ``name_array``; those that are None have none.

    The inverse is :func:`members_from_archive`.
    """
    headers, arrays = dict[str, Any](), dict[str, NDArray[Any]]()
    for name, member in members.items():
        if member is not None:
            headers[name], own = to_archive(member)
            arrays.update({f"{name}_{key}": value for key, value in own.items()})
    return headers, arrays


def members_from_archive(
    headers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], kinds: Mapping[str, Any]
) -> dict[str, Any]:
    """The models of :func:`members_to_archive`; None for those that the file does not have.

    kinds : name -> the class that it must be of
    """
    present = {name: header for name, header in headers.items() if name in kinds and header is not None}
    own = split_arrays(arrays, [f"{name}_" for name in present])
    return {
        name: from_archive(present[name], own[f"{name}_"], kind) if name in present else None
        for name, kind in kinds.items()
    }


def _check_header(kind: Any, header: Mapping[str, Any]) -> None:
    check_table(saved_arguments(kind), header["configuration"], "argument")
    if kind.learned_names is not None:
        check_hints(kind.learned_names, header["learned"], "part")
    else:
        check_table({name: entry.hint for name, entry in kind.saved.items()}, header["learned"], "part")


def _constructor(kind: Any) -> Any:
    """What has the hints of a class's arguments: fields, which may be of other modules, or ``__init__``."""
    owner = next(one for one in kind.__mro__ if "__init__" in vars(one))
    return owner if "__dataclass_fields__" in vars(owner) else owner.__init__


def known_classes() -> dict[str, str]:
    """Class -> module, of everything that ``load_model`` brings back without ``subclasses``."""
    declared: dict[str, str] = import_module("trellis.apps").declared("CLASSES")
    return {**_CLASSES, **declared}


def known_class(name: str) -> Any:
    """The class of this name, which :func:`known_classes` lists, or one of :mod:`trellis.neural`."""
    return getattr(import_module("trellis.neural" if name in _NEURAL else known_classes()[name]), name)


@contextmanager
def _known(kinds: Sequence[Any]) -> Iterator[None]:
    """Let files hold these classes too, where they are not classes of Trellis."""
    token = _subclasses.set({kind.__name__: kind for kind in kinds if kind.__name__ not in known_classes()})
    try:
        yield
    finally:
        _subclasses.reset(token)


def _class(header: Mapping[str, Any]) -> Any:
    name = header.get("class")
    if name in _NEURAL or name in known_classes():
        return known_class(name)
    subclasses = _subclasses.get({})
    if name not in subclasses:
        raise ModelFileError(
            f"it holds {name!r}, which is not a class of Trellis. If it is a subclass of your own, read the file with "
            "load_model(path, subclasses=[...]); otherwise a newer Trellis may know it"
        )
    return subclasses[name]


def load_model(path: FilePath, *, subclasses: Sequence[type[SavedEstimator]] = (), **arguments: Any) -> Any:
    """Load a model that ``save`` has written.

    Its predictions are bit-identical to those of the saved model.

    Parameters
    ----------
    path : path
        Model file.
    subclasses : list of type, default=()
        Subclasses of your own that the file may contain; a file never imports anything.
    **arguments : object
        Constructor arguments that replace those in the file, such as ``n_jobs``. Functions must be given, since files
        cannot contain them.

    Returns
    -------
    estimator
        The fitted estimator.

    Examples
    --------
    >>> import os, tempfile
    >>> from trellis.models import HMM, load_model
    >>> hmm = HMM(min_count=1, unknown=None).fit([["the", "dog", "barks"]], [["DET", "NOUN", "VERB"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "tagger.trellis")
    ...     hmm.save(path)
    ...     load_model(path).predict([["the", "dog"]])
    [['DET', 'NOUN']]
    """
    with _known(subclasses):
        return load_archive(path, read_archive(path), arguments)


def load_archive(path: FilePath, archive: Archive, arguments: Mapping[str, Any]) -> Any:
    """The model of a file that has been read; ``arguments`` as in :func:`load_model`."""
    with reading(path):
        known = _class(archive.header)._parameter_defaults()
    for argument in arguments:
        check_name(f"argument of {archive.header['class']}", argument, known)
    with reading(path):
        try:
            return from_archive(archive.header, archive.arrays, **arguments)
        except TrellisError as error:
            if not arguments or not _is_sound(archive):
                raise
            fault = error
    raise fault  # of the arguments, not of the file


def _is_sound(archive: Archive) -> bool:
    """Whether a file can be read with the arguments in it."""
    try:
        from_archive(archive.header, archive.arrays)
    except TrellisError:
        return False
    return True


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
    if isinstance(value, Constraint):
        return repr(value)
    if callable(value):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return {_FUNCTION: f"{getattr(value, '__module__', '')}.{name}"}
    try:
        return [_json(part) for part in value]
    except TypeError:
        raise DataError(f"a constructor argument cannot be saved: {value!r} is neither JSON nor a function") from None
