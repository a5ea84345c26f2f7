"""Projections of both directions: cvxpy on listed alignments, fused against generic, hints, rows by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.align.problem import Pairs, Problem
from trellis.constraints import backward, compile_constraints, each, forward, links, trusted
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, DataError
from trellis.projection import project
from trellis.projection.kernels import alignments
from trellis.structures import Alignment, ChainParts, Joint

pytestmark = pytest.mark.slow

AGREEMENT = (forward.links == backward.links,)
BIJECTIVE = (forward.links(source=each) <= 1, backward.links(target=each) <= 1)
BOTH = (*AGREEMENT, *BIJECTIVE)
HINTS = (trusted(links=[[(0, 2), (2, 1)]], at_least=0.9).penalty(12),)
KINDS = {"agreement": AGREEMENT, "bijective": BIJECTIVE, "both": BOTH, "hints": HINTS, "hints, both": (*BOTH, *HINTS)}


def marginals(problem, found):
    return found.posterior.at(np.arange(problem.joint.parts.n_parts))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.0])
def test_projection_agrees_with_cvxpy(kind, gamma):
    problem = Problem(1)
    rows = problem.rows(KINDS[kind])
    found = project(problem.joint, rows, gamma, tolerance=1e-7, max_evaluations=20_000)
    want, least = problem.by_cvxpy(rows, gamma)
    np.testing.assert_allclose(found.value, least, rtol=1e-6)
    if gamma > 0:
        np.testing.assert_allclose(marginals(problem, found), want, atol=2e-5)


@given(
    st.integers(0, 1000), st.sampled_from(sorted(KINDS)), st.sampled_from([0.5, 1.0, 2.0]), st.booleans(),
    st.sampled_from([None, 0.7, 3.0]),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_the_fused_projection_is_the_generic_one(seed, kind, gamma, hmm, price):
    problem = Problem(seed, shapes=((3, 3), (0, 2), (2, 1), (1, 3)), hmm=hmm)
    constraints = [c for c in KINDS[kind] if c not in HINTS]
    if price is not None:
        constraints = [c.penalty(price) for c in constraints]
    if "hints" in kind:
        constraints.append(trusted(links=[[(0, 2), (2, 1)], [], [(1, 0)], []], at_least=0.9).penalty(12))
    rows = problem.rows(constraints)
    assert alignments.takes(rows)
    tight = {"tolerance": 1e-8, "max_evaluations": 5000}
    fused = project(problem.joint, rows, gamma, **tight)
    generic = project(problem.joint, rows, gamma, **tight, generic=True)
    np.testing.assert_allclose(marginals(problem, fused), marginals(problem, generic), atol=1e-6)
    np.testing.assert_allclose(fused.value, generic.value, rtol=1e-7)
    jumps = [[m.places.jumps for m in found.posterior.members] if hmm else [] for found in (fused, generic)]
    np.testing.assert_allclose(jumps[0], jumps[1], atol=1e-5)
    loose = {"tolerance": 1e-2, "max_evaluations": 200}
    assert project(problem.joint, rows, gamma, **loose).kkt_residual <= 1e-2
    assert project(problem.joint, rows, gamma, **loose, generic=True).kkt_residual <= 1e-2


@pytest.mark.parametrize("hmm", [True, False])
@pytest.mark.parametrize("gamma", [1.0, 0.5])
@pytest.mark.filterwarnings("ignore::trellis.errors.ConvergenceWarning")
def test_a_pair_has_the_same_bits_whatever_stands_beside_it(hmm, gamma):
    # Scratch space is that of the longest pair, and holds what longer ones left; vectors go beyond the last word.
    rng, n_source, n_target = np.random.default_rng(3), [17, 1, 8, 3, 25, 2, 16], [9, 1, 16, 2, 31, 7, 8]
    moves = {"jump": rng.random(63) + 0.1, "first_place": rng.random(32) + 0.1} if hmm else {}
    n_links = sum(i * j for i, j in zip(n_source, n_target, strict=True))
    joint = Joint(
        Alignment(n_source, n_target, 2 * rng.standard_normal(n_links), rng.random(sum(n_target)), **moves),
        Alignment(
            n_source, n_target, 2 * rng.standard_normal(n_links), rng.random(sum(n_source)), **moves, forward=False
        ),
    )  # fmt: skip
    hints = trusted(links=[[(0, 2)], [], [(7, 15)], [], [(3, 3)], [], []], at_least=0.9).penalty(12)
    rows = compile_constraints([*BOTH, hints], Pairs(7), Vocabulary([]), joint.parts)
    few = {"tolerance": 1e-3, "max_evaluations": 6}
    together = project(joint, rows, gamma, **few).posterior
    for n in range(7):
        alone = project(joint.instances(n, n + 1), rows.shard(n, n + 1), gamma, **few).posterior
        for whole, one, member in zip(together.members, alone.members, joint.members, strict=True):
            links, words = (slice(*o[n : n + 2]) for o in (member.parts.link_offsets, member.parts.observed_offsets))
            assert whole.log_partition[n] == one.log_partition[0]
            assert np.array_equal(whole.link[links], one.link)
            assert np.array_equal(whole.null[words], one.null)


@pytest.mark.parametrize("gamma", [0.0, 0.2, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_hints_hold_alike_at_every_temperature(gamma, seed):
    problem = Problem(seed)
    # One price for all: large enough to be worth what the hint costs at γ = 2, where entropy counts most.
    rows = problem.rows((*AGREEMENT, HINTS[0].penalty(30)))
    found = project(problem.joint, rows, gamma, tolerance=1e-6, max_evaluations=5000)
    q = found.posterior
    for member in q.members:
        grid = member.link.reshape(3, 3)
        assert min(grid[0, 2], grid[2, 1]) >= 0.9 - 1e-4


def test_contradicting_hints_are_weighed_and_not_an_error():
    problem = Problem(5)
    rows = problem.rows((*AGREEMENT, trusted(links=[[(0, 1), (1, 1)]], at_least=0.9).penalty(12)))
    found = project(problem.joint, rows, max_evaluations=1000)
    assert found.posterior.members[0].link.reshape(3, 3)[:, 1].sum() > 0.8


@pytest.mark.parametrize("seed", range(6))
def test_agreement_makes_directions_equal_and_therefore_bijective(seed):
    problem = Problem(seed, sharpness=4.0)
    found = project(problem.joint, problem.rows(AGREEMENT), tolerance=1e-6, max_evaluations=5000)
    one, other = (member.link.reshape(3, 3) for member in found.posterior.members)
    np.testing.assert_allclose(one, other, atol=2e-6)
    assert one.sum(0).max() <= 1 + 1e-5
    assert one.sum(1).max() <= 1 + 1e-5


@pytest.mark.filterwarnings("ignore:projection stopped")
@pytest.mark.parametrize("kind", ["agreement", "bijective", "both"])
@pytest.mark.parametrize("seed", range(3))
def test_a_projection_stopped_at_any_point_is_no_worse_than_one_stopped_before(kind, seed):
    problem = Problem(seed, sharpness=6.0)
    rows = problem.rows(KINDS[kind])
    values = []
    for evaluations in range(1, 8):
        found = project(problem.joint, rows, tolerance=1e-6, max_evaluations=evaluations)
        values.append(-found.value)
        assert found.evaluations <= evaluations + 1
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(values))


def test_rows_written_out_are_those_by_hand():
    problem = Problem(0, shapes=((2, 2), (1, 0)), hmm=False)
    rows = problem.rows([*BOTH, trusted(links=[[(0, 1)], []], at_least=0.9).penalty(12)])
    assert len(rows) == 0
    out = rows.written_out()
    # forward parts: links 0..3, null links 4, 5; backward parts: links 6..9, null links 10, 11, 12
    want = [
        *(([k, 6 + k], [1, -1], 0) for k in range(4)), ([0, 1], [1, 1], 1), ([2, 3], [1, 1], 1), ([6, 8], [1, 1], 1),
        ([7, 9], [1, 1], 1), ([1], [-1], -0.9), ([7], [-1], -0.9),
    ]  # fmt: skip
    found = [
        (out.part[a:b].tolist(), out.coefficient[a:b].tolist(), bound)
        for a, b, bound in zip(out.start[:-1], out.start[1:], out.bound.tolist(), strict=True)
    ]
    assert found == want
    assert out.equality.tolist() == [True] * 4 + [False] * 6
    assert out.instance.tolist() == [0] * 10
    q = problem.joint.infer()
    over = out.excess(out.expect(q))
    np.testing.assert_allclose(np.concatenate([one.excess(q, problem.joint.parts) for one in rows.implicit]), over)
    part = rows.shard(1, 2)
    assert len(part.written_out()) == 0


def test_links_are_counted_per_pair_and_over_the_corpus():
    problem = Problem(2, shapes=((2, 2), (1, 3)))
    rows = problem.rows([forward.links() <= 1.0, backward.links().per("corpus") <= 1.5])
    found = project(problem.joint, rows, tolerance=1e-7)
    one, other = found.posterior.members
    assert max(one.link[:4].sum(), one.link[4:].sum()) <= 1 + 1e-5
    assert other.link.sum() <= 1.5 + 1e-5


def test_an_alignment_by_itself_can_be_held_to_links():
    alone = Alignment([3], [3], np.zeros(9), np.full(3, -3.0))
    rows = compile_constraints([links(source=each) <= 0.5], Pairs(1), Vocabulary([]), alone.parts)
    found = project(alone, rows, tolerance=1e-7)
    np.testing.assert_allclose(found.posterior.link.reshape(3, 3).sum(1), 0.5, atol=1e-6)


@pytest.mark.parametrize("soft", [(0.1,), (2.0, "squared")])
def test_other_strengths_go_the_generic_way(soft):
    problem = Problem(3)
    constraint = AGREEMENT[0].slack(*soft) if len(soft) == 1 else AGREEMENT[0].penalty(*soft)
    rows = problem.rows([constraint])
    assert not alignments.takes(rows)
    free = problem.joint.infer()
    found = project(problem.joint, rows, tolerance=1e-6, max_evaluations=2000)
    gaps = [np.abs(q.members[0].link - q.members[1].link).max() for q in (free, found.posterior)]
    assert gaps[1] < gaps[0]
    if len(soft) == 1:
        assert gaps[1] <= 0.1 + 1e-5


def test_constraints_say_what_they_mean_and_refuse_what_has_no_meaning():
    agree = AGREEMENT[0].penalty(2)
    assert agree.code() == "forward.links == backward.links"
    assert agree.describe() == (
        "For every two words the probability of a link in the forward direction is equal to the probability of a link "
        "in the backward direction, with a penalty of 2 per unit of violation (L1)."
    )
    assert BIJECTIVE[0].code() == "forward.links(source=each) <= 1"
    with pytest.raises(ConstraintError, match="source= takes each"):
        links(source=3)
    with pytest.raises(ConstraintError, match="different scopes"):
        _ = forward.links == backward.links(source=each)
    with pytest.raises(ConstraintError, match="have none"):
        compile_constraints([links <= 0.5], Pairs(1, 2), Vocabulary(["A"]), ChainParts(np.array([0, 2]), 1))
    with pytest.raises(DataError, match="has no link 2-0"):
        Problem(0, shapes=((2, 2),)).rows([trusted(links=[[(2, 0)]], at_least=0.5)])


def test_best_alignments_under_q_are_those_of_the_tilted_scores():
    from trellis.projection import Projector

    problem = Problem(4, shapes=((3, 3), (2, 2)))
    answers = []
    for generic in (False, True):
        projector = Projector(problem.rows(BOTH), tolerance=1e-8, max_evaluations=5000, generic=generic)
        run = projector.run(
            lambda _: problem.joint, 1.0,
            then=lambda item, answer: item.rows.q_scores(answer).infer(),
        )  # fmt: skip
        answers.append(run.results[0].at(np.arange(problem.joint.parts.n_parts)))
    want = marginals(problem, project(problem.joint, problem.rows(BOTH), tolerance=1e-8, max_evaluations=5000))
    np.testing.assert_allclose(answers[0], want, atol=1e-6)
    np.testing.assert_allclose(answers[1], want, atol=1e-6)


def test_two_alignments_of_ones_own_can_be_projected():
    one = Alignment([2], [2], np.log([0.9, 0.1, 0.2, 0.8]), np.log([0.5, 0.5]))
    other = Alignment([2], [2], np.log([0.5, 0.5, 0.4, 0.6]), np.log([0.5, 0.5]), forward=False)
    joint = Joint(one, other)
    rows = compile_constraints(list(AGREEMENT), Pairs(1), Vocabulary([]), joint.parts)
    q = project(joint, rows, tolerance=1e-6, max_evaluations=500).posterior
    np.testing.assert_allclose(q.members[0].link, q.members[1].link, atol=1e-5)
