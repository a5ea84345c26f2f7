"""What a class saves, declared once: entries of the JSON in a file, by which they are checked, written and read.

    saved = {"tags": vocabulary("tag_names_"), "model": Member("model_", HMM), "history": history()}

Arrays are declared in a class's table ``ARRAYS`` (:mod:`trellis.data.arrays`), those of a member in its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.data.hints import check_hints
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.loop.history import History

InnerHeader = dict[str, Any]
"""The header of a model inside another; :func:`trellis.models.saving.from_archive` checks it."""


class SavedVocabulary(TypedDict):
    """A vocabulary in a file."""

    names: list[str]
    kind: str
    unknown: str | None


def vocabulary_to_json(vocabulary: Vocabulary) -> dict[str, Any]:
    """Names, kind and the unknown one."""
    return {"names": list(vocabulary.names), "kind": vocabulary.kind, "unknown": vocabulary.unknown}


def vocabulary_from_json(parsed: Mapping[str, Any]) -> Vocabulary:
    """The inverse of :func:`vocabulary_to_json`."""
    check_hints(SavedVocabulary, parsed, "entry")
    return Vocabulary(parsed["names"], kind=parsed["kind"], unknown=parsed["unknown"])


@dataclass(frozen=True)
class Entry:
    """An attribute as JSON.

    hint : type of the JSON;  to_json, of_json : between the attribute and that
    default : of files without the entry; without one it must be there
    """

    attribute: str
    hint: Any
    to_json: Callable[[Any], Any] = lambda value: value
    of_json: Callable[[Any], Any] = lambda value: value
    default: Any = None

    def write(self, owner: Any) -> Any:
        """The JSON of the attribute."""
        return self.to_json(getattr(owner, self.attribute))

    def read(self, owner: Any, name: str, names: Mapping[str, Any]) -> None:
        """Set the attribute from the entries of a file."""
        given = names[name] if self.default is None else names.get(name, self.default)
        setattr(owner, self.attribute, self.of_json(given))


def vocabulary(attribute: str, *, may_be_empty: bool = True) -> Entry:
    """A vocabulary, which must have names unless said otherwise."""

    def of_json(parsed: Any) -> Vocabulary:
        found = vocabulary_from_json(parsed)
        if not len(found) and not may_be_empty:
            raise DataError(f"it names no {attribute.removesuffix('_names_')}s")
        return found

    return Entry(attribute, SavedVocabulary, vocabulary_to_json, of_json)


def history(attribute: str = "history_") -> Entry:
    """A history, without times: the same data gives the same file."""

    def to_json(found: History) -> list[dict[str, Any]]:
        return [{**entry, "seconds": 0.0} for entry in found.to_json()]

    return Entry(attribute, list[dict[str, Any]], to_json, History.from_json)


def used_rows(weights: NDArray[Any], name: str) -> dict[str, NDArray[Any]]:
    """A table of which most rows are 0, as arrays "places" and ``name``: the rows that are not."""
    used = np.flatnonzero(weights if weights.ndim == 1 else np.any(weights != 0, axis=1))
    return {"places": used, name: weights[used]}


def table_of_rows(places: NDArray[Any], rows: NDArray[Any], n: int) -> NDArray[Any]:
    """The inverse of :func:`used_rows`: a table of n rows."""
    if len(places) and int(places.max()) >= n:
        raise DataError(f"a feature stands at {places.max()}, but there are {n} places")
    table = np.zeros((n, *rows.shape[1:]), rows.dtype)
    table[places] = rows
    return table


@dataclass(frozen=True)
class Member:
    """A model inside another: its header, and its arrays as ``prefix`` + name.

    kinds : the class that it must be of, or several; by name where a class is imported only if a file holds one
    optional : whether it may be None, and is left out then
    """

    attribute: str
    kinds: Any
    prefix: str = ""
    optional: bool = False

    hint = InnerHeader
