"""Batches: what is known of their labels, and instances taken from them."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError

NAMES = Vocabulary(["A", "B"], kind="label")


def batch() -> Batch:
    """All labels known, none, some, and a sentence without words."""
    return Batch.from_sentences(
        [["a", "b"], ["c"], ["d", "e", "f"], []],
        [["A", "B"], None, [None, "A", None], []],
        label_names=NAMES,
        weights=[1.0, 0.5, 2.0, 3.0],
    )


def test_an_instance_is_complete_if_it_has_labels_and_all_are_known() -> None:
    assert batch().complete.tolist() == [True, False, False, False]
    assert batch().known
    assert not batch().with_labels(None).known
    assert batch().with_labels(np.zeros(6, np.int32)).complete.tolist() == [True, True, True, False]
    empty = Batch.from_sentences([])
    assert empty.complete.tolist() == []
    assert not empty.known


def test_instances_are_taken_with_all_that_belongs_to_them() -> None:
    whole = batch()
    words = whole.column("word")
    for some, numbers in ((whole.take(np.array([2, 0, 3])), [2, 0, 3]), (whole.instances(1, 3), [1, 2])):
        assert len(some) == len(numbers)
        assert some.weights.tolist() == [whole.weights[i] for i in numbers]
        slots = [t for i in numbers for t in range(whole.offsets[i], whole.offsets[i + 1])]
        np.testing.assert_array_equal(some.labels, whole.labels[slots])
        np.testing.assert_array_equal(some.column("word").codes, words.codes[slots])
        assert some.lengths.tolist() == [whole.lengths[i] for i in numbers]
        assert some.complete.tolist() == [whole.complete[i] for i in numbers]


@pytest.mark.parametrize(
    "wrong",
    [{"labels": np.zeros(5, np.int32)}, {"weights": np.ones(3)}, {"weights": np.array([1.0, -1.0, 1.0, 1.0])}],
)
def test_batches_that_do_not_fit_together_are_refused(wrong: dict[str, np.ndarray]) -> None:
    made = batch()
    with pytest.raises(DataError):
        Batch(**{"offsets": made.offsets, "labels": made.labels, "weights": made.weights, **wrong})
