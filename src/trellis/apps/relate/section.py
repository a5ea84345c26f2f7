"""Report of a relater: rules, their effects, entities and relations against gold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trellis.apps.relate.relater import Relater
from trellis.data.document import Document
from trellis.data.related import is_labelled
from trellis.errors import counted
from trellis.metrics.fields import score_relations
from trellis.report.judged import Judged, curves
from trellis.report.page import Page, percent, table, text

MOST = 15
"""Changes and errors that are listed."""


def relations_page(relater: Relater, texts: Sequence[Document], _: Any) -> Page:
    """See :func:`trellis.report.pages.report`."""
    ways = {"model alone": relater.predict(texts, constrained=False), "under the rules": relater.predict(texts)}
    known = [n for n, t in enumerate(texts) if is_labelled(t)]
    page = Page("Entities and relations", f"{counted(len(texts), 'sentence')}, {len(known)} of them with labels")
    gold = [texts[n] for n in known]
    if known:
        rows, judged = [], {}
        for way, found in ways.items():
            own = [found[n] for n in known]
            scores = score_relations(gold, own)
            parts = (scores.entities, scores.relations, scores.strict)
            rows.append((way, *(percent(one.total.f1) for one in parts)))
            judged[way] = _judged(gold, own)
        page.add(
            f"{counted(len(known), 'sentence')} against gold",
            table(("F1", "entities", "relations", "with correct entities"), rows),
            *(
                curves(judged, "Relations with at least the given probability")
                if all(map(len, judged.values()))
                else []
            ),
        )
    page.add(
        "Rules",
        table(("rule", "meaning"), [(c.name, c.describe()) for c in relater.constraints_], words=(0, 1)),
    )
    changes = relater.explain(texts)
    listed = [
        (
            " ".join(texts[c.sentence].tokens),
            " – ".join(_mention(texts[c.sentence], k) for k in c.what),
            c.before,
            c.after,
            ", ".join(c.rules) or "(as a consequence of others)",
        )
        for c in changes[:MOST]
    ]
    head = ("sentence", "what", "before", "after", "rules violated by the model alone")
    note = text(f"{len(changes)} changed predictions; the first {len(listed)} of them.")
    page.add("What the rules changed", note, table(head, listed, words=range(5)) if listed else "")
    if known:
        page.add("Largest errors", _errors(gold, [ways["under the rules"][n] for n in known]))
    return page


def _mention(sentence: Document, number: int) -> str:
    return sentence.spans[number].text if sentence.spans else str(number)


def _relations(sentence: Document) -> set[tuple[str, str, str]]:
    return {
        (_mention(sentence, r.first), r.label, _mention(sentence, r.second)) for r in sentence.relations or ()
    }  # fmt: skip


def _judged(gold: Sequence[Document], found: Sequence[Document]) -> Judged:
    pairs = [
        (r.probability or 0.0, (_mention(own, r.first), r.label, _mention(own, r.second)) in _relations(true))
        for true, own in zip(gold, found, strict=True)
        for r in own.relations or ()
    ]
    return Judged.of(pairs, sum(len(_relations(true)) for true in gold))


def _errors(gold: Sequence[Document], found: Sequence[Document]) -> str:
    rows = []
    for true, own in zip(gold, found, strict=True):
        missed, wrong = _relations(true) - _relations(own), _relations(own) - _relations(true)
        if missed or wrong:
            listed = ("; ".join(" ".join(one) for one in sorted(some)) for some in (missed, wrong))
            rows.append((len(missed) + len(wrong), (" ".join(true.tokens), *listed)))
    rows.sort(key=lambda one: -one[0])
    return table(("sentence", "missed", "wrong"), [row for _, row in rows[:MOST]], words=range(3)) if rows else ""
