"""trellis induce and trellis evaluate --induction, from files to files."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from trellis.cli.app import app
from trellis.data.columns import read_columns
from trellis.data.conllu import write_conllu
from trellis.errors import DataError

from .toy import WORDS, sentences

TEXT, TAGS = sentences(120)
QUICK = ["-k", "4", "--rounds", "8", "--frequent", "5", "--threads", "1", "-q"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "text.txt").write_text("".join(" ".join(words) + "\n" for words in TEXT))
    gold = ("".join(f"{w}\t{t}\n" for w, t in zip(*both, strict=True)) for both in zip(TEXT, TAGS, strict=True))
    (tmp_path / "gold.tsv").write_text("\n".join(gold) + "\n")
    write_conllu(tmp_path / "gold.conllu", read_columns(tmp_path / "gold.tsv"))
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def words_and_states(path):
    return [(list(s.tokens), list(s.labels)) for s in read_columns(path)]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["em", "sparse", "vb"])
def test_every_word_gets_a_state(folder, method):
    assert run("induce", folder / "text.txt", "--method", method, *QUICK, "-o", folder / "out.tsv").exit_code == 0
    found = words_and_states(folder / "out.tsv")
    assert [words for words, _ in found] == TEXT
    assert {s for _, states in found for s in states} <= set("0123")


def test_columns_trees_and_lines_give_the_same(folder):
    for name in ("text.txt", "gold.tsv", "gold.conllu"):
        run("induce", folder / name, *QUICK, "-o", folder / f"{name}.out")
    assert (folder / "text.txt.out").read_text() == (folder / "gold.tsv.out").read_text()
    assert (folder / "text.txt.out").read_text() == (folder / "gold.conllu.out").read_text()
    scores = [
        run("evaluate", "--induction", folder / gold, folder / "text.txt.out").output
        for gold in ("gold.tsv", "gold.conllu")
    ]
    assert scores[0] == scores[1]
    assert scores[0].startswith("1-Many")


def test_a_saved_model_is_applied_without_training(folder):
    run("induce", folder / "text.txt", "--method", "em", *QUICK, "-o", folder / "a", "--save", folder / "m")
    assert run("induce", folder / "text.txt", "--model", folder / "m", "-o", folder / "b").exit_code == 0
    assert (folder / "a").read_text() == (folder / "b").read_text()


def test_closed_words_and_labelled_sentences_name_states(folder):
    (folder / "closed").write_text("".join(f"{w}\tD\n" for w in WORDS["D"]))
    run("induce", folder / "text.txt", *QUICK, "--closed", folder / "closed", "-o", folder / "out.tsv")
    for words, states in words_and_states(folder / "out.tsv"):
        assert [s == "D" for s in states] == [w in WORDS["D"] for w in words]
    few = (folder / "gold.tsv").read_text().split("\n\n")[:10]
    (folder / "few.tsv").write_text("\n\n".join(few) + "\n")
    run("induce", folder / "text.txt", *QUICK, "--labelled", folder / "few.tsv", "-o", folder / "out.tsv", "--force")
    found = words_and_states(folder / "out.tsv")
    assert len(found) == len(TEXT)
    assert {s for _, states in found for s in states} == set("DANV")


def test_evaluate_prints_the_measures(folder):
    out = run("evaluate", "--induction", folder / "gold.tsv", folder / "gold.tsv").output
    assert "1-Many      100.00" in out
    assert "VI          0.0000" in out
    assert "l1/linf     1.00" in out


def test_evaluate_points_at_the_sentence_that_differs(folder):
    (folder / "other.tsv").write_text((folder / "gold.tsv").read_text().replace(TEXT[0][1], "x", 1))
    with pytest.raises(DataError, match="line 1"):
        run("evaluate", "--induction", folder / "gold.tsv", folder / "other.tsv")


def test_a_bad_dictionary_line_is_named(folder):
    (folder / "closed").write_text("the D\n")
    with pytest.raises(DataError, match="closed.*1|line 1"):
        run("induce", folder / "text.txt", *QUICK, "--closed", folder / "closed")


def test_the_stages_of_training_are_named(folder):
    plain = [word for word in QUICK if word != "-q"]
    err = run("induce", folder / "text.txt", *plain, "-o", folder / "out.tsv").stderr
    assert "learning without sparsity: 6/6" in err
    assert "learning with sparsity: 2/2" in err
    err = run("induce", folder / "text.txt", "--method", "em", *plain, "-o", folder / "em.tsv").stderr
    assert "learning: 8/8" in err
