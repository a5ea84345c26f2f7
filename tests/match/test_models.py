"""Models of pairs: features that agree with scores, alignments that can be read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.errors import DataError
from trellis.models.matching import GraphPairs, StringPairs
from trellis.models.matching.word_pairs import LIKENESS, Relations, SentenceGraph, edit_distance
from trellis.models.matching.wordnet import WordNet, find_wordnet

SENTENCES = [
    ("The gardener didn't sell 12 roses.", "Roses, 13 of them, were sold by the gardener."),
    ("A cat sleeps", "The cats slept on Ann's wall"),
    ("Nobody came", "Somebody came"),
]
text = st.text(alphabet="abcאב", min_size=1, max_size=5)


@given(st.lists(st.tuples(text, text), min_size=1, max_size=4), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_features_of_strings_agree_with_scores(pairs, longest, seed):
    model = StringPairs(longest=longest, bits=8)
    batch = model.encode(pairs, fit=True)
    model.weights_ = np.random.default_rng(seed).standard_normal(len(model.weights_))
    scores = model.scores(batch)
    for outputs in (scores.argmax().outputs, model.parts(batch).zeros().argmax(np.random.default_rng(0)).outputs):
        np.testing.assert_allclose(model.phi(batch, outputs) @ model.weights_, scores.score(outputs), atol=1e-9)
        for (left, right), aligned in zip(pairs, model.decode(batch, outputs), strict=True):
            assert "".join(one.left for one in aligned) == left
            assert "".join(one.right for one in aligned) == right
            assert all(max(len(one.left), len(one.right)) <= longest for one in aligned)
        worth = [sum(one.worth for one in aligned) for aligned in model.decode(batch, outputs)]
        np.testing.assert_allclose(worth, scores.score(outputs), atol=1e-9)


def trees(pairs):
    """The same sentences with made-up tags and trees: every word hangs on the first."""
    made = []
    for pair in pairs:
        graphs = [SentenceGraph.of(side) for side in pair]
        made.append(tuple(
            SentenceGraph(g.words, ("X",) * len(g.words), tuple((0, k) for k in range(1, len(g.words))),
                          tuple(f"r{k % 2}" for k in range(1, len(g.words)))) for g in graphs
        ))  # fmt: skip
    return made


@pytest.mark.parametrize("keep_guess", [True, False], ids=["guess", "parts"])
@pytest.mark.parametrize("pairs", [SENTENCES, trees(SENTENCES)], ids=["words", "trees"])
def test_features_of_sentences_agree_with_scores(pairs, keep_guess):
    model = GraphPairs(min_count=1, wordnet="none", keep_guess=keep_guess)
    batch = model.encode(pairs, fit=True)
    rng = np.random.default_rng(0)
    for _ in range(5):
        model.weights_ = rng.standard_normal(len(model.weights_))
        best = model.scores(batch).argmax()
        np.testing.assert_allclose(model.phi(batch, best.outputs) @ model.weights_, best.score, atol=1e-9)
        taken = batch.take(np.array([2, 0]))
        again = model.scores(taken).argmax()
        np.testing.assert_allclose(again.score, best.score[[2, 0]], atol=1e-9)
        for (one, two), aligned in zip(batch.pairs, model.decode(batch, best.outputs), strict=True):
            assert [pair.left for pair in aligned if pair.left] == one.split(" ")
            assert sorted(pair.right for pair in aligned if pair.right) == sorted(two.split(" "))
    relations = {name for name in model.feature_names_ if "relation" in name}
    assert bool(relations) == (pairs is not SENTENCES)


@pytest.mark.parametrize("pairs", [SENTENCES, trees(SENTENCES)], ids=["words", "trees"])
def test_every_alignment_has_the_features_of_the_first_guess(pairs):
    model = GraphPairs(min_count=1, wordnet="none")
    batch = model.encode(pairs, fit=True)
    n = len(model.weights_) // 2
    names = list(model.feature_names_)
    assert names[n:] == [f"guessed {name}" for name in names[:n]]
    model.guess(batch)
    of_guess = model.phi(batch, model.scores(batch).argmax().outputs)[:, :n].toarray()
    rng, seen = np.random.default_rng(0), set()
    for _ in range(8):
        model.weights_ = rng.standard_normal(2 * n)
        outputs = model.scores(batch).argmax().outputs
        seen.add(tuple(tuple(one.tolist()) for one in outputs))
        np.testing.assert_array_equal(model.phi(batch, outputs)[:, n:].toarray(), of_guess)
        model.weights_[:n] = 0.0
        assert not any(one.worth for aligned in model.decode(batch, outputs) for one in aligned)
    assert len(seen) > 1


def test_words_that_the_other_sentence_has_too_are_mapped_to_their_copies():
    pairs = [("planned roses beside the plan", "the plan and the planned roses"), ("a rose a rose", "a roses rose a")]
    model = GraphPairs(min_count=1, wordnet="none")
    batch = model.encode(pairs, fit=True)
    rng = np.random.default_rng(0)
    for _ in range(20):
        model.weights_ = rng.standard_normal(len(model.weights_))
        first, second = (
            [(one.left, one.right) for one in aligned if one.left]
            for aligned in model.decode(batch, model.scores(batch).argmax().outputs)
        )
        # "planned" and "plan" are alike, and each is there itself; the second "rose" may be "roses", or go
        assert first == [(word, word if word != "beside" else "") for word in pairs[0][0].split()]
        assert [one for one in second if one[0] == "a"] == [("a", "a")] * 2
        assert ("rose", "rose") in second


def test_a_guess_by_words_looks_at_nothing_else():
    """Both "the" of the second sentence are as like the first's; with edges the one before "cat" is taken."""
    pairs = [("was the cat", "the dog and the cat")]
    found = {}
    for first_guess in ("words", "edges"):
        model = GraphPairs(min_count=1, wordnet="none", first_guess=first_guess, keep_guess=False)
        batch = model.encode(pairs, fit=True)
        model.guess(batch)
        scores = model.scores(batch)
        [best] = scores.argmax().outputs
        other = np.where(best == 0, 3, np.where(best == 3, 0, best))
        found[first_guess] = best.tolist(), float(scores.score([best])[0] - scores.score([other])[0])
        assert not any(name.startswith("guessed") for name in model.feature_names_)
    assert found["words"][1] == 0.0
    assert found["edges"][0] == [-1, 3, 4]
    assert found["edges"][1] > 0.0


