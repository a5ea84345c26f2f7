"""Constraint-driven learning: penalties by hand, special cases, and gains over hard EM."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.learn.corpora import tagged_sentences
from trellis.constraints import count, each_label, label, starts, transitions, word
from trellis.constraints.penalties import INFINITE
from trellis.engine import engine_for
from trellis.errors import ConstraintError, DataError, UnknownNameError
from trellis.learn import CCM, UEM, CoDL
from trellis.learn.labelling import CountAnswers, searcher_of
from trellis.models import CRF, HMM
from trellis.models.model import rows_of


def hmm(**settings):
    return HMM(["D", "N", "V"], min_count=1, transition_prior=1.1, emission_prior=1.1, **settings)


def half_labelled(n=60, n_labelled=4, seed=1):
    text, tags = tagged_sentences(n, seed)
    return text, [*tags[:n_labelled], *([None] * (n - n_labelled))], tags


RULES = [
    word.isin("the", "a").implies(label("D")).constraint().named("determiners").learned(),
    (count("D") <= 2).named("few determiners").learned(),
    (transitions(from_="D", to="V") <= 0).named("no D before V").learned(),
]


def test_penalties_are_log_odds_of_the_share_of_places_that_violate():
    text = [["the", "dog", "the"], ["a", "cat"]]
    tags = [["D", "N", "N"], ["D", "N"]]  # one of three breaks the first rule; two words cannot break the second
    learner = CoDL(hmm(), RULES[:2], max_iter=0, smoothing=0.5).fit(text, tags)
    once, never = (1 + 10 / 200) / (3 + 10), (10 / 200) / (1 + 10)  # a prior of ten places, one in 200 broken
    assert learner.penalties_["determiners"] == pytest.approx(-math.log(once / (1 - once)))
    assert learner.penalties_["few determiners"] == pytest.approx(-math.log(never / (1 - never)))


def test_a_count_that_is_exceeded_is_broken_in_each_sentence_and_for_each_label():
    once = each_label(lambda name: starts(name) <= 1).named("once").learned()
    text, tags = [["a", "b", "c", "d"]] * 2, [["D", "N", "D", "D"], ["D", "D", "N", "V"]]  # five, one of them too often
    learner = CoDL(hmm(), [once], max_iter=0, smoothing=0.0).fit(text, tags)
    assert learner.penalties_["once"] == pytest.approx(-math.log((1 / 5) / (4 / 5)))


def test_a_rule_that_fails_more_often_than_not_has_no_price():
    rule = word.isin("the").implies(label("V")).constraint().named("wrong").learned()
    assert CoDL(hmm(), [rule], max_iter=0).fit([["the", "the"]], [["D", "D"]]).penalties_["wrong"] == 0.0


def test_without_constraints_codl_is_hard_em():
    text, labels, _ = half_labelled()
    codl = CoDL(hmm(), (), beta=0.6, max_iter=4).fit(text, labels)
    hard_em = UEM(hmm(), (), gamma=0.0, beta=0.6, max_iter=4, tol=0.0, start="labelled").fit(text, labels)
    for name, table in hard_em.model_.parameters().items():
        np.testing.assert_allclose(codl.model_.parameters()[name], table, atol=1e-12)


def test_constraints_that_no_output_violates_change_nothing():
    text, labels, _ = half_labelled()
    idle = (count("D") <= 99).named("idle").learned()
    one, two = (CoDL(hmm(), rules, max_iter=3).fit(text, labels) for rules in ((), (idle,)))
    assert np.array_equal(one.model_.emission_, two.model_.emission_)


def test_with_beta_1_parameters_and_penalties_stay_supervised():
    text, labels, _ = half_labelled()
    supervised = CoDL(hmm(), RULES, max_iter=0).fit(text, labels)
    learner = CoDL(hmm(), RULES, max_iter=3, beta=1.0).fit(text, labels)
    for name, table in supervised.model_.parameters().items():
        np.testing.assert_allclose(learner.model_.parameters()[name], table, atol=1e-15)
    assert learner.penalties_ == pytest.approx(supervised.penalties_)


def test_beta_0_learns_from_the_labelling_alone_and_none_counts_both_together():
    text, labels, _ = half_labelled()
    first = CoDL(hmm(), RULES, max_iter=0).fit(text, labels)
    found = first.predict(text[4:])
    free, both = hmm(), hmm()
    for model in (free, both):
        model.encode(text, labels, fit=True)
    free.update(free.count(free.encode(text[4:], found)))
    both.update(both.count(both.encode(text, [*labels[:4], *found])))
    for beta, want in ((0.0, free), (None, both)):
        got = CoDL(hmm(), RULES, max_iter=1, beta=beta).fit(text, labels).model_
        np.testing.assert_allclose(got.transition_, want.transition_, atol=1e-12)
        np.testing.assert_allclose(got.emission_, want.emission_, atol=1e-12)


def test_hard_is_the_limit_of_ever_larger_penalties():
    text, labels, _ = half_labelled()
    hard = CoDL(hmm(), RULES, hard=True, max_iter=3).fit(text, labels)
    assert set(hard.penalties_.values()) == {INFINITE}
    large = CoDL(hmm(), [r.penalty(1e4) for r in RULES], max_iter=3).fit(text, labels)
    assert np.array_equal(hard.model_.emission_, large.model_.emission_)
    assert hard.predict(text) == large.predict(text)
    few = [t for t in text if sum(w in ("the", "a") for w in t) <= 2]  # where the rules can all hold
    assert sum(hard.violations(few, constrained=True).values()) == 0.0


def test_hard_rules_that_conflict_still_leave_an_output_with_fewest_violations():
    rules = [
        word.isin("x").implies(label("D")).constraint().named("x is D").learned(),
        word.isin("x").implies(label("N")).constraint().named("x is N").learned(),
    ]
    learner = CoDL(hmm(), rules, hard=True, max_iter=1).fit([["x", "dog"], ["x"]], [["D", "N"], None])
    assert learner.predict([["x"]])[0][0] in {"D", "N"}


def test_constraints_of_a_strength_of_their_own_keep_it():
    """With a price of its own a rule costs that much, whatever the labelled sentences say of it."""
    text, labels, _ = half_labelled()
    wrong = word.isin("the", "a").implies(label("V")).constraint().named("wrong")
    assert CoDL(hmm(), [wrong.learned()], max_iter=0).fit(text, labels).penalties_["wrong"] == 0.0
    for price, obeyed in ((0.01, False), (1e4, True)):
        for hard in (False, True):
            learner = CoDL(hmm(), [wrong.penalty(price), RULES[0]], max_iter=0, hard=hard).fit(text, labels)
            assert learner.penalties_["wrong"] == 0.0  # not learned: its own price is in the rows
            assert (learner.penalties_["determiners"] == INFINITE) is hard
            found = {
                y
                for t, row in zip(text, learner.predict(text), strict=True)
                for w, y in zip(t, row, strict=True)
                if w in ("the", "a")
            }
            # a strict rule of the same words, where there is one, costs more than any price
            assert found == ({"V"} if obeyed and not hard else {"D"})


@pytest.mark.parametrize("k", [2, 4])
def test_k_best_learns_from_k_outputs_of_equal_weight(k):
    text, labels, _ = half_labelled(20, 4)
    learner = CoDL(hmm(), (), max_iter=1, beta=0.0, k_best=k).fit(text, labels)
    supervised = CoDL(hmm(), (), max_iter=0).fit(text, labels).model_
    batch = supervised.encode(text[4:])
    best = supervised.scores(batch).kbest(k)
    there = best.score > -np.inf
    share = there / there.sum(axis=0)
    counts = None
    for labelling, weight in zip(best.labels, share, strict=True):
        weighed = replace(batch, labels=np.maximum(labelling, 0), weights=weight)
        counted = supervised.count(weighed)
        counts = counted if counts is None else counts + counted
    supervised.update(counts)
    np.testing.assert_allclose(learner.model_.emission_, supervised.emission_, atol=1e-12)
    np.testing.assert_allclose(learner.model_.transition_, supervised.transition_, atol=1e-12)


def test_counts_of_k_best_outputs_average_those_of_each():
    text, labels, _ = half_labelled(12, 4)
    model = hmm()
    codl = CoDL(model, (), max_iter=0).fit(text, labels)
    model = codl.model_
    batch = model.encode(text[4:]).with_labels(None)
    best = model.scores(batch).kbest(3)
    there = best.score > -np.inf
    share = there / there.sum(axis=0)
    expected = np.zeros(3)
    first = batch.offsets[:-1]
    for place in range(3):
        np.add.at(expected, best.labels[place][first][there[place]], share[place][there[place]])
    found = searcher_of(model, batch, (), engine_for(1)).run(model.scores, np.zeros(0), k=3, then=CountAnswers(model))
    np.testing.assert_allclose(found.collected.statistics.start, expected, atol=1e-12)
    assert codl.penalties_ == {}


def test_without_beta_and_with_fixed_prices_every_round_raises_the_objective():
    text, labels, _ = half_labelled(80, 5, seed=3)
    rules = [r.penalty(2.0) for r in RULES]
    model = HMM(["D", "N", "V"], min_count=1, transition_prior=1.5, emission_prior=1.5)
    history = CoDL(model, rules, beta=None, max_iter=6).fit(text, labels).history_
    assert len(history) >= 3
    assert all(b >= a - 1e-9 * abs(a) for a, b in zip(history.objective, history.objective[1:], strict=False))


def test_known_labels_of_partly_labelled_sentences_are_kept():
    text = [["the", "dog", "runs"], ["walk", "walk"], ["walk"]]
    learner = CoDL(hmm(), (), beta=0.0, max_iter=1).fit(text, [["D", "N", "V"], ["V", None], ["V"]])
    assert learner.model_.start_[2] > 0.8


@pytest.mark.slow
def test_any_number_of_threads_gives_the_same_bits():
    text, labels, _ = half_labelled(3000, 10)
    one, four = (CoDL(hmm(), RULES, max_iter=2, n_jobs=t).fit(text, labels).model_.emission_ for t in (1, 4))
    assert np.array_equal(one, four)


def test_codl_takes_a_crf():
    text, labels, tags = half_labelled(40, 6)
    learner = CoDL(CRF(["D", "N", "V"], l2=1.0), RULES, max_iter=2, beta=0.5).fit(text, labels)
    assert learner.score(text, tags) > 0.7
    assert sum(learner.violations(text, constrained=True).values()) <= sum(learner.violations(text).values())


def test_nothing_labelled_and_a_price_to_be_learned_is_refused_with_the_ways_out():
    with pytest.raises(DataError, match="no labelled text: the penalties of 'determiners'.* Label some texts"):
        CoDL(hmm(), RULES).fit([["the", "dog"]])


def test_nothing_labelled_is_fine_with_prices_of_ones_own():
    text, _, tags = half_labelled(60)
    learner = CoDL(hmm(), [r.penalty(20.0) for r in RULES], max_iter=5, random_state=0).fit(text)
    assert learner.score(text, tags) > 1 / 3
    assert learner.predict([["the", "dog"]])[0][0] == "D"


@pytest.mark.parametrize("method", ["codl", "pr", "uem", "hard-em", "em", "supervised"])
def test_one_class_runs_every_method_on_the_same_constraints(method):
    text, labels, tags = half_labelled()
    ccm = CCM(hmm(), RULES, method=method, max_iter=3).fit(text, labels)
    assert set(ccm.penalties_) == {"determiners", "few determiners", "no D before V"}
    assert ccm.score(text, tags) > 0.75
    assert ccm.n_iter_ <= 3


def test_ccm_codl_is_codl_and_em_and_pr_are_uem():
    text, labels, _ = half_labelled()
    codl, ccm = CoDL(hmm(), RULES, max_iter=2).fit(text, labels), CCM(hmm(), RULES, max_iter=2).fit(text, labels)
    assert np.array_equal(codl.model_.emission_, ccm.model_.emission_)
    em = CCM(hmm(), RULES, method="em", max_iter=2, beta=0.5).fit(text, labels)
    uem = UEM(hmm(), (), gamma=1.0, beta=0.5, max_iter=2, tol=0.0).fit(text, labels)
    assert np.array_equal(em.model_.emission_, uem.model_.emission_)
    pr = CCM(hmm(), RULES, method="pr", max_iter=2).fit(text, labels)
    assert np.array_equal(
        pr.model_.emission_, CCM(hmm(), RULES, method="uem", gamma=1.0, max_iter=2).fit(text, labels).model_.emission_
    )
    assert set(pr.duals_) == set(pr.penalties_)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rules",
    [
        [count("V").per("corpus") <= 1],
        [count("N").per("corpus") >= 4],
        [count("V").per("corpus") >= 3, count("N").per("corpus") <= 2, count("V") <= 2],
        [count("D").per("corpus") == 4, transitions(from_="D", to="V") <= 0],
        [count("N").per("corpus") >= 0.5 * count().per("corpus")],
    ],
)
def test_counts_over_the_corpus_hold_and_no_labelling_with_such_counts_is_better(rules):
    text = [["the", "dog"], ["cat", "sees"], ["dog", "sees", "cat"]]
    model = CoDL(hmm(), (), max_iter=0).fit(*half_labelled(12, 8)[:2]).model_
    batch = model.encode(text).with_labels(None)
    search = searcher_of(model, batch, rules, engine_for(1))
    found = search.run(model.scores, np.zeros(len(rules)))
    scores, rows, coupling = model.scores(batch), rows_of(model, batch, rules), search.coupling
    np.testing.assert_allclose(found.counts, coupling.evaluate(found.labels))
    assert np.all(coupling.excess(found.counts) <= 1e-9)
    assert found.value == pytest.approx(float(scores.score(found.labels).sum()))
    # Everett 1963: what is best at prices is the best of all whose counts are no larger
    for labels in map(np.array, itertools.product(range(3), repeat=7)):
        counts = coupling.evaluate(labels)
        if np.all(np.where(coupling.equality, counts == found.counts, counts <= found.counts + 1e-9)):
            possible = np.all(rows.excess(rows.evaluate(labels)) <= 1e-9)
            if possible and not np.any(rows.forbidden.contains(rows.parts.of(labels))):
                assert float(scores.score(labels).sum()) <= found.value + 1e-9


def test_constraints_over_the_corpus_that_are_no_hard_counts_are_for_projections_and_have_no_learned_price():
    text, labels, _ = half_labelled(20)
    few_verbs = (count("V").per("corpus") <= 0.5 * count().per("corpus")).named("few verbs")
    with pytest.raises(ConstraintError, match="'few verbs' spans several instances.*method 'pr' or 'uem'"):
        CoDL(hmm(), [few_verbs.penalty(1.0)]).fit(text, labels)
    with pytest.raises(ConstraintError, match="penalty of 'few verbs' cannot be learned"):
        CCM(hmm(), [few_verbs.learned()], method="pr").fit(text, labels)
    made = CCM(hmm(), [few_verbs, *RULES], method="pr", max_iter=2).fit(text, labels)
    assert len(made.predict(text)) == 20


def test_mistakes_in_settings_are_named():
    text, labels, _ = half_labelled(8)
    with pytest.raises(UnknownNameError, match="did you mean 'codl'"):
        CCM(hmm(), RULES, method="cold").fit(text, labels)
    with pytest.raises(DataError, match="gamma requires method 'uem'"):
        CCM(hmm(), RULES, method="pr", gamma=0.3).fit(text, labels)
    with pytest.raises(DataError, match="beta must lie in 0..1"):
        CoDL(hmm(), RULES, beta=1.5).fit(text, labels)
