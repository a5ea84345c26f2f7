from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from trellis import (
    Aggregator,
    DataError,
    Document,
    Extractor,
    LabellingFunction,
    Span,
    TrellisError,
    UnknownNameError,
    answers_function,
    apply_functions,
    labelling_function,
    list_function,
    matrix_to_documents,
    model_function,
    pattern_function,
    vote_summary,
    votes_to_matrix,
    write_documents,
)
from trellis.data.records import read_documents
from trellis.data.voted_files import read_voted
from trellis.data.wrench import read_wrench_gold, write_wrench

TEXTS = ["take aspirin daily", "aspirin zocor help", "no pain", "new zocor"]


@labelling_function(label="DRUG")
def ends_in_in(token):
    return token.endswith("in") and token != "pain"


@labelling_function(label="DRUG", on="spans")
def after_take(document):
    return [(t + 1, t + 2) for t, token in enumerate(document.tokens) if token == "take"]


DRUGS = list_function("DRUG", ["aspirin", "zocor"], "list")
FUNCTIONS = [DRUGS, ends_in_in, after_take, pattern_function("DRUG", "zo[a-z]+", "zo")]


def test_functions_on_tokens_spans_patterns_and_lists_vote():
    documents = apply_functions(FUNCTIONS, TEXTS)
    assert documents[1].votes == {
        "list": ("B-DRUG", "B-DRUG", None), "ends_in_in": ("B-DRUG", None, None), "after_take": (None, None, None),
        "zo": (None, "B-DRUG", None),
    }  # fmt: skip
    assert ends_in_in("aspirin") is True
    assert apply_functions(FUNCTIONS, []) == []


def test_a_function_may_see_the_context_and_return_labels():
    @labelling_function(bio=False)
    def tag(document, t):
        return "V" if t and document.tokens[t - 1] == "to" else None

    [text] = apply_functions([tag], [["to", "go", "to"]])
    assert text.votes == {"tag": (None, "V", None)}
    spans = LabellingFunction(lambda d: [Span("X", 0, 1), (1, 2, "Y")], "f", on="spans")
    assert apply_functions([spans], ["a b"])[0].votes["f"] == ("B-X", "B-Y")


def test_neighbouring_tokens_of_one_label_are_one_entity():
    upper = LabellingFunction(str.isupper, "upper", "CODE")
    assert apply_functions([upper], ["A B c D"])[0].votes["upper"] == ("B-CODE", "I-CODE", None, "B-CODE")


def test_whole_texts_have_one_vote():
    @labelling_function("BAD", on="text")
    def late(text):
        return "late" in text

    found = apply_functions([late, pattern_function("GOOD", "quick", on="text")], ["late again", "so quick"])
    assert [d.tokens for d in found] == [("late again",), ("so quick",)]
    assert [d.votes["late"] for d in found] == [("BAD",), (None,)]
    assert Aggregator().fit(found).labels_ == [["BAD"], ["GOOD"]]
    with pytest.raises(DataError, match="each kind on its own"):
        apply_functions([late, DRUGS], ["a"])


@pytest.mark.parametrize("on", ["tokens", "text"])
def test_written_votes_are_read_by_the_command_line(on, tmp_path):
    functions = FUNCTIONS if on == "tokens" else [pattern_function("BAD", "late", on="text")]
    documents = apply_functions(functions, [*TEXTS, "late again"])
    write_documents(tmp_path / "votes.jsonl", documents)
    assert [(d.tokens, d.votes) for d in read_voted(tmp_path / "votes.jsonl")] == [
        (d.tokens, d.votes) for d in documents
    ]


def test_worker_processes_give_the_same_votes():
    texts = TEXTS * 40
    assert apply_functions(FUNCTIONS, texts, n_jobs=2) == apply_functions(FUNCTIONS, texts)


