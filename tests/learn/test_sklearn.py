"""Learners and sequence models inside scikit-learn's tools."""

from __future__ import annotations

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from trellis.constraints import count
from trellis.learn import UEM
from trellis.models import HMM

from .corpora import LABELS, tagged_sentences


def lower(text: list[list[str]]) -> list[list[str]]:
    return [[word.lower() for word in sentence] for sentence in text]


def learner() -> UEM:
    model = HMM(LABELS, min_count=1, emission_prior=1.1, transition_prior=1.1)
    return UEM(model, [count("V") >= 0.5], max_iter=3, tol=0.0, random_state=0)


def test_clone_copies_the_settings_and_not_what_was_learned() -> None:
    text, _ = tagged_sentences(20)
    made = learner().fit(text)
    copy = clone(made)
    assert copy.model is not made.model
    assert not hasattr(copy, "history_")
    assert not hasattr(copy.model, "label_names_")
    assert copy.get_params()["max_iter"] == 3
    assert copy.fit(text).predict(text) == made.predict(text)


def test_learner_works_at_the_end_of_a_pipeline() -> None:
    text, tags = tagged_sentences(40)
    shouting = [[word.upper() for word in sentence] for sentence in text]
    pipeline = Pipeline([("lower", FunctionTransformer(lower)), ("learn", learner())])
    pipeline.fit(shouting)
    assert pipeline.predict(shouting) == learner().fit(text).predict(text)
    assert 0.0 < pipeline.score(shouting, tags) <= 1.0


def test_grid_search_chooses_gamma() -> None:
    text, tags = tagged_sentences(40)
    known = [y if i % 2 else [None] * len(y) for i, y in enumerate(tags)]
    search = GridSearchCV(learner(), {"gamma": [1.0, 0.3], "model__emission_prior": [1.1, 1.5]}, cv=2)
    search.fit(text, known)
    assert set(search.best_params_) == {"gamma", "model__emission_prior"}
    assert len(search.predict(text)) == 40
