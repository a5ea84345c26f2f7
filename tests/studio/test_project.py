"""The files of a project: what the studio writes, commands read, and what is changed outside is noticed."""

from __future__ import annotations

import json
import os

import pytest

from tests.hostile.command import run
from tests.studio.conftest import RULES, TEXTS
from trellis.data.text_files import read_labelled
from trellis.errors import DataError
from trellis.studio.models import models_in
from trellis.studio.project import Project, StaleError, digest


@pytest.fixture
def project(folder):
    return Project(folder)


def label(project, number, *labels):
    key = project.ids[number]
    return project.label(key, labels, project.version_of(key))


def test_labels_are_read_by_the_commands(project, folder):
    label(project, 0, "NAME", "NAME", "YEAR")
    label(project, 2, "NAME", None, "YEAR")
    read = read_labelled(folder / "labels.jsonl")
    assert [(t.text, t.labels) for t in read] == [
        ("Cy Fox 1987", ("NAME", "NAME", "YEAR")),
        ("Ann , 1999", ("NAME", None, "YEAR")),
    ]
    assert run("extract", "check", folder / "rules.toml", folder / "labels.jsonl", "-q") == 0
    assert Project(folder).labels == project.labels


def test_labels_that_are_taken_away_leave_no_line(project, folder):
    label(project, 0, "NAME", "NAME", "YEAR")
    label(project, 0, None, None, None)
    assert (folder / "labels.jsonl").read_text() == ""
    assert Project(folder).labels == {}


def test_labels_by_hand_are_taken_over(folder):
    (folder / "few.tsv").write_text("Cy\tNAME\nFox\tNAME\n1987\tYEAR\n\nAl\tNAME\n")
    project = Project(folder)
    assert [one.labels for one in project.labels.values()] == [("NAME", "NAME", "YEAR"), ("NAME",)]
    assert len(project.ids) == len(TEXTS) + 1  # the second one is not in text.txt
    assert (folder / "few.tsv").exists()


