"""Lists of given and trusted labels speak of all the data, fully labelled sentences too."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.constraints import column, given, trusted
from trellis.data.batch import Batch
from trellis.data.corpus import corpus_of
from trellis.data.document import Document
from trellis.data.ragged import offsets_of
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.learn import CCM, UEM, CoDL
from trellis.models import CRF, HMM

TEXT = [["a", "b"], ["b", "a", "c"], ["c"], ["a", "c"], ["b", "b", "a"]]
LABELS = [["X", "Y"], None, None, ["X", "Z"], ["Y", None, None]]
GIVEN = [None, ["Z", None, "X"], ["Y"], ["Z", "Z"], [None, "X", None]]
FREE = [1, 2, 4]
NAMES = ["X", "Y", "Z"]


def hmm():
    return HMM(NAMES, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)


def as_array(lists):
    flat = [[None] * len(words) if own is None else own for words, own in zip(TEXT, lists, strict=True)]
    return np.array([-1 if name is None else NAMES.index(name) for own in flat for name in own])


LEARNERS = {
    "UEM": lambda c: UEM(hmm(), c, max_iter=2, tol=0.0, random_state=0),
    "UEM in small batches": lambda c: UEM(hmm(), c, max_iter=2, tol=0.0, random_state=0, online=1),
    "CoDL": lambda c: CoDL(hmm(), c, max_iter=2),
    "CCM": lambda c: CCM(hmm(), c, max_iter=2, method="pr"),
}


@pytest.mark.parametrize("form", [list, as_array])
@pytest.mark.parametrize("kind", LEARNERS)
def test_a_list_for_all_sentences_is_cut_to_those_that_constraints_act_on(kind, form):
    """It says what a column of the same labels says, which travels with its sentences."""
    guess = [["_"] * len(w) if own is None else [n or "_" for n in own] for w, own in zip(TEXT, GIVEN, strict=True)]
    sentences = [
        Document(tuple(words), None if own is None else tuple(own), {"guess": tuple(cells)})
        for words, own, cells in zip(TEXT, LABELS, guess, strict=True)
    ]
    corpus = corpus_of(sentences, label_names=Vocabulary(NAMES, kind="label"))
    of_list = LEARNERS[kind]([given(form(GIVEN))]).fit(TEXT, LABELS)
    of_column = LEARNERS[kind]([given(column("guess"))]).fit(corpus)
    for name, table in of_column.model_.parameters().items():
        np.testing.assert_array_equal(of_list.model_.parameters()[name], table)


def test_what_is_given_holds_in_the_posterior_of_a_crf():
    learned = UEM(CRF(NAMES, max_iter=20, tol=1e-3), [given(GIVEN)], max_iter=2, tol=0.0).fit(TEXT, LABELS)
    posterior = learned.predict_proba(TEXT, constrained=True)
    for i in range(len(TEXT)):
        for t, name in enumerate(GIVEN[i] or ()):
            if name is not None:
                assert posterior[i][t][NAMES.index(name)] == pytest.approx(1.0, abs=1e-9)


def test_learning_with_a_list_equals_learning_with_the_same_labels_known():
    """Hard labels for all free tokens are what y says when it has them."""
    whole = [None, ["Z", "Y", "X"], ["Y"], None, ["Y", "X", "X"]]
    told = UEM(hmm(), [given(whole)], max_iter=3, tol=0.0, start="labelled").fit(TEXT, LABELS)
    known = [LABELS[i] if own is None else own for i, own in enumerate(whole)]
    plain = UEM(hmm(), max_iter=3, tol=0.0, start="labelled").fit(TEXT, known)
    for name, table in plain.model_.parameters().items():
        np.testing.assert_allclose(told.model_.parameters()[name], table, atol=1e-6)


def test_trusted_lists_count_what_is_given_for_free_sentences():
    told = UEM(hmm(), [trusted(GIVEN, at_least=1.0)], max_iter=2, tol=0.0, random_state=0).fit(TEXT, LABELS)
    cut = UEM(hmm(), [trusted([GIVEN[i] for i in FREE], at_least=1.0)], max_iter=2, tol=0.0, random_state=0)
    cut.fit(TEXT, LABELS)
    for name, table in cut.model_.parameters().items():
        np.testing.assert_array_equal(told.model_.parameters()[name], table)


def test_a_list_of_another_length_is_told():
    with pytest.raises(DataError, match="labels are given for 4 instances"):
        UEM(hmm(), [given(GIVEN[:4])], max_iter=2).fit(TEXT, LABELS)


def test_batches_know_where_they_were_taken_from():
    batch = Batch.from_sentences(TEXT)
    assert batch.origin is None
    part = batch.take(np.array([4, 1, 2])).instances(1, 3).take(np.array([1, 0]))
    assert part.origin.instances.tolist() == [2, 1]
    assert part.origin.starts.tolist() == [5, 2]
    assert (part.origin.n_instances, part.origin.n_slots) == (5, 11)
    assert offsets_of(map(len, TEXT))[-1] == 11
