"""The reference has every public name; the built site opens from disk, complains of nothing and is searched."""

from __future__ import annotations

import doctest
import importlib
import re

import pytest

import trellis
from tests.browser import needs_browser, seen
from tests.docs.sandbox import ROOT

SITE = ROOT / "build" / "site"
API = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md"))
is_built = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="the site is not built: make docs")


@pytest.mark.parametrize("name", trellis._EXPORTS)
def test_every_public_name_is_in_the_reference(name):
    module = trellis._EXPORTS[name]
    assert re.search(rf":: {re.escape(module)}(\.{name})?$", API, re.M), f"docs/api lacks {module}.{name}"


def test_docstrings_are_rewritten_as_they_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    found = doctest.testmod(importlib.import_module("docstrings"))
    assert found.attempted
    assert not found.failed


@pytest.mark.slow
@needs_browser
@is_built
@pytest.mark.parametrize("page", ["index.html", "ideas.html", "api/tasks.html"])
def test_pages_of_the_site_open_from_disk_without_a_network(page, tmp_path):
    text = (SITE / page).read_text(encoding="utf-8")
    assert re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]*)", text) == []
    document, complaints = seen((SITE / page).as_uri(), width=500, dark=True, folder=tmp_path)
    assert complaints == []
    assert "<h1>" in document


@pytest.mark.slow
@needs_browser
@is_built
def test_the_site_is_searched_from_disk(tmp_path):
    document, complaints = seen(
        f"{(SITE / 'search.html').as_uri()}?q=posterior", width=1200, wait=8000, folder=tmp_path
    )
    assert complaints == []
    assert "ideas.html" in document[document.index("search-results") :]
