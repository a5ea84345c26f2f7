"""The conventions of scikit-learn: constructor arguments are parameters, learned attributes end in ``_``.

``clone``, ``GridSearchCV`` and ``Pipeline`` need ``get_params`` and ``set_params`` alone; they are written here so that
scikit-learn stays optional. What it asks of an estimator beyond that (tags, its own NotFittedError) is
answered only when it is loaded.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from functools import cache
from math import inf
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Self, TypeVar, Union, get_args, get_origin

import numpy as np

from trellis.data.hints import fits, hints_of
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, NotFittedError, check_name

E = TypeVar("E")

LARGEST = 2**62
"""Whole numbers beyond this are no counts of anything, and no compiled kernel takes them."""


class Estimator:
    """Base of models and learners: parameters by name, as the constructor's signature lists them.

    >>> class Threshold(Estimator):
    ...     def __init__(self, at=0.5):
    ...         self.at = at
    >>> Threshold(at=2).get_params(), Threshold().set_params(at=3)
    ({'at': 2}, Threshold(at=3))
    """

    @classmethod
    def _parameter_defaults(cls) -> dict[str, Any]:
        signature = inspect.signature(cls)
        return {name: parameter.default for name, parameter in signature.parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name; with ``deep`` those of inner estimators too, as ``name__inner``."""
        own = {name: getattr(self, name) for name in self._parameter_defaults()}
        inner = {}
        if deep:
            for name, value in own.items():
                if hasattr(value, "get_params") and not isinstance(value, type):
                    inner.update({f"{name}__{key}": part for key, part in value.get_params().items()})
        return {**own, **inner}

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments by name, ``name__inner`` for those of an argument that is an estimator."""
        known = self._parameter_defaults()
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, inner = key.partition("__")
            check_name(f"parameter of {type(self).__name__}", name, known)
            if inner:
                nested.setdefault(name, {})[inner] = value
            else:
                setattr(self, name, value)
        for name, values in nested.items():
            getattr(self, name).set_params(**values)
        return self

    def _like(self, kind: Callable[..., E], **settings: Any) -> E:
        """An estimator of another class, with the parameters that the two have in common but for these."""
        names = inspect.signature(kind).parameters
        own = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        return kind(**{**own, **settings})

    def __repr__(self) -> str:
        defaults = self._parameter_defaults()
        changed = (f"{k}={v!r}" for k, v in self.get_params(deep=False).items() if not _same(v, defaults[k]))
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str | None:
        """The diagram of scikit-learn, where that is installed."""
        try:
            from sklearn.utils import estimator_html_repr
        except ImportError:
            return None
        return str(estimator_html_repr(self))

    def check_settings(self) -> None:
        """Refuse settings of another type, unknown names and numbers out of range, as ``fit`` does before it starts."""
        self._check_types()
        self._check_settings()

    def _check_settings(self) -> None:
        """What a class asks of its settings beyond their types."""

    def _check_types(self) -> None:
        """Refuse constructor arguments that are not of the type of their hint; learners check constraints.

        Every ``fit`` begins with it.
        """
        own = _hints(type(self))  # type: ignore[arg-type]
        for name, value in self.get_params(deep=False).items():
            if name not in own or name == "constraints" or isinstance(value, np.random.Generator):
                continue
            if not fits(_as_python(value), own[name]):
                raise DataError(f"{name} must be {_in_words(own[name])}, got {value!r:.80}")

    def _check_names(self, **known: Collection[str]) -> None:
        """Refuse arguments that are none of the names; None passes."""
        for name, names in known.items():
            value = getattr(self, name)
            if value is not None:
                check_name(name, value, names)

    def _check_whole(self, **least: int) -> None:
        """Refuse arguments that are no whole numbers, or smaller than said; None passes."""
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and not (_is(value, Integral) and value >= low):
                raise DataError(f"{name} must be a whole number, {low} or more, got {value!r}")
            if value is not None and value > LARGEST and name != "random_state":
                raise DataError(f"{name} must be a whole number up to {LARGEST}, got {value!r}")

    def _check_within(self, **bounds: tuple[float, float]) -> None:
        """Refuse arguments that are no numbers, or outside the closed range said; None passes."""
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if value is not None and not (_is(value, Real) and low <= value <= high):
                range_ = f"lie in {low:g}..{high:g}" if high < inf else f"be a number, {low:g} or more"
                raise DataError(f"{name} must {range_}, got {value!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "label_names_")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise _not_fitted_class()(f"this {name} has no learned parameters yet: call fit first")

    def __sklearn_tags__(self) -> Any:
        """Tags of an estimator that takes sequences; called by scikit-learn alone."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(two_d_array=False)
        )


@cache
def _hints(kind: Any) -> dict[str, Any]:
    try:
        return hints_of(kind if "__dataclass_fields__" in vars(kind) else kind.__init__)
    except NameError:  # a subclass of the user's, whose hints name what only a type checker imports
        return {}


_WORDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a string", NoneType: "None",
          os.PathLike: "a path"}  # fmt: skip


def _in_words(hint: Any) -> str:
    """A type hint as people say it.

    >>> _in_words(int | str | None), _in_words(Sequence[str])
    ('a whole number, a string or None', 'a list')
    """
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType):
        *first, last = dict.fromkeys(map(_in_words, get_args(hint)))
        return f"{', '.join(first)} or {last}" if first else last
    if kind in _WORDS:
        return _WORDS[kind]
    if kind is Callable:
        return "a function"
    name = "a dictionary" if issubclass(kind, Mapping) else "a list" if issubclass(kind, Sequence) else ""
    return name or f"a {kind.__name__}"


def _as_python(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's own, sets and vocabularies as lists."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _as_python(part) for key, part in value.items()}
    if isinstance(value, Set):
        return list(value)
    return list(value.names) if isinstance(value, Vocabulary) else value


def generator(random_state: Any) -> np.random.Generator:
    """A random generator from a seed, None (another one every time), or a generator, which is itself."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        message = f"random_state must be a whole number, 0 or more, or a numpy Generator, got {random_state!r}"
        raise DataError(message) from error


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _same(value: Any, default: Any) -> bool:
    return value is default or (
        type(value) is type(default) and isinstance(value, int | float | str | tuple) and value == default
    )


def _not_fitted_class() -> type[NotFittedError]:
    """Our error, which is scikit-learn's as well where scikit-learn is loaded: its tools catch their own class."""
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    if theirs is None:
        return NotFittedError
    return type("NotFittedError", (NotFittedError, theirs), {"__module__": NotFittedError.__module__})
