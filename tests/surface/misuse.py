"""Ways in which people misuse an API, and what may come of them.

The rule: a call works, or raises a :class:`~trellis.errors.TrellisError`. Any other error is a defect, and so is a
ShardError around another error, or a result with NaN in it.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import trellis
from tests.surface.examples import EXAMPLES, TEXT, hmm, plain
from trellis import (
    at_least,
    column,
    count,
    dictionary,
    few_labels_per,
    following,
    given,
    label,
    previous,
    share,
    shares,
    starts,
    word,
)
from trellis.errors import ShardError, TrellisError


class Strange:
    """An object that is nothing that any method takes."""

    def __repr__(self) -> str:
        return "Strange()"


WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a number": lambda: 3,
    "a fraction": lambda: 2.5,
    "NaN": lambda: np.nan,
    "infinity": lambda: np.inf,
    "True": lambda: True,
    "a string": lambda: "the dog",
    "bytes": lambda: b"the dog",
    "a dictionary": lambda: {"the": "dog"},
    "a set": lambda: {"the", "dog"},
    "an object": Strange,
    "a function": lambda: len,
    "a range": lambda: range(3),
    "a scalar array": lambda: np.array(3),
    "an array of numbers": lambda: np.array([1.0, 2.0, 3.0]),
    "an array with NaN": lambda: np.array([[1.0, np.nan, 2.0]]),
    "an array of three dimensions": lambda: np.zeros((2, 2, 2)),
    "an empty array": lambda: np.zeros((0, 3)),
    "[]": list,
    "[None]": lambda: [None],
    "[3]": lambda: [3],
    "[nan]": lambda: [np.nan],
    "[True]": lambda: [True],
    "['']": lambda: [""],
    "['the dog', 3]": lambda: ["the dog", 3],
    "[b'the']": lambda: [b"the"],
    "[[]]": lambda: [[]],
    "[[3]]": lambda: [[3]],
    "[[None]]": lambda: [[None]],
    "[['']]": lambda: [[""]],
    "[[b'the']]": lambda: [[b"the"]],
    "[['the', 3]]": lambda: [["the", 3]],
    "[['the', nan]]": lambda: [["the", np.nan]],
    "[[['the']]]": lambda: [[["the"]]],
    "[[-1, 7]]": lambda: [[-1, 7]],
    "[{'the': 'dog'}]": lambda: [{"the": "dog"}],
    "[{}]": lambda: [{}],
    "[[{}]]": lambda: [[{}]],
    "[{'the'}]": lambda: [{"the"}],
    "[('the',)]": lambda: [("the",)],
    "[('the', 'le', 'la')]": lambda: [("the", "le", "la")],
    "[object]": lambda: [Strange()],
    "[['the', 'dog'], None]": lambda: [["the", "dog"], None],
    "an array of strings in a list": lambda: [np.array([["the"], ["dog"]])],
}


def ending(call: Callable[[], Any]) -> str | None:
    """What is wrong with how a call ends, None where nothing is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call()
            result = list(result) if inspect.isgenerator(result) else result
    except ShardError as error:
        return None if isinstance(error.__cause__, TrellisError) else f"ShardError around {error.__cause__!r}"
    except TrellisError as error:
        return None if str(error) else "an error without a message"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "a result with NaN" if _has_nan(plain(result)) else None


def _has_nan(result: Any) -> bool:
    if isinstance(result, dict):
        return any(map(_has_nan, result.values()))
    if isinstance(result, list):
        return any(map(_has_nan, result))
    return isinstance(result, float) and bool(np.isnan(result))


