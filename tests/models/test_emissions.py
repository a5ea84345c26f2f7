"""Log-linear emissions: the M-step's gradient and optimum, EM that never falls, new words, dictionaries, files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from trellis.constraints import few_labels_per, word
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, UnknownNameError
from trellis.learn import UEM
from trellis.models import HMM, load_model
from trellis.models.hmm_words import LogLinearEmissions, word_features

from .corpora import assert_never_falls, em

WORDS = ["walks", "talks", "walked", "talked", "dog", "dogs", "Anna", "-", "the", "12"]


def sentences(n: int = 80):
    rng = np.random.default_rng(5)
    return [[WORDS[i] for i in rng.integers(0, len(WORDS), rng.integers(1, 8))] for _ in range(n)]


def endings(spelling: str):
    return [f"end={spelling[-1]}", f"long={len(spelling) > 3}"]


@pytest.mark.parametrize("some", [False, True], ids=["all allowed", "some allowed"])
def test_the_m_step_from_nothing_is_the_optimum_that_a_plain_optimiser_finds(some):
    rng = np.random.default_rng(0)
    allowed = None
    counts = rng.gamma(1.0, 3.0, (len(WORDS), 3))
    if some:
        allowed = rng.random(counts.shape) < 0.7
        allowed[:, 0] = True
        counts[~allowed] = 0.0
    words = Vocabulary(WORDS)
    names = LogLinearEmissions.learn(words, np.arange(len(WORDS)), endings, 4)
    model = LogLinearEmissions(words, names, endings, allowed, 0.3)
    features = np.array([[model.rows([w]).toarray()[0]] for w in WORDS])[:, 0]

    def loss(flat):
        scores = features @ flat.reshape(-1, 3)
        mask = np.zeros_like(counts) if allowed is None else np.where(allowed, 0.0, -np.inf)
        log_p = scores - np.log(np.exp(scores + mask).sum(axis=0))
        return -(counts * log_p).sum() + 0.15 * (flat**2).sum()

    found = model.fit(counts, np.zeros((len(names), 3)))
    theirs = minimize(loss, np.zeros(found.size), tol=1e-10)
    assert loss(found.ravel()) == pytest.approx(theirs.fun, rel=1e-6)
    for _ in range(20):
        found = model.fit(counts, found)
    np.testing.assert_allclose(found.ravel(), theirs.x, atol=1e-4)
    p, log_z = model.probabilities(found)
    np.testing.assert_allclose(p.sum(axis=0), 1.0)
    assert allowed is None or not np.any(p[~allowed])
    if not some:
        np.testing.assert_allclose(model.of_new(WORDS, found, log_z), p)


def test_words_are_features_of_their_own_only_if_seen_often_enough():
    names = LogLinearEmissions.learn(Vocabulary(["ab", "cb", "xy"]), np.array([1, 3, 2]), endings, 2)
    assert set(names) == {"end=b", "long=False", "itself=cb", "itself=xy"}


def test_a_short_m_step_never_makes_em_fall():
    model = HMM(3, emissions="features", min_count=1, transition_prior=1.2, l2=0.5)
    batch = model.encode(sentences(), fit=True)
    model.randomize(np.random.default_rng(3))
    trace = em(model, batch, 15)
    assert_never_falls(trace)
    assert trace[-1] > trace[0] + 1.0


def test_sparsity_and_features_go_together():
    rules = [few_labels_per(word, strength=8.0, min_count=2)]
    plain = UEM(HMM(4, emissions="features"), max_iter=10, tol=0, random_state=0).fit(sentences())
    learner = UEM(HMM(4, emissions="features"), rules, max_iter=10, tol=0, random_state=0).fit(sentences())

    def states(of):
        found: dict[str, set[str]] = {}
        for words, tags in zip(sentences(), of.predict(sentences()), strict=True):
            for w, t in zip(words, tags, strict=True):
                found.setdefault(w, set()).add(t)
        return sum(map(len, found.values()))

    assert states(learner) < states(plain)


def test_a_new_word_is_known_by_its_ending(tmp_path):
    text = [["the", w] for w in ("walks", "talks", "barks")] + [["a", w] for w in ("walked", "talked", "barked")]
    labels = [["D", "S"]] * 3 + [["D", "P"]] * 3
    model = HMM(emissions="features", min_count=1, l2=0.1).fit(text, labels)
    assert model.predict([["a", "jumped"], ["the", "jumps"]]) == [["D", "P"], ["D", "S"]]
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    new = [["the", "jumped", "walks"]]
    np.testing.assert_array_equal(again.predict_proba(new)[0], model.predict_proba(new)[0])
    np.testing.assert_array_equal(again.weights_, model.weights_)
    with pytest.raises(DataError, match="'jumped' was not among those"):
        UEM(model, start="model", max_iter=1).fit(new)


def test_a_tag_dictionary_holds_with_features():
    model = HMM(["D", "N"], emissions="features", min_count=1, tag_dictionary={"the": ["D"]})
    UEM(model, max_iter=5, tol=0, random_state=0).fit(sentences())
    learned = UEM(model, max_iter=5, tol=0, random_state=0).fit(sentences())
    assert all(t == "D" for tags, ws in zip(learned.predict(sentences()), sentences(), strict=True)
               for t, w in zip(tags, ws, strict=True) if w == "the")  # fmt: skip


def test_a_function_describes_words_and_is_asked_for_when_a_file_is_read(tmp_path):
    model = HMM(emissions=endings, min_count=1).fit([["a", "dog"]], [["D", "N"]])
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m", emissions=endings).predict([["a", "hog"]]) == [["D", "N"]]
    with pytest.raises(Exception, match="emissions=..."):
        load_model(tmp_path / "m")


def test_mistakes_are_named():
    with pytest.raises(UnknownNameError, match="features"):
        HMM(2, emissions="feature").encode([["a"]], fit=True)
    with pytest.raises(DataError, match="variational"):
        HMM(2, emissions="features", variational=True).encode([["a"]], fit=True)
    with pytest.raises(DataError, match="l2"):
        HMM(2, emissions="features", l2=-1.0).encode([["a"]], fit=True)


def test_features_of_words():
    assert [word_features(w)[name] for w, name in (("12", "digit"), ("--", "marks"), ("UN", "capitals"))] == [True] * 3


TITLES = [
    "The dog walks .", "Rome is old .", "So the Romans walk .", "In Rome the dog barks .", "The cat of Rome sleeps .",
]  # fmt: skip


def test_a_capital_at_the_start_of_a_sentence_is_no_capital_unless_the_word_has_it_inside(tmp_path):
    text = [line.split() for line in TITLES]
    model = HMM(2, emissions="features", min_count=1, truecase=True)
    batch = model.encode(text, fit=True)
    assert model.small_.names == ("The",)  # "So" and "In" never stand inside, "Rome" does so with its capital
    assert "The" not in model.symbols_
    assert {"the", "So", "Rome"} <= {*model.symbols_}
    emitted = batch.column("symbol").strings()
    assert emitted[:4] == ["the", "dog", "walks", "."]
    assert emitted[4] == "Rome"
    assert batch.column("word").strings()[0] == "The"
    assert_never_falls(em(model, batch, 2))
    model.randomize(np.random.default_rng(0))
    model.save(tmp_path / "m")
    for one in (model, load_model(tmp_path / "m")):
        new = one.encode([["Dog", "The", "dog"], [], ["The"], ["Xyz"]])
        assert new.column("symbol").strings() == ["dog", "The", "dog", "the", "Xyz"]


def test_words_of_a_dictionary_keep_their_capitals():
    model = HMM(["D", "N"], emissions="features", min_count=1, truecase=True, tag_dictionary={"The": ["D"]})
    assert model.encode([line.split() for line in TITLES], fit=True).column("symbol").strings()[0] == "The"


@pytest.mark.parametrize("text", [[["a"]], [["the", "dog"], [], ["the"]]], ids=["one word", "nothing capital"])
def test_text_without_capitals_is_what_it_was(text, tmp_path):
    model = HMM(2, truecase=True, min_count=1)
    assert model.encode(text, fit=True).column("symbol").strings() == [w for s in text for w in s]
    model.randomize(np.random.default_rng(0))
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").predict(text) == model.predict(text)