def test_names_of_features_say_what_they_are_about():
    model = GraphPairs(min_count=1, wordnet="none")
    model.encode(SENTENCES, fit=True)
    names = set(model.feature_names_)
    assert {"pair same", "pair numbers", "pair ending", "deleted negation", "deleted 1 name", "edges"} <= names


@pytest.mark.parametrize(
    "one, other, relation",
    [("walk", "walked", "ending"), ("grey", "gray", "spelling"), ("12", "1999", "numbers"), ("12", "twelve", None),
     ("international", "interest", "beginning"), ("cat", "dog", None), ("a", "a", "same")],
)  # fmt: skip
def test_words_are_related_by_how_they_are_written(one, other, relation):
    assert Relations(None).between(one, other) == Relations(None).between(other, one) == relation


@given(text, text)
@settings(max_examples=50, deadline=None)
def test_edit_distance_is_a_distance(one, other):
    assert (edit_distance(one, other) == 0) == (one == other)
    assert edit_distance(one, other) == edit_distance(other, one)
    assert abs(len(one) - len(other)) <= edit_distance(one, other) <= max(len(one), len(other))


WORDNET = {
    "noun": ("dog n 1 1 @ 1 1 {0}", "hound n 1 1 @ 1 1 {0}", "animal n 1 0 1 1 {1}", "day n 1 1 ! 1 1 {2}",
             "night n 1 1 ! 1 1 {3}"),
}  # fmt: skip