def test_answers_of_a_file_and_a_model_vote(tmp_path):
    lines = [
        {"text": TEXTS[0], "spans": [{"label": "DRUG", "start": 5, "end": 12}]},
        {"text": TEXTS[1], "spans": [{"label": "DRUG", "text": "zocor"}]},
        {"text": TEXTS[2], "spans": None},
    ]
    (tmp_path / "llm.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = apply_functions([answers_function(tmp_path / "llm.jsonl", "llm")], TEXTS)
    assert [d.votes["llm"] for d in found] == [
        (None, "B-DRUG", None), (None, "B-DRUG", None), (None, None), (None, None)
    ]  # fmt: skip
    (tmp_path / "bad.jsonl").write_text('{"text": "a", "spans": [{"start": 1}]}\n')
    with pytest.raises(DataError, match=r"bad.jsonl, line 1: expected a span with a 'label'"):
        answers_function(tmp_path / "bad.jsonl")
    few = ["take aspirin", "no zocor now"], [["O", "DRUG"], ["O", "DRUG", "O"]]
    extractor = Extractor('labels = ["DRUG", "O"]', method="supervised").fit(*few)
    votes = apply_functions([model_function(extractor, "model", threshold=0.3)], TEXTS[:1])[0].votes["model"]
    assert votes == (None, "B-DRUG", None)


def test_mistakes_name_the_function():
    for function, message in (
        (LabellingFunction(lambda token: 0.5, "f", "X"), "^labelling function 'f', text 0: returned 0.5"),
        (LabellingFunction(lambda token: True, "f"), "name the label"),
        (LabellingFunction(lambda document: [3], "f", "X", "spans"), "a span is"),
        (
            LabellingFunction(lambda documents: [()], "f", "X", "documents"),
            "'f', text 0: returned 0 votes",
        ),
        (LabellingFunction(lambda documents: 3, "f", "X", "documents"), "^labelling function 'f': returned 3"),
        (LabellingFunction(lambda document: [(0, 2)], "f", "X", "spans"), "text 0: the span .* does not lie"),
    ):
        with pytest.raises(DataError, match=message):
            apply_functions([function], ["a"])
    with pytest.raises(ZeroDivisionError) as caught:
        apply_functions([LabellingFunction(lambda token: 1 / 0, "broken", "X")], ["a"])
    assert caught.value.__notes__ == ["(in the labelling function 'broken', text 0)"]
    with pytest.raises(DataError, match="the same name"):
        apply_functions([DRUGS, DRUGS], ["a"])
    with pytest.raises(UnknownNameError):
        labelling_function(on="token")(str.isupper)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_mistakes_name_the_text(n_jobs):
    texts = ["a"] * 70 + ["b"] + ["a"] * 70
    half = LabellingFunction(lambda token: 0.5 if token == "b" else None, "half")
    with pytest.raises(DataError, match=r"^labelling function 'half', text 70: returned 0\.5"):
        apply_functions([DRUGS, half], texts, n_jobs=n_jobs)

    @labelling_function
    def late(token):
        if token == "b":
            raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="^no answer") as caught:
        apply_functions([late], texts, n_jobs=n_jobs)
    assert "(in the labelling function 'late', text 70)" in caught.value.__notes__


@pytest.mark.parametrize("on, answer", [("text", "GOOD"), ("tokens", "B-GOOD"), ("spans", [(0, 1, "GOOD")])])
def test_a_function_with_a_label_returns_no_other(on, answer):
    def make(answer):
        return labelling_function("BAD", on=on, name="f")(lambda _: answer)

    with pytest.raises(DataError, match="text 0: returned '(B-)?GOOD' but votes for 'BAD': return True or False"):
        apply_functions([make(answer)], ["a"])
    own = [(0, 1, "BAD")] if on == "spans" else "BAD"
    assert apply_functions([make(own)], ["a"])[0].votes == {"f": ("BAD" if on == "text" else "B-BAD",)}


@pytest.mark.parametrize("text", ["parcel", "a parcel", "a free", "free sample parcel", "parcel free", ""])
def test_phrases_of_different_lengths_vote_at_the_end_of_a_text(text):
    [found] = apply_functions([list_function("P", ["free sample", "parcel"], "f")], [text])
    expected = {"parcel": "B-P", "sample": "I-P"} | ({"free": "B-P"} if "free sample" in text else {})
    assert found.votes["f"] == tuple(map(expected.get, text.split()))


def test_a_decorator_needs_no_parentheses():
    @labelling_function
    def greeting(token):
        return "HI" if token == "hello" else None

    assert apply_functions([greeting], ["hello you"])[0].votes == {"greeting": ("B-HI", None)}


