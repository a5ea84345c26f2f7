"""A real browser without a screen, where one is installed (Debian: chromium)."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in NAMES if (found := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no browser: install chromium to see pages as readers do")


def seen(address, *, width, folder, dark=False, wait=0):
    """The document as the browser has it, and what its console complained of; wait : milliseconds for its scripts."""
    more = ["--blink-settings=preferredColorScheme=0"] * dark + [f"--virtual-time-budget={wait}"] * bool(wait)
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}", "--enable-logging=stderr",
        f"--window-size={width},1200", *more, "--dump-dom", address,
    ]  # fmt: skip
    home = {**os.environ, "HOME": str(folder)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=home)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
