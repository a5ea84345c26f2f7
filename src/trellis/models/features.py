"""Features of tokens: from dictionaries or functions to a sparse matrix with one row per token.

A token is described by
    a dictionary    {"word": "Paris", "capital": True, "length": 5}  ->  word=Paris: 1, capital: 1, length: 5
    a list          ["word=Paris", "capital"]                        ->  each of them: 1
    a string        "Paris"                                          ->  word=Paris: 1
A value that is a string joins its name, a number or a truth value is the feature's value, a list or set of strings
is one feature each, None and False leave it out. Features that were not seen in training are dropped.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError

FeatureFunction = Callable[[Sequence[Any], int], Any]
"""(sentence, position) -> the description of that token."""


def named_values(description: Any) -> Iterator[tuple[str, float]]:
    """Features of one token by name.

    >>> list(named_values({"word": "Paris", "capital": True, "length": 5, "near": ["in", "."], "verb": None}))
    [('word=Paris', 1.0), ('capital', 1.0), ('length', 5.0), ('near=in', 1.0), ('near=.', 1.0)]
    """
    if isinstance(description, str):
        yield f"word={description}", 1.0
    elif isinstance(description, Mapping):
        for name, value in description.items():
            if isinstance(value, str):
                yield f"{name}={value}", 1.0
            elif isinstance(value, bool | np.bool_):
                if value:
                    yield str(name), 1.0
            elif isinstance(value, int | float | np.integer | np.floating):
                if not np.isfinite(value):
                    raise DataError(f"feature {name!r} has the value {value}: features are finite numbers")
                if value:
                    yield str(name), float(value)
            elif isinstance(value, list | tuple | set | frozenset):
                # A set has no order that holds from one run to the next.
                for part in sorted(value) if isinstance(value, set | frozenset) else value:
                    yield f"{name}={part}", 1.0
            elif value is not None:
                raise DataError(f"feature {name!r} has a value of type {type(value).__name__}: give text or a number")
    elif isinstance(description, Iterable):
        for name in description:
            if not isinstance(name, str):
                raise DataError(f"a list of features holds names, but {name!r} is of type {type(name).__name__}")
            yield name, 1.0
    else:
        raise DataError(f"a token must be a dictionary, a list of feature names or a word, not {description!r}")


def describe(
    sentences: Sequence[Sequence[Any]], function: FeatureFunction | None
) -> Iterator[Iterator[tuple[str, float]]]:
    """Features of every token of every sentence, in order."""
    for i, sentence in enumerate(sentences):
        for t in range(len(sentence)):
            try:
                description = sentence[t] if function is None else function(sentence, t)
            except Exception as error:
                error.add_note(f"in the feature function, at token {t} of sentence {i}")
                raise
            yield named_values(description)


def learn_matrix(tokens: Iterable[Iterable[tuple[str, float]]], min_count: int) -> tuple[Vocabulary, Any]:
    """The features of at least ``min_count`` tokens, in order of first appearance, and the matrix of the tokens.

    >>> names, matrix = learn_matrix([[("a", 1.0), ("rare", 1.0)], [("a", 2.0)]], 2)
    >>> list(names), matrix.toarray().tolist()
    (['a'], [[1.0], [2.0]])
    """
    number: dict[str, int] = {}
    matrix = _matrix(tokens, lambda name: number.setdefault(name, len(number)), number)
    often = np.bincount(matrix.indices, minlength=len(number)) >= min_count
    names = Vocabulary((name for name, kept in zip(number, often.tolist(), strict=True) if kept), kind="feature")
    return names, _summed(matrix if np.all(often) else matrix[:, np.flatnonzero(often)])


def learn_features(tokens: Iterable[Iterable[tuple[str, float]]], min_count: int) -> Vocabulary:
    """The features of at least ``min_count`` tokens, in order of first appearance."""
    return learn_matrix(tokens, min_count)[0]


def feature_matrix(tokens: Iterable[Iterable[tuple[str, float]]], names: Vocabulary) -> Any:
    """scipy CSR matrix (n_tokens, n_features); a feature named twice in a token has the sum of its values.

    >>> rows = [[("a", 1.0), ("b", 2.0)], [("new", 1.0)], [("b", 1.0), ("b", 1.0)]]
    >>> feature_matrix(rows, Vocabulary(["a", "b"])).toarray().tolist()
    [[1.0, 2.0], [0.0, 0.0], [0.0, 2.0]]
    """
    number = {name: i for i, name in enumerate(names)}
    return _summed(_matrix(tokens, number.get, number))


def _matrix(
    tokens: Iterable[Iterable[tuple[str, float]]], column_of: Callable[[str], int | None], number: Mapping[str, int]
) -> Any:
    """scipy CSR with an entry for every feature that has a column; ``number`` may grow on the way."""
    from scipy.sparse import csr_array

    columns, values, ends = array("i"), array("d"), array("q", [0])
    for token in tokens:
        for name, value in token:
            column = column_of(name)
            if column is not None:
                columns.append(column)
                values.append(value)
        ends.append(len(columns))
    return csr_array(
        (_numbers(values, np.float64), _numbers(columns, np.int32), _numbers(ends, np.int64)),
        shape=(len(ends) - 1, len(number)),
    )


def _summed(matrix: Any) -> Any:
    matrix.sum_duplicates()
    return matrix


def _numbers(values: array[Any], dtype: Any) -> Any:
    # numpy cannot take the buffer of an empty array
    return np.frombuffer(values, dtype=dtype) if len(values) else np.empty(0, dtype=dtype)
