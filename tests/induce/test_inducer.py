"""The Inducer: what its methods and options promise."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from trellis.apps.induce.inducer import Inducer, tag_text
from trellis.errors import DataError, UnknownNameError
from trellis.learn import UEM
from trellis.metrics.induction import score_induction
from trellis.models import CRF, HMM, load_model
from trellis.models.lexicon import closed_dictionary

from .toy import WORDS, sentences

TEXT, TAGS = sentences(300)
SMALL = {"frequent": 5, "max_iter": 12, "em_iter": 4, "random_state": 0}


def test_without_strength_sparse_is_em_bit_for_bit():
    em = Inducer(4, method="em", **SMALL).fit(TEXT)
    none = Inducer(4, method="sparse", strength=0.0, **SMALL).fit(TEXT)
    for name, table in em.model_.parameters().items():
        np.testing.assert_array_equal(table, none.model_.parameters()[name])
    assert em.states() == none.states()


def test_em_is_the_plain_learner_bit_for_bit():
    inducer = Inducer(4, method="em", emissions="table", **SMALL).fit(TEXT)
    hmm = HMM(4, transition_prior=1.0, emission_prior=1.0)
    hmm.encode(TEXT, fit=True)
    hmm.randomize(np.random.default_rng(0))
    learner = UEM(hmm, start="model", max_iter=12, tol=0.0).fit(TEXT)
    np.testing.assert_array_equal(learner.model_.emission_, inducer.model_.emission_)


def test_sparse_gives_words_fewer_states_than_em():
    em = Inducer(6, method="em", **SMALL).fit(TEXT)
    sparse = Inducer(6, method="sparse", strength=20.0, **SMALL).fit(TEXT)
    assert sparse.labels_per_word_ - 1 < 0.4 * (em.labels_per_word_ - 1)


def test_the_objective_of_sparse_rounds_falls_by_no_more_than_the_gap():
    inducer = Inducer(6, strength=20.0, frequent=5, max_iter=60, em_iter=5, random_state=1).fit(TEXT)
    rounds = list(inducer.history_)[5:]
    for before, after in pairwise(rounds):
        assert after.objective >= before.objective - after.gap - 1e-6
    assert rounds[-1].gap < 0.05 * rounds[0].gap


def test_more_dual_steps_end_with_a_smaller_gap():
    gaps = [Inducer(5, dual_steps=n, **SMALL).fit(TEXT).history_[-1].gap for n in (1, 8)]
    assert gaps[1] < gaps[0]


@pytest.mark.parametrize("method", ["em", "sparse", "vb"])
def test_threads_leave_the_bits_alone(method):
    one, two = (Inducer(4, method=method, n_jobs=n, **SMALL).fit(TEXT) for n in (1, 2))
    np.testing.assert_array_equal(one.model_.emission_, two.model_.emission_)
    assert one.states() == two.states()


def test_closed_class_words_and_tags_belong_to_each_other_alone():
    closed = {word: ["D"] for word in WORDS["D"]}
    inducer = Inducer(4, closed_classes=closed, **SMALL).fit(TEXT)
    for words, states in zip(TEXT, inducer.states(), strict=True):
        for word, state in zip(words, states, strict=True):
            assert (state == "D") == (word in closed)
    assert {w for words in TEXT for w in words} <= {*inducer.model_.symbols_}


def test_closed_classes_need_room_for_open_ones():
    with pytest.raises(DataError, match="leave none"):
        closed_dictionary({"the": ["D"]}, 1)
    with pytest.raises(UnknownNameError, match="D"):
        closed_dictionary({"the": ["D"]}, ["DET", "N"])


def test_a_tag_dictionary_is_kept_to():
    dictionary = {word: [tag] for tag, words in WORDS.items() for word in words[:2]}
    inducer = Inducer(list("DANV"), tag_dictionary=dictionary, **SMALL).fit(TEXT)
    for words, states in zip(TEXT, inducer.states(), strict=True):
        for word, state in zip(words, states, strict=True):
            assert word not in dictionary or state == dictionary[word][0]


@pytest.mark.parametrize("keep_labels", [True, False])
@pytest.mark.parametrize("method", ["em", "sparse"])
def test_a_few_labelled_sentences_name_the_states(method, keep_labels):
    y = [*TAGS[:15], *([None] * (len(TEXT) - 15))]
    inducer = Inducer(list("DANV"), method=method, keep_labels=keep_labels, **SMALL).fit(TEXT, y)
    right = [
        s == t for states, tags in zip(inducer.states(), TAGS, strict=True) for s, t in zip(states, tags, strict=True)
    ]
    assert np.mean(right) > 0.95


@pytest.mark.parametrize("gamma", [0.5, 2.0])
def test_any_gamma_above_0_works_with_sparsity(gamma):
    """Words use fewer states than without it."""
    inducer, plain = Inducer(4, gamma=gamma, **SMALL).fit(TEXT), Inducer(4, method="em", gamma=gamma, **SMALL).fit(TEXT)
    assert len(inducer.history_) == 12
    assert inducer.labels_per_word_ - 1 < 0.8 * (plain.labels_per_word_ - 1)


def test_hard_em_works_without_sparsity():
    inducer = Inducer(4, method="em", gamma=0.0, **SMALL).fit(TEXT)
    assert inducer.history_.objective == sorted(inducer.history_.objective)


def test_sparse_finds_the_classes_of_a_regular_language():
    best = max(
        (Inducer(4, strength=10.0, frequent=5, max_iter=60, em_iter=10, random_state=s).fit(TEXT) for s in range(4)),
        key=lambda inducer: inducer.history_[-1].objective,
    )
    flat = [t for tags in TAGS for t in tags]
    assert score_induction(best.posterior_states.tolist(), flat).many_to_one > 0.95


def test_a_saved_model_tags_as_the_inducer_does(tmp_path):
    inducer = Inducer(4, **SMALL).fit(TEXT)
    inducer.save(tmp_path / "m.trellis")
    assert tag_text(load_model(tmp_path / "m.trellis"), TEXT[:20]) == inducer.predict(TEXT[:20])


def test_states_help_a_tagger_that_saw_few_sentences():
    induced = [TAGS]  # as good as states get
    unseen = list(range(50, 150))
    accuracy = []
    for states in ([], induced):
        rows = [
            [{"word": w, "states": [f"{m}={s[i][t]}" for m, s in enumerate(states)]} for t, w in enumerate(words)]
            for i, words in enumerate(TEXT)
        ]
        predicted = CRF(l2=0.1).fit(rows[:2], TAGS[:2]).predict([rows[i] for i in unseen])
        accuracy.append(
            np.mean(
                [p == t for row, i in zip(predicted, unseen, strict=True) for p, t in zip(row, TAGS[i], strict=True)]
            )
        )
    assert accuracy[1] > accuracy[0]


def test_mistakes_are_told():
    with pytest.raises(UnknownNameError, match="sparse"):
        Inducer(method="spars").fit(TEXT)
    with pytest.raises(DataError, match="0 or more"):
        Inducer(strength=-1.0).fit(TEXT)
    with pytest.raises(DataError, match="γ > 0"):
        Inducer(4, gamma=0.0, **SMALL).fit(TEXT)
