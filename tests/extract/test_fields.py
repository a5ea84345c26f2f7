"""Token accuracy, field F1 and the confusion table, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.errors import DataError
from trellis.metrics.fields import score_fields

LABELS = st.lists(st.lists(st.sampled_from(["A", "B", "O"]), max_size=6), min_size=1, max_size=4)


def test_a_field_counts_only_if_label_and_both_ends_are_right():
    gold = [["A", "A", "B", "B", "O", "A"]]
    output = [["A", "A", "B", "O", "O", "B"]]
    scores = score_fields(gold, output)
    assert scores.accuracy == pytest.approx(4 / 6)
    assert (scores.total.n_gold, scores.total.n_found, scores.total.n_right) == (3, 3, 1)
    assert scores.total.f1 == pytest.approx(1 / 3)
    assert scores.fields["A"].precision == 1.0
    assert scores.fields["A"].recall == 0.5
    assert scores.fields["B"].f1 == 0.0
    assert scores.labels == ("A", "B", "O")
    assert scores.confusion.tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]


@given(LABELS)
def test_gold_itself_is_perfect(labels):
    if not any(labels):
        return
    scores = score_fields(labels, labels)
    assert scores.accuracy == 1.0
    assert scores.total.n_right == scores.total.n_gold == scores.total.n_found
    assert np.all(scores.confusion == np.diag(np.diag(scores.confusion)))


def test_tokens_without_a_gold_label_are_not_judged():
    scores = score_fields([["A", None]], [["A", "B"]])
    assert (scores.accuracy, scores.n_tokens, scores.total.n_gold) == (1.0, 1, 0)


def test_texts_that_do_not_match_are_refused():
    with pytest.raises(DataError, match="gold has 1 text but the output has 2"):
        score_fields([["A"]], [["A"], ["B"]])
    with pytest.raises(DataError, match="text 0 has 1 token in gold but 2"):
        score_fields([["A"]], [["A", "B"]])
    with pytest.raises(DataError, match="no gold label is known"):
        score_fields([[None]], [["A"]])