def test_minus_one_of_snorkel_is_not_taken_for_true():
    abstains = labelling_function("X")(lambda token: -1)
    with pytest.raises(DataError, match="returned -1: return a label or None"):
        apply_functions([abstains], ["a"])
    assert apply_functions([labelling_function("X", name="f")(lambda token: np.bool_(True))], ["a"])[0].votes["f"]


WRONG = {
    "expected a list of labelling functions": lambda: apply_functions(DRUGS, ["a"]),
    "decorate it with @labelling_function": lambda: apply_functions([len], ["a"]),
    "phrases must be a list of names, got 'zocor'": lambda: list_function("DRUG", "zocor"),
    "is not a valid regular expression": lambda: pattern_function("DRUG", "("),
    "unknown kind of labelling function 'words'": lambda: labelling_function("X", on="words"),
    "must be a string, got 3": lambda: labelling_function(3),
    "n_jobs must be a whole number": lambda: apply_functions([DRUGS], ["a"], n_jobs=0),
    "call fit first": lambda: model_function(Extractor(""), "m"),
    "expected a trained Extractor, got int": lambda: model_function(3, "m"),
    "threshold must be a probability": lambda: model_function(trained(), "m", threshold=2),
    "this Aggregator has no learned parameters": lambda: vote_summary([Document(("a",))], Aggregator()),
}


def trained():
    return Extractor('labels = ["X", "O"]', method="supervised", max_iter=1).fit(["a"], [["X"]])


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arguments_of_labelling_functions_are_refused(message):
    with pytest.raises(TrellisError, match=message):
        WRONG[message]()


def test_no_texts_and_no_votes_have_an_empty_summary_and_matrix():
    for documents in ([], [Document(("a",))]):
        assert vote_summary(documents).functions == ()
        assert votes_to_matrix(documents)[0].shape == (sum(map(len, documents)), 0)


def test_the_summary_counts_as_snorkel_does():
    documents = [
        Document(("a",), votes={"f": ("X",), "g": ("X",), "h": (None,)}),
        Document(("b",), votes={"f": ("X",), "g": ("Y",)}),
        Document(("c",), votes={"h": ("Y",)}),
        Document(("d",), votes={}),
    ]
    found = vote_summary(documents, gold=["X", "Y", "Y", None]).functions
    assert [(one.coverage, one.overlaps, one.conflicts) for one in found] == [
        (0.5, 0.5, 0.25), (0.5, 0.5, 0.25), (0.25, 0.0, 0.0)
    ]  # fmt: skip
    assert [one.accuracy for one in found] == [0.5, 1.0, 1.0]


def test_the_summary_marks_estimates_on_a_bound_and_takes_gold_fields():
    documents = apply_functions(FUNCTIONS, TEXTS * 10)
    aggregator = Aggregator().fit(documents)
    gold = [["O", "DRUG", "O"], ["DRUG", "B-DRUG", "O"], ["O", "O"], ["O", "DRUG"]] * 10
    found = vote_summary(documents, aggregator, gold)
    assert [one.accuracy for one in found.functions] == [1.0, 1.0, 1.0, 1.0]
    for one in found.functions:
        assert one.estimated == aggregator.accuracies_[one.name].accuracy
        assert one.on_bound == (one.estimated > 0.995)
        assert f"{100 * one.estimated:.1f}{'*' if one.on_bound else ''}" in str(found)
    assert found.records()[0]["name"] == "list"
    assert found._repr_html_().count("<tr ") == 5


def test_a_matrix_comes_back():
    rng = np.random.default_rng(0)
    L = rng.integers(-1, 3, (7, 4))
    texts = [["a", "b", "c"], ["d"], [], ["e", "f", "g"]]
    documents = matrix_to_documents(L, ["X", "Y", "Z"], texts)
    assert (votes_to_matrix(documents, ["X", "Y", "Z"])[0] == L).all()
    for wrong in (L[:6], L.astype(float), L + 3):
        with pytest.raises(DataError, match="L "):
            matrix_to_documents(wrong, ["X", "Y", "Z"], texts)


