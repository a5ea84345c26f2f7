"""What is written where: nothing is lost, and what cannot be written is told before the work."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.cli.tree import COMMANDS, flags
from tests.hostile.command import run, train
from trellis.errors import DataError

BEGINS = {
    "align": "trellis.apps.align.aligner.Aligner._train",
    "extract check": "trellis.apps.extract.check.check_rules",
    "extract errors": "trellis.apps.extract.field_errors.confusions",
    "extract train": "trellis.apps.extract.extractor.Extractor.fit",
    "align map": "trellis.apps.align.mapping.corresponding",
    "align phrases": "trellis.apps.align.phrases.PhraseTable.add",
    "extract predict": "trellis.apps.extract.relaxed.predict_relaxed",
    "extract explain": "trellis.apps.extract.explain.explain",
    "induce": "trellis.apps.induce.inducer.Inducer.fit",
    "aggregate": "trellis.apps.aggregate.aggregator.Aggregator.fit",
    "parse train": "trellis.apps.parse.parser.Parser.fit",
    "tag train": "trellis.apps.parse.tagger.Tagger.fit",
    "tag predict": "trellis.models.load_model",
    "parse predict": "trellis.models.load_model",
    "match train": "trellis.apps.match.matcher.Matcher.fit",
    "match predict": "trellis.apps.match.matcher.Matcher.load",
    "induce-trees": "trellis.apps.parse.tree_inducer.TreeInducer.fit",
    "transfer": "trellis.models.load_model",
    "relate train": "trellis.apps.relate.relater.Relater.fit",
    "relate predict": "trellis.apps.relate.relater.Relater.load",
    "relate explain": "trellis.apps.relate.relater.Relater.load",
    "report": "trellis.models.load_model",
    "evaluate": "trellis.data.text_files.read_labelled",
    "extract suggest": "trellis.apps.extract.extractor.Extractor.load",
    "extract convert": "trellis.data.text_files.read_labelled",
    "extract tokens": "trellis.data.text_files.stream_texts",
    "extract propose": "trellis.data.text_files.read_texts",
    "info": "trellis.engine.threads.usable_cores",
}
"""Command -> where its work starts."""
REST = {
    "align": ["-s", "s", "-t", "t"],
    "align map": ["-s", "s", "--new-source", "s", "--links", "links"],
    "align phrases": ["-s", "s", "-t", "t", "--links", "links"],
    "extract check": ["rules.toml", "few.tsv"],
    "extract errors": ["few.tsv", "other.tsv"],
    "extract train": ["rules.toml", "-l", "few.tsv", "-u", "text.txt"],
    "extract predict": ["-m", "m", "text.txt"],
    "extract explain": ["-m", "m", "few.tsv"],
    "induce": ["s", "-k", "2", "--method", "em", "--rounds", "2"],
    "aggregate": ["few.tsv"],
    "parse train": ["s"],
    "tag train": ["s"],
    "tag predict": ["s", "-m", "m"],
    "parse predict": ["s", "-m", "m"],
    "match train": ["pairs"],
    "match predict": ["pairs", "-m", "m"],
    "induce-trees": ["s"],
    "transfer": ["--source-parser", "m", "-s", "s", "-t", "t", "--parse", "s"],
    "relate train": ["rules.toml", "-l", "s"],
    "relate predict": ["s", "-m", "m"],
    "relate explain": ["s", "-m", "m"],
    "report": ["few.tsv", "-m", "m"],
    "evaluate": ["few.tsv", "few.tsv"],
    "extract suggest": ["-m", "m", "text.txt"],
    "extract convert": ["few.tsv"],
    "extract tokens": ["text.txt"],
    "extract propose": ["text.txt", "-l", "few.tsv", "--min-occurrences", "1"],
    "info": [],
}
WRITES = ("--output", "--save", "--history", "--probabilities", "--accuracies", "--forward-links", "--backward-links",
          "--lexicon", "--reordering", "--pair-scores", "--end-model")  # fmt: skip
OF_TREES = ("tag train", "tag predict", "parse train", "parse predict", "induce-trees", "transfer")
"""CoNLL-U in and out: tests/parse."""
OF_PAIRS = ("match train", "match predict")
"""Pairs in: tests/match."""
OF_GRAPHS = ("relate train", "relate predict", "relate explain")
"""JSON lines of their own: tests/relate."""
OUTPUTS = [(command, flag) for command in COMMANDS for flag in WRITES if flag in flags(command)]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    path = tmp_path_factory.mktemp("work")
    train(path)
    (path / "s").write_text("a b\nb a\n")
    (path / "other.tsv").write_text((path / "few.tsv").read_text().replace("NAME", "YEAR"))
    (path / "t").write_text("x y\ny x\n")
    (path / "pairs").write_text("ab\txy\nba\tyx\n")
    (path / "links").write_text("0-0 1-1\n0-0 1-1\n")
    return path


@pytest.fixture
def folder(work, tmp_path, monkeypatch):
    """A copy of the work, to be changed."""
    shutil.copytree(work, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


NEEDS = dict.fromkeys((*(c for c in COMMANDS if c.split()[-1] == "train"), "transfer"), ("--save",))


def line(command, flag, target):
    more = ["--save", "other"] if "--save" in NEEDS.get(command, ()) and flag != "--save" else []
    return [*command.split(), *REST[command], *more, flag, str(target)]


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_place_that_can_be_written_to_is_in_these_tests():
    files = {
        name
        for c in COMMANDS
        for name, f in flags(c).items()
        if f.takes_value and ("rite" in f.meaning or "output goes" in f.meaning)
    }
    assert files - {"--format"} <= set(WRITES)


@pytest.mark.parametrize("command, flag", OUTPUTS)
@pytest.mark.parametrize("wrong", ["missing", "folder", "read-only", "flag", "empty", "long", "below a file"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(command, flag, wrong, folder, monkeypatch, capfd):
    (folder / "old").write_text("0-0\n")
    (folder / "old").chmod(0o444)
    target, told = {
        "missing": ("no/such/x", "does not exist or cannot be written to"),
        "folder": (str(folder), "is a folder: name a file in it"),
        "read-only": ("old", "is read-only"),
        "flag": ("--quiet", "needs the name of a file, or - for standard output"),
        "empty": ("", "needs the name of a file, but it is empty"),
        "long": ("x" * 300, "the name is longer than"),
        "below a file": ("s/x", "does not exist or cannot be written to"),
    }[wrong]
    monkeypatch.setattr(BEGINS[command], lambda *_, **__: pytest.fail("the work began"))
    before = contents(folder)
    assert run(*line(command, flag, target)) == 2
    err = capfd.readouterr().err
    assert told in err
    assert flag in err
    assert contents(folder) == before


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_not_ours_is_told(folder, capfd):
    (folder / "theirs").mkdir(mode=0o555)
    assert run(*line("extract train", "--save", "theirs/m2")) == 2
    assert "cannot be written to" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["align", "extract train", "induce", "aggregate"])
def test_save_replaces_models_and_nothing_else(command, folder, capfd):
    assert run(*line(command, "--save", "text.txt.bak"), "-q", "--threads", 1) == 0
    assert run(*line(command, "--save", "text.txt.bak"), "-q", "--threads", 1) == 0
    (folder / "precious").write_text("hand-made\n")
    capfd.readouterr()
    assert run(*line(command, "--save", "precious"), "-q") == 2
    assert "--save precious would overwrite a file that is not a model" in capfd.readouterr().err
    assert (folder / "precious").read_text() == "hand-made\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gold.tsv", "gold.jsonl"])
@pytest.mark.parametrize("command", ["extract predict", "induce", "aggregate", "extract tokens"])
def test_labels_that_exist_are_replaced_by_force_alone(command, name, folder, capfd):
    (folder / name).write_text("Ann\tNAME\n")
    assert run(*line(command, "--output", name)) == 2
    assert f"{name} already exists, and it may contain corrected labels" in capfd.readouterr().err
    assert (folder / name).read_text() == "Ann\tNAME\n"
    assert run(*line(command, "--output", name), "--force") == 0
    assert (folder / name).read_text() != "Ann\tNAME\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [c for c in COMMANDS if c not in ("extract train", *OF_TREES, *OF_PAIRS, *OF_GRAPHS)]
)
def test_dash_is_standard_output_and_a_file_gets_the_same(command, folder, capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert run(*line(command, "--output", "-")) == 0
    shown = capfd.readouterr().out
    assert run(*line(command, "--output", "out.tsv")) == 0
    assert capfd.readouterr().out == ""
    assert [row.rstrip() for row in (folder / "out.tsv").read_text().splitlines()] == [
        row.rstrip() for row in shown.splitlines()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        c
        for c in COMMANDS
        if c not in ("align map", "align phrases", "extract train", "report", *OF_TREES, *OF_PAIRS, *OF_GRAPHS)
    ],
)
def test_json_is_asked_for_by_the_flag_or_by_the_name(command, folder, capfd):
    assert run(*line(command, "--output", "-"), "--json") == 0
    shown = capfd.readouterr().out
    assert all(isinstance(json.loads(row), dict) for row in shown.splitlines())
    assert shown.strip()
    assert run(*line(command, "--output", "out.jsonl")) == 0
    assert (folder / "out.jsonl").read_text() == shown


@pytest.mark.slow
@pytest.mark.parametrize("command", ["extract predict", "induce", "extract tokens"])
def test_standard_input_is_read_where_no_text_is_named(command, folder, capfd, monkeypatch):
    rest = [word for word in REST[command] if word not in ("text.txt", "s")]
    with (folder / "s").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert run(*command.split(), *rest) == 0
    from_stdin = capfd.readouterr().out
    assert run(*command.split(), *rest, "s") == 0
    assert capfd.readouterr().out == from_stdin != ""


def test_a_terminal_as_input_is_told_of(folder, capfd, monkeypatch):
    with (folder / "s").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("trellis.cli.checks.sys.stdin.isatty", lambda: True, raising=False)
        assert run("extract", "tokens") == 0
    assert "end with Ctrl-D" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["align", "extract train", "induce"])
def test_the_history_of_a_run_is_written_where_it_is_asked_for(command, folder):
    assert run(*line(command, "--history", "rounds.jsonl"), "-q", "--threads", 1) == 0
    rounds = [json.loads(row) for row in (folder / "rounds.jsonl").read_text().splitlines()]
    assert rounds
    assert all("objective" in one for one in rounds)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["align", "induce"])
def test_no_training_option_is_silently_ignored_beside_a_model(command, folder, capfd):
    assert run(*line(command, "--save", "own"), "-q", "--threads", 1) == 0
    text = ["-s", "s", "-t", "t"] if command == "align" else ["s"]
    values = {
        "--constraint": "none",
        "--method": "em",
        "--emissions": "table",
        "--ascent": "em",
        "--no-variational": None,
        "--stems-only": None,
    }
    files = {"--save", "--history", "--priors", "--closed", "--dictionary", "--labelled"}
    learning = {name for name, flag in flags(command).items() if flag.panel == "Training"}
    for name in sorted(learning | (files & set(flags(command)))):
        value = values.get(name, "f" if name in files else "1")
        capfd.readouterr()
        assert run(*command.split(), *text, "-m", "own", name, *([] if value is None else [value])) == 2, name
        assert f"so {name} cannot be combined with it" in capfd.readouterr().err


def test_an_empty_model_file_and_a_text_are_no_models(folder, capfd):
    (folder / "empty").write_text("")
    for command, name in (("extract predict", "empty"), ("info", "text.txt"), ("extract explain", "text.txt")):
        rest = [] if command == "info" else ["text.txt"]
        assert run(*command.split(), "-m", name, *rest) == 2
        assert "not a file that Trellis wrote" in capfd.readouterr().err


def test_a_model_of_another_task_is_named(folder, capfd):
    assert run("induce", "s", "-k", 2, "--method", "em", "--rounds", 1, "-o", os.devnull, "--save", "tagger", "-q") == 0
    for command in (
        ["extract", "predict", "-m", "tagger", "text.txt"],
        ["align", "-m", "tagger", "-s", "s", "-t", "t"],
    ):
        assert run(*command) == 2
        assert "'HMM', not" in capfd.readouterr().err
    assert run("induce", "-m", "m", "s") == 2
    assert "'Extractor', not 'HMM'" in capfd.readouterr().err


def test_info_says_what_a_model_holds(folder, capfd):
    assert run("info", "-m", "m") == 0
    shown = capfd.readouterr().out
    assert "class         Extractor" in shown
    assert "labels        NAME, YEAR" in shown
    assert "back_off = 1.0" in shown
    assert run("info", "-m", "m", "--json") == 0
    record = json.loads(capfd.readouterr().out)
    assert record["class"] == "Extractor"
    assert record["inner model"] == "CRF"
    assert record["bytes"] == os.path.getsize("m")


def test_evaluate_gives_figures_as_json(folder, capfd):
    (folder / "links").write_text("0-0 1-1\n0-0\n")
    assert run("evaluate", "few.tsv", "few.tsv", "--json") == 0
    assert json.loads(capfd.readouterr().out)["total"]["f1"] == 1.0
    assert run("evaluate", "--alignment", "links", "links", "--json") == 0
    assert json.loads(capfd.readouterr().out)["aer"] == 0.0
    assert run("extract", "tokens", "s", "-o", "tokens.jsonl") == 0
    assert run("induce", "s", "-k", 2, "--method", "em", "--rounds", 1, "-o", "tags.jsonl", "-q") == 0
    assert run("evaluate", "--induction", "tags.jsonl", "tags.jsonl", "--json") == 0
    assert json.loads(capfd.readouterr().out)["many_to_one"] == 1.0


def test_warnings_of_ours_are_a_sentence(folder, capfd, monkeypatch):
    import warnings

    from trellis.errors import ConvergenceWarning

    def warn(*_, **__):
        warnings.warn("did not converge; raise it", ConvergenceWarning, stacklevel=1)
        raise DataError("enough")

    monkeypatch.setattr("trellis.data.text_files.stream_texts", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert run("extract", "tokens", "text.txt") == 2
    assert capfd.readouterr().err == "Warning: did not converge; raise it\nError: enough\n"
