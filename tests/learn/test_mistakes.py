"""Mistakes that people make in Python are answered by our errors, which say what to do."""

from __future__ import annotations

import pytest

from trellis import CRF, HMM, UEM, Inducer, MaxEnt, NaiveBayes, compile_constraints, load_model
from trellis.apps.align.aligner import Aligner
from trellis.apps.extract.extractor import Extractor
from trellis.constraints import count, label, word
from trellis.data.tokens import tokenise
from trellis.errors import DataError, NotFittedError, TrellisError, UnknownNameError
from trellis.learn import CCM, CoDL

X = [["a", "b"], ["b", "a", "a"]]
Y = [["X", "Y"], ["Y", "X", "X"]]
TABLE = [[1.0, 0.0], [0.0, 1.0]]
PAIRS = [("a b", "x y"), ("b a", "y x")]
NAN = float("nan")
RULES = 'labels = ["X", "Y"]\n[[rule]]\ncount = "X"\nat_least = 1\npenalty = 1\n'
WORDS = [tokenise("a b")]


def hmm(**settings):
    return HMM(**{"labels": ["X", "Y"], "min_count": 1, "unknown": None, "emission_prior": 1.1, **settings})


def verbs():
    return HMM(["NOUN", "VERB"], min_count=1, emission_prior=1.1, transition_prior=1.1)


LEARNERS = {"UEM": UEM, "CoDL": CoDL, "CCM": CCM}
TAGGERS = {
    "HMM": hmm,
    "CRF": CRF,
    **{name: (lambda make=make: make(hmm())) for name, make in LEARNERS.items()},
}

# before fit

UNFITTED = {
    "HMM": lambda: hmm().predict(X),
    "HMM.encode": lambda: hmm().encode(X),
    "CRF": lambda: CRF().predict(X),
    "CRF.encode": lambda: CRF().encode(X),
    "MaxEnt": lambda: MaxEnt().predict(TABLE),
    "NaiveBayes": lambda: NaiveBayes().predict(TABLE),
    "UEM": lambda: UEM(hmm()).predict(X),
    "UEM.score": lambda: UEM(hmm()).score(X, Y),
    "UEM.violations": lambda: UEM(hmm(), [count("X") >= 1]).violations(X),
    "CoDL": lambda: CoDL(hmm()).predict(X),
    "CCM": lambda: CCM(hmm()).predict(X),
    "CCM.violations": lambda: CCM(hmm(), [count("X") >= 1]).violations(X),
    "Inducer": lambda: Inducer(2).predict(X),
    "Inducer.states": lambda: Inducer(2).states(),
    "Inducer.save": lambda: Inducer(2).save("nowhere"),
    "Aligner": lambda: Aligner().align(PAIRS),
    "Aligner.save": lambda: Aligner().save("nowhere"),
    "Extractor": lambda: Extractor(RULES).predict(WORDS),
    "Extractor.extract": lambda: list(Extractor(RULES).extract(WORDS)),
    "Extractor.score": lambda: Extractor(RULES).score(WORDS),
    "Extractor.save": lambda: Extractor(RULES).save("nowhere"),
}


@pytest.mark.parametrize("case", UNFITTED)
def test_what_is_not_fitted_says_call_fit_first(case):
    with pytest.raises(NotFittedError, match="call fit first"):
        UNFITTED[case]()


# constraints


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("constraint", [count("X") >= 1, word.isin("a").implies(label("X"))])
def test_one_constraint_in_place_of_a_list_is_told(learner, constraint):
    with pytest.raises(TrellisError, match="list of constraints"):
        LEARNERS[learner](hmm(), constraint).fit(X, Y)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("constraints", ["X >= 1", ["X >= 1"], [count], None])
def test_what_is_no_constraint_is_told_with_what_one_is(learner, constraints):
    with pytest.raises(TrellisError, match="constraint"):
        LEARNERS[learner](hmm(), constraints).fit(X, Y)


@pytest.mark.parametrize("learner", LEARNERS)
def test_an_unknown_label_in_a_constraint_is_told_with_the_constraint_and_the_right_one(learner):
    with pytest.raises(
        UnknownNameError, match=r"unknown label 'VREB' in the constraint 'a verb'; did you mean 'VERB'\?"
    ):
        LEARNERS[learner](verbs(), [(count("VREB") >= 1).named("a verb")]).fit(X)
    with pytest.raises(UnknownNameError, match=r"'VREB' in the constraint .*implies.*did you mean 'VERB'\?"):
        LEARNERS[learner](verbs(), [word.isin("a").implies(label("VREB"))]).fit(X)