@pytest.mark.parametrize("layout", ["spans", "tokens"])
def test_wrench_files_of_tokens_come_back(layout, tmp_path):
    documents = [
        Document(text.tokens, ("B-DRUG", *["O"] * (len(text) - 1)), votes=text.votes)
        for text in apply_functions(FUNCTIONS, TEXTS)
    ]
    write_wrench(tmp_path / "train.json", documents, layout=layout)
    assert [d.votes for d in read_voted(tmp_path)] == [d.votes for d in documents]
    assert [d.labels for d in read_wrench_gold(tmp_path)] == [d.labels for d in documents]


def test_wrench_files_of_texts_come_back(tmp_path):
    documents = [
        Document(("late",), ("BAD",), votes={"f": ("BAD",), "g": (None,)}),
        Document(("ok",), votes={"g": ("GOOD",)}),
    ]
    write_wrench(tmp_path / "train.json", documents, layout="texts")
    found = list(read_voted(tmp_path))
    assert [d.votes for d in found] == [{"f": ("BAD",), "g": (None,)}, {"f": (None,), "g": ("GOOD",)}]
    assert [d.labels for d in read_wrench_gold(tmp_path)] == [("BAD",), None]
    with pytest.raises(DataError, match="other functions or labels"):
        write_wrench(tmp_path / "valid.json", documents[1:], layout="texts")


def test_aggregated_labels_train_an_extractor_that_keeps_neighbours_apart():
    documents = apply_functions(FUNCTIONS, TEXTS * 10)
    aggregator = Aggregator().fit(documents)
    extractor = Extractor("").fit(documents, aggregator.labels_)
    [found] = extractor.extract(["aspirin zocor help"])
    assert [(span.text, span.label) for span in found.spans] == [("aspirin", "DRUG"), ("zocor", "DRUG")]


def test_parameters_with_defaults_are_no_context():
    @labelling_function("DRUG")
    def listed(token, drugs=frozenset({"aspirin"})):
        return token in drugs

    assert apply_functions([listed], ["take aspirin"])[0].votes == {"listed": (None, "B-DRUG")}


def test_any_callable_is_a_labelling_function():
    class Ending:
        def __call__(self, token):
            return token.endswith("rin")

    by_class, partly = labelling_function("DRUG")(Ending()), labelling_function("DRUG")(partial(str.endswith, "x"))
    assert (by_class.name, partly.name) == ("Ending", "partial")
    assert apply_functions([by_class], ["take aspirin"])[0].votes == {"Ending": (None, "B-DRUG")}


def test_spans_are_not_rounded_and_may_be_an_array():
    new = labelling_function("DRUG", on="spans", name="f")
    with pytest.raises(DataError, match="a span is"):
        apply_functions([new(lambda document: [(0.5, 1.5)])], ["a b"])
    [found] = apply_functions([new(lambda document: np.array([[0, 2]]))], ["a b"])
    assert found.votes == {"f": ("B-DRUG", "I-DRUG")}


def test_a_pattern_that_takes_too_long_is_refused_by_name():
    slow = pattern_function("X", "(a|aa)+$", name="slow")
    with pytest.raises(DataError, match="'slow', text 0: the regular expression takes too long"):
        apply_functions([slow], ["a" * 60 + "b"])


@pytest.mark.parametrize("make", [pattern_function, answers_function])
def test_functions_of_patterns_and_answers_are_on_spans_or_texts(make, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": "X", "spans": []}\n')
    given = ("X", "a") if make is pattern_function else (tmp_path / "a.jsonl",)
    with pytest.raises(DataError, match="unknown kind of .* function 'tokens'"):
        make(*given, on="tokens")


def test_write_documents_takes_the_mappings_that_the_aggregator_takes(tmp_path):
    votes = [
        {"tokens": ["take", "aspirin"], "spans": {"list": [[1, 2, "DRUG"]], "cue": []}},
        {"text": "good day", "votes": {"f": "GOOD", "g": None}},
    ]
    write_documents(tmp_path / "votes.jsonl", votes)
    first, second = read_documents(tmp_path / "votes.jsonl")
    assert first.votes == {"list": (None, "B-DRUG"), "cue": (None, None)}
    assert second.votes == {"f": ("GOOD",), "g": (None,)}
    with pytest.raises(DataError, match="entry 0: expected the key 'votes' or 'spans'"):
        write_documents(tmp_path / "none.jsonl", [{"tokens": ["a"]}])
