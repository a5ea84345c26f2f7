"""Rules of the pages are read; in docs/constraints.md, file and Python beside it say the same, rule by rule."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.docs.blocks import blocks_of
from tests.docs.sandbox import ROOT
from trellis.constraints import parse_rules
from trellis.constraints.penalties import as_constraint
from trellis.errors import DataError

BLOCKS = blocks_of((ROOT / "docs" / "constraints.md").read_text(encoding="utf-8"))
PAIRS = [(a, b) for a, b in pairwise(BLOCKS) if a.language == "toml" and b.language == "python"]
IMPORTS = "\n".join(BLOCKS[0].lines)
RULES = [
    pytest.param("\n".join(block.lines), path.parent, id=f"{path.name} line {block.line}")
    for path in sorted((ROOT / "docs").rglob("*.md"))
    for block in blocks_of(path.read_text(encoding="utf-8"))
    if block.language == "toml"
]


@pytest.mark.parametrize("text, folder", RULES)
def test_every_rules_file_of_the_pages_is_read(text, folder):
    files = {"targets.tsv": "word\tcount\tA\tB\ngoal\t3\t0.9\t0.1\n", "journals.txt": "Annals of Roses\n"}
    for constraint in parse_rules(text, str(folder / "page.toml"), files).constraints:
        assert constraint.describe()


@pytest.mark.parametrize("toml, python", PAIRS, ids=[f"line {a.line}" for a, _ in PAIRS])
def test_the_file_and_the_python_beside_it_say_the_same(toml, python):
    session: dict[str, object] = {}
    exec(IMPORTS + "\n" + "\n".join(python.lines), session)
    by_file = [c.describe() for c in parse_rules("\n".join(toml.lines), "page").constraints]
    assert [as_constraint(c).describe() for c in session["rules"]] == by_file


def test_every_toml_block_has_its_python():
    assert len(PAIRS) == sum(block.language == "toml" for block in BLOCKS) > 7


def test_the_error_shown_on_the_page_is_that_of_its_first_rule():
    blocks = blocks_of((ROOT / "docs" / "rules.md").read_text(encoding="utf-8"))
    first = next(block for block in blocks if block.language == "toml")
    shown = next(block for block in blocks if block.language == "text")
    with pytest.raises(DataError) as raised:
        parse_rules("\n".join(first.lines).replace("if_word", "if_wrod"), "rules.toml")
    assert str(raised.value) == shown.lines[0]
