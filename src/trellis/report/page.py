"""One self-contained HTML page: sections of text, tables and pictures. No script, nothing from a network.

Pictures are matplotlib's, as SVG inside the page, their neutral colours replaced by variables of the page's style: so
they are light on dark where the reader's system is.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from trellis.data.files import FilePath, writing
from trellis.report.figure import FAINT, INK, LINE, as_written

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #22303c; --faint: #e3e7ea; --line: #c9ced2; --accent: #2f6f8f;
  --good: #2f7a3f; --bad: #b8452d; --soft: #5b6b78; }
@media (prefers-color-scheme: dark) { :root { --ground: #14191d; --ink: #dfe6ea; --faint: #2a333a; --line: #45515a;
  --accent: #6fb3d2; --good: #6cc07c; --bad: #ee8a74; --soft: #9aa9b4; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid
  var(--line); } h3 { font-size: 1rem; }
nav a { margin-right: 1rem; } a { color: var(--accent); }
.soft, figcaption { color: var(--soft); font-size: .875rem; text-align: left; max-width: 80ch; }
.wide { overflow-x: auto; margin: 1rem 0; } .above { margin: 1rem 0 0; } .above + .wide { margin-top: .3rem; }
table { border-collapse: collapse; font-size: .875rem; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--faint); vertical-align: top; }
th { font-weight: 600; } th:first-child, td:first-child, .words { text-align: left; }
td:not(.words) { white-space: nowrap; } td.words { min-width: 7rem; } td.words:nth-child(2) { min-width: 12rem; }
@media (max-width: 40rem) { td.words:first-child { max-width: 8rem; overflow-wrap: anywhere; } }
td.p { text-align: center; background: color-mix(in srgb, var(--accent) calc(var(--p) * 70%), transparent); }
figure { margin: 1rem 0; } figure svg { width: 100%; height: auto; } svg text { fill: var(--ink); }
mark { background: none; color: var(--bad); font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); }
""".strip()
NEUTRAL = {INK: "var(--ink)", FAINT: "var(--faint)", LINE: "var(--line)", "#000000": "var(--ink)", "#ffffff": "none"}
PIXELS = 1.25
"""Of the screen, per point of a figure at its full size."""


@dataclass
class Page:
    """A title, a line below it, a summary in sentences, and sections in order: (heading, HTML)."""

    title: str
    about: str
    sections: list[tuple[str, str]] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)

    def add(self, heading: str, *pieces: str) -> None:
        """A section, unless there is nothing in it."""
        if any(pieces):
            self.sections.append((heading, "\n".join(pieces)))

    def html(self) -> str:
        links = "".join(f'<a href="#s{n}">{escape(h)}</a> ' for n, (h, _) in enumerate(self.sections))
        body = "\n".join(
            f'<section id="s{n}">\n<h2>{escape(h)}</h2>\n{b}\n</section>' for n, (h, b) in enumerate(self.sections)
        )
        return (
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n<h1>{escape(self.title)}</h1>\n"
            f'<p class="soft">{escape(self.about)}</p>\n{self._summary()}<nav>{links}</nav>\n{body}\n</body>\n</html>\n'
        )

    def _repr_html_(self) -> str:
        frame = "width:100%;height:40em;border:1px solid rgba(128,128,128,.3)"
        return (
            f'<iframe title="{escape(self.title)}" style="{frame}" sandbox="" srcdoc="{escape(self.html())}"></iframe>'
        )

    def _summary(self) -> str:
        items = "".join(f"<li>{escape(sentence)}</li>\n" for sentence in self.summary)
        return f"<ul>\n{items}</ul>\n" if items else ""

    def save(self, path: FilePath) -> None:
        """Write it, whole or not at all."""
        with writing(path) as out:
            out.write(self.html())


def text(words: str) -> str:
    """A paragraph."""
    return f"<p>{escape(words)}</p>"


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", words: Sequence[int] = (0,)) -> str:
    """Rows of cells, which are escaped; ``words`` : columns that hold text and not figures."""
    top = "".join(f"<th{_kind(i, words)}>{escape(h)}</th>" for i, h in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f"<td{_kind(i, words)}>{escape(str(cell))}</td>" for i, cell in enumerate(row)) + "</tr>\n"
        for row in rows
    )
    return (
        f'{_said(caption)}<div class="wide"><table><thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody></table></div>'
    )


def _said(caption: str) -> str:
    """Above the table and not in it: there it would be as wide as what is scrolled."""
    return f'<p class="soft above">{escape(caption)}</p>' if caption else ""


def _kind(column: int, words: Sequence[int]) -> str:
    return ' class="words"' if column in words else ""


def heat(rows: Sequence[str], columns: Sequence[str], values: Any, caption: str) -> str:
    """A table of probabilities (n_rows, n_columns), the darker the likelier."""
    head = "".join(f"<th>{escape(c)}</th>" for c in columns)
    body = "".join(
        f"<tr><td>{escape(row)}</td>"
        + "".join(f'<td class="p" style="--p:{v:.2f}">{v:.2f}</td>' for v in own)
        + "</tr>\n"
        for row, own in zip(rows, values, strict=True)
    )
    return (
        f'{_said(caption)}<div class="wide"><table><thead><tr><th></th>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>"
    )


def heats(names: Sequence[str], words: Sequence[str], ways: Mapping[str, Any], least: float) -> list[str]:
    """A :func:`heat` for each way of labelling words, (n_words, n_names) by its title; names that never reach ``least``
    are left out of all."""
    used = [k for k in range(len(names)) if max(values[:, k].max() for values in ways.values()) > least]
    return [heat([names[k] for k in used], words, values[:, used].T, title) for title, values in ways.items()]


def largest(numbered: Iterable[tuple[float, int]], n: int) -> list[tuple[float, int]]:
    """The n largest, by their numbers where they are equal."""
    return sorted(numbered, key=lambda one: (-one[0], one[1]))[:n]


def picture(figure: Any, caption: str = "") -> str:
    """A matplotlib figure as part of the page; wide ones are scrolled on small screens, never shrunk beyond reading."""
    import matplotlib

    as_written(figure)
    figure.patch.set_visible(False)
    for axes in figure.axes:
        axes.patch.set_visible(False)
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "trellis", "font.family": "sans-serif"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    drawn = out.getvalue()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"<metadata>.*?</metadata>", "", drawn, flags=re.S)
    for colour, variable in NEUTRAL.items():
        drawn = drawn.replace(colour, variable)
    drawn = re.sub(r"font: (\d[\d.]*)px [^;\"]*", r"font: \1px system-ui, sans-serif", drawn)
    width = round(72 * PIXELS * figure.get_figwidth())
    drawn = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", drawn, count=1)
    drawn = re.sub(
        r'<svg ([^>]*?)height="[^"]*"',
        rf'<svg \1style="max-width:{width}px;min-width:{round(0.62 * width)}px"',
        drawn,
        count=1,
    )
    title = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure>{title}<div class="wide">{drawn}</div></figure>'


def percent(share: float) -> str:
    """One digit behind the point.

    >>> percent(0.9649)
    '96.5\xa0%'
    """
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"
