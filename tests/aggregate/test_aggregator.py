"""Aggregator: better than the majority vote, stable under EM, and robust to unusual input."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.aggregate.corpora import LABELS, agreement, drawn, true_accuracies
from tests.engine.isolating import IsolatingEngine
from trellis import Aggregator, Document, InfeasibleError, load_model
from trellis.apps.aggregate.majority import majority_vote
from trellis.errors import DataError, UnknownNameError
from trellis.models.vote_hmm import VoteHMM
from trellis.projection import Projector


def spans(tokens, **functions):
    return {"tokens": tokens.split(), "spans": functions}


@pytest.mark.slow
def test_plain_em_on_independent_functions_is_better_than_the_majority_vote():
    texts, gold = drawn(400)
    found = Aggregator(prior_strength=0.0, entity_bias=0.0).fit(texts)
    assert agreement(found.labels_, gold) > agreement(majority_vote(texts, LABELS), gold) + 0.01


@pytest.mark.slow
def test_estimated_accuracies_order_functions_as_the_true_ones_do():
    texts, gold = drawn(600)
    found = Aggregator(prior_strength=0.0, entity_bias=0.0).fit(texts).accuracies_
    true = true_accuracies(texts, gold)
    assert sorted(found, key=lambda f: found[f].accuracy) == sorted(true, key=true.get)


def test_a_type_of_a_function_is_not_given_up_for_the_others():
    """A list is right about places; its one-word bodies, beside a rule that finds long ones, look like "O" to EM."""
    texts = [spans("in Rome", list=[[1, 2, "LOC"]])] * 60 + [spans("the Ark Bank fell", rule=[[1, 3, "ORG"]])] * 15
    texts += [spans("the UN met", list=[[1, 2, "ORG"]])] * 6
    assert Aggregator().fit(texts).labels_[-1] == ["O", "B-ORG", "O"]
    assert Aggregator(prior_strength=0.0).fit(texts).labels_[-1] != ["O", "B-ORG", "O"]


@pytest.mark.slow
def test_new_texts_are_labelled_as_those_of_training_were():
    texts, _ = drawn(200)
    made = Aggregator().fit(texts)
    assert made.predict(texts) == made.labels_
    for a, b in zip(made.predict_proba(texts), made.probabilities_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_round_raises_the_penalised_likelihood():
    values = Aggregator(tol=0.0, max_iter=12).fit(drawn(100)[0]).history_.objective
    assert len(values) == 12
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(values))


def test_near_duplicates_count_once():
    """Four copies of one function do not outvote two functions that agree with each other."""
    texts = []
    for i in range(60):
        right, tricky = [[1, 2, "Y" if i % 3 == 0 else "X"]], i % 12 == 1
        copied = [[1, 2, "Y"]] if tricky else right
        own = {"f": right if tricky or i % 2 == 0 else [], "g": right if i % 2 else []}
        texts.append(spans(f"the w{i}", **own, **{f"copy{n}": copied for n in range(4)}))
    made = Aggregator().fit(texts)
    assert made.model_.weight_[2:].tolist() == [0.25] * 4
    assert made.labels_[1] == made.labels_[13] == ["O", "B-X"]


def test_entity_bias_trades_precision_for_recall():
    texts, _ = drawn(200)
    found = [
        sum(label != "O" for own in Aggregator(entity_bias=b).fit(texts).labels_ for label in own)
        for b in (-3.0, 0.0, 3.0)
    ]
    assert found[0] < found[1] < found[2]


def test_a_function_can_be_trusted_less():
    texts = [spans("a b", f=[[0, 1, "X"]], g=[[0, 1, "Y"]])] * 20
    for trusted, label in (({"f": 0.95, "g": 0.5}, "B-X"), ({"f": 0.5, "g": 0.95}, "B-Y")):
        assert Aggregator(accuracy=trusted).fit(texts).labels_[0] == [label, "O"]


def test_one_function_is_believed():
    texts = [spans("take aspirin now", f=[[1, 2, "DRUG"]]), spans("nothing here", f=[])]
    made = Aggregator().fit(texts)
    assert made.labels_ == [["O", "B-DRUG", "O"], ["O", "O"]]
    assert set(made.accuracies_) == {"f"}


def test_texts_that_nobody_touches_and_empty_ones_keep_their_place():
    texts = [
        {"tokens": [], "votes": {"f": []}},
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
    made = Aggregator().fit(texts)
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
    made = Aggregator(
        coarse={"MEDICAL": ["DRUG", "PAIN"]},
    ).fit(texts)
    assert made.labels_[0] == ["B-DRUG", "O", "B-PAIN"]
    with pytest.raises(UnknownNameError, match="DRGU"):
        Aggregator(coarse={"MEDICAL": ["DRGU"]}, labels=["DRUG"]).fit(texts)


def test_texts_may_be_labelled_as_a_whole():
    texts = [{"text": f"good film {i}", "votes": {"a": "POS", "b": "POS" if i % 10 else None}} for i in range(30)]
    texts += [{"text": f"bad film {i}", "votes": {"a": "NEG", "b": "NEG" if i % 10 else None}} for i in range(30)]
    made = Aggregator().fit(texts)
    assert made.labels_[0] == ["POS"]
    assert made.labels_[40] == ["NEG"]
    assert np.vstack(made.probabilities_).shape == (60, 2)


def test_a_declared_type_that_nobody_votes_for_is_not_predicted():
    texts = [spans("some words by ann", f=[[3, 4, "PER"]]), spans("and others", f=[])] * 20
    made = Aggregator(["PER", "GPE"]).fit(texts)
    assert {label for own in made.labels_ for label in own} == {"O", "B-PER"}


def test_an_inside_vote_that_continues_nothing_begins_a_span():
    texts = [{"tokens": ["a", "new", "york"], "votes": {"f": [None, "I-L", "I-L"]}}] * 20
    assert Aggregator().fit(texts).labels_[0] == ["O", "B-L", "I-L"]


def test_votes_for_o_are_votes():
    texts = [{"tokens": [f"aspirin{'abcd'[i % 4]}", "helps"], "votes": {"f": ["B-D", "O"]}} for i in range(40)]
    assert Aggregator().fit(texts).labels_ == [["B-D", "O"]] * 40
    plain = [{"tokens": [kind, "film"], "votes": {"f": [kind.upper(), "O"]}} for kind in ("good", "bad")] * 40
    assert Aggregator().fit(plain).labels_[:2] == [["GOOD", "O"], ["BAD", "O"]]


def test_a_short_form_is_what_its_long_form_is_and_no_more():
    explained = spans("nitric oxide ( NO ) rose and NO fell", f=[[0, 2, "DRUG"]], g=[[0, 2, "DRUG"]])
    others = [spans("take aspirin but NO wine", f=[[1, 2, "DRUG"]], g=[[1, 2, "DRUG"]])] * 12
    made = Aggregator().fit([explained, *others])
    assert made.labels_[0] == ["B-DRUG", "I-DRUG", "O", "B-DRUG", "O", "O", "O", "B-DRUG", "O"]
    assert made.labels_[1] == ["O", "B-DRUG", "O", "O", "O"]  # this text does not explain it
    assert made.predict([explained, others[0]]) == made.labels_[:2]
    assert Aggregator(short_forms=False).fit([explained, *others]).labels_[0][3] == "O"
    part = spans("acid nitric oxide ( ANO ) and ANO", f=[[2, 3, "DRUG"]], g=[[2, 3, "DRUG"]])
    assert made.predict([part])[0][-1] == "O"  # the entity is a part of the long form


def test_rules_are_obeyed():
    texts, _ = drawn(50)
    rules = '[[rule]]\nname = "no pains"\nif_word_matches = "."\nthen_not_label = ["B-PAIN", "I-PAIN"]\n'
    made = Aggregator(rules=rules).fit(texts)
    assert {k for own in made.labels_ for k in own} <= {"O", "B-DRUG", "I-DRUG"}


def test_a_rule_can_speak_of_a_function():
    texts, _ = drawn(50)
    rules = '[[rule]]\nname = "f2 is right"\nif_column = { f2 = "B-DRUG" }\nthen_label = "B-DRUG"\n'
    made = Aggregator(rules=rules).fit(texts)
    for text, own in zip(texts, made.labels_, strict=True):
        assert all(k == "B-DRUG" for v, k in zip(text.votes["f2"], own, strict=True) if v == "B-DRUG")


def test_rules_that_cannot_hold_are_named():
    rules = '[[rule]]\nname = "all"\nif_word_matches = "."\nthen_label = "I-DRUG"\n'
    with pytest.raises(InfeasibleError, match="all"):
        Aggregator(rules=rules).fit(drawn(20)[0])


@pytest.mark.slow
def test_a_file_gives_the_same_labels_and_bits(tmp_path):
    texts, _ = drawn(80)
    made = Aggregator(rules='[[rule]]\nname = "r"\ncount = "B-PAIN"\nat_most = 3\n').fit(texts)
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
    made = Aggregator().fit(texts)
    assert {a.accuracy > 0.0 for a in made.accuracies_.values()} <= {True, False}
    assert len(made.labels_) == 30


@pytest.mark.parametrize(
    "texts, message",
    [
        ([], "the list is empty"),
        ([{"tokens": [], "votes": {}}], "all texts are empty"),
        ([{"tokens": ["a"], "votes": {"f": [None]}}], "no function votes"),
        ([{"tokens": ["a"]}], "text 0: expected the key 'votes' or 'spans'"),
        ([{"tokn": ["a"], "votes": {}}], "expected the key 'tokens'.*tokn"),
        ([{"tokens": ["a"], "votes": {"f": ["X", "X"]}}], "text 0: found 1 token but 2 votes of function 'f'"),
        (__file__, "got the name of a file"),
        ([{"tokens": ["a"], "spans": {"f": [[0, 2, "X"]]}}], "does not lie in a text of 1 token"),
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
        Aggregator(accuracy={"g": 0.5}).fit([Document(("a",), votes={"f": ("B-X",)})])


@pytest.mark.parametrize(
    "setting",
    [
        {"accuracy": 1.5},
        {"accuracy": None},
        {"accuracy": {"f0": -0.1}},
        {"prior_strength": -1.0},
        {"entity_bias": "much"},
        {"labels": "DRUG"},
        {"max_iter": 0},
    ],
)
def test_settings_that_mean_nothing_are_refused(setting):
    with pytest.raises(DataError):
        Aggregator(**setting).fit(drawn(5)[0])


def test_shards_may_be_worked_on_elsewhere():
    texts, _ = drawn(120)
    here, there = (Aggregator(engine=engine).fit(texts) for engine in (None, IsolatingEngine()))
    for a, b in zip(here.probabilities_, there.probabilities_, strict=True):
        assert np.array_equal(a, b)


def test_texts_are_encoded_once_and_inference_runs_once_per_call(monkeypatch):
    calls = {"encode": 0, "run": 0}

    def counted(name, own):
        def call(*args, **settings):
            calls[name] += 1
            return own(*args, **settings)

        return call

    monkeypatch.setattr(VoteHMM, "encode", counted("encode", VoteHMM.encode))
    monkeypatch.setattr(Projector, "run", counted("run", Projector.run))
    texts, gold = drawn(30)
    made = Aggregator().fit(texts)
    assert calls == {"encode": 1, "run": len(made.history_) + 1}
    for call in (made.predict, made.predict_proba, made.infer, lambda X: made.score(X, gold)):
        calls.update(encode=0, run=0)
        call(texts)
        assert calls == {"encode": 1, "run": 1}


def test_short_forms_vote_as_a_function_with_an_accuracy_of_its_own(tmp_path):
    explained = spans("nitric oxide ( NO ) rose and NO fell", f=[[0, 2, "DRUG"]])
    made = Aggregator().fit([explained] * 5)
    assert made.functions_ == ["f", "short forms"]
    assert made.accuracies_["short forms"].votes == 10
    made.save(tmp_path / "m")
    assert load_model(tmp_path / "m").predict([explained]) == made.labels_[:1]
    assert Aggregator().fit([spans("a b", f=[[0, 1, "DRUG"]])] * 5).functions_ == ["f"]  # nothing is explained
    with pytest.raises(DataError, match="cannot be called 'short forms'"):
        Aggregator().fit([spans("a b", **{"short forms": [[0, 1, "DRUG"]]})])


def test_tokens_without_votes_stay_outside_where_functions_contradict_each_other():
    """Every voted token has votes for two types, so that votes name more entities than there are."""
    texts = [spans("a b", f=[[0, 1, "X"]], g=[[0, 1, "Y"]])] * 20
    assert Aggregator(accuracy={"f": 0.95, "g": 0.5}).fit(texts).labels_[0][1] == "O"


def test_texts_of_other_functions_only_are_refused():
    texts = [spans("aspirin helps", dictionary=[[0, 1, "DRUG"]]), spans("take aspirin", dictionary=[[1, 2, "DRUG"]])]
    made = Aggregator().fit(texts)
    with pytest.raises(UnknownNameError, match="labelling function 'dictionnary'.*dictionary"):
        made.predict([spans("aspirin", dictionnary=[[0, 1, "DRUG"]])])
    assert made.predict([spans("aspirin", dictionary=[[0, 1, "DRUG"]], new=[])]) == [["B-DRUG"]]
