"""Predictions for all texts, including those that cannot satisfy the rules.

A hard rule that some text cannot meet (a year in every citation, and one that has no number) is no reason to lose the
others. Such a text gets the output that breaks the hard rules least: their price is so high that no score outweighs it,

    ŷ = argmax_y  score(y) − Σ_soft ρ d(y) − 10⁶ Σ_hard d(y)

and is named with the rules it breaks. All others get what :meth:`Extractor.predict` gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from trellis.apps.extract.extractor import Extractor
from trellis.constraints import Constraint
from trellis.constraints.penalties import INFINITE, as_constraint, soft_rows
from trellis.constraints.strength import Kind
from trellis.data.document import Document
from trellis.data.tokens import TextLike
from trellis.errors import ConstraintError, InfeasibleError
from trellis.models.inference import Inference

STRICT = (Kind.HARD, Kind.SLACK)


@dataclass
class Relaxed:
    """labels : of every token of every text, none for a text in ``lost``
    broken : number of a text -> names of the hard rules that its output breaks
    unruled : number of a text -> why the rules could not even be looked at in it; its output is the model's own
    lost : number of a text -> why it has no output at all
    inference : of which these are the labels, where all texts could obey the rules
    """

    labels: list[list[str]]
    broken: dict[int, list[str]] = field(default_factory=dict)
    unruled: dict[int, str] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    inference: Inference | None = None


def predict_relaxed(extractor: Extractor, texts: Iterable[TextLike], *, constrained: bool = True) -> Relaxed:
    """A label for every token of every text, and the rules that had to be broken for it."""
    texts = extractor.texts(texts)
    answer = Relaxed([[] for _ in texts])
    some = [number for number, text in enumerate(texts) if len(text)]
    if some:
        _predict(extractor, texts, some, answer, constrained)
    return answer


def _predict(
    extractor: Extractor, texts: Sequence[Document], numbers: list[int], answer: Relaxed, constrained: bool
) -> None:
    """Fill in the answer for some of the texts."""
    chosen = [texts[i] for i in numbers]
    try:
        found = extractor.infer(chosen, constrained=constrained)
        _take(answer, numbers, found.labels)
        answer.inference = found if len(chosen) == len(texts) else None
    except InfeasibleError as error:
        if not (constrained and _soften(extractor, texts, numbers, answer)):
            _divide(extractor, texts, numbers, answer, constrained, error)
    except ConstraintError as error:  # a pattern that does not end on some token
        if not constrained:
            raise
        _divide(extractor, texts, numbers, answer, constrained, error)


def _soften(extractor: Extractor, texts: Sequence[Document], numbers: list[int], answer: Relaxed) -> bool:
    """Let hard rules be broken at a price, keep the outputs that break some, and begin anew with the other texts."""
    chosen = [texts[i] for i in numbers]
    try:
        with _softened(extractor):
            found = extractor.predict(chosen)
        broken = _broken(extractor, chosen, found)
    except (InfeasibleError, ConstraintError):
        return False
    for place, names in broken.items():
        answer.labels[numbers[place]] = found[place]
        answer.broken[numbers[place]] = names
    rest = [place for place in range(len(numbers)) if place not in broken]
    if broken:
        if rest:
            _predict(extractor, texts, [numbers[place] for place in rest], answer, True)
    else:
        _take(answer, numbers, found)  # the search that may break rules has found what the strict one had not
    return True


def _divide(
    extractor: Extractor,
    texts: Sequence[Document],
    numbers: list[int],
    answer: Relaxed,
    constrained: bool,
    error: InfeasibleError | ConstraintError,
) -> None:
    """Look for the texts that are to blame, half by half."""
    if len(numbers) > 1:
        middle = len(numbers) // 2
        for half in (numbers[:middle], numbers[middle:]):
            _predict(extractor, texts, half, answer, constrained)
    elif constrained:
        answer.unruled[numbers[0]] = " ".join([str(error), *getattr(error, "__notes__", ())])
        _predict(extractor, texts, numbers, answer, False)
    else:
        answer.lost[numbers[0]] = str(error)
        answer.unruled.pop(numbers[0], None)


def _take(answer: Relaxed, numbers: list[int], found: list[list[str]]) -> None:
    for number, labels in zip(numbers, found, strict=True):
        answer.labels[number] = labels


def _rules(extractor: Extractor) -> list[Constraint]:
    """Those it predicts under: all, unless somebody asks what some of them do."""
    return [as_constraint(rule) for rule in extractor.ccm_.constraints]


@contextmanager
def _softened(extractor: Extractor) -> Iterator[None]:
    ccm, rules = extractor.ccm_, _rules(extractor)
    ccm.constraints = [c.penalty(INFINITE).named(c.name) if c.strength.kind in STRICT else c for c in rules]
    try:
        yield
    finally:
        ccm.constraints = rules


def _broken(extractor: Extractor, texts: Sequence[Document], labels: list[list[str]]) -> dict[int, list[str]]:
    """Place of a text -> hard rules that its labels break."""
    strict = [c for c in _rules(extractor) if c.strength.kind in STRICT]
    model = extractor.ccm_.model_
    batch = extractor.batch(texts, labels=False)
    codes = extractor.codes(labels)
    rows = soft_rows(strict, batch, model.label_names_, model.parts(batch))
    if not len(rows):
        return {}
    over = rows.excess(rows.evaluate(batch.with_labels(codes).labels))
    slack = np.array([c.strength.amount if c.strength.kind == Kind.SLACK else 0.0 for c in strict])
    found: dict[int, list[str]] = {}
    for row in np.flatnonzero(over > slack[rows.constraint]).tolist():
        names = found.setdefault(int(rows.instance[row]), [])
        name = rows.names[int(rows.constraint[row])]
        if name not in names:
            names.append(name)
    return found
