"""Faults in the input are found before kernels are compiled, which may take a minute."""

from __future__ import annotations

import pytest

from tests.cli.every import TREE
from tests.hostile.command import run
from trellis.engine import compiling

FORESTS = {
    "cycle.conllu": TREE.replace("\t3\tnsubj", "\t1\tnsubj").replace("\t0\troot", "\t2\troot"),
    "far.conllu": TREE.replace("\t0\troot", "\t9\troot"),
    "untagged.conllu": TREE.replace("NOUN", "_"),
}
FILES = {
    **FORESTS,
    "three": "a b\nb a\na a\n",
    "latin": b"a b\n\xe9 a\n",
    "joined": "a ||| x\nb y\n",
    "links.wrong": "0-0\n",
    "few.wrong.tsv": "Ann\tNAME\n1999\tMONTH\n",
    "votes.wrong.tsv": "# token\tf\nAnn\tB-NAME\n1999\n",
    "people.wrong.jsonl": '{"tokens": ["Ann"], "mentions": [{"start": 0, "end": 9, "type": "Peop"}]}\n',
    "pairs.wrong.tsv": "ab\txy\t1\nba\n",
}
WRONG = {
    "align: one side is longer": ("align -s three -t t", "t has 2 lines but three has 3"),
    "align: not UTF-8": ("align -s latin -t t", "latin, line 2: expected UTF-8"),
    "align: no separator": ("align -i joined", "joined, line 2"),
    "align: hints of other pairs": ("align -s s -t t --hints links.wrong", "hints are given for 1 pairs"),
    "align: more gold than pairs": ("align -s s -t t --tune links3", "gold links are given for 3 pairs, but"),
    "align -m: one side is longer": ("align -m aligner -s three -t t", "t has 2 lines but three has 3"),
    "align: a missing dictionary": ("align -s s -t t --priors nowhere", "nowhere: cannot be read"),
    "induce: not UTF-8": ("induce latin -k 2", "latin, line 2: expected UTF-8"),
    "induce: a missing dictionary": ("induce s -k 2 --dictionary nowhere", "nowhere: cannot be read"),
    "parse train: a head that is none": ("parse train far.conllu --save x", "far.conllu, line 3"),
    "parse train: a missing dev set": ("parse train trees.conllu --dev nowhere --save x", "nowhere: cannot be read"),
    "transfer: one side is longer": (
        "transfer --source-parser parser -s trees.conllu -t far2.conllu --save x", "has 3 sentences but",
    ),
    "transfer: too few links": (
        "transfer --source-parser parser -s trees.conllu -t trees.conllu --links links.wrong --save x", "1 lines but",
    ),
    "transfer: no tags in --parse": (
        "transfer --source-parser parser -s trees.conllu -t trees.conllu --parse untagged.conllu --save x",
        "untagged.conllu has words without tags",
    ),
    "aggregate: a column too few": ("aggregate votes.wrong.tsv", "votes.wrong.tsv, line 3"),
    "extract train: an unknown label": ("extract train rules.toml -l few.wrong.tsv --save x", "unknown label 'MONTH'"),
    "extract train: missing text": (
        "extract train rules.toml -l few.tsv -u nowhere --save x", "nowhere: cannot be read",
    ),
    "relate train: a mention that is none": ("relate train people.toml -l people.wrong.jsonl --save x", "line 1"),
    "relate train: missing text": (
        "relate train people.toml -l people.jsonl -u nowhere --save x", "nowhere: cannot be read",
    ),
    "match train: a column too few": ("match train pairs.wrong.tsv --save x", "pairs.wrong.tsv, line 2"),
    "extract predict: missing text": ("extract predict -m m nowhere", "nowhere: cannot be read"),
    "extract explain: missing text": ("extract explain -m m nowhere", "nowhere: cannot be read"),
    "parse predict: missing text": ("parse predict nowhere -m parser", "nowhere: cannot be read"),
}  # fmt: skip


@pytest.fixture(scope="module")
def made(every_folder):
    folder = every_folder
    for name, content in FILES.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "far2.conllu").write_text(TREE * 2)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG)
def test_faults_are_found_before_kernels_are_compiled(case, made, monkeypatch, capfd):
    compiled = []
    monkeypatch.chdir(made)
    monkeypatch.delenv("TRELLIS_COMPILE_AHEAD", raising=False)
    monkeypatch.setattr(compiling, "_done", set())
    monkeypatch.setattr(compiling, "read_kernels", lambda: compiled.append("kernels"))
    line, told = WRONG[case]
    assert run(*line.split()) == 2
    assert told in capfd.readouterr().err
    assert compiled == []
