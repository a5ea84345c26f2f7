"""Predictions for all texts, including those that cannot satisfy the rules.

If a text cannot satisfy a hard rule (such as one that asks for a year, where there is no number), its prediction
violates the hard rules as little as possible: they get a penalty that no score outweighs,

    ŷ = argmax_y  score(y) − Σ_soft ρ d(y) − 10⁶ Σ_hard d(y)

and the violated rules are listed. All other texts get the prediction of :meth:`Extractor.predict`.
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
    unruled : number of a text -> why the rules could not be evaluated; its output is that of the model alone
    lost : number of a text -> why it has no output
    inference : from which the labels come, if all texts can satisfy the rules
    """

    labels: list[list[str]]
    broken: dict[int, list[str]] = field(default_factory=dict)
    unruled: dict[int, str] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)
    inference: Inference | None = None


def predict_relaxed(extractor: Extractor, texts: Iterable[TextLike], *, constrained: bool = True) -> Relaxed:
    """A label for every token of every text, and the rules that had to be violated."""
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
    except ConstraintError as error:  # a regular expression that takes too long on some token
        if not constrained:
            raise
        _divide(extractor, texts, numbers, answer, constrained, error)


def _soften(extractor: Extractor, texts: Sequence[Document], numbers: list[int], answer: Relaxed) -> bool:
    """Make hard rules soft, keep the outputs that violate some, and start again with the other texts."""
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
        _take(answer, numbers, found)  # the soft search found an output that the strict one did not find
    return True


def _divide(
    extractor: Extractor,
    texts: Sequence[Document],
    numbers: list[int],
    answer: Relaxed,
    constrained: bool,
    error: InfeasibleError | ConstraintError,
) -> None:
    """Find the texts that fail, by bisection."""
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
    """Number of a text -> hard rules that its labels violate."""
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
