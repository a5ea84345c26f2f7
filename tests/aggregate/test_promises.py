"""What learning promises for taggers holds for votes: weights are repetitions, and α matters to constraints alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis.constraints import column, count, label
from trellis.data.voted_files import voted_of
from trellis.engine import engine_for
from trellis.errors import ModelFileError
from trellis.learn import UEM
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.training import Training
from trellis.models.vote_hmm import VoteHMM

LABELS = ["O", "B-DRUG", "I-DRUG"]
VOTED = [
    {"tokens": ["take", "aspirin", "now"], "spans": {"f": [[1, 2, "DRUG"]], "g": []}},
    {"tokens": ["no", "zocor"], "spans": {"f": [[1, 2, "DRUG"]], "g": [[1, 2, "DRUG"]]}},
    {"tokens": ["beta", "blockers", "help", "him"], "spans": {"f": [], "g": [[0, 2, "DRUG"]]}},
]
RIGHT = (column("f") == "B-DRUG") & label("B-DRUG")
RULES: dict[str, Any] = {
    "accuracy": lambda: (count(where=RIGHT).per("corpus") >= 3.5).penalty(2.0),
    "share": lambda: count("B-DRUG", "I-DRUG").per("corpus").between(3.0, 4.0),
    "sentence": lambda: count("B-DRUG") <= 0.7,
}


def model_of(**settings: Any) -> VoteHMM:
    return VoteHMM(LABELS, ["f", "g"], {k: [k] for k in LABELS}, **settings)


def begun(texts: list[Any], weights: Any = None) -> tuple[VoteHMM, Any]:
    model = model_of()
    batch = model.encode([voted_of(one) for one in texts], weights=weights, fit=True)
    model.begin(batch)
    return model, batch


@pytest.mark.parametrize("gamma", [0.5, 1.0])
@pytest.mark.parametrize("name", RULES)
def test_a_weight_of_n_is_the_text_n_times(name, gamma):
    weights = [2, 1, 3]
    repeated = [VOTED[i] for i, w in enumerate(weights) for _ in range(w)]
    found = [
        ProjectedStep(Training(*begun(texts, own), engine_for(1)), (RULES[name](),), SolverSettings(1e-9, 4000)).run(
            gamma
        )
        for texts, own in ((VOTED, np.array(weights, dtype=float)), (repeated, None))
    ]
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-6, abs=1e-6)
    one, other = (
        np.concatenate([np.ravel(a) for a in vars(f.statistics).values() if isinstance(a, np.ndarray)]) for f in found
    )
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_without_constraints_alpha_does_not_matter(alpha):
    histories = []
    for value in (1.0, alpha):
        model, batch = begun(VOTED)
        learner = UEM(model, alpha=value, start="model", max_iter=3, tol=0.0)
        histories.append(learner.train(Training(model, batch, engine_for(1))).history_.objective)
    np.testing.assert_allclose(histories[0], histories[1], rtol=1e-9)


@pytest.mark.parametrize("what", ["nothing", "another vote", "other words", "another prior"])
def test_a_run_over_other_votes_is_not_gone_on_with(what, tmp_path):
    def fit(texts: list[Any], rounds: int, **settings: Any) -> UEM:
        model = model_of(**settings)
        learner = UEM(
            model, [RULES["sentence"]()], start="uniform", max_iter=rounds, tol=0.0, checkpoint=tmp_path / "run",
            checkpoint_every=1,
        )  # fmt: skip
        return learner.fit([voted_of(one) for one in texts], resume=rounds > 2)

    fit(VOTED, 2)
    votes = {**VOTED[0], "spans": {"f": [[2, 3, "DRUG"]], "g": []}}
    words = {**VOTED[0], "tokens": ["take", "ibuprofen", "now"]}
    texts = {"another vote": [votes, *VOTED[1:]], "other words": [words, *VOTED[1:]]}.get(what, VOTED)
    settings = {"prior": 1.7} if what == "another prior" else {}
    if what == "nothing":
        assert len(fit(texts, 3).history_) == 3
    else:
        with pytest.raises(ModelFileError, match="was written by a run with different"):
            fit(texts, 3, **settings)
