"""The first two arguments of every ``fit`` are X and y, as scikit-learn has them."""

from __future__ import annotations

import inspect

import pytest

from tests.surface.examples import EXPORTED

ESTIMATORS = [name for name, one in EXPORTED.items() if hasattr(one, "get_params") and hasattr(one, "fit")]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fit_takes_x_and_y(name):
    """What else it takes goes by name, but for weights, which come third in scikit-learn too."""
    _, *arguments = inspect.signature(EXPORTED[name].fit).parameters.values()
    assert [one.name for one in arguments[:2]] == ["X", "y"]
    assert all(one.kind == inspect.Parameter.KEYWORD_ONLY for one in arguments[2:] if one.name != "sample_weight")


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if hasattr(EXPORTED[name], "score")])
def test_score_takes_x_and_y(name):
    _, *arguments = inspect.signature(EXPORTED[name].score).parameters.values()
    assert [one.name for one in arguments[:2]] == ["X", "y"]
