"""Training in the background: the commands that are shown are run, and models are kept with what they predict."""

from __future__ import annotations

import json
import time

import pytest

from tests.hostile.command import run

LABELS = {0: ("NAME", "NAME", "YEAR"), 2: ("NAME", "O", "YEAR"), 3: ("NAME", "NAME", "YEAR")}


def trained(studio, **settings):
    studio.post("train", **settings)
    for _ in range(3000):
        found = studio.get("training")["run"]
        if found["state"] != "running":
            return found
        time.sleep(0.05)
    raise AssertionError(found)


@pytest.fixture
def labelled(studio):
    for number, labels in LABELS.items():
        studio.label(number, *labels)
    return studio


@pytest.mark.slow
def test_programs_in_the_folder_are_not_run(labelled, folder):
    for name in ("json.py", "trellis.py", "numpy.py", "sitecustomize.py"):
        (folder / name).write_text("import pathlib\npathlib.Path('owned').write_text('x')\nraise SystemExit(1)\n")
    assert trained(labelled, model_kind="hmm", rounds=0)["state"] == "done"
    assert not (folder / "owned").exists()


@pytest.mark.slow
def test_a_model_is_trained_and_shown_with_what_has_changed(labelled, folder, monkeypatch):
    studio = labelled
    (folder / "dev.tsv").write_text("Al\tNAME\n2001\tYEAR\n")
    first = trained(studio, model_kind="hmm", rounds=1, folds=2)
    assert first["state"] == "done", first["said"]
    row = studio.row(1)
    assert row["labels"] is None
    assert [field[0] for field in row["predicted"]][:1] == ["NAME"]
    assert 0.0 <= row["predicted"][0][3] <= 1.0
    about = json.loads((folder / "models" / "1.json").read_text())
    assert about["settings"]["model_kind"] == "hmm"
    assert about["scores"]["dev"]["n_tokens"] == 2
    assert about["scores"]["cv"]["n_tokens"] == 9
    assert about["labelled"] == 3
    assert not list((folder / "models").glob("*.folds"))

    studio.label(1, "NAME", "NAME", "O", "YEAR")
    studio.label(6, "O", "O", "O")
    second = trained(studio, model_kind="hmm", rounds=1)
    assert second["state"] == "done", second["said"]
    state = studio.get("state")
    assert state["model"] == "2"
    models = studio.get("training")["models"]
    assert [(one["name"], one["labelled"]) for one in models] == [("1", 3), ("2", 5)]
    results = studio.get("results")
    assert results["before"] == "1"
    assert set(results["changes"]) <= {"NAME", "YEAR"}
    changed = {one["id"] for one in studio.get("texts", filter="changed")["texts"]}
    assert len(changed) == state["counts"]["changed"]
    errors = studio.get("errors")["confusions"]
    disagreeing = studio.get("texts", filter="disagree")["total"]
    assert bool(errors) == bool(disagreeing)
    studio.post("use", model="1")
    assert studio.get("state")["model"] == "1"
    assert studio.get("next")["id"]

    monkeypatch.chdir(folder)
    assert run("extract", "errors", "models/1.cv-gold.jsonl", "models/1.cv.jsonl") == 0
    for line in [one for one in second["commands"] if "predict" in one]:  # what is shown can be typed
        before = (folder / "models" / "2.jsonl").read_bytes()
        assert run(*line.split()[1:], "--force") == 0
        assert (folder / "models" / "2.jsonl").read_bytes() == before


def test_a_failed_training_says_why_and_leaves_nothing(labelled, folder):
    studio = labelled
    rules = studio.get("rules")
    odd = rules["text"] + '[[rule]]\nname = "odd"\nif_wrod = "x"\nthen_label = "NAME"\n'
    studio.post("rules", text=odd, version=rules["version"])
    found = trained(studio)
    assert found["state"] == "failed"
    assert any("unknown key 'if_wrod'" in line for line in found["said"])
    assert not list((folder / "models").iterdir())


def test_a_training_is_cancelled(labelled, folder):
    studio = labelled
    studio.post("train", rounds=1000)
    assert "training is already running" in studio.post("train", 422)["error"]
    time.sleep(0.3)
    studio.post("cancel")
    assert studio.get("training")["run"]["state"] == "cancelled"
    assert not list((folder / "models").iterdir())
    assert studio.get("texts")["total"] == 7


def test_what_cannot_be_trained_is_told(studio, tmp_path):
    assert "folds need as many fully labelled texts" in studio.post("train", 422, folds=5)["error"]
