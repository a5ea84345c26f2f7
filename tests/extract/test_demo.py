"""The demo runs on the shipped samples and shows what it says it shows."""

import re
import runpy

from tests.extract.samples import EXAMPLES
from trellis.tasks.extract_files import read_labelled, read_texts


def test_demo_shows_that_rules_raise_accuracy(capsys):
    runpy.run_path(str(EXAMPLES / "demo_extract.py"), run_name="__main__")
    shown = capsys.readouterr().out
    hard_em, codl = (
        [float(x) for x in re.findall(rf"{name}\s+([0-9.]+)", shown)] for name in (r"\(hard EM\)", "rules, CoDL")
    )
    assert len(hard_em) == len(codl) == 2
    assert all(b > a + 5 for a, b in zip(hard_em, codl, strict=True))
    assert shown.count("without:") == shown.count("with:   ") == 4


def test_shipped_samples_are_five_labelled_and_three_hundred_others():
    for domain in ("citations", "ads"):
        assert len(read_labelled(EXAMPLES / domain / "few.tsv")) == 5
        assert len(read_texts(EXAMPLES / domain / "text.txt")) == 300
        assert len(read_labelled(EXAMPLES / domain / "gold.tsv")) == 100
