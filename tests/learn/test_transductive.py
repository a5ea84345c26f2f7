"""Constraints that tie instances together hold over the predicted instances where ``transductive=True`` asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.aggregate.test_promises import VOTED
from tests.learn.corpora import tagged_sentences
from trellis import CRF, HMM, SSVM, UEM, Aggregator, CoDL, Perceptron, share

WANTED = 0.75
RULE = (share("N").per("corpus") >= WANTED).named("nouns")
TEXT, LABELS = tagged_sentences(24, seed=3)
NEW = [["the", "walk"], ["walk", "the", "walk"], ["a", "walk", "walk"], ["runs", "a"]] * 4
"""Words that are nouns less often than that."""
LEARNERS: dict[str, Any] = {
    "UEM": UEM(HMM(), max_iter=2, projection_tol=1e-4),
    "UEM of a CRF": UEM(CRF(), max_iter=2, projection_tol=1e-4),
    "hard EM": UEM(HMM(), gamma=0.0, max_iter=2),
    "CoDL": CoDL(HMM(), [RULE], hard=True, max_iter=1),
    "SSVM": SSVM(CRF(), max_iter=50),
    "Perceptron": Perceptron(CRF(), max_iter=2),
}


@pytest.fixture(scope="module", params=LEARNERS)
def learner(request: pytest.FixtureRequest) -> Any:
    """Trained without the rule, or under it on other texts, so that it is for prediction to keep it."""
    return LEARNERS[request.param].fit(TEXT, LABELS).set_params(constraints=[RULE])


def nouns(labels: Any) -> float:
    return float(np.mean([label == "N" for sentence in labels for label in sentence]))


def test_a_share_over_the_corpus_holds_over_what_is_predicted(learner: Any) -> None:
    plain, transductive = learner.infer(NEW), learner.infer(NEW, transductive=True)
    assert nouns(plain.labels) < WANTED - 0.1
    assert plain.labels == learner.infer(NEW, constrained=False).labels
    assert nouns(transductive.labels) > nouns(plain.labels)
    expected = np.concatenate(transductive.marginals)[:, learner.model_.label_names_.number("N")].mean()
    assert expected >= WANTED - 0.01
    assert learner.predict(NEW, transductive=True) == transductive.labels


def test_violations_count_the_corpus_too(learner: Any) -> None:
    """Of a posterior the one row is violated; of outputs, the share of nouns that is missing."""
    plain = learner.infer(NEW)
    missing = 1.0 if isinstance(learner, UEM) else WANTED - nouns(plain.labels)
    assert learner.violations(NEW) == pytest.approx({"nouns": missing})
    assert learner.violations(NEW, transductive=True) == {"nouns": 0.0}


AGGREGATED = """
[[rule]]
count = ["B-DRUG", "I-DRUG"]
per = "corpus"
at_most = 1
"""


def test_a_rule_over_all_texts_holds_over_those_that_an_aggregator_labels() -> None:
    found = Aggregator(rules=AGGREGATED).fit(VOTED)
    plain, transductive = (
        sum(float(p[:, 1:].sum()) for p in found.predict_proba(VOTED, transductive=asked)) for asked in (False, True)
    )
    assert plain > 2.0
    assert transductive == pytest.approx(1.0, abs=0.05)
