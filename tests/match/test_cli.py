"""``trellis match`` as users start it: training, answers with alignments, ranking, and files with mistakes."""

from __future__ import annotations

import json

import pytest

from tests.hostile.command import run
from tests.match.test_matcher import names, sentences
from trellis import Matcher

QUICK = ("--negatives", 6, "-q", "--threads", 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "names.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in names(50)))
    assert run("match", "train", folder / "names.tsv", "--save", folder / "m", *QUICK) == 0
    return folder


def lines(text):
    return [line.split("\t") for line in text.splitlines()]


@pytest.mark.slow
def test_every_answer_comes_with_its_alignment(trained, capfd):
    (trained / "new.tsv").write_text("damiko\tδμικο\tyes\ndamiko\tλετι\tno\n")
    assert run("match", "predict", trained / "new.tsv", "-m", trained / "m", "--threads", 1) == 0
    out, err = capfd.readouterr()
    (left, right, answer, score, aligned), other = lines(out)
    assert (left, right, answer, other[2]) == ("damiko", "δμικο", "1", "0")
    assert float(score) > 0 > float(other[3])
    assert aligned == "d:δ a: m:μ i:ι k:κ o:ο"
    assert err == "accuracy    100.00 of 2 pairs\n"
    assert run("match", "predict", trained / "new.tsv", "-m", trained / "m", "--json") == 0
    record = json.loads(capfd.readouterr().out.splitlines()[0])
    assert list(record) == ["left", "right", "match", "score", "alignment", "worth"]
    assert record["alignment"][:2] == [["d", "δ"], ["a", ""]]


@pytest.mark.slow
def test_candidates_are_ranked(trained, capfd):
    (trained / "rank.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in names(20, seed=5)))
    assert run("match", "predict", trained / "rank.tsv", "-m", trained / "m", "--rank", 2) == 0
    out, err = capfd.readouterr()
    found = lines(out)
    assert [row[0] for row in found] == ["1", "2"] * 20
    assert all(float(a[4]) >= float(b[4]) for a, b in zip(found[::2], found[1::2], strict=True))
    assert "of 20 ranked" in err
    assert "MRR" in err


def test_sentences_that_are_taken_for_names_are_told_of(tmp_path, capfd):
    pairs, answers = sentences(12, 0)
    rows = (f"{a}\t{b}\t{max(z, 0)}\n" for (a, b), z in zip(pairs, answers, strict=True))
    (tmp_path / "train.tsv").write_text("".join(rows))
    assert run("match", "train", tmp_path / "train.tsv", "--save", tmp_path / "m", "--rounds", 1, *QUICK) == 0
    assert "were compared as names, character by character: use --kind sentences" in capfd.readouterr().err


def test_sentences_with_answers_and_dev(tmp_path, capfd):
    for file, seed in (("train.tsv", 0), ("dev.tsv", 1)):
        pairs, answers = sentences(40, seed)
        rows = (f"{a}\t{b}\t{max(z, 0)}\n" for (a, b), z in zip(pairs, answers, strict=True))
        (tmp_path / file).write_text("".join(rows))
    command = ["match", "train", tmp_path / "train.tsv", "--kind", "sentences", "--save", tmp_path / "m", "--cost", 10]
    more = ["--wordnet", "none", "--dev", tmp_path / "dev.tsv", "--history", tmp_path / "h.jsonl"]
    assert run(*command, *more, *QUICK) == 0
    assert capfd.readouterr().out == "accuracy    100.00 of 40 pairs\n"
    assert "objective" in (tmp_path / "h.jsonl").read_text()


def test_similarities_of_words_and_what_may_be_deleted(tmp_path, capfd):
    pairs, answers = sentences(30)
    rows = [f"{a}\t{b}\t{max(z, 0)}\n" for (a, b), z in zip(pairs, answers, strict=True)]
    (tmp_path / "train.tsv").write_text("".join(rows))
    (tmp_path / "similar.tsv").write_text("a\tthe\t0.5\n")
    command = ["match", "train", tmp_path / "train.tsv", "--kind", "sentences", "--method", "two-stage", "--cost", 10]
    more = ["--similarity", tmp_path / "similar.tsv", "--deletions", "words", "--save", tmp_path / "m"]
    assert run(*command, *more, *QUICK) == 0
    assert run("match", "predict", tmp_path / "train.tsv", "--model", tmp_path / "m", "-o", tmp_path / "out") == 0
    assert "of 30 pairs" in capfd.readouterr().err
    made = Matcher.load(tmp_path / "m")
    assert made.similarity == {"a": {"the": 0.5}}
    assert made.deletions == "words"
    (tmp_path / "similar.tsv").write_text("a the 0.5\n")
    assert run(*command, *more, *QUICK) == 2
    assert "similar.tsv, line 1: expected word TAB word TAB value" in capfd.readouterr().err


LONG = "a" * 5000
WRONG = {
    "a missing column": (
        "ana\tανα\nbob\n",
        "line 2: expected left TAB right, or left TAB right TAB answer, but found 1",
    ),
    "a column that others lack": ("ana\tανα\nbob\tβοβ\t1\n", "line 2: found 3 columns, but the lines before have 2"),
    "an empty side": ("ana\tανα\nbob\t \n", "line 2: the right side is empty"),
    "one class only": ("ana\tανα\t1\nbob\tβοβ\t1\n", "line 1: all pairs match, from the first, line 1, to the last"),
    "a long name": (f"ana\tανα\n{LONG}\tβοβ\n", "line 2: the left side has 5000 characters, 'aaaa"),
    "an odd answer": ("ana\tανα\t1\nbob\tβοβ\tmaybe\n", "line 2: an answer is 1 or 0"),
    "nothing": ("\n", "there are no pairs in it"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG)
def test_mistakes_in_a_file_are_told_with_their_line_and_nothing_is_lost(case, trained, tmp_path, capfd):
    content, told = WRONG[case]
    (tmp_path / "bad.tsv").write_text(content)
    (tmp_path / "m").write_bytes((trained / "m").read_bytes())
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert run("match", "train", tmp_path / "bad.tsv", "--save", tmp_path / "m", *QUICK) == 2
    err = capfd.readouterr().err
    assert told in err
    assert "bad.tsv" in err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_sentences_without_answers_are_refused(tmp_path, capfd):
    (tmp_path / "s.tsv").write_text("a cat\tthe cat\n")
    assert run("match", "train", tmp_path / "s.tsv", "--kind", "sentences", "--save", tmp_path / "m") == 2
    assert "sentences need answers" in capfd.readouterr().err


def test_odd_lines_do_not_cost_the_others(trained, capfd):
    content = f"damiko\tδμικο\nbob\n\t\nx\t\n{LONG}\tα\nlidu\tλιδυ\n".encode() + b"\xff\tb\n"
    (trained / "odd.tsv").write_bytes(content)
    assert run("match", "predict", trained / "odd.tsv", "-m", trained / "m", "--threads", 1) == 0
    out, err = capfd.readouterr()
    assert [row[0] for row in lines(out)] == ["damiko", "", "", "", "lidu", ""]
    assert "4 of 6 pairs could not be read and got an empty result" in err
    for told in ("line 2: expected left TAB right", "line 4: the right side is empty", "line 5: the left side has 5000",
                 "line 7: expected UTF-8"):  # fmt: skip
        assert told in err
    (trained / "all-odd.tsv").write_text("bob\n")
    assert run("match", "predict", trained / "all-odd.tsv", "-m", trained / "m") == 2


def test_a_model_of_another_kind_is_refused(trained, tmp_path, capfd):
    from trellis.models import HMM

    HMM(min_count=1).fit([["a"]], [["X"]]).save(tmp_path / "hmm")
    assert run("match", "predict", trained / "names.tsv", "-m", tmp_path / "hmm") == 2
    assert "holds 'HMM', not 'Matcher'" in capfd.readouterr().err
    files = ["--parser", tmp_path / "hmm", "--tagger", tmp_path / "hmm", "--save", tmp_path / "new"]
    assert run("match", "train", trained / "names.tsv", "--kind", "sentences", *files) == 2
    assert "holds 'HMM', not 'Parser'" in capfd.readouterr().err
    assert not (tmp_path / "new").exists()
