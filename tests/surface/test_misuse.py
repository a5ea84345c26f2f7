"""No misuse of the public API ends in an error that is not ours, or in NaN: see :mod:`tests.surface.misuse`."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import trellis
from tests.surface import misuse
from tests.surface.examples import EXAMPLES, EXPORTED, HEADS, PARSED, TAGS, TEXT, fit, fitted
from tests.surface.functions import FUNCTIONS
from trellis.errors import DataError, NotFittedError

NETWORKS = {"constrained_decode", "distil"}
"""Functions that are tried with the networks' own tests."""
SLOW = {"Aggregator", "Matcher", "Relater"}
"""Whose fit takes half a second: their arguments are tried in part."""


def defects(cases):
    return [f"{title}: {wrong}" for title, call in cases if (wrong := misuse.ending(call)) is not None]


def some(name, cases):
    """All cases, or every 29th of estimators that take long to fit."""
    return list(cases)[:: 29 if name in SLOW else 1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_wrong_instances_are_refused_with_an_error_of_ours(name):
    assert defects(misuse.predictions(name, fitted(name))) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_wrong_arguments_of_fit_are_refused_with_an_error_of_ours(name):
    assert defects(some(name, misuse.trainings(name))) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_wrong_settings_are_refused_with_an_error_of_ours(name):
    cases = list(misuse.settings(name))
    assert defects(cases[:: 80 if name in SLOW else 7]) == []


@pytest.mark.parametrize("name", misuse.CONSTRAINTS)
def test_wrong_parts_of_a_constraint_are_refused_with_an_error_of_ours(name):
    assert defects(misuse.constraints(name)) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments_of_functions_are_refused_with_an_error_of_ours(name):
    made = (misuse.WRONG | misuse.SETTINGS).items()
    assert defects((what, lambda make=make: FUNCTIONS[name](make())) for what, make in made) == []


def test_every_public_function_is_tried():
    named = {re.match(r"\w*", name)[0] for name in (*FUNCTIONS, *misuse.CONSTRAINTS)}
    functions = {name for name, one in EXPORTED.items() if callable(one) and not inspect.isclass(one)}
    assert functions - named - NETWORKS == set()


@pytest.mark.parametrize("name", EXAMPLES)
def test_methods_before_fit_say_so(name):
    example = EXAMPLES[name]
    given = list(example.instances)
    given = [given, given] if name == "MultiView" else given
    for call in (example.each | example.whole).values():
        with pytest.raises(NotFittedError, match="fit"):
            list(call(example.new(), given))


def test_labels_may_come_in_arrays():
    same_length = np.array([["the", "dog"], ["a", "cat"]]), np.array([["D", "N"], ["D", "N"]])
    ragged = np.empty(len(TAGS), dtype=object)
    ragged[:] = [np.array(own) for own in TAGS]
    for kind in (trellis.HMM, trellis.CRF, trellis.SemiCRF, trellis.Tagger):
        made = kind(min_count=1)
        assert made.fit(*same_length).score(*same_length) == 1.0
        assert made.fit(TEXT, ragged).score(TEXT, ragged) == kind(min_count=1).fit(TEXT, TAGS).score(TEXT, TAGS)


def test_numpy_numbers_are_numbers():
    assert trellis.HMM(np.int64(3)).fit(TEXT, [["0", "1", "2"], None, None, None])
    for name in ("HMM", "CRF", "UEM", "Aligner", "Parser"):
        assert fit(name, n_jobs=np.int64(1))
    assert trellis.MaxEnt(labels=np.int64(3)).fit([[1.0], [2.0]], np.array([0, 2])).predict([[1.0]]).shape == (1,)


@pytest.mark.parametrize("head", [np.nan, 1.5, "2", [1], 9, -2])
@pytest.mark.parametrize("name", ["ArcParser", "DMV"])
def test_heads_are_whole_numbers_within_the_sentence(name, head):
    heads = [[head, *HEADS[0][1:]], *HEADS[1:]]
    with pytest.raises(DataError, match="sentence 0"):
        EXAMPLES[name].new().fit(PARSED, heads)


@pytest.mark.parametrize("wrong", [["a"], {"a": 1}, {"a"}, 3, b"N"], ids=repr)
@pytest.mark.parametrize("name", ["HMM", "CRF", "SemiCRF", "SSVM", "UEM"])
def test_labels_are_strings(name, wrong):
    with pytest.raises(DataError, match="labels must be strings"):
        EXAMPLES[name].new().fit(TEXT, [[wrong, "N", "V"], *TAGS[1:]])


def test_a_parser_asks_for_tags():
    with pytest.raises(DataError, match="has no tag"):
        trellis.Parser().fit(["a b"])
