"""The samples that ship with the project are what the pages say they are."""

import json

import pytest

from tests.extract.samples import EXAMPLES
from trellis import Extractor
from trellis.cli import main
from trellis.data.text_files import read_labelled, read_texts


@pytest.mark.parametrize("domain", ["citations", "ads"])
def test_shipped_samples_are_five_labelled_and_three_hundred_others(domain):
    few, gold = (read_labelled(EXAMPLES / domain / f"{name}.tsv") for name in ("few", "gold"))
    assert (len(few), len(read_texts(EXAMPLES / domain / "text.txt")), len(gold)) == (5, 300, 100)
    shown, all_fields = ({label for text in some for label in text.labels} for some in (few, gold))
    assert shown >= all_fields


def accuracy(folder, tmp_path, *settings):
    model, out, scores = (str(tmp_path / name) for name in ("model", "out.tsv", "scores.json"))
    few, text, gold = (str(folder / name) for name in ("few.tsv", "text.txt", "gold.tsv"))
    for command in (
        ["train", str(folder / "rules.toml"), "--labelled", few, "--unlabelled", text, "--save", model, *settings],
        ["predict", "--model", model, gold, "-o", out, "--force"],
    ):
        run("extract", *command, "--quiet")
    run("evaluate", gold, out, "-o", scores, "--json")
    return json.loads((tmp_path / "scores.json").read_text())["accuracy"]


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert not end.value.code


@pytest.mark.slow
def test_training_on_the_shipped_citations_is_no_worse_than_its_own_hmm_and_a_plain_one(tmp_path):
    folder = EXAMPLES / "citations"
    default = accuracy(folder, tmp_path)
    assert default >= accuracy(folder, tmp_path, "--model-kind", "hmm")
    few, many = read_labelled(folder / "few.tsv"), read_texts(folder / "text.txt")
    plain = Extractor(folder / "rules.toml", model_kind="hmm", back_off=0.0, usual_fields=False)
    assert default >= plain.fit(few, unlabelled=many).score(read_labelled(folder / "gold.tsv"))
