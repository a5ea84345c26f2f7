"""Every query of alignments against all alignments, listed."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.align.twin import SPAN, Twin, twins
from trellis.errors import ConstraintError, DataError, InfeasibleError
from trellis.structures import Alignment, AlignmentParts, ChainParts, Joint, JointParts
from trellis.structures.kernels import align_infer

drawn = settings(max_examples=60, deadline=None)


def possible(twin):
    assume(twin.is_possible())
    return twin.structure()


@given(twins(), st.sampled_from([1.0, 0.4, 3.0]))
@drawn
def test_posteriors_are_those_of_enumeration(twin, gamma):
    structure = possible(twin)
    weights = np.linspace(0.5, 2.0, len(twin))
    q = structure.infer(weights=weights)
    np.testing.assert_allclose(q.log_partition, twin.log_partition(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(q.at(np.arange(structure.parts.n_parts)), twin.marginals(), atol=1e-12)
    if twin.jump is not None:
        jumps, firsts, near = twin.jumps(weights)
        np.testing.assert_allclose(q.places.jumps, jumps, atol=1e-11)
        np.testing.assert_allclose(q.places.near, near, atol=1e-11)
        np.testing.assert_allclose(q.places.firsts, firsts, atol=1e-11)
    tempered = structure.temper(gamma).infer().log_partition
    sums = [np.logaddexp.reduce(twin.scores(n) / gamma) for n in range(len(twin))]
    np.testing.assert_allclose(tempered, sums, rtol=1e-10, atol=1e-10)


@given(twins(), st.booleans())
@drawn
def test_the_best_alignment_has_the_highest_score(twin, random):
    structure = possible(twin)
    best = structure.argmax(np.random.default_rng(0) if random else None)
    most = [twin.scores(n).max() for n in range(len(twin))]
    np.testing.assert_allclose(best.score, most, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(structure.score(best.outputs), most, rtol=1e-12, atol=1e-12)


@given(twins(), st.data())
@drawn
def test_scores_parts_and_certainty_of_any_alignment(twin, data):
    structure = twin.structure()
    chosen = [data.draw(st.sampled_from(twin.outputs(n))) for n in range(len(twin))]
    flat = np.array([i for y in chosen for i in y], np.int32)
    scores = [twin.score(n, y) for n, y in enumerate(chosen)]
    np.testing.assert_allclose(structure.score(flat), scores, rtol=1e-12, atol=1e-12)
    used = sorted(p for n, y in enumerate(chosen) for p in twin.parts_of(n, y))
    assert structure.parts.of(flat).tolist() == used
    q = structure.certain(flat)
    assert np.flatnonzero(q.at(np.arange(structure.parts.n_parts))).tolist() == used
    if np.all(np.isfinite(scores)):
        np.testing.assert_allclose(structure.expected_score(q, np.ones(len(twin))), sum(scores), atol=1e-9)


@pytest.mark.slow
@given(twins(), st.data())
@drawn
def test_a_change_adds_to_parts_and_forbids_them(twin, data):
    structure = twin.structure()
    n_parts = structure.parts.n_parts
    assume(n_parts)
    part = np.array(data.draw(st.lists(st.integers(0, n_parts - 1), min_size=1, max_size=5)))
    value = np.array(data.draw(st.lists(st.sampled_from([-1.5, 2.0, -np.inf]), min_size=len(part), max_size=len(part))))
    scores = np.append(twin.link, twin.null)
    np.add.at(scores, part, value)
    changed = Twin(**{**vars(twin), "link": scores[: len(twin.link)], "null": scores[len(twin.link) :]})
    assume(changed.is_possible())
    q = structure.add(part, value).infer()
    np.testing.assert_allclose(q.log_partition, changed.log_partition(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(q.at(np.arange(n_parts)), changed.marginals(), atol=1e-12)


@given(twins(), st.data())
@drawn
def test_pairs_taken_out_are_themselves(twin, data):
    structure = possible(twin)
    q, parts = structure.infer(), structure.parts
    numbers = np.array(data.draw(st.permutations(range(len(twin)))))
    taken = structure.take(numbers)
    instance, local = parts.split(np.arange(parts.n_parts))
    assert parts.join(instance, local).tolist() == list(range(parts.n_parts))
    assert np.bincount(instance, minlength=len(twin)).tolist() == parts.sizes().tolist()
    back = np.argsort(numbers)
    np.testing.assert_array_equal(
        taken.infer().at(taken.parts.join(back[instance], local)), q.at(np.arange(parts.n_parts))
    )
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(twin))] * 2)))
    some = structure.instances(first, last)
    kept, moved = parts.within(np.arange(parts.n_parts), first, last)
    np.testing.assert_array_equal(some.infer().at(moved), q.at(np.flatnonzero(kept)))
    assert some.parts.n_parts == parts.shard(first, last).n_parts == kept.sum()


@pytest.mark.slow
@given(twins(), st.data())
@drawn
def test_the_polytope_has_the_alignments_as_its_vertices(twin, data):
    from scipy.optimize import linprog

    structure = possible(twin)
    n_parts = structure.parts.n_parts
    closed = np.unique(np.array(data.draw(st.lists(st.integers(0, max(n_parts - 1, 0)), max_size=2)), np.int64))
    closed = closed[closed < n_parts]
    try:
        want = structure.forbid(closed).argmax()
    except InfeasibleError:
        return
    program = structure.polytope(closed)
    if not len(program.score):
        return
    found = linprog(-program.score, A_eq=program.matrix, b_eq=program.bound, bounds=(0, 1), method="highs-ds")
    np.testing.assert_allclose(-found.fun, want.score.sum(), atol=1e-8)
    y = program.outputs(found.x)
    np.testing.assert_allclose(structure.score(y).sum(), want.score.sum(), atol=1e-8)
    assert np.flatnonzero(np.round(program.use @ found.x)).tolist() == structure.parts.of(y).tolist()


@given(twins(forbidden=False), st.data())
@drawn
def test_extremes_of_rows_are_those_of_enumeration(twin, data):
    parts = twin.structure().parts
    assume(parts.n_parts)
    part = np.unique(data.draw(st.lists(st.integers(0, parts.n_parts - 1), min_size=1, max_size=6)))
    value = np.array(data.draw(st.lists(st.sampled_from([-1.0, 1.0, 2.0]), min_size=len(part), max_size=len(part))))
    row = np.zeros(parts.n_parts)
    row[part] = value
    ends = [[row[twin.parts_of(n, y)].sum() for y in twin.outputs(n)] for n in range(len(twin))]
    low, high = parts.extremes(np.array([0, len(part)]), part, value)
    np.testing.assert_allclose([low[0], high[0]], [sum(map(min, ends)), sum(map(max, ends))], atol=1e-12)


@given(twins(forbidden=False))
@drawn
def test_places_exclude_each_other_and_the_likeliest_parts_are_chosen(twin):
    structure = twin.structure()
    parts, place = structure.parts, structure.parts.place_of(np.arange(structure.parts.n_parts))
    for n in range(len(twin)):
        for y in twin.outputs(n):
            used = place[twin.parts_of(n, y)]
            assert len(np.unique(used)) == len(used)
    q = structure.infer()
    chosen = np.zeros(parts.n_parts)
    chosen[parts.of(structure.marginal_argmax(q))] = 1
    marginal = q.at(np.arange(parts.n_parts))
    best = np.zeros(int(place.max(initial=-1)) + 1)
    np.maximum.at(best, place, marginal)
    np.testing.assert_array_equal(marginal[chosen > 0], best[place[chosen > 0]])


@pytest.mark.slow
@given(twins(hmm=True))
@drawn
def test_expected_scores_and_entropy_are_those_of_enumeration(twin):
    structure = possible(twin)
    q = structure.infer()
    scores = [
        np.where(twin.probabilities(n) > 0, twin.scores(n), 0.0) @ twin.probabilities(n) for n in range(len(twin))
    ]
    np.testing.assert_allclose(structure.expected_score(q, np.ones(len(twin))), sum(scores), atol=1e-9)
    entropy = q.log_partition - np.array(scores)
    np.testing.assert_allclose(structure.entropy(), entropy, atol=1e-9)


def test_averages_of_alignments_have_their_jumps():
    twin = Twin([2], [2], np.zeros(4), np.zeros(2), np.ones(2 * SPAN + 1), np.ones(SPAN + 1))
    structure = twin.structure()
    used = [structure.parts.of(np.array(y)) for y in ([0, 1], [1, -1])]
    q = structure.average(used, np.array([0.25, 0.75]), weights=np.array([2.0]))
    assert q.at(np.arange(6)).tolist() == [0.25, 0.0, 0.75, 0.25, 0.0, 0.75]
    assert q.places.jumps[SPAN + 1] == pytest.approx(2 * (0.25 * 2 + 0.75))
    assert q.places.firsts[:2].tolist() == [0.5, 1.5]


def test_extreme_scores_are_done_in_log_space(monkeypatch):
    rng = np.random.default_rng(8)
    link, null = 900 * rng.standard_normal(12), rng.standard_normal(4)
    twin = Twin([3], [4], link, null, rng.random(2 * SPAN + 1) ** 8 + 1e-9, rng.random(SPAN + 1) + 0.05)
    calls, kernel = [], align_infer.infer_pairs
    monkeypatch.setattr(align_infer, "infer_pairs", lambda *args: (calls.append(args[3]), kernel(*args)))
    q = twin.structure().infer()
    np.testing.assert_allclose(q.log_partition, twin.log_partition(), rtol=1e-10)
    np.testing.assert_allclose(q.at(np.arange(16)), twin.marginals(), atol=1e-9)
    assert calls[0] is None


def test_log_space_gives_the_same_posteriors_and_counts():
    rng = np.random.default_rng(9)
    structure = Twin(
        [3, 2], [4, 2], rng.random(16), rng.random(6), rng.random(2 * SPAN + 1) + 0.05, rng.random(SPAN + 1) + 0.05,
        factors=np.vstack((np.ones(5), rng.random((2, 5)) + 0.5)), rows=[0, 1, 2, 1, 1],
    ).structure()  # fmt: skip
    scaled, logs = structure.infer(), structure.new_found()
    align_infer.infer_pairs(np.arange(2), structure.direction, np.ones(2), True, logs)
    in_logs = structure.posterior_of(logs)
    for name in ("link", "null", "log_partition"):
        np.testing.assert_allclose(getattr(in_logs, name), getattr(scaled, name), atol=1e-12)
    for name in ("jumps", "jump_weight", "firsts", "first_weight", "near", "near_weight", "log_norm"):
        np.testing.assert_allclose(getattr(in_logs.places, name), getattr(scaled.places, name), atol=1e-11)


def test_negligible_anchors_drop_less_than_they_say():
    rng, n = np.random.default_rng(5), 30
    link, null = 6 * rng.standard_normal(n * n), np.zeros(n)
    jump, first = rng.random(2 * n + 1) + 0.01, np.ones(n + 1)
    exact = Alignment([n], [n], link, null, jump=jump, first_place=first, p_null=0.1)
    pruned = Alignment.over(exact.parts, exact.words, exact.moves._replace(negligible=1e-9))
    np.testing.assert_allclose(pruned.infer().link, exact.infer().link, atol=1e-6)
    assert pruned.temper(0.5).moves.negligible == 0.0


def test_links_are_named_by_words_and_others_refuse():
    parts = AlignmentParts(np.array([0, 2, 3]), np.array([0, 3, 5]))
    part, source, target = parts.linked_words()
    np.testing.assert_array_equal(parts.link(source, target), part)
    with pytest.raises(DataError, match="same sentence pair"):
        parts.link(0, 4)
    with pytest.raises(ConstraintError, match="links between words"):
        ChainParts(np.array([0, 2]), 2).linked_words()
    with pytest.raises(ConstraintError, match="refers to labels"):
        parts.label(0, 0)


def test_both_directions_are_joint_with_links_of_the_same_numbers():
    forward = Alignment([2], [3], np.zeros(6), np.zeros(3))
    backward = Alignment([2], [3], np.zeros(6), np.zeros(2), forward=False)
    joint = Joint(forward, backward)
    assert joint.kind == "alignment+alignment"
    assert isinstance(joint.parts, JointParts)
    assert joint.parts.starts.tolist() == [0, 9, 17]
    q = joint.infer().at(np.arange(17))
    np.testing.assert_allclose(q, [1 / 3] * 9 + [1 / 4] * 8)


def test_an_impossible_pair_is_named_and_mistakes_are_told():
    with pytest.raises(InfeasibleError, match="instance 7"):
        Alignment([1], [1], [-np.inf], [-np.inf], first=7).infer()
    with pytest.raises(InfeasibleError, match="instance 0"):
        Alignment([1], [1], [-np.inf], [-np.inf], jump=np.ones(3), first_place=np.ones(2)).infer()
    with pytest.raises(DataError, match="at least 5"):
        Alignment([2], [1], np.zeros(2), np.zeros(1), jump=np.ones(3), first_place=np.ones(3))
    with pytest.raises(DataError, match="place 2"):
        Alignment([2], [1], np.zeros(2), np.zeros(1)).score([2])
    hmm = {"jump": np.ones(3), "first_place": np.ones(2)}
    with pytest.raises(DataError, match=r"odd number of weights, at most 3, but have shape \(1, 2\)"):
        Alignment([1], [1], np.zeros(1), np.zeros(1), factors=np.ones((1, 2)), **hmm)
    with pytest.raises(DataError, match="row 0 must be 1"):
        Alignment([1], [1], np.zeros(1), np.zeros(1), factors=np.full((1, 1), 2.0), **hmm)
    with pytest.raises(DataError, match="rows must be 1 numbers from 0 to 0"):
        Alignment([1], [1], np.zeros(1), np.zeros(1), rows=[1], **hmm)
