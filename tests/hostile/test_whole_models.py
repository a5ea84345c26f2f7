"""A model file holds everything: what it was trained with may be gone, and loading it opens nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.hostile.command import RULES, run, start, train
from tests.relate import sample
from trellis import load_model
from trellis.apps.extract.extractor import Extractor
from trellis.apps.relate.relater import Relater
from trellis.data.archive import read_archive, write_archive
from trellis.errors import ModelFileError

pytestmark = pytest.mark.slow

DICTIONARY = RULES + '[[rule]]\nname = "names"\ndictionary = "{}"\nstrength = "hard"\n'


@pytest.fixture(params=["beside", "above", "elsewhere"])
def trained(request, tmp_path):
    folder = tmp_path / "rules"
    folder.mkdir()
    place = {"beside": folder, "above": tmp_path, "elsewhere": tmp_path / "other"}[request.param]
    place.mkdir(exist_ok=True)
    (place / "names").write_text("Cy\tNAME\nFox\tNAME YEAR\n")
    name = {"beside": "names", "above": "../names", "elsewhere": str(place / "names")}[request.param]
    model = train(folder, DICTIONARY.format(name))
    return model, folder, place / "names"


def test_a_model_is_loaded_after_its_dictionaries_are_gone(trained, tmp_path, capfd):
    model, folder, dictionary = trained
    assert run("extract", "predict", "-m", model, folder / "text.txt", "-o", folder / "before.tsv", "--threads", 1) == 0
    dictionary.unlink()
    (folder / "rules.toml").unlink()
    os.rename(model, tmp_path / "moved")
    assert (
        run(
            "extract",
            "predict",
            "-m",
            tmp_path / "moved",
            folder / "text.txt",
            "-o",
            folder / "after.tsv",
            "--threads",
            1,
        )
        == 0
    )
    assert (folder / "after.tsv").read_text() == (folder / "before.tsv").read_text()


def test_explain_trains_anew_without_the_dictionaries(trained, capfd):
    model, folder, dictionary = trained
    few = folder / "few.tsv"
    dictionary.write_text("Cy\tOTHER\n")  # what the model was trained with counts, not what is there now
    assert run("extract", "explain", "-m", model, few, "-l", few, "--threads", 1) == 0
    assert "Trained again on labels only" in capfd.readouterr().out


def test_a_loaded_extractor_is_saved_to_the_same_bytes(trained, tmp_path):
    Extractor.load(trained[0]).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == trained[0].read_bytes()


def forged(model, target, **changes):
    archive = read_archive(model)
    write_archive(target, {**archive.header, **changes}, archive.arrays)
    return target


@pytest.mark.parametrize("name", ["/dev/zero", "secret", "no such file", "\0"])
def test_rules_of_a_stranger_open_no_file(name, tmp_path):
    model = train(tmp_path)
    (tmp_path / "secret").write_text("password\n")
    learned = read_archive(model).header["learned"]
    named = name if name.startswith("/") or "\0" in name else str(tmp_path / name)
    rules = DICTIONARY.format(named.replace("\0", "\\u0000"))
    evil = forged(model, tmp_path / "evil", learned={**learned, "rules": rules})
    with pytest.raises(ModelFileError, match="the rules refer to the file") as refusal:
        Extractor.load(evil)
    assert "password" not in str(refusal.value)
    ended = start("extract", "predict", "-m", evil, tmp_path / "text.txt")
    assert (ended.returncode, b"Traceback" in ended.stderr) == (2, False)


@pytest.mark.parametrize("name", ["/dev/zero", "secret", "no such file"])
def test_relation_rules_of_a_stranger_open_no_file(name, tmp_path):
    Relater(sample.RULES, min_count=1, max_iter=1, finder=False).fit(sample.sentences(6)).save(tmp_path / "model")
    (tmp_path / "secret").write_text("password\n")
    settings = read_archive(tmp_path / "model").header["configuration"]
    named = f'\n[[rule]]\nname = "names"\ndictionary = "{tmp_path / name}"\n'
    evil = forged(tmp_path / "model", tmp_path / "evil", configuration={**settings, "rules": sample.RULES + named})
    with pytest.raises(ModelFileError, match="the rules refer to the file") as refusal:
        load_model(evil)
    assert "password" not in str(refusal.value)


OPENED = """
import sys
opened = []
sys.addaudithook(lambda event, values: opened.append(str(values[0])) if event == "open" else None)
from trellis.apps.extract.extractor import Extractor
Extractor.load(sys.argv[1])  # imports what it needs
opened.clear()
Extractor.load(sys.argv[1])
print("\\n".join(opened))
"""


def test_loading_opens_the_model_file_and_no_other(trained):
    model, _, _ = trained
    ended = subprocess.run([sys.executable, "-c", OPENED, str(model)], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [str(model)]
