"""scikit-learn's own checks and tools on our estimators."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from trellis.errors import NotFittedError, UnknownNameError
from trellis.models import CRF, HMM, MaxEnt, NaiveBayes

from .corpora import random_labels, random_sentences

# What scikit-learn itself skips, with its reasons; nothing else may be skipped and nothing may fail.
SKIPPED = {
    "check_sample_weights_pandas_series": "pandas is not installed",
    "check_classifier_data_not_an_array": "pandas is not installed",
    "check_array_api_input": "SCIPY_ARRAY_API is not set",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [NaiveBayes(), MaxEnt()], ids=repr)
def test_check_estimator_passes(estimator):
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 50
    for result in results:
        if result["status"] == "skipped":
            assert SKIPPED[result["check_name"]] in str(result["exception"])
        else:
            assert result["status"] == "passed", (result["check_name"], result["exception"])


@pytest.mark.parametrize("estimator", [HMM(["A", "B"], emission_prior=1.5), CRF(l2=0.3, features=len), MaxEnt(l2=2.0)])
def test_clones_have_the_same_parameters(estimator):
    from sklearn.base import clone

    copy = clone(estimator)
    assert copy is not estimator
    assert copy.get_params() == estimator.get_params()


def test_sequence_models_work_in_grid_search_and_pipelines():
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    rng = np.random.default_rng(0)
    sentences = random_sentences(rng, 30, 6, shortest=1)
    labels = [["odd" if int(word[1:]) % 2 else "even" for word in sentence] for sentence in sentences]
    search = GridSearchCV(HMM(), {"emission_prior": [1.01, 1.5], "transition_prior": [1.1]}, cv=3)
    search.fit(sentences, labels)
    assert search.best_score_ > 0.9
    upper = FunctionTransformer(lambda X: [[word.upper() for word in sentence] for sentence in X])
    pipeline = make_pipeline(upper, CRF(l2=0.1))
    assert pipeline.fit(sentences, labels).score(sentences, labels) == 1.0
    assert pipeline.predict([["w1", "W2"]]) == [["odd", "even"]]
    assert pipeline.set_params(crf__l2=3.0).named_steps["crf"].l2 == 3.0
    assert cross_val_score(CRF(), sentences, labels, cv=3).mean() > 0.9


def test_row_models_work_in_pipelines_and_searches():
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    texts = ["good fine good", "fine", "bad awful", "awful bad bad", "good", "bad"] * 3
    labels = ["+", "+", "-", "-", "+", "-"] * 3
    for model, name, values in ((NaiveBayes(), "feature_prior", [1.1, 2.0]), (MaxEnt(), "l2", [0.1, 1.0])):
        pipeline = make_pipeline(CountVectorizer(), model)
        step = pipeline.steps[-1][0]
        search = GridSearchCV(pipeline, {f"{step}__{name}": values}, cv=3).fit(texts, labels)
        assert search.predict(["good fine", "awful bad"]).tolist() == ["+", "-"]


def test_not_fitted_is_scikit_learns_error_as_well():
    from sklearn.exceptions import NotFittedError as Theirs

    with pytest.raises(Theirs) as caught:
        HMM().predict([["a"]])
    assert isinstance(caught.value, NotFittedError)


def test_fitted_models_can_be_pickled_by_others():
    rng = np.random.default_rng(1)
    sentences = random_sentences(rng, 20, 5)
    for model in (HMM(emission_prior=1.1, transition_prior=1.1), CRF()):
        model.fit(sentences, random_labels(rng, sentences, ["A", "B"]))
        assert pickle.loads(pickle.dumps(model)).predict(sentences) == model.predict(sentences)


def test_parameters_are_those_of_the_constructor():
    with pytest.raises(UnknownNameError, match="did you mean 'emission_prior'"):
        HMM().set_params(emision_prior=2.0)
    assert repr(HMM(["A"], min_count=1)) == "HMM(labels=['A'], min_count=1)"
    assert repr(MaxEnt()) == "MaxEnt()"


@pytest.mark.slow
def test_models_do_without_scikit_learn():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from trellis.models import HMM, CRF, MaxEnt, NaiveBayes\n"
        "MaxEnt().fit([[1.0], [2.0]], ['a', 'b']).predict([[1.0]]); NaiveBayes().fit([[1.0], [2.0]], ['a', 'b'])\n"
        "CRF().fit([['x']], [['A']]).predict([['x']])\n"
        "print([name for name in sys.modules if name.startswith('sklearn.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
