"""Commands, flags and values that do not exist are answered with those that were probably meant, and no others."""

from __future__ import annotations

import pytest

from tests.hostile.command import run

TYPED = {
    "suggest x": "Did you mean `trellis extract suggest`?",
    "convert x": "Did you mean `trellis extract convert`?",
    "sugest": "Did you mean `trellis extract suggest`?",
    "extract evaluate": "Did you mean `trellis evaluate`?",
    "extrct train": "Did you mean `trellis extract`?",
    "phrases": "Did you mean `trellis align phrases`?",
    "zzz": "No such command 'zzz'.",
    "extract train r.toml --lablled x": "Did you mean --labelled or --unlabelled?",
    "extract check --hepl": "Did you mean --help?",
    "extract predict --epochs 3": "No such option: --epochs",
    "extract train r.toml --epochs 3": "--epochs: use --rounds",
    "parse train x --epochs 3": "--epochs: use --passes",
    "extract convert few.tsv --to foo": "Invalid value for '--to': 'foo' is not one of 'brackets',",
    "extract suggest x -m m --texts 0": "it must be at least 1",
    "extract suggest x -m m --texts abc": "it must be a whole number",
}


@pytest.mark.parametrize("typed", TYPED)
def test_what_is_mistyped_is_answered_with_what_was_meant(typed, capfd):
    assert run(*typed.split()) == 2
    said = " ".join(line.strip("│ ") for line in capfd.readouterr().err.splitlines())
    assert TYPED[typed] in said
    assert "Value error" not in said
    assert "Input should" not in said
    assert ("Did you mean" in said) == ("Did you mean" in TYPED[typed])
