"""Models by themselves train in the one loop: history, progress, interruption, checkpoints, a development set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis.errors import ConvergenceWarning, DataError, ModelFileError
from trellis.loop import Loop
from trellis.models import CRF, ArcParser, MaxEnt, SemiCRF

pytestmark = pytest.mark.filterwarnings("ignore:L-BFGS stopped after")

WORDS = {"D": ["the", "a"], "N": ["dog", "cat", "man", "fish"], "V": ["sees", "barks", "fish", "man"]}
RNG = np.random.default_rng(3)
TAGS = [["D", "N", "V"] + ["D", "N"] * int(RNG.integers(0, 2)) for _ in range(40)]
TEXT = [[WORDS[tag][int(RNG.integers(len(WORDS[tag])))] for tag in tags] for tags in TAGS]
ROWS = RNG.normal(size=(60, 4))
CLASSES = ["high" if row[0] + 0.5 * row[1] > 0 else "low" for row in ROWS]
TREES = [list(zip(words, tags, strict=True)) for words, tags in zip(TEXT, TAGS, strict=True)]
HEADS = [[2, 3, 0, 5, 3][: len(tags)] for tags in TAGS]


def parser(**settings: Any) -> ArcParser:
    return ArcParser(bits=10, min_count=1, max_iter=6, **settings)


KINDS: dict[str, Any] = {
    "CRF": (lambda **s: CRF(max_iter=6, **s), TEXT, TAGS),
    "CRF adagrad": (lambda **s: CRF(solver="adagrad", max_iter=6, batch_size=8, random_state=0, **s), TEXT, TAGS),
    "SemiCRF": (lambda **s: SemiCRF(max_iter=6, **s), TEXT, TAGS),
    "MaxEnt": (lambda **s: MaxEnt(max_iter=6, tol=0.0, **s), ROWS, CLASSES),
    "MaxEnt adagrad": (lambda **s: MaxEnt(solver="adagrad", max_iter=6, random_state=0, **s), ROWS, CLASSES),
    "ArcParser margin": (lambda **s: parser(**s), TREES, HEADS),
    "ArcParser adagrad": (lambda **s: parser(solver="adagrad", **s), TREES, HEADS),
    "ArcParser lbfgs": (lambda **s: parser(solver="lbfgs", **s), TREES, HEADS),
    "ArcParser not averaged": (lambda **s: parser(average=False, **s), TREES, HEADS),
}


def trained(kind: str, *, resume: bool = False, dev: Any = None, **settings: Any) -> Any:
    make, X, y = KINDS[kind]
    return make(**settings).fit(X, y, dev=dev, resume=resume)


@pytest.mark.parametrize("kind", KINDS)
def test_each_round_is_in_the_history(kind: str) -> None:
    model = trained(kind)
    assert [entry.number for entry in model.history_] == list(range(6))
    assert np.all(np.isfinite(model.history_.objective))
    assert model.history_.objective[-1] > model.history_.objective[0]
    if model.solver == "lbfgs":
        assert np.all(np.diff(model.history_.objective) >= 0.0)
        assert model.history_.objective[-1] == -model.objective_


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_in_a_round_and_resumed_gives_the_same_bits(kind: str, tmp_path: Any, monkeypatch: Any) -> None:
    whole, path = trained(kind), tmp_path / "run"
    update, rounds = Loop._update, []

    def interrupted(self: Loop, *arguments: Any) -> float:
        rounds.append(1)
        if len(rounds) == 4:  # after the work of the round, before it counts
            raise KeyboardInterrupt
        return update(self, *arguments)

    monkeypatch.setattr(Loop, "_update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(kind, checkpoint=path, checkpoint_every=100)
    monkeypatch.setattr(Loop, "_update", update)
    resumed = trained(kind, checkpoint=path, resume=True)
    assert resumed.weights_.tobytes() == whole.weights_.tobytes()
    assert resumed.history_.objective == whole.history_.objective


def test_a_checkpoint_of_other_data_or_settings_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "run"
    trained("CRF", checkpoint=path)
    with pytest.raises(ModelFileError, match="different data"):
        CRF(max_iter=6, checkpoint=path).fit(TEXT[1:], TAGS[1:], resume=True)
    with pytest.raises(ModelFileError, match="different l2"):
        trained("CRF", checkpoint=path, l2=2.0, resume=True)
    with pytest.raises(DataError, match="checkpoint=path"):
        trained("CRF", resume=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_round_on_a_development_set_is_kept(kind: str) -> None:
    X, y = KINDS[kind][1:]
    model = trained(kind, dev=(X[:10], y[:10]))
    scores = [entry.dev for entry in model.history_]
    assert len(scores) == 6
    assert model.score(X[:10], y[:10]) == max(scores)


def test_patience_stops_and_needs_a_development_set() -> None:
    model = trained("CRF", dev=(TEXT, TAGS), patience=2)
    best = int(np.argmax([entry.dev for entry in model.history_]))
    assert len(model.history_) == min(best + 3, 6)
    with pytest.raises(DataError, match="dev="):
        trained("CRF", patience=2)


def test_progress_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    trained("ArcParser margin", verbose=True)
    assert "learning arcs: 6/6 rounds  objective" in capsys.readouterr().err
    trained("ArcParser margin")
    assert capsys.readouterr().err == ""


def test_settings_of_a_run_are_not_in_the_file(tmp_path: Any) -> None:
    trained("CRF").save(tmp_path / "plain")
    trained("CRF", checkpoint=tmp_path / "run", checkpoint_every=2).save(tmp_path / "other")
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.filterwarnings("default:L-BFGS stopped after")
def test_a_run_that_did_not_converge_is_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match="L-BFGS stopped after 2 rounds"):
        CRF(max_iter=2).fit(TEXT, TAGS)
