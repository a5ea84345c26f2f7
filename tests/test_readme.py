"""The Python examples of README.md run, in order, in one session, as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"
CODE_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_readme_examples_run(tmp_path, monkeypatch):
    text = README.read_text(encoding="utf-8")
    blocks = list(CODE_BLOCK.finditer(text))
    assert blocks, "README.md has no ```python block left"
    monkeypatch.chdir(tmp_path)  # an example may write a file
    session: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        # Blank lines in front keep the line numbers of a traceback those of README.md.
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block.group(1), str(README), "exec"), session)
