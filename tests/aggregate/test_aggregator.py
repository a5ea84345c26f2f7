"""Aggregator: better than the vote, true to its constraints, and at home with odd inputs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.aggregate.corpora import LABELS, agreement, drawn, true_accuracies
from tests.engine.isolating import IsolatingEngine
from trellis import Aggregator, InfeasibleError, VotedText, load_model
from trellis.errors import DataError, UnknownNameError
from trellis.tasks.aggregate import MOST_LIFT
from trellis.tasks.majority import majority_vote
from trellis.tasks.word_units import heard_of


def spans(tokens, **functions):
    return {"tokens": tokens.split(), "spans": functions}


@pytest.mark.slow
def test_it_is_better_than_the_majority_vote():
    texts, gold = drawn(400)
    found = Aggregator(words=False, accuracy=None).fit(texts)
    assert agreement(found.labels_, gold) > agreement(majority_vote(texts, LABELS), gold) + 0.01


@pytest.mark.slow
def test_estimated_accuracies_order_functions_as_the_true_ones_do():
    texts, gold = drawn(600)
    found = Aggregator(words=False, accuracy=0.6).fit(texts).accuracies_
    true = true_accuracies(texts, gold)
    assert sorted(found, key=lambda f: found[f].accuracy) == sorted(true, key=true.get)
    assert max(abs(found[f].accuracy - true[f]) for f in true) < 0.1


@pytest.mark.slow
def test_the_constraints_hold_at_the_end():
    texts, _ = drawn(200)
    made = Aggregator(words=False, accuracy={"f2": 0.97}, strength=1000.0).fit(texts)
    assert made.accuracies_["f2"].accuracy >= 0.97 - 0.005
    free = Aggregator(words=False, accuracy=None).fit(texts)
    assert free.accuracies_["f2"].accuracy < 0.9


def test_a_type_of_a_function_is_not_given_up_for_the_others():
    """A list is right about places; its one-word bodies, beside a rule that finds long ones, look like "O" to EM."""
    texts = [spans("in Rome", list=[[1, 2, "LOC"]])] * 60 + [spans("the Ark Bank fell", rule=[[1, 3, "ORG"]])] * 15
    texts += [spans("the UN met", list=[[1, 2, "ORG"]])] * 6
    made = Aggregator(words=False).fit(texts)
    assert made.labels_[-1] == ["O", "B-ORG", "O"]
    assert [c.name for c in made.constraints()][:3] == [
        "accuracy of list on LOC", "accuracy of list on ORG", "accuracy of rule on ORG"
    ]  # fmt: skip
    assert Aggregator(words=False, accuracy=None).fit(texts).labels_[-1] != made.labels_[-1]


@pytest.mark.slow
def test_new_texts_are_labelled_as_those_of_training_were():
    texts, _ = drawn(200)
    made = Aggregator(words=False).fit(texts)
    assert made.predict(texts) == made.labels_
    for a, b in zip(made.predict_proba(texts), made.probabilities_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_bounds_keep_lone_votes_that_plain_em_explains_away():
    # One function sees few entities and another one many: EM makes two kinds of tokens out of that.
    texts, gold = drawn(500, accuracy=(0.98, 0.9), coverage=(0.25, 0.9))
    plain, held = (Aggregator(words=False, accuracy=a, tol=1e-4).fit(texts) for a in (None, 0.9))
    assert agreement(held.labels_, gold) >= agreement(plain.labels_, gold)
    assert held.accuracies_["f1"].accuracy >= 0.89


def test_the_share_of_entities_can_be_bounded():
    texts, _ = drawn(200)
    made = Aggregator(words=False, share=(0.0, 0.1)).fit(texts)
    names = {c.name for c in made.constraints()}
    assert "share of entities" in names
    entities = sum(1.0 - node[:, 0].sum() / len(node) for node in made.probabilities_)
    free = Aggregator(words=False).fit(texts)
    assert entities < sum(1.0 - node[:, 0].sum() / len(node) for node in free.probabilities_)
    assert made.history_[-1].violation["share of entities"] < 1.0  # of a token


def test_one_function_is_believed():
    texts = [spans("take aspirin now", f=[[1, 2, "DRUG"]]), spans("nothing here", f=[])]
    made = Aggregator().fit(texts)
    assert made.labels_ == [["O", "B-DRUG", "O"], ["O", "O"]]
    assert set(made.accuracies_) == {"f"}


def test_texts_that_nobody_touches_and_empty_ones_keep_their_place():
    texts = [
        {"tokens": [], "votes": {}},
        spans("take aspirin", f=[[1, 2, "DRUG"]]),
        spans("a b c", f=[]),
        {"tokens": ["x"], "votes": {}},
    ]
    made = Aggregator().fit(texts)
    assert made.labels_ == [[], ["O", "B-DRUG"], ["O", "O", "O"], ["O"]]
    assert [node.shape for node in made.probabilities_] == [(0, 3), (2, 3), (3, 3), (1, 3)]
    assert made.predict([{"tokens": [], "votes": {}}]) == [[]]


def test_a_coarse_vote_lets_the_others_decide():
    texts = []
    for _ in range(20):
        texts.append(
            spans("aspirin for pain", some=[[0, 1, "*"], [2, 3, "*"]], drugs=[[0, 1, "DRUG"]], pains=[[2, 3, "PAIN"]])
        )
    made = Aggregator(words=False).fit(texts)
    assert made.label_names_ == ["O", "B-DRUG", "I-DRUG", "B-PAIN", "I-PAIN"]
    assert made.labels_[0] == ["B-DRUG", "O", "B-PAIN"]
    alone = made.predict([spans("ibuprofen helps", some=[[0, 1, "*"]])])
    assert alone[0][0] in ("B-DRUG", "B-PAIN")


def test_coarse_labels_can_be_named():
    texts = [
        spans(
            "aspirin for pain",
            some=[[0, 1, "MEDICAL"], [2, 3, "MEDICAL"]],
            drugs=[[0, 1, "DRUG"]],
            pains=[[2, 3, "PAIN"]],
        )
    ] * 20
    made = Aggregator(coarse={"MEDICAL": ["DRUG", "PAIN"]}, words=False).fit(texts)
    assert made.labels_[0] == ["B-DRUG", "O", "B-PAIN"]
    with pytest.raises(UnknownNameError, match="DRGU"):
        Aggregator(coarse={"MEDICAL": ["DRGU"]}, labels=["DRUG"]).fit(texts)


def test_texts_may_be_labelled_as_a_whole():
    texts = [{"text": f"good film {i}", "votes": {"a": "POS", "b": "POS" if i % 10 else None}} for i in range(30)]
    texts += [{"text": f"bad film {i}", "votes": {"a": "NEG", "b": "NEG" if i % 10 else None}} for i in range(30)] + [
        {"text": "good one", "votes": {"a": None}}
    ]
    made = Aggregator().fit(texts)
    assert made.labels_[0] == ["POS"]
    assert made.labels_[40] == ["NEG"]
    assert made.labels_[-1] == ["POS"]  # by its words: nobody votes


def test_words_speak_where_no_function_votes():
    rng = np.random.default_rng(0)
    texts, gold = [], []
    for _ in range(200):
        name = f"zol{rng.integers(40)}ine"
        number = int(name[3:-3])
        votes = {f: [[2, 3, "DRUG"]] if number % every else [] for f, every in (("f", 2), ("g", 3))}
        texts.append(spans(f"patients took {name} daily", **votes))
        gold.append(["O", "O", "B-DRUG", "O"])
    with_words, without = Aggregator().fit(texts), Aggregator(words=False).fit(texts)
    assert agreement(with_words.labels_, gold) > agreement(without.labels_, gold) + 0.02
    assert with_words.predict([spans("patients took zol99ine daily", f=[])]) == [["O", "O", "B-DRUG", "O"]]


@pytest.mark.slow
def test_functions_miss_some_entities_for_certain():
    """What words tell of their share is bounded, and holds in expectation over open words; 0: as the votes have it."""
    rng = np.random.default_rng(3)
    nouns = [f"noun{n}" for n in range(30)]
    texts = [
        spans(f"the {noun} is great", f=[[1, 2, "TERM"]] if int(noun[4:]) % 3 else [])
        for noun in rng.choice(nouns, size=300)
    ]
    rounds = {"max_iter": 5, "tol": 0.0}
    plain = Aggregator(words=False, missed=(0.0, 0.5), **rounds).fit(texts).labels_
    seen = [(i, t) for i, own in enumerate(plain) for t, y in enumerate(own) if y == "O"]

    def share(made):
        return np.mean([made.probabilities_[i][t, made.label_names_.index("B-TERM")] for i, t in seen])

    bounds = ((0.0, 0.5), (0.09, 0.5), (1e-4, 1e-3))
    free, many, few = (Aggregator(missed=own, **rounds).fit(texts) for own in bounds)
    assert free.words_.lift == 0.0
    assert many.words_.lift > 0.0 > few.words_.lift
    assert share(many) == pytest.approx(0.09, abs=1e-4)
    assert share(few) == pytest.approx(1e-3, rel=0.02)
    assert share(few) < share(free) < share(many)
    for made in (free, many, few):
        assert made.predict(texts) == made.labels_


def news(n, seed=0):
    """People are of two words, places of one; a list knows every other name, and nobody votes on the others."""
    rng, texts, gold = np.random.default_rng(seed), [], []
    drawn = ["".join(rng.choice(list("abdeiklmnorst"), 6)).capitalize() for _ in range(120)]
    people, places = [(drawn[i], drawn[i + 1]) for i in range(0, 80, 2)], drawn[80:]
    for _ in range(n):
        (first, last), place = people[rng.integers(len(people))], places[rng.integers(len(places))]
        tokens = (
            f"Then {first} {last} went to {place} and saw the {rng.choice(['house', 'river', 'old town'])} .".split()
        )
        known = [[1, 3, "PER"]] * (people.index((first, last)) % 2), [[5, 6, "LOC"]] * (places.index(place) % 2)
        texts.append({"tokens": tokens, "spans": {"list": [*known[0], *known[1]]}})
        gold.append(["O", "B-PER", "I-PER", "O", "O", "B-LOC", *["O"] * (len(tokens) - 6)])
    return texts, gold


@pytest.mark.slow
def test_half_of_the_names_are_enough_to_find_the_others():
    """Their types, their ends and how many they are, by words alone: none of the others is ever voted on."""
    texts, gold = news(200)
    votes, made = (Aggregator(words=words, missed=(0.0025, 0.5)).fit(texts) for words in (False, True))
    assert agreement(votes.labels_, gold) < 0.9
    assert agreement(made.labels_, gold) > 0.98


def test_as_many_of_each_type_are_found_among_open_words_as_words_tell():
    texts, _ = news(120)
    made = Aggregator(missed=(0.0025, 0.5)).fit(texts)
    voted = made.texts(texts)
    votes, found = made.learner_.predict(voted), made.learner_.predict_proba(voted)
    quiet, labels = made._with_short_forms(voted, votes, found)
    lift, made.words_.lift = made.words_.lift, np.zeros(2)
    words, missed = made.words_.open_words([heard_of(text) for text in quiet], labels, *made.missed)
    made.words_.lift = lift
    assert np.all(np.abs(lift) < MOST_LIFT)
    for kind, number in zip(made.kinds_, missed, strict=True):
        column = made.label_names_.index(f"B-{kind}")
        assert sum(made.probabilities_[i][t, column] for i, t in words) == pytest.approx(number, abs=0.01)


def test_types_that_are_never_missed_or_never_found_are_not_given_to_new_words():
    texts, _ = news(100)
    for i, text in enumerate(texts[:80]):  # a pattern that finds every address
        end = len(text["tokens"])
        text["tokens"] = [*text["tokens"], "write", "to", f"{'abcdefgh'[i % 8]}{i}@x.org"]
        text["spans"]["pattern"] = [[end + 2, end + 3, "EMAIL"]]
    made = Aggregator(["PER", "LOC", "EMAIL", "GPE"]).fit(texts)
    new = [spans("some words that were not there before at all")] * 5
    assert {label for own in made.predict(new) for label in own} == {"O"}
    for own, text in zip(made.labels_, texts, strict=True):
        assert own.count("B-EMAIL") == len(text["spans"]) - 1
    assert not any("B-GPE" in own for own in made.labels_)


def test_words_speak_where_no_word_is_open(tmp_path):
    texts = [{"tokens": [f"aspirin{'abcd'[i % 4]}", "helps"], "votes": {"f": ["B-D", "O"]}} for i in range(40)]
    made = Aggregator().fit(texts)
    assert made.labels_ == [["B-D", "O"]] * 40
    new = [spans("take foo now")]
    made.save(tmp_path / "m")
    assert load_model(tmp_path / "m").predict(new) == made.predict(new)
    plain = [{"tokens": [f"{kind}{'abcd'[i % 4]}", "film"], "votes": {"f": [kind.upper(), "O"]}}
             for i in range(40) for kind in ("good", "bad")]  # fmt: skip
    assert Aggregator().fit(plain).labels_[:2] == [["GOOD", "O"], ["BAD", "O"]]


def test_a_short_form_is_what_its_long_form_is_and_no_more():
    explained = spans("nitric oxide ( NO ) rose and NO fell", f=[[0, 2, "DRUG"]], g=[[0, 2, "DRUG"]])
    others = [spans("take aspirin but NO wine", f=[[1, 2, "DRUG"]], g=[[1, 2, "DRUG"]])] * 12
    made = Aggregator().fit([explained, *others])
    assert made.labels_[0] == ["B-DRUG", "I-DRUG", "O", "B-DRUG", "O", "O", "O", "B-DRUG", "O"]
    assert made.labels_[1] == ["O", "B-DRUG", "O", "O", "O"]  # this text does not explain it
    assert made.predict([explained, others[0]]) == made.labels_[:2]
    part = spans("acid nitric oxide ( ANO ) and ANO", f=[[2, 3, "DRUG"]], g=[[2, 3, "DRUG"]])
    assert made.predict([part])[0][-1] == "O"  # the entity is a part of the long form


def test_texts_of_one_word_teach_nothing_about_words():
    made = Aggregator().fit([spans("aspirin", f=[[0, 1, "DRUG"]])] * 40 + [spans("aspirin", f=[])] * 10)
    assert made.words_ is None
    assert made.labels_[0] == ["B-DRUG"]
    few = Aggregator().fit([spans("take aspirin", f=[[1, 2, "DRUG"]])] * 40 + [spans("no wine", f=[])] * 10)
    assert few.labels_[0] == ["O", "B-DRUG"]


def test_compounds_that_nobody_votes_on_are_found_whole():
    """Which words go before a noun and belong to it is learned from other spans."""
    rng, texts, gold = np.random.default_rng(2), [], []
    for i in range(300):
        noun, long = f"noun{rng.integers(24)}", i % 3 == 0
        before = f"mod{rng.integers(12)}" if long else "great"
        first = 1 if long else 2
        texts.append(spans(f"the {before} {noun} is fine", f=[] if i % 10 == 1 else [[first, 3, "T"]]))
        gold.append(["O", "B-T", "I-T", "O", "O"] if long else ["O", "O", "B-T", "O", "O"])
    made = Aggregator(missed=(0.03, 0.05)).fit(texts)
    right = [own == true for own, true in zip(made.labels_[1::10], gold[1::10], strict=True)]
    assert np.mean(right) > 0.9
    assert made.predict(texts) == made.labels_


@pytest.mark.slow
def test_more_text_shows_which_words_are_alike():
    """Nouns that nobody votes on stand in the same places in other text as those that are found, but not in this."""
    rng, texts, more, places = np.random.default_rng(4), [], [], []
    words = ["".join(rng.choice(list("abcdefgh"), 6)) for _ in range(80)]
    nouns, others = words[:40], words[40:]
    for i in range(240):
        noun, other, at = nouns[i % 40], others[i % 40], int(rng.integers(1, 3))
        both = [noun, other] if at == 1 else [other, noun]
        texts.append(spans(f"it {' '.join(both)} now", f=[[at, at + 1, "T"]] if i % 40 < 30 else []))
        more += [f"a new {noun} of mine".split(), f"they {other} it often".split()]
        places.append(at)
    own, told = (Aggregator(missed=(0.02, 0.5), max_iter=10).fit(texts, text=text) for text in ((), more))
    silent = [i for i in range(240) if i % 40 >= 30]

    def found(made):
        n = made.label_names_.index("B-T")
        return np.mean(
            [made.probabilities_[i][places[i], n] - made.probabilities_[i][3 - places[i], n] for i in silent]
        )

    assert found(told) > found(own) + 0.05
    assert told.words_.kin


def dictionary_with_two_senses():
    """A dictionary of nouns, one of which is a verb too: only the company of each occurrence tells them apart."""
    rng, texts, gold = np.random.default_rng(1), [], []
    for i in range(300):
        noun = "work" if i % 10 == 1 else f"noun{rng.integers(25)}"
        verb = "work" if i % 5 == 0 else f"verb{rng.integers(25)}"
        found = [[1, 2, "TERM"]] + ([[5, 6, "TERM"]] if verb == "work" else [])
        texts.append(spans(f"the {noun} is great they {verb} with it", f=found, g=found[:1] if i % 2 else []))
        gold.append(["O", "B-TERM", *["O"] * 6])
    return texts, gold


@pytest.mark.slow
def test_words_speak_against_votes_unless_told_not_to():
    texts, gold = dictionary_with_two_senses()
    trusting, doubting = (Aggregator(doubt=doubt, missed=(0.0, 0.05)).fit(texts) for doubt in (False, True))
    assert agreement(doubting.labels_, gold) == 1.0
    assert agreement(trusting.labels_, gold) < 1.0  # the dictionary is believed


def test_rules_are_obeyed():
    texts, _ = drawn(50)
    rules = '[[rule]]\nname = "no pains"\nif_word_matches = "."\nthen_not_label = ["B-PAIN", "I-PAIN"]\n'
    made = Aggregator(words=False, rules=rules).fit(texts)
    assert {k for own in made.labels_ for k in own} <= {"O", "B-DRUG", "I-DRUG"}


def test_a_rule_can_speak_of_a_function():
    texts, _ = drawn(50)
    rules = '[[rule]]\nname = "f2 is right"\nif_column = { f2 = "B-DRUG" }\nthen_label = "B-DRUG"\n'
    made = Aggregator(words=False, rules=rules).fit(texts)
    for text, own in zip(texts, made.labels_, strict=True):
        assert all(k == "B-DRUG" for v, k in zip(text.votes["f2"], own, strict=True) if v == "B-DRUG")


def test_rules_that_cannot_hold_are_named():
    rules = '[[rule]]\nname = "all"\nif_word_matches = "."\nthen_label = "I-DRUG"\n'
    with pytest.raises(InfeasibleError, match="all"):
        Aggregator(words=False, rules=rules).fit(drawn(20)[0])


@pytest.mark.slow
@pytest.mark.parametrize("words", [False, True])
def test_a_file_gives_the_same_labels_and_bits(tmp_path, words):
    texts, _ = drawn(80)
    made = Aggregator(words=words, rules='[[rule]]\nname = "r"\ncount = "B-PAIN"\nat_most = 3\n').fit(texts)
    made.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert again.predict(texts) == made.predict(texts)
    assert again.accuracies_ == made.accuracies_
    for a, b in zip(made.predict_proba(texts), again.predict_proba(texts), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.slow
def test_threads_do_not_change_a_bit():
    texts, _ = drawn(120)
    one, two = (Aggregator(n_jobs=n).fit(texts) for n in (1, 2))
    for a, b in zip(one.probabilities_, two.probabilities_, strict=True):
        assert np.array_equal(a, b)


def test_functions_that_contradict_each_other_conflict_softly():
    texts = [spans("a b", f=[[0, 1, "X"]], g=[[0, 1, "Y"]])] * 30
    made = Aggregator(words=False).fit(texts)
    assert {a.accuracy > 0.0 for a in made.accuracies_.values()} <= {True, False}
    assert len(made.labels_) == 30


@pytest.mark.parametrize(
    "texts, message",
    [
        ([], "the list is empty"),
        ([{"tokens": [], "votes": {}}], "every one is empty"),
        ([{"tokens": ["a"], "votes": {"f": [None]}}], "no function votes"),
        ([{"tokens": ["a"]}], "text 0: expected the key 'votes' or 'spans'"),
        ([{"tokn": ["a"], "votes": {}}], "expected the key 'tokens'.*tokn"),
        ([{"tokens": ["a"], "votes": {"f": ["X", "X"]}}], "1 tokens but 2 votes of function 'f'"),
        ([{"tokens": ["a"], "spans": {"f": [[0, 2, "X"]]}}], "does not lie in a text of 1 tokens"),
        ([{"tokens": ["a"], "spans": {"f": [[0, "X"]]}}], "a span is"),
        ([{"tokens": ["a"], "votes": {"word": ["X"]}}], "cannot be called 'word'"),
        ("text", "expected a list of texts"),
    ],
)  # fmt: skip
def test_mistakes_are_answered(texts, message):
    with pytest.raises(DataError, match=message):
        Aggregator().fit(texts)


def test_an_unknown_label_is_named():
    with pytest.raises(UnknownNameError, match="B-DRGU") as error:
        Aggregator(["DRUG"]).fit([spans("a", f=[[0, 1, "DRGU"]])])
    assert "'f'" in "".join(error.value.__notes__)
    with pytest.raises(UnknownNameError, match="labelling function"):
        Aggregator(accuracy={"g": 0.5}).fit([VotedText(("a",), {"f": ("B-X",)})])


@pytest.mark.parametrize(
    "setting",
    [
        {"accuracy": 1.5},
        {"share": (0.5, 0.1)},
        {"missed": (0.5, 0.1)},
        {"missed": 0.05},
        {"word_weight": -1.0},
        {"labels": "DRUG"},
        {"max_iter": 0},
    ],
)
def test_settings_that_mean_nothing_are_refused(setting):
    with pytest.raises(DataError):
        Aggregator(**setting).fit(drawn(5)[0])


def test_shards_may_be_worked_on_elsewhere():
    texts, _ = drawn(120)
    here, there = (Aggregator(words=False, engine=engine).fit(texts) for engine in (None, IsolatingEngine()))
    for a, b in zip(here.probabilities_, there.probabilities_, strict=True):
        assert np.array_equal(a, b)
