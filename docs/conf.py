"""Configuration of the site that `make docs` builds with Sphinx, MyST and Furo (docs/decisions/site.md says why)."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

from command_reference import reference  # noqa: E402
from docstrings import as_restructured  # noqa: E402

from trellis import __version__  # noqa: E402

project = "Trellis"
author = copyright = "The Trellis authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
highlight_language = "text"

html_theme = "furo"
html_title = "Trellis"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_show_search_summary = False  # it would be fetched, which a page that was opened from disk may not
html_theme_options = {"top_of_page_buttons": [], "navigation_with_keys": True}

napoleon_use_ivar = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "exclude-members": "not_saved, learned, restore"}
add_module_names = False


COMMANDS = "`make docs` lists all commands and options here.\n"


def setup(app):  # type: ignore[no-untyped-def]
    """Rewrite docstrings as reStructuredText, and generate the reference of the command line."""

    def rewrite(app, what, name, obj, options, lines):  # type: ignore[no-untyped-def]
        lines[:] = as_restructured(lines)

    def generate(app, name, source):  # type: ignore[no-untyped-def]
        if name == "command-line":
            assert COMMANDS in source[0]
            source[0] = source[0].replace(COMMANDS, reference())

    app.connect("autodoc-process-docstring", rewrite, priority=400)  # before napoleon
    app.connect("source-read", generate)
