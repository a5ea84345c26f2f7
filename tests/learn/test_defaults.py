"""A first try works: defaults give an answer where a few sentences are labelled, and learners leave models alone."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline

import trellis.neural
from tests.aggregate.corpora import drawn
from tests.parse.toy import pairs, treebank
from tests.relate import sample
from tests.surface.examples import EXAMPLES, NAME_PAIRS, binary
from trellis import (
    CCM,
    CRF,
    DMV,
    GE,
    HMM,
    JLIS,
    LCLR,
    MIRA,
    SSVM,
    UEM,
    Aggregator,
    Aligner,
    ArcParser,
    CoDL,
    Extractor,
    Inducer,
    LatentSSVM,
    Matcher,
    MaxEnt,
    NaiveBayes,
    Parser,
    Perceptron,
    Relater,
    SemiCRF,
    TreeInducer,
)
from trellis.apps.align.decoding import Links
from trellis.apps.parse.tagger import Tagger
from trellis.apps.parse.transfer import Transfer
from trellis.constraints import count
from trellis.errors import DataError
from trellis.metrics.alignment import GoldLinks

from .corpora import LABELS, tagged_sentences

TEXT, TAGS = tagged_sentences(60)


@pytest.mark.filterwarnings("ignore::trellis.errors.ConvergenceWarning")
@pytest.mark.parametrize("learner", [UEM, CoDL, CCM])
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_a_few_labels_and_no_rule(learner, n):
    made = learner(HMM(LABELS)).fit(TEXT, [*TAGS[:n], *[None] * (60 - n)])
    assert [len(labels) for labels in made.predict(TEXT)] == [len(words) for words in TEXT]


def test_words_in_an_unseen_order():
    hmm = HMM().fit([["a", "a", "b", "b"]], [["X", "X", "Y", "Y"]])
    assert hmm.predict([["b", "b", "a", "a"]]) == [["Y", "Y", "X", "X"]]
    assert hmm.predict([["c"]])[0][0] in ("X", "Y")


@pytest.mark.parametrize("learner", [UEM, CoDL, CCM])
def test_two_learners_that_share_a_model_leave_it_alone(learner):
    shared = HMM(LABELS)
    limit = {"max_iter": 2} | ({"tol": 0.0} if learner is UEM else {})
    one = learner(shared, **limit).fit(TEXT[:30], TAGS[:30])
    before = {name: value.copy() for name, value in one.model_.parameters().items()}
    learner(shared, **limit).fit(TEXT[30:], TAGS[30:])
    for name, value in one.model_.parameters().items():
        np.testing.assert_array_equal(value, before[name])
    assert not hasattr(shared, "label_names_")


def test_a_trained_model_that_is_the_start_is_left_alone():
    model = HMM(LABELS).fit(TEXT, TAGS)
    before = {name: value.copy() for name, value in model.parameters().items()}
    learner = UEM(model, start="model", max_iter=3, tol=0.0).fit(TEXT)
    for name, value in model.parameters().items():
        np.testing.assert_array_equal(value, before[name])
    assert np.abs(learner.model_.emission_ - model.emission_).max() > 1e-3


def test_tasks_take_plain_strings():
    joined = [" ".join(words) for words in TEXT]
    settings = {"max_iter": 3, "em_iter": 1, "frequent": 2, "random_state": 0}
    one, other = (Inducer(3, **settings).fit(X) for X in (TEXT, joined))
    assert one.states() == other.states()
    assert one.predict(TEXT[:3]) == other.predict(joined[:3])
    extractor = Extractor(RULES, max_iter=1).fit(CITED[:4], FIELDS[:4], unlabelled=CITED[4:])
    assert extractor.predict(["Ann Lee 2001"]) == [["NAME", "NAME", "YEAR"]]
    [found] = extractor.extract(["Ann Lee 2001"])
    assert [(f.label, f.text) for f in found.spans] == [("NAME", "Ann Lee"), ("YEAR", "2001")]
    links = Aligner(n_jobs=1, prefix=None).fit(PAIRS).align([("the house", "la maison")])
    assert links[0].pharaoh() == "0-0 1-1"
    for task, wrong in ((Inducer(2), "the dog"), (Extractor(RULES), "Ann 1990")):
        with pytest.raises(DataError, match="brackets"):
            task.fit(wrong)


# scikit-learn's tools

RULES = 'labels = ["NAME", "YEAR"]\n[[rule]]\nif_word_matches = "^[0-9]+$"\nthen_label = "YEAR"\npenalty = 3\n'
CITED = [f"{name} {year}" for name in ("Ann Lee", "Bo Day") for year in range(1990, 1996)]
FIELDS = [["NAME", "NAME", "YEAR"]] * len(CITED)
PAIRS = [("the house", "la maison"), ("a house", "une maison"), ("the dog", "le chien"), ("a dog", "un chien")] * 3
GOLD = [GoldLinks(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1)}))] * len(PAIRS)
ROWS = np.random.default_rng(0).poisson(1.0, size=(30, 4)).astype(float)
CLASSES = np.arange(30) % 2

EXPECTED = [(count("N").per("corpus") <= 30).penalty(1.0, "squared")]
TREES = treebank(20)
VOTED = drawn(20)


def alternating(X, y):
    """Examples of one answer and of the other in turn, so that every fold has both."""
    order = np.arange(len(X)).reshape(2, -1).T.ravel()
    return [X[i] for i in order], [y[i] for i in order]


ESTIMATORS = {
    "HMM": (HMM(), TEXT, TAGS, {"emission_prior": [1.01, 2.0]}),
    "CRF": (CRF(max_iter=5, tol=1e-1), TEXT, TAGS, {"l2": [0.1, 1.0]}),
    "MaxEnt": (MaxEnt(max_iter=50, tol=1e-3), ROWS, CLASSES, {"l2": [0.1, 1.0]}),
    "NaiveBayes": (NaiveBayes(), ROWS, CLASSES, {"feature_prior": [1.1, 2.0]}),
    "UEM": (UEM(HMM(), [count("N") <= 5], max_iter=2, tol=0.0), TEXT, TAGS, {"gamma": [1.0, 0.5]}),
    "CoDL": (CoDL(HMM(), max_iter=1), TEXT, TAGS, {"model__emission_prior": [1.01, 2.0]}),
    "CCM": (CCM(HMM(), max_iter=1), TEXT, TAGS, {"method": ["codl", "pr"]}),
    "Inducer": (Inducer(LABELS, max_iter=3, em_iter=2, random_state=0), TEXT, TAGS, {"strength": [1.0, 8.0]}),
    "Extractor": (Extractor(RULES, max_iter=1), CITED, FIELDS, {"beta": [0.5, 0.9]}),
    "Tagger": (Tagger(min_count=1, max_iter=5), TREES, None, {"l2": [0.5, 1.0]}),
    "Parser": (Parser(bits=10, min_count=1), TREES, None, {"min_count": [1, 2]}),
    "TreeInducer": (TreeInducer(max_iter=2), TREES, None, {"prior": [1.0, 1.5]}),
    "ArcParser": (ArcParser(bits=10, min_count=1), *pairs(TREES), {"min_count": [1, 2]}),
    "DMV": (DMV(), *pairs(TREES), {"child_prior": [1.0, 1.5]}),
    "Aggregator": (Aggregator(max_iter=3), *VOTED, {"accuracy": [0.7, 0.9]}),
    "Aligner": (Aligner(n_jobs=1, prefix=None), PAIRS, GOLD, {"gamma": [1.0, 0.5]}),
    "SemiCRF": (SemiCRF(max_iter=5, tol=1e-1, longest=2), TEXT[:20], TAGS[:20], {"l2": [0.1, 1.0]}),
    "GE": (GE(CRF(LABELS, max_iter=5), EXPECTED, max_iter=1, tol=0.0), TEXT[:20], TAGS[:20], {"model__l2": [0.1, 1.0]}),
    **{
        kind.__name__: (kind(CRF(LABELS), max_iter=2), TEXT[:20], TAGS[:20], {"model__l2": [0.1, 1.0]})
        for kind in (SSVM, LatentSSVM, Perceptron, MIRA)
    },
    "JLIS": (JLIS(CRF(LABELS), tol=1.0), TEXT[:20], TAGS[:20], {"C": [0.5, 1.0]}),
    "LCLR": (LCLR(CRF(["D", "N", "V"]), tol=1.0), *alternating(*binary()), {"C": [0.5, 1.0]}),
    "Matcher": (Matcher(n_jobs=1, max_iter=1), NAME_PAIRS * 2, [1, 1, -1, -1] * 2, {"C": [0.5, 1.0]}),
    "Relater": (Relater(sample.RULES, min_count=1, max_iter=1), sample.sentences(8), None, {"l2": [0.3, 1.0]}),
}
NOT_SPLIT = {
    "MultiView": "its X is a list of views, not of instances",
    "RelationModel": "it is the model of a Relater, and predicts nothing by itself",
    "Transfer": "it is trained on pairs of sentences and predicts trees of single ones",
}
"""Estimators that a grid search cannot split; all others are in the table."""
pytestmark = pytest.mark.filterwarnings("ignore::trellis.errors.ConvergenceWarning")


def test_every_estimator_is_in_the_table():
    """Estimators that are exported are those of the examples; networks are tested in tests/neural."""
    assert set(ESTIMATORS) | set(NOT_SPLIT) == set(EXAMPLES) - set(trellis.neural.__all__)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_clone_pickle_and_joblib(name, tmp_path):
    estimator, X, y, _ = ESTIMATORS[name]
    made = clone(estimator)
    assert repr(made) == repr(estimator)
    made.fit(X, y)
    joblib.dump(made, tmp_path / "m")
    for again in (pickle.loads(pickle.dumps(made)), joblib.load(tmp_path / "m")):
        one, other = (_predicted(e, X) for e in (again, made))
        assert one == other


def test_a_transfer_is_cloned_and_pickled():
    """Trained on pairs and asked for sentences, it is none of those that a grid search can split."""
    made = clone(Transfer(bits=10, source_passes=1, eta=0.8))
    made.fit(zip(TREES, TREES, strict=True), [[(i, i) for i in range(len(s))] for s in TREES])
    assert pickle.loads(pickle.dumps(made)).predict(TREES) == made.predict(TREES)
    assert made.score(TREES) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_grid_search_cross_validation_and_pipelines(name):
    estimator, X, y, grid = ESTIMATORS[name]
    search = GridSearchCV(estimator, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ <= 1.0
    assert set(search.best_params_) == set(grid)
    assert len(cross_val_score(estimator, X, y, cv=2, error_score="raise")) == 2
    line = Pipeline([("learn", estimator)]).fit(X, y)
    assert len(_predicted(line, X)) == len(X)


def _predicted(estimator, X):
    found = estimator.predict(X)
    return [one.pharaoh() if isinstance(one, Links) else list(np.atleast_1d(one)) for one in found]
