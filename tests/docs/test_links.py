"""Links lead somewhere, the changelog is short, and its version is that of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.sandbox import ROOT
from trellis import __version__

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def without_code(path: Path) -> str:
    text = re.sub(r"^( *)```.*?^\1```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(path: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub and the site make them."""
    text = re.sub(r"^( *)```.*?^\1```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def dead_links(path: Path) -> list[str]:
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(path)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        to = (path.parent / name).resolve() if name else path
        if not to.exists() or (anchor and anchor not in anchors(to)):
            dead.append(link)
    return dead


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_internal_links_lead_to_a_file_and_a_heading(path):
    assert dead_links(path) == []


def test_a_dead_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One title\n[a](page.md#one-title) [b](page.md#other) [c](gone.md) `[d](code.md)`\n")
    assert dead_links(page) == ["page.md#other", "gone.md"]


def test_the_changelog_has_at_most_forty_entries_of_one_line():
    entries = re.findall(r"^- (.+)\n(?=- |\n|\Z)", CHANGELOG, flags=re.M)
    assert len(entries) == len(re.findall(r"^\s*- ", CHANGELOG, flags=re.M)) <= 40
    assert max(map(len, entries)) <= 158


def test_changelog_citation_and_package_have_one_version():
    assert re.search(r"^## \[(\d.+?)\] - \d{4}-\d\d-\d\d$", CHANGELOG, flags=re.M)[1] == __version__
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_readme_is_read_in_a_few_minutes():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 150
