"""The pages of ``trellis report`` in a real browser, wide and narrow, where one is installed (Debian: chromium)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from tests.report import models
from trellis.report.pages import report

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to see pages as readers do"),
]


def seen(path, *, width, dark=False, folder):
    """The document as the browser has it, and what it complained of."""
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--enable-logging=stderr",
        f"--window-size={width},1200", *scheme, "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, env={**os.environ, "HOME": str(folder)}
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.parametrize("width", [1200, 390])
def test_a_page_is_whole_fits_and_complains_of_nothing(tmp_path, width):
    aligner, pairs, gold = models.aligned(30)
    page = report(aligner, pairs, gold=gold)
    # Measured by the browser itself: does anything make the page wider than the screen?
    probe = "<script>document.title = document.documentElement.scrollWidth + ' of ' + window.innerWidth</script>"
    path = tmp_path / "page.html"
    path.write_text(page.html().replace("</body>", probe + "</body>"), encoding="utf-8")
    document, complaints = seen(path, width=width, dark=width < 500, folder=tmp_path / "profile")
    assert complaints == []
    needed, there = map(int, re.search(r"<title>(\d+) of (\d+)</title>", document).groups())
    assert needed <= there
    assert document.count("<section") == len(page.sections)
    assert document.count("<svg") >= 5
