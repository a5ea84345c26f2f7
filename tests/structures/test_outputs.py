"""Outputs cut by instance and put together again, and the best score of an output with a part."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from trellis.errors import DataError
from trellis.structures import Alignment, Categorical, Chain, Joint, Structure

from .subsets import SubsetParts, Subsets

OFFSETS = np.array([0, 3, 3, 5])


def chain(seed: int) -> Chain:
    rng = np.random.default_rng(seed)
    node, edge = rng.normal(size=(5, 2)), rng.normal(size=(3, 2, 2))
    node[1, 0] = edge[1, 0, 1] = -np.inf
    return Chain(OFFSETS, node, edge, edge_index=rng.integers(0, 3, 5), start=rng.normal(size=2), stop=[0.0, 1.0])


def categorical(seed: int) -> Categorical:
    node = np.random.default_rng(seed).normal(size=(3, 3))
    node[0, 1] = -np.inf
    return Categorical(node)


def alignment(seed: int) -> Alignment:
    rng = np.random.default_rng(seed)
    return Alignment([2, 0, 1], [1, 2, 3], rng.normal(size=5), rng.normal(size=6))


def subsets(seed: int) -> Subsets:
    return Subsets([0, 2, 2, 5], np.random.default_rng(seed).normal(size=5), least=[1, 0, 2])


def with_max_marginals() -> list[Structure]:
    return [chain(0), categorical(1), Joint(chain(2), chain(3)), Joint(chain(4), Joint(categorical(5), chain(6)))]


def structures() -> list[Structure]:
    return [*with_max_marginals(), alignment(7), subsets(8), Joint(alignment(9), subsets(10), chain(11))]


@pytest.mark.parametrize("scores", structures())
def test_outputs_of_single_instances_are_those_of_the_batch(scores: Structure) -> None:
    best = scores.argmax()
    pieces = scores.parts.split_outputs(best.outputs)
    assert len(pieces) == len(scores) == 3
    for i, piece in enumerate(pieces):
        alone = scores.instances(i, i + 1)
        assert alone.score(piece)[0] == best.score[i]
        np.testing.assert_array_equal(alone.parts.of(piece), alone.parts.of(alone.argmax().outputs))
    whole = scores.parts.join_outputs(pieces)
    np.testing.assert_array_equal(scores.parts.of(whole), scores.parts.of(best.outputs))
    # batches of several instances are put together as well, and so is nothing
    ends = [scores.instances(0, 2).argmax().outputs, scores.instances(2, 3).argmax().outputs]
    np.testing.assert_array_equal(scores.parts.of(scores.parts.join_outputs(ends)), scores.parts.of(best.outputs))
    none = scores.instances(0, 0)
    assert len(none.parts.of(none.parts.join_outputs([]))) == 0


def test_outputs_that_are_not_one_for_each_instance_are_not_cut_by_the_general_form() -> None:
    scores = subsets(0)
    with pytest.raises(DataError, match="5 subsets are not one for each of 3 instances"):
        super(SubsetParts, scores.parts).split_outputs(scores.argmax().outputs)


def test_a_joint_has_max_marginals_only_where_all_its_members_do() -> None:
    assert subsets(0).max_marginals() is None
    assert Joint(chain(0), subsets(0)).max_marginals() is None


@pytest.mark.parametrize("scores", with_max_marginals())
def test_max_marginals_are_the_best_scores_of_outputs_with_a_part(scores: Structure) -> None:
    found = scores.max_marginals()
    assert found is not None
    best = np.full(scores.parts.n_parts, -np.inf)
    for outputs in every_output(scores):
        used = scores.parts.of(outputs)
        np.maximum.at(best, used, scores.score(outputs)[scores.parts.instance_of(used)])
    np.testing.assert_allclose(found, best, rtol=1e-12, atol=1e-12)


def every_output(scores: Structure) -> list[object]:
    if isinstance(scores, Joint):
        # members do not touch each other: what is best of one with any outputs of the others is found in turn
        best = [member.argmax().outputs for member in scores.members]
        return [
            tuple(y if n == m else best[n] for n in range(len(best)))
            for m, member in enumerate(scores.members)
            for y in every_output(member)
        ]
    return [np.array(y) for y in itertools.product(range(scores.n_labels), repeat=scores.parts.n_slots)]  # type: ignore[attr-defined]
