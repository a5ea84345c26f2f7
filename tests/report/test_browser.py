"""The pages of ``trellis report`` in a real browser, wide and narrow, light and dark."""

from __future__ import annotations

import re

import pytest

from tests.browser import needs_browser, seen
from tests.report import models
from trellis.report.pages import report

pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture(scope="module")
def page():
    aligner, pairs, gold = models.aligned(30)
    return report(aligner, pairs, gold=gold)


@pytest.mark.parametrize("width", [1200, 500])
def test_a_page_is_whole_fits_and_complains_of_nothing(page, tmp_path, width):
    # Measured by the browser itself: does anything make the page wider than the screen, and are its colours those of
    # the reader's system?
    probe = (
        "<script>document.title = [document.documentElement.scrollWidth, window.innerWidth, "
        "getComputedStyle(document.body).backgroundColor].join(' ')</script>"
    )
    path = tmp_path / "page.html"
    path.write_text(page.html().replace("</body>", probe + "</body>"), encoding="utf-8")
    document, complaints = seen(path.as_uri(), width=width, dark=width < 600, folder=tmp_path / "profile")
    assert complaints == []
    needed, there, ground = re.search(r"<title>(\d+) (\d+) (.*)</title>", document).groups()
    assert int(needed) <= int(there)
    assert ground == ("rgb(20, 25, 29)" if width < 600 else "rgb(255, 255, 255)")
    assert document.count("<section") == len(page.sections)
    assert document.count("<svg") >= 5
