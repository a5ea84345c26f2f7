"""``trellis aggregate`` as users start it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from tests.aggregate.corpora import drawn
from tests.hostile.command import run


@pytest.fixture
def votes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts, _ = drawn(40)
    with open("votes.jsonl", "w") as out:
        for text in texts:
            out.write(json.dumps({"tokens": text.tokens, "votes": text.votes}) + "\n")
    (tmp_path / "more.tsv").write_text("# token\tf0\tf1\tf2\nx\tB-DRUG\t_\tB-DRUG\ny\t_\t_\t_\n")
    return tmp_path


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_all_texts_of_all_files_come_out_in_order(votes, capfd):
    assert run("aggregate", "more.tsv", "votes.jsonl", "-o", "out.jsonl", "-q") == 0
    found = lines(votes / "out.jsonl")
    assert len(found) == 41
    assert list(found[0]) == ["tokens", "labels", "probability"]
    assert (found[0]["tokens"], found[0]["labels"]) == (["x", "y"], ["B-DRUG", "O"])
    assert all(len(r["tokens"]) == len(r["labels"]) == len(r["probability"]) for r in found)
    assert all(0.0 <= p <= 1.0 for r in found for p in r["probability"])
    assert "accuracy" not in capfd.readouterr().err


def test_columns_and_a_table_of_accuracies(votes, capfd):
    assert run("aggregate", "votes.jsonl", "-o", "out.tsv") == 0
    first = (votes / "out.tsv").read_text().splitlines()[0].split("\t")
    assert len(first) == 3
    assert float(first[2]) <= 1.0
    told = capfd.readouterr().err
    assert "Estimated accuracy of each function; coverage: share of tokens it votes on" in told
    assert "f1" in told
    assert run("aggregate", "votes.jsonl", "-o", "out2.tsv", "--accuracies", "acc.json") == 0
    table = json.loads((votes / "acc.json").read_text())
    assert set(table) == {"f0", "f1", "f2"}
    assert set(table["f0"]) == {"accuracy", "votes", "coverage"}
    assert run("aggregate", "votes.jsonl", "-o", "out3.tsv", "--accuracies", "acc.tsv") == 0
    assert (votes / "acc.tsv").read_text().startswith("function\taccuracy")


PHASES = ["reading", "finding abbreviations", "counting votes", "learning", "labelling", "writing"]


def phases(err):
    """Phases of progress lines such as "reading: 40", in order."""
    return [line.split(":")[0] for line in err.splitlines() if re.search(r": \d", line)]


def test_every_phase_reports_progress_unless_quiet(votes, capfd):
    assert run("aggregate", "votes.jsonl", "-o", "out.tsv", "--save", "m") == 0
    err = capfd.readouterr().err
    assert phases(err) == PHASES
    assert "reading: 40 texts\n" in err
    assert re.search(r"^learning: \d+/100 rounds .* converged$", err, flags=re.M)
    assert "labelling: 40/40 texts\n" in err
    assert "writing: 40/40 texts\n" in err
    assert run("aggregate", "votes.jsonl", "-m", "m", "-o", "again.tsv") == 0
    assert phases(capfd.readouterr().err) == ["reading", "labelling", "writing"]
    for more in (["-o", "quiet.tsv"], ["-m", "m", "-o", "quiet2.tsv"]):
        assert run("aggregate", "votes.jsonl", *more, "-q") == 0
        assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_a_terminal_shows_a_bar_of_every_phase_and_labels_go_to_standard_output(votes):
    assert run("aggregate", "votes.jsonl", "-o", "out.tsv", "-q") == 0
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "trellis", "aggregate", "votes.jsonl"]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=theirs, timeout=300, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the other end is closed and everything is read
            break
    os.close(ours)
    assert done.returncode == 0
    assert done.stdout == (votes / "out.tsv").read_bytes()
    found = [shown.find(phase.encode()) for phase in PHASES]
    assert -1 not in found
    assert found == sorted(found)


def test_a_saved_model_labels_new_texts_and_info_opens_it(votes, capfd):
    assert run("aggregate", "votes.jsonl", "-o", "out.jsonl", "--save", "m", "--history", "h.jsonl", "-q") == 0
    assert run("aggregate", "votes.jsonl", "-m", "m", "-o", "again.jsonl") == 0
    assert (votes / "out.jsonl").read_text() == (votes / "again.jsonl").read_text()
    assert lines(votes / "h.jsonl")
    assert run("info", "-m", "m") == 0
    assert "Aggregator" in capfd.readouterr().out
    assert run("aggregate", "votes.jsonl", "-m", "m", "--accuracy", "0.5") == 2
    assert "--accuracy cannot be combined with it" in capfd.readouterr().err


def test_rules_and_coarse_labels(votes, capfd):
    (votes / "rules.toml").write_text(
        '[[rule]]\nname = "no pain"\nif_word_matches = "."\nthen_not_label = ["B-PAIN", "I-PAIN"]\n'
    )
    assert run("aggregate", "votes.jsonl", "--rules", "rules.toml", "-o", "out.jsonl", "-q") == 0
    assert not any("PAIN" in k for r in lines(votes / "out.jsonl") for k in r["labels"])
    (votes / "c.tsv").write_text("x\tB-SOME\tB-DRUG\ny\tB-SOME\tB-PAIN\n")
    assert run("aggregate", "c.tsv", "--coarse", "SOME=DRUG,PAIN", "-o", "c.jsonl", "-q") == 0
    assert lines(votes / "c.jsonl")[0]["labels"] == ["B-DRUG", "B-PAIN"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words, message",
    [
        (["nowhere.jsonl"], "nowhere.jsonl: cannot be read"),
        (["votes.jsonl", "--coarse", "SOME"], "NAME=A,B"),
        (["votes.jsonl", "--labels", "DRUG"], "unknown label"),
        (["votes.jsonl", "--labels", "A,,B"], "--labels takes names"),
        (["bad.jsonl"], "line 1: expected the key 'votes' or 'spans'"),
        (["votes.jsonl", "-o", "votes.jsonl"], "would overwrite"),
        (["votes.jsonl", "-o", "more.tsv"], "already exists"),
        (["empty.jsonl"], "there is no text"),
    ],
)  # fmt: skip
def test_mistakes_end_with_a_message(votes, capfd, words, message):
    (votes / "bad.jsonl").write_text('{"tokens": ["a"]}\n')
    (votes / "empty.jsonl").write_text("")
    assert run("aggregate", *words) == 2
    assert message in capfd.readouterr().err
