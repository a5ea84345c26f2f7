"""Joints: what they add to their members, and what they pass on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trellis.errors import ConstraintError, DataError
from trellis.structures import Categorical, Chain, Joint

from .subsets import Subsets

INF = math.inf


def chain(seed: int = 0) -> Chain:
    rng = np.random.default_rng(seed)
    return Chain([0, 2, 3], rng.normal(size=(3, 2)), rng.normal(size=(2, 2)))


def categorical(seed: int = 0) -> Categorical:
    return Categorical(np.random.default_rng(seed).normal(size=(2, 3)))


def test_a_joint_is_of_another_kind_than_its_members() -> None:
    one, two = chain(), categorical()
    assert Joint(one, two).kind == "chain+categorical"
    # fast paths are found by kind, and none that knows chains knows a joint of a single chain
    kinds = [one.kind, Joint(one).kind, Joint(Joint(one)).kind, Joint(one, one).kind, Joint(Joint(one, one)).kind]
    kinds += [Joint(one, one, two).kind, Joint(Joint(one, one), two).kind, Joint(one, Joint(one, two)).kind]
    assert len(set(kinds)) == len(kinds)


def test_members_must_have_the_same_instances() -> None:
    with pytest.raises(DataError, match="the same instances, got \\[2, 3\\]"):
        Joint(chain(), Categorical(np.zeros((3, 2))))
    with pytest.raises(DataError, match="at least one member"):
        Joint()


def test_parts_of_a_member_start_where_those_of_the_one_before_end() -> None:
    parts = Joint(chain(), categorical()).parts
    member, start = parts.member(1)
    assert start == chain().parts.n_parts
    assert member.n_parts == 6
    np.testing.assert_array_equal(parts.instance_of(start + member.label(np.array([0, 1]), 2)), [0, 1])


@pytest.mark.parametrize("part", [-1, 18 + 6])
def test_numbers_outside_the_space_have_no_instance(part: int) -> None:
    with pytest.raises(DataError, match="parts must lie in 0..23"):
        Joint(chain(), categorical()).parts.instance_of(np.array([part]))


def test_a_joint_has_no_labels_of_its_own() -> None:
    for ask in (lambda parts: parts.label(0, 0), lambda parts: parts.grid()):
        with pytest.raises(ConstraintError, match="refers to labels"):
            ask(Joint(chain(), chain()).parts)


def test_the_likeliest_labels_the_mean_and_what_is_known_are_those_of_the_members() -> None:
    one, other = Joint(chain(1), categorical(1)), Joint(chain(2), categorical(2))
    q = one.infer()
    for found, member, posterior in zip(one.marginal_argmax(q), one.members, q.members, strict=True):
        np.testing.assert_array_equal(found, member.marginal_argmax(posterior))
    mean = one.mean(other).infer()
    for found, a, b in zip(mean.members, one.members, other.members, strict=True):
        np.testing.assert_allclose(found.node, a.mean(b).infer().node)
    known = (np.array([1, -1, 0]), np.array([-1, 2]))
    clamped = one.clamp(known).infer()
    for found, member, labels in zip(clamped.members, one.members, known, strict=True):
        np.testing.assert_allclose(found.node, member.clamp(labels).infer().node)


def test_a_member_without_an_answer_leaves_the_joint_without_one() -> None:
    both = Joint(chain(), Subsets([0, 1, 2], np.zeros(2)))
    with pytest.raises(DataError, match="no mean of two scores of subsets"):
        both.mean(both)
    with pytest.raises(DataError, match="subsets cannot be decoded part by part"):
        both.marginal_argmax(both.infer())


def test_a_joint_goes_as_far_as_the_member_that_must_go_farthest() -> None:
    near, far = chain(), Chain([0, 1, 2], np.array([[0.0, -5000.0], [0.0, 0.0]]), np.zeros((2, 2)))
    assert far.max_shift() > near.max_shift()
    assert Joint(near, far).max_shift() == far.max_shift() == Joint(far, near).max_shift()


def test_weights_reach_the_counts_of_every_member() -> None:
    weights = np.array([2.0, 0.0])
    found = Joint(chain(1), chain(2)).infer(weights=weights)
    for member, alone in zip(found.members, (chain(1), chain(2)), strict=True):
        np.testing.assert_array_equal(member.edge_counts, alone.infer(weights=weights).edge_counts)


def test_transitions_are_kept_for_the_members_that_are_asked_for_one() -> None:
    both = Joint(chain(1), chain(2))
    second, start = both.parts.member(1)
    found = both.infer(at=np.array([start + second.transition(1, 0, 1)]))
    assert found.members[0].edge is None
    assert found.members[1].edge is not None
    with pytest.raises(ValueError, match="ask for them with infer"):
        found.at(np.array([both.parts.member(0)[0].transition(1, 0, 1)]))
