"""Posteriors, likelihoods and counts of both models against all alignments, listed."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from tests.align.enumeration import alignments, hmm_log_prob, link_matrix, model1_log_prob
from trellis.errors import DataError, InfeasibleError
from trellis.structures.alignment import Alignment
from trellis.structures.kernels import align_hmm, align_log, align_model1
from trellis.structures.kernels.align_work import HMM, Direction, new_work

SIZES = [(1, 1), (2, 3), (3, 2), (4, 3), (3, 1)]


def scores(n_obs, n_places, seed, longest=4):
    rng = np.random.default_rng(seed)
    link, null = np.log(rng.random((n_obs, n_places))), np.log(rng.random(n_obs))
    return link, null, rng.random(2 * longest + 1) + 0.05, rng.random(longest + 1) + 0.05


@pytest.mark.parametrize("n_obs, n_places", SIZES)
@pytest.mark.parametrize("gamma", [1.0, 0.4])
def test_hmm_posteriors_and_likelihood_are_those_of_enumeration(n_obs, n_places, gamma):
    link, null, jump, first = scores(n_obs, n_places, 1)
    structure = Alignment([n_obs], [n_places], link.ravel(), null, jump, first, p_null=0.3, gamma=gamma)
    log_probs = np.array([hmm_log_prob(y, n_places, link, null, jump, first, 0.3) for y in alignments(n_obs, n_places)])
    log_partition = logsumexp(log_probs / gamma)
    posterior = structure.infer()
    weights = np.exp(log_probs / gamma - log_partition)
    np.testing.assert_allclose(posterior.log_partition, [log_partition], rtol=1e-12)
    np.testing.assert_allclose(posterior.link, weights @ link_matrix(n_obs, n_places), atol=1e-13)
    totals = posterior.link.reshape(n_obs, n_places).sum(1) + posterior.null
    np.testing.assert_allclose(totals, 1.0, rtol=1e-12)
    np.testing.assert_allclose(structure.entropy(), [-(weights * np.log(weights)).sum()], rtol=1e-9)


@pytest.mark.parametrize("n_obs, n_places", SIZES)
def test_best_alignment_has_the_highest_score(n_obs, n_places):
    link, null, jump, first = scores(n_obs, n_places, 2)
    structure = Alignment([n_obs], [n_places], link.ravel(), null, jump, first, p_null=0.3)
    ys = alignments(n_obs, n_places)
    log_probs = [hmm_log_prob(y, n_places, link, null, jump, first, 0.3) for y in ys]
    best = structure.argmax()
    assert tuple(best.labels.tolist()) == ys[int(np.argmax(log_probs))]
    np.testing.assert_allclose(best.score, [max(log_probs)], rtol=1e-12)
    np.testing.assert_allclose(structure.score(best.labels), [max(log_probs)], rtol=1e-12)


def test_a_batch_is_its_pairs_one_by_one():
    parts = [scores(n, k, seed) for seed, (n, k) in enumerate(SIZES)]
    jump, first = parts[0][2], parts[0][3]
    link = np.concatenate([p[0].ravel() for p in parts])
    null = np.concatenate([p[1] for p in parts])
    together = Alignment([n for n, _ in SIZES], [k for _, k in SIZES], link, null, jump, first, p_null=0.2).infer()
    for number, (n_obs, n_places) in enumerate(SIZES):
        alone = Alignment([n_obs], [n_places], *map(np.ravel, parts[number][:2]), jump, first, p_null=0.2).infer()
        assert together.log_partition[number] == alone.log_partition[0]


def test_hmm_counts_are_those_of_enumeration():
    n_obs, n_places, longest = 4, 3, 4
    link, null, jump, first = scores(n_obs, n_places, 3)
    sums, firsts = np.concatenate(([0], np.cumsum(jump))), np.concatenate(([0], np.cumsum(first)))
    direction = Direction(HMM, jump, jump[::-1].copy(), sums, first, firsts, 0.3)
    work = new_work(n_obs, n_places)
    work.emission[:] = np.exp(link)
    work.null_emission[:] = 0.3 * np.exp(null)
    align_hmm.set_places(n_places, direction, 1.0, work)
    align_hmm.forward_backward(n_obs, n_places, work.emission, direction, 0.0, work)
    found = np.zeros(2 * longest + 1)
    align_hmm.add_jumps(n_obs, n_places, work, 0.0, found)

    ys = alignments(n_obs, n_places)
    log_probs = np.array([hmm_log_prob(y, n_places, link, null, jump, first, 0.3) for y in ys])
    weights = np.exp(log_probs - logsumexp(log_probs))
    jumps, occupancy, first_place = np.zeros(2 * longest + 1), np.zeros(n_places + 1), np.zeros(n_places)
    for y, weight in zip(ys, weights, strict=True):
        places = [i for i in y if i >= 0]
        for a, b in itertools.pairwise(places):
            jumps[longest + b - a] += weight
            occupancy[a] += weight
        occupancy[places[-1] if places else n_places] += weight  # to the end
        if places:
            first_place[places[0]] += weight
            occupancy[n_places] += weight
    np.testing.assert_allclose(found[::-1] * jump, jumps, atol=1e-13)
    np.testing.assert_allclose(work.occupancy, occupancy, atol=1e-13)
    np.testing.assert_allclose(work.first_link, first_place, atol=1e-13)


def test_model1_posteriors_and_likelihood_are_those_of_enumeration():
    n_obs, n_places = 3, 3
    link, null, _, _ = scores(n_obs, n_places, 4)
    work = new_work(n_obs, n_places)
    work.null_emission[:] = 0.3 * np.exp(null)
    found = align_model1.independent_posteriors(n_obs, n_places, np.exp(link), 0.7 / n_places, work)
    log_probs = np.array([model1_log_prob(y, n_places, link, null, 0.3) for y in alignments(n_obs, n_places)])
    np.testing.assert_allclose(found, logsumexp(log_probs), rtol=1e-12)
    weights = np.exp(log_probs - logsumexp(log_probs))
    np.testing.assert_allclose(work.link.ravel(), weights @ link_matrix(n_obs, n_places), atol=1e-13)


@pytest.mark.parametrize("n_obs, n_places, reach", [(3, 4, 1.5), (4, 3, 7.0), (3, 1, 2.0)])
def test_model1_with_a_reach_is_that_of_enumeration_with_places_near_the_diagonal(n_obs, n_places, reach):
    link, null, _, _ = scores(n_obs, n_places, 8)
    middles = (np.arange(n_obs) + 0.5) * n_places / n_obs
    near = np.exp(-np.abs(np.arange(n_places) + 0.5 - middles[:, None]) / reach)
    near /= near.sum(axis=1, keepdims=True)
    work = new_work(n_obs, n_places)
    work.null_emission[:] = 0.3 * np.exp(null)
    work.emission[:] = np.exp(link)
    pull = np.exp((np.arange(n_places + 3) + 0.5) / reach)
    align_model1.favour_diagonal(n_obs, n_places, pull, work.emission)
    found = align_model1.independent_posteriors(n_obs, n_places, work.emission, 0.7 / n_places, work)
    pulled = link + np.log(n_places * near)
    log_probs = np.array([model1_log_prob(y, n_places, pulled, null, 0.3) for y in alignments(n_obs, n_places)])
    np.testing.assert_allclose(found, logsumexp(log_probs), rtol=1e-12)
    weights = np.exp(log_probs - logsumexp(log_probs))
    np.testing.assert_allclose(work.link.ravel(), weights @ link_matrix(n_obs, n_places), atol=1e-13)


def test_the_beam_drops_less_than_it_says():
    n_obs = n_places = 30
    rng = np.random.default_rng(5)
    emission = np.exp(6 * rng.standard_normal((n_obs, n_places)))
    jump, first = rng.random(2 * n_places + 1) + 0.01, np.ones(n_places + 1)
    sums, firsts = np.concatenate(([0], np.cumsum(jump))), np.concatenate(([0], np.cumsum(first)))
    direction = Direction(HMM, jump, jump[::-1].copy(), sums, first, firsts, 0.1)
    found = []
    for beam in (0.0, 1e-9):
        work = new_work(n_obs, n_places)
        work.null_emission[:] = 0.1
        align_hmm.set_places(n_places, direction, 1.0, work)
        align_hmm.forward_backward(n_obs, n_places, emission, direction, beam, work)
        found.append(work.link.copy())
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


def test_forbidden_links_have_no_mass_and_a_hopeless_pair_is_named():
    link, null, jump, first = scores(3, 2, 6)
    link[1, 0] = -np.inf
    posterior = Alignment([3], [2], link.ravel(), null, jump, first, p_null=0.3).infer()
    assert posterior.link.reshape(3, 2)[1, 0] == 0.0
    link[1, :], null[1] = -np.inf, -np.inf
    with pytest.raises(InfeasibleError, match="instance 0"):
        Alignment([3], [2], link.ravel(), null, jump, first, p_null=0.3).infer()


def test_too_few_jump_weights_are_refused():
    link, null, _, first = scores(3, 2, 7)
    with pytest.raises(DataError, match="at least 5"):
        Alignment([3], [2], link.ravel(), null, np.ones(3), first, p_null=0.3)


@pytest.mark.parametrize("gamma", [0.05, 0.01])
def test_extreme_scores_are_done_in_log_space(gamma):
    link, null, jump, first = scores(4, 3, 8)
    link, jump = 20 * link, jump**8
    structure = Alignment([4], [3], link.ravel(), null, jump, first, p_null=0.3, gamma=gamma)
    log_probs = np.array([hmm_log_prob(y, 3, link, null, jump, first, 0.3) for y in alignments(4, 3)])
    log_partition = logsumexp(log_probs / gamma)
    posterior = structure.infer()
    np.testing.assert_allclose(posterior.log_partition, [log_partition], rtol=1e-10)
    weights = np.exp(log_probs / gamma - log_partition)
    np.testing.assert_allclose(posterior.link, weights @ link_matrix(4, 3), atol=1e-9)


def test_log_space_gives_the_same_posteriors_and_counts():
    n_obs, n_places, longest = 4, 3, 4
    link, null, jump, first = scores(n_obs, n_places, 9)
    sums, firsts = np.concatenate(([0], np.cumsum(jump))), np.concatenate(([0], np.cumsum(first)))
    direction = Direction(HMM, jump, jump[::-1].copy(), sums, first, firsts, 0.3)
    works = [new_work(n_obs, n_places) for _ in range(2)]
    for work in works:
        work.null_emission[:] = 0.3 * np.exp(null)
        align_hmm.set_places(n_places, direction, 1.0, work)
    scaled = align_hmm.forward_backward(n_obs, n_places, np.exp(link), direction, 0.0, works[0])
    logs = align_log.forward_backward_log(n_obs, n_places, np.exp(link), direction, works[1])
    np.testing.assert_allclose(logs, scaled, rtol=1e-12)
    for name in ("link", "null_link", "occupancy", "first_link"):
        np.testing.assert_allclose(getattr(works[1], name), getattr(works[0], name), atol=1e-13)
    found = np.zeros(2 * longest + 1)
    align_hmm.add_jumps(n_obs, n_places, works[0], 0.0, found)
    np.testing.assert_allclose(works[1].jumps, (found[::-1] * jump)[1:-1], atol=1e-13)
