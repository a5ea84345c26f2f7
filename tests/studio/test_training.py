"""Training in the background: the commands that are shown are run, and models are kept with what they predict."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from tests.hostile.command import run
from trellis.constraints import read_rules
from trellis.constraints.rules import files_beside_rules_only
from trellis.errors import DataError
from trellis.studio import analysis

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
    (folder / "dev.tsv").write_text("Al\tNOWHERE\n")
    found = trained(studio)
    assert found["state"] == "failed"
    assert any("NOWHERE" in line for line in found["said"])
    assert not list((folder / "models").iterdir())


def with_rule(studio, rule):
    rules = studio.get("rules")
    return studio.post("rules", text=f"{rules['text']}\n[[rule]]\n{rule}\n", version=rules["version"])


def test_rules_that_cannot_be_read_are_refused_before_a_training(labelled, folder):
    with_rule(labelled, 'name = "odd"\nif_wrod = "x"\nthen_label = "NAME"')
    assert "unknown key 'if_wrod'" in labelled.post("train", 422)["error"]
    assert labelled.get("training")["run"] is None
    assert not (folder / "models").exists()


# files outside the folder

SECRET = "the-secret\tNAME\n"
WAYS = ("absolute", "../secret.tsv", "inside/../../secret.tsv", "link.tsv", "linked/secret.tsv")
KEYS = {
    "dictionary": '[[rule]]\ndictionary = "{}"\n',
    "targets": '[[rule]]\ntargets = "{}"\npenalty = 2\n',
    "features": '[features]\nnames = {{ file = "{}" }}\n',
}
"""Every key with which rules name a file."""


@pytest.fixture
def outside(folder):
    """A file outside the folder, and links to it and to its folder."""
    secret = folder.parent / "secret.tsv"
    secret.write_text(SECRET)
    (folder / "inside").mkdir()
    (folder / "link.tsv").symlink_to(secret)
    (folder / "linked").symlink_to(folder.parent)
    return secret


@pytest.mark.parametrize("way", [*WAYS, "/etc/passwd"])
@pytest.mark.parametrize("key", KEYS)
def test_rules_in_the_studio_read_no_file_outside_the_folder(folder, outside, way, key):
    name = str(outside) if way == "absolute" else way
    rules = 'labels = ["NAME", "YEAR", "O"]\n' + KEYS[key].format(name)
    found = analysis.analyse(rules, str(folder), [])
    assert f"the rules name the file {name!r}, which is outside their folder" in found.error
    assert "copy it into the folder" in found.error
    assert found.error == analysis.fault_of(rules, str(folder))


@pytest.mark.parametrize("name", ["names.tsv", "inside/../names.tsv", "inside/names.tsv", "own.tsv", "absolute"])
def test_rules_in_the_studio_read_files_of_the_folder(folder, outside, name):
    (folder / "names.tsv").write_text("Ann\tNAME\n")
    (folder / "inside" / "names.tsv").write_text("Ann\tNAME\n")
    (folder / "own.tsv").symlink_to(folder / "names.tsv")
    name = str(folder / "names.tsv") if name == "absolute" else name
    rules = f'labels = ["NAME"]\n[[rule]]\ndictionary = "{name}"\n[features]\nnames = {{ file = "{name}" }}\n'
    assert analysis.read(rules, str(folder)).files == {name: "Ann\tNAME"}


@pytest.mark.parametrize("name", ["", "\\u0000", "loop.tsv", "x/" * 5000])
def test_odd_names_of_files_in_rules_are_told(folder, name):
    (folder / "loop.tsv").symlink_to("loop.tsv")
    rules = f'labels = ["NAME"]\n[[rule]]\ndictionary = "{name}"\n'
    assert analysis.fault_of(rules, str(folder))


def test_elsewhere_rules_may_name_files_anywhere(folder, outside):
    (folder / "rules.toml").write_text('labels = ["NAME"]\n[[rule]]\ndictionary = "../secret.tsv"\n')
    assert len(read_rules(folder / "rules.toml")) == 1
    with files_beside_rules_only(), pytest.raises(DataError, match="outside their folder"):
        read_rules(folder / "rules.toml")
    assert len(read_rules(folder / "rules.toml")) == 1


def test_a_request_reads_no_file_outside_the_folder(labelled, folder, outside):
    with_rule(labelled, 'dictionary = "link.tsv"')
    said = "the rules name the file 'link.tsv', which is outside their folder"
    assert said in labelled.post("rules/check", text=labelled.get("rules")["text"])["error"]
    assert said in labelled.post("train", 422)["error"]
    assert not (folder / "models").exists()


def test_commands_of_a_training_read_no_file_outside_the_folder(folder, outside):
    """Whatever has become of the rules since the training began."""
    (folder / "rules.toml").write_text('labels = ["NAME"]\n[[rule]]\ndictionary = "../secret.tsv"\n')
    words = ["extract", "train", "rules.toml", "-u", "text.txt", "--save", "1.trellis"]
    command = [sys.executable, "-P", "-m", "trellis.studio.runner"]
    ran = subprocess.run(command, input=json.dumps(words) + "\n", cwd=folder, capture_output=True, text=True)
    assert "the rules name the file '../secret.tsv', which is outside their folder" in " ".join(ran.stderr.split())
    assert not (folder / "1.trellis").exists()


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
