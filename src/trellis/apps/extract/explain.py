"""The rules of an extractor in words, with their penalties and effects.

utility of a rule   token accuracy with it alone, and with all rules but it      (Chang 2011, tables 3.7 and 3.8)

once for the trained model, where rules are changed in prediction only, and once for models that are trained again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.apps.extract.extractor import Extractor
from trellis.apps.extract.relaxed import predict_relaxed
from trellis.apps.extract.rule_places import RulePlaces
from trellis.constraints import Constraint
from trellis.constraints.strength import Kind
from trellis.data.bio import unmarked
from trellis.data.document import Document
from trellis.data.ragged import LabelArray
from trellis.data.tokens import TextLike
from trellis.errors import DataError, InfeasibleError

NONE, ALL = "(none)", "(all)"
STRENGTHS = {
    Kind.HARD: "hard", Kind.SLACK: "slack", Kind.PENALTY: "penalty", Kind.SQUARED: "squared penalty",
    Kind.LEARNED: "learned", Kind.KL: "KL penalty",
}  # fmt: skip


@dataclass(frozen=True)
class RuleReport:
    """One rule.

    sentence : what it says;  tested : number of places at which the labels given test it, or, without these, the output
    by_model, by_output, by_gold : how often the model alone, the model under the rules and the labels given violate it;
        by_gold is None without labels
    strength : "hard", "slack", "penalty", "squared penalty", "KL penalty" or "learned"
    penalty : ρ, learned or given; None for a rule that is hard or has slack;  slack : how much it has, else None
    dual : mean λ of the last projection, of PR and UEM
    """

    name: str
    sentence: str
    tested: int
    by_model: int
    by_output: int
    by_gold: int | None
    strength: str
    penalty: float | None
    slack: float | None
    dual: float | None


@dataclass(frozen=True)
class Utility:
    """Token accuracy with a rule alone and with all rules but this one; equal for "(none)" and "(all)"."""

    name: str
    alone: float
    without: float


def explain(extractor: Extractor, texts: Iterable[TextLike]) -> list[RuleReport]:
    """A report of every rule over the texts."""
    extractor._check_fitted()
    texts = extractor.texts(texts)
    model, constraints = extractor.ccm_.model_, extractor.constraints_
    if not any(len(t) for t in texts):
        raise DataError("there is no text to explain the rules on")
    if not constraints:
        return []
    names = extractor.label_names_
    known = {label for t in texts for label in unmarked(t.labels or (), names)} <= {None, *names}
    batch = extractor.batch(texts, labels=known)
    places = RulePlaces(constraints, batch, model.label_names_, model.parts(batch))
    by_model = places.tested(extractor.infer(texts, constrained=False).outputs)
    by_output = places.tested(_labels(extractor, texts))
    by_gold = places.tested(batch.labels) if np.all(batch.labels >= 0) else None
    return [
        RuleReport(
            name,
            constraint.describe(),
            round(float((by_output if by_gold is None else by_gold)[i].places.sum())),
            round(float(by_model[i].broken.sum())),
            round(float(by_output[i].broken.sum())),
            None if by_gold is None else round(float(by_gold[i].broken.sum())),
            STRENGTHS[constraint.strength.kind],
            _price(extractor, constraint, name),
            constraint.strength.amount if constraint.strength.kind == Kind.SLACK else None,
            extractor.ccm_.duals_.get(name),
        )
        for i, (name, constraint) in enumerate(zip(places.names, constraints, strict=True))
    ]


def _labels(extractor: Extractor, texts: Sequence[Document]) -> LabelArray:
    """Labels under the rules, also of texts that cannot satisfy them."""
    found = predict_relaxed(extractor, texts)
    for number, why in found.lost.items():
        raise InfeasibleError(f"text {number + 1} has no possible labelling: {why}", instances=(number,))
    return extractor.codes(found.labels)


def _accuracy(extractor: Extractor, texts: Sequence[Document]) -> float:
    """Share of the known labels that are found."""
    known = [(i, label) for i, label in enumerate(y for t in texts for y in _known(t)) if label is not None]
    found = _labels(extractor, texts).tolist()
    names = extractor.label_names_
    plain = unmarked([label for _, label in known], names)
    return float(np.mean([names[found[i] % len(names)] == label for (i, _), label in zip(known, plain, strict=True)]))


def _known(text: Document) -> Sequence[str | None]:
    return text.labels or (None,) * len(text)


def _price(extractor: Extractor, constraint: Constraint, name: str) -> float | None:
    kind = constraint.strength.kind
    if kind == Kind.LEARNED:
        return extractor.ccm_.penalties_[name]
    return constraint.strength.amount if kind in (Kind.PENALTY, Kind.SQUARED) else None


def utility(extractor: Extractor, texts: Iterable[TextLike]) -> list[Utility]:
    """Token accuracy with and without each rule in prediction; the model does not change."""
    extractor._check_fitted()
    texts = extractor.texts(texts)
    _need_labels(texts)

    def accuracy(left_out: Sequence[str]) -> float:
        kept = [c for c in extractor.constraints_ if c.name not in left_out]
        ccm = extractor.ccm_
        ccm.constraints = kept
        try:
            return _accuracy(extractor, texts)
        finally:
            ccm.constraints = extractor.constraints_

    return _table(extractor, accuracy)


def trained_utility(
    extractor: Extractor,
    labelled: Iterable[TextLike],
    unlabelled: Iterable[TextLike],
    texts: Iterable[TextLike],
    *,
    method: str | None = None,
    without: bool = True,
) -> list[Utility]:
    """Token accuracy of models trained with each set of rules on the given data; ``method`` None: the extractor's.

    without : whether to train with all rules but one too; NaN otherwise
    """
    labelled, unlabelled, texts = map(extractor.texts, (labelled, unlabelled, texts))
    _need_labels(texts)
    settings = extractor.get_params(deep=False)
    settings.update(verbose=False, **({} if method is None else {"method": method, "gamma": None}))

    def accuracy(left_out: Sequence[str]) -> float:
        return _accuracy(Extractor(**settings).fit(labelled, unlabelled=unlabelled, without=left_out), texts)

    return _table(extractor, accuracy, without)


def _table(extractor: Extractor, accuracy: Callable[[Sequence[str]], float], without: bool = True) -> list[Utility]:
    names = [c.name for c in extractor.constraints_]
    none, every = accuracy(names), accuracy(())
    rows = [Utility(NONE, none, none)]
    for name in names:
        alone = accuracy([other for other in names if other != name]) if len(names) > 1 else every
        rows.append(Utility(name, alone, accuracy([name]) if without else np.nan))
    return [*rows, Utility(ALL, every, every)]


def _need_labels(texts: Sequence[Document]) -> None:
    if not any(label is not None for t in texts for label in t.labels or ()):
        raise DataError("the utility of a rule is a difference in accuracy: give labelled texts to measure it on")
