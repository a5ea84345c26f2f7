"""Commands whose output is the input of the next, as the pages chain them: each chain runs end to end on tiny data.

The last command of a chain evaluates, and its score must show that labels, trees or links went through whole.
"""

from __future__ import annotations

import json
import random
import shlex
import shutil
from pathlib import Path

import pytest

from tests.hostile.command import run

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FAST = "-q --threads 1"


def write_votes(folder):
    """Sixty texts in which two drugs stand side by side: votes (JSON lines, columns, WRENCH's), rules, and gold."""
    draw = random.Random(3)
    drugs = ["aspirin", "codeine", "ibuprofen", "morphine"]
    others = ["take", "the", "old", "one", "now", "with", "some", "water"]
    lines, columns, gold, records = [], ["# token\tlist\tsecond"], [], {}
    for n in range(60):
        before = [draw.choice(others) for _ in range(draw.randint(2, 4))]
        tokens = [*before, draw.choice(drugs), draw.choice(drugs), draw.choice(others)]
        first = len(before)
        spans = [[first, first + 1, "DRUG"], [first + 1, first + 2, "DRUG"]]
        labels = ["B-DRUG" if first <= t < first + 2 else "O" for t in range(len(tokens))]
        second = ["B-DRUG" if t == first else "_" for t in range(len(tokens))]
        lines.append(json.dumps({"tokens": tokens, "spans": {"list": spans, "second": spans[:1]}}))
        table = zip(tokens, [label if label != "O" else "_" for label in labels], second, strict=True)
        columns += ["\t".join(cells) for cells in table] + [""]
        gold += [f"{token}\t{label}" for token, label in zip(tokens, labels, strict=True)] + [""]
        votes = [[label, other.replace("_", "O")] for label, other in zip(labels, second, strict=True)]
        records[str(n)] = {"data": {"text": tokens}, "label": labels, "weak_labels": votes}
    for name, text in {
        "votes.jsonl": "\n".join(lines), "votes.tsv": "\n".join(columns), "drugs.tsv": "\n".join(gold),
        "wrench.json": json.dumps(records), "drugs.toml": 'labels = ["DRUG", "O"]',
    }.items():  # fmt: skip
        (folder / name).write_text(text + "\n", encoding="utf-8")


