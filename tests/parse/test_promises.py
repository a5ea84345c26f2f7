"""What learning promises for taggers holds for trees: weights are repetitions, α matters to constraints alone, and
only the same content is gone on with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis.constraints import arcs, column, few_labels_per, root
from trellis.engine import engine_for
from trellis.errors import ModelFileError, TrellisError
from trellis.learn import UEM
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.training import Training
from trellis.models import DMV, ArcParser, Model

from .toy import pairs, treebank

TEXT, HEADS = pairs(treebank(4, seed=3))
GIVEN = [[(h, c) for c, h in enumerate(own, start=1)][:2] for own in HEADS]
tag = column("upos")
RULES: dict[str, Any] = {
    "corpus share": lambda: arcs(head=tag == "NOUN", child=tag == "DET", share=True).per("corpus") >= 0.7,
    "corpus count": lambda: arcs(head=root, child=tag == "VERB").per("corpus") >= 5.5,
    "corpus count at most": lambda: (arcs(direction="left").per("corpus") <= 9.0).penalty(1.5),
    "every key": lambda: (arcs(direction="right").per(tag) <= 2.0).slack(0.3),
    "squared": lambda: (arcs(distance=1).per("corpus") == 14.0).penalty(1.0, "squared"),
    "sentence": lambda: arcs(head=tag == "VERB", child=tag == "NOUN") >= 0.8,
    "given": lambda: arcs(GIVEN, share=True) >= 0.8,
}


def model_of(kind: type[Any], **settings: Any) -> Any:
    return kind(
        **({"bits": 8, "min_count": 1, "solver": "lbfgs", "max_iter": 5} if kind is ArcParser else {}), **settings
    )


def step_of(kind: type[Any], rule: Any, weights: list[float], numbers: list[int]) -> tuple[Model, ProjectedStep]:
    model = model_of(kind)
    model.encode(TEXT, fit=True)
    batch = model.encode([TEXT[i] for i in numbers], weights=np.array(weights, dtype=float))
    model.randomize(np.random.default_rng(0), 1.0)
    return model, ProjectedStep(Training(model, batch, engine_for(1)), (rule,), SolverSettings(1e-9, 4000))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DMV, ArcParser])
@pytest.mark.parametrize(
    "gamma, name", [(g, name) for g in (0.0, 0.5, 1.0) for name in RULES if g or name != "squared"]
)
def test_a_weight_of_n_is_the_tree_n_times(kind, gamma, name, monkeypatch):
    weights = [2, 1, 3, 1]
    repeated = [i for i, w in enumerate(weights) for _ in range(w)]
    _, weighted = step_of(kind, RULES[name](), weights, [0, 1, 2, 3])
    monkeypatch.setitem(globals(), "GIVEN", [GIVEN[i] for i in repeated])
    _, plain = step_of(kind, RULES[name](), [1.0] * 7, repeated)
    found = [step.run(gamma) for step in (weighted, plain)]
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-6, abs=1e-6)
    if gamma > 0:  # else several q may be best
        one, other = (np.concatenate([np.ravel(a) for a in _arrays(f.statistics)]) for f in found)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)


def _arrays(statistics: Any) -> list[Any]:
    return [value for value in vars(statistics).values() if isinstance(value, np.ndarray | float)]


@pytest.mark.parametrize("kind", [DMV, ArcParser])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_without_constraints_alpha_does_not_matter(kind, alpha):
    partly = [HEADS[0], None, [None, *HEADS[2][1:]], None]
    histories = [
        UEM(model_of(kind), alpha=value, start="random", random_state=1, max_iter=3, tol=0.0)
        .fit(TEXT, partly)
        .history_.objective
        for value in (1.0, alpha)
    ]
    np.testing.assert_allclose(histories[0], histories[1], rtol=1e-9)


OTHERS: dict[str, Any] = {
    "another bound": {"rules": [arcs(head=root, child=tag == "VERB") >= 0.8]},
    "another rule": {"rules": [arcs(head=root, child=tag == "NOUN") >= 0.7]},
    "a rule less": {"rules": []},
    "another gamma": {"gamma": 0.5},
    "other weights": {"weights": [2.0, 1.0, 1.0, 1.0]},
    "other words": {"text": [[("x", t) for _, t in TEXT[0]], *TEXT[1:]]},
    "other tags": {"text": [[(w, "ADJ") for w, _ in TEXT[0]], *TEXT[1:]]},
    "other heads": {"heads": [list(range(len(TEXT[0]))), None, None, None]},
    "another model": {"settings": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DMV, ArcParser])
@pytest.mark.parametrize("what", [*OTHERS, "nothing"])
def test_any_other_content_is_refused(kind, what, tmp_path):
    def fit(change: dict[str, Any], rounds: int) -> UEM:
        other = {"smoothing": 0.1} if kind is DMV else {"l2": 0.3}
        learner = UEM(
            model_of(kind, **(other if "settings" in change else {})),
            change.get("rules", [arcs(head=root, child=tag == "VERB") >= 0.7]), gamma=change.get("gamma", 1.0),
            start="random", random_state=0, max_iter=rounds, tol=0.0, checkpoint=tmp_path / "run", checkpoint_every=1,
        )  # fmt: skip
        heads = change.get("heads", [HEADS[0], None, None, None])
        return learner.fit(change.get("text", TEXT), heads, sample_weight=change.get("weights"), resume=rounds > 2)

    fit({}, 2)
    if what == "nothing":
        assert len(fit({}, 3).history_) == 3
    else:
        with pytest.raises(ModelFileError, match="was written by a run with different"):
            fit(OTHERS[what], 3)


def test_a_rule_about_labels_is_refused_by_trees():
    from trellis.constraints import word

    with pytest.raises(TrellisError, match="trees have none|labels"):
        UEM(DMV(), [few_labels_per(word, strength=1.0)], max_iter=1).fit(TEXT)
