"""The pages of learners of labels: constraints, label posteriors before and after them, labels against gold.

Views that agree show what each says by itself too, learners of margins their best labels with and without constraints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from trellis.constraints.penalties import with_penalties
from trellis.data.document import Document
from trellis.data.ragged import FloatArray
from trellis.errors import DataError, counted
from trellis.loop.schedule import gamma_at
from trellis.report.effects import effects, effects_table
from trellis.report.judged import Judged, curves
from trellis.report.page import Page, heats, largest, percent, table, text

SHOWN = 3
LONGEST = 14
COMMONEST = 8


def labels_page(learner: Any, data: Sequence[Any], gold: Any) -> Page:
    """See :func:`trellis.report.pages.report`."""
    inputs, words, truth = instances(data, gold)
    gamma = getattr(learner, "gamma", 1.0)
    gamma = gamma_at(1.0 if gamma is None else gamma, max(getattr(learner, "max_iter", 1) - 1, 0)) or 0.05
    return page_of_labels(
        getattr(learner, "model_", None) or learner, inputs, words, truth, constraints_of(learner), gamma
    )


def tags_page(tagger: Any, sentences: Sequence[Any], _: Any) -> Page:
    """Of a tagger, whose CRF sees words by its own features."""
    _, words, truth = instances(sentences, None)
    return page_of_labels(tagger.crf_, [tagger.described(own) for own in words], words, truth, (), 1.0)


def views_page(learner: Any, data: Sequence[Any], gold: Any) -> Page:
    """See :func:`trellis.report.pages.report`; sentences are given to every view, rows as a list of what each sees."""
    if learner.maps is not None:
        raise DataError("there is no report for views with different labels: use predict(X, by=number) for each")
    n_views = len(learner.models_)
    if isinstance(data[0], Document):
        inputs, words, truth = instances(data, gold)
        inputs = [inputs] * n_views
    else:
        _, words, truth = instances(data[0], gold)
        inputs = data
    page = page_of_labels(
        learner.model_, inputs, words, truth, list(learner.constraints), learner.gamma_ * learner.model_.copies
    )
    page.title = "Views that agree"
    page.about = (
        f"{len(words)} instances; {n_views} views; {len(learner.constraints)} constraints; γ = {learner.gamma_:g}"
    )
    _compare_views(page, learner, inputs, words, truth)
    return page


def margins_page(learner: Any, data: Sequence[Any], gold: Any) -> Page:
    """See :func:`trellis.report.pages.report`."""
    inputs, words, truth = instances(data, gold)
    rules = constraints_of(learner)
    ways = {"model alone": False, "under the constraints": True} if rules else {"best labels": True}
    found = {way: _names(learner.best_structures(inputs, constrained=ruled)) for way, ruled in ways.items()}
    page = Page("Margins", f"{len(words)} instances; {len(rules)} constraints; {type(learner).__name__}")
    rows = []
    for way, labels in found.items():
        pairs = [
            pair
            for own, y in zip(labels, truth, strict=True)
            for pair in zip(own, y, strict=True)
            if pair[1] is not None
        ]
        if pairs:
            rows.append((way, len(pairs), percent(sum(a == b for a, b in pairs) / len(pairs))))
    if rows:
        page.add("Labels against gold", table(("", "labels", "right"), rows))
    if rules:
        note = text("Predictions satisfy these constraints, or pay their penalty for each violation.")
        page.add("Constraints", note, table(("name", "meaning"), [(c.name, c.describe()) for c in rules], words=(0, 1)))
    last = found[way]
    page.add("Words of each label", words_table(words, last))
    page.add("Largest errors", *confusions(words, truth, last))
    return page


def instances(data: Sequence[Any], gold: Any) -> tuple[Any, list[list[str]], list[list[str | None]]]:
    """What the model is given, the words that are shown, and gold labels: of sentences, or of rows, a slot each."""
    if isinstance(data[0], Document):
        given = [s for s in data if len(s)]
        words = [list(s.tokens) for s in given]
        return words, words, [list(s.labels) if s.labels is not None else [None] * len(s) for s in given]
    truth = [None] * len(data) if gold is None else gold
    return data, [[f"row {n}"] for n in range(len(data))], [[None if y is None else str(y)] for y in truth]


def constraints_of(learner: Any) -> list[Any]:
    """The constraints of a learner, with learned prices."""
    given = list(getattr(learner, "constraints", ()))
    if getattr(learner, "has_penalties", False):
        return with_penalties(given, np.array([learner.penalties_[c.name] for c in given]))
    return given


def page_of_labels(
    model: Any, inputs: Any, words: Sequence[Sequence[str]], gold: Any, constraints: Sequence[Any], gamma: float
) -> Page:
    """Labels against gold, what constraints did, the words of each label, and posteriors of what changed most."""
    batch = model.encode(inputs)
    did = effects(model, constraints, batch, gamma)
    p, q = (slots(model.probabilities(batch, [one])) for one in (did.before, did.after))
    names = [str(name) for name in model.label_names_]
    page = Page("Labels", f"{len(words)} instances; {len(constraints)} constraints; γ = {gamma:g}")
    if {y for own in gold for y in own} & set(names):
        ways = {"before": p, "after": q} if constraints else {"labels": p}
        _against_gold(page, names, words, gold, ways)
    if constraints:
        page.add("Effect of the constraints", effects_table(did.constraints))
    page.add("Words of each label", words_table(words, [[names[k] for k in own.argmax(axis=1)] for own in q]))
    moved = [
        (float(np.abs(a - b).sum()), n)
        for n, (a, b, w) in enumerate(zip(p, q, words, strict=True))
        if 1 < len(w) <= LONGEST
    ]
    pieces = []
    for _, n in largest(moved, SHOWN):
        both = {"before the projection": p[n], "after": q[n]}
        pieces += heats(names, words[n], both if constraints else {"posteriors": p[n]}, 0.05)
    page.add("Label posteriors", *pieces)
    return page


def slots(posteriors: Any) -> list[FloatArray]:
    """(n_slots, n_labels) of every instance; a row of features has one slot."""
    return list(posteriors) if isinstance(posteriors, list) else list(np.asarray(posteriors)[:, None, :])


def words_table(words: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]) -> str:
    """The commonest words of each label; nothing of rows."""
    if all(len(own) == 1 for own in words):
        return ""
    found: dict[str, Counter[str]] = {}
    for own, names in zip(words, labels, strict=True):
        for word, name in zip(own, names, strict=True):
            found.setdefault(name, Counter())[word] += 1
    rows = [
        (name, sum(own.values()), ", ".join(f"{word} ({n})" for word, n in own.most_common(COMMONEST)))
        for name, own in sorted(found.items())
    ]
    return table(("label", "tokens", "most frequent words"), rows, words=(0, 2))


def _against_gold(page: Page, names: Sequence[str], words: Any, gold: Any, ways: dict[str, Any]) -> None:
    judged, rows = {}, []
    for way, posteriors in ways.items():
        found = [[(float(v.max()), names[int(v.argmax())]) for v in own] for own in posteriors]
        pairs = [
            (share, label == y)
            for own, truth in zip(found, gold, strict=True)
            for (share, label), y in zip(own, truth, strict=True)
            if y is not None
        ]
        judged[way] = Judged.of(pairs, len(pairs))
        rows.append((way, percent(float(judged[way].right.mean()))))
    page.add(
        f"{judged[way].n_gold} labels against gold",
        table(("most probable label of each token", "right"), rows),
        *curves(judged, "Labels with at least the given probability"),
    )
    page.add("Largest errors", *confusions(words, gold, [[label for _, label in own] for own in found]))


def confusions(words: Any, gold: Any, found: Any) -> list[str]:
    """Labels that are taken for others, the commonest first, each with places in context."""
    where: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for n, (own, labels) in enumerate(zip(gold, found, strict=True)):
        for t, (y, label) in enumerate(zip(own, labels, strict=True)):
            if y is not None and y != label:
                where.setdefault((y, label), []).append((n, t))
    made = []
    for (y, label), places in sorted(where.items(), key=lambda one: -len(one[1]))[:6]:
        shown = "".join(f"<li>{_context(words[n], t)}</li>" for n, t in places[:3])
        made.append(f"<h3>{escape(y)} taken for {escape(label)}: {counted(len(places), 'token')}</h3><ul>{shown}</ul>")
    return made


def _context(words: Sequence[str], at: int) -> str:
    before, after = " ".join(words[max(at - 6, 0) : at]), " ".join(words[at + 1 : at + 7])
    return f"{escape(before)} <mark>{escape(words[at])}</mark> {escape(after)}"


def _compare_views(page: Page, learner: Any, inputs: Any, words: Sequence[Sequence[str]], gold: Any) -> None:
    names = [str(name) for name in learner.model_.label_names_]
    ways = {f"view {k}": slots(learner.predict_proba(inputs, by=k)) for k in range(len(learner.models_))}
    ways["agreed"] = slots(learner.predict_proba(inputs))
    best = {way: np.concatenate([own.argmax(axis=1) for own in found]) for way, found in ways.items()}
    flat = [y for own in gold for y in own]
    known = [n for n, y in enumerate(flat) if y in names]
    rows = []
    for way, labels in best.items():
        right = percent(float(np.mean([names[labels[n]] == flat[n] for n in known]))) if known else ""
        rows.append((way, right, percent(float(np.mean(labels == best["agreed"])))))
    views = list(ways.values())[:-1]
    apart = [
        (max(float(np.abs(one[n] - other[n]).sum()) for one in views for other in views), n)
        for n, own in enumerate(words)
        if len(own) <= LONGEST
    ]
    pieces = []
    for _, n in largest([one for one in apart if one[0] > 0], SHOWN):
        pieces += heats(names, words[n], {way: own[n] for way, own in ways.items()}, 0.05)
    page.add("Accuracy of each view", table(("", "right", "agreement"), rows))
    page.add("Largest disagreements", *pieces)


def _names(found: Any) -> list[list[str]]:
    """Labels by name, of sentences or of rows."""
    return [[str(y) for y in own] if isinstance(own, list | tuple) else [str(own)] for own in found]
