"""Soft targets: a network takes over the posterior of another model under rules, at any temperature."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from trellis.constraints import compile_constraints, count  # noqa: E402
from trellis.data.corpus import corpus_of  # noqa: E402
from trellis.data.document import Document  # noqa: E402
from trellis.data.vocabulary import Vocabulary  # noqa: E402
from trellis.errors import DataError  # noqa: E402
from trellis.models import HMM  # noqa: E402
from trellis.neural import NeuralCRF, distil  # noqa: E402
from trellis.projection import project  # noqa: E402

from .test_crf import LABELS, NAMES, TEXT, OneHot  # noqa: E402

RULES = [count("V") >= 1.2]


class Free(torch.nn.Module):
    """A score of its own for every token of one corpus: it can take over any marginals that a chain has."""

    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(n, 3, dtype=torch.float64))

    def forward(self, sentences):
        return self.weight[: sum(map(len, sentences))]


def in_columns(sentences, labels=None):
    """A corpus, whose forms are the words themselves."""
    pairs = zip(sentences, labels or [None] * len(sentences), strict=True)
    documents = [Document(tuple(s), None if own is None else tuple(own), {"form": tuple(s)}) for s, own in pairs]
    return corpus_of(documents, label_names=Vocabulary(NAMES, kind="label"))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("after", [None, "word"])
def test_the_network_takes_over_the_projected_posterior(temperature, after):
    settings = {"back_off": 1.0, "after": "word"} if after else {}
    teacher = HMM(NAMES, min_count=1, unknown=None, **settings).fit(in_columns(TEXT, LABELS))
    text = in_columns([TEXT[4]])
    student = NeuralCRF(Free(2), NAMES, solver="lbfgs", max_iter=300, tol=1e-14)
    made = distil(student, teacher, text, constraints=RULES, temperature=temperature, projection_tol=1e-8)
    batch = teacher.encode(text)
    scores = teacher.scores(batch).temper(temperature)
    rows = compile_constraints(RULES, batch, teacher.label_names_, scores.parts)
    q = project(scores, rows, tolerance=1e-8).posterior
    np.testing.assert_allclose(made.predict_proba(text)[0], q.node, atol=1e-4)


def test_known_labels_and_weights_are_kept():
    teacher = HMM(NAMES, min_count=1, unknown=None).fit(TEXT, LABELS)
    student = NeuralCRF(OneHot(), NAMES, solver="lbfgs", l2=0.05, max_iter=100)
    turned = [["V", "V", "V"], *[None] * 5]
    found = distil(student, teacher, TEXT, turned, sample_weight=[50.0, *[1.0] * 5])
    assert found.predict(TEXT)[0] == ["V", "V", "V"]
    assert distil(student, teacher, TEXT, turned, sample_weight=[0.0, *[1.0] * 5]).predict(TEXT)[0] == ["D", "N", "V"]


def test_a_temperature_must_be_positive():
    with pytest.raises(DataError, match="positive number"):
        distil(NeuralCRF(OneHot(), NAMES), HMM(NAMES).fit(TEXT, LABELS), TEXT, temperature=0.0)
