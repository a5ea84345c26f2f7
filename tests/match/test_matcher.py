"""Matcher: yes/no answers through alignments."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

from trellis import load_model
from trellis.apps.match.matcher import Matcher
from trellis.apps.parse.parser import Parser
from trellis.apps.parse.tagger import Tagger
from trellis.data.document import Document
from trellis.errors import DataError
from trellis.metrics.ranking import ranks, score_ranking

LETTERS = dict(zip("abdegiklmnoprstu", "αβδεγικλμνοπρστυ", strict=True))


def names(n, seed=0):
    """Made-up names and how they are written in other letters, in which a is often left out."""
    rng = np.random.default_rng(seed)
    made = {}
    while len(made) < n:
        syllables = rng.integers(2, 4)
        name = "".join(rng.choice(list("bdgklmnprst")) + rng.choice(list("aeiou")) for _ in range(syllables))
        made[name] = "".join(LETTERS[c] for k, c in enumerate(name) if c != "a" or k == len(name) - 1)
    return list(made.items())


@pytest.fixture(scope="module")
def matcher():
    return Matcher(negatives=8, n_jobs=1).fit(names(60))


@pytest.mark.slow
def test_names_are_found_among_others(matcher):
    fresh = [pair for pair in names(150, seed=1) if pair not in set(names(60))][:40]
    scores = matcher.score_ranking(fresh)
    assert scores.accuracy > 0.9
    assert scores.mrr > 0.93
    [match] = matcher.match([("damiko", "δμικο")])
    assert match.is_match
    assert match.alignment == [("d", "δ"), ("a", ""), ("m", "μ"), ("i", "ι"), ("k", "κ"), ("o", "ο")]
    assert not matcher.match([("damiko", "λετι")])[0].is_match


def test_joint_learning_lowers_the_objective_in_every_round(matcher):
    objectives = [-entry.objective for entry in matcher.history_]
    assert len(objectives) > 1
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(objectives))


def test_a_file_gives_the_same_bits(matcher, tmp_path):
    matcher.save(tmp_path / "m")
    again = load_model(tmp_path / "m", n_jobs=1)
    fresh = names(20, seed=2)
    np.testing.assert_array_equal(again.decision_function(fresh), matcher.decision_function(fresh))
    assert again.match(fresh) == matcher.match(fresh)


@pytest.mark.slow
def test_threads_have_no_effect():
    pairs = names(40)
    one, two = (Matcher(negatives=5, n_jobs=jobs).fit(pairs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.learner_.model_.weights_, two.learner_.model_.weights_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::trellis.errors.ConvergenceWarning")  # the approximation promises nothing
@pytest.mark.parametrize("method", ["two-stage", "approximate"])
def test_other_methods_answer_too(method, matcher):
    other = Matcher(method=method, negatives=8, n_jobs=1).fit(names(60))
    assert other.method == method
    fresh = names(40, seed=3)
    assert np.mean(other.predict(fresh) == 1) > 0.8
    assert np.any(other.decision_function(fresh) != matcher.decision_function(fresh))


@pytest.mark.slow
def test_segments_are_aligned_where_one_letter_stands_for_two():
    pairs = [(name.replace("s", "sh"), other) for name, other in names(60)]
    matcher = Matcher(max_segment=2, negatives=8, n_jobs=1).fit(pairs)
    aligned = matcher.match([("shimo", "σιμο")])[0].alignment
    assert aligned[0] in [("sh", "σ"), ("s", "σ"), ("s", "")]
    assert "".join(a for a, _ in aligned) == "shimo"


def sentences(n, seed=0):
    """Pairs of sentences that say the same in another order, and pairs with another word or number."""
    rng = np.random.default_rng(seed)
    people, things, verbs = ["Ann", "Bob", "Cy", "Dee"], ["roses", "hedges", "ladders", "fences"], ["sold", "bought"]
    pairs, answers = [], []
    for k in range(n):
        who, what, did = rng.choice(people), rng.choice(things), rng.choice(verbs)
        number = int(rng.integers(2, 30))
        other = number if k % 2 else number + int(rng.integers(1, 9))
        pairs.append((f"{who} {did} {number} {what}.", f"{other} {what} were {did} by {who}."))
        answers.append(1 if k % 2 else -1)
    return pairs, answers


def test_sentences_differ_by_a_number():
    matcher = Matcher("sentences", C=10.0, wordnet="none", n_jobs=1).fit(*sentences(60))
    assert matcher.score(*sentences(40, seed=1)) == 1.0
    [match] = matcher.match([("Ann sold 7 roses.", "7 roses were sold by Ann.")])
    assert {("7", "7"), ("", "by")} <= set(match.alignment)
    assert sorted(a for a, _ in match.alignment if a) == ["7", "Ann", "roses", "sold"]


def test_what_is_mapped_never_speaks_against_a_match_nor_what_is_deleted_for_one():
    """Held by joint learning, with the objective never rising; free where the guess is not kept and for two stages."""
    pairs, answers = sentences(30, seed=3)
    usual = {"C": 1.0, "wordnet": "none", "n_jobs": 1}
    learner = Matcher("sentences", **usual).fit(pairs, answers).learner_
    weight = dict(zip(learner.model_.feature_names_, learner.model_.weights_.tolist(), strict=True))
    own = {name: w for name, w in weight.items() if not name.startswith("guessed ")}
    against = {name for name in own if name.startswith("deleted") or "apart" in name}
    assert max(own[name] for name in against) <= 0.0 <= min(own[name] for name in own.keys() - against)
    assert 0.0 in own.values()
    assert any(w > 0.0 for name, w in weight.items() if name.startswith("guessed deleted"))
    assert np.all(np.diff(learner.history_.objective) >= 0.0)
    for free in ({"one_sided": False}, {"keep_guess": False}, {"method": "two-stage"}):
        model = Matcher("sentences", **usual, **free).fit(pairs, answers).learner_.model_
        assert not model.one_sided
        assert model.weight_bounds() is None


def test_alignments_are_learned_from_what_belongs_together_without_the_answers(tmp_path):
    """A guess by words alone does not know which "the" goes with which: that phrases stay together is learned."""
    rng, words = np.random.default_rng(0), ["red", "cat", "old", "dog", "tall", "cook", "shy", "maid", "wild", "horse"]
    pairs = []
    for _ in range(24):
        a, b, c, d = rng.choice(words, 4, replace=False)
        pairs.append((f"the {a} {b} the {c} {d}", f"the {c} {d} the {a} {b}"))
    answers = np.where(np.arange(24) % 2, 1, -1)
    usual = {"wordnet": "none", "n_jobs": 1}
    matcher = Matcher("sentences", **usual).fit(pairs, answers)
    model = matcher.learner_.model_
    edges = model.feature_names_.number("edges")
    assert model.guess_[edges] > 0.0
    np.testing.assert_array_equal(
        Matcher("sentences", **usual).fit(pairs, -answers).learner_.model_.guess_, model.guess_
    )
    assert Matcher("sentences", method="two-stage", **usual).fit(pairs, answers).learner_.model_.guess_[edges] == 0.0
    batch = model.encode([("the new owl the cat fell", "the cat fell the new owl")])
    learned = model.weights_
    model.guess(batch)
    assert model.scores(batch).argmax().outputs[0].tolist() == [3, 4, 5, 0, 1, 2]
    model.weights_ = learned
    matcher.save(tmp_path / "m")
    again = load_model(tmp_path / "m", n_jobs=1)
    np.testing.assert_array_equal(again.decision_function(pairs), matcher.decision_function(pairs))


def test_the_thesis_first_guess_and_features_come_back_from_a_file(tmp_path):
    pairs, answers = sentences(30, seed=3)
    of_thesis = {"first_guess": "words", "keep_guess": False}
    matcher = Matcher("sentences", method="two-stage", wordnet="none", n_jobs=1, **of_thesis).fit(pairs, answers)
    matcher.save(tmp_path / "m")
    again = load_model(tmp_path / "m", n_jobs=1)
    fresh, _ = sentences(10, seed=4)
    np.testing.assert_array_equal(again.decision_function(fresh), matcher.decision_function(fresh))
    assert again.learner_.C == 0.1


def test_two_stages_with_features_that_stand_twice_learn_what_they_learn_with_twice_the_cost():
    pairs, answers = sentences(30, seed=3)
    usual = {"method": "two-stage", "wordnet": "none", "n_jobs": 1, "inner_tol": 1e-7}
    twice, once = (
        Matcher("sentences", keep_guess=keep_guess, **usual).fit(pairs, answers) for keep_guess in (True, False)
    )
    fresh, _ = sentences(10, seed=4)
    assert (twice.learner_.C, once.learner_.C) == (0.05, 0.1)
    # The bias has one weight in both, so its price is not halved with the others'.
    np.testing.assert_allclose(twice.decision_function(fresh), once.decision_function(fresh), atol=0.01)


def test_edges_are_those_of_a_parser_where_one_is_given(tmp_path):
    tags = {"sold": "V", "bought": "V", "were": "A", "by": "P"}
    pairs, answers = sentences(30)
    words = [side.rstrip(".").split() for pair in pairs for side in pair]
    tagged = [[tags.get(w, "M" if w.isdigit() else "N") for w in own] for own in words]
    trees = []
    for own, named in zip(words, tagged, strict=True):
        root = named.index("V") + 1
        heads = tuple("0" if k + 1 == root else str(root) for k in range(len(own)))
        columns = {"head": heads, "deprel": tuple("root" if h == "0" else "dep" for h in heads)}
        trees.append(Document(tuple(own), tuple(named), columns))
    parser = Parser(bits=10, min_count=1, n_jobs=1).fit(trees)
    tagger = Tagger(min_count=1).fit(trees)
    matcher = Matcher("sentences", parser=parser, tagger=tagger, wordnet="none", C=10.0, n_jobs=1).fit(pairs, answers)
    assert any(name.startswith("edges relation") for name in matcher.learner_.model_.feature_names_)
    matcher.save(tmp_path / "m")
    again = load_model(tmp_path / "m", n_jobs=1)
    fresh, right = sentences(10, seed=4)
    np.testing.assert_array_equal(again.decision_function(fresh), matcher.decision_function(fresh))
    assert again.score(fresh, right) > 0.8
    with pytest.raises(DataError, match="give a parser and a tagger"):
        Matcher("sentences", parser=parser).fit(pairs, answers)


@pytest.mark.parametrize(
    "settings, X, z, told",
    [({"kind": "name"}, [("a", "b")], None, "unknown kind 'name'.*names"),
     ({"kind": "sentences"}, [("a", "b")], None, "sentences need answers"),
     ({}, [("a", "b"), ("b", "c")], [1, 1], "all 2 answers are"), ({}, [("a", "b")], [1, 1], "expected an answer"),
     ({"negatives": 0}, [("a", "b")], None, "negatives must be"),
     ({"kind": "sentences", "first_guess": "letters"}, [("a", "b")] * 2, [1, -1], "unknown first_guess 'letters'"),
     ({"kind": "sentences", "parser": Tagger(), "tagger": Tagger()}, [("a", "b")] * 2, [1, -1], "must be a Parser")],
)  # fmt: skip
def test_mistakes_are_named(settings, X, z, told):
    with pytest.raises(DataError, match=told):
        Matcher(**settings).fit(X, z)


def test_settings_are_scikit_learns():
    assert clone(Matcher("sentences", C=3.0)).get_params()["C"] == 3.0


def test_ties_count_against_the_right_candidate():
    assert ranks([[1.0, 1.0, 0.0]], [[True, False, False]]).tolist() == [2]
    assert score_ranking([[1.0, 2.0], [2.0, 1.0]], [[True, False], [True, False]]).mrr == 0.75
    with pytest.raises(DataError, match="no correct candidate"):
        ranks([[1.0]], [[False]])
