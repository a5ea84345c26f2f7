"""Subsets bring only what a structure must bring: what the general forms do not settle or do not have, they say."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.errors import ConstraintError, DataError

from .contract import assert_refuses
from .subsets import SubsetParts, Subsets


def one_row(value: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return np.array([0, len(value)]), np.arange(len(value)), np.array(value), np.array([1e-6])


def test_a_row_that_asks_for_an_element_is_not_settled_by_forbidding_others() -> None:
    # With two free elements the least of −x₀ + x₁ is reached by {0} alone: x₁ is never used, but nor may x₀ be missing.
    never, settled = Subsets([0, 2], np.zeros(2)).parts.never_least(*one_row([-1.0, 1.0]))
    assert never.listed().tolist() == [1]
    assert not settled[0]


def test_a_row_is_settled_where_the_sizes_leave_no_other_choice() -> None:
    one_of_three = Subsets([0, 3], np.zeros(3), least=1, most=1).parts
    never, settled = one_of_three.never_least(*one_row([1.0, 2.0, 1.0]))
    assert never.listed().tolist() == [1]
    assert settled[0]


def test_a_row_that_no_element_can_lower_forbids_all_of_them() -> None:
    never, settled = Subsets([0, 3], np.zeros(3)).parts.never_least(*one_row([1.0, 2.0, 1.0]))
    assert never.listed().tolist() == [0, 1, 2]
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
    assert_refuses(lambda: structure.marginal_argmax(structure.infer()), "subsets cannot be decoded part by part")
    assert_refuses(lambda: structure.mean(structure), "no mean of two scores of subsets")
    assert_refuses(lambda: structure.clamp([True, False]), "these subsets cannot be partially labelled")
    with pytest.raises(DataError):
        structure.add(np.array([2]), np.zeros(1))


def test_the_general_forms_ask_for_few_argmaxes_however_many_instances_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = 200
    parts = Subsets(3 * np.arange(n + 1), np.zeros(3 * n), least=1).parts
    asked, argmax = [], Subsets.argmax
    monkeypatch.setattr(Subsets, "argmax", lambda self, rng=None: asked.append(1) or argmax(self, rng))
    rows = (3 * np.arange(n + 1), np.arange(3 * n), np.tile([1.0, 2.0, 1.0], n))
    low, high = parts.extremes(*rows)
    assert (low.tolist(), high.tolist()) == ([1.0] * n, [4.0] * n)
    never, settled = parts.never_least(*rows, np.full(n, 1e-9))
    np.testing.assert_array_equal(never.listed(), 3 * np.arange(n) + 1)
    assert not settled.any()  # both of the others may be used, and that is more than the least
    assert len(asked) <= 8
