"""trellis extract train, predict, evaluate, explain and tokens, from files to files, and every mistake on the way."""

import json

import pytest

from tests.extract.samples import rules_of, write_samples
from trellis.cli.app import main

pytestmark = pytest.mark.slow


def run(*arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return stop.value.code or 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("citations")
    write_samples("citations", path)
    (path / "rules.toml").write_text(rules_of("citations"))
    code = run(
        "train", path / "rules.toml", "-l", path / "few.tsv", "-u", path / "text.txt", "--save", path / "m.trellis",
        "--rounds", 3, "-q",
    )  # fmt: skip
    assert code == 0
    return path


@pytest.fixture
def complaint(capfd):
    def of(*arguments):
        capfd.readouterr()
        assert run(*arguments) == 2
        err = capfd.readouterr().err
        assert "Traceback" not in err
        return err

    return of


def test_from_rules_and_text_to_fields_and_scores(folder, capfd):
    assert run("extract", "predict", "-m", folder / "m.trellis", folder / "gold.tsv", "-o", folder / "out.tsv") == 0
    capfd.readouterr()
    assert run("evaluate", folder / "gold.tsv", folder / "out.tsv") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith("accuracy")
    assert float(lines[0].split()[1]) > 75
    assert lines[1].startswith("field F1")
    assert any(line.startswith("gold \\ found") for line in lines)


def test_rules_at_prediction_raise_accuracy(folder, capfd):
    found = {}
    for name, flag in (("with", "--quiet"), ("without", "--no-rules")):
        assert (
            run(
                "extract",
                "predict",
                "-m",
                folder / "m.trellis",
                folder / "gold.tsv",
                "-o",
                folder / f"{name}.tsv",
                flag,
            )
            == 0
        )
        capfd.readouterr()
        run("evaluate", "--fields", folder / "gold.tsv", folder / f"{name}.tsv")
        found[name] = float(capfd.readouterr().out.split()[1])
    assert found["with"] > found["without"]


def test_json_spans_point_into_the_original_lines(folder, tmp_path):
    lines = [
        "  A. Lee,  B. Ray.   Fast logic. Journal of Logic, 5(2), 1990. ",
        "",
        "É. Ünal. Graphs. Tech. Rep. TR-3, 1991.",
    ]
    (tmp_path / "new.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert (
        run("extract", "predict", "-m", folder / "m.trellis", tmp_path / "new.txt", "-o", tmp_path / "out.jsonl") == 0
    )
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [r["text"] for r in records] == lines
    assert records[1]["fields"] == []
    for record in records:
        for field in record["fields"]:
            assert record["text"][field["start"] : field["end"]] == field["text"]
            assert field["text"].strip() == field["text"] != ""


def test_any_number_of_threads_and_a_second_run_give_the_same_bytes(folder, tmp_path):
    outputs = []
    for name, threads in (("a", 1), ("b", 2), ("c", 2)):
        arguments = [
            "extract",
            "train",
            folder / "rules.toml",
            "-l",
            folder / "few.tsv",
            "-u",
            folder / "text.txt",
            "--rounds",
            2,
        ]
        assert run(*arguments, "--save", tmp_path / name, "--threads", threads, "-q") == 0
        assert (
            run("extract", "predict", "-m", tmp_path / name, folder / "text.txt", "-o", tmp_path / f"{name}.tsv") == 0
        )
        outputs.append((tmp_path / f"{name}.tsv").read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


def test_progress_and_a_summary_are_shown_unless_quiet(folder, tmp_path, capfd):
    arguments = [
        "extract",
        "train",
        folder / "rules.toml",
        "-l",
        folder / "few.tsv",
        "-u",
        folder / "text.txt",
        "--rounds",
        1,
    ]
    assert run(*arguments, "--save", tmp_path / "m", "--dev", folder / "gold.tsv") == 0
    err = capfd.readouterr().err
    assert "learning: 1/1" in err
    assert "dev 0." in err
    assert "12 rules, 5 labelled texts, 80 other texts" in err
    assert run(*arguments, "--save", tmp_path / "m", "-q") == 0
    quiet = capfd.readouterr().err.splitlines()  # warnings and notes are not progress
    assert all(line.startswith(("Note:", "Warning:")) for line in quiet)


def test_explain_prints_every_rule_with_its_sentence_figures_and_utility(folder, capfd):
    assert run("extract", "explain", "-m", folder / "m.trellis", folder / "gold.tsv", "--json") == 0
    records = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [r["name"] for r in records[:3]] == ["Start", "AppearsOnce", "Punctuation"]
    assert records[-1]["name"] == "(all)"
    assert records[2]["sentence"].startswith("In every sentence the expected number of label changes")
    assert any(r["name"] == "has TITLE" and "at least 1" in r["sentence"] for r in records)
    assert run("extract", "explain", "-m", folder / "m.trellis", folder / "text.txt") == 0
    shown = capfd.readouterr().out
    assert "AppearsOnce" in shown
    assert "penalty" in shown


def test_tokens_makes_a_file_to_be_labelled(folder, tmp_path):
    assert run("extract", "tokens", folder / "text.txt", "-n", 2, "-o", tmp_path / "few.tsv") == 0
    lines = (tmp_path / "few.tsv").read_text().splitlines()
    assert all(line == "" or line.endswith("\t_") for line in lines)
    assert lines.count("") == 2
    (tmp_path / "raw.txt").write_text("Save the file?\n\nIt is 3.5 km.\n")
    assert run("extract", "tokens", tmp_path / "raw.txt", "--plain", "-o", tmp_path / "cut.txt") == 0
    assert (tmp_path / "cut.txt").read_text() == "Save the file ?\n\nIt is 3.5 km .\n"


def test_a_view_for_reading_has_one_field_a_line(folder, tmp_path):
    (tmp_path / "one.txt").write_text("A. Lee. Fast logic. Journal of Logic, 5(2), 1990.\n")
    assert (
        run(
            "extract",
            "predict",
            "-m",
            folder / "m.trellis",
            tmp_path / "one.txt",
            "--format",
            "view",
            "-o",
            tmp_path / "v",
        )
        == 0
    )
    assert "AUTHOR  A. Lee." in (tmp_path / "v").read_text()


# mistakes


def test_a_misspelt_key_is_answered_with_its_line_and_the_right_one(folder, tmp_path, complaint):
    (tmp_path / "r.toml").write_text('[[rule]]\nname = "a"\nif_wrod = "x"\nthen_label = "A"\n')
    err = complaint("train", tmp_path / "r.toml", "-u", folder / "text.txt", "--save", tmp_path / "m")
    assert "r.toml, line 3: unknown key 'if_wrod'; did you mean 'if_word'" in err


def test_an_unknown_label_in_the_rules_is_answered_with_the_right_one(folder, tmp_path, complaint):
    (tmp_path / "r.toml").write_text(rules_of("citations") + '[[rule]]\nif_word = "x"\nthen_label = "TITEL"\n')
    err = complaint("train", tmp_path / "r.toml", "-l", folder / "few.tsv", "--save", tmp_path / "m")
    assert "unknown label 'TITEL'; did you mean 'TITLE'" in err


def test_an_unknown_label_in_the_examples_is_answered_with_its_line(folder, tmp_path, complaint):
    (tmp_path / "few.tsv").write_text("Ann\tAUTHOR\nLee\tAUTOR\n")
    err = complaint("train", folder / "rules.toml", "-l", tmp_path / "few.tsv", "--save", tmp_path / "m")
    assert "few.tsv, line 2: unknown label 'AUTOR'; did you mean 'AUTHOR'?" in err
    assert "labels = [...]" in err


def test_swapped_columns_are_noticed(folder, tmp_path, complaint):
    (tmp_path / "few.tsv").write_text("AUTHOR\tAnn\nAUTHOR\tLee\n")
    err = complaint("train", folder / "rules.toml", "-l", tmp_path / "few.tsv", "--save", tmp_path / "m")
    assert "--word-column 1 --label-column 0" in err
    arguments = ["extract", "train", folder / "rules.toml", "-l", tmp_path / "few.tsv", "--save", tmp_path / "m", "-q"]
    assert run(*arguments, "--word-column", 1, "--label-column", 0) == 0


def test_a_labelled_file_without_labels_is_answered_with_the_format(folder, tmp_path, complaint):
    (tmp_path / "few.tsv").write_text("Ann AUTHOR\nLee AUTHOR\n")
    err = complaint("train", folder / "rules.toml", "-l", tmp_path / "few.tsv", "--save", tmp_path / "m")
    assert "expected the token in column 1 and its label in column 2 but found 1 column" in err
    assert "the line contains spaces: should they be tabs?" in err
    err = complaint("train", folder / "rules.toml", "-l", folder / "text.txt", "--save", tmp_path / "m")
    assert "trellis extract tokens" in err


def test_no_labelled_file_at_all_is_answered_with_the_ways_on(folder, tmp_path, complaint):
    err = complaint("train", folder / "rules.toml", "--save", tmp_path / "m")
    assert "--labelled few.tsv, --unlabelled text.txt" in err
    err = complaint("train", folder / "rules.toml", "-u", folder / "text.txt", "--save", tmp_path / "m")
    assert "no labelled text: the penalt" in err
    assert "cannot be learned. Label some texts, set penalty =" in err
    (tmp_path / "r.toml").write_text('[[rule]]\nname = "a"\nif_word = "x"\nthen_label = "A"\n')
    err = complaint("train", tmp_path / "r.toml", "-u", folder / "text.txt", "--save", tmp_path / "m")
    assert "the labels are not known" in err


def test_a_rule_that_forbids_everything_is_named_with_the_line_of_the_text(folder, tmp_path, complaint):
    (tmp_path / "r.toml").write_text('labels = ["A", "B"]\n[[rule]]\nname = "never"\ncount = ["A", "B"]\nat_most = 0\n')
    err = complaint("train", tmp_path / "r.toml", "-u", folder / "text.txt", "--save", tmp_path / "m")
    assert "'never'" in err
    assert "penalty" in err


def test_missing_files_and_folders_are_named_before_work_starts(folder, tmp_path, complaint):
    assert "nowhere.toml" in complaint("train", tmp_path / "nowhere.toml", "-u", "x", "--save", tmp_path / "m")
    assert "does not exist" in complaint("train", folder / "rules.toml", "-u", "x", "--save", tmp_path / "no" / "m")
    assert "cannot be read" in complaint("predict", "-m", tmp_path / "no.trellis", folder / "text.txt")
    assert "not a file that Trellis wrote" in complaint("predict", "-m", folder / "text.txt", folder / "text.txt")


def test_outputs_of_other_texts_are_refused(folder, tmp_path, complaint):
    (tmp_path / "o.tsv").write_text("Ann\tAUTHOR\n")
    err = complaint("evaluate", folder / "gold.tsv", tmp_path / "o.tsv")
    assert "text 1 is not the same in both" in err
    (tmp_path / "g.jsonl").write_text('{"text": "buy now", "label": "BAD"}\n')
    (tmp_path / "o.jsonl").write_text('{"tokens": ["buy now"], "labels": ["BAD"]}\n')
    err = complaint("evaluate", tmp_path / "g.jsonl", tmp_path / "o.jsonl")
    assert "'buy now' in 2 tokens" in err
    assert "'buy now' in 1 token (" in err
    assert 'with a label for a whole text as {"tokens": ["the text"], "labels": ["LABEL"]}' in err


def test_gamma_without_uem_is_refused(folder, tmp_path, complaint):
    err = complaint("train", folder / "rules.toml", "-l", folder / "few.tsv", "--save", tmp_path / "m", "--gamma", 0.5)
    assert "gamma requires method 'uem'" in err


def test_labels_that_break_a_strict_rule_are_counted(folder, tmp_path, capfd):
    (tmp_path / "r.toml").write_text('[[rule]]\nname = "first"\nif_token = "first"\nthen_label = "TITLE"\n')
    assert run("extract", "train", tmp_path / "r.toml", "-l", folder / "few.tsv", "--save", tmp_path / "m") == 0
    assert "hard rule 'first' in 5 of 5 tests" in capfd.readouterr().err


def test_labels_that_nobody_filled_in_are_told_with_the_file(folder, tmp_path, capfd):
    few = tmp_path / "few.tsv"
    assert run("extract", "tokens", folder / "text.txt", "-n", 2, "-o", few) == 0
    assert (
        run("extract", "train", folder / "rules.toml", "-l", few, "-u", folder / "text.txt", "--save", tmp_path / "m")
        == 2
    )
    err = capfd.readouterr().err
    assert "few.tsv: no label is filled in" in err
    assert not (tmp_path / "m").exists()


def test_tokens_does_not_overwrite_what_may_hold_labels(folder, tmp_path, capfd):
    few = tmp_path / "few.tsv"
    few.write_text("Ann\tNAME\n")
    assert run("extract", "tokens", folder / "text.txt", "-n", 2, "-o", few) == 2
    assert "already exists" in capfd.readouterr().err
    assert few.read_text() == "Ann\tNAME\n"
    assert run("extract", "tokens", folder / "text.txt", "-n", 2, "-o", few, "--force") == 0


def test_a_label_that_was_forgotten_is_named_by_its_line(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.toml").write_text('labels = ["NAME", "YEAR"]\n', encoding="utf-8")
    (tmp_path / "few.tsv").write_text("Ann\tNAME\n1999\tYEAR\n\nBob\tNAME\n2001\t_\n", encoding="utf-8")
    assert run("extract", "train", "rules.toml", "-l", "few.tsv", "--save", "m", "-q") == 0
    assert "1 text with some labels missing; the first missing label is that of '2001', line 5 of few.tsv" in (
        capfd.readouterr().err
    )
