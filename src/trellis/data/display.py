"""What notebooks show of documents: fields with their probabilities, trees as arcs, relations, votes.

Everything takes the colour of the text around it and transparent backgrounds, so that it fits light and dark pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from trellis.data.bio import runs

if TYPE_CHECKING:
    from trellis.data.document import Document, Span

HUES = (210, 30, 140, 330, 270, 55, 180, 0, 100, 300)
LONGEST = 2000
"""Characters, and TOKENS tokens of a tree or of votes, that are shown."""
TOKENS = 60
BOX = "font-family:system-ui,sans-serif;font-size:14px;line-height:2.1;max-width:60em;overflow-x:auto;color:inherit"
SMALL = "font-size:11px;opacity:.75"


def document_html(document: Document) -> str:
    """A document as HTML."""
    spans = document.spans
    if spans is None and document.labels is not None:
        spans = [document.span(first, last, label) for label, first, last in runs(document.labels)]
    names = list(dict.fromkeys(span.label or "" for span in spans or ()))
    hues = {name: HUES[k % len(HUES)] for k, name in enumerate(names)}
    tree = document.heads is not None and any(head is not None for head in document.heads)
    parts = [tree_svg(document)] if tree else [_text(document, spans or (), hues)]
    if document.relations:
        parts.append(_relations(document))
    if document.votes:
        parts.append(_votes(document))
    return f'<div style="{BOX}">{"".join(parts)}</div>'


def _text(document: Document, spans: Sequence[Span], hues: dict[str, int]) -> str:
    """The text with its spans marked; of spans that overlap the first, the others listed below."""
    made, at, others = "", 0, []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        if span.start < at:
            others.append(span)
            continue
        made += escape(document.text[at : span.start]) + _mark(span, hues[span.label or ""])
        at = span.end
        if at > LONGEST:
            break
    rest = document.text[at:]
    cut = len(rest) > LONGEST
    made += escape(rest[:LONGEST]) + ("…" if cut else "")
    below = "".join(f"<div>{_mark(span, hues[span.label or ''])}</div>" for span in others)
    return f'<div style="white-space:pre-wrap;unicode-bidi:plaintext">{made}</div>{below}'


def _mark(span: Span, hue: int) -> str:
    share = "" if span.probability is None else f" {100 * span.probability:.0f}\u2009%"
    style = (
        f"background:hsla({hue},80%,55%,.22);border-bottom:2px solid hsl({hue},65%,50%);border-radius:3px;"
        "padding:1px 3px;color:inherit"
    )
    label = f'<span style="{SMALL};margin:0 3px 0 5px;font-weight:600">{escape(span.label or "")}</span>'
    return f'<mark style="{style}">{escape(span.text)}{label}<span style="{SMALL}">{share}</span></mark>'


def _relations(document: Document) -> str:
    spans = document.spans or ()
    rows = []
    for r in document.relations or ():
        share = "" if r.probability is None else f" {100 * r.probability:.0f}\u2009%"
        one, other = escape(spans[r.first].text), escape(spans[r.second].text)
        rows.append(
            f'<div style="line-height:1.6">{one} <span style="{SMALL}">—{escape(r.label)}{share}→</span> {other}</div>'
        )
    return f'<div style="margin-top:6px">{"".join(rows)}</div>'


def _votes(document: Document) -> str:
    cell = "padding:1px 6px;text-align:left;white-space:nowrap;background:none"
    shown = range(min(len(document), TOKENS))
    head = "".join(
        f'<th style="{cell};font-size:13px;font-weight:500">{escape(document.tokens[t][:LONGEST])}</th>' for t in shown
    )
    rows = "".join(
        f'<tr style="background:none"><th style="{cell};{SMALL}">{escape(name)}</th>'
        + "".join(f'<td style="{cell};{SMALL}">{escape(own[t] or "·")}</td>' for t in shown)
        + "</tr>"
        for name, own in document.votes.items()
    )
    table = "border-collapse:collapse;line-height:1.5;color:inherit;margin-top:6px"
    return f'<table style="{table}"><tr style="background:none"><th></th>{head}</tr>{rows}</table>'


def tree_svg(document: Document) -> str:
    """The heads of a document as arcs over its tokens."""
    n = min(len(document), TOKENS)
    relations, tags = document.columns.get("deprel"), document.labels or document.columns.get("upos") or ()
    tokens = [document.tokens[t] for t in range(n)]
    widths = [max(8.5 * len(w), 7 * len(str(tags[t] or "")) if tags else 0, 24) + 16 for t, w in enumerate(tokens)]
    centres = [sum(widths[:t]) + widths[t] / 2 for t in range(n)]
    arcs = [(t, head - 1) for t, head in enumerate((document.heads or ())[:n]) if head and head <= n]
    levels: dict[tuple[int, int], int] = {}
    for t, h in sorted(arcs, key=lambda arc: abs(arc[0] - arc[1])):
        low, high = min(t, h), max(t, h)
        inside = [level for (a, b), level in levels.items() if min(a, b) < high and max(a, b) > low]
        levels[t, h] = 1 + max(inside, default=0)
    top = 22 * max(levels.values(), default=1) + 22
    drawn = []
    for (t, h), level in levels.items():
        side = 5 if t < h else -5
        x, y, high = centres[t], centres[h] - side, top - 22 * level
        drawn.append(
            f'<path d="M{y:.0f},{top} C{y:.0f},{high} {x:.0f},{high} {x:.0f},{top}" fill="none" stroke="currentColor" '
            f'stroke-opacity=".55"/><path d="M{x - 3:.0f},{top - 7} L{x + 3:.0f},{top - 7} L{x:.0f},{top}" '
            'fill="currentColor" fill-opacity=".7"/>'
        )
        if relations is not None:
            drawn.append(_word((x + y) / 2, top - 0.75 * 22 * level - 4, relations[t], 10, 0.8))
    for t, head in enumerate((document.heads or ())[:n]):
        if head == 0:
            drawn.append(_word(centres[t], top + 47, "root" if relations is None else relations[t], 10, 0.8))
            drawn.append(
                f'<path d="M{centres[t] - 14:.0f},{top + 36} h28" stroke="currentColor" stroke-opacity=".55"/>'
            )
    for t, token in enumerate(tokens):
        drawn.append(_word(centres[t], top + 17, token, 14, 1.0))
        if tags:
            drawn.append(_word(centres[t], top + 33, str(tags[t] or ""), 10, 0.65))
    size = f'width="{sum(widths):.0f}" height="{top + 54}"'
    return f'<svg {size} style="color:inherit;font-family:inherit" role="img">{"".join(drawn)}</svg>'


def _word(x: float, y: float, text: str, size: int, opacity: float) -> str:
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" font-size="{size}" fill="currentColor" '
        f'fill-opacity="{opacity}">{escape(text)}</text>'
    )


def line_svg(values: Sequence[float], about: str, *, width: int = 360, height: int = 110) -> str:
    """A line through values, the first and the last of which are written beside it."""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    left, right, top, bottom = 12, width - 90, 12, height - 26
    xs = [left + (right - left) * k / max(len(values) - 1, 1) for k in range(len(values))]
    ys = [bottom - (bottom - top) * (value - low) / span for value in values]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    dots = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="hsl(210,70%,50%)"/>' for x, y in zip(xs, ys, strict=True)
    )
    text = 'fill="currentColor" font-size="11"'
    return (
        f'<svg width="{width}" height="{height}" style="color:inherit;font-family:system-ui,sans-serif" role="img">'
        f'<polyline points="{points}" fill="none" stroke="hsl(210,70%,50%)" stroke-width="2"/>{dots}'
        f'<text x="{right + 8}" y="{ys[-1] + 4:.1f}" {text}>{values[-1]:.6g}</text>'
        f'<text x="{left}" y="{height - 8}" {text} fill-opacity=".7">{escape(about)}</text></svg>'
    )


def table_html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of strings."""
    cell = "padding:3px 10px 3px 0;text-align:left;vertical-align:top;border-bottom:1px solid rgba(128,128,128,.3)"
    top = "".join(f'<th style="{cell}">{escape(one)}</th>' for one in head)
    made = "".join(f'<tr style="background:none">{_cells(row, cell)}</tr>' for row in rows)
    style = "border-collapse:collapse;font-family:system-ui,sans-serif;font-size:13px;color:inherit"
    return f'<table style="{style}"><tr style="background:none">{top}</tr>{made}</table>'


def _cells(row: Sequence[str], style: str) -> str:
    return "".join(f'<td style="{style}">{escape(one)}</td>' for one in row)
