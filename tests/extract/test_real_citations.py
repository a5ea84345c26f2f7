"""Cora citations, where present: the accuracy of constraint-driven learning with few labels."""

from dataclasses import replace

import numpy as np
import pytest

from tests.extract.samples import rules_of
from trellis.apps.extract.extractor import Extractor
from trellis.data.text_files import read_labelled, read_texts

pytestmark = pytest.mark.slow


def upper(text):
    return replace(text, labels=tuple(y.upper() for y in text.labels))


@pytest.mark.realdata
def test_five_labels_and_rules_reach_the_accuracy_of_the_thesis(data_dir):
    folder = data_dir / "fields" / "citations"
    train, test = ([upper(t) for t in read_labelled(folder / f"{part}.tsv")] for part in ("train", "test"))
    unlabelled = read_texts(folder / "unlabelled.tsv")
    found = {"codl": [], "hard-em": []}
    for draw in range(3):
        few = [train[i] for i in np.random.default_rng([5, draw]).choice(len(train), 5, replace=False)]
        for method, scores in found.items():
            made = Extractor(rules_of("citations"), method=method, model_kind="hmm").fit(few, unlabelled=unlabelled)
            scores.append(made.score(test, constrained=method == "codl"))
    assert np.mean(found["codl"]) > 0.7765  # semi-supervised HMM with constraints, Chang 2011, Table 3.3
    assert np.mean(found["codl"]) > np.mean(found["hard-em"]) + 0.05