@pytest.mark.parametrize("learner", LEARNERS)
def test_an_unknown_label_in_a_constraint_is_told_where_every_text_is_labelled_too(learner):
    with pytest.raises(UnknownNameError, match="unknown label 'Z' in the constraint 'zed'; known: 'X', 'Y'"):
        LEARNERS[learner](hmm(), [(count("Z") >= 1).named("zed")]).fit(X, Y)


def test_compiling_names_the_constraint_too():
    model = hmm().fit(X, Y)
    batch = model.encode(X)
    with pytest.raises(UnknownNameError, match="in the constraint 'zed'"):
        compile_constraints([(count("Z") >= 1).named("zed")], batch, model.label_names_, model.parts(batch))


# models


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("model", [HMM, "HMM", None])
def test_a_class_in_place_of_a_model_is_told(learner, model):
    with pytest.raises(TrellisError, match="model"):
        LEARNERS[learner](model).fit(X, Y)


GAMMAS = {
    "UEM": lambda: UEM(hmm(), gamma="pr").fit(X, Y),
    "Inducer": lambda: Inducer(2, gamma="pr").fit(X),
    "Extractor": lambda: Extractor(RULES, method="uem", gamma="pr").fit([], unlabelled=WORDS),
    "Aligner": lambda: Aligner(gamma="pr").fit(PAIRS),
    "CCM": lambda: CCM(hmm(), method="uem", gamma="pr").fit(X, Y),
}


@pytest.mark.parametrize("case", GAMMAS)
def test_gamma_is_a_number_and_no_name(case):
    with pytest.raises(DataError, match="(γ|gamma) must be a number"):
        GAMMAS[case]()


# data


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("dev", [X, (X,), (X, Y, Y)])
def test_dev_is_a_pair_of_texts_and_labels(learner, dev):
    with pytest.raises(DataError, match="dev"):
        LEARNERS[learner](hmm()).fit(X, Y, dev=dev)


@pytest.mark.parametrize("tagger", TAGGERS)
def test_labels_may_come_from_a_generator_but_those_of_a_sentence_may_not(tagger):
    assert TAGGERS[tagger]().fit(X, (own for own in Y)).predict(X) == TAGGERS[tagger]().fit(X, Y).predict(X)
    with pytest.raises(DataError, match=r"the labels of sentence 0 are <generator .*expected a list of labels"):
        TAGGERS[tagger]().fit(X, [(one for one in own) for own in Y])


@pytest.mark.parametrize("tagger", TAGGERS)
def test_a_string_as_labels_is_told(tagger):
    with pytest.raises(DataError, match="y is a str"):
        TAGGERS[tagger]().fit(X, "XY")
    with pytest.raises(DataError, match="the labels of sentence 0 are 'XY': expected a list"):
        TAGGERS[tagger]().fit(X, ["XY", "YXX"])


@pytest.mark.parametrize("tagger", TAGGERS)
def test_nan_is_no_label(tagger):
    with pytest.raises(DataError, match="NaN is no label: write None where a label is not known"):
        TAGGERS[tagger]().fit(X, [["X", NAN], ["Y", "X", "X"]])
    with pytest.raises(DataError, match="the labels of sentence 0 are nan: expected a list of labels, or None"):
        TAGGERS[tagger]().fit(X, [NAN, ["Y", "X", "X"]])


@pytest.mark.parametrize("model", [MaxEnt, NaiveBayes])
def test_nan_is_no_class(model):
    with pytest.raises(DataError, match="NaN or infinity; give None where a label is unknown"):
        model().fit(TABLE, [0.0, NAN])


@pytest.mark.parametrize("learner", LEARNERS)
def test_sentences_from_a_generator_are_taken_once(learner):
    LEARNERS[learner](hmm()).fit((sentence for sentence in X), Y)


# files


def test_resume_without_a_checkpoint_is_told():
    with pytest.raises(DataError, match=r"UEM\(..., checkpoint=path\)"):
        UEM(hmm()).fit(X, Y, resume=True)


def test_resume_starts_anew_where_there_is_no_file_yet(tmp_path):
    learner = UEM(hmm(), checkpoint=tmp_path / "run", max_iter=2, tol=0.0).fit(X, Y, resume=True)
    assert learner.n_iter_ == 2
    assert (tmp_path / "run").exists()


@pytest.mark.parametrize("path, told", [(3, "file name"), (None, "file name"), ("nowhere", "cannot be read")])
def test_load_model_wants_the_name_of_a_file(path, told):
    with pytest.raises(TrellisError, match=told):
        load_model(path)