@pytest.fixture
def wordnet(tmp_path):
    """A WordNet of five nouns: dog and hound are one thing and a kind of animal, day is the contrary of night."""
    header = "  1 a licence\n"
    lines = [
        "{} 05 n 02 dog 0 hound 0 001 @ {:08d} n 0000 | a dog\n",
        "{} 05 n 01 animal 0 000 | a living thing\n",
        "{} 05 n 01 day 0 001 ! {:08d} n 0101 | light\n",
        "{} 05 n 01 night 0 001 ! {:08d} n 0101 | dark\n",
    ]
    sizes = [len(line.format("00000000", 0)) for line in lines]
    at = [len(header) + sum(sizes[:k]) for k in range(4)]
    to = {0: at[1], 1: 0, 2: at[3], 3: at[2]}
    (tmp_path / "data.noun").write_text(header + "".join(x.format(f"{at[k]:08d}", to[k]) for k, x in enumerate(lines)))
    index = [entry.format(*(f"{x:08d}" for x in at)) for entry in WORDNET["noun"]]
    (tmp_path / "index.noun").write_text(header + "\n".join(index) + "\n")
    (tmp_path / "noun.exc").write_text("doggies dog\n")
    for kind in ("verb", "adj", "adv"):
        for file in (f"index.{kind}", f"data.{kind}", f"{kind}.exc"):
            (tmp_path / file).write_text(header if "data" in file or "index" in file else "")
    return tmp_path


def test_wordnet_relates_words_of_the_same_and_of_contrary_meaning(wordnet):
    words = WordNet(str(wordnet))
    assert words.relation("dogs", "hound") == "synonym"
    assert words.relation("doggies", "hounds") == "synonym"
    assert words.relation("animals", "dog") == "kind of"
    assert words.relation("day", "nights") == "contrary"
    assert words.relation("day", "dog") is None
    found = Relations(words).candidates(["the", "dog"], ["hounds", "of", "the"])
    assert found == [(0, 2, "same", 1.0), (1, 0, "synonym", LIKENESS["synonym"])]


def test_a_model_that_was_trained_with_wordnet_asks_for_it(wordnet, tmp_path, monkeypatch):
    monkeypatch.setattr("trellis.models.matching.wordnet.FOLDERS", ())
    monkeypatch.setenv("WNSEARCHDIR", "")
    model = GraphPairs(min_count=1, wordnet=str(wordnet))
    batch = model.encode([("the dog", "a hound")], fit=True)
    assert "pair synonym" in set(model.feature_names_)
    model.save(tmp_path / "m")
    with pytest.raises(DataError, match="trained with WordNet, which is not installed here"):
        GraphPairs.load(tmp_path / "m").encode([("the dog", "a hound")])
    monkeypatch.setenv("WNSEARCHDIR", str(wordnet))
    assert find_wordnet() == str(wordnet)
    again = GraphPairs.load(tmp_path / "m").encode([("the dog", "a hound")])
    assert (again.features != batch.features).nnz == 0


def test_a_folder_without_wordnet_is_named(tmp_path):
    with pytest.raises(DataError, match="does not hold WordNet's files"):
        GraphPairs(wordnet=str(tmp_path)).encode(SENTENCES, fit=True)


@pytest.mark.parametrize(
    "model, pairs, told",
    [(StringPairs(), [("a" * 101, "b")], "pair 0: 'aaaaaaaaaaaaaaaaaaaa'... has 101 characters"),
     (StringPairs(), [("a",)], "pair 0: expected two texts"), (StringPairs(), "ab", "expected a list of pairs"),
     (GraphPairs(), [("a", "?!")], "pair 0: a sentence has no words"),
     (GraphPairs(), [("a", "b " * 401)], "has 401 words"), (GraphPairs(), [("a", 3)], "expected two sentences")],
)  # fmt: skip
def test_pairs_that_are_none_are_refused(model, pairs, told):
    with pytest.raises(DataError, match=told):
        model.encode(pairs, fit=True)
