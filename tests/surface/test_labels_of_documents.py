"""Labels that documents and rows of tables have are labels: for ``fit``, for ``score``, and not for predictions."""

from __future__ import annotations

import pytest

from tests.surface.examples import EXAMPLES, NAMES, TAGS, TEXT, fitted, hmm, plain, same
from trellis import CRF, HMM, Document, tune

NOT_TRAINED = {"Inducer": "induces labels of its own", "LCLR": "learns from answers", "JLIS": "takes answers too"}
SEQUENCES = [name for name, one in EXAMPLES.items() if one.data[0] is TEXT and name not in NOT_TRAINED]
FORMS = {
    "documents": lambda texts, labels: [Document(tuple(x), y) for x, y in zip(texts, labels, strict=True)],
    "rows": lambda texts, labels: [{"tokens": x, "labels": y} for x, y in zip(texts, labels, strict=True)],
    "frame": lambda texts, labels: pytest.importorskip("pandas").DataFrame({"tokens": texts, "labels": labels}),
}


def test_there_are_estimators_of_sequences():
    assert {"HMM", "CRF", "SemiCRF", "UEM", "CoDL", "CCM", "SSVM", "Perceptron", "LatentSSVM"} <= set(SEQUENCES)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*SEQUENCES, "MultiView"])
def test_fit_learns_from_the_labels_of_documents(name, form):
    example = EXAMPLES[name]
    X, y = FORMS[form](TEXT, example.data[1] if len(example.data) > 1 else TAGS), None
    seed = {"random_state": 0} if "random_state" in example.new().get_params() else {}
    new = [TEXT, TEXT] if name == "MultiView" else TEXT
    given = example.new().set_params(**seed).fit([X, X] if name == "MultiView" else X, y)
    wanted = example.new().set_params(**seed).fit(new, TAGS if len(example.data) < 2 else example.data[1])
    assert same(plain(given.infer(new).labels), plain(wanted.infer(new).labels))
    assert given.score(new, TAGS) == wanted.score(new, TAGS)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [*SEQUENCES, "Inducer"])
def test_score_compares_with_the_labels_of_documents(name, form):
    assert fitted(name).score(FORMS[form](TEXT, TAGS)) == fitted(name).score(TEXT, TAGS)


@pytest.mark.parametrize("form", FORMS)
def test_views_are_scored_by_the_labels_of_documents(form):
    X = FORMS[form](TEXT, TAGS)
    assert fitted("MultiView").score([X, X]) == fitted("MultiView").score([TEXT, TEXT], TAGS)


@pytest.mark.parametrize("name", SEQUENCES)
def test_predictions_do_not_see_the_labels_of_documents(name):
    wrong = [["V"] * len(x) for x in TEXT]
    for labels in (TAGS, wrong):
        for call in EXAMPLES[name].each.values():
            found = call(fitted(name), FORMS["documents"](TEXT, labels))
            assert same(plain(found), plain(call(fitted(name), TEXT)), EXAMPLES[name].rounding)


def test_labels_in_y_come_first():
    documents = FORMS["documents"](TEXT, [["V"] * len(x) for x in TEXT])
    assert HMM(NAMES, min_count=1).fit(documents, TAGS).predict(TEXT) == TAGS
    assert CRF(NAMES).fit(documents, TAGS).score(documents, TAGS) == 1.0


@pytest.mark.parametrize("form", FORMS)
def test_tuning_judges_by_the_labels_of_documents(form):
    found = tune(CRF(NAMES, max_iter=50), FORMS[form](TEXT * 4, TAGS * 4), halves=True, parameters={"l2": [0.1, 1.0]})
    plain_lists = tune(CRF(NAMES, max_iter=50), TEXT * 4, TAGS * 4, halves=True, parameters={"l2": [0.1, 1.0]})
    assert [one.score for one in found.trials] == [one.score for one in plain_lists.trials]
    assert hmm().fit(FORMS[form](TEXT, TAGS)).score(FORMS[form](TEXT, TAGS)) > 0.5