def write_names(folder):
    """Raw texts, rules for them, and their gold labels."""
    draw = random.Random(5)
    names = ["Ann", "Bob", "Cy", "Dee", "Eve", "Fox", "Lee", "Ray"]
    texts = [f"{draw.choice(names)} {draw.choice(names)} {draw.randint(1950, 2010)}" for _ in range(30)]
    (folder / "raw.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    gold = ["".join(f"{w}\t{'YEAR' if w.isdigit() else 'NAME'}\n" for w in text.split()) for text in texts]
    (folder / "gold.tsv").write_text("\n".join(gold), encoding="utf-8")
    years = '[[rule]]\nname = "years"\nif_word_matches = \'^(19|20)\\d\\d$\'\nthen_label = "YEAR"\n'
    (folder / "rules.toml").write_text(f'labels = ["NAME", "YEAR"]\n{years}', encoding="utf-8")
    targets = '[[rule]]\nname = "words"\ntargets = "targets.tsv"\npenalty = 5\n'
    (folder / "targets.toml").write_text(f'labels = ["NAME", "YEAR"]\n{targets}', encoding="utf-8")


def write_samples(folder):
    """The beginning of the samples that ship with the project."""
    garden = EXAMPLES / "garden"
    for name in ("text.en", "text.fr", "gold.links"):
        lines = (garden / name).read_text(encoding="utf-8").splitlines(True)
        (folder / name).write_text("".join(lines[:120]), encoding="utf-8")
    for name in ("train.conllu", "test.conllu", "fr-test.conllu", "en.conllu", "fr.conllu"):
        shutil.copy(garden / name, folder / name)
    for name in ("en.conllu", "fr.conllu"):
        sentences = (garden / name).read_text(encoding="utf-8").split("\n\n")
        (folder / name).write_text("\n\n".join(sentences[:80]) + "\n\n", encoding="utf-8")
    shutil.copy(garden / "gold.tsv", folder / "tags.tsv")
    for name in ("few.jsonl", "gold.jsonl"):
        shutil.copy(EXAMPLES / "people" / name, folder / name)
    shutil.copy(EXAMPLES / "people" / "rules.toml", folder / "people.toml")
    pairs = (EXAMPLES / "names" / "pairs.tsv").read_text(encoding="utf-8").splitlines(True)
    (folder / "pairs.tsv").write_text("".join(pairs[:40]), encoding="utf-8")


def fill_labels(folder):
    """What a person does between ``tokens`` and ``train``: write a label in place of each ``_``."""
    lines = (folder / "few.tsv").read_text(encoding="utf-8").splitlines()
    assert all(line.endswith("\t_") for line in lines if line)
    labelled = [
        f"{line[:-1]}{'YEAR' if line[0].isdigit() else 'NAME'}" if line else "" for line in lines
    ]  # fmt: skip
    (folder / "few.tsv").write_text("\n".join(labelled) + "\n", encoding="utf-8")


def write_links(folder):
    """Forms of two treebanks as parallel text, which ``align`` reads."""
    for name in ("en", "fr"):
        blocks = (folder / f"{name}.conllu").read_text(encoding="utf-8").strip().split("\n\n")
        forms = [[row.split("\t")[1] for row in block.split("\n") if row[0].isdigit()] for block in blocks]
        (folder / f"forms.{name}").write_text("".join(" ".join(own) + "\n" for own in forms), encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    for make in (write_votes, write_names, write_samples):
        make(folder)
    return folder


TRAINED = f"trellis extract train rules.toml -l gold.tsv --save m --rounds 1 {FAST}"
CHAINS = {
    "aggregate, train, predict, evaluate": (
        f"trellis aggregate votes.jsonl -o labels.tsv {FAST}",
        f"trellis extract train drugs.toml -l labels.tsv --save m {FAST}",
        "trellis extract predict -m m drugs.tsv -o out.tsv -q",
        ("trellis evaluate drugs.tsv out.tsv --json", "total.f1", 0.95),
    ),
    "aggregate columns to JSON lines, train without declared labels": (
        f"trellis aggregate votes.tsv -o labels.jsonl {FAST}",
        f"trellis extract train empty.toml -l labels.jsonl --save m {FAST}",
        "trellis extract predict -m m labels.jsonl -o out.jsonl -q",
        ("trellis evaluate drugs.tsv out.jsonl --json", "total.f1", 0.95),
    ),
    "aggregate WRENCH and save, aggregate again, evaluate": (
        f"trellis aggregate wrench.json -o labels.tsv --save votes.trellis {FAST}",
        f"trellis aggregate wrench.json -m votes.trellis -o again.jsonl {FAST}",
        "trellis extract errors wrench.json again.jsonl",
        ("trellis evaluate wrench.json again.jsonl --json", "total.f1", 0.95),
    ),
    "train on WRENCH gold, predict with B- and I-, train on that": (
        f"trellis extract train drugs.toml -l wrench.json --save m {FAST}",
        "trellis extract predict -m m wrench.json -o bio.tsv --bio -q",
        f"trellis extract train drugs.toml -l bio.tsv --save again {FAST}",
        "trellis extract predict -m again wrench.json -o out.jsonl -q",
        ("trellis evaluate drugs.tsv out.jsonl --json", "total.f1", 0.95),
    ),
    "tokens, labels by hand, train, predict, evaluate, explain, errors": (
        "trellis extract tokens raw.txt -n 5 -o few.tsv",
        fill_labels,
        "trellis extract check rules.toml few.tsv",
        f"trellis extract train rules.toml -l few.tsv -u raw.txt --save m --history rounds.jsonl {FAST}",
        "trellis extract predict -m m raw.txt -o out.tsv -q",
        "trellis extract explain -m m out.tsv -q",
        "trellis extract errors gold.tsv out.tsv",
        "trellis report --run rounds.jsonl -o run.html",
        "trellis report gold.tsv -m m -o page.html",
        ("trellis evaluate gold.tsv out.tsv --json", "accuracy", 0.95),
    ),
    "predict JSON lines, accept them, train on them": (
        TRAINED,
        "trellis extract predict -m m raw.txt -o out.jsonl -q",
        "trellis extract convert out.jsonl --accept -o labels.tsv",
        f"trellis extract train rules.toml -l labels.tsv --save again --rounds 1 {FAST}",
        "trellis extract predict -m again gold.tsv -o out.tsv -q",
        ("trellis evaluate gold.tsv out.tsv --json", "accuracy", 0.95),
    ),
    "propose, train with the targets": (
        "trellis extract propose raw.txt -l gold.tsv --min-occurrences 2 -o targets.tsv",
        f"trellis extract train targets.toml -l gold.tsv -u raw.txt --method pr --save m --rounds 1 {FAST}",
        "trellis extract predict -m m gold.tsv -o out.tsv -q",
        ("trellis evaluate gold.tsv out.tsv --json", "accuracy", 0.95),
    ),
    "align, align with hints and with the model, evaluate": (
        f"trellis align -s text.en -t text.fr -o links --save m {FAST}",
        f"trellis align -s text.en -t text.fr --hints links -o hinted {FAST}",
        f"trellis align -m m -s text.en -t text.fr -o again {FAST}",
        ("trellis evaluate --alignment gold.links again --json", "f", 0.6),
    ),
    "tokens --plain, align": (
        "trellis extract tokens text.en --plain -o plain.en",
        "trellis extract tokens text.fr --plain -o plain.fr",
        f"trellis align -s plain.en -t plain.fr -o links {FAST}",
        ("trellis evaluate --alignment gold.links links --json", "f", 0.6),
    ),
    "parse train, align, transfer, parse predict, evaluate": (
        "trellis parse train train.conllu --save en.trellis --bits 14 --passes 2 -q",
        write_links,
        f"trellis align -s forms.en -t forms.fr -o links {FAST}",
        f"trellis transfer --source-parser en.trellis -s en.conllu -t fr.conllu --links links --save fr.trellis {FAST}",
        "trellis parse predict fr-test.conllu -m fr.trellis -o out.conllu --threads 1",
        ("trellis evaluate --trees fr-test.conllu out.conllu --json", "all_words.uas", 0.6),
    ),
    "tag train, tag raw text, parse, evaluate": (
        f"trellis tag train train.conllu --save tagger {FAST}",
        "trellis parse train train.conllu --save parser --bits 14 --passes 2 -q",
        "trellis tag predict text.en -m tagger -o tagged.conllu --threads 1",
        "trellis parse predict tagged.conllu -m parser -o parsed.conllu --threads 1",
        "trellis tag predict test.conllu -m tagger -o tagged-test.conllu --threads 1",
        "trellis parse predict tagged-test.conllu -m parser -o out.conllu --threads 1",
        ("trellis evaluate --trees test.conllu out.conllu --json", "all_words.uas", 0.7),
    ),
    "induce-trees, parse predict with its model, evaluate": (
        f"trellis induce-trees train.conllu --save m --rounds 3 -o trees.conllu {FAST}",
        "trellis parse predict train.conllu -m m -o out.conllu --threads 1",
        ("trellis evaluate --trees train.conllu out.conllu --json", "all_words.uas", 0.1),
    ),
    "induce, evaluate": (
        f"trellis induce tags.tsv -k 6 --rounds 2 -o states.tsv --save m {FAST}",
        f"trellis induce tags.tsv -m m -o again.jsonl {FAST}",
        ("trellis evaluate --induction tags.tsv again.jsonl --json", "many_to_one", 0.4),
    ),
    "relate train, predict, explain, evaluate": (
        f"trellis relate train people.toml -l few.jsonl --save m --rounds 1 {FAST}",
        "trellis relate predict gold.jsonl -m m -o out.jsonl -q --threads 1",
        "trellis relate explain gold.jsonl -m m -q --threads 1",
        ("trellis evaluate --relations gold.jsonl out.jsonl --json", "entities.total.f1", 0.5),
    ),
    "match train, predict": (
        f"trellis match train pairs.tsv --save m --rounds 2 {FAST}",
        ("trellis match predict pairs.tsv -m m --json --threads 1", "match", True),
    ),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_of_commands_ends_with_the_score_it_should_have(chain, made, tmp_path, monkeypatch, capfd):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    (tmp_path / "empty.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    *steps, (last, figure, least) = CHAINS[chain]
    for step in steps:
        if callable(step):
            step(tmp_path)
            continue
        assert run(*shlex.split(step)[1:]) == 0, f"{step}\n{capfd.readouterr().err}"
    capfd.readouterr()
    assert run(*shlex.split(last)[1:]) == 0
    out, err = capfd.readouterr()
    found = json.loads(out.splitlines()[0])
    for name in figure.split("."):
        found = found[name]
    assert found >= least, (found, err)