def test_changes_outside_are_noticed_and_kept(project, folder):
    label(project, 0, "NAME", "NAME", "YEAR")
    line = {"text": "Bob Ray 2001", "tokens": ["Bob", "Ray", "2001"], "labels": ["NAME", "NAME", "YEAR"]}
    with open(folder / "labels.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    label(project, 2, "NAME", "O", "YEAR")
    assert [t.text for t in read_labelled(folder / "labels.jsonl")] == ["Cy Fox 1987", "Bob Ray 2001", "Ann , 1999"]
    with open(folder / "text.txt", "a") as file:
        file.write("Gil 2022\n")
    project.refresh()
    assert project.texts[-1] == "Gil 2022"


def test_a_text_that_was_labelled_outside_is_not_overwritten(project, folder):
    key = project.ids[0]
    seen = project.version_of(key)
    Project(folder).label(key, ("NAME", "O", "YEAR"), "")
    with pytest.raises(StaleError, match="changed elsewhere"):
        project.label(key, ("NAME", "NAME", "YEAR"), seen)
    assert project.labels[key].labels == ("NAME", "O", "YEAR")


@pytest.mark.parametrize("broken", ["{", '{"text": 1}', "[]", '{"tokens": ["a"], "labels": [4]}', '{"tokens": []'])
def test_a_file_that_cannot_be_read_is_not_written_over(project, folder, broken):
    label(project, 0, "NAME", "NAME", "YEAR")
    (folder / "labels.jsonl").write_text(broken + "\n")
    with pytest.raises(StaleError, match=r"labels.jsonl cannot be read, and is not written over"):
        label(project, 2, "NAME", "O", "YEAR")
    assert (folder / "labels.jsonl").read_text() == broken + "\n"
    assert "labels.jsonl" in project.faults
    (folder / "labels.jsonl").write_text("")
    label(project, 2, "NAME", "O", "YEAR")
    assert project.faults == {}


def test_labels_that_nobody_declared_or_of_another_length_are_refused(project):
    with pytest.raises(DataError, match="there is no label 'PLACE'"):
        label(project, 0, "PLACE", None, None)
    with pytest.raises(DataError, match="expected 3 labels"):
        label(project, 0, "NAME")
    with pytest.raises(DataError, match="no such text"):
        project.label("nothing", ("NAME",), "")


def test_a_folder_without_files_is_an_empty_project(tmp_path):
    project = Project(tmp_path)
    assert (project.texts, project.label_names, project.faults) == ([], [], {})
    assert project.add_texts("Ann 1999\n\n  \r\nAnn 1999\nBob") == 2
    assert project.add_texts("Bob\nCy\n") == 1
    assert (tmp_path / "text.txt").read_text() == "Ann 1999\nBob\nCy\n"


def test_rules_keep_their_comments_and_are_not_overwritten_by_an_older_tab(project, folder):
    version = digest(project.rules)
    project.write_rules(RULES + "# mine", version)
    assert (folder / "rules.toml").read_text() == RULES + "# mine\n"
    with pytest.raises(StaleError, match=r"rules.toml was changed elsewhere"):
        project.write_rules("", version)
    (folder / "rules.toml").write_text(RULES)
    with pytest.raises(StaleError):
        project.write_rules("", digest(RULES + "# mine\n"))
    assert (folder / "rules.toml").read_text() == RULES


def test_rules_that_are_no_toml_are_told_and_labels_stay(project, folder):
    project.write_rules("labels = [", digest(project.rules))
    assert "not TOML" in project.faults["rules.toml"]
    assert project.label_names == ["NAME", "YEAR", "O"]


def test_the_tokens_are_those_of_the_rules(project):
    project.write_rules('tokens = "whitespace"\n' + RULES, digest(project.rules))
    project.add_texts("Ann, 1999")
    assert project.text(project.ids[-1]).tokens == ("Ann,", "1999")


def test_nothing_is_left_beside_the_files(project, folder):
    label(project, 0, "NAME", "NAME", "YEAR")
    assert sorted(os.listdir(folder)) == ["labels.jsonl", "rules.toml", "text.txt"]


@pytest.mark.parametrize("name", ["text.txt", "labels.jsonl", "rules.toml"])
def test_a_file_that_is_a_link_out_of_the_folder_is_neither_read_nor_written(folder, name):
    other = folder.parent / "other"
    other.mkdir()
    content = {
        "text.txt": "a secret text\n",
        "labels.jsonl": '{"text": "a secret text", "tokens": ["a", "secret", "text"], "labels": ["O", "NAME", "O"]}\n',
        "rules.toml": 'labels = ["SECRET"]\n',
    }[name]
    (other / name).write_text(content)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(other / name)
    project = Project(folder)
    assert "a secret text" not in project.texts
    assert "SECRET" not in project.label_names
    assert project.faults == {
        name: "it is a link to a place outside this folder, which is not read: replace the link by a copy"
    }
    write = {
        "text.txt": lambda: project.add_texts("new"),
        "labels.jsonl": lambda: label(project, 0, "NAME", "NAME", "YEAR"),
        "rules.toml": lambda: project.write_rules("", digest(project.rules)),
    }[name]
    with pytest.raises(StaleError, match=f"{name} cannot be"):
        write()
    assert (other / name).read_text() == content
    (folder / name).unlink()
    (folder / name).write_text(content)
    project.refresh()
    assert project.faults == {}


def test_a_link_that_appears_later_is_not_read(project, folder):
    (folder.parent / "secret.txt").write_text("a secret text\n")
    (folder / "text.txt").unlink()
    (folder / "text.txt").symlink_to(folder.parent / "secret.txt")
    project.refresh()
    assert project.texts == TEXTS  # as they were
    assert list(project.faults) == ["text.txt"]


def test_links_within_the_folder_are_followed(folder):
    (folder / "data").mkdir()
    (folder / "text.txt").rename(folder / "data" / "text.txt")
    (folder / "text.txt").symlink_to(folder / "data" / "text.txt")
    (folder.parent / "way").symlink_to(folder)
    for way in (folder, folder.parent / "way"):
        project = Project(way)
        assert project.texts == TEXTS
        assert project.faults == {}


@pytest.mark.parametrize("name", ["few.tsv", "dev.jsonl", "dev.tsv", "models"])
def test_other_links_out_of_the_folder_are_told(folder, name):
    other = folder.parent / "other"
    other.mkdir()
    (other / "1.json").write_text("{}")
    (other / "1.trellis").write_text("")
    (other / "few.tsv").write_text("secret\tNAME\n")
    (folder / name).symlink_to(other if name == "models" else other / "few.tsv")
    project = Project(folder)
    assert list(project.faults) == [name]
    assert project.dev is None
    assert project.labels == {}
    assert models_in(folder / "models") == []


@pytest.mark.parametrize("file", ["1.json", "1.trellis", "1.jsonl", "1.rules.jsonl"])
def test_a_model_with_a_file_outside_the_folder_is_left_out(folder, file):
    (folder / "models").mkdir()
    for name in ("1.json", "1.trellis", "1.jsonl", "1.rules.jsonl"):
        (folder / "models" / name).write_text("{}")
    assert len(models_in(folder / "models")) == 1
    (folder / "models" / file).rename(folder.parent / file)
    (folder / "models" / file).symlink_to(folder.parent / file)
    assert models_in(folder / "models") == []
