"""A project folder, and a studio over it in a thread of this process."""

from __future__ import annotations

import pytest

pytest.importorskip("uvicorn", reason="no uvicorn: pip install 'trellis-learn[serve]'")

from tests.browser import BROWSER
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
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 420, "height": 800}


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


# in a browser


@pytest.fixture(scope="session")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """Pages of an address; whatever the console complains of fails the test."""
    contexts, complaints = [], []

    def open_page(port, viewport=WIDE, scheme="light", **more):
        context = chromium.new_context(viewport=viewport, color_scheme=scheme, accept_downloads=True, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"http://127.0.0.1:{port}/{TOKEN}/")
        return page

    yield open_page
    for context in contexts:
        context.close()
    expected = ("409", "ERR_CONNECTION_REFUSED", "ERR_FAILED")  # another tab was faster; the studio does not answer
    assert [one for one in complaints if not any(known in one for known in expected)] == []


def drag(page, first, last):
    """Select words with the mouse."""
    find = "at => document.querySelector(`#tokens .token[data-at='${at}']`).getBoundingClientRect().toJSON()"
    page.wait_for_selector("#tokens .token")
    one, other = (page.evaluate(find, at) for at in (first, last))
    page.mouse.move(one["x"] + 2, one["y"] + one["height"] / 2)
    page.mouse.down()
    page.mouse.move(other["x"] + other["width"] / 2, other["y"] + other["height"] / 2, steps=3)
    page.mouse.up()


def saved(page, n):
    """Wait until the page says that so many texts are labelled."""
    page.wait_for_function("n => document.querySelector('#status').textContent.startsWith(n + ' of')", arg=str(n))
