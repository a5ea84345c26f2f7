"""Measures of induced states: against scikit-learn, and against what they must be by definition."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import completeness_score, homogeneity_score, mutual_info_score, v_measure_score

from trellis.errors import DataError
from trellis.metrics.induction import (
    add_maxima,
    contingency,
    greedy_one_to_one,
    labels_a_word_of_tagging,
    mean_labels,
    score_induction,
)

pairs = st.lists(st.tuples(st.integers(0, 4), st.sampled_from("NVDA")), min_size=1, max_size=60)


@settings(deadline=None, max_examples=60)
@given(pairs)
def test_information_measures_agree_with_scikit_learn(drawn):
    states, tags = [s for s, _ in drawn], [g for _, g in drawn]
    scores = score_induction(states, tags)
    assert scores.mutual_information == pytest.approx(mutual_info_score(tags, states) / np.log(2), abs=1e-9)
    assert scores.homogeneity == pytest.approx(homogeneity_score(tags, states), abs=1e-9)
    assert scores.completeness == pytest.approx(completeness_score(tags, states), abs=1e-9)
    assert scores.v_measure == pytest.approx(v_measure_score(tags, states), abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(pairs)
def test_greedy_one_to_one_is_at_most_the_best_mapping_and_at_least_half_of_it(drawn):
    counts = contingency([s for s, _ in drawn], [g for _, g in drawn]).counts
    wide = counts if counts.shape[0] <= counts.shape[1] else counts.T
    best = max(
        sum(wide[i, j] for i, j in enumerate(chosen)) for chosen in permutations(range(wide.shape[1]), wide.shape[0])
    )
    assert best / 2 <= greedy_one_to_one(counts) <= best


def test_variation_of_information_is_0_for_a_renaming_and_symmetric():
    tags = list("NVNVDN")
    assert score_induction([{"N": 7, "V": 1, "D": 3}[t] for t in tags], tags).variation_of_information == 0.0
    states = [0, 0, 1, 1, 2, 2]
    there, back = score_induction(states, tags), score_induction(tags, states)
    assert there.variation_of_information == pytest.approx(back.variation_of_information)


def test_many_to_one_grows_when_a_state_is_split_and_one_to_one_need_not():
    tags = list("NNVV")
    assert score_induction([0, 0, 0, 0], tags).many_to_one == 0.5
    split = score_induction([0, 1, 2, 3], tags)
    assert (split.many_to_one, split.one_to_one) == (1.0, 0.5)


def test_state_sizes_fall_and_sum_to_the_tokens():
    scores = score_induction([2, 2, 2, 1, 1, 0], list("NNNVVD"))
    assert scores.state_sizes.tolist() == [3, 2, 1]
    assert scores.state_sizes.sum() == scores.n_tokens == 6


def test_labels_a_word_counts_maxima_of_frequent_words_alone():
    words = np.array([0, 0, 1, 1, 2])
    posterior = np.array([[0.9, 0.1], [0.2, 0.8], [1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    largest = np.zeros((3, 2))
    add_maxima(words, posterior, largest)
    assert mean_labels(words, largest, at_least=2) == pytest.approx((0.9 + 0.8 + 1.0) / 2)


def test_maxima_taken_in_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    words, posterior = rng.integers(5, size=40), rng.dirichlet(np.ones(3), size=40)
    largest, whole = np.zeros((2, 5, 3))
    add_maxima(words, posterior, whole)
    for part in np.array_split(np.arange(40), 4):
        add_maxima(words[part], posterior[part], largest)
    np.testing.assert_array_equal(largest, whole)


def test_a_hard_tagging_counts_distinct_labels():
    assert labels_a_word_of_tagging([["a", "a", "b"]], [["1", "2", "1"]], at_least=2) == 2.0
    assert labels_a_word_of_tagging([["a"]], [["1"]], at_least=2) is None


def test_unequal_lengths_and_nothing_are_refused():
    with pytest.raises(DataError, match="2 induced states but 1 gold"):
        score_induction([0, 1], ["N"])
    with pytest.raises(DataError, match="no tokens"):
        score_induction([], [])
