"""Every kind of model answers over HTTP what its command writes for the same inputs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.hostile.command import run
from tests.serve.conftest import MODELS
from trellis.data.conllu import TREE, read_conllu
from trellis.serve.kinds import KINDS


@pytest.fixture
def said(folder, monkeypatch, capfd):
    """What a command writes for some input, as text and as JSON lines."""
    monkeypatch.chdir(folder)

    def of(line, **files):
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")
        capfd.readouterr()
        assert run(*line.split(), "-q") == 0
        return [json.loads(row) for row in capfd.readouterr().out.splitlines()]

    return of


def plain(records):
    """Tuples as lists, as JSON has them."""
    return json.loads(json.dumps(records))


def test_every_kind_of_model_is_tried_here():
    assert {"Extractor", "Tagger", "Parser", "Relater", "Matcher", "Aligner", "Aggregator"} <= set(KINDS)
    assert len(MODELS) == len({kind.name for kind in KINDS.values()})


TEXTS = ["Cy Fox 1987", "", "Dee Roe 2003 and 1999", "no name at all", "  "]


def test_fields(server, said):
    wanted = said("extract predict -m m in.txt --json", in_txt="".join(line + "\n" for line in TEXTS))
    assert server.predict("fields", *TEXTS) == wanted
    assert server.predict("fields", *({"text": text} for text in TEXTS)) == wanted
    assert any("probability" in field for one in wanted for field in one["fields"])


def test_fields_of_tokens(server, said):
    given = [{"tokens": ["Cy", "Fox", "1987"]}, {"tokens": ["Dee", "2003"], "text": "Dee: 2003"}]
    wanted = said("extract predict -m m in.jsonl --json", in_jsonl="".join(json.dumps(one) + "\n" for one in given))
    assert server.predict("fields", *given) == wanted


@pytest.mark.parametrize("tokenised", [False, True])
def test_tags(server, folder, monkeypatch, tokenised):
    monkeypatch.chdir(folder)
    lines = ["a cat ran", "cat a"]
    (folder / "in.txt").write_text("".join(line + "\n" for line in lines))
    assert run("tag", "predict", "in.txt", "-m", "tagger", "-o", "out.conllu", *["--tokenised"] * tokenised, "-q") == 0
    wanted = [{"tokens": list(s.tokens), "tags": list(s.labels)} for s in read_conllu(folder / "out.conllu")]
    assert server.predict("tagger", *([{"tokens": line.split()} for line in lines] if tokenised else lines)) == wanted
    assert server.predict("tagger", "") == [{"tokens": [], "tags": []}]


def test_trees(server, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert run("parse", "predict", "trees.conllu", "-m", "parser", "-o", "out.conllu", "-q") == 0
    wanted = [
        {"tokens": s.tokens, "tags": s.labels, "heads": list(map(int, s.columns["head"])),
         "relations": s.columns["deprel"]}
        for s in read_conllu(folder / "out.conllu", columns=TREE)
    ]  # fmt: skip
    given = [{"tokens": s.tokens, "tags": s.labels} for s in read_conllu(folder / "trees.conllu")]
    assert server.predict("parser", *given) == plain(wanted)


def test_relations(server, folder, said):
    given = [json.loads(line) for line in (folder / "people.jsonl").read_text(encoding="utf-8").splitlines()]
    given += [{"tokens": one["tokens"]} for one in given[:2]]
    wanted = said("relate predict in.jsonl -m relater --json", in_jsonl="".join(json.dumps(g) + "\n" for g in given))
    assert server.predict("relater", *given) == wanted


def test_matches(server, said):
    pairs = [("ab", "xy"), ("ba", "xyx"), ("b", "y")]
    wanted = said("match predict in.tsv -m matcher --json", in_tsv="".join(f"{a}\t{b}\n" for a, b in pairs))
    assert server.predict("matcher", *pairs) == wanted
    assert server.predict("matcher", *({"left": a, "right": b} for a, b in pairs)) == wanted


def test_links(server, said):
    pairs = [("a b", "x y"), ("", "x"), ("b a b", "y")]
    line = "align -m aligner -s in.s -t in.t --json --scores"
    left, right = ("".join(pair[side] + "\n" for pair in pairs) for side in (0, 1))
    wanted = said(line, in_s=left, in_t=right)
    assert server.predict("aligner", *pairs) == wanted
    assert server.predict("aligner", *({"source": a.split(), "target": b.split()} for a, b in pairs)) == wanted


def test_labels(server, said):
    given = [
        {"tokens": ["Ann", "1999"], "votes": {"f": ["B-NAME", "O"], "two": [None, "B-NAME"]}},
        {"tokens": ["Bob"], "spans": {"two": [[0, 1, "NAME"]]}},
    ]
    lines = "".join(json.dumps(one) + "\n" for one in given)
    wanted = said("aggregate in.jsonl -m aggregator --json", in_jsonl=lines)
    assert server.predict("aggregator", *given) == wanted


@pytest.mark.parametrize("model", MODELS)
def test_no_input_gives_no_result(server, model):
    assert server.predict(model) == []


def test_what_a_request_gets_does_not_depend_on_others_that_come_with_it(server):
    texts = [f"{name} {year}" for name in ("Cy Fox", "Dee Roe", "Ann") for year in range(1990, 2010)]
    alone = [server.predict("fields", text) for text in texts]
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(lambda text: server.predict("fields", text), texts)) == alone
