"""Check rules without training: where each applies in texts, and where labels violate it.

A rule applies at a token where its condition holds, or in a text whose labels it counts
(:mod:`trellis.apps.extract.rule_places`). Labels test it at the places from which penalties are learned
(:mod:`trellis.constraints.reduction`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trellis.apps.extract.rule_places import RulePlaces
from trellis.constraints import Constraint, RulesFile
from trellis.constraints.reduction import NO_SLOT, TestedPlaces, joined
from trellis.constraints.rows import COUPLING
from trellis.data.bio import unmarked
from trellis.data.corpus import corpus_of
from trellis.data.document import Document, excerpt
from trellis.data.ragged import IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.models import HMM

NOT_TESTED = joined([])
EXAMPLES = 3
"""At most this many places where labels violate a rule are listed."""


@dataclass(frozen=True)
class Place:
    """A place in a text: number of the text from 0, where it was read, and the characters around the token."""

    text: int | None
    path: str | None
    line: int | None
    excerpt: str

    def __str__(self) -> str:
        where = f"text {self.text + 1}" if self.text is not None else "all texts together"
        if self.path is not None:
            where = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{where}: {self.excerpt}" if self.excerpt else where


@dataclass(frozen=True)
class RuleCheck:
    """One rule in some texts.

    sentence : what it says;  places : where it applies, whatever the labels;  texts : how many texts these are in
    words : the tokens it concerns with their counts, most frequent first; only for rules about single tokens
    first : number of the first text, from 0, None where there is none
    tested : number of places at which labels test it;  broken : at how many of these they violate it; None where no
        text is labelled
    broken_at : the first of these
    """

    name: str
    sentence: str
    places: int
    texts: int
    words: tuple[tuple[str, int], ...]
    first: int | None
    tested: int
    broken: int | None
    broken_at: tuple[Place, ...] = ()


def check_rules(
    rules: RulesFile, texts: Sequence[Document], label_names: Vocabulary, *, examples: int = EXAMPLES
) -> list[RuleCheck]:
    """A report of every rule over the texts, in the order of the file; examples : places to list of each."""
    some = [number for number, text in enumerate(texts) if len(text)]
    if not some:
        raise DataError("there is no text to check the rules on")
    constraints: list[Constraint] = list(rules)
    sentences = (texts[n] for n in some)
    plain = (replace(s, labels=None if s.labels is None else unmarked(s.labels, label_names)) for s in sentences)
    corpus = corpus_of(plain, label_names=label_names)
    model = HMM(list(label_names), min_count=1)
    batch = model.encode(corpus, fit=True)
    known = np.flatnonzero(batch.complete)
    whole = batch.take(known)
    labelled = RulePlaces(constraints, whole, model.label_names_, model.parts(whole)) if len(whole) else None
    tests = None if labelled is None else labelled.tested(whole.labels)
    every = RulePlaces(constraints, batch, model.label_names_, model.parts(batch))
    words = batch.column("word").strings()
    found = []
    for number, constraint in enumerate(constraints):
        instances = every.instances(number)
        about = Counter(words[slot] for slot in every.about(number).tolist())
        test = NOT_TESTED if tests is None else tests[number]
        found.append(
            RuleCheck(
                constraint.name, constraint.describe(), int(every.n[number]), len(instances),
                tuple(about.most_common()), some[int(instances[0])] if len(instances) else None,
                round(float(test.places.sum())), None if tests is None else round(float(test.broken.sum())),
                tuple(
                    _place(texts, None if instance == COUPLING else some[int(known[instance])], token)
                    for instance, token in _broken_at(test, whole.offsets)[:examples]
                ),
            )
        )  # fmt: skip
    return found


def _broken_at(test: TestedPlaces, offsets: IntArray) -> list[tuple[int, int | None]]:
    """Instance (or COUPLING) and token of each violated unit, in order; None if it is not a single token."""
    units = np.flatnonzero(test.broken)
    pairs = zip(test.instance[units].tolist(), test.slot[units].tolist(), strict=True)
    return [(i, None if slot == NO_SLOT else slot - int(offsets[i])) for i, slot in pairs]


def _place(texts: Sequence[Document], number: int | None, token: int | None) -> Place:
    if number is None:
        return Place(None, None, None, "")
    text = texts[number]
    if token is None:
        return Place(number, text.path, text.line, excerpt(text))
    return Place(number, text.path, text.line_of(token), excerpt(text, token, token + 1))
