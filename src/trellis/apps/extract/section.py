"""Report of an extractor: rules, their effect on labels, fields against gold, errors in context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from trellis.apps.extract.confidence import field_probabilities
from trellis.apps.extract.extractor import Extractor
from trellis.apps.extract.field_errors import Mistake, confusions
from trellis.apps.extract.relaxed import predict_relaxed
from trellis.constraints.penalties import with_penalties
from trellis.data.document import Document, fields_of
from trellis.errors import counted
from trellis.metrics.fields import score_fields
from trellis.models.inference import LARGEST_DUAL
from trellis.report.effects import Effects, effects, effects_table
from trellis.report.judged import Judged, curves
from trellis.report.page import Page, heats, largest, percent, table, text

MOST = 100
"""Number of texts whose posteriors are projected for the table of rules."""
SHOWN = 2
LONGEST = 24
"""Maximum number of tokens in a text whose posteriors are shown."""
AROUND = 45


def fields_page(extractor: Extractor, texts: Sequence[Document], _: Any) -> Page:
    """See :func:`trellis.report.pages.report`."""
    found = predict_relaxed(extractor, texts)
    known = [n for n, t in enumerate(texts) if len(t) and t.labels and None not in t.labels]
    n_rules = len(extractor.constraints_)
    page = Page(
        "Fields",
        f"{counted(len(texts), 'text')}, {len(known)} with labels; {counted(n_rules, 'rule')}; {extractor.method_}",
    )
    if known:
        _against_gold(page, extractor, [texts[n] for n in known], [found.labels[n] for n in known])
    obeying = [t for n, t in enumerate(texts) if len(t) and n not in {*found.broken, *found.unruled, *found.lost}][
        :MOST
    ]
    if extractor.constraints_ and obeying:
        did = _projected(extractor, obeying)
        page.add(
            "Effect of the constraints",
            text(f"How the rules change the posteriors of {counted(len(obeying), 'text')}."),
            effects_table(did.constraints),
        )
        _posteriors(page, extractor, obeying, did)
    if known:
        page.add("Largest errors", _errors([texts[n] for n in known], [found.labels[n] for n in known]))
    return page


def _projected(extractor: Extractor, texts: Sequence[Document]) -> Effects:
    ccm = extractor.ccm_
    rho = np.minimum([ccm.penalties_[c.name] for c in extractor.constraints_], LARGEST_DUAL)
    batch = extractor.batch(texts, labels=False)
    constraints = with_penalties(extractor.constraints_, rho)
    return effects(ccm.model_, constraints, batch, float(getattr(ccm.model_, "copies", 1)), tolerance=0.01)


def _posteriors(page: Page, extractor: Extractor, texts: Sequence[Document], did: Effects) -> None:
    """The short texts whose posteriors the rules change most, token by token."""
    batch = extractor.batch(texts, labels=False)
    grid = extractor.ccm_.model_.parts(batch).grid()
    names = list(extractor.label_names_)
    moved, both = [], {}
    for n, t in enumerate(texts):
        own = grid[batch.offsets[n] : batch.offsets[n + 1]]
        both[n] = did.before.at(own), did.after.at(own)
        change = float(np.abs(both[n][0] - both[n][1]).sum())
        if 3 < len(t) <= LONGEST and change > 0:
            moved.append((change, n))
    pieces = []
    for _, n in largest(moved, SHOWN):
        said = f"the projection: {texts[n].text}"
        ways = dict(zip((f"before {said}", f"after {said}"), both[n], strict=True))
        pieces += heats(names, [str(w) for w in texts[n].tokens], ways, 0.1)
    page.add(
        "Label posteriors",
        *(
            [text("Posteriors of the short texts that the rules change most. Labels below 0.1 are omitted.")]
            if pieces
            else []
        ),
        *pieces,
    )


def _against_gold(page: Page, extractor: Extractor, texts: Sequence[Document], labels: Sequence[list[str]]) -> None:
    truth = [t.labels or () for t in texts]
    plain = extractor.predict(texts, constrained=False)
    rows = []
    for name, own in (("model alone", plain), ("under the rules", labels)):
        scores = score_fields(truth, own)
        rows.append((name, percent(scores.accuracy), percent(scores.total.f1)))
    judged = {
        "model alone": _judged(extractor, texts, plain, False),
        "under the rules": _judged(extractor, texts, labels, True),
    }
    page.add(
        f"{counted(len(texts), 'text')} against gold",
        table(("", "token accuracy", "field F1"), rows),
        *curves(judged, "Fields with at least the given probability"),
    )


def _judged(extractor: Extractor, texts: Sequence[Document], labels: Sequence[Sequence[str]], ruled: bool) -> Judged:
    sure = field_probabilities(extractor, texts, labels, constrained=ruled)
    pairs, n_gold = [], 0
    for t, own, probability in zip(texts, labels, sure, strict=True):
        gold = {(f.label, f.first, f.last) for f in fields_of(t, t.labels or ())}
        n_gold += len(gold)
        pairs += [(p, (f.label, f.first, f.last) in gold) for f, p in zip(fields_of(t, own), probability, strict=True)]
    return Judged.of(pairs, n_gold)


def _errors(texts: Sequence[Document], labels: Sequence[list[str]]) -> str:
    answers = [replace(t, labels=tuple(own)) for t, own in zip(texts, labels, strict=True)]
    made = []
    for one in confusions(texts, answers)[:6]:
        places = "".join(f"<li>{_context(texts[m.text], m)}</li>" for m in one.mistakes[:3])
        size = f"{counted(one.tokens, 'token')} in {counted(len(one.mistakes), 'place')}"
        made.append(f"<h3>{escape(one.gold)} taken for {escape(one.found)}: {size}</h3><ul>{places}</ul>")
    return "\n".join(made)


def _context(t: Document, mistake: Mistake) -> str:
    start, end = t.offsets[mistake.first][0], t.offsets[mistake.last - 1][1]
    before, after = t.text[max(start - AROUND, 0) : start], t.text[end : end + AROUND]
    cut = "…" if start > AROUND else "", "…" if end + AROUND < len(t.text) else ""
    return f"{cut[0]}{escape(before)}<mark>{escape(t.text[start:end])}</mark>{escape(after)}{cut[1]}"
