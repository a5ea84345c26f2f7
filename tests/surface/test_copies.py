"""Fitted estimators can be pickled, copied, cloned and shown."""

from __future__ import annotations

import copy
import pickle

import pytest

import trellis
from tests.surface.examples import CITED, EXAMPLES, FEW, FEW_LABELS, FIELDS, TEXT_PAIRS, fitted, plain, same

COPIES = {"pickle": lambda one: pickle.loads(pickle.dumps(one)), "deepcopy": copy.deepcopy}


def answers(name, estimator):
    example = EXAMPLES[name]
    given = list(example.instances)
    given = [given, given] if name == "MultiView" else given
    return [plain(list(call(estimator, given))) for call in example.each.values()]


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_copy_of_a_fitted_estimator_predicts_the_same(name, how):
    assert same(answers(name, COPIES[how](fitted(name))), answers(name, fitted(name)))


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_copy_of_an_estimator_can_be_fitted(name, how):
    example = EXAMPLES[name]
    if name in ("Aggregator", "Matcher", "Relater"):
        pytest.skip("fitting takes long, and fitted ones are copied above")
    made = COPIES[how](example.new()).fit(*example.data, **example.more)
    assert same(answers(name, made), answers(name, fitted(name)))


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_clone_has_the_settings_and_is_not_fitted(name):
    sklearn = pytest.importorskip("sklearn.base")
    for one in (EXAMPLES[name].new(), fitted(name)):
        made = sklearn.clone(one)
        assert made.get_params(deep=False).keys() == one.get_params(deep=False).keys()
        assert not made.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_estimator_is_shown_before_and_after_fit(name):
    for one in (EXAMPLES[name].new(), fitted(name)):
        assert repr(one).startswith(f"{name}(")


@pytest.mark.parametrize("how", COPIES)
def test_a_matcher_of_sentences_is_copied_with_its_caches(how):
    matcher = trellis.Matcher("sentences", wordnet="none", n_jobs=1).fit(TEXT_PAIRS, [1, -1, 1])
    assert COPIES[how](matcher).match(TEXT_PAIRS) == matcher.match(TEXT_PAIRS)


@pytest.mark.parametrize("kind", ["hmm", "crf", "semi-crf", None])
@pytest.mark.parametrize("how", COPIES)
def test_an_extractor_of_every_kind_is_copied(kind, how):
    tokens = 'tokens = "whitespace"\n'
    extractor = trellis.Extractor(tokens + FIELDS, max_iter=1, model_kind=kind).fit(FEW, FEW_LABELS)
    assert COPIES[how](extractor).predict(CITED) == extractor.predict(CITED)
