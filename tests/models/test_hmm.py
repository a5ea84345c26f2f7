"""The HMM: EM against hmmlearn, supervised counting, Bayes, dictionaries, unknown words, files."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hmmlearn import hmm as hmmlearn

from trellis.data.corpus import corpus_of
from trellis.data.document import Document
from trellis.errors import DataError, InfeasibleError, NotFittedError, UnknownNameError
from trellis.models import HMM, load_model

from .corpora import assert_never_falls, em, expectation, random_labels, random_sentences

CLOSED = {"min_count": 1, "unknown": None}
EXACT = {**CLOSED, "transition_prior": 1.0, "emission_prior": 1.0}


def encoded(model, rng, n=60, n_words=15, **options):
    return model.encode(random_sentences(rng, n, n_words, **options), fit=True)


def probabilities(rng, model):
    n, k = len(model.symbols_), len(model.label_names_)
    return {
        "start": rng.dirichlet(np.ones(k)),
        "transition": rng.dirichlet(np.ones(k), k),
        "emission": rng.dirichlet(np.ones(n), k).T,
    }


@pytest.mark.slow
def test_em_follows_hmmlearn_for_twenty_rounds():
    rng = np.random.default_rng(0)
    model = HMM(4, **EXACT)
    batch = encoded(model, rng, n=200, n_words=30, longest=25, shortest=1)
    start = probabilities(rng, model)
    model.set_parameters(start)
    ours = em(model, batch, 20)
    theirs = hmmlearn.CategoricalHMM(4, n_iter=21, tol=-np.inf, init_params="", n_features=len(model.symbols_))
    theirs.startprob_, theirs.transmat_ = start["start"], start["transition"]
    theirs.emissionprob_ = start["emission"].T
    theirs.fit(batch.column("symbol").codes[:, None], batch.lengths)
    np.testing.assert_allclose(ours, list(theirs.monitor_.history), rtol=1e-8)
    assert ours[-1] > ours[0] + 10.0


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"transition_prior": 1.5, "emission_prior": 1.1},
        {"variational": True, "transition_prior": 0.1, "emission_prior": 1e-3},
        {"variational": True, "transition_prior": 2.0, "emission_prior": 1e-5},
    ],
)
def test_the_objective_of_em_never_falls(settings):
    rng = np.random.default_rng(1)
    model = HMM(3, **CLOSED, **settings)
    sentences = random_sentences(rng, 60, 15)
    batch = model.encode(sentences, weights=rng.gamma(1.0, 1.0, 60), fit=True)
    model.randomize(rng)
    trace = em(model, batch, 40)
    assert_never_falls(trace)
    assert trace[-1] > trace[0]


def test_the_variational_bound_at_the_prior_has_no_divergence():
    model = HMM(3, **CLOSED, variational=True, transition_prior=0.4, emission_prior=0.2)
    encoded(model, np.random.default_rng(2))
    assert model.log_prior() == pytest.approx(0.0, abs=1e-10)
    np.testing.assert_allclose(model.emission_.sum(axis=0), 1.0)
    np.testing.assert_allclose(model.transition_.sum(axis=1), 1.0)


def test_statistics_are_expected_counts():
    """Collected counts equal those of an enumeration that weighs every labelling by its posterior."""
    rng = np.random.default_rng(3)
    model = HMM(2, **CLOSED)
    batch = model.encode([["a", "b", "a"], [], ["b"]], weights=[0.5, 1.0, 3.0], fit=True)
    model.set_parameters(probabilities(rng, model))
    statistics, _ = expectation(model, batch)
    p, symbols = model.parameters(), batch.column("symbol").codes
    start, transition, emission = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2))
    for lo, hi, weight in ((0, 3, 0.5), (3, 4, 3.0)):
        outputs = np.array(np.meshgrid(*[[0, 1]] * (hi - lo))).reshape(hi - lo, -1).T
        joint = p["start"][outputs[:, 0]].copy()
        for t in range(hi - lo):
            joint *= p["emission"][symbols[lo + t], outputs[:, t]]
            if t:
                joint *= p["transition"][outputs[:, t - 1], outputs[:, t]]
        for y, q in zip(outputs, weight * joint / joint.sum(), strict=True):
            start[y[0]] += q
            for t, label in enumerate(y):
                emission[symbols[lo + t], label] += q
                if t:
                    transition[y[t - 1], label] += q
    np.testing.assert_allclose(statistics.start, start, atol=1e-13)
    np.testing.assert_allclose(statistics.transition, transition, atol=1e-13)
    np.testing.assert_allclose(statistics.emission.table(), emission, atol=1e-13)


def test_supervised_training_is_counting_and_is_em_on_labelled_data():
    rng = np.random.default_rng(4)
    sentences = random_sentences(rng, 50, 9, shortest=1)
    labels = random_labels(rng, sentences, ["A", "B", "C"])
    counted = HMM(**EXACT).fit(sentences, labels)
    pairs = [p for s in labels for p in pairwise(s)]
    for a, first in enumerate("ABC"):
        assert counted.start_[a] == pytest.approx(sum(s[0] == first for s in labels) / 50, rel=1e-14)
        for b, second in enumerate("ABC"):
            share = pairs.count((first, second)) / sum(p[0] == first for p in pairs)
            assert counted.transition_[a, b] == pytest.approx(share, rel=1e-14)
    tokens = [p for s, y in zip(sentences, labels, strict=True) for p in zip(s, y, strict=True)]
    share = tokens.count(("w3", "B")) / sum(y == "B" for _, y in tokens)
    assert counted.emission_[counted.symbols_.number("w3"), 1] == pytest.approx(share, rel=1e-14)

    learned = HMM(**EXACT)
    batch = learned.encode(sentences, labels, fit=True)
    learned.update(expectation(learned, batch, clamp=True)[0])
    for name, value in counted.parameters().items():
        np.testing.assert_allclose(learned.parameters()[name], value, rtol=1e-12)


def test_partial_labels_count_where_they_are_known():
    model = HMM(["A", "B"], **CLOSED)
    batch = model.encode([["x", "y", "x"], ["y"]], [["A", None, "B"], None], weights=[2.0, 1.0], fit=True)
    statistics = model.count(batch)
    assert statistics.start.tolist() == [2.0, 0.0]
    assert statistics.transition.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert statistics.emission.table().tolist() == [[2.0, 2.0], [0.0, 0.0]]


def test_threads_do_not_change_a_bit_of_the_statistics():
    rng = np.random.default_rng(5)
    model = HMM(5, **CLOSED)
    batch = encoded(model, rng, n=2500, n_words=400, longest=20)
    model.randomize(rng)
    found = [expectation(model, batch, n_jobs=threads) for threads in (1, 2, 4)]
    for statistics, value in found[1:]:
        assert value == found[0][1]
        assert statistics.start.tobytes() == found[0][0].start.tobytes()
        assert statistics.transition.tobytes() == found[0][0].transition.tobytes()
        assert statistics.emission.table().tobytes() == found[0][0].emission.table().tobytes()


def test_scaled_statistics_scale_counts():
    rng = np.random.default_rng(6)
    model = HMM(2, **CLOSED)
    statistics, _ = expectation(model, encoded(model, rng))
    mixed = statistics * 0.25 + statistics * 0.75
    np.testing.assert_allclose(mixed.emission.table(), statistics.emission.table(), rtol=1e-14)
    np.testing.assert_allclose(mixed.start, statistics.start, rtol=1e-14)
    np.testing.assert_allclose(mixed.transition, statistics.transition, rtol=1e-14)


@pytest.mark.parametrize("settings", [{}, {"emission_prior": 1.2}, {"variational": True, "emission_prior": 0.01}])
def test_labels_outside_the_tag_dictionary_stay_impossible(settings):
    rng = np.random.default_rng(7)
    model = HMM(["A", "B", "C"], **CLOSED, tag_dictionary={"w0": ["A"], "w1": ("B", "C"), "never": ["A"]}, **settings)
    batch = encoded(model, rng)
    model.randomize(rng)
    assert_never_falls(em(model, batch, 5))
    w0, w1 = model.symbols_.number("w0"), model.symbols_.number("w1")
    assert model.emission_[w0, 1:].tolist() == [0.0, 0.0]
    assert model.emission_[w1, 0] == 0.0
    node = model.scores(batch).infer().node
    codes = batch.column("symbol").codes
    assert np.any(codes == w0)
    assert not node[codes == w0, 1:].any()
    assert not node[codes == w1, 0].any()


def test_uniform_scores_weigh_all_allowed_outputs_alike():
    model = HMM(["A", "B", "C"], **CLOSED, tag_dictionary={"x": ["A", "B"]})
    batch = model.encode([["x", "y"], ["y"]], fit=True)
    q = model.uniform(batch).infer()
    np.testing.assert_allclose(q.node, [[0.5, 0.5, 0.0], [1 / 3] * 3, [1 / 3] * 3])
    np.testing.assert_allclose(q.log_partition, np.log([6.0, 3.0]))


def test_rare_and_unseen_words_share_one_symbol():
    model = HMM(min_count=2, transition_prior=1.0, emission_prior=1.0).fit(
        [["a", "a", "b"], ["c", "a"]], [["X", "X", "Y"], ["Y", "X"]]
    )
    assert model.symbols_.names == ("<unk>", "a")
    np.testing.assert_allclose(model.emission_, [[0.0, 1.0], [1.0, 0.0]])
    assert model.predict([["a", "zebra"]]) == [["X", "Y"]]
    assert model.encode([["zebra"]]).column("word").strings() == ["zebra"]


def test_an_unseen_word_without_probability_is_named_with_what_to_do():
    model = HMM(min_count=1, emission_prior=1.0).fit([["a", "b"]], [["X", "Y"]])
    with pytest.raises(DataError, match=r"'zebra' of sentence 1 .* larger min_count, or with emission_prior above 1"):
        model.predict([["a", "b"], ["zebra"]])
    smoothed = HMM(min_count=1, emission_prior=1.1).fit([["a", "b"]], [["X", "Y"]])
    assert smoothed.predict([["a", "zebra"]]) == [["X", "Y"]]


def test_a_closed_vocabulary_suggests_near_words():
    model = HMM(**CLOSED).fit([["house", "door"]], [["X", "Y"]])
    with pytest.raises(UnknownNameError, match="unknown word 'hose'; did you mean 'house'"):
        model.predict([["hose"]])


def test_impossible_sentences_are_named():
    model = HMM(**EXACT).fit([["a", "b"]], [["X", "Y"]])
    with pytest.raises(InfeasibleError, match="instance 1 has no possible output"):
        model.predict([["a"], ["b"]])


def test_probabilities_and_scores_of_predictions_agree():
    rng = np.random.default_rng(8)
    sentences = random_sentences(rng, 30, 8)
    labels = random_labels(rng, sentences, ["A", "B"])
    model = HMM(**CLOSED, transition_prior=1.1, emission_prior=1.1).fit(sentences, labels)
    marginals = model.predict_proba(sentences)
    assert [m.shape for m in marginals] == [(len(s), 2) for s in sentences]
    assert all(np.allclose(m.sum(axis=1), 1.0) for m in marginals)
    predicted = model.predict(sentences)
    right = [a == b for x, y in zip(predicted, labels, strict=True) for a, b in zip(x, y, strict=True)]
    assert model.score(sentences, labels) == pytest.approx(np.mean(right))
    with pytest.raises(DataError, match="no label is known"):
        model.score(sentences, [None] * 30)


def test_log_likelihood_sums_over_unknown_labels():
    rng = np.random.default_rng(9)
    sentences = [["x", "y"]]
    model = HMM(**CLOSED, transition_prior=2.0, emission_prior=2.0).fit(sentences, [["A", "B"]])
    model.randomize(rng)
    joint = [[model.log_likelihood(sentences, [[a, b]]) for b in "AB"] for a in "AB"]
    assert model.log_likelihood(sentences) == pytest.approx(np.log(np.exp(joint).sum()), rel=1e-12)
    partial = model.log_likelihood(sentences, [[None, "B"]])
    assert partial == pytest.approx(np.log(np.exp(np.array(joint)[:, 1]).sum()), rel=1e-12)


def test_samples_have_the_models_frequencies():
    model = HMM(["A", "B"], **CLOSED)
    model.encode([["x", "y", "z"]], fit=True)
    model.set_parameters(
        {
            "start": [0.25, 0.75],
            "transition": [[0.9, 0.1], [0.4, 0.6]],
            "emission": [[0.5, 0.0], [0.5, 0.3], [0.0, 0.7]],
        }
    )
    sentences, labels = model.sample([2] * 20_000, random_state=0)
    assert np.mean([y[0] == "A" for y in labels]) == pytest.approx(0.25, abs=0.012)
    after_b = [y[1] == "A" for y in labels if y[0] == "B"]
    assert np.mean(after_b) == pytest.approx(0.4, abs=0.015)
    with_b = [x[0] for x, y in zip(sentences, labels, strict=True) if y[0] == "B"]
    assert with_b.count("z") / len(with_b) == pytest.approx(0.7, abs=0.015)
    assert "x" not in with_b
    assert model.sample([3, 0], random_state=5) == model.sample([3, 0], random_state=5)


@pytest.mark.parametrize(
    "settings", [{}, {"variational": True, "emission_prior": 0.1}, {"tag_dictionary": {"w1": ["A"]}}]
)
def test_saved_and_loaded_predicts_the_same_bits(tmp_path, settings):
    rng = np.random.default_rng(10)
    sentences = random_sentences(rng, 40, 12)
    model = HMM(["A", "B", "C"], min_count=2, **settings)
    batch = model.encode(sentences, fit=True)
    model.randomize(rng)
    em(model, batch, 3)
    model.save(tmp_path / "hmm")
    loaded = load_model(tmp_path / "hmm")
    assert loaded.get_params() == model.get_params()
    assert loaded.predict(sentences) == model.predict(sentences)
    for one, other in zip(loaded.predict_proba(sentences), model.predict_proba(sentences), strict=True):
        assert one.tobytes() == other.tobytes()
    assert loaded.log_prior() == model.log_prior()
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "hmm").read_bytes()


def test_a_corpus_brings_words_and_labels():
    corpus = corpus_of([Document(("the", "dog"), ("DET", "NOUN")), Document(("dog",), (None,))])
    from_corpus = HMM(**CLOSED).fit(corpus)
    from_lists = HMM(["DET", "NOUN"], **CLOSED).fit([["the", "dog"], ["dog"]], [["DET", "NOUN"], [None]])
    np.testing.assert_array_equal(from_corpus.emission_, from_lists.emission_)
    turned = HMM(["NOUN", "DET"], **CLOSED).fit(corpus)
    np.testing.assert_array_equal(turned.emission_, from_lists.emission_[:, ::-1])
    with pytest.raises(UnknownNameError, match="unknown label 'DET'"):
        HMM(["NOUN", "VERB"], **CLOSED).fit(corpus)


@pytest.mark.parametrize(
    "arguments, X, y, message",
    [
        ({}, [["a"]], None, "there are no labels"),
        ({"labels": ["X"]}, [["a"]], None, "fit counts only those"),
        ({"labels": 0}, [["a"]], None, "number of labels"),
        ({"labels": "XY"}, [["a"]], None, "list of names"),
        ({"emission_prior": 0.5}, [["a"]], [["X"]], "no mode"),
        ({"min_count": 0}, [["a"]], [["X"]], "min_count"),
        ({"min_count": 2, "unknown": None}, [["a"]], [["X"]], "unknown='<unk>'"),
        ({"tag_dictionary": {"a": []}}, [["a"]], [["X"]], "allows no label for 'a'"),
        ({"tag_dictionary": {"a": ["Z"]}}, [["a"]], [["X"]], "unknown label 'Z'"),
        ({}, ["a b"], [["X"]], "split strings first"),
        ({}, "a b", [["X"]], "a list of sentences"),
        ({}, [["a"]], [["X", "Y"]], "1 words but 2 labels"),
        ({"unknown": None, "min_count": 1}, [[]], [[]], "there are no labels"),
    ],
)
def test_mistakes_are_explained(arguments, X, y, message):
    with pytest.raises(DataError, match=message):
        HMM(**arguments).fit(X, y)


def test_unfitted_models_say_so():
    with pytest.raises(NotFittedError, match="call fit first"):
        HMM().predict([["a"]])


def test_batches_of_another_model_are_refused():
    one = HMM(**CLOSED).fit([["a", "b"]], [["X", "Y"]])
    other = HMM(**CLOSED).fit([["c", "d"]], [["X", "Y"]])
    with pytest.raises(DataError, match="encoded with another vocabulary"):
        one.scores(other.encode([["c"]]))


def test_parameters_must_be_distributions():
    model = HMM(["X", "Y"], **CLOSED).fit([["a", "b"]], [["X", "Y"]])
    good = model.parameters()
    with pytest.raises(DataError, match=r"rows of transition must sum to 1 \(got 2\)"):
        model.set_parameters({**good, "transition": np.ones((2, 2))})
    with pytest.raises(DataError, match=r"emission must have shape \(2, 2\)"):
        model.set_parameters({**good, "emission": np.ones((3, 2))})
    with pytest.raises(UnknownNameError, match="unknown parameter 'start'"):
        model.set_parameters({"strat": good["start"]})
