"""Descriptions of tokens become rows of a sparse matrix."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.errors import DataError
from trellis.models.features import describe, feature_matrix, learn_features, named_values


def test_kinds_of_values():
    description = {"w": "x", "flag": np.True_, "off": False, "n": 2, "zero": 0, "r": np.float32(0.5), "s": {"b", "a"}}
    assert dict(named_values(description)) == {"w=x": 1.0, "flag": 1.0, "n": 2.0, "r": 0.5, "s=a": 1.0, "s=b": 1.0}
    assert list(named_values(["a", "b"])) == [("a", 1.0), ("b", 1.0)]
    assert list(named_values("Paris")) == [("word=Paris", 1.0)]


def test_functions_see_the_whole_sentence():
    def neighbours(sentence, t):
        return {"here": sentence[t], "next": sentence[t + 1] if t + 1 < len(sentence) else None}

    tokens = [dict(token) for token in describe([["a", "b"], ["c"]], neighbours)]
    assert tokens == [{"here=a": 1.0, "next=b": 1.0}, {"here=b": 1.0}, {"here=c": 1.0}]


def test_rare_features_are_dropped_and_unseen_ones_ignored():
    train = [["a", "b"], ["a", "c"], ["a"]]
    names = learn_features(describe([train], None), min_count=2)
    assert names.names == ("a",)
    matrix = feature_matrix(describe([[["a", "new"], ["b"]]], None), names)
    assert matrix.toarray().tolist() == [[1.0], [0.0]]


def test_no_tokens_give_an_empty_matrix():
    assert feature_matrix(describe([[], []], None), learn_features([], 1)).shape == (0, 0)


@pytest.mark.parametrize(
    "description, message",
    [
        ({"x": float("nan")}, "'x' has the value nan"),
        ({"x": object()}, "a value of type object"),
        ([1], "holds names"),
        (3, "must be a dictionary"),
    ],
)
def test_other_values_are_refused(description, message):
    with pytest.raises(DataError, match=message):
        list(named_values(description))


def test_errors_of_a_feature_function_name_the_token():
    def broken(sentence, t):
        return {"next": sentence[t + 1]}

    with pytest.raises(IndexError) as caught:
        list(describe([["a", "b"]], broken))
    assert "at token 1 of sentence 0" in caught.value.__notes__[0]