def predictions(name: str, estimator: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every method of a fitted estimator on everything that is wrong."""
    example = EXAMPLES[name]
    for call, function in (example.each | example.whole).items():
        for what, make in WRONG.items():
            yield f"{name}.{call}({what})", lambda function=function, make=make: function(estimator, make())


def trainings(name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """``fit`` with something wrong in place of each of its arguments, or with one of another length."""
    example = EXAMPLES[name]
    parameters = list(inspect.signature(example.new().fit).parameters)

    def learn(arguments: dict[str, Any]) -> Any:
        fitted = example.new().fit(**arguments)
        return [function(fitted, [*example.instances]) for function in example.each.values()] and None

    good = dict(zip(parameters, example.data, strict=False)) | example.more
    extra = {"sample_weight", "unlabelled", "dev", "hints", "text", "without", "y", "resume"} & set(parameters)
    for argument in [*good, *sorted(extra - set(good))]:
        for what, make in WRONG.items():
            if what == "None" and argument not in good:
                continue
            yield (
                f"{name}.fit({argument}={what})",
                lambda argument=argument, make=make: learn({**good, argument: make()}),
            )
        if argument in good and isinstance(good[argument], list | np.ndarray):
            short = good[argument][:-1]
            yield f"{name}.fit({argument}: one is missing)", lambda a=argument, v=short: learn({**good, a: v})
            double = [*good[argument], *good[argument]]
            yield f"{name}.fit({argument}: twice as long)", lambda a=argument, v=double: learn({**good, a: v})


SETTINGS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "-1": lambda: -1,
    "0": lambda: 0,
    "0.5": lambda: 0.5,
    "NaN": lambda: np.nan,
    "-inf": lambda: -np.inf,
    "True": lambda: True,
    "a string": lambda: "nonsense",
    "bytes": lambda: b"nonsense",
    "[]": list,
    "[[1]]": lambda: [[1]],
    "a dictionary": lambda: {"a": [1]},
    "a dictionary of numbers": lambda: {1: 2},
    "an object": Strange,
    "an array": lambda: np.array([1.0, np.nan]),
    "a NumPy whole number": lambda: np.int64(2),
    "a NumPy fraction": lambda: np.float64(0.5),
}
CONSTRAINTS: dict[str, Callable[[Any], Any]] = {
    "count(_) >= 1": lambda v: count(v) >= 1,
    "count('N') >= _": lambda v: count("N") >= v,
    "count('N', where=_) >= 0": lambda v: count("N", where=v) >= 0,
    "count('N').per(_) >= 0": lambda v: count("N").per(v) >= 0,
    "count('N').between(_, 3)": lambda v: count("N").between(v, 3),
    ".penalty(_)": lambda v: (count("N") >= 1).penalty(v),
    ".penalty(1, _)": lambda v: (count("N") >= 1).penalty(1.0, v),
    ".slack(_)": lambda v: (count("N") >= 1).slack(v),
    ".named(_)": lambda v: (count("N") >= 1).named(v),
    "label(_)": lambda v: label(v).implies(label("N")),
    ".implies(_)": lambda v: (word == "the").implies(v),
    "word.isin(_)": lambda v: word.isin(v).implies(label("D")),
    "word == _": lambda v: (word == v).implies(label("D")),
    "word.matches(_)": lambda v: word.matches(v).implies(label("D")),
    "column(_)": lambda v: (column(v) == "x").implies(label("N")),
    "previous(_)": lambda v: previous(v).implies(label("D")),
    "following(_)": lambda v: following(v).implies(label("N")),
    "dictionary(_)": lambda v: dictionary(v),
    "dictionary({'the': _})": lambda v: dictionary({"the": v}),
    "few_labels_per(_)": lambda v: few_labels_per(v, strength=1.0),
    "few_labels_per(word, strength=_)": lambda v: few_labels_per(word, strength=v),
    "shares(_)": lambda v: shares(v),
    "shares(where=_)": lambda v: shares({"N": 0.5, "V": 0.5}, where=v),
    "share(_) <= 0.9": lambda v: share(v) <= 0.9,
    "starts(_) <= 3": lambda v: starts(v) <= 3,
    "at_least(_, ...)": lambda v: at_least(v, label("N")),
    "at_least(1, _)": lambda v: at_least(1, v),
    "at_most(_, ...)": lambda v: trellis.at_most(v, label("N")),
    "exactly(_, ...)": lambda v: trellis.exactly(v, label("N")),
    "exists(_)": lambda v: trellis.exists(v),
    "feature(_)": lambda v: trellis.feature(v).implies(label("N")),
    "preceding(_)": lambda v: trellis.preceding(v).implies(label("N")),
    "transitions(to=_)": lambda v: trellis.transitions(to=v) <= 1,
    "custom(_)": lambda v: trellis.custom(v),
    "each_label(_)": lambda v: trellis.each_label(v),
    "earlier(_)": lambda v: trellis.earlier(v),
    "length(_)": lambda v: trellis.length(v) <= 2,
    "ordered('N', _)": lambda v: trellis.ordered("N", v),
    "together(_)": lambda v: trellis.together(v),
    "trusted('N', _)": lambda v: trellis.trusted("N", at_least=v),
    "counts_like(_)": lambda v: trellis.counts_like(v),
    "entity(_)": lambda v: trellis.entity(v),
    "first(_)": lambda v: trellis.first(v),
    "second(_)": lambda v: trellis.second(v),
    "relation(_)": lambda v: trellis.relation(v),
    "links(source=_)": lambda v: trellis.links(source=v) <= 1,
    "given(_)": lambda v: given(v),
    "_": lambda v: v,
}


def constraints(name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A constraint made with something wrong, compiled over a batch."""
    model = hmm()
    batch = model.encode(TEXT, fit=True)

    def compiled(make: Callable[[], Any]) -> None:
        trellis.compile_constraints([CONSTRAINTS[name](make())], batch, model.label_names_, model.parts(batch))

    for what, make in (WRONG | SETTINGS).items():
        yield f"{name} with {what}", lambda make=make: compiled(make)


NOT_TRIED = {"verbose", "checkpoint", "engine"}


def settings(name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """A constructor argument that is wrong, and learning with it."""
    example = EXAMPLES[name]

    def learn(**changed: Any) -> Any:
        made = example.new().set_params(**changed)
        repr(made)
        fitted = made.fit(*example.data, **example.more)
        return [function(fitted, [*example.instances]) for function in example.each.values()] and None

    for parameter in example.new().get_params(deep=False):
        if parameter not in NOT_TRIED:
            for what, make in SETTINGS.items():
                yield (
                    f"{name}({parameter}={what})",
                    lambda parameter=parameter, make=make: learn(**{parameter: make()}),
                )
