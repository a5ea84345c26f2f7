"""Every structure keeps the contract of parts and scores: chains, categoricals, subsets, and joints of these."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.structures import Alignment, Categorical, Chain, Joint, Structure

from .contract import (
    assert_changes_agree,
    assert_expected_scores_agree,
    assert_infeasible_is_named,
    assert_instances_agree,
    assert_malformed_changes_are_refused,
    assert_max_marginals_agree,
    assert_outputs_are_cut_by_instance,
    assert_parts_agree,
    assert_polytope_agrees,
    assert_posteriors_agree,
    assert_rows_agree,
    assert_scores_agree,
    assert_shards_agree,
)
from .strategies import GAMMAS, KINDS, cases, changes, choices, rows, some_instances
from .subsets import Subsets

pytestmark = pytest.mark.slow

drawn = settings(max_examples=14, deadline=None)
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
@given(st.data())
@drawn
def test_parts_of_outputs_agree_with_enumeration(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind, feasible=False))
    listed = case.listed()
    assert_parts_agree(case.structure().parts, listed, data.draw(choices(listed)))


@every_kind
@given(st.data())
@drawn
def test_parts_are_told_by_instance_and_number_inside_it(kind: str, data: st.DataObject) -> None:
    assert_shards_agree(data.draw(cases(kind)).structure().parts)


@every_kind
@given(st.data())
@drawn
def test_outputs_are_cut_by_instance_and_put_together_again(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    listed = case.listed()
    assert_outputs_are_cut_by_instance(case.structure().parts, listed, data.draw(choices(listed)))


@every_kind
@given(st.data())
@drawn
def test_max_marginals_agree_with_enumeration(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    assert_max_marginals_agree(case.structure(), case.listed())


@every_kind
@given(st.data())
@drawn
def test_extremes_of_rows_agree_with_enumeration(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    listed = case.listed()
    assert_rows_agree(case.structure().parts, listed, *data.draw(rows(listed)))


@every_kind
@given(st.data())
@drawn
def test_scores_agree_with_enumeration(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    listed = case.listed()
    assert_scores_agree(case.structure(), listed, data.draw(choices(listed)))


@every_kind
@given(st.data())
@drawn
def test_changes_agree_with_enumeration(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    listed = case.listed()
    assert_changes_agree(case.structure(), listed, *data.draw(changes(listed)), data.draw(GAMMAS))


@every_kind
@given(st.data())
@drawn
def test_instances_are_taken_in_any_order(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    listed = case.listed()
    assert_instances_agree(case.structure(), listed, data.draw(some_instances(listed)))


@every_kind
@given(st.data())
@drawn
def test_averages_of_outputs_are_posteriors(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind, feasible=False))
    listed = case.listed()
    assert_posteriors_agree(case.structure(), listed, data.draw(st.lists(choices(listed), min_size=1, max_size=3)))


@every_kind
@given(st.data())
@drawn
def test_expected_scores_agree_with_enumeration(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind))
    listed = case.listed()
    assert_expected_scores_agree(case.structure(), listed, *data.draw(changes(listed)), data.draw(choices(listed)))


@every_kind
@given(st.data())
@drawn
def test_outputs_are_the_points_of_the_program(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind, small=data.draw(st.booleans())))
    listed = case.listed()
    closed = np.unique(data.draw(changes(listed))[0])
    assert_polytope_agrees(case.structure(), listed, closed, tight=kind != "graph")  # a graph may have cycles


@pytest.mark.parametrize(
    "structure",
    [
        Chain([0, 1, 3], np.zeros((3, 2)), np.zeros((2, 2))),
        Categorical(np.zeros((2, 2))),
        Alignment([2, 1], [1, 2], np.zeros(4), np.zeros(3)),
        Subsets([0, 2, 3], np.zeros(3)),
        Joint(Categorical(np.zeros((2, 2))), Subsets([0, 1, 2], np.zeros(2))),
    ],
    ids=lambda structure: type(structure).__name__,
)
def test_malformed_changes_are_refused(structure: Structure) -> None:
    assert_malformed_changes_are_refused(structure)


@every_kind
@given(st.data())
@drawn
def test_impossible_instances_are_named(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(kind, feasible=False))
    if case.listed().infeasible:
        assert_infeasible_is_named(case.structure(), case.listed())
