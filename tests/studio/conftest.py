"""A project folder, and a studio over it in a thread of this process."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn", reason="no uvicorn: pip install 'trellis-learn[serve]'")

from tests.serve.conftest import Served, serving
from trellis.studio.server import Studio

RULES = r"""labels = ["NAME", "YEAR", "O"]

[[rule]]
name = "years"
if_word_matches = '^(19|20)\d\d$'
then_label = "YEAR"
strength = "learned"

# told by Ann
[[rule]]
name = "names begin"
if_token = "first"
then_label = "NAME"
"""
TEXTS = ["Cy Fox 1987", "Dee Roe , 2003", "Ann , 1999", "Bob Ray 2001", "Eve 1990 and 1991", "no year", "Flo Lee 2020"]
TOKEN = "a-token-of-the-tests"


class Asked(Served):
    """A studio, and how its page asks it."""

    def get(self, name, **asked):
        from urllib.parse import urlencode

        status, _, answer = self.ask("GET", f"/{TOKEN}/api/{name}?{urlencode(asked)}")
        assert status == 200, answer
        return answer

    def post(self, name, status=200, **given):
        found, _, answer = self.ask("POST", f"/{TOKEN}/api/{name}", given)
        assert found == status, answer
        return answer

    def row(self, number=0):
        return self.get("texts", first=number, n=1)["texts"][0]

    def label(self, number, *labels, status=200):
        row = self.row(number)
        return self.post("label", status, id=row["id"], labels=list(labels), version=row["version"])


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "project"
    made.mkdir()
    (made / "rules.toml").write_text(RULES)
    (made / "text.txt").write_text("".join(line + "\n" for line in TEXTS))
    return made


@pytest.fixture
def app(folder):
    return Studio(folder, TOKEN)


@pytest.fixture
def studio(app):
    with serving(app.app) as served:
        yield Asked(served.port)
