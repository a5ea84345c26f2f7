"""Subsets, which bring only what a structure must bring: what they are given in return is right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.errors import ConstraintError, DataError

from .contract import (
    assert_changes_agree,
    assert_expected_scores_agree,
    assert_infeasible_is_named,
    assert_instances_agree,
    assert_parts_agree,
    assert_polytope_agrees,
    assert_posteriors_agree,
    assert_refuses,
    assert_rows_agree,
    assert_scores_agree,
    assert_shards_agree,
)
from .strategies import GAMMAS, SubsetCase, changes, choices, rows, subsets
from .subsets import SubsetParts, Subsets

drawn = settings(max_examples=100, deadline=None)


@given(st.data())
@drawn
def test_parts_and_scores_agree_with_enumeration(data: st.DataObject) -> None:
    case = data.draw(subsets())
    listed = case.listed()
    choice = data.draw(choices(listed))
    assert_parts_agree(case.structure().parts, listed, choice)
    assert_scores_agree(case.structure(), listed, choice)


@given(subsets())
@drawn
def test_parts_are_told_by_instance_and_number_inside_it(case: SubsetCase) -> None:
    assert_shards_agree(case.structure().parts)


@given(st.data())
@drawn
def test_changes_agree_with_enumeration(data: st.DataObject) -> None:
    case = data.draw(subsets())
    listed = case.listed()
    assert_changes_agree(case.structure(), listed, *data.draw(changes(listed)), data.draw(GAMMAS))


@given(st.data())
@drawn
def test_instances_are_taken_in_any_order(data: st.DataObject) -> None:
    case = data.draw(subsets())
    numbers = data.draw(
        st.lists(st.integers(0, len(case.structure()) - 1), max_size=4) if len(case.listed()) else st.just([])
    )
    assert_instances_agree(case.structure(), case.listed(), numbers)


@given(st.data())
@drawn
def test_posteriors_and_expected_scores_agree_with_enumeration(data: st.DataObject) -> None:
    case = data.draw(subsets())
    structure, listed = case.structure(), case.listed()
    chosen = data.draw(st.lists(choices(listed), min_size=1, max_size=3))
    assert_posteriors_agree(structure, listed, chosen)
    assert_expected_scores_agree(structure, listed, *data.draw(changes(listed)), chosen[0])


@given(st.data())
@drawn
def test_extremes_of_rows_agree_with_enumeration(data: st.DataObject) -> None:
    case = data.draw(subsets())
    listed = case.listed()
    assert_rows_agree(case.structure().parts, listed, *data.draw(rows(listed)))


@given(st.data())
@drawn
def test_the_program_has_the_outputs_as_points(data: st.DataObject) -> None:
    case = data.draw(subsets())
    listed = case.listed()
    assert_polytope_agrees(case.structure(), listed, np.unique(data.draw(changes(listed))[0]))


@given(subsets(feasible=False))
@drawn
def test_an_impossible_instance_is_named(case: SubsetCase) -> None:
    if case.listed().infeasible:
        assert_infeasible_is_named(case.structure(), case.listed())


def one_row(value: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return np.array([0, len(value)]), np.arange(len(value)), np.array(value), np.array([1e-6])


def test_a_row_that_asks_for_an_element_is_not_settled_by_forbidding_others() -> None:
    # With two free elements the least of −x₀ + x₁ is reached by {0} alone: x₁ is never used, but nor may x₀ be missing.
    never, settled = Subsets([0, 2], np.zeros(2)).parts.never_least(*one_row([-1.0, 1.0]))
    assert never.tolist() == [1]
    assert not settled[0]


def test_a_row_is_settled_where_the_sizes_leave_no_other_choice() -> None:
    one_of_three = Subsets([0, 3], np.zeros(3), least=1, most=1).parts
    never, settled = one_of_three.never_least(*one_row([1.0, 2.0, 1.0]))
    assert never.tolist() == [1]
    assert settled[0]


def test_a_row_that_no_element_can_lower_forbids_all_of_them() -> None:
    never, settled = Subsets([0, 3], np.zeros(3)).parts.never_least(*one_row([1.0, 2.0, 1.0]))
    assert never.tolist() == [0, 1, 2]
    assert settled[0]


def test_every_element_has_a_place_of_its_own() -> None:
    parts = Subsets([0, 2, 3], np.zeros(3)).parts
    np.testing.assert_array_equal(parts.place_of(np.arange(3)), np.arange(3))


@pytest.mark.parametrize("family", ["label", "transition", "grid", "link", "member"])
def test_families_of_parts_that_subsets_lack_are_refused(family: str) -> None:
    arguments = {"label": (0, 0), "transition": (1, 0, 0), "grid": (), "link": (0, 0), "member": (0,)}[family]
    parts = SubsetParts(np.array([0, 2]), np.array([0]), np.array([2]))
    assert not parts.has_labels
    with pytest.raises(ConstraintError, match="but these subsets have none"):
        getattr(parts, family)(*arguments)


def test_queries_that_subsets_lack_are_refused() -> None:
    structure = Subsets([0, 2], np.zeros(2))
    assert_refuses(lambda: structure.likeliest(structure.infer()), "subsets cannot be put together of single parts")
    assert_refuses(lambda: structure.mean(structure), "no mean of two scores of subsets")
    assert_refuses(lambda: structure.clamp([True, False]), "these subsets cannot be known in part")
    with pytest.raises(DataError):
        structure.add(np.array([2]), np.zeros(1))
