"""Which texts to label next: those whose fields are least certain, or whose rules and model disagree most.

uncertainty     1 − the probability of the least certain field
disagreement    share of the tokens whose label the rules change
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trellis.apps.extract.extractor import Extractor
from trellis.data.document import Document
from trellis.data.tokens import TextLike
from trellis.errors import counted


@dataclass(frozen=True)
class Suggestion:
    """A text to label: its number, the larger of uncertainty and disagreement, and why it was chosen."""

    number: int
    document: Document
    uncertainty: float
    disagreement: float

    @property
    def score(self) -> float:
        return max(self.uncertainty, self.disagreement)

    @property
    def reasons(self) -> list[str]:
        found = []
        unsure = sorted(
            (s for s in self.document.spans or () if s.probability is not None), key=lambda s: s.probability or 0
        )
        if unsure and self.uncertainty > 0.0:
            least = unsure[0]
            found.append(f"{least.label} {least.text!r:.40} has probability {least.probability:.2f}")
        if self.disagreement > 0.0:
            changed = round(self.disagreement * len(self.document))
            found.append(f"rules change {changed} of {counted(len(self.document), 'label')}")
        return found


def suggest(
    extractor: Extractor, texts: Iterable[TextLike], n: int = 10, *, labelled: Iterable[TextLike] = ()
) -> list[Suggestion]:
    """Return the ``n`` texts whose labels would be most informative, best first, without duplicates.

    Parameters
    ----------
    extractor : Extractor
        Trained extractor.
    texts : list of str, list of str or Document
        Unlabelled texts.
    n : int, default=10
        Number of texts.
    labelled : list of str, list of str or Document, default=()
        Texts that have labels already; they are not suggested. Those in which labels are missing may be.
    """
    done = {text.tokens for text in extractor.texts(labelled) if text.labels is not None and None not in text.labels}
    documents = [text for text in extractor.texts(texts) if len(text) and text.tokens not in done]
    found, alone = extractor.extract(documents), extractor.predict(documents, constrained=False)
    chosen: dict[tuple[str, ...], Suggestion] = {}
    for number, (document, plain) in enumerate(zip(found, alone, strict=True)):
        sure = [span.probability for span in document.spans or () if span.probability is not None]
        differs = sum(a != b for a, b in zip(document.labels or (), plain, strict=True)) / len(document)
        chosen.setdefault(document.tokens, Suggestion(number, document, 1.0 - min(sure, default=1.0), differs))
    return sorted(chosen.values(), key=lambda one: (-one.score, one.number))[:n]
